"""The worst case over the gap between actions: a pilot finds it, fresh runs measure it.

A policy loses at most the gap times T, so tiny gaps cost little, and a large gap is soon learned: the worst gap lies
between. A pilot tries gaps from half of what the budget can just tell apart up to the largest, each twice the one
before. If there are enough runs, a second pilot compares the three that cost most. The worst gap is then simulated with
other seeds, so that having chosen it does not bias the measurement.

The order of growth shows only if nothing else interferes. The paper's rule asks about an arm B/(16A) times, rounded up.
With two or three asks, rounding and ties decide, so the smallest budget of the profiles pays for twenty, and the good
arm is in the middle, where breaking ties by lowest index helps as often as it hurts. With asks in most rounds, T limits
regret, not B, so the largest budget of the profiles is T/10.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparingly.budgets import Schedule
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Check, Curve, Panel
from sparingly.lab.claims.panels import Floats, curve, mean_of_runs, means, name
from sparingly.lab.claims.runner import Runner
from sparingly.lab.paper_policies import OFUL, UCB1
from sparingly.problems import Arms, Episodic, Linear, hypercube

PILOT, SECOND_PILOT = 1_000, 2_000  # their streams begin here
HORIZONS = (16_000, 128_000, 1_024_000)
LONGER = (16_000, 64_000, 256_000, 1_024_000, 4_096_000)
FACTOR = 1.5  # if no logarithm is allowed for: how far a rule may be off over the whole range
JUDGED = (
    "The slope of the logarithm of regret over that of what is varied must match the exponent for every rule, from "
    "above and from below: with T up to one logarithm, as bounds have logarithms of T; with anything else up to a "
    f"slope that makes a difference of a factor of {FACTOR} over the whole range. Each point has the gap that is worst "
    "for it, found by a pilot."
)


@dataclass(frozen=True)
class Family:
    """Problems that differ only in their gap, and the learner for them."""

    make: Callable[[float], tuple[Any, Any]]  # gap → problem, learner
    unit: Callable[[float], float]  # B → the gap that B asks can just tell apart
    largest: float

    def gaps(self, budget: float) -> list[float]:
        """From half the unit up to the largest, each twice the one before."""
        smallest = min(0.5 * self.unit(max(budget, 1.0)), self.largest)
        steps = math.ceil(math.log2(self.largest / smallest)) if smallest < self.largest else 0
        return [smallest * 2.0**k for k in range(steps)] + [self.largest]


def of_arms(arms: int) -> Family:
    """One arm, the middle one, better than all others, Bernoulli rewards, UCB1."""
    better = np.arange(arms) == arms // 2
    return Family(lambda gap: (Arms(0.5 + gap * better), UCB1(arms)), lambda B: math.sqrt(arms / B), largest=0.5)


def of_directions(dim: int) -> Family:
    """θ = ±gap in each coordinate, all of {−1, 1}^d as actions, standard normal noise, OFUL."""
    signs = np.where(np.arange(dim) % 2 == 0, 1.0, -1.0)
    arms, learner = hypercube(dim, 1).arms, OFUL(dim, noise=1.0, length=math.sqrt(dim), norm=1.0, radius="simple")
    return Family(
        lambda gap: (Linear(gap * signs, arms, noise=1.0), learner), lambda B: 1.0 / math.sqrt(B), largest=1.0 / dim
    )


def of_episodes(make: Callable[..., Any], sparse: bool = False) -> Family:
    """Two states, two actions, two steps, uniform transitions; action 1 pays more by the gap.

    Sparse: there is a reward in one state at the first step only, and the learner knows in how many cells.
    """

    def build(gap: float) -> tuple[Any, Any]:
        P, R = np.full((2, 2, 2, 2), 0.5), np.full((2, 2, 2), 0.5)
        R[:, :, 1] += gap
        if sparse:
            R[1], R[0, 1] = 0.0, 0.0
        problem = Episodic(P, R, initial=0 if sparse else None)
        return problem, make(2, 2, 2, rewarding=problem.rewarding)

    return Family(build, lambda B: math.sqrt(8.0 / B), largest=0.5)


def pilot(
    runner: Runner, family: Family, rule: Any, schedule: Schedule, rounds: int, runs: int, stream: int = 0
) -> dict[float, Floats]:
    """The regrets of a few runs for every gap."""
    return {
        gap: regrets_at_gap(runner, family, gap, rule, schedule, rounds, runs, PILOT + stream)
        for gap in family.gaps(schedule(rounds))
    }


def worst_regrets(
    runner: Runner, family: Family, rule: Any, schedule: Schedule, rounds: int, runs: int, stream: int = 0
) -> Floats:
    """The regrets of fresh runs for the gap that costs most, found by two pilots with up to 40 and 200 runs per gap."""
    first, second = (max(min(runs // part, most), 4) for part, most in ((10, 40), (4, 200)))
    tried = pilot(runner, family, rule, schedule, rounds, first, stream)
    if second > first:
        leading = sorted(tried, key=lambda gap: -float(tried[gap].mean()))[:3]
        tried = {
            gap: regrets_at_gap(runner, family, gap, rule, schedule, rounds, second, SECOND_PILOT + stream)
            for gap in leading
        }
    return regrets_at_gap(runner, family, worst_gap(tried.items()), rule, schedule, rounds, runs, stream)


def worst_gap(tried: Iterable[tuple[float, Floats]]) -> float:
    """The gap with the largest mean regret."""
    return max(tried, key=lambda pair: float(pair[1].mean()))[0]


def regrets_at_gap(
    runner: Runner, family: Family, gap: float, rule: Any, schedule: Schedule, rounds: int, runs: int, stream: int
) -> Floats:
    """The regrets of the runs for one gap."""
    problem, learner = family.make(gap)
    result = runner.simulate(problem, learner, rule, schedule, rounds=rounds, runs=runs, stream=stream, checkpoints=1)
    final: Floats = result.regret[:, -1]
    return final


def worst_case_growth(
    runner: Runner, family: Family | Sequence[Family], rules: Sequence[Any], what: str, x: Sequence[float],
    cases: Sequence[tuple[Schedule, int]], exponent: float, runs: int, stream: int = 0, factor: float | None = None,
    from_below: bool = True, bounds: Sequence[Curve] = (),
) -> tuple[list[Check], Panel]:  # fmt: skip
    """The worst regret of each rule for every (schedule, horizon), against x^exponent, and a figure of it.

    With a family for each of them, sizes vary.
    """
    families = [family] * len(cases) if isinstance(family, Family) else family
    checks: list[Check] = []
    lines = []
    for rule in rules:
        samples = [
            worst_regrets(runner, one, rule, schedule, rounds, runs, 100 * stream + place)
            for place, (one, (schedule, rounds)) in enumerate(zip(families, cases, strict=True))
        ]
        label = f"{name(rule)}: regret grows with {what}"
        checks += statistics.growth(label, x, samples, exponent, factor, from_below)
        lines.append(means(name(rule), x, samples))
    level, scaled = lines[0].y[-1], np.asarray(x, dtype=np.float64) / float(x[-1])
    slope = f"slope {exponent:g}".replace("-", "−")
    lines.append(curve(slope, x, 0.5 * level * scaled**exponent, role="fit"))
    return checks, Panel(f"Worst regret over {what}", what, f"regret: {mean_of_runs([runs])}", (*lines, *bounds))
