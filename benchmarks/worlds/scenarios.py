"""Problems for the worlds: each function draws one from a generator, so that every seed meets another of the kind."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

import sparingly as sp
from sparingly.features import unit_rows
from sparingly.history import History
from sparingly.problems.real import Table, built_in

Random = np.random.Generator
Floats = NDArray[np.float64]


def arms(random: Random, means: Sequence[float], costs: Sequence[float] | None = None) -> sp.problems.Arms:
    """Arms with these means, in any order."""
    return sp.problems.Arms(random.permutation(means), costs=costs)


def in_order(random: Random, means: Sequence[float]) -> sp.problems.Arms:
    """Arms with these means, in this order."""
    return sp.problems.Arms(means)


def hidden(random: Random, count: int, budget: float) -> sp.problems.Arms:
    """The lower bound's instance: one arm is better by a gap that the budget can hardly tell."""
    return sp.problems.hidden_arm(count, budget, int(random.integers(count)))


def hidden_costs(random: Random, costs: Sequence[float], budget: float) -> sp.problems.Arms:
    """One of the lower bound's instances for these costs."""
    family = sp.problems.hard_costs(costs, budget)
    return family[int(random.integers(len(family)))]


def weights(count: int, zipf: bool) -> Floats:
    """How often each of so many contexts comes: equally often, or by Zipf's law."""
    shares = 1.0 / np.arange(1, count + 1) if zipf else np.ones(count)
    return np.asarray(shares / shares.sum())


def before_and_after(count: int, zipf: bool, change: str) -> tuple[Floats, Floats]:
    """How often each context comes in the first quarter of the time, and afterwards.

    `change` is "" for none, "turned": the rarest become the commonest; "others": the second half takes the place of the
    first; "more": the second half joins the first.
    """
    plain, half = weights(count, zipf), count // 2
    first = np.append(weights(half, zipf), np.zeros(count - half))
    if change == "turned":
        return plain, plain[::-1]
    if change == "others":
        return first, first[::-1]
    return (first if change == "more" else plain), plain


def groups(
    random: Random, contexts: int, arms: int, rounds: int, zipf: bool = False, change: str = "",
    costs: Sequence[float] | None = None,
) -> sp.problems.ContextualArms:  # fmt: skip
    """A bandit in each of so many contexts, with means drawn uniformly."""
    early = rounds // 4
    before, after = before_and_after(contexts, zipf, change)
    shown = [random.choice(contexts, early, p=before), random.choice(contexts, rounds - early, p=after)]
    means = random.random((contexts, arms))
    return sp.problems.ContextualArms(means, contexts=np.concatenate(shown), costs=costs)


def spiteful(history: History) -> int:
    """Stay in a context while it is asked about, then show the one that was asked about least."""
    if history.last is None:
        return 0
    return int(history.last[0]) if history.last[2] else int(history.asked.sum(axis=1).argmin())


def reacting(random: Random, contexts: int, arms: int) -> sp.problems.ContextualArms:
    """Contexts that react to what was asked."""
    return sp.problems.ContextualArms(random.random((contexts, arms)), contexts=sp.contexts.Adaptive(spiteful))


def trap(random: Random, adversary: Literal["contexts", "budget"]) -> Any:
    """The paper's counterexamples to greedy."""
    return sp.problems.greedy_trap(adversary, good_arm=int(random.integers(2))).problem


def directions(
    random: Random, dim: int, arms: int, rounds: int, change: str = "", costs: Sequence[float] | None = None,
    noise: float = 0.25,
) -> sp.problems.Linear:  # fmt: skip
    """Directions drawn anew for every action in every round, and a θ of length 1.

    `change` is "" for none; "others": the first quarter of the time has the first half of the coordinates, the rest
    the second half; "more": the first quarter has the first half, the rest all.
    """
    X = random.normal(size=(rounds, arms, dim))
    early, half = rounds // 4, dim // 2
    if change:
        X[:early, :, half:] = 0.0
    if change == "others":
        X[early:, :, :half] = 0.0
    return sp.problems.Linear(direction(random, dim), arms=unit_rows(X), noise=noise, costs=costs)


def direction(random: Random, dim: int) -> Floats:
    """A vector of length 1."""
    return unit_rows(random.normal(size=dim))


def kinds(
    random: Random, dim: int, arms: int, rounds: int, count: int, zipf: bool = True, change: str = ""
) -> sp.problems.Linear:
    """Rounds of so many kinds, each with features of its own and a little noise around them."""
    early = rounds // 4
    before, after = before_and_after(count, zipf, change)
    kind = np.concatenate([random.choice(count, early, p=before), random.choice(count, rounds - early, p=after)])
    centres = random.normal(size=(count, arms, dim))
    X = centres[kind] + 0.3 * random.normal(size=(rounds, arms, dim))
    return sp.problems.Linear(direction(random, dim), arms=unit_rows(X), noise=0.25)


def half_spaces(random: Random, dim: int, arms: int) -> sp.problems.Linear:
    """One half of the coordinates is shown while the budget grows, the other half while it does not."""
    return sp.problems.Linear(direction(random, dim), arms=sp.features.HalfSpaces(arms), noise=0.25)


def linear_trap(random: Random) -> Any:
    """The paper's counterexample to greedy, with features."""
    return sp.problems.linear_trap(good_arm=int(random.integers(2))).problem


def corners(random: Random, dim: int, budget: int) -> sp.problems.Linear:
    """The instance of the linear lower bound, with random signs."""
    return sp.problems.hypercube(dim, budget, signs=random.choice([-1.0, 1.0], dim))


def mdp(
    random: Random, states: int, actions: int, horizon: int, sparsity: float = 1.0, rounds: int = 0
) -> sp.problems.Episodic:
    """A random MDP; with `rounds`, half of the states start the first quarter of them, the other half the rest."""
    problem = sp.problems.random_mdp(states, actions, horizon, sparsity=sparsity, seed=int(random.integers(2**31)))
    if rounds:
        early, half = rounds // 4, states // 2
        starts = [random.integers(half, size=early), random.integers(half, states, size=rounds - early)]
        problem.initial = sp.contexts.Given(np.concatenate(starts))
    return problem


def river(random: Random, states: int, horizon: int) -> sp.problems.Episodic:
    """RiverSwim."""
    return sp.problems.river_swim(states, horizon)


def chain(random: Random, states: int, horizon: int) -> sp.problems.Episodic:
    """The chain of Strens."""
    return sp.problems.chain(states, horizon)


def episode_trap(random: Random) -> Any:
    """The paper's adversary against greedy, for episodes."""
    return sp.problems.episode_trap(good_action=int(random.integers(2))).problem


@lru_cache(maxsize=4)
def read(name: str) -> Table:
    """A built-in data set, read once in each process."""
    table = built_in(name)
    assert isinstance(table, Table)
    return table


def data(random: Random, name: str) -> Any:
    """A built-in data set; the seed draws its rows."""
    return read(name)
