"""The report on the claims: one self-contained HTML file, for a screen, a phone and paper.

The same records give the same bytes. The page is a template, templates/report.html, which escapes all text.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined, Template
from markupsafe import Markup

from sparingly.errors import InvalidInput
from sparingly.lab.claim_formulas import FORMULAS
from sparingly.lab.claims.evidence import (
    LOOSE,
    SHARP,
    VERDICTS,
    Check,
    ClaimRecord,
    Outcome,
    Verdict,
    power_words,
    powers,
)
from sparingly.lab.claims.statistics import NORMAL
from sparingly.lab.claims_figures import caption, panel_svg
from sparingly.lab.formatting import bar, number, parameter, value_and_interval
from sparingly.lab.mathml import mathml

TITLE = "Confidence-budget matching, reproduced"

# Headings for the part of an id before the slash, in the order of the report.
GROUPS = {
    "ours": "Our own rules",
    "lower": "Lower bounds",
    "greedy": "The greedy reduction",
    "ucb": "Multi-armed bandits (CBM-UCB)",
    "oful": "Linear bandits (CBM-OFUL)",
    "ucbvi": "Episodic reinforcement learning",
    "ulcvi": "Episodic reinforcement learning",
    "episodic": "Episodic reinforcement learning",
    "profiles": "Budget profiles",
    "remarks": "Remarks",
    "lemmas": "Lemmas",
    "constants": "Constants along real runs",
    "corrections": "Corrections to the paper",
}
# The CSS class and the symbol of each verdict and outcome; the word itself is always shown beside them.
MARKS: dict[Verdict | Outcome, tuple[str, str]] = {
    "holds": ("good", "✓"),
    "holds as corrected": ("fair", "≈"),
    "fails": ("bad", "✗"),
    "shown": ("good", "✓"),
    "refuted": ("bad", "✗"),
    "open": ("fair", "?"),
}
PLURAL: dict[Verdict, str] = {"holds": "hold", "holds as corrected": "hold as corrected", "fails": "fail"}
FORMS = {"stated": "as the paper states it", "corrected": "as corrected"}
HEADLINE = ("greedy/adversarial-contexts", 0)  # the claim and the panel of the figure on the first screen


def write_report(path: Path, records: Sequence[ClaimRecord], mode: str, about: Mapping[str, str]) -> None:
    """Write the report on these records to a file; `about` says how they were made: version, seed, command."""
    repeated = [name for name, times in Counter(record.id for record in records).items() if times > 1]
    if repeated:
        raise InvalidInput(f"a report has one record per claim, and there are several of {', '.join(repeated)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_html(records, {"mode": mode, **about}), encoding="utf-8", newline="\n")


def grouped(records: Iterable[ClaimRecord]) -> dict[str, list[ClaimRecord]]:
    """The records by the headings of the report: known headings in their order, then the others as they come."""
    found: dict[str, list[ClaimRecord]] = {heading: [] for heading in GROUPS.values()}
    for record in records:
        prefix = record.id.partition("/")[0]
        found.setdefault(GROUPS.get(prefix, prefix.capitalize()), []).append(record)
    return {heading: members for heading, members in found.items() if members}


def draw(record: ClaimRecord) -> list[str]:
    """Draw the figures of a record. They are cached, so they can be drawn ahead, while other claims are running."""
    return [panel_svg(panel, f"{record.id} {place}") for place, panel in enumerate(record.evidence.panels)]


@functools.cache
def _template() -> Template:
    loader = PackageLoader("sparingly.lab")
    page = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True)
    page.globals |= {"marks": MARKS, "plural": PLURAL, "counted": _count, "breakable": _breakable}
    return page.get_template("report.html")


def _html(records: Sequence[ClaimRecord], about: Mapping[str, str]) -> str:
    folder = files("sparingly.lab").joinpath("templates")
    css, script = (folder.joinpath(f"report.{ending}").read_text(encoding="utf-8") for ending in ("css", "js"))
    checks = [check for record in records for check in record.evidence.checks]
    claims = {record.id: _claim(record) for record in records}
    counts = Counter(record.verdict for record in records)
    found = powers(checks)
    return _template().render(
        title=TITLE,
        css=css,
        script=script,
        script_hash="sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        claims=claims,
        chapters=[_chapter(heading, members, claims) for heading, members in grouped(records).items()],
        totals={verdict: counts[verdict] for verdict in VERDICTS},
        exceptions=[claims[record.id] for record in records if record.verdict != "holds"],
        headline=_headline(records),
        checks=checks,
        powers=found if any(found.values()) else {},
        blunt=sum(_blunt(record) for record in records),
        alarms=_alarms(checks),
        sharp=number(SHARP),
        loose=number(LOOSE),
        powers_in_words=power_words(checks),
        about=about,
    )


# The top of the page


def _headline(records: Sequence[ClaimRecord]) -> dict[str, Any] | None:
    """The figure of the first screen, if its claim was run."""
    for record in records:
        if record.id == HEADLINE[0] and len(record.evidence.panels) > HEADLINE[1]:
            panel = record.evidence.panels[HEADLINE[1]]
            return {
                "id": record.id, "link": _link(record), "statement": record.statement,
                "caption": caption(panel, record.seed), "drawing": panel_svg(panel, "headline"),
            }  # fmt: skip
    return None


def _chapter(heading: str, records: Sequence[ClaimRecord], claims: Mapping[str, Any]) -> dict[str, Any]:
    counts = Counter(record.verdict for record in records)
    return {
        "id": "group-" + re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-"),
        "heading": heading,
        "claims": [claims[record.id] for record in records],
        "counts": {verdict: counts[verdict] for verdict in VERDICTS},
    }


def _blunt(record: ClaimRecord) -> bool:
    """Whether no check of the claim would notice a constant that is wrong by half: none is sharp or an equality."""
    checks = record.evidence.checks
    return bool(checks) and not any(check.power == "sharp" or check.relation == "=" for check in checks)


def _alarms(checks: Sequence[Check]) -> str:
    """How likely chance alone is to mislead, from the checks themselves."""
    rates = [check.alarm for check in checks if check.alarm > 0.0]
    exact, supposed = len(checks) - len(rates), sum(NORMAL in check.test for check in checks)
    words = []
    if rates:
        words.append(
            f"Of {_count(len(checks), 'check')}, {len(rates):,} rest on a statistical test. Chance makes one of them "
            f"come out wrong with probability at most {number(max(rates))} (one in {number(round(1 / max(rates)))}), "
            f"and any of them with probability at most {number(sum(rates))}."
        )
    if supposed:
        words.append(
            f"For {supposed:,} of these that is so “{NORMAL}” over runs, as their rows say: the more runs, the better "
            "founded. The others make no such assumption."
        )
    if exact:
        words.append(f"{_count(exact, 'check')} {'is' if exact == 1 else 'are'} exact: no chance is involved.")
    return " ".join(words)


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


# One claim


def _claim(record: ClaimRecord) -> dict[str, Any]:
    """What the template shows of a claim."""
    evidence = record.evidence
    formula = FORMULAS.get(record.id)
    found = power_words(evidence.checks)
    parameters = {key: parameter(value) for key, value in record.parameters.items()}
    return {
        "id": record.id, "anchor": _anchor(record), "link": _link(record), "verdict": record.verdict,
        "statement": record.statement, "source": record.source, "correction": record.correction,
        "judged": record.judged, "note": evidence.note, "blunt": _blunt(record),
        "formula": mathml(formula, block=True) if formula else "",
        "powers": f"margins: {found}" if found else "",
        "checks": [_check(check) for check in evidence.checks],
        "figures": [
            {"caption": caption(panel, record.seed), "drawing": drawing}
            for panel, drawing in zip(evidence.panels, draw(record), strict=True)
        ],
        "parameters": parameters | {"seed": str(record.seed), "mode": record.mode},
    }  # fmt: skip


def _check(check: Check) -> dict[str, Any]:
    """What the template shows of a check."""
    value, interval = value_and_interval(check)
    return {
        "says": check.says, "form": FORMS.get(check.form, ""), "value": value, "interval": interval,
        "gauge": _gauge(check), "relation": check.relation, "bar": bar(check),
        "margin": "" if check.margin is None else f"margin {number(check.margin, 2)}, {check.power}",
        "test": check.test, "outcome": check.outcome,
        "chance": f"false alarm ≤ {number(check.alarm)}" if check.alarm else "no chance involved",
    }  # fmt: skip


def _gauge(check: Check) -> str:
    """A small picture of where the interval lies: the side of the bar where it should be is shaded."""
    seen = [x for x in (check.value, check.low, check.high, check.bar) if math.isfinite(x)]
    if check.low == check.high or not math.isfinite(check.bar) or max(seen) == min(seen):
        return ""
    margin = 0.12 * (max(seen) - min(seen))
    left, right = min(seen) - margin, max(seen) + margin

    def at(x: float) -> float:
        return round(120 * (min(max(x, left), right) - left) / (right - left), 1)

    edge, low, high = at(check.bar), at(check.low), at(check.high)
    start, end = (edge, 120.0) if check.relation == "≥" else (0.0, edge)
    dot = f'<circle cx="{at(check.value)}" cy="8" r="3.2"/>' if math.isfinite(check.value) else ""
    return (
        f'<svg class="gauge {MARKS[check.outcome][0]}" viewBox="0 0 120 16" aria-hidden="true">'
        f'<rect class="side" x="{start}" y="2" width="{end - start:.1f}" height="12"/>'
        f'<path class="edge" d="M{edge} 0V16"/><path class="span" d="M{low} 8H{max(high, low + 1):.1f}"/>{dot}</svg>'
    )


# Small parts


def _anchor(record: ClaimRecord) -> str:
    return re.sub(r"\s", "-", record.id)


def _link(record: ClaimRecord) -> str:
    return "#" + quote(_anchor(record))


def _breakable(name: str) -> Markup:
    """An id that may be broken after a slash or a hyphen if there is no room for it."""
    return Markup(re.sub(r"([/_-])", r"\1<wbr>", escape(name)))  # noqa: S704 (escaped)
