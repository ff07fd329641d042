"""A recommender that may ask 5 % of its users for a rating. Ratings come late, and some never: MovieLens.

A user comes, ten movies are candidates, the program recommends one. What the user thinks of it is known only if it
asks, and it may ask after five visits in a hundred. Compared: when to ask.

    python examples/gallery/recommender.py [--quick] [--rounds N] [--runs N] [--seed N] [--out FOLDER]
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

import numpy as np
import pandas
from common import Options, budget_line, curves, interval, leave, legend, options, page, percent
from matplotlib.figure import Figure

import sparingly as sp
from sparingly.lab.table_runs import Uniform, agent_for
from sparingly.problems.real import Table, movielens
from sparingly.simulation.progress import Progress

SHARE = 0.05  # of all visits may be asked about
ANSWERED, WAIT = 0.8, 200  # the share of asks that is ever answered; after how many visits, in the mean
ALWAYS, RANDOM = "asking always, no budget", "asking at random"
AT_ONCE = "BalancedMatching, all answer at once"


def strategies(rounds: int) -> dict[str, tuple[Any, float]]:
    """When to ask, and what may be spent."""
    budget = int(SHARE * rounds)
    return {
        ALWAYS: (sp.Always(), math.inf),
        "Always, until it is spent": (sp.Always(), budget),
        "ExactMatching": (sp.ExactMatching(), budget),
        "BalancedMatching": (sp.BalancedMatching(), budget),
        AT_ONCE: (sp.BalancedMatching(), budget),
        RANDOM: (Uniform(), budget),
        "Never": (sp.Never(), 0),
    }


def recommend(agent: sp.Agent, movies: Table, visits: Any, delays: Any) -> dict[str, Any]:
    """Serve the visitors one by one; what each visit was worth, and asks, answers and budget up to it."""
    log = {name: np.zeros(len(visits)) for name in ("reward", "asked", "answered", "spent", "granted")}
    arriving: dict[int, list[tuple[int, float]]] = defaultdict(list)  # visit → the ratings that come in then
    asked = answered = 0
    for t, visit in enumerate(visits):
        for number, rating in arriving.pop(t, ()):  # a decision's id is all that has to be kept until then
            agent.observe(number, rating)
            answered += 1
        decision = agent.decide(movies.context(visit))  # features (candidates, d)
        log["reward"][t] = movies.rewards[visit, decision.action]  # for the statistics; the agent does not see it
        if decision.ask:  # spent already, whether an answer comes or not
            asked += 1
            if delays[t] >= 0:
                arriving[t + 1 + delays[t]].append((decision.id, movies.reveal(visit, decision.action)))
        for name, value in zip(("asked", "answered"), (asked, answered), strict=True):
            log[name][t] = value
        log["spent"][t], log["granted"][t] = agent.ledger.spent, agent.ledger.granted
    return log


def measure(movies: Table, options: Options) -> pandas.DataFrame:
    """All strategies, all runs. In one run all of them meet the same visitors, who answer with the same delays."""
    cases, marks, frames = strategies(options.rounds), options.marks(), []
    bar = Progress(len(cases) * options.runs, "recommending", show=True)
    for run, seeds in enumerate(np.random.SeedSequence(options.seed).spawn(options.runs)):
        for_world, for_agents = seeds.spawn(2)
        random = np.random.default_rng(for_world)
        visits = random.choice(len(movies), options.rounds, replace=options.rounds > len(movies))
        delays = random.geometric(1 / WAIT, options.rounds) * np.where(random.random(options.rounds) < ANSWERED, 1, -1)
        for (name, (rule, budget)), seed in zip(cases.items(), for_agents.spawn(len(cases)), strict=True):
            agent = agent_for(movies.learner(), rule, budget, options.rounds, seed)  # an sp.Agent with OFUL
            log = recommend(agent, movies, visits, np.zeros_like(delays) if name == AT_ONCE else delays)
            frames.append(
                pandas.DataFrame({"strategy": name, "run": run, "visit": marks})
                .assign(reward=options.blocks(log["reward"]))
                .assign(**{column: log[column][marks - 1] for column in ("asked", "answered", "spent", "granted")})
            )
            bar.add(1)
    bar.close()
    return pandas.concat(frames, ignore_index=True)


def draw(data: pandas.DataFrame, given: Options) -> Figure:
    """Left what users get, right when they are asked."""
    with page(10.5, 4.7, 1, 1) as (figure, axes):
        curves(axes[0], data, "visit", "reward", without=[AT_ONCE])
        axes[0].set(xlabel="visit", ylabel="mean rating of what was shown (0 … 1)")
        axes[0].set_title(f"what users get (95 % intervals, {given.repeated})", fontsize=11)
        budget_line(axes[1], [0, given.rounds], [SHARE * given.rounds] * 2)
        curves(axes[1], data, "visit", "asked", without=[ALWAYS, AT_ONCE])
        curves(axes[1], data, "visit", "answered", without=[ALWAYS, AT_ONCE], thin=True)
        axes[1].set(xlabel="visit", ylabel="asks so far")
        axes[1].set_title("when it asks; thin: the answers", fontsize=11)
        legend(figure, axes)
    return figure


def main() -> None:
    """Measure, draw, and print the table."""
    given = options(__doc__ or "", rounds=20_000, runs=20, quick=(2_000, 4))
    data = measure(movielens(), given)
    runs = data.groupby(["strategy", "run"], sort=False)
    counts, means = runs[["asked", "answered"]].last().groupby("strategy").mean(), runs["reward"].mean()
    always, never = means[ALWAYS].mean(), means["Never"].mean()
    rows = []
    for name in strategies(given.rounds):
        gain = (means[name].mean() - never) / (always - never)
        over = interval(means[name] - means[RANDOM], sign="+") if name != RANDOM else ""
        asks = (f"{counts.loc[name, column]:,.0f}" for column in ("asked", "answered"))
        rows.append((name, *asks, interval(means[name]), percent(means[name].mean() / always), percent(gain, 0), over))
    heads = (given.head("visits"), "asks", "answers", "mean rating", "of always", "of its gain", "over random")
    leave(given, draw(data, given), data, heads, rows)


if __name__ == "__main__":
    main()
