"""A labelling pipeline on the decision service: annotators' hours come day by day, and their answers come late.

Images arrive, the pipeline proposes a class for each. An annotator can be asked "is this right?"; every morning there
are labels for another day. Asks are held until an annotator takes them up; those that nobody gets to within the hour
are released, and cost nothing. Compared: asking by exact matching, and asking as long as there are labels left.

    python examples/gallery/labelling.py [--quick] [--rounds N] [--runs N] [--seed N] [--out FOLDER]
"""

from __future__ import annotations

from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
import pandas
from common import BUDGET, Options, curves, interval, leave, legend, options, page
from matplotlib.figure import Figure

import sparingly as sp
from sparingly.problems.real import Table, classification
from sparingly.serve.testserver import service
from sparingly.simulation.progress import Progress

DAYS, HOURS, LABELS = 10, 8, 60  # of a run; of a day; what an annotator may be asked each day
BUSY = 14  # an annotator takes up 0 … 14 asks an hour, at random
ANSWERED, NEXT_DAY = 0.95, 0.15  # the share of asks that is ever answered, and the share that comes a day later
STRATEGIES = {  # rule, labels a day
    "Always, while there are labels": ("Always", LABELS),
    "Always, a third of the labels": ("Always", LABELS / 3),
    "ExactMatching": ("ExactMatching", LABELS),
    "BalancedMatching": ("BalancedMatching", LABELS),
}


class Shift(NamedTuple):
    """What happens in one run, whatever the pipeline does."""

    rows: Any  # (hours, images) of the table, as they come in
    taken: Any  # (hours,) how many asks the annotators get to
    delays: Any  # (hours, images) after how many hours an answer comes; 0: never


def make_shift(table: Table, options: Options, random: np.random.Generator) -> Shift:
    """Images, and how busy and how prompt the annotators are."""
    hours = DAYS * HOURS
    shape = (hours, max(options.rounds // hours, 1))
    kind = random.random(shape)
    delays = np.where(kind < NEXT_DAY, HOURS, 1) * (kind < ANSWERED)
    return Shift(random.integers(len(table), size=shape), random.integers(BUSY + 1, size=hours), delays)


def label(client: sp.Client, agent: str, strategy: str, table: Table, shift: Shift, bar: Progress) -> pandas.DataFrame:
    """One pipeline through all of its hours, as an agent of the service; a row for each day."""
    rule, labels = STRATEGIES[strategy]
    learner = {"type": "OFUL", "dim": table.dim, "noise": 0.25, "scale": 0.3}
    client.create(agent, learner=learner, actions=list(table.actions), rule={"type": rule})
    arriving: dict[int, list[tuple[str, float]]] = defaultdict(list)  # hour → the answers that come in then
    days = []
    for hour, rows in enumerate(shift.rows):
        if hour % HOURS == 0:  # the grant of a day has an id: sent twice, it is booked once
            client.grant(agent, labels, grant_id=f"day-{hour // HOURS + 1}")
            right = 0
        for event_id, answer in arriving.pop(hour, ()):
            client.observe(agent, event_id, answer)
        held = []
        for place, row in enumerate(rows.tolist()):
            features = table.context(row)  # (classes, d)
            decision = client.decide(agent, features=features, event_id=f"{hour}-{place}", defer=True)
            right += table.rewards[row, decision.action_index] == 1.0  # for the statistics only
            if decision.ask:
                held.append((place, decision.event_id, table.reveal(row, decision.action_index)))
        for seen, (place, event_id, answer) in enumerate(held):
            if seen >= shift.taken[hour]:
                client.release(agent, event_id)  # nobody has seen it: refunded
                continue
            client.activate(agent, event_id)  # from here on it is spent
            if shift.delays[hour, place]:
                arriving[hour + shift.delays[hour, place]].append((event_id, answer))
        bar.add(1)
        if hour % HOURS == HOURS - 1:
            now = client.agent(agent)
            day = {"day": hour // HOURS + 1, "accuracy": right / (HOURS * len(rows)), "answers": now.answers}
            days.append(day | {what: getattr(now.budget, what) for what in ("granted", "spent", "held")})
    released = sum(1 for _ in client.asks(agent, "released"))
    return pandas.DataFrame(days).assign(released=released)


def measure(table: Table, options: Options) -> pandas.DataFrame:
    """All strategies, all runs, some at a time: agents do not know of each other, so the results are the same."""
    seeds = np.random.SeedSequence(options.seed).spawn(options.runs)
    shifts = [make_shift(table, options, np.random.default_rng(seed)) for seed in seeds]
    cases = [(run, place, name) for run in range(options.runs) for place, name in enumerate(STRATEGIES)]
    bar = Progress(len(cases) * DAYS * HOURS, "labelling", show=True)
    with service() as url, sp.Client(url) as client, ThreadPoolExecutor(8) as pool:

        def one(case: tuple[int, int, str]) -> pandas.DataFrame:
            run, place, name = case
            days = label(client, f"run-{run}-{place}", name, table, shifts[run], bar)
            return days.assign(strategy=name, run=run)

        frames = list(pool.map(one, cases))
    bar.close()
    return pandas.concat(frames, ignore_index=True)


def draw(data: pandas.DataFrame, given: Options) -> Figure:
    """Left how often the proposed class is right, right how many labels were used."""
    with page(10.5, 4.5, 1, 1) as (figure, axes):
        curves(axes[0], data, "day", "accuracy")
        axes[0].set(
            xlabel="day", ylabel="share of images with the right class", ylim=(0, 1), xticks=range(0, DAYS + 1, 2)
        )
        axes[0].set_title(f"what the pipeline proposes (95 % intervals, {given.repeated})", fontsize=11)
        days = np.arange(1, DAYS + 1)
        axes[1].step(np.append(days, DAYS + 1) - 1, LABELS * np.append(days, DAYS), where="post", **BUDGET)
        curves(axes[1], data, "day", "spent")
        axes[1].set(xlabel="day", ylabel="labels asked for so far", ylim=(0, None), xticks=range(0, DAYS + 1, 2))
        axes[1].set_title("labels used, and those that come day by day", fontsize=11)
        legend(figure, axes)
    return figure


def main() -> None:
    """Measure, draw, and print the table."""
    given = options(__doc__ or "", rounds=3_200, runs=4, quick=(640, 1))
    data = measure(classification("image_segments"), given)
    rows = []
    for name, part in data.groupby("strategy", sort=False):
        ends, means = part[part["day"] == DAYS], part.groupby("run")["accuracy"].mean()
        counts = [f"{ends[what].mean():,.0f}" for what in ("granted", "spent", "answers", "released")]
        rows.append((str(name), *counts, interval(means, 3), interval(ends["accuracy"], 3)))
    heads = (given.head("images"), "granted", "asked", "answered", "released", "right", "on the last day")
    leave(given, draw(data, given), data, heads, rows)


if __name__ == "__main__":
    main()
