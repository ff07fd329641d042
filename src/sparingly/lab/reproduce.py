"""`sparingly reproduce`: run claims, resume after an interruption, write a report, tables and data.

Each claim that was run is kept in a file of its own, with a fingerprint of everything that it depends on. The same
command, run again, reuses what is kept; a claim whose parameters, seed or code have changed is run again.
"""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pandas
import scipy
from rich.markup import escape
from rich.table import Table

from sparingly.errors import InvalidInput
from sparingly.lab.claims import CLAIMS, Check, Claim, ClaimRecord, Evidence, Runner
from sparingly.lab.claims.evidence import power_words, powers
from sparingly.lab.claims_report import draw, write_report
from sparingly.version import __version__

MARKS = {"holds": "✓", "holds as corrected": "≈", "fails": "✗"}
STYLES = {"holds": "green", "holds as corrected": "yellow", "fails": "bold red"}


def choose(ids: Sequence[str]) -> list[Claim]:
    """The claims with these ids; the part before the slash (`ucb`) selects a whole group, no ids select all claims."""
    chosen: dict[str, Claim] = {}
    for wanted in ids or ["all"]:
        found = {c.id: c for c in CLAIMS.values() if wanted in ("all", c.id, c.group)}
        if not found:
            near = get_close_matches(wanted, [*CLAIMS, *{c.group for c in CLAIMS.values()}], n=3, cutoff=0.4)
            hint = f"; did you mean {' or '.join(near)}?" if near else "."
            raise InvalidInput(f"there is no claim {wanted!r}{hint} `sparingly claims` lists them")
        chosen |= found
    return [claim for claim in CLAIMS.values() if claim.id in chosen]


@dataclass
class ProgressCallbacks:
    """Called as the work goes on: `started`, what a claim is `doing`, `finished` with its seconds (0: it was kept)."""

    started: Callable[[str], None] = field(default=lambda claim: None)
    doing: Callable[[str, str], None] = field(default=lambda claim, what: None)
    finished: Callable[[ClaimRecord, float], None] = field(default=lambda record, seconds: None)


@dataclass(frozen=True)
class ClaimStore:
    """The folder with the claims that were run, for one mode and seed."""

    folder: Path
    mode: str
    seed: int

    def path(self, claim: Claim) -> Path:
        return self.folder / f"{self.mode}-{self.seed}" / f"{claim.id.replace('/', '.')}.json"

    def fingerprint(self, claim: Claim) -> str:
        """A hash of everything that the outcome depends on: the claim, its parameters, the code, its dependencies."""
        parts = [claim.id, self.mode, self.seed, sorted(claim.parameters(self.mode).items()), code_digest()]
        return hashlib.sha256(repr(parts).encode()).hexdigest()

    def find(self, claim: Claim) -> ClaimRecord | None:
        """The kept record of the claim, if its fingerprint still matches; a damaged file does not count."""
        try:
            kept = json.loads(self.path(claim).read_text(encoding="utf-8"))
            return ClaimRecord.from_json(kept["record"]) if kept["fingerprint"] == self.fingerprint(claim) else None
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None

    def keep(self, claim: Claim, record: ClaimRecord) -> None:
        """Write the record atomically: its file is complete, or there is none."""
        text = json.dumps(
            {"fingerprint": self.fingerprint(claim), "record": record.to_json()}, ensure_ascii=False, allow_nan=False
        )
        path = self.path(claim)
        path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_write(path) as draft:
            draft.write_text(text, encoding="utf-8")


@contextmanager
def atomic_write(path: Path) -> Iterator[Path]:
    """Yield a path to write to, and move it to `path` at the end: nobody ever sees half a file."""
    draft = path.with_name(f".{os.getpid()}.{path.name}")
    yield draft
    draft.replace(path)


_digest: list[str] = []


def code_digest() -> str:
    """A hash of the code that claims run on, without the service and the modules that only show results."""
    if not _digest:
        package = Path(__file__).parent.parent
        apart = {package / "cli.py", *package.glob("lab/*.py"), *package.glob("serve/**/*.py")}
        versions = np.__version__, numba.__version__, scipy.__version__, sys.version_info[:2]
        hasher = hashlib.sha256(repr(versions).encode())
        for path in sorted(set(package.rglob("*.py")) - apart):
            hasher.update(str(path.relative_to(package)).encode() + path.read_bytes())
        _digest.append(hasher.hexdigest())
    return _digest[0]


def run_claim(claim: Claim, runner: Runner) -> ClaimRecord:
    """Run one claim; an exception becomes its evidence, so that the other claims go on."""
    try:
        evidence = claim.evaluate(runner)
    except Exception as error:
        nan = float("nan")
        says = f"could not be run: {type(error).__name__}: {error}"
        evidence = Evidence((Check(says, nan, "=", nan, nan, nan, "open", "none"),))
    return ClaimRecord(
        claim.id, claim.statement, claim.source, claim.judged, claim.correction, runner.mode, runner.seed,
        json.loads(json.dumps(claim.parameters(runner.mode))), evidence,
    )  # fmt: skip


def broken(record: ClaimRecord) -> bool:
    """Whether the claim raised an exception."""
    return any(check.test == "none" for check in record.evidence.checks)


def reproduce(
    claims: Sequence[Claim], out: Path, mode: str = "quick", seed: int = 0, jobs: int | None = None,
    callbacks: ProgressCallbacks | None = None,
) -> list[ClaimRecord]:  # fmt: skip
    """Run the claims that are not kept yet, `jobs` at a time, write the report and the data, return all records.

    The report covers every claim that the folder has for this mode and seed, so it grows with each run.
    """
    callbacks = callbacks or ProgressCallbacks()
    store = ClaimStore(out / "claims", mode, seed)
    store.folder.mkdir(parents=True, exist_ok=True)
    todo = []
    for claim in claims:
        kept = store.find(claim)
        if kept is None:
            todo.append(claim)
        else:
            callbacks.finished(kept, 0.0)
    failed = {}
    for claim, record, seconds in _in_threads(todo, mode, seed, jobs, callbacks):
        if broken(record):
            failed[claim.id] = record
        else:
            store.keep(claim, record)
        callbacks.finished(record, seconds)
        draw(record)  # while other claims are still running
    found = [failed.get(claim.id) or store.find(claim) for claim in CLAIMS.values()]
    records = [record for record in found if record is not None]
    write_data(out, records)
    with atomic_write(out / "report.html") as draft:
        write_report(draft, records, mode, about(mode, seed, [record.id for record in records]))
    return records


def _in_threads(
    todo: Sequence[Claim], mode: str, seed: int, jobs: int | None, callbacks: ProgressCallbacks
) -> Iterator[tuple[Claim, ClaimRecord, float]]:
    """Run claims in parallel; compiled code releases the GIL, so threads use all cores."""
    workers = min(jobs or os.cpu_count() or 1, max(len(todo), 1))

    def one(claim: Claim) -> tuple[Claim, ClaimRecord, float]:
        callbacks.started(claim.id)
        start = time.perf_counter()
        runner = Runner(mode, seed, jobs=1, tell=lambda what: callbacks.doing(claim.id, what))
        return claim, run_claim(claim, runner), time.perf_counter() - start

    pool = ThreadPoolExecutor(workers)
    try:
        waiting: list[Future[tuple[Claim, ClaimRecord, float]]] = [pool.submit(one, claim) for claim in todo]
        for done in as_completed(waiting):
            yield done.result()
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def about(mode: str, seed: int, ids: Sequence[str]) -> dict[str, str]:
    """What the report says about how it was made."""
    return {
        "command": " ".join(["sparingly reproduce", *shortest(ids), f"--{mode} --seed {seed}"]),
        "seed": str(seed),
        "version": f"sparingly {__version__}, numpy {np.__version__}, numba {numba.__version__}",
    }


def shortest(ids: Sequence[str]) -> list[str]:
    """The shortest arguments that select these claims: none for all claims, the name of a group for all of it."""
    if set(CLAIMS) <= set(ids):
        return []
    members: dict[str, list[str]] = {}
    for claim in CLAIMS.values():
        members.setdefault(claim.group, []).append(claim.id)
    chosen = {group: [name for name in names if name in ids] for group, names in members.items()}
    return [word for group, some in chosen.items() for word in ([group] if len(some) == len(members[group]) else some)]


def write_data(out: Path, records: Sequence[ClaimRecord]) -> None:
    """Write everything as JSON, and as two Parquet tables: one row per check, one row per point of a curve."""
    text = json.dumps([record.to_json() for record in records], ensure_ascii=False, indent=1, allow_nan=False)
    with atomic_write(out / "claims.json") as draft:
        draft.write_text(text, encoding="utf-8")
    for name, rows in (("checks.parquet", _check_rows(records)), ("curves.parquet", _point_rows(records))):
        with atomic_write(out / name) as draft:
            pandas.DataFrame(list(rows)).to_parquet(draft, index=False)


def _check_rows(records: Sequence[ClaimRecord]) -> Iterator[Mapping[str, Any]]:
    for record in records:
        same = {"claim": record.id, "verdict": record.verdict, "mode": record.mode, "seed": record.seed}
        for check in record.evidence.checks:
            yield {**same, **vars(check), "margin": check.margin, "power": check.power}


def _point_rows(records: Sequence[ClaimRecord]) -> Iterator[Mapping[str, Any]]:
    for record in records:
        for panel in record.evidence.panels:
            for curve in panel.curves:
                same = {"claim": record.id, "panel": panel.title, "curve": curve.label, "role": curve.role}
                for place, (x, y) in enumerate(zip(curve.x, curve.y, strict=True)):
                    edge = {"low": curve.low[place], "high": curve.high[place]} if curve.low else {"low": y, "high": y}
                    yield {**same, "x": x, "y": y, **edge}


def table(records: Sequence[ClaimRecord]) -> Table:
    """The verdicts, for the terminal."""
    view = Table(title="Claims and verdicts", caption=_counts(records))
    longest = max((len(record.id) for record in records), default=0)
    for column, least in (("claim", longest), ("verdict", 20), ("shown", 5)):
        view.add_column(column, no_wrap=True, min_width=least)
    view.add_column("sharp / loose / vacuous", min_width=7)
    view.add_column("source", overflow="ellipsis")  # shortened if there is no room
    for record in records:
        shown = sum(check.outcome == "shown" for check in record.evidence.checks)
        word = f"[{STYLES[record.verdict]}]{MARKS[record.verdict]} {record.verdict}[/]"
        counts = f"{shown}/{len(record.evidence.checks)}"
        margins = "/".join(str(count) for count in powers(record.evidence.checks).values())
        view.add_row(escape(record.id), word, counts, margins, escape(record.source.split(" (")[0]))
    return view


def _counts(records: Sequence[ClaimRecord]) -> str:
    counts = {verdict: sum(record.verdict == verdict for record in records) for verdict in MARKS}
    verdicts = ", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count)
    margins = power_words(check for record in records for check in record.evidence.checks)
    return f"{verdicts}; checks with a margin: {margins}" if margins else verdicts


def listing() -> Table:
    """All claims, for `sparingly claims`."""
    view = Table(title=f"{len(CLAIMS)} claims", show_lines=False)
    view.add_column("claim", no_wrap=True)
    view.add_column("what it says, and where the paper says it")
    for claim in CLAIMS.values():
        view.add_row(escape(claim.id), f"{escape(claim.statement)} [dim]({escape(claim.source)})[/]")
    return view
