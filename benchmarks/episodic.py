"""How fast episodes are simulated: `python -m benchmarks.episodic`, or `make bench`.

One run, candidates in turns: the compiled loop against a C program of the same algorithm with the same random numbers,
and against the UCBVI of rlberry. S = 50, A = 4, H = 20; one problem is dense, the other sparse.
"""

from __future__ import annotations

import math
import random
import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

import sparingly as sp
from benchmarks import c_program
from benchmarks.timing import race, report
from sparingly.budgets import as_budget
from sparingly.episodic.simulator import EpisodicSimulator
from sparingly.problems import Episodic
from sparingly.randomness import keys

ROWS, COLUMNS = 5, 10
STATES, ACTIONS, HORIZON, START = ROWS * COLUMNS, 4, 20, 0
LEARNER = sp.UCBVI(STATES, ACTIONS, HORIZON, scale=0.05)
OURS = "sparingly, compiled loop"


def dense() -> Episodic:
    """Every state can follow every other: Dirichlet(1, …, 1) rows, the same at every step, and Bernoulli rewards."""
    draws = np.random.default_rng(0)
    P = draws.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
    return Episodic(P, draws.random((STATES, ACTIONS)), horizon=HORIZON, initial=START, name="dense")


def sparse() -> Episodic:
    """5 × 10 fields, four directions: 70% as wanted, 10% to each side, 10% stay; the reward is in the far corner."""
    P, R = np.zeros((STATES, ACTIONS, STATES)), np.zeros((STATES, ACTIONS))
    R[START], R[STATES - 1] = 0.05, 0.9
    moves = [(0, 1), (1, 0), (0, -1), (-1, 0)]
    for s in range(STATES):
        for a in range(ACTIONS):
            P[s, a, s] += 0.1
            for chance, (down, right) in ((0.7, moves[a]), (0.1, moves[a - 1]), (0.1, moves[(a + 1) % 4])):
                row, column = s // COLUMNS + down, s % COLUMNS + right
                inside = 0 <= row < ROWS and 0 <= column < COLUMNS
                P[s, a, row * COLUMNS + column if inside else s] += chance
    return Episodic(P, R, horizon=HORIZON, initial=START, name="sparse")


def ours(problem: Episodic, episodes: int) -> Callable[[], tuple[np.ndarray, float]]:
    """The compiled loop, asking always: the plays of each cell and the regret of simulate()'s first run."""
    simulator = EpisodicSimulator(problem, LEARNER, sp.Always(), as_budget(math.inf), np.array([episodes]), True)

    def run() -> tuple[np.ndarray, float]:
        record, _ = simulator.run_compiled(episodes, np.random.SeedSequence(0).spawn(1)[0], lambda done: None)
        return record.plays, float(record.regret[0])

    return run


def check_simulate(problem: Episodic, plays: np.ndarray, episodes: int) -> None:
    """What is raced is what the public call computes."""
    r = sp.simulate(problem, LEARNER, sp.Always(), math.inf, rounds=episodes, runs=1, checkpoints=1, jobs=1)
    assert np.array_equal(r.plays[0].ravel(), plays), "simulate() and the compiled loop disagree"


def race_engine() -> None:
    """The same plays as the C program, and how long they take; with time, more successors have been seen."""
    noise = keys(np.random.SeedSequence(0).spawn(1)[0].spawn(3)[1], 2)
    for problem in (dense(), sparse()):
        for episodes, turns in ((2_000, 15), (20_000, 4)):
            run = ours(problem, episodes)
            c = c_program.ucbvi(problem, LEARNER, START, episodes, noise)
            (plays, regret), (c_plays, c_regret) = run(), c()
            check_simulate(problem, plays, episodes)
            moved = float(np.abs(plays - c_plays).sum() / 2 / plays.sum())  # rounding may part them at a near tie
            assert moved < 0.01, f"the engine and the C program disagree about {moved:.1%} of the plays"
            assert moved > 0 or math.isclose(regret, c_regret, rel_tol=1e-9), "they disagree about the regret"
            timings = race({OURS: (run, episodes), "C, gcc -O3": (c, episodes)}, turns)
            title = f"UCBVI, {problem.name}, {episodes:,} episodes ({moved:.2%} of the plays differ)"
            report(title, timings, OURS, "episode")


def rlberry_parts() -> tuple[Any, Any, Any]:
    """rlberry's UCBVI, finite MDP and backward induction: compiled up to version 0.6, in plain Python after that."""
    import logging

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            from rlberry.agents.dynprog.utils import backward_induction_sd
            from rlberry.agents.ucbvi import UCBVIAgent
            from rlberry.envs.finite import FiniteMDP
        except ImportError:
            from rlberry.envs.finite_mdp import FiniteMDP
            from rlberry_scool.agents.dynprog.utils import backward_induction_sd
            from rlberry_scool.agents.ucbvi import UCBVIAgent
    logging.getLogger("rlberry_logger").setLevel(logging.ERROR)
    return UCBVIAgent, FiniteMDP, backward_induction_sd


def rlberry_worlds(problem: Episodic) -> dict[str, Any]:
    """The problem as rlberry's own environment, and with quicker draws: its own take more time than its agent."""
    _, finite_mdp, _ = rlberry_parts()

    class Theirs(finite_mdp):
        def _check(self) -> None:
            """Rows need to add up to 1 within 1e-15 there, which is less than rounding leaves."""

    class Quick(Theirs):
        def __init__(self, R: np.ndarray, P: np.ndarray) -> None:
            super().__init__(R, P, START)
            self.ladder, self.means, self.draw = np.cumsum(P, axis=2), R.tolist(), random.Random(0).random
            self.ladder[:, :, -1] = 2.0

        def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
            before = self.state
            self.state = int(self.ladder[before, action].searchsorted(self.draw(), side="right"))
            return self.state, 1.0 if self.draw() < self.means[before][action] else 0.0, False, False, {}

    P, R = problem.transitions()[0], problem.means[0]
    return {"": Theirs(R, P, START), ", quick world": Quick(R, P)}


def rlberry_candidates(problem: Episodic) -> dict[str, tuple[Callable[[], object], int]]:
    """All forms of rlberry's UCBVI. RTDP, real-time DP, is another algorithm: one step ahead, without a plan."""
    agent, _, _ = rlberry_parts()
    found = {}
    for world, environment in rlberry_worlds(problem).items():
        for form, options in (
            ("by step", {"stage_dependent": True}),
            ("one model", {"stage_dependent": False}),
            ("RTDP by step", {"stage_dependent": True, "real_time_dp": True}),
            ("RTDP, one model", {"stage_dependent": False, "real_time_dp": True}),
        ):
            policy = agent(environment, horizon=HORIZON, bonus_scale_factor=LEARNER.scale, **options)
            policy.fit(2)  # compiles, where it is compiled
            episodes = 200 if agent.__module__.startswith("rlberry.") else 4
            found[f"rlberry, {form}{world}"] = (partial(rlberry_episodes, policy, episodes), episodes)
    return found


def rlberry_episodes(policy: Any, episodes: int) -> None:
    """What `fit` does, without the plan that it makes at its end."""
    for _ in range(episodes):
        policy._run_episode()


def check_agreement(problem: Episodic) -> None:
    """rlberry's backward induction on the true problem finds the same optimal values."""
    _, _, backward_induction = rlberry_parts()
    V, Q = np.zeros((HORIZON, STATES)), np.zeros(problem.shape)
    backward_induction(Q, V, problem.means, problem.transitions())
    difference = float(np.abs(V - problem.optimal_values).max())
    assert difference < 1e-9, f"backward induction differs by {difference} from rlberry's"
    print(f"\nBackward induction here and in rlberry, {problem.name}: V* differs by at most {difference:.1e}")


def race_peers() -> None:
    """Per episode, against rlberry; only ours computes the regret as well."""
    try:
        rlberry_parts()
    except ImportError:
        print("  (rlberry is not installed: make peers)")
        return
    for problem in (dense(), sparse()):
        check_agreement(problem)
        timings = race({OURS: (ours(problem, 2_000), 2_000), **rlberry_candidates(problem)}, turns=5)
        report(f"UCBVI, {problem.name}, against rlberry", timings, OURS, "episode")


def main() -> None:
    """All of it."""
    race_engine()
    race_peers()


if __name__ == "__main__":
    main()
