"""The report on the claims: one self-contained HTML file, for a screen, a phone and paper.

The same records give the same bytes. All text from outside passes through `text`, which escapes it.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from html import escape as text
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

from sparingly.errors import InvalidInput
from sparingly.lab.claims.evidence import (
    LOOSE,
    SHARP,
    VERDICTS,
    Check,
    ClaimRecord,
    Outcome,
    Verdict,
    power_words,
)
from sparingly.lab.claims.statistics import NORMAL
from sparingly.lab.claims_figures import caption, panel_svg
from sparingly.lab.formatting import bar, number, parameter, value_and_interval

TITLE = "Confidence-budget matching, reproduced"

# Headings for the part of an id before the slash, in the order of the report.
GROUPS = {
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
    "ours": "Our own rules",
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
FORMS = {"stated": "as the paper states it", "corrected": "as corrected"}
Grouped = Mapping[str, Sequence[ClaimRecord]]


def write_report(path: Path, records: Sequence[ClaimRecord], mode: str, about: Mapping[str, str]) -> None:
    """Write the report on these records to a file; `about` says how they were made: version, seed, command."""
    repeated = [name for name, times in Counter(record.id for record in records).items() if times > 1]
    if repeated:
        raise InvalidInput(f"a report has one record per claim, and there are several of {', '.join(repeated)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_html(records, mode, about), encoding="utf-8", newline="\n")


def grouped(records: Iterable[ClaimRecord]) -> dict[str, list[ClaimRecord]]:
    """The records by the headings of the report: known headings in their order, then the others as they come."""
    found: dict[str, list[ClaimRecord]] = {heading: [] for heading in GROUPS.values()}
    for record in records:
        prefix = record.id.partition("/")[0]
        found.setdefault(GROUPS.get(prefix, prefix.capitalize()), []).append(record)
    return {heading: members for heading, members in found.items() if members}


def _html(records: Sequence[ClaimRecord], mode: str, about: Mapping[str, str]) -> str:
    groups = grouped(records)
    css = files("sparingly.lab").joinpath("report.css").read_text(encoding="utf-8")
    return f"""<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="color-scheme" content="light dark">
<link rel="icon" href="data:,">
<title>{TITLE}</title>
<style>
{css}</style>
</head>
<body>
<a class="skip" href="#part-claims">Skip to the claims</a>
<header>
<h1>{TITLE}</h1>
{_lead(records)}
{_about(mode, about)}
</header>
<main>
{_summary(records, groups)}
{_exceptions(records)}
{_overview(groups)}
{"".join(_group(heading, members) for heading, members in groups.items())}
</main>
<footer><p>Written by <code>sparingly reproduce</code>. The same claims, version, mode and seed give the same file on
the same machine.</p></footer>
</body>
</html>
"""


# The top of the page


def _lead(records: Sequence[ClaimRecord]) -> str:
    checks = [check for record in records for check in record.evidence.checks]
    return f"""<p class="lead">What should one do, and when is it worth asking how good it was, if one may ask only so
often? <cite>Confidence-Budget Matching for Sequential Budgeted Learning</cite> by Efroni, Merlis, Saha and Mannor
(ICML 2021) answers with a rule, to ask only while one’s uncertainty is large for what the budget could still buy,
and with theorems on what that rule loses. This report takes {_count(len(records), "claim")} from that paper and from
this project, runs each as an experiment, and judges it by the numbers that came out.</p>
<h2 id="part-how">How to read it</h2>
<p>A claim is split into <em>checks</em>, each of which compares something measured with a bar. A check is
<strong>shown</strong> if the whole interval of its test lies on the right side of the bar, <strong>refuted</strong> if
the whole interval lies on the wrong side, and <strong>open</strong> if the data do not decide.
{_alarms(checks)}</p>
<p>A claim <strong>holds</strong> if all its checks were shown. It <strong>holds as corrected</strong> if the paper’s
own wording failed a check, and every check of a corrected wording was shown. Otherwise it <strong>fails</strong>: one
open check is enough. A simulation can refute a theorem, but cannot prove it; “holds” means that on these problems, at
this size, the theorem says what happens.</p>
<p>{_margins(checks)}</p>
<p>A figure shows what was measured as the mean over runs, and regret with a band around it: that in which 10 to 90 % of
the runs lie, or the interval of the mean by which it is judged. Its axis says which, and how many runs there were; its
caption names the seed.</p>"""


def _alarms(checks: Sequence[Check]) -> str:
    """How likely chance alone is to mislead, from the checks themselves."""
    rates = [check.alarm for check in checks if check.alarm > 0.0]
    exact, supposed = len(checks) - len(rates), sum(NORMAL in check.test for check in checks)
    words = []
    if rates:
        words.append(
            f"Of {_count(len(checks), 'check')}, {len(rates):,} rest on a statistical test: chance makes one of them "
            f"come out wrong with probability at most {number(max(rates))} (one in {number(round(1 / max(rates)))}), "
            f"and any of them with probability at most {number(sum(rates))}."
        )
    if supposed:
        words.append(
            f"For {supposed:,} of these that is so “{NORMAL}” over runs, as their rows say: the more runs, the better "
            "founded. The others need no such supposition."
        )
    if exact:
        words.append(f"{_count(exact, 'check')} without chance {'is' if exact == 1 else 'are'} exact.")
    return " ".join(words)


def _margins(checks: Sequence[Check]) -> str:
    """What margins are, and how many checks are sharp, loose and vacuous."""
    words = (
        "The <em>margin</em> of a check is how many times the bar is from what was measured, taken from the end of the "
        f"interval that is farther away. A check is <strong>sharp</strong> up to a margin of {number(SHARP)}: a "
        "constant that is wrong by half would be noticed. "
        f"It is <strong>loose</strong> up to {number(LOOSE)}, and <strong>vacuous</strong> beyond, or if nothing could "
        "pass its bar: then it says next to nothing. Equalities have no margin; they notice everything."
    )
    found = power_words(checks)
    return f"{words} Of the checks here {found}." if found else words


def _count(n: int, noun: str) -> str:
    return f"{n:,} {noun}{'' if n == 1 else 's'}"


def _about(mode: str, about: Mapping[str, str]) -> str:
    return _pairs("about", {"mode": mode, **about})


def _pairs(kind: str, rows: Mapping[str, str]) -> str:
    items = "".join(f"<div><dt>{text(key)}</dt><dd>{text(value)}</dd></div>" for key, value in rows.items())
    return f'<dl class="{kind}">{items}</dl>'


def _summary(records: Sequence[ClaimRecord], groups: Grouped) -> str:
    counts = Counter(record.verdict for record in records)
    tiles = "".join(
        f'<li class="{MARKS[verdict][0]}"><span class="count">{counts[verdict]}</span> {_badge(verdict)}</li>'
        for verdict in VERDICTS
    )
    rows = "".join(
        f'<li><a href="#{_group_id(heading)}">{text(heading)}</a> '
        f'<span class="marks">{_mark_links(members)}</span></li>'
        for heading, members in groups.items()
    )
    return f"""<section aria-labelledby="part-summary">
<h2 id="part-summary">Summary</h2>
<ul class="tiles">{tiles}</ul>
<nav aria-label="Contents"><ul class="contents">{rows}</ul></nav>
</section>"""


def _mark_links(records: Sequence[ClaimRecord]) -> str:
    return "".join(
        f'<a class="mark {MARKS[record.verdict][0]}" href="{_link(record)}" '
        f'title="{text(record.id)} {record.verdict}" aria-label="{text(record.id)} {record.verdict}">'
        f"{MARKS[record.verdict][1]}</a>"
        for record in records
    )


def _exceptions(records: Sequence[ClaimRecord]) -> str:
    """Up front: the claims that the numbers contradict."""
    others = [record for record in records if record.verdict != "holds"]
    if not others:
        return ""
    items = "".join(
        f'<li>{_badge(record.verdict)} <a href="{_link(record)}">{text(record.statement)}</a>'
        f"{f'<p>{text(record.correction)}</p>' if record.correction else ''}</li>"
        for record in others
    )
    return f"""<section aria-labelledby="part-exceptions">
<h2 id="part-exceptions">What does not hold as stated</h2>
<ul class="exceptions">{items}</ul>
</section>"""


def _overview(groups: Grouped) -> str:
    """All claims in one table, with a <tbody> for each group."""
    bodies = "".join(
        f'<tbody><tr class="group"><th scope="rowgroup" colspan="4">{text(heading)}</th></tr>'
        f"{''.join(_overview_row(record) for record in members)}</tbody>"
        for heading, members in groups.items()
    )
    return f"""<section aria-labelledby="part-claims">
<h2 id="part-claims">All claims</h2>
<div class="scroll"><table class="overview">
<thead><tr><th scope="col">Claim</th><th scope="col">What it says</th><th scope="col">Source</th>\
<th scope="col">Verdict</th></tr></thead>
{bodies}
</table></div>
</section>
"""


def _overview_row(record: ClaimRecord) -> str:
    return (
        f'<tr><th scope="row"><a href="{_link(record)}"><code>{_breakable(record.id)}</code></a></th>'
        f"<td>{text(record.statement)}</td>"
        f'<td class="source">{text(record.source)}</td><td>{_badge(record.verdict)}</td></tr>\n'
    )


# One claim


def _group(heading: str, records: Sequence[ClaimRecord]) -> str:
    claims = "".join(_claim(record) for record in records)
    return (
        f'<section class="group" aria-labelledby="{_group_id(heading)}">\n'
        f'<h2 id="{_group_id(heading)}">{text(heading)}</h2>\n{claims}</section>\n'
    )


def _claim(record: ClaimRecord) -> str:
    evidence, name = record.evidence, text(_anchor(record))
    correction = (
        f'<p class="correction"><strong>What holds instead.</strong> {text(record.correction)}</p>\n'
        if record.correction
        else ""
    )
    note = f'<p class="note"><strong>Note.</strong> {text(evidence.note)}</p>\n' if evidence.note else ""
    parameters = {key: parameter(value) for key, value in record.parameters.items()}
    parameters |= {"seed": str(record.seed), "mode": record.mode}
    return f"""<article id="{name}">
<p class="meta"><a href="{_link(record)}"><code>{_breakable(record.id)}</code></a> {_badge(record.verdict)}\
{_powers(evidence.checks)}</p>
<h3>{text(record.statement)}</h3>
<p class="source">{text(record.source)}</p>
{correction}{_figures(record)}{_checks(evidence.checks)}\
<p class="judged"><strong>How it is judged.</strong> {text(record.judged)}</p>
{note}<details><summary>Parameters</summary>{_pairs("parameters", parameters)}</details>
</article>
"""


def _figures(record: ClaimRecord) -> str:
    if not record.evidence.panels:
        return ""
    figures = "\n".join(
        f"<figure><figcaption>{text(caption(panel, record.seed))}</figcaption>{drawing}</figure>"
        for panel, drawing in zip(record.evidence.panels, draw(record), strict=True)
    )
    return f'<div class="figures">\n{figures}\n</div>\n'


def draw(record: ClaimRecord) -> list[str]:
    """Draw the figures of a record. They are cached, so they can be drawn ahead, while other claims are running."""
    return [panel_svg(panel, f"{record.id} {place}") for place, panel in enumerate(record.evidence.panels)]


def _checks(checks: Sequence[Check]) -> str:
    if not checks:
        return '<p class="note">Nothing was checked.</p>\n'
    rows = "\n".join(_check_row(check) for check in checks)
    return f"""<div class="scroll"><table class="checks">
<caption>Checks</caption>
<thead><tr><th scope="col">It says</th><th scope="col">Measured</th><th scope="col">Must be</th>\
<th scope="col">Test</th><th scope="col">Outcome</th></tr></thead>
<tbody>
{rows}
</tbody></table></div>
"""


def _powers(checks: Sequence[Check]) -> str:
    """How many checks of a claim are sharp, loose and vacuous."""
    found = power_words(checks)
    return f" margins: {found}" if found else ""


def _margin(check: Check) -> str:
    """The margin of a check, and what that makes of it."""
    if check.margin is None or check.power is None:
        return ""
    return f'<span class="alarm">margin {number(check.margin, 2)}, {check.power}</span>'


def _check_row(check: Check) -> str:
    value, interval = value_and_interval(check)
    form = f'<span class="form">{FORMS[check.form]}</span>' if check.form else ""
    chance = f"false alarm ≤ {number(check.alarm)}" if check.alarm else "no chance involved"
    return (
        f'<tr><th scope="row">{text(check.says)} {form}</th>'
        f'<td data-label="Measured"><span class="value">{value}</span> <span class="interval">{interval}</span> '
        f"{_gauge(check)}</td>"
        f'<td data-label="Must be" class="bar">{check.relation} {bar(check)} {_margin(check)}</td>'
        f'<td data-label="Test" class="test">{text(check.test)} <span class="alarm">{chance}</span></td>'
        f'<td data-label="Outcome">{_badge(check.outcome)}</td></tr>'
    )


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


def _badge(word: Verdict | Outcome) -> str:
    kind, symbol = MARKS[word]
    return f'<span class="badge {kind}"><span aria-hidden="true">{symbol}</span> {word}</span>'


def _anchor(record: ClaimRecord) -> str:
    return re.sub(r"\s", "-", record.id)


def _link(record: ClaimRecord) -> str:
    return "#" + quote(_anchor(record))


def _group_id(heading: str) -> str:
    return "group-" + re.sub(r"[^a-z0-9]+", "-", heading.lower()).strip("-")


def _breakable(name: str) -> str:
    """An id that may be broken after a slash or a hyphen if there is no room for it."""
    return re.sub(r"([/_-])", r"\1<wbr>", text(name))
