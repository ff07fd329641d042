"""Fair timing on a noisy machine: candidates take turns, the best time counts, the spread is reported."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass


@dataclass(frozen=True)
class Timing:
    """Seconds per unit of work: the best of all turns, and how much worse the median turn was."""

    best: float
    spread: float

    def __str__(self) -> str:
        unit, factor = next((u, f) for u, f in (("s", 1), ("ms", 1e3), ("µs", 1e6), ("ns", 1e9)) if self.best * f >= 1)
        return f"{self.best * factor:8.2f} {unit:2s} (median +{self.spread:.0%})"


def race(candidates: dict[str, tuple[Callable[[], object], int]], turns: int = 15) -> dict[str, Timing]:
    """Let the candidates take turns; each is a call and the number of units of work that it does."""
    seconds: dict[str, list[float]] = {name: [] for name in candidates}
    for _ in range(turns):
        for name, (call, work) in candidates.items():
            start = time.perf_counter()
            call()
            seconds[name].append((time.perf_counter() - start) / work)
    return timings(seconds)


def timings(seconds: dict[str, list[float]]) -> dict[str, Timing]:
    """Of the seconds of all turns."""
    best = {name: min(taken) for name, taken in seconds.items()}
    return {
        name: Timing(best[name], sorted(taken)[len(taken) // 2] / best[name] - 1.0) for name, taken in seconds.items()
    }


def report(title: str, timings: dict[str, Timing], ours: str, unit: str = "round") -> None:
    """Print a race, each candidate with its ratio to ours."""
    print(f"\n{title}")
    for name, timing in timings.items():
        ratio = "" if name == ours else f"   {timing.best / timings[ours].best:8.1f} × ours"
        print(f"  {name:42s} {timing} per {unit}{ratio}")
