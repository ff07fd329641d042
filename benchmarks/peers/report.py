"""What the comparison says, as tables in Markdown, and their place in docs/peers.md."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas
from scipy import stats

from benchmarks.peers.candidates import everybody
from benchmarks.peers.measuring import SPEED_DATA, SPEED_SHARE
from benchmarks.peers.ours import OURS
from benchmarks.peers.rounds import Candidate

LEVEL = 0.95
ALARM = 0.05  # the chance of one false difference or more in a column, by Holm's method
BEGIN, END = "<!-- peers: begin -->", "<!-- peers: end -->"
TOLD = {"reward": "the reward of what it did", "label": "the label"}


def half_width(values: np.ndarray) -> float:
    """Half of Student's interval of the mean."""
    quantile = float(stats.t.ppf(0.5 + LEVEL / 2.0, len(values) - 1))
    return quantile * float(values.std(ddof=1)) / math.sqrt(len(values))


def p_value(differences: np.ndarray) -> float:
    """Of a two-sided paired t-test; 1 where all differences are equal, and there is nothing to test."""
    spread, mean = float(differences.std(ddof=1)), float(differences.mean())
    if spread < 1e-12:
        return 1.0
    return 2.0 * float(stats.t.sf(abs(mean) / spread * math.sqrt(len(differences)), len(differences) - 1))


def holm(ps: Sequence[float], alarm: float = ALARM) -> list[bool]:
    """Which of several tests are significant together, at this chance of one false alarm or more.

    >>> holm([0.04, 0.001, 0.02], 0.05)
    [True, True, True]
    >>> holm([0.04, 0.001, 0.03], 0.05)
    [False, True, False]
    """
    order, found = np.argsort(ps), [False] * len(ps)
    for place, index in enumerate(order.tolist()):
        if ps[index] > alarm / (len(ps) - place):
            break
        found[index] = True
    return found


def paired(runs: pandas.DataFrame) -> pandas.DataFrame:
    """For each data set, budget and candidate the difference to ours: mean, half width, p, and what Holm says."""
    wide = runs.pivot_table(index=["data", "share", "seed"], columns="candidate", values="reward")
    rows = []
    for (data, share), part in wide.groupby(level=["data", "share"]):
        others = [name for name in part.columns if name != OURS and part[name].notna().all()]
        differences = {name: (part[name] - part[OURS]).to_numpy() for name in others}
        ps = [p_value(difference) for difference in differences.values()]
        for (name, difference), p, found in zip(differences.items(), ps, holm(ps), strict=True):
            sign = "" if not found else ("above" if difference.mean() > 0 else "below")
            rows.append((data, share, name, difference.mean(), half_width(difference), p, sign))
    return pandas.DataFrame(rows, columns=["data", "share", "candidate", "difference", "half", "p", "sign"])


def table(head: Sequence[str], rows: Sequence[Sequence[str]], left: int = 1) -> str:
    """Markdown; numbers to the right."""
    rule = ["---"] * left + ["---:"] * (len(head) - left)
    return "\n".join(
        "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |" for cells in (head, rule, *rows)
    )


def percent(share: float) -> str:
    return f"{100 * share:g} %"


def in_order(runs: pandas.DataFrame, feedback: str | None = None) -> list[Candidate]:
    """Those that have run, in the order of the list."""
    known = set(runs["candidate"])
    return [c for c in everybody() if c.name in known and (feedback is None or c.feedback == feedback)]


def rewards_table(runs: pandas.DataFrame, data: str, compared: pandas.DataFrame) -> str:
    """One data set: reward at each budget, and more at the middle one."""
    part, shares = runs[runs["data"] == data], sorted(runs["share"].unique())
    middle = shares[len(shares) // 2]
    head = ["", *(f"{percent(share)}" for share in shares)]
    head += ["of always", "labels", "difference to ours", "p", "same acts", "same asks"]
    rows = []
    for feedback, told in TOLD.items():
        group = in_order(part, feedback)
        rows += [[f"*an ask tells {told}*", *[""] * (len(head) - 1)]] if group else []
        for candidate in group:
            mine = part[part["candidate"] == candidate.name]
            at = {share: mine[mine["share"] == share] for share in shares}
            said = compared[(compared["data"] == data) & (compared["candidate"] == candidate.name)].set_index("share")
            cells = [
                f"{at[s]['reward'].mean():.3f}" + {"above": " ▲", "below": " ▼"}.get(said["sign"].get(s, ""), "")
                for s in shares
            ]
            here = at[middle]
            of_always = here["reward"].mean() / here["always"].mean()
            cells += [f"{100 * of_always:.1f} %", f"{here['asks'].mean():,.0f}"]
            if candidate.name == OURS:
                cells += [f"(± {half_width(here['reward'].to_numpy()):.3f})", "", "", ""]
            else:
                row = said.loc[middle]
                cells += [f"{row['difference']:+.3f} ± {row['half']:.3f}".replace("-", "−"), f"{row['p']:.1g}"]
                same = here["same_asks"].mean()
                cells += [
                    f"{100 * here['same_action'].mean():.0f} %",
                    "–" if math.isnan(same) else f"{100 * same:.0f} %",
                ]
            rows.append([candidate.name, *cells])
    return table(head, rows)


def budgets_table(runs: pandas.DataFrame) -> str:
    """Labels used and how far the budget was exceeded, over all data sets and seeds."""
    shares, rows = sorted(runs["share"].unique()), []
    head = ["", "its budget", *(f"labels used of {percent(s)}" for s in shares), "runs over the whole budget"]
    head += [f"most over, {percent(s)}" for s in shares]
    head += [f"most ahead of a growing one, {percent(s)}" for s in shares]
    for candidate in in_order(runs):
        mine = runs[runs["candidate"] == candidate.name]
        at = [mine[mine["share"] == share] for share in shares]
        growing = candidate.budget == "growing" or (candidate.asking == "own" and candidate.budget == "none")
        stop = {"own": "", "capped": ", a counter of ours", "uniform": ", rounds drawn ahead"}[candidate.asking]
        cells = [candidate.budget + stop, *(f"{100 * (part['asks'] / part['budget']).mean():.0f} %" for part in at)]
        cells.append(f"{int((mine['over'] > 0).sum())} of {len(mine)}")
        cells += [over_text(part, "over") for part in at]
        cells += [over_text(part, "ahead") if growing else "–" for part in at]
        rows.append([candidate.name, *cells])
    return table(head, rows, left=2)


def over_text(part: pandas.DataFrame, column: str) -> str:
    """The worst run: how many labels too many, and what share of the budget that is."""
    if part.empty or part[column].max() <= 1e-9:
        return "0"
    worst = part.loc[(part[column] / part["budget"]).idxmax()]
    return f"{worst[column]:.0f} ({100 * worst[column] / worst['budget']:.0f} %)"


def settings_table(runs: pandas.DataFrame, speed: pandas.DataFrame) -> str:
    """What everybody was set to, and microseconds a decision."""
    times = speed.set_index("candidate") if len(speed) else None
    ours = times.loc[OURS, "best"] if times is not None else math.nan
    rows = []
    for candidate in in_order(runs):
        timed = times is not None and candidate.name in times.index
        cells = ["–", "–", "–"]
        if timed:
            best, spread = times.loc[candidate.name, ["best", "spread"]]
            cells = [f"{1e6 * best:,.1f}", f"+{100 * spread:.0f} %", f"{best / ours:.1f} ×"]
        rows.append([candidate.name, candidate.says + chosen_settings(runs, candidate), *cells])
    return table(["", "settings", "µs a decision", "median", "to ours"], rows, left=2)


def chosen_settings(runs: pandas.DataFrame, candidate: Candidate) -> str:
    """What the pilot runs chose, from the smallest to the largest, where they had a choice."""
    if len(candidate.grid) < 2:
        return ""
    mine = runs[runs["candidate"] == candidate.name]
    found = sorted({value for text in mine["setting"] for value in json.loads(text).values()})
    return f" ({next(iter(candidate.grid[0]))}: {', '.join(f'{value:g}' for value in found)})"


def written(folder: Path) -> str:
    """All tables of the results in a folder."""
    runs, speed = pandas.read_parquet(folder / "runs.parquet"), pandas.read_parquet(folder / "speed.parquet")
    about = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    compared = paired(runs)
    middle = sorted(runs["share"].unique())[runs["share"].nunique() // 2]
    parts = [
        f"`{about['command']}`: {about['rounds']:,} rounds, {about['seeds']} seeds.",
        "Not measured: " + ("; ".join(f"{name} ({why})" for name, why in about["missing"].items()) or "none") + ".",
        f"Mean reward a round at each budget; ▲ ▼ significantly above or below `{OURS}` in the same rounds (paired "
        f"t-tests over seeds, if differences are normal; Holm's method, {percent(ALARM)} for a column together). The "
        f"other columns are at {percent(middle)}: share of the same learner's reward when it asks always, labels used, "
        f"the difference with its {percent(LEVEL)} interval and two-sided p, rounds with the same action as ours, and "
        "asks in common with ours as a share of the asks of either.",
    ]
    for data in dict.fromkeys(runs["data"]):
        parts += [f"### {data}", rewards_table(runs, data, compared)]
    parts += [
        "### Labels and budgets",
        "Over all data sets and seeds. *Most over*: labels beyond the whole budget in the worst run, and as a share of "
        "it. *Most ahead*: labels beyond what a budget that grows evenly with the rounds had granted, at the worst "
        "moment of the worst run; for those whose budget is a rate, or who are held by a calibration alone.",
        budgets_table(runs),
        "### Settings and speed",
        f"{SPEED_DATA}, {percent(SPEED_SHARE)} of {about['speed_rounds']:,} rounds, deciding and learning, without "
        f"set-up; candidates in turns, the best of {about['turns']}, and how much more the median turn took. In "
        "brackets what pilot runs chose.",
        settings_table(runs, speed),
    ]
    return "\n\n".join(parts) + "\n"
