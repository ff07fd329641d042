"""One model for all steps: what a budget of one size loses, and how that grows with the horizon."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from sparingly.agent import Agent
from sparingly.episodic.learner import log_term
from sparingly.episodic.stationary.learner import StationaryUCBVI
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Check, Evidence, Panel, claim
from sparingly.lab.claims.panels import Floats, mean_of_runs, means
from sparingly.lab.claims.runner import Runner
from sparingly.lab.claims.sizes import WIDE
from sparingly.lab.paper_policies import UCBVI, ExactMatching
from sparingly.theory.stationary import charged_for_budget

STATES = 2


def by_one_model(H: int) -> StationaryUCBVI:
    """The learner of the theorem: nothing is imagined, no reward counts as known, there is no discount."""
    return StationaryUCBVI(
        STATES, 1, H, by="action", known_after=None, discount=None, scale=1.0, slack=1.0, imagined_visits=0.0,
        imagined_answers=0.0, imagined_if_random=0.0, ties="first",
    )  # fmt: skip


def step_by_step(agent: Agent, H: int, random: np.random.Generator) -> None:
    """One episode of H steps: what is reached and whether a reward is 1 is drawn."""
    s = int(random.integers(STATES))
    for left in reversed(range(H)):
        agent.act(s)
        s = int(random.integers(STATES))
        d = agent.reached(s, truncated=left == 0)
        if d.ask:
            agent.observe(d, float(random.integers(2)))


def in_one_go(agent: Agent, H: int, random: np.random.Generator) -> None:
    """The same for a learner that has a model of every step."""
    agent.plan()
    asks = agent.decide_episode(random.integers(STATES, size=H), np.zeros(H, dtype=np.int64))
    agent.observe_episode(np.where(asks, random.integers(2, size=H), np.nan))


def spent(runner: Runner, learner: Any, budget: float, seed: int) -> Agent:
    """An agent that has played until its budget was spent."""
    changed, rule = runner.change(learner, ExactMatching())
    agent, random = Agent(changed, rule, budget=budget, seed=seed), np.random.default_rng([runner.seed, seed])
    episode: Callable[..., None] = step_by_step if isinstance(learner, StationaryUCBVI) else in_one_go
    for _ in range(int(4 * budget / learner.horizon)):
        if agent.ledger.left == 0:
            break
        episode(agent, learner.horizon, random)
    return agent


@claim(
    "ours/one-model",
    "With one model for all steps what an episode loses to the budget grows like H, and like the power 3/2 of H with a "
    "model of every step; exact matching spends all of the budget and is never refused.",
    source="R1 with one model for all steps, docs/paper.md",
    judged="Random paths are played until a fixed budget is spent. The slope of the logarithm of H·CI^R, the mean over "
    f"cells, over log H must be 1 and 3/2 from above and from below, up to a factor of {WIDE:g} over the range. In "
    "every cell CI^R must be at most what the theorem charges for a step that is declined; spent = B and no refusals "
    "(exact).",
    quick={"horizons": (2, 4, 8, 16), "asks": 500, "runs": 4},
    full={"runs": 8},
)
def one_model(runner: Runner, horizons: Sequence[int], asks: int, runs: int) -> Evidence:
    budget = float(STATES * max(horizons) * asks)
    lost: dict[str, list[Floats]] = {"one model": [], "a model of every step": []}
    refused, over, unspent = 0, 0.0, 0.0
    for H in horizons:
        for label, learner in (("one model", by_one_model(H)), ("a model of every step", UCBVI(STATES, 1, H))):
            agents = [spent(runner, learner, budget, seed) for seed in range(runs)]
            lost[label].append(np.array([H * float(agent.widths.mean()) for agent in agents]))
            refused += sum(agent.ledger.refused for agent in agents)
            unspent = max([unspent, *(float(agent.ledger.left) for agent in agents)])
            if label == "one model":
                logs = log_term(learner.log_constant, max(agent.decisions for agent in agents) + 1)
                charge = charged_for_budget(logs, budget, STATES, 1)
                over = max([over, *(float(agent.widths.max() / charge) for agent in agents)])
    checks: list[Check] = [
        statistics.exact("CI^R where it is declined, over what the theorem charges", over, "≤", 1.0),
        statistics.exact("refusals", refused, "=", 0),
        statistics.exact("what is left of the budget", unspent, "=", 0.0),
    ]
    for (label, samples), power in zip(lost.items(), (1.0, 1.5), strict=True):
        checks += statistics.growth(f"{label}: H·CI^R grows with H", horizons, samples, power, WIDE)
    lines = tuple(means(label, horizons, samples) for label, samples in lost.items())
    panel = Panel("Lost to the budget", "H", f"H·CI^R at the end: {mean_of_runs([runs])}", lines)
    gain = float(lost["a model of every step"][-1].mean() / lost["one model"][-1].mean())
    note = (
        f"With H = {horizons[-1]} a model of every step loses {gain:.1f} times as much an episode to the same budget; "
        f"sqrt(H) = {math.sqrt(horizons[-1]):.1f}, the rest comes from the term 10L/n of CI^R."
    )
    return Evidence(tuple(checks), (panel,), note)
