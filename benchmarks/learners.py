"""The learners for arms: what a decision takes against river's, and regret against the bound of Lai and Robbins.

    python -m benchmarks.learners [--write docs/learners.md]

Speed: decide and observe, or pull and update, in a plain Python loop over ten arms; candidates take turns, the best
of 9 counts. Regret: the slope against log t from 10⁵ to 10⁶ rounds, asking always, over the bound's Σ gap/kl.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable
from pathlib import Path

import numpy as np

import sparingly as sp
from benchmarks.documents import put_between
from benchmarks.timing import race

BEGIN, END = "<!-- learners: begin -->", "<!-- learners: end -->"
MEANS = [0.6] + [0.5] * 9
ROUNDS = 20_000
SLOPE_MEANS = [0.2, 0.1, 0.1, 0.1]

OURS = {  # and the policy of river that comes closest
    "UCB1": (sp.UCB1(10), "UCB"),
    "UCB1, forget=0.001": (sp.UCB1(10, forget=0.001), "UCB"),
    "MOSS": (sp.MOSS(10), "UCB"),
    "KLUCB": (sp.KLUCB(10), "BayesUCB"),
    "BettingUCB": (sp.BettingUCB(10), "BayesUCB"),
    "Thompson": (sp.Thompson(10), "ThompsonSampling"),
    "Thompson, forget=0.001": (sp.Thompson(10, forget=0.001), "ThompsonSampling"),
    "EpsilonGreedy": (sp.EpsilonGreedy(10), "EpsilonGreedy"),
}


def agent_rounds(learner: object) -> None:
    """decide and observe, with the default rule, which asks always as the budget is unlimited."""
    agent, draw = sp.Agent(learner, budget=np.inf, seed=0), random.Random(0).random
    for _ in range(ROUNDS):
        d = agent.decide()
        if d.ask:
            agent.observe(d, 1.0 if draw() < MEANS[d.action] else 0.0)


def river_policy(name: str) -> object:
    """A policy with its defaults."""
    from river import bandit, proba

    options = {
        "UCB": {"delta": 1.0},
        "BayesUCB": {},
        "ThompsonSampling": {"reward_obj": proba.Beta()},
        "EpsilonGreedy": {"epsilon": 0.1},
    }
    return getattr(bandit, name)(seed=0, **options[name])


def river_rounds(name: str) -> None:
    """pull and update."""
    policy, arms, draw = river_policy(name), list(range(len(MEANS))), random.Random(0).random
    for _ in range(ROUNDS):
        arm = policy.pull(arms)
        policy.update(arm, 1.0 if draw() < MEANS[arm] else 0.0)


def speed() -> list[str]:
    """A row for each learner."""
    calls: dict[str, tuple[Callable[[], object], int]] = {
        name: (lambda learner=learner: agent_rounds(learner), ROUNDS) for name, (learner, _) in OURS.items()
    }
    calls |= {
        name: (lambda name=name: river_rounds(name), ROUNDS)
        for name in dict.fromkeys(peer for _, peer in OURS.values())
    }
    for call, _ in calls.values():
        call()  # compiled, and loaded
    found = race(calls, turns=9)
    rows = ["| learner | decide and observe | river's | pull and update |", "|---|---|---|---|"]
    for name, (_, peer) in OURS.items():
        ours, theirs = found[name].best * 1e6, found[peer].best * 1e6
        rows.append(f"| {name} | {ours:.1f} µs | `{peer}` | {theirs:.1f} µs |")
    return rows


def kl(p: float, q: float) -> float:
    """Of two coins."""
    return p * math.log(p / q) + (1 - p) * math.log((1 - p) / (1 - q))


def slopes() -> list[str]:
    """A row for each learner: the slope over the bound's, with two standard errors."""
    best = max(SLOPE_MEANS)
    least = sum((best - m) / kl(m, best) for m in SLOPE_MEANS if m < best)
    rows = ["| learner | slope of regret over Lai and Robbins's | runs |", "|---|---|---|"]
    for learner, runs in ((sp.KLUCB(4), 100), (sp.Thompson(4), 40), (sp.BettingUCB(4), 40), (sp.UCB1(4), 40)):
        r = sp.simulate(
            sp.problems.Arms(SLOPE_MEANS), learner, sp.Always(explore="always"), np.inf,
            rounds=10**6, runs=runs, checkpoints=[10**5, 10**6], seed=1,
        )  # fmt: skip
        slope = (r.regret[:, 1] - r.regret[:, 0]) / math.log(10) / least
        error = 2 * slope.std(ddof=1) / math.sqrt(runs)
        rows.append(f"| {type(learner).__name__} | {slope.mean():.2f} ± {error:.2f} | {runs} |")
    return rows


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path, help="the document that gets the tables")
    options = parser.parse_args()
    text = "\n".join([*speed(), "", f"Four arms, {SLOPE_MEANS}, asking always:", "", *slopes()])
    print(text)
    if options.write:
        put_between(options.write, BEGIN, END, text)


if __name__ == "__main__":
    main()
