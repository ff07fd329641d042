"""What became of the mutants, as tables in Markdown and on the terminal."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from benchmarks.peers.report import table as markdown
from rich.markup import escape
from rich.table import Table

from tests.mutants.mutant import CONSTANT, KINDS, Mutant
from tests.mutants.running import Outcome

BEGIN, END = "<!-- mutants: begin -->", "<!-- mutants: end -->"
LEAST = 0.6  # of the mutants of a theorem's constants, so many must be killed by a claim
Found = Mapping[str, Mapping[str, Outcome]]  # of each mutant: what its "tests" and its "claims" have said
STYLES = {"killed": "green", "timeout": "green", "survived": "bold red", "broken": "bold red", "skipped": "yellow"}


def share_by_claims(mutants: Sequence[Mutant], found: Found) -> tuple[int, int]:
    """Of the mutants of a theorem's constants: how many a claim has killed, and how many there are."""
    judged = [found[m.id].get("claims") for m in mutants if m.kind == CONSTANT]
    return sum(outcome is not None and outcome.killed for outcome in judged), len(judged)


def alive(mutants: Sequence[Mutant], found: Found) -> list[Mutant]:
    """Those that no test has killed, though tests were run."""
    return [m for m in mutants if not found[m.id]["tests"].killed and found[m.id]["tests"].state != "skipped"]


def seconds(found: Found) -> float:
    """Of the processor, in all."""
    return sum(outcome.seconds for outcomes in found.values() for outcome in outcomes.values())


def name_of(test: str) -> str:
    """A test without its parameters and without what every name has."""
    file, _, name = test.partition("::")
    return f"`{file.rpartition('/')[2].removeprefix('test_').removesuffix('.py')}::{name.partition('[')[0]}`"


def killer(outcome: Outcome | None) -> str:
    """Who has killed a mutant, for a cell of a table."""
    if outcome is None:
        return ""
    if outcome.state == "timeout":
        return "*took too long*"
    if not outcome.killed:
        return f"**{outcome.state}**"
    return name_of(outcome.by) if "::" in outcome.by else f"`{outcome.by}`"


def counts_table(mutants: Sequence[Mutant], found: Found) -> str:
    """A row for each kind."""
    rows = []
    for kind in KINDS:
        chosen = [m for m in mutants if m.kind == kind]
        if chosen:
            with_claims = [found[m.id]["claims"] for m in chosen if "claims" in found[m.id]]
            by_claims = f"{sum(outcome.killed for outcome in with_claims)} of {len(with_claims)}" if with_claims else ""
            rows.append([kind, f"{len(chosen)}", f"{sum(found[m.id]['tests'].killed for m in chosen)}", by_claims])
    return markdown(["kind", "mutants", "killed by a test", "killed by a claim"], rows, left=1)


def mutants_table(mutants: Sequence[Mutant], found: Found) -> str:
    """A row for each mutant of a kind."""
    rows = [
        [f"`{m.id}`", m.says, killer(found[m.id]["tests"]), killer(found[m.id].get("claims"))] for m in mutants
    ]  # fmt: skip
    return markdown(["mutant", "what is wrong", "killed by the test", "by the claim"], rows, left=4)


def written(mutants: Sequence[Mutant], found: Found, about: str) -> str:
    """All that goes into the document."""
    killed, there = share_by_claims(mutants, found)
    states = Counter(found[m.id]["tests"].state for m in mutants)
    parts = [
        about,
        f"Tests kill {states['killed'] + states['timeout']} of {len(mutants)} mutants. Of the {there} mutants of a "
        f"theorem's constants, claims kill {killed}: {killed / there:.0%}, and at least {LEAST:.0%} are required.",
        counts_table(mutants, found),
    ]
    for kind in KINDS:
        chosen = [m for m in mutants if m.kind == kind]
        if chosen:
            parts += [f"### {kind.capitalize()}", mutants_table(chosen, found)]
    return "\n\n".join(parts) + "\n"


def on_screen(mutants: Sequence[Mutant], found: Found) -> Table:
    """The same for the terminal: who has killed what."""
    view = Table(title=f"{len(mutants)} mutants", padding=(0, 1))
    for column in ("mutant", "by tests", "the test", "by claims", "the claim", "s"):
        view.add_column(column, overflow="fold", justify="right" if column == "s" else "left")
    for m in mutants:
        tests, claims = found[m.id].get("tests"), found[m.id].get("claims")
        cells = [said(tests), tests.by.partition("::")[2] if tests else "", said(claims), claims.by if claims else ""]
        used = sum(outcome.seconds for outcome in found[m.id].values())
        view.add_row(escape(m.id), cells[0], escape(cells[1]), cells[2], escape(cells[3]), f"{used:.0f}")
    return view


def said(outcome: Outcome | None) -> str:
    """A state in its colour."""
    return "" if outcome is None else f"[{STYLES[outcome.state]}]{outcome.state}[/]"


def listing(mutants: Sequence[Mutant]) -> Table:
    """All mutants, as they are."""
    view = Table(title=f"{len(mutants)} mutants")
    for column in ("id", "kind", "file", "what is wrong"):
        view.add_column(column, overflow="fold")
    for m in mutants:
        view.add_row(escape(m.id), m.kind, m.file, escape(m.says))
    return view
