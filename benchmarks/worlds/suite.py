"""The worlds, as data. An id never changes its meaning: a world that changes gets another one.

docs/worlds.md says how they were chosen.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

import sparingly as sp
from benchmarks.worlds import scenarios
from benchmarks.worlds.world import PROMPT, Answers, World
from sparingly.budgets import Bernoulli, Budget, Fixed, Late, Linear, Periodic, WhenContext

TABLES = ("phishing", "image_segments", "digits", "movielens")


def ucb1(arms: int, contexts: int = 1) -> sp.UCB1:
    return sp.UCB1(arms, contexts, scale=0.3, ties="random")


def moss(arms: int, contexts: int = 1) -> sp.MOSS:
    return sp.MOSS(arms, contexts, scale=0.3, ties="random")


def oful(dim: int, noise: float = 0.25, length: float = 1.0) -> sp.OFUL:
    return sp.OFUL(dim, noise=noise, length=length, scale=0.3, ties="random")


def ucbvi(states: int, actions: int, horizon: int) -> sp.UCBVI:
    return sp.UCBVI(states, actions, horizon, scale=0.01, ties="random")


def even(low: float, high: float, count: int) -> tuple[float, ...]:
    """So many means at equal distances."""
    return tuple(np.linspace(low, high, count).tolist())


def of_arms() -> list[World]:
    """Actions that are always the same."""

    def make(
        id: str, tag: str, says: str, means: tuple[float, ...], budget: Budget, rounds: int = 10_000,
        learner: Any = ucb1, costs: tuple[float, ...] | None = None, answers: Answers = PROMPT,
    ) -> World:  # fmt: skip
        kind = partial(scenarios.arms, means=means, costs=costs)
        return World(id, tag, "arms", says, kind, learner(len(means)), budget, rounds, answers)

    one, ten, three = (0.6, *[0.5] * 9), even(0.2, 0.8, 10), (0.3, 0.5, 0.8)
    close = (0.5, 0.55, 0.6, 0.65, 0.7)
    return [
        make("arms-ten-plenty", "friendly", "ten arms, one better by 0.1", one, Fixed(10_000), 100_000),
        make("arms-ten-once", "friendly", "ten arms, 0.2 to 0.8", ten, Fixed(500)),
        make("arms-ten-few", "friendly", "ten arms, 0.2 to 0.8", ten, Fixed(50)),
        make("arms-ten-evenly", "friendly", "ten arms, 0.2 to 0.8", ten, Linear(0.05)),
        make("arms-ten-late", "friendly", "ten arms, 0.2 to 0.8", ten, Late(200, start=2_500)),
        make("arms-ten-random", "friendly", "ten arms, 0.2 to 0.8", ten, Bernoulli(0.02)),
        make("arms-fifty-scarce", "friendly", "fifty arms, 0.1 to 0.9", even(0.1, 0.9, 50), Fixed(10), 5_000),
        make("arms-five-periodic", "friendly", "five arms, 0.5 to 0.7", close, Periodic(10, every=500), learner=moss),
        make("arms-two-evenly", "friendly", "an A/B test, 0.5 and 0.6", (0.5, 0.6), Linear(0.01), 20_000),
        make(
            "arms-six-costs", "uneven", "six arms; asking costs 1, 1, 2, 2, 5 and 10", even(0.3, 0.8, 6), Fixed(300),
            costs=(1, 1, 2, 2, 5, 10),
        ),
        make("late-200", "friendly", "answers 200 rounds late", three, Fixed(100), 2_000, answers=Answers(late=200)),
        make("late-500", "friendly", "answers 500 rounds late", three, Fixed(100), 2_000, answers=Answers(late=500)),
        make(
            "silent-third", "friendly", "ten arms; 30 % of the asks are never answered", ten, Linear(0.05),
            answers=Answers(silent_share=0.3),
        ),
        World(
            "silent-arm", "uneven", "arms", "three arms; nobody answers about the first",
            partial(scenarios.in_order, means=(0.5, 0.3, 0.8)), ucb1(3), Fixed(300), 5_000, Answers(silent_arm=0),
        ),
        World(
            "hidden-arm", "adversarial", "arms", "the lower bound's ten arms",
            partial(scenarios.hidden, count=10, budget=500), ucb1(10), Fixed(500), 20_000,
        ),
        World(
            "hidden-costs", "adversarial", "arms", "the lower bound's arms with costs 1, 1, 4 and 16",
            partial(scenarios.hidden_costs, costs=(1, 1, 4, 16), budget=500), ucb1(4), Fixed(500), 20_000,
        ),
    ]  # fmt: skip


def of_contexts() -> list[World]:
    """Actions in groups of rounds: segments, topics, pages."""

    def make(
        id: str, tag: str, says: str, size: tuple[int, int], budget: Budget, rounds: int = 20_000,
        answers: Answers = PROMPT, **more: Any,
    ) -> World:  # fmt: skip
        kind = partial(scenarios.groups, contexts=size[0], arms=size[1], rounds=rounds, **more)
        return World(id, tag, "contexts", says, kind, ucb1(size[1], size[0]), budget, rounds, answers)

    plain, by_law = "{} contexts, {} arms", "{} contexts by Zipf's law, {} arms"
    zipf: dict[str, Any] = {"zipf": True}
    return [
        make("groups-once", "friendly", plain.format(20, 5), (20, 5), Fixed(2_000)),
        make("groups-evenly", "friendly", plain.format(20, 5), (20, 5), Linear(0.05)),
        make("groups-periodic", "friendly", plain.format(20, 4), (20, 4), Periodic(50, every=1_000)),
        make("groups-late", "friendly", plain.format(10, 5), (10, 5), Late(500, start=5_000)),
        make("groups-scarce", "friendly", plain.format(50, 4), (50, 4), Fixed(100), 10_000),
        make(
            "groups-late-answers", "friendly", "10 contexts, 4 arms; answers 500 rounds late", (10, 4), Linear(0.05),
            10_000, answers=Answers(late=500),
        ),
        make("zipf-once", "uneven", by_law.format(50, 5), (50, 5), Fixed(200), **zipf),
        make("zipf-evenly", "uneven", by_law.format(50, 5), (50, 5), Linear(0.05), **zipf),
        make("zipf-random", "uneven", by_law.format(50, 5), (50, 5), Bernoulli(0.1), **zipf),
        make("zipf-scarce", "uneven", by_law.format(100, 5), (100, 5), Linear(0.005), **zipf),
        make(
            "zipf-costs", "uneven", "20 contexts by Zipf's law, 4 arms with costs 1, 2, 4 and 8", (20, 4),
            Periodic(100, every=1_000), costs=(1, 2, 4, 8), **zipf,
        ),
        make(
            "groups-others", "drifting", "20 contexts, 5 arms; later only contexts that did not come before", (20, 5),
            Linear(0.05), change="others",
        ),
        make(
            "groups-more", "drifting", "10 contexts, 5 arms; later 10 more", (20, 5), Fixed(2_000), change="more",
        ),
        make(
            "zipf-turned-once", "drifting", "50 contexts by Zipf's law, 5 arms; later the law is turned round", (50, 5),
            Fixed(1_000), change="turned", **zipf,
        ),
        make(
            "zipf-turned-random", "drifting", "50 contexts by Zipf's law, 5 arms; later the law is turned round",
            (50, 5), Bernoulli(0.05), change="turned", **zipf,
        ),
        make(
            "groups-others-20000", "adversarial", "50 contexts, 5 arms; later only contexts that did not come before",
            (50, 5), Fixed(20_000), 100_000, change="others",
        ),
        World(
            "trap-contexts", "adversarial", "contexts", "the paper's trap: contexts watch the budget",
            partial(scenarios.trap, adversary="contexts"), ucb1(2, 2), Bernoulli(0.5), 20_000,
        ),
        World(
            "trap-budget", "adversarial", "contexts", "the paper's trap: the budget watches contexts",
            partial(scenarios.trap, adversary="budget"), ucb1(2, 2), WhenContext(0), 20_000,
        ),
        World(
            "reacting", "adversarial", "contexts", "10 contexts, 5 arms; a context stays while it is asked about",
            partial(scenarios.reacting, contexts=10, arms=5), ucb1(5, 10), Fixed(1_000), 10_000,
        ),
    ]  # fmt: skip


def of_features() -> list[World]:
    """Actions that come with features."""

    def make(
        id: str, tag: str, says: str, size: tuple[int, int], budget: Budget, rounds: int = 10_000,
        answers: Answers = PROMPT, **more: Any,
    ) -> World:  # fmt: skip
        kind = partial(scenarios.directions, dim=size[0], arms=size[1], rounds=rounds, **more)
        return World(id, tag, "features", says, kind, oful(size[0]), budget, rounds, answers)

    def of_kinds(id: str, tag: str, budget: Budget, later: str = "", **more: Any) -> World:
        says = f"32 features, 8 actions, 100 kinds of rounds by Zipf's law{later}"
        kind = partial(scenarios.kinds, dim=32, arms=8, rounds=10_000, count=100, **more)
        return World(id, tag, "features", says, kind, oful(32), budget, 10_000)

    plain = "{} features, 10 actions"
    return [
        make("features-once", "friendly", plain.format(8), (8, 10), Fixed(400)),
        make("features-evenly", "friendly", plain.format(16), (16, 10), Linear(0.02)),
        make("features-periodic", "friendly", plain.format(16), (16, 10), Periodic(16, every=1_000)),
        make("features-late", "friendly", plain.format(16), (16, 10), Late(100, start=2_500)),
        make("features-random", "friendly", plain.format(16), (16, 10), Bernoulli(0.02)),
        make("features-scarce", "friendly", plain.format(50), (50, 10), Fixed(10), 4_000),
        make(
            "features-late-answers", "friendly", "16 features, 10 actions; answers 200 rounds late", (16, 10),
            Linear(0.05), 4_000, answers=Answers(late=200),
        ),
        of_kinds("kinds-once", "uneven", Fixed(64)),
        of_kinds("kinds-evenly", "uneven", Linear(0.02)),
        make(
            "features-costs", "uneven", "8 features, 6 actions; asking costs 1, 1, 2, 2, 5 and 10", (8, 6), Fixed(400),
            costs=(1, 1, 2, 2, 5, 10),
        ),
        make(
            "features-others", "drifting", "16 features, 10 actions; later 8 that were 0 before, and only these",
            (16, 10), Fixed(320), change="others",
        ),
        make(
            "features-more", "drifting", "16 features, 10 actions; later 8 that were 0 before, too", (16, 10),
            Linear(0.02), change="more",
        ),
        of_kinds("kinds-turned", "drifting", Linear(0.02), later="; later the law is turned round", change="turned"),
        World(
            "half-spaces", "adversarial", "features", "16 features; what matters is shown when the budget stands still",
            partial(scenarios.half_spaces, dim=16, arms=10), oful(16), Bernoulli(0.1), 20_000,
        ),
        World(
            "trap-features", "adversarial", "features", "the paper's trap with 4 features",
            scenarios.linear_trap, oful(4), Bernoulli(0.5), 20_000,
        ),
        World(
            "corners", "adversarial", "features", "the lower bound's hypercube, 4 features",
            partial(scenarios.corners, dim=4, budget=200), oful(4, noise=1.0, length=2.0), Fixed(200), 10_000,
        ),
    ]  # fmt: skip


def of_episodes() -> list[World]:
    """Small MDPs."""

    def make(
        id: str, tag: str, says: str, kind: Any, size: tuple[int, int, int], budget: Budget, rounds: int = 10_000
    ) -> World:
        return World(id, tag, "episodes", says, kind, ucbvi(*size), budget, rounds)

    random = partial(scenarios.mdp, states=4, actions=2, horizon=4)
    return [
        make("mdp-once", "friendly", "random MDPs, S = 4, A = 2, H = 4", random, (4, 2, 4), Fixed(640)),
        make("mdp-evenly", "friendly", "random MDPs, S = 4, A = 2, H = 4", random, (4, 2, 4), Linear(0.1)),
        make(
            "river-evenly", "friendly", "RiverSwim, S = 4, H = 8", partial(scenarios.river, states=4, horizon=8),
            (4, 2, 8), Linear(0.1),
        ),
        make(
            "chain-periodic", "friendly", "the chain, S = 5, H = 8", partial(scenarios.chain, states=5, horizon=8),
            (5, 2, 8), Periodic(80, every=1_000),
        ),
        make(
            "mdp-sparse", "uneven", "random MDPs, S = 8, A = 2, H = 4, rewards in a tenth of the cells",
            partial(scenarios.mdp, states=8, actions=2, horizon=4, sparsity=0.1), (8, 2, 4), Bernoulli(0.05),
        ),
        make(
            "mdp-starts", "drifting", "random MDPs, S = 6, A = 2, H = 4; later episodes start elsewhere",
            partial(scenarios.mdp, states=6, actions=2, horizon=4, rounds=10_000), (6, 2, 4), Fixed(960),
        ),
        make(
            "trap-episodes", "adversarial", "the paper's trap for episodes", scenarios.episode_trap, (3, 2, 2),
            Bernoulli(0.5),
        ),
    ]  # fmt: skip


def of_tables() -> list[World]:
    """Real data: 4,000 rounds, an answer tells the reward of what was done."""
    rounds, worlds = 4_000, []
    for name in TABLES:
        for share in (0.01, 0.05):
            for shape, budget in (("once", Fixed(share * rounds)), ("evenly", Linear(share))):
                key, says = f"{name.replace('_', '-')}-{100 * share:.0f}-{shape}", f"{name}, {100 * share:.0f} %"
                kind = partial(scenarios.data, name=name)
                worlds.append(World(key, "friendly", "table", says, kind, None, budget, rounds))
    return worlds


WORLDS: dict[str, World] = {
    world.id: world for world in (*of_arms(), *of_contexts(), *of_features(), *of_episodes(), *of_tables())
}
