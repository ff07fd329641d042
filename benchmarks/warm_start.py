"""How many asks a warm start saves: 1,000 logged rows before the first decision, on real sets.

    python -m benchmarks.warm_start [--write docs/feedback.md]

The log has actions drawn at random and their rewards. Both agents then meet the same rounds, with the default rule and
a budget of one ask in five rounds. Counted are the asks before the first 500 rounds in a row that earn 95 % of what an
agent earns at the end of as many rounds that asks in each of them.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import sparingly as sp
from benchmarks.documents import put_between
from sparingly.problems import real

BEGIN, END = "<!-- warm start: begin -->", "<!-- warm start: end -->"
SETS = ("image_segments", "phishing", "digits", "breast_cancer")
LOGGED, ROUNDS, WINDOW, SEEDS = 1_000, 6_000, 500, 4


def fitted(table: real.Table, agent: sp.Agent, seed: int) -> None:
    """Teach a log of random actions."""
    random = np.random.default_rng([seed, 1])
    rows, actions = random.integers(len(table), size=LOGGED), random.integers(len(table.actions), size=LOGGED)
    agent.fit(
        actions.tolist(),
        [table.reveal(int(row), int(a)) for row, a in zip(rows, actions, strict=True)],
        [table.context(int(row)) for row in rows],
    )


def earned(table: real.Table, agent: sp.Agent, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Rewards and asks so far, round by round."""
    random = np.random.default_rng([seed, 2])
    rewards, asked = np.zeros(ROUNDS), np.zeros(ROUNDS)
    for t, row in enumerate(random.integers(len(table), size=ROUNDS)):
        d = agent.decide(table.context(int(row)))
        rewards[t] = table.reveal(int(row), d.index)
        if d.ask:
            agent.observe(d, float(rewards[t]))
        asked[t] = agent.ledger.spent
    return rewards, asked


def asks_needed(rewards: np.ndarray, asked: np.ndarray, level: float) -> float:
    """Asks before the first window that earns the level; all of them if none does."""
    means = np.convolve(rewards, np.full(WINDOW, 1 / WINDOW), "valid")
    reached = np.flatnonzero(means >= level)
    if reached.size == 0:
        return float(asked[-1])
    return float(asked[reached[0] - 1]) if reached[0] > 0 else 0.0


def measure(name: str) -> tuple[float, float, float]:
    """The level, and the mean numbers of asks without and with the log."""
    table, found = real.built_in(name), []
    for seed in range(SEEDS):
        always = sp.Agent(table.learner(), sp.Always(), budget=np.inf, seed=seed)
        level = 0.95 * earned(table, always, seed)[0][-2 * WINDOW :].mean()
        cold, warm = (sp.Agent(table.learner(), budget=sp.budgets.Linear(0.2), seed=seed) for _ in range(2))
        fitted(table, warm, seed)
        assert warm.ledger.spent == 0
        found.append((level, *(asks_needed(*earned(table, agent, seed), level) for agent in (cold, warm))))
    level, cold_asks, warm_asks = np.mean(found, axis=0)
    return float(level), float(cold_asks), float(warm_asks)


def main() -> None:
    """Measure, print, and write if asked to."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--write", type=Path, help="the document that gets the table")
    options = parser.parse_args()
    rows = [
        "| set | 95 % of what asking always earns | asks to get there | after 1,000 logged rows |",
        "|---|---|---|---|",
    ]
    for name in SETS:
        level, cold, warm = measure(name)
        rows.append(f"| {name} | {level:.3f} | {cold:,.0f} | {warm:,.0f} |")
        print(rows[-1], flush=True)
    if options.write:
        put_between(options.write, BEGIN, END, "\n".join(rows))


if __name__ == "__main__":
    main()
