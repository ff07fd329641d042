"""The time that budgets and leases go by: that of the clock, as far as a steady clock agrees with it.

A clock can be set wrong, and what has been granted by it cannot be taken back. So time may go ahead of what has really
passed by `TOLERANCE` at the most. A clock that jumps further is *held*: time goes on at its usual pace from where it
was, until the clock is right again or an operator confirms it. A clock that went back may come back: it is trusted up
to where it would be if it had never gone.

A steady clock does not outlive its process, so the last trusted time is kept in the store. A process that starts trusts
the clock up to `GAP` beyond it; that much is taken for the time in which nothing ran.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

import structlog

SECOND = 1_000_000  # times are in microseconds
TOLERANCE = 60 * SECOND  # how far the clock may be ahead of what has passed by the steady clock
GAP = 3_600 * SECOND  # how far it may be ahead of the last time in the store when a process starts
SAVE_EVERY = 60 * SECOND
DRIFT = 1_000  # two good clocks differ by less than one part in so many
log = structlog.get_logger("sparingly")


def system_clock() -> int:
    """The clock of this host."""
    return time.time_ns() // 1_000


def steady_clock() -> int:
    """Time since some moment; nobody can set it. If the system can tell, time in which the host slept counts too."""
    if hasattr(time, "CLOCK_BOOTTIME"):
        return time.clock_gettime_ns(time.CLOCK_BOOTTIME) // 1_000
    return time.monotonic_ns() // 1_000


class TrustedClock:
    """Follows `clock` as far as `steady` agrees with it. Any thread may use it."""

    def __init__(self, clock: Callable[[], int], steady: Callable[[], int]) -> None:
        self.clock, self.steady = clock, steady
        self.jumps = 0  # how often the clock has been held
        self.ahead = 0  # how far the held clock is ahead of the trusted time; 0 if it is not held
        self._guard = threading.Lock()
        self._expected: int | None = None  # the time that the clock should have shown …
        self._at = 0  # … at this moment of the steady clock
        self._before: tuple[int, int] | None = None  # the same from before the clock went back, until it is right again
        self.hold_saved = False  # whether the store knows that the clock is held
        self._saved_at: int | None = None

    @property
    def held(self) -> bool:
        return self.ahead > 0

    def start(self, stored: int | None) -> None:
        """Begin with the last time in the store, as `to_store` gave it."""
        with self._guard:
            now = self.clock()
            self._at, self._saved_at = self.steady(), None
            self._expected = now
            if stored is not None:
                last, patience = abs(stored), TOLERANCE if stored < 0 else GAP
                if now > last + patience:
                    self._expected = last
                    self._hold(now - last)
                elif now < last - TOLERANCE:
                    self._before = last, self._at

    def now(self) -> int:
        """The trusted time."""
        with self._guard:
            return self._now()

    def _now(self) -> int:
        now, steady = self.clock(), self.steady()
        if self._expected is None:
            return now
        passed, most = max(steady - self._at, 0), self._most(steady)
        if now > most + TOLERANCE:
            self._hold(now - most)
            return most
        self._release("it shows the expected time again")
        ahead = now - (self._expected + passed)
        if ahead < -TOLERANCE and self._before is None:
            self._before = most, steady
        if abs(ahead) > TOLERANCE:
            self._expected, self._at = now, steady  # it went back, or came back: expect it to go on from there
            if now >= most - TOLERANCE:
                self._before = None
        elif passed >= SECOND:
            drift = passed // DRIFT
            self._expected, self._at = self._expected + passed + min(max(ahead, -drift), drift), steady
        return now

    def _most(self, steady: int) -> int:
        """What the clock would show if it had never gone back."""
        shown, at = (self._expected or 0, self._at) if self._before is None else self._before
        return shown + max(steady - at, 0)

    def _hold(self, ahead: int) -> None:
        if not self.ahead:
            self.jumps += 1
            self._saved_at = None
            log.error(
                "the clock jumped ahead: until it is set right or confirmed, time goes on from where it was",
                ahead_seconds=ahead / SECOND,
            )
        self.ahead = ahead

    def _release(self, why: str) -> None:
        if self.ahead:
            self._saved_at, self.hold_saved = None, False
            log.warning("the clock is trusted again", reason=why)
        self.ahead = 0

    def follow(self, stored: int | None) -> int:
        """Trust a held clock if the store says that others do: an operator, or processes that saw no jump.

        What was stored before this process stored that it holds the clock says so only if it is of after the jump.
        """
        with self._guard:
            now, trusted = self.clock(), self._now()
            told = stored or 0
            others_trust = told > (0 if self.hold_saved else trusted + TOLERANCE) and now <= told + GAP
            if self.ahead and others_trust:
                self._expected, self._at, self._before = now, self.steady(), None
                self._release("it was confirmed")
            return self._now()

    # What the store keeps: the trusted time, as a negative number while the clock is held.

    @property
    def save_due(self) -> bool:
        """Whether the store should be told the time: once in a while, and whenever the clock is held or released."""
        return self._expected is not None and (self._saved_at is None or self.steady() - self._saved_at >= SAVE_EVERY)

    def to_store(self) -> int:
        """The number to store."""
        now = self.now()
        self._saved_at, self.hold_saved = self.steady(), self.held
        return -now if self.held else max(now, self._most(self._saved_at))

    def save_failed(self) -> None:
        """The number was not stored."""
        self._saved_at, self.hold_saved = None, False
