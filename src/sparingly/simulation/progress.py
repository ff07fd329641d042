"""A progress line on stderr for anything that takes longer than two seconds."""

from __future__ import annotations

import sys
import threading
import time
from typing import TextIO


class Progress:
    """Counts work done by several threads and shows it, first after two seconds, on a terminal only by default."""

    def __init__(self, total: int, label: str, show: bool | None = None, stream: TextIO | None = None) -> None:
        self.total, self.label = total, label
        self.stream = sys.stderr if stream is None else stream
        self.live = self.stream.isatty()
        self.show = self.live if show is None else show
        self.done = 0
        self.start = self.last = time.monotonic()
        self.drawn = False
        self.lock = threading.Lock()

    def add(self, amount: int) -> None:
        """Report progress; draws at most ten times a second on a terminal, every ten seconds elsewhere."""
        with self.lock:
            self.done += amount
            now = time.monotonic()
            pause = (0.1 if self.live else 10.0) if self.drawn else 2.0
            if self.show and now - self.last >= pause:
                self.last = now
                self.drawn = True
                self._draw(now)

    def _draw(self, now: float) -> None:
        share = min(1.0, self.done / self.total)
        left = (now - self.start) * (1.0 - share) / share if share > 0 else float("nan")
        start = "\r" if self.live else ""
        bar = "█" * round(24 * share) + "░" * (24 - round(24 * share))
        self.stream.write(f"{start}{self.label} {bar} {share:4.0%}, {left:.0f} s left ")
        self.stream.write("" if self.live else "\n")
        self.stream.flush()

    def close(self) -> None:
        """Wipe the line."""
        if self.drawn and self.live:
            self.stream.write("\r\x1b[K")
            self.stream.flush()
