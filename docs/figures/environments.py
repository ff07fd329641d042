"""Draws the figures of docs/environments.md, and prints what it says of them: `python docs/figures/environments.py`.

What episodes return while an agent with one model for all steps learns within its budget, and while Q-learning learns,
which sees every reward. With names, only those: python docs/figures/environments.py taxi. Some minutes in all.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

import sparingly as sp
from sparingly.lab.styles import COLOURS, GREY

ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(ROOT)]

from benchmarks.gridworlds import CASES, Case  # noqa: E402  (the path comes first)
from benchmarks.large import LARGE  # noqa: E402

SEEDS = 5
RATES = (0.1, 0.5, 1.0)  # of Q-learning; the best one is shown
GUIDES: dict[str, tuple[Case, int, int, int, tuple[float, ...]]] = {  # environment, budget, steps, seeds, rates
    "frozen_lake": (next(c for c in CASES if c.title == "FrozenLake 4x4"), 300, 40_000, SEEDS, RATES),
    "cliff_walking": (next(c for c in CASES if c.title == "CliffWalking"), 400, 6_000, SEEDS, RATES),
    "taxi": (next(c for c in CASES if c.title == "Taxi"), 8_000, 60_000, SEEDS, RATES),
    "large_lake": (LARGE["a slippery lake of 2,500 states"], 100_000, 1_000_000, 1, RATES[:1]),
}
Episode = tuple[int, float, float]  # steps and asks so far, and what the episode has returned


def play(case: Case, seed: int, most: int, act: Callable[[int], int], learn: Callable[..., float]) -> Iterator[Episode]:
    """Episode by episode; `learn` is told what came of each step, and returns the asks so far."""
    env, steps, asks = case.make(), 0, 0.0
    while steps < most:
        s, h, total, going = int(env.reset(seed=None if steps else seed)[0]), 0, 0.0, True
        while going:
            a = act(s)
            after, reward, ended, cut, _ = env.step(a)
            h, total = h + 1, total + float(reward)
            going = not (ended or cut or h == case.horizon)
            asks = learn(s, a, int(after), float(reward), ended, not going)
            s = int(after)
        steps += h
        yield steps, asks, total


def ours(case: Case, seed: int, most: int, budget: int) -> tuple[Iterator[Episode], sp.Agent]:
    """An agent that asks within its budget."""
    env = case.make()
    S, A = int(env.observation_space.n), int(env.action_space.n)
    learner = sp.StationaryUCBVI(S, A, case.horizon, rewards=case.rewards, returns=case.returns)
    agent = sp.Agent(learner, budget=budget, seed=seed)

    def learn(s: int, a: int, after: int, reward: float, ended: bool, over: bool) -> float:
        d = agent.reached(after, terminated=ended, truncated=over)
        if d.ask:
            agent.observe(d, reward)
        return float(agent.ledger.spent)

    return play(case, seed, most, agent.act, learn), agent


def q_learning(case: Case, seed: int, most: int, rate: float) -> Iterator[Episode]:
    """Q-learning that sees every reward: ε-greedy (0.1), γ = 0.99, from optimistic values."""
    env, random = case.make(), np.random.default_rng(seed)
    S, A = int(env.observation_space.n), int(env.action_space.n)
    Q = np.full((S, A), max(case.rewards[1], 0.0) if case.returns[1] > 1.0 else case.returns[1])
    asks = 0

    def act(s: int) -> int:
        return int(random.integers(A)) if random.random() < 0.1 else int(Q[s].argmax())

    def learn(s: int, a: int, after: int, reward: float, ended: bool, over: bool) -> float:
        nonlocal asks
        asks += 1
        Q[s, a] += rate * (reward + (0.0 if ended else 0.99 * Q[after].max()) - Q[s, a])
        return float(asks)

    return play(case, seed, most, act, learn)


def curve(episodes: Sequence[Episode], edges: np.ndarray) -> np.ndarray:
    """The mean return of the episodes that end between these numbers of steps; NaN where there is none."""
    steps, returns = np.array([e[0] for e in episodes]), np.array([e[2] for e in episodes])
    place = np.digitize(steps, edges) - 1
    inside = (place >= 0) & (place < edges.size - 1)
    count = np.bincount(place[inside], minlength=edges.size - 1)
    total = np.bincount(place[inside], weights=returns[inside], minlength=edges.size - 1)
    return np.divide(total, count, out=np.full(count.size, np.nan), where=count > 0)


def last_tenth(runs: Sequence[Sequence[Episode]], most: int) -> float:
    """The mean return in the last tenth of the steps."""
    return float(np.mean([np.mean([e[2] for e in run if e[0] > 0.9 * most]) for run in runs]))


def draw(name: str) -> None:
    """The figure of one environment, and a line about it."""
    case, budget, most, seeds, rates = GUIDES[name]
    mine = [list(ours(case, seed, most, budget)[0]) for seed in range(seeds)]
    theirs = {rate: [list(q_learning(case, seed, most, rate)) for seed in range(seeds)] for rate in rates}
    best = max(rates, key=lambda rate: last_tenth(theirs[rate], most))
    asks, seen = np.mean([run[-1][1] for run in mine]), np.mean([run[-1][1] for run in theirs[best]])
    print(
        f"{name}: optimum {case.truth.best:.3g}; last tenth of {most:,} steps: {last_tenth(mine, most):.3g} from "
        f"{asks:,.0f} rewards, Q-learning (rate {best:g}) {last_tenth(theirs[best], most):.3g} from {seen:,.0f}"
    )
    edges = np.geomspace(case.horizon, most, 25)
    figure = Figure(figsize=(7.5, 3.6), layout="constrained")
    axes: Any = figure.subplots()
    for label, runs, colour, dash in (
        (f"one model for all steps, {asks:,.0f} rewards asked for", mine, COLOURS[0], "-"),
        (f"Q-learning, all {seen:,.0f} rewards", theirs[best], COLOURS[1], "--"),
    ):
        lines = np.array([curve(run, edges) for run in runs])
        lines, middle = lines[:, shown := ~np.isnan(lines).any(axis=0)], np.sqrt(edges[1:] * edges[:-1])
        axes.plot(middle[shown], lines.mean(axis=0), dash, color=colour, label=label)
        axes.fill_between(middle[shown], lines.min(axis=0), lines.max(axis=0), color=colour, alpha=0.15, lw=0)
    axes.axhline(case.truth.best, color=GREY, lw=1, ls=":", label="the optimum")
    axes.set(xscale="log", xlabel="steps", ylabel="return of an episode")
    if min(case.rewards) < 0:
        axes.set_yscale("symlog", linthresh=10)
    axes.legend(frameon=False, fontsize=9)
    figure.savefig(Path(__file__).parent / f"environment_{name}.png", dpi=160)


def main(names: Sequence[str]) -> None:
    """Draw these figures, or all."""
    matplotlib.rcParams["font.size"] = 10
    for name in names or GUIDES:
        if name not in GUIDES:
            sys.exit(f"there is no {name}; there are {', '.join(GUIDES)}")
        draw(name)


if __name__ == "__main__":
    main(sys.argv[1:])
