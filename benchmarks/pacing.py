"""What a decision with a reserve and a pace costs, against one with exact matching: `python -m benchmarks.pacing`.

The same rounds for both, under a budget that grows evenly, so that both decline most of them; then a billion rounds.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

import sparingly as sp
from benchmarks.timing import race

RULES = {"exact": sp.ExactMatching(), "balanced": sp.BalancedMatching()}
BUDGET = sp.budgets.Linear(0.05)


def decisions(learner: Any, contexts: list[Any], rule: Any) -> Callable[[], None]:
    """An agent that decides and is answered."""

    def run() -> None:
        agent = sp.Agent(learner, rule, BUDGET, seed=0)
        for context in contexts:
            d = agent.decide(context)
            if d.ask:
                agent.observe(d.id, 0.5)

    return run


def simulation(problem: Any, learner: Any, rule: Any, rounds: int, budget: Any = BUDGET) -> Callable[[], object]:
    """A run of the simulator."""
    return lambda: sp.simulate(problem, learner, rule, budget, rounds=rounds, runs=1, checkpoints=1, jobs=1)


def races() -> dict[str, tuple[dict[str, Callable[[], object]], int]]:
    """Name, a call for each rule, and the rounds that it plays."""
    random = np.random.default_rng(0)
    numbers, rows = random.integers(20, size=3_000).tolist(), {d: random.normal(size=(200, 20, d)) for d in (16, 64)}
    rows = {d: x / np.linalg.norm(x, axis=2, keepdims=True) for d, x in rows.items()}
    made: dict[str, tuple[dict[str, Any], int]] = {
        "Agent, ten arms": ({n: decisions(sp.UCB1(10), [None] * 3_000, r) for n, r in RULES.items()}, 3_000),
        "Agent, 20 contexts": ({n: decisions(sp.UCB1(5, 20), numbers, r) for n, r in RULES.items()}, 3_000),
    }
    for d, x in rows.items():
        made[f"Agent, OFUL, d = {d}"] = ({n: decisions(sp.OFUL(d), list(x), r) for n, r in RULES.items()}, len(x))
    contexts, one = sp.problems.ContextualArms(random.random((20, 5))), sp.problems.Arms([0.6] + [0.5] * 9)
    mdp, ucbvi = sp.problems.random_mdp(20, 3, 5, seed=0), sp.UCBVI(20, 3, 5, scale=0.05)
    linear = {d: sp.problems.Linear(np.full(d, d**-0.5), sp.features.Sphere(20)) for d in rows}
    for name, problem, learner, rounds in (
        ("simulate, ten arms", one, sp.UCB1(10), 300_000),
        ("simulate, 20 contexts", contexts, sp.UCB1(5, 20), 200_000),
        ("simulate, OFUL, d = 16", linear[16], sp.OFUL(16), 4_000),
        ("simulate, OFUL, d = 64", linear[64], sp.OFUL(64), 1_000),
        ("simulate, episodes", mdp, ucbvi, 5_000),
    ):
        made[name] = ({n: simulation(problem, learner, r, rounds) for n, r in RULES.items()}, rounds)
    return made


def main() -> None:
    """Race, then play a billion rounds."""
    for name, (calls, rounds) in races().items():
        for call in calls.values():
            call()  # compiles
        found = race({rule: (call, rounds) for rule, call in calls.items()}, turns=9)
        exact, ours = found["exact"], found["balanced"]
        print(f"{name:24} exact {exact}   balanced {ours}   {ours.best / exact.best:.2f} ×", flush=True)
    one = sp.problems.Arms([0.6] + [0.5] * 9)
    for label, budget in (("10,000 asks at once", 10_000), ("B(t) = 10·t^0.7", sp.budgets.Polynomial(0.7, 10.0))):
        for name, rule in RULES.items():
            start = time.perf_counter()
            result = sp.simulate(one, sp.UCB1(10), rule, budget, rounds=10**9, runs=1, checkpoints=1, jobs=1)
            took = time.perf_counter() - start
            print(f"10⁹ rounds, {label}: {name} {took:.1f} s, {int(result.asked[0, -1]):,} asks", flush=True)


if __name__ == "__main__":
    main()
