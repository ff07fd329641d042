"""What a person sees while claims are run: a line for each that is done, and what is being worked on."""

from __future__ import annotations

import threading
from types import TracebackType

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, Progress, SpinnerColumn, TaskID, TextColumn, TimeElapsedColumn

from sparingly.lab.claims import Record
from sparingly.lab.reproduce import MARKS, STYLES, Watch


class Screen:
    """Progress in a terminal, plain lines elsewhere, nothing if `quiet`. To be used in a `with` block."""

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
        self.watch = Watch(self.started, self.doing, self.finished)

    def __enter__(self) -> Screen:
        self.bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.bar.stop()

    def started(self, id: str) -> None:
        """A claim begins."""
        with self.lock:
            self.tasks[id] = self.bar.add_task(escape(id), total=None)

    def doing(self, id: str, what: str) -> None:
        """A claim begins its next simulation."""
        with self.lock:
            self.bar.update(self.tasks[id], description=f"{escape(id)}: {escape(what)}")

    def finished(self, record: Record, seconds: float) -> None:
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
