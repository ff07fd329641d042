"""How fast linear bandits are simulated and decided: `python -m benchmarks.linear`, or `make bench`.

One run, candidates in turns: the compiled loop against a C program of the same algorithm on the same features and
noise, and the Agent against the LinUCB of river (and of contextualbandits, where it is installed).
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial

import numpy as np
from sparingly.families import linear

import sparingly as sp
from benchmarks import c_program
from benchmarks.timing import race, report
from sparingly.ledger import UNLIMITED
from sparingly.linear import fixed_set as loop
from sparingly.linear.family import LinearFamily, make_memory
from sparingly.problems.linear import TrueLinear
from sparingly.randomness import keys
from sparingly.simulation.record import SO_FAR, new_record

ARMS, NOISE, DELTA = 20, 0.1, 0.05


def unit_rows(random: np.random.Generator, *shape: int) -> np.ndarray:
    """Random directions."""
    values = random.normal(size=shape)
    return values / np.linalg.norm(values, axis=-1, keepdims=True)


def ours(features: np.ndarray, theta: np.ndarray, rounds: int, key: np.uint64) -> Callable[[], np.ndarray]:
    """The compiled loop, asking always."""
    fixed_set = features.shape[0] == 1
    arms, d = features.shape[1:]
    tape = np.full(rounds, UNLIMITED, dtype=np.int64)

    def run() -> np.ndarray:
        learner = sp.OFUL(d, noise=NOISE, delta=DELTA)
        words = make_memory(LinearFamily.make_pair(learner, sp.Always()), learner, np.uint64(0), together=True)
        record = new_record(np.array([rounds]), arms)
        kept, truth = arms if fixed_set else 0, TrueLinear(theta, NOISE, key, False)
        fixed = loop.FixedSet(np.zeros(kept), np.zeros(kept), np.zeros(kept), np.full(1, -1))
        if fixed_set:
            loop.begin(words, features[0], fixed, truth)
        loop.run_block(words, None, truth, record, np.zeros(1, dtype=SO_FAR), features, fixed, tape, 1)
        return record.plays

    return run


def race_engine() -> None:
    """A = 20, d = 16 and 64, features that change and a fixed set, asking always."""
    for d, rounds in ((16, 4_000), (64, 1_000)):
        random = np.random.default_rng(d)
        theta, key = unit_rows(random, d), keys(np.random.SeedSequence(0), 1)[0]
        for title, features in (
            ("features change", unit_rows(random, rounds, ARMS, d)),
            ("fixed set", unit_rows(random, 1, ARMS, d)),
        ):
            run = ours(features, theta, rounds, key)
            c = c_program.oful(rounds, features if title != "fixed set" else features[0], theta, key, NOISE, DELTA)
            most = np.abs(run() - c()).max() / rounds  # rounding may part them at a near tie
            timings = race({"sparingly, compiled loop": (run, rounds), "C, gcc -O3": (c, rounds)})
            title = f"OFUL, d = {d}, A = {ARMS}, {title} (plays differ by at most {most:.1%} of the rounds)"
            report(title, timings, "sparingly, compiled loop")


def agent_rounds(X: np.ndarray) -> None:
    """The Agent in a plain Python loop, asking always."""
    agent = sp.Agent(sp.OFUL(X.shape[2], noise=NOISE), rule=sp.Always(), budget=np.inf, seed=0)
    for features in X:
        agent.observe(agent.decide(features).id, 0.5)


def river_rounds(X: np.ndarray) -> None:
    """river's LinUCBDisjoint: pull and update, with one context for all arms."""
    from river import bandit

    policy = bandit.LinUCBDisjoint(alpha=1.0, seed=0)
    arms = list(range(X.shape[1]))
    for features in X:
        context = dict(enumerate(features[0].tolist()))
        policy.update(policy.pull(arms, context=context), context, 0.5)


def contextualbandits_rounds(X: np.ndarray) -> None:
    """contextualbandits' LinUCB: predict and partial_fit, with one context for all arms."""
    from contextualbandits.online import LinUCB

    policy = LinUCB(nchoices=X.shape[1], alpha=1.0, fit_intercept=False, beta_prior=None, random_state=1)
    reward = np.array([0.5])
    for features in X:
        context = features[:1]
        policy.partial_fit(context, policy.predict(context), reward)


def check_agreement() -> None:
    """LinUCB with one ridge regression per arm is OFUL with one block of features per arm and a radius of 1."""
    from contextualbandits.online import LinUCB

    arms, d, alpha, random = 3, 4, 0.7, np.random.default_rng(0)
    X, played, rewards = unit_rows(random, 500, d), random.integers(0, arms, 500), random.random(500)
    peer = LinUCB(nchoices=arms, alpha=alpha, lambda_=1.0, fit_intercept=False, beta_prior=None, use_float=False)
    words = linear.remember(sp.OFUL(arms * d, noise=0.0, scale=alpha), sp.Always(), np.uint64(0), together=True)
    m, largest = linear.open_memory(words), 0.0
    for x, a, r in zip(X, played, rewards, strict=True):
        features = np.kron(np.eye(arms), x)
        if peer.is_fitted:
            index = features @ m.theta + alpha * np.sqrt(np.einsum("ij,jk,ik->i", features, m.known.inverse, features))
            largest = max(largest, float(np.abs(index - peer.decision_function(x[np.newaxis])[0]).max()))
        peer.partial_fit(x[np.newaxis], np.array([a]), np.array([r]))
        linear.learn(words, features[a], float(r))
    assert largest < 1e-9, f"OFUL and contextualbandits' LinUCB differ by {largest}"
    print(f"\nOFUL and the LinUCB of contextualbandits: 500 rounds, indices differ by at most {largest:.1e}")


def race_peers() -> None:
    """Decide and update: one decision at a time, and in the simulator."""
    X = unit_rows(np.random.default_rng(0), 400, ARMS, 16)
    others = {}
    for name, call in (("river LinUCBDisjoint", river_rounds), ("contextualbandits LinUCB", contextualbandits_rounds)):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                call(X[:2])
        except ImportError:
            print(f"  ({name} is not installed: make peers)")
        else:
            others[name] = (partial(call, X), len(X))
    if "contextualbandits LinUCB" in others:
        check_agreement()
    simulated = ours(X, X[0, 0], len(X), np.uint64(0))
    for name, candidate in (
        ("sparingly, Agent (decide and observe)", partial(agent_rounds, X)),
        ("sparingly, compiled loop", simulated),
    ):
        timings = race({name: (candidate, len(X)), **others}, turns=4)
        report("One decision and one update, d = 16, A = 20", timings, name)


def main() -> None:
    """All of it."""
    race_engine()
    race_peers()


if __name__ == "__main__":
    main()
