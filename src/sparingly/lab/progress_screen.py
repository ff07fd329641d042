"""Progress of claims and of sweeps on the screen: bars in a terminal, plain lines elsewhere."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
    TimeRemainingColumn,
)  # fmt: skip

from sparingly.lab.claims import ClaimRecord
from sparingly.lab.reproduce import MARKS, STYLES, ProgressCallbacks


class ClaimsScreen:
    """Shows which claims are running and which are done, or nothing if `quiet`. Use it in a `with` block."""

    def __init__(self, console: Console, total: int, quiet: bool = False) -> None:
        self.console, self.total, self.quiet = console, total, quiet
        self.done = 0
        self.lock = threading.Lock()  # claims run in threads
        self.tasks: dict[str, TaskID] = {}
        self.bar = Progress(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn(),
            console=console, transient=True, disable=quiet or not console.is_terminal,
        )  # fmt: skip
        self.whole = self.bar.add_task("claims", total=total)
        self.callbacks = ProgressCallbacks(self.started, self.doing, self.finished)

    def __enter__(self) -> ClaimsScreen:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def started(self, id: str) -> None:
        """A claim starts."""
        with self.lock:
            self.tasks[id] = self.bar.add_task(escape(id), total=None)

    def doing(self, id: str, what: str) -> None:
        """A claim starts its next simulation."""
        with self.lock:
            self.bar.update(self.tasks[id], description=f"{escape(id)}: {escape(what)}")

    def finished(self, record: ClaimRecord, seconds: float) -> None:
        """A claim is done, or was done before."""
        with self.lock:
            self.done += 1
            if record.id in self.tasks:
                self.bar.remove_task(self.tasks.pop(record.id))
            self.bar.update(self.whole, completed=self.done)
            if not self.quiet:
                took = f"{seconds:.1f} s" if seconds else "kept from before"
                word = f"[{STYLES[record.verdict]}]{MARKS[record.verdict]} {record.verdict}[/]"
                self.console.print(
                    f"[{self.done}/{self.total}]".replace("[", r"\[") + f" {escape(record.id)}: {word} ({took})"
                )


@dataclass
class SweepScreen:
    """Shows how many cells of a sweep are done, or nothing if `quiet`. Use it in a `with` block."""

    console: Console
    total: int
    quiet: bool = False
    pause: float = 5.0  # seconds between lines
    done: int = 0
    failed: int = 0
    kept: int = 0  # how many of the done cells were done by an earlier run
    start: float = field(default_factory=time.monotonic)
    said: float = field(default_factory=time.monotonic)
    first: float = 0.0  # when the first cell was done; until then, workers are starting

    def __enter__(self) -> SweepScreen:
        live = self.console.is_terminal and not self.quiet
        self.bar = Progress(
            TextColumn("cells"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[failed]}"),
            TimeRemainingColumn(), console=self.console, transient=True, disable=not live,
        )  # fmt: skip
        self.task = self.bar.add_task("cells", total=self.total, failed="")
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()
        if kind is None:
            self.say()

    def resume(self, kept: int) -> None:
        """An earlier run did this many cells."""
        self.done = self.kept = kept
        self.bar.update(self.task, completed=kept)
        if kept:
            self.say(f"{kept} of {self.total} cells were done before")

    def tick(self, failed: bool = False) -> None:
        """Another cell is done, or has failed for good."""
        self.first = self.first or time.monotonic()
        self.done += not failed
        self.failed += failed
        word = f"{self.failed} failed" if self.failed else ""
        self.bar.update(self.task, completed=self.done + self.failed, failed=word)
        if time.monotonic() - self.said >= self.pause and not self.console.is_terminal:
            self.say()

    def say(self, line: str = "") -> None:
        """Print this line, or how far the sweep has got."""
        self.said = time.monotonic()
        if self.quiet:
            return
        passed, ended = self.said - self.start, self.done + self.failed
        new, rest = ended - self.kept, self.total - ended
        left = f", about {(self.said - self.first) / (new - 1) * rest:.0f} s left" if new > 1 and rest else ""
        plain = f"{self.done}/{self.total} cells done, {self.failed} failed, {passed:.1f} s{left}"
        self.console.print(line or plain, markup=False, highlight=False)
