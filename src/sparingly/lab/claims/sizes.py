"""How worst regret grows with every size that the theorems name: A, S·A, Σ c, d, S, H and |L_R|.

Each is judged from below too, so a claim fails where a bound has lost a variable: then regret would not grow with it.
What cannot be seen at sizes that are affordable is seen in intervals and bonuses, along real runs.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sparingly.agent import Agent
from sparingly.budgets import Fixed
from sparingly.budgets import Linear as Steady
from sparingly.features import Features
from sparingly.lab.claims import statistics
from sparingly.lab.claims.adversaries import steps_in_turn
from sparingly.lab.claims.evidence import Evidence, Panel, claim
from sparingly.lab.claims.formulas import Episodes, Floats
from sparingly.lab.claims.panels import curve, mean_of_runs, means
from sparingly.lab.claims.runner import Runner
from sparingly.lab.claims.worst_case import Family, of_arms, worst_case_growth
from sparingly.lab.paper_policies import OFUL, UCB1, UCBVI, ULCVI, Always, ExactMatching
from sparingly.problems import Arms, ContextualArms, Episodic, Linear
from sparingly.rules import PaperMatching

JUDGED = (
    "The slope of the logarithm of the worst regret over gaps, over that of the size, must match the exponent from "
    "above and from below, up to a factor of {factor:g} over the whole range. Everything else stays the same."
)
FACTOR, WIDE, WIDEST = 1.5, 2.0, 3.0


@claim(
    "ucb/arms",
    "Under a fixed budget the worst regret grows like sqrt(A), up to logarithms of A.",
    source="Theorem 2, Proposition 1",
    judged=JUDGED.format(factor=WIDEST) + " With one good arm to find among A, the largest of A errors costs a root "
    "of log A more.",
    quick={"arms": (8, 32, 128), "budget": 12_800, "rounds": 64_000, "runs": 1_000},
    full={"arms": (8, 16, 32, 64, 128), "budget": 102_400, "rounds": 1_024_000, "runs": 400},
)
def in_arms(runner: Runner, arms: Sequence[int], budget: int, rounds: int, runs: int) -> Evidence:
    families, cases = [of_arms(A) for A in arms], [(Fixed(budget), rounds)] * len(arms)
    checks, panel = worst_case_growth(
        runner, families, (ExactMatching(),), "A", arms, cases, 0.5, runs, factor=WIDEST
    )  # fmt: skip
    return Evidence(tuple(checks), (panel,))


def of_contexts(contexts: int) -> Family:
    """Two arms in each context, which of them is better alternates."""
    better = np.where(np.arange(contexts)[:, np.newaxis] % 2 == np.arange(2), 0.5, -0.5)
    return Family(
        lambda gap: (ContextualArms(0.5 + gap * better), UCB1(2, contexts=contexts)),
        lambda B: math.sqrt(2.0 * contexts / B),
        largest=1.0,
    )


@claim(
    "ucb/cells",
    "With contexts the worst regret grows like the root of the number of cells, S·A.",
    source="Theorem 2, with contexts",
    judged=JUDGED.format(factor=FACTOR),
    quick={"contexts": (2, 8, 32), "budget": 12_800, "rounds": 64_000, "runs": 800},
    full={"contexts": (2, 8, 32, 128), "budget": 102_400, "rounds": 512_000, "runs": 400},
)
def in_cells(runner: Runner, contexts: Sequence[int], budget: int, rounds: int, runs: int) -> Evidence:
    families, cases = [of_contexts(S) for S in contexts], [(Fixed(budget), rounds)] * len(contexts)
    cells = [2 * S for S in contexts]
    checks, panel = worst_case_growth(
        runner, families, (ExactMatching(),), "S·A", cells, cases, 0.5, runs, factor=FACTOR
    )
    return Evidence(tuple(checks), (panel,))


def of_prices(costs: Sequence[float]) -> Family:
    """One arm, the middle and dearest one, better than the others."""
    better = np.arange(len(costs)) == len(costs) // 2
    return Family(
        lambda gap: (Arms(0.5 + gap * better, costs=costs), UCB1(len(costs), costs=costs)),
        lambda B: math.sqrt(sum(costs) / B),
        largest=0.5,
    )


@claim(
    "ucb/costs",
    "With unequal costs of asking the worst regret grows like the root of their sum, Σ c.",
    source="Theorem 2, Proposition 2",
    judged=JUDGED.format(factor=FACTOR) + " Four of five arms cost 1 each, and the fifth, the best, up to 76.",
    quick={"dearest": (1.0, 16.0, 76.0), "budget": 25_600, "rounds": 256_000, "runs": 3_000},
    full={"dearest": (1.0, 6.0, 16.0, 36.0, 76.0), "budget": 102_400, "rounds": 1_024_000, "runs": 3_000},
)
def in_costs(runner: Runner, dearest: Sequence[float], budget: int, rounds: int, runs: int) -> Evidence:
    prices = [(1.0, 1.0, price, 1.0, 1.0) for price in dearest]
    families, cases = [of_prices(costs) for costs in prices], [(Fixed(budget), rounds)] * len(prices)
    rules, sums = (ExactMatching(), PaperMatching()), [sum(costs) for costs in prices]
    checks, panel = worst_case_growth(runner, families, rules, "Σ c", sums, cases, 0.5, runs, factor=FACTOR)
    return Evidence(tuple(checks), (panel,))


@dataclass(frozen=True)
class Pairs(Features):
    """Two actions: a random one of the pairs of axes (0, 1), (2, 3), … ."""

    arms: int = 2

    def draw(self, random: np.random.Generator, first: int, count: int, grew: Any, dim: int) -> Floats:
        rows, t = np.zeros((count, 2, dim)), np.arange(count)
        pair = (random.random(count) * (dim // 2)).astype(np.int64)
        rows[t, 0, 2 * pair], rows[t, 1, 2 * pair + 1] = 1.0, 1.0
        return rows


def of_pairs(dim: int) -> Family:
    """The second axis of each pair pays more by the gap; standard normal noise."""
    better, learner = np.arange(dim) % 2 == 1, OFUL(dim, noise=1.0, norm=1.0, radius="simple")
    return Family(
        lambda gap: (Linear(gap * better, Pairs(), noise=1.0), learner),
        lambda B: dim / math.sqrt(B),
        largest=math.sqrt(2.0 / dim),
    )


@claim(
    "oful/dimension",
    "The worst regret of OFUL with R2 grows like d.",
    source="Theorem 3, Proposition 4",
    judged=JUDGED.format(factor=FACTOR),
    quick={"dims": (4, 8, 16), "share": 1.0, "rounds": 16_000, "runs": 100},
    full={"dims": (4, 8, 16, 32), "rounds": 64_000},
)
def in_dimension(runner: Runner, dims: Sequence[int], share: float, rounds: int, runs: int) -> Evidence:
    families, cases = [of_pairs(d) for d in dims], [(Steady(share), rounds)] * len(dims)
    checks, panel = worst_case_growth(
        runner, families, (ExactMatching(),), "d", dims, cases, 1.0, runs, factor=FACTOR
    )  # fmt: skip
    return Evidence(tuple(checks), (panel,))


def of_steps(states: int, horizon: int, scale: float) -> Family:
    """Uniform transitions, two actions, action 1 pays more by the gap at every step."""

    def build(gap: float) -> tuple[Any, Any]:
        P, R = np.full((horizon, states, 2, states), 1.0 / states), np.full((horizon, states, 2), 0.5)
        R[:, :, 1] += gap
        return Episodic(P, R), UCBVI(states, 2, horizon, scale=scale)

    return Family(build, lambda B: math.sqrt(2.0 * states * horizon / B), largest=0.5)


NOTE = (
    "Bonuses are scaled, by the same factor everywhere, so that n is large enough for the root in b^p to lead over the "
    "term with 1/n."
)


@claim(
    "ucbvi/states",
    "With all rewards the worst regret of UCBVI grows at least like sqrt(S), as the root in its bonus does, and less "
    "than like S, as the term with 1/n does.",
    source="Theorem 4",
    judged="The slope of the logarithm of the worst regret over gaps, over log S: above ½, up to a factor of "
    f"{FACTOR:g} over the range, and below 1. The root alone would lead only in runs that are too long for this.",
    quick={"states": (1, 2, 4, 8), "horizon": 2, "scale": 0.1, "rounds": 80_000, "runs": 20},
    full={"rounds": 640_000, "runs": 24},
)
def in_states(runner: Runner, states: Sequence[int], horizon: int, scale: float, rounds: int, runs: int) -> Evidence:
    families, cases = [of_steps(S, horizon, scale) for S in states], [(Steady(float(horizon)), rounds)] * len(states)
    (above, below), panel = worst_case_growth(
        runner, families, (Always(),), "S", states, cases, 0.5, runs, factor=FACTOR
    )  # fmt: skip
    linear = statistics.outcome_of(above.low, above.high, "≤", 1.0)
    above = replace(above, says="Always: regret grows with S at most like the power 1", bar=1.0, outcome=linear)
    return Evidence((above, below), (panel,), NOTE)


@claim(
    "ucbvi/horizon",
    "With all rewards the worst regret of UCBVI grows like H².",
    source="Theorem 4",
    judged=JUDGED.format(factor=WIDE),
    quick={"horizons": (2, 4, 8), "states": 2, "scale": 0.1, "rounds": 60_000, "runs": 24},
    full={"rounds": 240_000, "runs": 32},
)
def in_horizon(
    runner: Runner, horizons: Sequence[int], states: int, scale: float, rounds: int, runs: int
) -> Evidence:  # fmt: skip
    families = [of_steps(states, H, scale) for H in horizons]
    cases = [(Steady(float(H)), rounds) for H in horizons]
    checks, panel = worst_case_growth(
        runner, families, (Always(),), "H", horizons, cases, 2.0, runs, factor=WIDE
    )  # fmt: skip
    return Evidence(tuple(checks), (panel,), NOTE)


@claim(
    "ucbvi/rewarding",
    "CBM-UCBVI asks until CI^R is of the order sqrt(|L_R|/B): sqrt(B/|L_R|) times, if rewards are certain.",
    source="Theorem 4, Algorithm 5",
    judged="The slope of the logarithm of the asks over that of |L_R|, and over that of B, up to a factor of "
    f"{FACTOR:g} and {WIDE:g} over the range. In the regret it does not show at affordable sizes, where the term 10L/n "
    "of CI^R leads.",
    quick={"states": 16, "told": (1, 4, 16), "budgets": (1e5, 1e6, 1e7), "episodes": 150_000, "runs": 4},
    full={"episodes": 400_000},
)
def in_rewarding(
    runner: Runner, states: int, told: Sequence[int], budgets: Sequence[float], episodes: int, runs: int
) -> Evidence:
    def asks(rewarding: int, budget: float, stream: int) -> Floats:
        drive = steps_in_turn(UCBVI, states, 1, budget, episodes, rewarding)
        result = runner.simulate(
            drive.problem, drive.learner, PaperMatching(), Fixed(budget), rounds=episodes, runs=runs, stream=stream,
            checkpoints=1,
        )  # fmt: skip
        return np.asarray(result.asked[:, -1], dtype=np.float64)

    by_told = [asks(R, budgets[-1], place) for place, R in enumerate(told)]
    by_budget = [asks(told[0], B, len(told) + place) for place, B in enumerate(budgets)]
    checks = [
        *statistics.growth("asks grow with |L_R|", told, by_told, -0.5, FACTOR),
        *statistics.growth("asks grow with B", budgets, by_budget, 0.5, WIDE),
    ]
    panels = tuple(
        Panel(f"Asks over {what}", what, f"asks: {mean_of_runs([runs])}", (means("CBM-UCBVI", x, samples),))
        for what, x, samples in (("|L_R|", told, by_told), ("B", budgets, by_budget))
    )
    return Evidence(tuple(checks), panels)


def leading_bonuses(
    runner: Runner, make: Any, horizon: int, scale: float, episodes: int, seed: int
) -> tuple[float, float]:
    """Σ_h of the leading term of b^p along the last half of a run, and the visits from which it leads.

    Two states; one pays ¾, the other ¼, and the state changes with probability 1/H: values then vary as much as they
    can. There is one action, so the bonus can be read off the agent's values: b = V_h − rbar − P̄V_{h+1}. What is not
    the leading term, b^r and the terms with 1/n and, for ULCVI, with V_up − V_low, is taken off.
    """
    H, P = horizon, np.array([[1.0 - 1.0 / horizon, 1.0 / horizon], [1.0 / horizon, 1.0 - 1.0 / horizon]])
    learner, rule = runner.change(make(2, 1, H, scale=scale), Always())
    agent, random = Agent(learner, rule, budget=math.inf, seed=seed), np.random.default_rng([runner.seed, seed])
    book, total, needed = Episodes(2, 1, H, learner.delta, scale), 0.0, 0.0
    two_sided, steps = make is ULCVI, np.arange(H)
    for t in range(1, episodes + 1):
        agent.plan()
        states = np.zeros(H, dtype=int)
        states[0] = random.integers(2)
        for h in range(1, H):
            states[h] = random.choice(2, p=P[states[h - 1]])
        if 2 * t > episodes and (book.visits > 0).all():
            L, n = book.log_term(16.0 if two_sided else 12.0, t), book.visits[:, :, 0]
            V, low = (np.vstack([values, np.zeros(2)]) for values in agent.values)
            ahead = np.einsum("hsx,hx->hs", book.after[:, :, 0] / n[..., np.newaxis], V[1:])
            bonus = (V[:H] - book.average[:, :, 0] - ahead) / scale - book.reward_bonus(L)[:, :, 0]
            late = 44.0 * H * H * 2 if two_sided else 5.0 * H
            bonus -= late * L / n
            if two_sided:
                behind = np.einsum("hsx,hx->hs", book.after[:, :, 0] / n[..., np.newaxis], low[1:])
                bonus -= (ahead - behind) / (16.0 * H)
            at = bonus[steps, states] * np.sqrt(n[steps, states] / L)  # without what differs between runs
            total += float(at.sum())
            needed = max(needed, float(L * (late / max(at.max(), 1e-9)) ** 2))
        agent.decide_episode(states, np.zeros(H, dtype=int))
        rewards = 0.25 + 0.5 * states  # no value comes near its cut
        agent.observe_episode(rewards)
        book.see(states, np.zeros(H, dtype=int), np.ones(H, dtype=bool), rewards)
    return total, needed


@claim(
    "ulcvi/horizon",
    "Where values vary as much as they can, the leading bonuses of UCBVI over those of ULCVI, summed along a run, grow "
    "like sqrt(H).",
    source="Theorems 4 and 5 (sqrt(SAH⁴T) against sqrt(SAH³T))",
    judged="The bonus of each step is read off the agent's own values, less the terms that do not lead. The slope of "
    "the logarithm of the ratio of their sums over log H must be ½ from above and from below, up to a factor of "
    f"{FACTOR:g} over the range. The regrets themselves cannot show it: see the note.",
    quick={"horizons": (4, 8, 16, 32), "scale": 1e-8, "episodes": 200, "runs": 12},
    full={"horizons": (4, 8, 16, 32, 64), "episodes": 400, "runs": 16},
)
def gain_in_horizon(
    runner: Runner, horizons: Sequence[int], scale: float, episodes: int, runs: int
) -> Evidence:  # fmt: skip
    ratios, needed = [], []
    for H in horizons:
        both = [
            [leading_bonuses(runner, make, H, scale, episodes, seed) for seed in range(runs)] for make in (UCBVI, ULCVI)
        ]
        ratios.append(np.array([u[0] / v[0] for u, v in zip(*both, strict=True)]))
        needed.append(min(v[1] for v in both[1]))
    says = "leading bonuses of UCBVI over those of ULCVI grow with H"
    checks = statistics.growth(says, horizons, ratios, 0.5, FACTOR)
    scaled = np.sqrt(np.asarray(horizons, dtype=np.float64) / horizons[0])
    lines = (means("measured", horizons, ratios), curve("slope 0.5", horizons, ratios[0].mean() * scaled, role="fit"))
    panel = Panel("Leading bonuses", "H", f"UCBVI over ULCVI: {mean_of_runs([runs])}", lines)
    note = (
        "In the regret itself ULCVI's gain cannot be seen at affordable sizes: its term 44H²SL/n is the larger one "
        f"until a cell was visited {needed[0]:.1e} times with H = {horizons[0]}, and {needed[-1]:.1e} times with "
        f"H = {horizons[-1]}."
    )
    return Evidence(tuple(checks), (panel,), note)
