"""Draws the three figures of the tour, puts the verdicts' counts into it and writes docs/claims.md.

All from what `sparingly reproduce --full` has measured; with `--quick` from the quick runs, without the figures.
"""

from __future__ import annotations

import json
import re
import sys
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from sparingly.lab.claims import CLAIMS, ClaimRecord
from sparingly.lab.claims.evidence import LOOSE, SHARP, VERDICTS, Check, power_words
from sparingly.lab.claims_figures import panel_picture
from sparingly.lab.claims_report import PLURAL, grouped
from sparingly.lab.formatting import bar, number, value_and_interval

HERE = Path(__file__).parent
MODE = "quick" if sys.argv[1:] == ["--quick"] else "full"
RESULTS = Path(f"results/reproduce/{MODE}/claims.json")
FIGURES = {  # file: claim, which of its panels
    "trap.png": ("greedy/adversarial-contexts", 0),
    "rates.png": ("profiles/polynomial", 1),
    "gaps.png": ("ours/exact-arms", 8),
}
HEAD = """# Every claim, run and judged

`sparingly reproduce` runs the claims of the paper, the corrections to it and the claims for our own rules, and judges
each. This page is what {command} wrote after `sparingly reproduce --{mode} --seed {seed}`, which also makes
the report with all figures and parameters, `results/reproduce/{mode}/report.html`.

A claim *holds* if all its checks were shown. It *holds as corrected* if the paper's own wording failed a check and all
checks of the corrected wording were shown. Otherwise it *fails*: one check that the data leave open is enough.
Checks are exact, or statistical tests whose false-alarm probability is one in a million. The column *test* names the
test, the number of runs, and the assumption. Student's t, Fieller's ratio and least squares assume that means over runs
are normal. Clopper and Pearson's test, and the one by the largest of all runs, only assume independent runs. Measured
values have the interval of the test.

The *margin* of a check is the factor between the bar and the measurement, taken from the end of the interval that is
farther away; for a slope, the factor that the distance makes over the whole range. A constant that is wrong by
less than this factor goes unnoticed. A check is *sharp* up to a margin of {sharp:g}, *loose* up to {loose:g}, and
*vacuous* beyond, or if nothing could pass its bar. Equalities, and amounts that are compared with 0, have no margin.

A true claim can still fail, if the data leave one of its checks open. That is the more likely, the closer the interval
ends to the bar. `python -m benchmarks.claim_seeds` runs the quick claims with ten seeds and counts.
"""
COUNTS = re.compile(r"(<!-- counts -->).*?(<!-- /counts -->)", re.DOTALL)


def main() -> None:
    if not RESULTS.exists():
        sys.exit(f"{RESULTS} is not there: run `sparingly reproduce --{MODE}` first")
    records = {data["id"]: ClaimRecord.from_json(data) for data in json.loads(RESULTS.read_text(encoding="utf-8"))}
    missing = [name for name in CLAIMS if name not in records]
    if missing:
        sys.exit(f"{RESULTS} lacks {', '.join(missing)}: run `sparingly reproduce --{MODE}`")
    for file, (claim, place) in FIGURES.items() if MODE == "full" else ():
        panel_picture(records[claim].evidence.panels[place], HERE / file, records[claim].seed)
    (HERE.parent / "claims.md").write_text(page(list(records.values())), encoding="utf-8")
    readme = HERE.parent.parent / "README.md"
    text, found = COUNTS.subn(rf"\g<1>{told(records.values())}\g<2>", readme.read_text(encoding="utf-8"))
    if found != 1:
        sys.exit("README.md must have the marks <!-- counts --> and <!-- /counts --> once, for the counts of verdicts")
    readme.write_text(text, encoding="utf-8")


def told(records: Iterable[ClaimRecord]) -> str:
    """How many claims there are, and how many of each verdict."""
    counts = Counter(record.verdict for record in records)
    parts = (f"{counts[verdict]} {PLURAL[verdict]}" for verdict in VERDICTS if counts[verdict])
    return f"{counts.total()} claims: {', '.join(parts)}"


def page(records: list[ClaimRecord]) -> str:
    """All verdicts, and behind a fold all checks."""
    command = "`make figures`" if MODE == "full" else "`python docs/figures/claims.py --quick`"
    head = HEAD.format(command=command, mode=MODE, seed=records[0].seed, sharp=SHARP, loose=LOOSE)
    lines = [head, f"**{told(records)}.**", ""]
    lines += [f"Checks with a margin: {power_words(check for record in records for check in record.evidence.checks)}."]
    lines += [""]
    for heading, group in grouped(records).items():
        lines += [f"## {heading}", "", "| claim | it says | margins | verdict |", "|---|---|---|---|"]
        for record in group:
            says = record.statement + (f" *{record.correction}*" if record.correction else "")
            margins = power_words(record.evidence.checks)
            lines.append(f"| `{record.id}`<br>{cell(record.source)} | {cell(says)} | {margins} | {record.verdict} |")
        notes = [f"- `{record.id}`: {record.evidence.note}" for record in group if record.evidence.note]
        lines += ["", *notes, *([""] if notes else [])]
        lines += [
            "<details><summary>All checks</summary>",
            "",
            "| claim | check | measured | must be | margin | test | outcome |",
        ]
        lines.append("|---|---|---:|---:|---|---|---|")
        lines += [
            f"| `{record.id}` | {cell(check.says)} | {' '.join(value_and_interval(check)).strip()} | {check.relation} "
            f"{bar(check)} | {margin(check)} | {cell(check.test)} | "
            f"{check.outcome}{', as ' + check.form if check.form else ''} |"
            for record in group
            for check in record.evidence.checks
        ]
        lines += ["", "</details>", ""]
    return "\n".join(lines)


def margin(check: Check) -> str:
    """The margin of a check, and what that makes of it."""
    return f"{number(check.margin, 2)}, {check.power}" if check.margin is not None else ""


def cell(text: object) -> str:
    """Text for a cell of a Markdown table."""
    return str(text).replace("|", "\\|")


if __name__ == "__main__":
    main()
