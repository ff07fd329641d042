"""The end of `sparingly reproduce` for people: what was run, what it says, and where to look."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from rich.console import Group
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from sparingly.lab.claims import ClaimRecord
from sparingly.lab.claims.evidence import Check, powers
from sparingly.lab.claims_report import grouped
from sparingly.lab.formatting import number

PAPER = "Confidence-Budget Matching for Sequential Budgeted Learning (Efroni, Merlis, Saha, Mannor; ICML 2021)"
# What most people want to know, as sentences about claims; each is said only if its claim was run and holds.
SENTENCES = {
    "ucb/budget": "The paper's rule for arms never spends more than the budget, whatever the adversary does",
    "greedy/adversarial-contexts": "An adversary ruins the rule that asks whenever there is budget left, not matching",
    "ours/exact-arms": "Exact matching, our own rule, stays within the budget too, and loses less than the paper's",
    "ours/balanced-starves-not": "Balanced matching, the default, learns even in the paper's own traps",
    "corrections/e2": "One of the paper's suggestions overspends; its correction does not",
}


def conclusion(records: Sequence[ClaimRecord], mode: str, folder: Path) -> Group:
    """Everything that is said at the end of a run."""
    checks = [check for record in records for check in record.evidence.checks]
    head = Text.assemble(
        (f"{len(records)} claims were run and judged by {len(checks):,} checks", "bold"),
        f" ({mode} mode). They are those of the paper {PAPER}, and our own.",
    )
    parts: list[Text | Table] = [head, Text(), chapters(records), *margins(checks), Text()]
    said = list(sentences(records))
    if said:
        parts += [Text("What it says", style="bold"), *said, Text()]
    parts += [Text("Where to look", style="bold"), Text(f"  {folder / 'report.html'}  every claim, with its figures")]
    parts += [Text(f"  {folder}  the same as data: claims.json, checks.parquet, curves.parquet")]
    parts += [Text("  sparingly reproduce CLAIM runs one of them; sparingly claims lists them all")]
    return Group(*parts)


def chapters(records: Sequence[ClaimRecord]) -> Table:
    """How many claims of each chapter hold."""
    view = Table(box=None, pad_edge=False, show_footer=True)
    names = ("holds", "holds as corrected", "fails")
    found = grouped(records)
    counts = {
        heading: [sum(r.verdict == name for r in members) for name in names] for heading, members in found.items()
    }
    totals = [sum(column) for column in zip(*counts.values(), strict=True)] or [0, 0, 0]
    view.add_column("", footer="in all")
    for name, total in zip(("hold", "hold as corrected", "fail"), totals, strict=True):
        view.add_column(name, footer=str(total), justify="right")
    for heading, (hold, corrected, fail) in counts.items():
        failed = f"[bold red]{fail}[/]" if fail else "·"
        view.add_row(escape(heading), str(hold or "·"), str(corrected or "·"), failed)
    return view


def margins(checks: Iterable[Check]) -> list[Text]:
    """How much the checks could have noticed."""
    found = powers(checks)
    if not any(found.values()):
        return []
    return [
        Text(),
        Text(
            f"{found['sharp']} checks are sharp: they would notice a constant that is wrong by half. "
            f"{found['loose']} are loose. {found['vacuous']} are vacuous: they could hardly fail, because the theory's "
            "bounds are wide."
        ),
    ]


def sentences(records: Sequence[ClaimRecord]) -> Iterable[Text]:
    """The few most interesting results, with the number that is closest to its bar."""
    by_id = {record.id: record for record in records}
    for name, sentence in SENTENCES.items():
        record = by_id.get(name)
        if record is None or record.verdict == "fails":
            continue
        measured = [check for check in record.evidence.checks if check.margin is not None]
        closest = min(measured, key=lambda check: check.margin or 0.0, default=None)
        yield Text(f"  • {sentence}. [{name}]")
        if closest is not None:
            told = f"{closest.says}: {number(closest.value)}; must be {closest.relation} {number(closest.bar)}"
            yield Text(f"      {told}", style="dim")
