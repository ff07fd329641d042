"""Puts one mutant after another into a copy of the package and runs its tests and its claims (`make mutants`).

`python -m tests.mutants [--only ID,…] [--kind KIND,…] [--list] [--jobs 2] [--document]`. What was run is kept, and an
interrupted run goes on. Exits with 1 if a mutant survives its tests or if claims kill too few of a theorem's constants,
with 2 if a test or a claim fails without any mutant.
"""

from __future__ import annotations

import argparse
import signal
import sys
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from pathlib import Path

from benchmarks.documents import put_between
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import sparingly as sp
from tests.mutants import report
from tests.mutants.catalogue import MUTANTS
from tests.mutants.mutant import CONSTANT, KINDS, Mutant
from tests.mutants.running import ROOT, Outcome, Void, Workshop, stopping


def options(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", default="", help="these mutants, by their ids or how ids begin")
    parser.add_argument("--kind", default="", help=f"mutants of these kinds: {', '.join(KINDS)}")
    parser.add_argument("--list", action="store_true", help="list the mutants, and run nothing")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--without", choices=("tests", "claims"), help="leave the tests, or the claims, out")
    parser.add_argument("--out", type=Path, default=ROOT / "results" / "mutants")
    parser.add_argument("--document", action="store_true", help="put the tables into docs/mutants.md")
    chosen = parser.parse_args(words)
    starts, kinds = (tuple(word for word in given.split(",") if word) for given in (chosen.only, chosen.kind))
    chosen.mutants = [
        m for m in MUTANTS.values() if (not starts or m.id.startswith(starts)) and (not kinds or m.kind in kinds)
    ]  # fmt: skip
    chosen.whole = len(chosen.mutants) == len(MUTANTS) and not chosen.without
    if not chosen.mutants or set(kinds) - set(KINDS):
        parser.error(f"no mutant is meant by that; kinds are {', '.join(KINDS)}, and --list shows the ids")
    if chosen.document and not chosen.whole:
        parser.error("the document shows all mutants, with their tests and their claims")
    return chosen


def judge_all(shop: Workshop, chosen: argparse.Namespace, screen: Console) -> dict[str, dict[str, Outcome]]:
    """What tests and claims say of all chosen mutants."""
    columns = (TextColumn("{task.description:36}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    found: dict[str, dict[str, Outcome]] = {}
    with Progress(*columns, console=screen) as bar:
        place = bar.add_task("without a mutant", total=len(chosen.mutants))
        checks = {"tests": shop.check_tests, "claims": shop.check_claims}
        for what, check in checks.items():
            for doing in check(chosen.mutants) if what != chosen.without else ():
                bar.update(place, description=f"without a mutant: {doing}"[:60])
                if not screen.is_terminal:
                    screen.print(f"without a mutant: {doing}")
        with ThreadPoolExecutor(chosen.jobs) as pool:
            waiting = {pool.submit(shop.judge, m, what_of(m, chosen.without)): m for m in chosen.mutants}
            try:
                for done in as_completed(waiting):
                    mutant = waiting[done]
                    found[mutant.id] = done.result()
                    bar.update(place, advance=1, description=mutant.id)
                    screen.print(line(mutant, found[mutant.id]))
            except BaseException:  # an interrupt, say: end what runs, and begin nothing more
                stopping.set()
                pool.shutdown(wait=True, cancel_futures=True)
                raise
    return found


def what_of(mutant: Mutant, without: str | None) -> list[str]:
    """What judges a mutant: its tests, and claims if it names any."""
    return [what for what in ("tests", "claims") if what != without and (what == "tests" or mutant.claims)]


def line(mutant: Mutant, outcomes: dict[str, Outcome]) -> str:
    """One mutant, as it is done."""
    told = [
        f"{what} {report.said(o)}{f' by {escape(o.by)}' if o.by else ''} ({o.seconds:.0f} s)"
        for what, o in outcomes.items()
    ]
    broken = [f"\n{escape(o.how)}" for o in outcomes.values() if o.state == "broken"]
    return f"{mutant.id}: {'; '.join(told)}{''.join(broken)}"


def judged(chosen: argparse.Namespace, found: dict[str, dict[str, Outcome]], screen: Console) -> bool:
    """Whether enough was killed; says what was not."""
    mutants, fine = chosen.mutants, True
    broken = [m.id for m in mutants if any(outcome.state == "broken" for outcome in found[m.id].values())]
    if chosen.without != "tests":
        living = report.alive(mutants, found)
        skipped = [m.id for m in mutants if found[m.id]["tests"].state == "skipped"]
        fine = not living
        screen.print(f"survive their tests: {', '.join(m.id for m in living) or 'none'}")
        if skipped:
            screen.print(f"could not be run here: {', '.join(skipped)}")
    if chosen.without != "claims":
        killed, there = report.share_by_claims(mutants, found)
        living = [m for m in mutants if m.kind == CONSTANT and not found[m.id]["claims"].killed]
        fine = fine and (not there or killed >= report.LEAST * there or not chosen.whole)
        screen.print(f"claims kill {killed} of {there} mutants of a theorem's constants")
        screen.print(f"survive their claims: {', '.join(m.id for m in living) or 'none'}")
    if broken:
        screen.print(f"[bold red]could not begin: {', '.join(broken)}[/]")
    return fine and not broken


def main(words: Sequence[str] | None = None) -> int:
    chosen, screen = options(words), Console()
    screen = screen if screen.is_terminal else Console(width=160)  # in a file the table has room
    if chosen.list:
        screen.print(report.listing(chosen.mutants))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that what was started ends too
    start, shop = time.monotonic(), Workshop(chosen.out)
    try:
        found = judge_all(shop, chosen, screen)
    except Void as void:
        screen.print(str(void), markup=False)
        return 2
    screen.print(report.on_screen(chosen.mutants, found))
    fine = judged(chosen, found, screen)
    screen.print(
        f"{time.monotonic() - start:.0f} s; mutants alone have taken {report.seconds(found):.0f} s of the processor; "
        f"what was run is kept in {chosen.out}"
    )
    if chosen.document:
        skipped = any(outcomes["tests"].state == "skipped" for outcomes in found.values())
        if skipped:
            screen.print("docs/mutants.md stays as it is: some tests could not be run here")
            return 1
        about = f"`python -m tests.mutants`, sparingly {sp.__version__}."
        put_between(
            ROOT / "docs" / "mutants.md", report.BEGIN, report.END, report.written(chosen.mutants, found, about)
        )
    return 0 if fine else 1


if __name__ == "__main__":
    sys.exit(main())
