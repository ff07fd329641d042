"""Who takes part in a world: every rule that fits, with its default settings, and three baselines."""

from __future__ import annotations

import math
import random as dice
from functools import partial
from typing import Any

import sparingly as sp
from benchmarks.worlds.baselines import ArmEstimates, AtRandom, Baseline, EpsilonGreedy, RidgeEstimates, UntilSpent, Way
from benchmarks.worlds.episodes import EpisodeBaseline
from benchmarks.worlds.playing import Outcome, run_baseline, run_rule
from benchmarks.worlds.world import World, prices, unknowns
from sparingly.problems.real import Table

OURS, EXACT, ZERO = "BalancedMatching", "ExactMatching", "Never"
RULES = (OURS, EXACT, "PaperMatching", "Matching", "Greedy", "Always", ZERO)
BASELINES = {"UntilSpent": "until spent, then the best mean", "AtRandom": "at random", "EpsilonGreedy": "ε-greedy"}
EVERYBODY = (*RULES[:-1], *BASELINES, ZERO)
PARTS = {"arms": "tabular", "contexts": "tabular", "features": "linear", "table": "linear", "episodes": "episodic"}


def label(name: str) -> str:
    """A candidate as tables and figures call it."""
    return BASELINES.get(name, name)


def rule_for(name: str, world: World, problem: Any) -> Any:
    """The rule of this name, or None if it does not fit the world, or sparingly does not have it."""
    kind, setting = getattr(sp, name, None), PARTS[world.setting]
    if kind is None or setting not in kind.functions:
        return None
    costs = prices(problem)
    if setting in kind.unit_costs_only and not (costs == 1.0).all():
        return None
    if name == "Matching":
        return sp.Matching(alpha=alpha(setting, unknowns(problem), float(costs.sum()), world.amount))
    return kind()


def alpha(setting: str, size: int, total: float, amount: float) -> float:
    """For `Matching`: half of the paper's threshold, with β = 1/2; with features that of the whole budget."""
    if setting == "tabular":
        return 2.0 * math.sqrt(6.0 * total)
    if setting == "linear":
        return 0.5 * math.sqrt(2.0 * size * math.log1p(amount / size))
    return 3.0 * math.sqrt(size)


def safe(name: str, world: World) -> bool:
    """Whether the ledger must never have to refuse. `Always` asks until it is refused; `Matching` promises nothing."""
    if name == "PaperMatching":
        return world.setting != "episodes"
    return name not in ("Always", "Matching")


def taking_part(world: World) -> list[str]:
    """The candidates of a world, in the order of the tables."""
    problem = world.problem(0)
    return [name for name in EVERYBODY if name in BASELINES or rule_for(name, world, problem) is not None]


def make_way(name: str, world: World, problem: Any, budget: float) -> Way:
    """A baseline's way to ask; who asks at random knows the rounds and the whole budget."""
    if name == "UntilSpent":
        return UntilSpent()
    if name == "EpsilonGreedy":
        return EpsilonGreedy()
    steps = problem.horizon if world.setting == "episodes" else 1
    return AtRandom(budget / (world.rounds * steps * float(prices(problem).mean())))


def make_baseline(name: str, world: World, problem: Any, budget: float, random: dice.Random) -> Any:
    """A baseline for one run, told the budget of the end."""
    way, learner = make_way(name, world, problem, budget), world.learner_of(problem)
    if world.setting == "episodes":
        return EpisodeBaseline(problem, learner, way, random)
    if isinstance(problem, Table | sp.problems.Linear):
        estimates: Any = RidgeEstimates(problem.dim, learner.noise, learner.delta, learner.scale, random)
    else:
        contexts, arms = problem.shape
        estimates = ArmEstimates(contexts, arms, learner.scale, random)
    return Baseline(estimates, way, prices(problem), random)


def run(world: World, name: str, seed: int) -> Outcome:
    """One run of a candidate."""
    problem = world.problem(seed)
    if name in BASELINES:
        return run_baseline(world, problem, partial(make_baseline, name, world, problem), seed)
    return run_rule(world, problem, rule_for(name, world, problem), seed)
