"""A model router that pays a judge for verdicts, and the judge sometimes fails. The budget is money, and grows.

Each request goes to one of three models. Which one does best depends on the request, and only a judge can tell. A
verdict on a longer answer costs more; there is so much money for each request. Compared: on which verdicts to spend it.
In the middle of each first run the router is saved and loaded again, and must go on with identical decisions.

    python examples/gallery/model_router.py [--quick] [--rounds N] [--runs N] [--seed N] [--out FOLDER]
"""

from __future__ import annotations

import math
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas
from common import Floats, Options, budget_line, curves, interval, leave, legend, options, page
from matplotlib.figure import Figure

import sparingly as sp
from sparingly.simulation.progress import Progress

PRICES = {"small": 1.0, "medium": 2.0, "large": 4.0}  # of a verdict on an answer of each model, in cents
MONEY = 0.2  # cents for each request
SIZE, NOISE, LATER = 6, 0.1, 25  # of an embedding; of a verdict; how many requests later a verdict comes
GIVEN, LOST, BUSY = 0, 1, 2  # the judge: gives a verdict; takes the money and fails; turns us away unseen
FATES = (0.85, 0.1, 0.05)  # how often
FREE = "every verdict, no budget"
STRATEGIES: dict[str, tuple[Any, Any]] = {
    FREE: (sp.Always(), math.inf),
    "Always, while there is money": (sp.Always(), sp.budgets.Linear(MONEY)),
    "ExactMatching": (sp.ExactMatching(), sp.budgets.Linear(MONEY)),
    "BalancedMatching": (sp.BalancedMatching(), sp.budgets.Linear(MONEY)),
    "Never": (sp.Never(), 0),
}


class World(NamedTuple):
    """What happens in one run, whatever the router does."""

    requests: Floats  # (T, SIZE) embeddings of length 1
    quality: Floats  # (T, 3) of each model's answer, which the router does not know
    verdicts: Floats  # (T, 3) what the judge would say
    fates: Any  # (T,) what becomes of asking the judge


def make_world(rounds: int, random: np.random.Generator) -> World:
    """Models that are better on the average the larger they are, but not on every request."""
    strength = np.array([0.45, 0.5, 0.55])
    skill = random.normal(size=(3, SIZE - 1))
    skill *= 0.35 / np.linalg.norm(skill, axis=1, keepdims=True)
    topics = random.normal(size=(rounds, SIZE - 1))
    topics /= np.linalg.norm(topics, axis=1, keepdims=True)
    quality = (strength + topics @ skill.T) / math.sqrt(2.0)
    requests = np.concatenate([np.ones((rounds, 1)), topics], axis=1) / math.sqrt(2.0)
    verdicts = quality + NOISE * random.normal(size=quality.shape)
    return World(requests, quality, verdicts, random.choice(3, size=rounds, p=FATES))


class Log(NamedTuple):
    """What the router did with each request."""

    action: Any  # (T,)
    fate: Any  # (T,) of the ask; −1: not asked
    spent: Floats  # (T,)
    granted: Floats  # (T,)


def route(router: sp.Agent, world: World, log: Log, first: int, end: int) -> None:
    """Route the requests first … end − 1."""
    for t in range(first, end):
        earlier = t - LATER
        if earlier >= 0 and log.fate[earlier] == GIVEN:  # now its verdict is there
            router.observe(earlier + 1, world.verdicts[earlier, log.action[earlier]])
        decision = router.decide(np.kron(np.eye(3), world.requests[t]))  # one block of features for each model
        log.action[t] = decision.action
        if decision.ask:  # the price is spent already
            log.fate[t] = world.fates[t]
            if log.fate[t] == BUSY:  # the judge has not even looked at it: take it back
                router.withdraw(decision.id)
        log.spent[t], log.granted[t] = router.ledger.spent, router.ledger.granted


def serve(strategy: str, world: World, check_restart: bool) -> Log:
    """One run; with a check that a router that was saved in the middle goes on as if nothing had happened."""
    rule, budget = STRATEGIES[strategy]
    learner = sp.OFUL(dim=3 * SIZE, noise=NOISE, norm=1.1, scale=0.3, costs=list(PRICES.values()))
    router, rounds = sp.Agent(learner, rule, budget, seed=0), len(world.requests)
    log = Log(np.zeros(rounds, dtype=int), np.full(rounds, -1), np.zeros(rounds), np.zeros(rounds))
    route(router, world, log, 0, rounds // 2)
    if check_restart:
        with tempfile.TemporaryDirectory() as folder:
            router.save(Path(folder) / "router.json")
            loaded = sp.Agent.load(Path(folder) / "router.json")
        again = Log(*(part.copy() for part in log))
        route(loaded, world, again, rounds // 2, rounds)
    route(router, world, log, rounds // 2, rounds)
    if check_restart:
        assert all(np.array_equal(one, other) for one, other in zip(log, again, strict=True))
        assert np.array_equal(loaded.theta, router.theta) and loaded.awaited == router.awaited
    return log


def measure(options: Options) -> pandas.DataFrame:
    """All strategies, all runs; in one run all of them meet the same requests and the same judge."""
    last, frames = options.marks() - 1, []
    bar = Progress(len(STRATEGIES) * options.runs, "routing", show=True)
    for run, seed in enumerate(np.random.SeedSequence(options.seed).spawn(options.runs)):
        world = make_world(options.rounds, np.random.default_rng(seed))
        for name in STRATEGIES:
            log = serve(name, world, check_restart=run == 0)
            earned = world.quality[np.arange(options.rounds), log.action]
            paid = np.isin(log.fate, (GIVEN, LOST))
            so_far = {f"paid_{model}": np.cumsum(paid & (log.action == m)) for m, model in enumerate(PRICES)}
            so_far |= {"verdicts": np.cumsum(log.fate == GIVEN), "spent": log.spent, "granted": log.granted}
            frames.append(
                pandas.DataFrame({"strategy": name, "run": run, "request": last + 1})
                .assign(lost=options.blocks(world.quality.max(axis=1) - earned))
                .assign(**{column: values[last] for column, values in so_far.items()})
            )
            bar.add(1)
    bar.close()
    return pandas.concat(frames, ignore_index=True)


def draw(data: pandas.DataFrame, given: Options) -> Figure:
    """Left what is lost, right what is spent."""
    with page(10.5, 4.7, 1, 1) as (figure, axes):
        curves(axes[0], data, "request", "lost")
        axes[0].set(xlabel="request", ylabel="quality lost against the best model", ylim=(0, None))
        axes[0].set_title(f"what a request loses (95 % intervals, {given.repeated})", fontsize=11)
        budget_line(axes[1], [0, given.rounds], [0, MONEY * given.rounds])
        curves(axes[1], data, "request", "spent", without=[FREE])
        axes[1].set(xlabel="request", ylabel="spent on verdicts so far, in cents")
        axes[1].set_title("what is spent, and what there is to spend", fontsize=11)
        legend(figure, axes)
    return figure


def main() -> None:
    """Measure, draw, and print the table."""
    given = options(__doc__ or "", rounds=20_000, runs=10, quick=(2_000, 4))
    data = measure(given)
    runs = data.groupby(["strategy", "run"], sort=False)
    ends, mean = runs.last(), runs["lost"].mean()
    rows = []
    for name in STRATEGIES:
        columns = ("spent", *(f"paid_{model}" for model in PRICES), "verdicts")
        counts = (f"{ends.loc[name, column].mean():,.0f}" for column in columns)
        rows.append((name, *counts, interval(mean[name]), interval(ends.loc[name, "lost"])))
    models = (f"for {model}" for model in PRICES)
    heads = (given.head("requests"), "cents", *models, "verdicts", "lost a request", "at the end")
    leave(given, draw(data, given), data, heads, rows)


if __name__ == "__main__":
    main()
