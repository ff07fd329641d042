"""Is BalancedMatching the right choice in every world? Four criteria, each holds or fails.

A candidate *loses* something in a world if its loss is significant; what is not significant counts as nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas

from benchmarks.worlds.candidates import EXACT, OURS, ZERO, safe
from benchmarks.worlds.world import World

FRIENDLY_MOST = 0.05
ADVERSARIAL_MOST = 2.5
OTHERS_LEAST = 3.0


@dataclass(frozen=True)
class Criterion:
    """What was to be shown, whether it was, and the worlds or candidates that decide."""

    says: str
    holds: bool
    found: str

    def row(self) -> dict[str, Any]:
        return asdict(self)


def of(losses: pandas.DataFrame, name: str) -> pandas.DataFrame:
    """The rows of a candidate by world, with `lost`: its loss where that is significant, else 0."""
    rows = losses[losses["candidate"] == name].set_index("world")
    return rows.assign(lost=rows["loss"].where(rows["significant"], 0.0))


def friendly(losses: pandas.DataFrame, worlds: dict[str, World]) -> Criterion:
    """Little is lost where nobody plays against it."""
    ours = of(losses, OURS)
    lost = ours["lost"][[key for key in ours.index if worlds[key].tag == "friendly"]].sort_values(ascending=False)
    bad = [f"{key} ({value:.3f})" for key, value in lost.items() if value > FRIENDLY_MOST]
    most = f"most: {lost.index[0]} ({lost.iloc[0]:.3f})" if len(lost) else "no friendly world"
    says = f"{OURS} loses at most {FRIENDLY_MOST} in every friendly world, or nothing significantly"
    return Criterion(says, not bad, "fails in " + ", ".join(bad) if bad else most)


def adversarial(losses: pandas.DataFrame, worlds: dict[str, World]) -> Criterion:
    """The regret stays near that of the rule that is made for the worst case."""
    ratio = (of(losses, OURS)["regret"] / of(losses, EXACT)["regret"]).dropna()
    ratio = ratio[[key for key in ratio.index if worlds[key].tag == "adversarial"]].sort_values(ascending=False)
    bad = [f"{key} ({value:.2f} ×)" for key, value in ratio.items() if value > ADVERSARIAL_MOST]
    most = f"most: {ratio.index[0]} ({ratio.iloc[0]:.2f} ×)" if len(ratio) else "no adversarial world"
    says = f"{OURS}'s regret in every adversarial world is at most {ADVERSARIAL_MOST} × {EXACT}'s"
    return Criterion(says, not bad, "fails in " + ", ".join(bad) if bad else most)


def others(losses: pandas.DataFrame) -> Criterion:
    """Everybody else has a world where they lose much more."""
    mine = of(losses, OURS)["lost"]
    bar = OTHERS_LEAST * float(mine.max())
    names = [name for name in dict.fromkeys(losses["candidate"]) if name not in (OURS, ZERO)]
    worst = {name: float(of(losses, name)["lost"].max()) for name in names}
    bad = [f"{name} ({value:.3f})" for name, value in worst.items() if not value >= bar]
    says = f"every other candidate has a world where it loses {OTHERS_LEAST:g} times what {OURS} loses anywhere"
    most = f"{OURS} loses at most {mine.max():.3f} ({mine.idxmax()})"
    tail = "; too little is lost by " + ", ".join(bad) if bad else f"; the others at least {min(worst.values()):.3f}"
    return Criterion(says, not bad, most + tail)


def budgets(losses: pandas.DataFrame, worlds: dict[str, World]) -> Criterion:
    """Nobody overspends, and no safe rule is refused."""
    over = losses[losses["over"] > 1e-6]
    held = [safe(name, worlds[key]) for name, key in pairs(losses)]
    refused = losses[(losses["refused"] > 0) & pandas.Series(held, index=losses.index)]
    bad = [f"{name} in {key}" for name, key in pairs(over)]
    bad += [f"{name} refused in {key}" for name, key in pairs(refused)]
    return Criterion("no overspend, and no refusal of a safe rule", not bad, ", ".join(bad) if bad else "none")


def pairs(rows: pandas.DataFrame) -> Sequence[tuple[str, str]]:
    return list(zip(rows["candidate"], rows["world"], strict=True))


def judge(losses: pandas.DataFrame, worlds: dict[str, World], whole: bool = True) -> list[Criterion]:
    """All criteria; of a part of the suite those that a part can tell."""
    last = budgets(losses, worlds)
    if OURS not in set(losses["candidate"]):
        return [Criterion(f"{OURS} takes part", False, "sparingly has no such rule"), last]
    parts = [friendly(losses, worlds), adversarial(losses, worlds)]
    return [*parts, *([others(losses)] if whole else []), last]
