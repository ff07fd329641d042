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

VERDICTS: tuple[Verdict, ...] = ("holds", "holds as corrected", "fails")


@dataclass(frozen=True)
class Check:
    """One comparison of a claim: what it says, what was measured, the test that judged it, and its outcome.

    `value` is compared with `bar` by `relation`. [low, high] is the interval of the test. The chance of a false alarm,
    an outcome other than "open" that is wrong, is at most `alarm` under the conditions that `test` names, and 0 for an
    exact comparison. "open" means that the data do not decide; a claim with an open check does not hold. `form` tells
    the paper's own wording ("stated") from a corrected one; "" belongs to both.
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
        """Plain data, including the verdict for those who read only the file; infinities become strings."""
        plain: dict[str, Any] = _plain(asdict(self) | {"verdict": self.verdict})
        return plain

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> ClaimRecord:
        """The inverse of `to_json`; raises KeyError or TypeError if the data are of another kind."""
        raw = _numbers({key: value for key, value in data.items() if key != "verdict"})
        found = raw.pop("evidence")
        panels = tuple(
            Panel(**{**panel, "curves": tuple(_curve(curve) for curve in panel["curves"])}) for panel in found["panels"]
        )
        checks = tuple(Check(**check) for check in found["checks"])
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
