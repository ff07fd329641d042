"""How fast episodes are simulated: `python -m benchmarks.episodic`, or `make bench`.

One run, candidates in turns: the compiled loop against a C program of the same algorithm with the same random
numbers, and against the UCBVI of rlberry.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

import sparingly as sp
from benchmarks import c_program
from benchmarks.timing import race, report
from sparingly.budgets import as_budget
from sparingly.engine.episodic_plan import EpisodicPlan
from sparingly.randomness import keys

ROWS, COLUMNS = 5, 10
STATES, ACTIONS, HORIZON, SCALE, START = ROWS * COLUMNS, 4, 20, 0.05, 0


def random_mdp() -> sp.problems.Episodic:
    """Every state may follow every cell: Dirichlet(1, …, 1) rows, the same at every step; Bernoulli rewards."""
    random = np.random.default_rng(0)
    P = random.dirichlet(np.ones(STATES), size=(STATES, ACTIONS))
    return sp.problems.Episodic(P, random.random((STATES, ACTIONS)), horizon=HORIZON, initial=START, name="dense")


def grid() -> sp.problems.Episodic:
    """5 by 10 fields, four directions: 70% as wanted, 10% to each side, 10% stay; a reward in the far corner."""
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
    return sp.problems.Episodic(P, R, horizon=HORIZON, initial=START, name="sparse")


def ours(problem: sp.problems.Episodic, episodes: int) -> Callable[[], tuple[np.ndarray, float]]:
    """The compiled loop, asking always, with the random numbers of simulate()'s first run."""
    plan = EpisodicPlan(problem, learner(), sp.Always(), as_budget(math.inf), np.array([episodes]), True)

    def run() -> tuple[np.ndarray, float]:
        record, _ = plan.run_compiled(episodes, np.random.SeedSequence(0).spawn(1)[0], lambda done: None)
        return record.plays, float(record.regret[0])

    return run


def learner() -> sp.UCBVI:
    """UCBVI with bonuses as they serve practice."""
    return sp.UCBVI(STATES, ACTIONS, HORIZON, scale=SCALE)


def race_engine() -> None:
    """S = 50, A = 4, H = 20: a dense and a sparse problem, asking always."""
    noise = keys(np.random.SeedSequence(0).spawn(1)[0].spawn(3)[1], 2)
    for problem in (random_mdp(), grid()):
        for episodes in (2_000, 20_000):
            run = ours(problem, episodes)
            c = c_program.ucbvi(problem, learner(), START, episodes, noise, dense=problem.name == "dense")
            (plays, regret), (c_plays, c_regret) = run(), c()
            apart = np.abs(plays - c_plays).sum() / 2 / plays.sum()
            print(apart, regret, c_regret)
            timings = race({"sparingly, compiled loop": (run, episodes), "C, gcc -O3": (c, episodes)}, turns=7)
            report(f"UCBVI, {problem.name}, {episodes:,} episodes", timings, "sparingly, compiled loop")


def main() -> None:
    """All of it."""
    race_engine()


if __name__ == "__main__":
    main()
