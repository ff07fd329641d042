"""What came out, as tables in Markdown and on the terminal, and their place in docs/worlds.md."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import pandas
from rich.markup import escape
from rich.table import Table

from benchmarks.peers.report import table as markdown
from benchmarks.worlds.candidates import EVERYBODY, EXACT, OURS, ZERO, label
from benchmarks.worlds.judging import Criterion, of
from benchmarks.worlds.world import TAGS, World, unknowns

SHORT = {name: name.removesuffix("Matching") for name in EVERYBODY if name != "Matching"}  # on the terminal
BEGIN, END = "<!-- worlds: begin -->", "<!-- worlds: end -->"


def amount(value: float) -> str:
    """A budget or a ratio, short.

    >>> amount(20_000.0), amount(12.5), amount(0.2)
    ('20,000', '12.5', '0.2')
    """
    return f"{value:,.0f}" if value >= 100 or value == round(value) else f"{value:.2g}" if value < 1 else f"{value:.3g}"


@lru_cache
def per_unknown(world: World) -> float:
    """The budget of the end for each number that is to be learnt."""
    return world.amount / unknowns(world.problem(0))


def in_order(losses: pandas.DataFrame, zero: bool = False) -> list[str]:
    """The candidates that took part, in the order of the tables."""
    there = set(losses["candidate"])
    return [name for name in EVERYBODY if name in there and (zero or name != ZERO)]


def loss_text(row: Any) -> str:
    """A loss: the best in bold, what is not significant in brackets."""
    if row is None or math.isnan(row["loss"]):
        return "–"
    if row["best"]:
        return "**0**"
    text = f"{row['loss']:.2f}"
    return text if row["significant"] else f"({text})"


def rows_of(losses: pandas.DataFrame, worlds: Sequence[World]) -> list[tuple[World, dict[str, Any]]]:
    """The losses by world and candidate."""
    found: dict[Any, Any] = {}
    for key, part in losses.groupby("world", sort=False):
        found[key] = part.set_index("candidate").to_dict("index")
    return [(world, found[world.id]) for world in worlds if world.id in found]


def worlds_table(losses: pandas.DataFrame, worlds: Sequence[World]) -> str:
    """Losses: a row for each world, a column for each candidate."""
    names = in_order(losses)
    head = ["world", "what it is", "rounds", "budget", "for each unknown", *(label(name) for name in names)]
    lines = []
    for tag, says in TAGS.items():
        chosen = rows_of(losses, [world for world in worlds if world.tag == tag])
        lines += [[f"***{tag}***", f"*{says}*", *[""] * (len(head) - 2)]] if chosen else []
        for world, found in chosen:
            cells = [f"{world.rounds:,}", f"{amount(world.amount)} {world.shape}", amount(per_unknown(world))]
            lines.append([world.id, world.says, *cells, *(loss_text(found.get(name)) for name in names)])
    return markdown(head, lines, left=2)


def summary(losses: pandas.DataFrame) -> list[list[str]]:
    """A row for each candidate: worlds, best in, mean and worst loss, where."""
    lines = []
    for name in in_order(losses):
        mine = of(losses, name)
        known = mine[mine["loss"].notna()]
        lines.append(
            [
                label(name), f"{len(mine)}", f"{int(mine['best'].sum())}", f"{known['loss'].mean():.3f}",
                f"{int((known['lost'] > 0.05).sum())}", f"{known['lost'].max():.2f}", str(known["lost"].idxmax()),
            ]
        )  # fmt: skip
    return lines


def for_readme(losses: pandas.DataFrame) -> str:
    """The summary for people who have a minute: what each candidate loses in the mean, and where it is worst."""
    rows = sorted(summary(losses), key=lambda row: float(row[3]))
    shown = [[NAMED.get(row[0], f"`{row[0]}`"), row[3], row[4], row[5]] for row in rows]
    return markdown(("", "mean loss", "worlds with a loss over 0.05", "greatest loss"), shown, left=1)


NAMED = {
    OURS: f"**`{OURS}`**, the default",
    "until spent, then the best mean": "ask until spent, then play the best mean",
    "at random": "ask at random, told the number of rounds",
    "ε-greedy": "ε-greedy",
}
SUMMARY = ("candidate", "worlds", "best in", "mean loss", "loses over 0.05 in", "most lost", "where")


def regrets_table(losses: pandas.DataFrame, worlds: Sequence[World]) -> str:
    """The adversarial worlds: regrets, and ours over that of exact matching."""
    names = in_order(losses, zero=True)
    lines = []
    for world, found in rows_of(losses, [world for world in worlds if world.tag == "adversarial"]):
        ours, exact = found.get(OURS), found.get(EXACT)
        ratio = f"{ours['regret'] / exact['regret']:.2f}" if ours and exact else "–"
        lines.append([world.id, ratio, *(f"{found[n]['regret']:,.0f}" if n in found else "–" for n in names)])
    return markdown(["world", f"{OURS} / {EXACT}", *(label(name) for name in names)], lines)


def rewards_table(losses: pandas.DataFrame, worlds: Sequence[World]) -> str:
    """Real data: mean reward a round."""
    names = in_order(losses, zero=True)
    lines = []
    for world, found in rows_of(losses, [world for world in worlds if world.setting == "table"]):
        mean = [f"{found[n]['reward'] / world.rounds:.3f}" if n in found else "–" for n in names]
        lines.append([world.id, *mean])
    return markdown(["data", *(label(name) for name in names)], lines)


def better_table(losses: pandas.DataFrame) -> str:
    """The worlds in which ours loses significantly, the worst first: who is best there, and by how much."""
    if OURS not in set(losses["candidate"]):
        return f"{OURS} did not take part."
    ours = of(losses, OURS).query("significant").sort_values("loss", ascending=False)
    best = losses[losses["best"]].set_index("world")["candidate"]
    lines = [
        [str(key), label(str(best[str(key)])), f"{row['loss']:.3f} ± {row['half']:.3f}"] for key, row in ours.iterrows()
    ]
    return markdown(["world", "the best there", f"{OURS} loses"], lines, left=2) if lines else "Nowhere."


def criteria_table(criteria: Sequence[Criterion]) -> str:
    return markdown(
        ["criterion", "", "what was found"],
        [[c.says, "holds" if c.holds else "**fails**", c.found] for c in criteria], left=3,
    )  # fmt: skip


def written(losses: pandas.DataFrame, worlds: Sequence[World], criteria: Sequence[Criterion], about: str) -> str:
    """All that goes into the document."""
    parts = [
        about,
        "### Judgement",
        criteria_table(criteria),
        "### Candidates",
        "*Loses over 0.05 in*: in so many worlds its loss is significant and above 0.05. *Most lost*: its largest "
        "significant loss.",
        markdown(SUMMARY, summary(losses), left=1),
        "### Where another candidate is better",
        f"The worlds in which {OURS} loses significantly, with Student's interval of the difference.",
        better_table(losses),
        "### Losses",
        "The best candidate of a world is bold, a loss that is not significant stands in brackets. A dash: the "
        "candidate does not fit the world, or nobody is significantly better than asking never.",
        worlds_table(losses, worlds),
        "### Regret in adversarial worlds",
        regrets_table(losses, worlds),
        "### Reward on real data",
        "Mean reward a round.",
        rewards_table(losses, worlds),
    ]
    return "\n\n".join(parts) + "\n"


def on_screen(losses: pandas.DataFrame, worlds: Sequence[World]) -> Table:
    """The losses for the terminal."""
    names = in_order(losses)
    view = Table(title="Reward lost against the best candidate", caption="in brackets: not significant", padding=(0, 0))
    view.add_column("world", no_wrap=True)
    view.add_column("asks/unknown", justify="right")
    for name in names:
        view.add_column(SHORT.get(name, name), justify="right", min_width=6)
    for tag in TAGS:
        chosen = rows_of(losses, [world for world in worlds if world.tag == tag])
        if chosen:
            view.add_section()
            view.add_row(f"[bold]{tag}[/]")
        for world, found in chosen:
            cells = [loss_text(found.get(name)).replace("**0**", "[bold green]0[/]") for name in names]
            view.add_row(escape(world.id), amount(per_unknown(world)), *cells)
    return view
