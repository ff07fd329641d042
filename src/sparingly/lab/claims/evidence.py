"""Claims, and the evidence from running them: checks with their outcomes, curves, and a verdict.

Everything here is plain data that can be written as JSON and read back, so the report, the tables and a resumed run see
the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from sparingly.errors import InvalidInput

if TYPE_CHECKING:
    from sparingly.lab.claims.runner import Runner

Outcome = Literal["shown", "refuted", "open"]
Form = Literal["", "stated", "corrected"]
Verdict = Literal["holds", "holds as corrected", "fails"]
Role = Literal["measured", "upper", "lower", "budget", "fit"]

Power = Literal["sharp", "loose", "vacuous"]

VERDICTS: tuple[Verdict, ...] = ("holds", "holds as corrected", "fails")
POWERS: tuple[Power, ...] = ("sharp", "loose", "vacuous")
SHARP, LOOSE = 1.5, 100.0  # up to these margins: a constant that is wrong by half is noticed; at least its order is
ROUNDING = 1e-6  # exact comparisons with less than this allow for rounding, and are equalities


@dataclass(frozen=True)
class Check:
    """One comparison of a claim: what it says, what was measured, the test that judged it, and its outcome.

    `value` is compared with `bar` by `relation`. [low, high] is the interval of the test. The chance of a false alarm,
    an outcome other than "open" that is wrong, is at most `alarm` under the conditions that `test` names, and 0 for an
    exact comparison. "open" means that the data do not decide; a claim with an open check does not hold. `form` tells
    the paper's own wording ("stated") from a corrected one; "" belongs to both. `most` is the largest value that there
    can be, if that is known. For the slope of a growth over logarithms, `span` is how many times the largest x is the
    smallest.
    """

    says: str
    value: float
    relation: Literal["≤", "≥", "="]
    bar: float
    low: float
    high: float
    outcome: Outcome
    test: str
    alarm: float = 0.0
    form: Form = ""
    most: float = math.inf
    span: float = 0.0

    @property
    def margin(self) -> float | None:
        """How many times the bar is from what was measured: by so large a factor a constant may be wrong unnoticed.

        Taken from the end of the interval that is farther from the bar, so it flatters no check; from the measured
        value itself if that end says nothing, being infinite or not positive. For a slope it is the factor that the
        distance makes over the whole range. None for equalities, for amounts that are held against 0, and for what
        was not shown.
        """
        if self.relation == "=" or self.outcome != "shown":
            return None
        far = self.low if self.relation == "≤" else self.high
        if self.span > 1.0:
            return float(self.span ** abs(self.bar - far))
        if self.bar <= (ROUNDING if self.test == "exact" else 0.0):
            return None
        measured = far if 0.0 < far < math.inf else self.value
        over, under = (self.bar, measured) if self.relation == "≤" else (measured, self.bar)
        return over / under if under > 0.0 else math.inf

    @property
    def power(self) -> Power | None:
        """What a check could notice: "sharp" up to a margin of 1.5, "loose" up to 100, else "vacuous".

        A bar that nothing can pass is vacuous too, whatever was measured.
        """
        margin = self.margin
        if margin is None:
            return None
        if margin > LOOSE or (self.relation == "≤" and self.bar >= self.most):
            return "vacuous"
        return "sharp" if margin <= SHARP else "loose"


@dataclass(frozen=True)
class Curve:
    """One line of a figure: y over x, with a band if `low` and `high` are given."""

    label: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    low: tuple[float, ...] = ()
    high: tuple[float, ...] = ()
    role: Role = "measured"


@dataclass(frozen=True)
class Panel:
    """One small figure: the labels of its axes, and its curves; the caption names the seed if `chance` plays a part."""

    title: str
    x_label: str
    y_label: str
    curves: tuple[Curve, ...]
    x_log: bool = True
    y_log: bool = True
    chance: bool = True


@dataclass(frozen=True)
class Evidence:
    """The outcome of running one claim."""

    checks: tuple[Check, ...]
    panels: tuple[Panel, ...] = ()
    note: str = ""  # what a reader should know about these numbers

    @property
    def verdict(self) -> Verdict:
        """Holds if every check was shown; holds as corrected if only checks of the stated form were not; else fails."""
        return verdict(self.checks)


def verdict(checks: Iterable[Check]) -> Verdict:
    """The verdict on a claim from the outcomes of its checks."""
    made = list(checks)
    failed = [check.form for check in made if check.outcome != "shown"]
    if not failed:
        return "holds" if made else "fails"  # nothing was measured, so nothing was shown
    corrected = any(check.form == "corrected" for check in made)
    return "holds as corrected" if corrected and set(failed) == {"stated"} else "fails"


def powers(checks: Iterable[Check]) -> dict[Power, int]:
    """How many checks are sharp, loose and vacuous; those without a margin are not counted."""
    found = [check.power for check in checks]
    return {power: found.count(power) for power in POWERS}


def power_words(checks: Iterable[Check]) -> str:
    """The same in words: "3 sharp, 1 loose", or "" if no check has a margin."""
    return ", ".join(f"{count} {power}" for power, count in powers(checks).items() if count)


@dataclass(frozen=True)
class Claim:
    """A claim as data: a stable id, one line that states it, its source in the paper, how it is judged, what is run.

    `quick` and `full` are the parameters of the two modes. `run` is called with a `Runner` and these parameters.
    """

    id: str
    statement: str
    source: str
    judged: str
    run: Callable[..., Evidence]
    quick: Mapping[str, Any]
    full: Mapping[str, Any]
    correction: str = ""  # what holds instead, if the statement needs a correction

    @property
    def group(self) -> str:
        """The part of the id before the slash."""
        return self.id.split("/")[0]

    def parameters(self, mode: str) -> dict[str, Any]:
        """The parameters of this mode."""
        return dict(self.full if mode == "full" else self.quick)

    def evaluate(self, runner: Runner) -> Evidence:
        """Run the claim in the mode of the runner."""
        return self.run(runner, **self.parameters(runner.mode))


CLAIMS: dict[str, Claim] = {}


def claim(
    id: str,
    statement: str,
    *,
    source: str,
    judged: str,
    quick: Mapping[str, Any],
    full: Mapping[str, Any],
    correction: str = "",
) -> Callable[[Callable[..., Evidence]], Callable[..., Evidence]]:
    """Register a function as a claim. `full` needs only the parameters that differ from `quick`."""

    def enter(run: Callable[..., Evidence]) -> Callable[..., Evidence]:
        if id in CLAIMS:
            raise InvalidInput(f"two claims have the id {id!r}")
        CLAIMS[id] = Claim(id, statement, source, judged, run, dict(quick), {**quick, **full}, correction)
        return run

    return enter


@dataclass(frozen=True)
class ClaimRecord:
    """A claim that was run: its words, its parameters, its evidence. This is what is kept in a file."""

    id: str
    statement: str
    source: str
    judged: str
    correction: str
    mode: str
    seed: int
    parameters: Mapping[str, Any]
    evidence: Evidence = field(default_factory=lambda: Evidence(()))

    @property
    def verdict(self) -> Verdict:
        """The verdict on the claim."""
        return self.evidence.verdict

    def to_json(self) -> dict[str, Any]:
        """Plain data, with verdict, margins and powers for those who read only the file; infinities become strings."""
        plain: dict[str, Any] = _plain(asdict(self) | {"verdict": self.verdict})
        for check, data in zip(self.evidence.checks, plain["evidence"]["checks"], strict=True):
            data |= {"margin": _plain(check.margin), "power": check.power}
        return plain

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ClaimRecord:
        """The inverse of `to_json`; raises KeyError or TypeError if the data are of another kind."""
        raw = _numbers({key: value for key, value in data.items() if key != "verdict"})
        found = raw.pop("evidence")
        panels = tuple(
            Panel(**{**panel, "curves": tuple(_curve(curve) for curve in panel["curves"])}) for panel in found["panels"]
        )
        checks = tuple(
            Check(**{key: value for key, value in check.items() if key not in ("margin", "power")})
            for check in found["checks"]
        )
        return ClaimRecord(**raw, evidence=Evidence(checks, panels, found["note"]))


def _curve(data: Mapping[str, Any]) -> Curve:
    fields: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in data.items()}
    return Curve(**fields)


def _plain(value: Any) -> Any:
    """Prepare for JSON: tuples become lists, and numbers that JSON does not have become strings."""
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"number": str(value)}
    return value


def _numbers(value: Any) -> Any:
    """The inverse of `_plain`, except for tuples."""
    if isinstance(value, dict):
        if set(value) == {"number"}:
            return float(value["number"])
        return {key: _numbers(item) for key, item in value.items()}
    return [_numbers(item) for item in value] if isinstance(value, list) else value
