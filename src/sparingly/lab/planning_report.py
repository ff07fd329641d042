"""The report of a budget plan: a table for the terminal, a figure, a Markdown report, and the data behind them."""

from __future__ import annotations

import math
from dataclasses import asdict
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pyarrow
import pyarrow.parquet
from matplotlib.figure import Figure
from rich.markup import escape
from rich.table import Table as Grid

from sparingly.lab.experiment_results import markdown
from sparingly.lab.off_policy import FEW
from sparingly.lab.planning import GOAL, HALVINGS, PARTS, UNIFORM, BudgetPlan, Need, rule_from
from sparingly.lab.styles import looks

POLICY_HEADS = ("rule", "budget", "while learning", "ips", "snips", "dr", "effective")
TOP = 5  # actions or contexts that are listed


def number(x: float) -> str:
    """A budget, or a number of asks."""
    return f"{x:,.12g}"


def about(x: float, money: bool = False) -> str:
    """A budget that was computed: asks are whole, small amounts of money have three digits.

    >>> about(31.6), about(31.6, money=True), about(0.12345, money=True), about(math.inf)
    ('32', '31.6', '0.123', 'beyond those tried')
    """
    if math.isinf(x):
        return "beyond those tried"
    return f"{x:.3g}" if money and x < 100 else number(round(x))


def heads(plan: BudgetPlan) -> tuple[str, ...]:
    """The columns of the curve."""
    return ("rule", "budget", "asks", *(("spent",) if plan.priced else ()), "reward", "±", "of always", "of its gain")


def rows(plan: BudgetPlan) -> list[tuple[str, ...]]:
    """One row for each rule and budget, then asking always and asking never."""
    lines = []
    for rule, curve in plan.curves.items():
        for place, budget in enumerate(plan.budgets):
            used = [number(round(float(curve.asks[place].mean())))]
            used += [f"{float(curve.spent[place].mean()):,.4g}"] if plan.priced else []
            shares = (plan.share(rule, place), plan.share(rule, place, "gain"))
            reward = _reward(*plan.interval(curve.reward[place]))
            lines.append((rule, number(budget), *used, *reward, *map(_percent, shares)))
    for name, values, total in (("always", plan.always, plan.rounds), ("never", plan.never, 0)):
        used = [number(total), *([""] if plan.priced else [])]
        lines.append((f"asking {name}", "", *used, *_reward(*plan.interval(values)), "", ""))
    return lines


def policy_rows(plan: BudgetPlan) -> list[tuple[str, ...]]:
    """On a log: the estimated values of the learned policies, by several methods."""
    lines = []
    for rule, evaluations in plan.policies.items():
        budgets = [number(b) for b in plan.budgets] if rule in plan.curves else [""]
        for budget, found in zip(budgets, evaluations, strict=True):
            values = [" ± ".join(_reward(e.value, e.low, e.high, 3)) for e in found.estimates]
            lines.append((rule, budget, *values, f"{found['dr'].effective:,.0f}"))
    return lines


def _reward(mean: float, low: float, high: float, digits: int = 4) -> tuple[str, str]:
    half = (high - low) / 2.0
    return f"{mean:.{digits}f}", f"{half:.{digits}f}" if math.isfinite(half) else "–"


def _percent(share: float) -> str:
    return f"{100 * share:.1f} %" if math.isfinite(share) else "–"


def tables(plan: BudgetPlan) -> list[Grid]:
    """The curves as a table; on a log, a second one for the learned policies."""
    levels = f"{100 * plan.level:g} % intervals"
    narrow = tuple(head.replace("of ", "of\n", 1) for head in heads(plan))  # for eighty columns
    grids = [_grid(heading(plan), f"{levels}; {meaning(plan)}", narrow, rows(plan))]
    if plan.policies:
        title = "off-policy estimates: learned on half of the log, valued on the other half"
        few = [i for i, head in enumerate(POLICY_HEADS) if head not in ("while learning", "ips")]  # a narrow screen
        lines = [tuple(line[i] for i in few) for line in policy_rows(plan)]
        grids.append(_grid(title, levels, tuple(POLICY_HEADS[i] for i in few), lines))
    return grids


def _grid(title: str, caption: str, heads: tuple[str, ...], lines: list[tuple[str, ...]]) -> Grid:
    grid = Grid(title=escape(title), caption=caption)
    for head in heads:
        grid.add_column(head, justify="left" if head == "rule" else "right", no_wrap=True)
    for line in lines:
        grid.add_row(*map(escape, line))
    return grid


def heading(plan: BudgetPlan) -> str:
    """The title of the plan."""
    return f"{plan.data.name}: reward against budget, {plan.rounds:,} rounds, {plan.runs} runs"


def meaning(plan: BudgetPlan) -> str:
    """What the intervals mean."""
    if plan.logged:
        return "each run replays a resample of the log; ± is where one more such run would lie, by Student's t"
    return "± is Student's interval of the mean over runs, each of which draws its rounds from the table"


def answers(plan: BudgetPlan) -> list[str]:
    """The smallest budgets, in sentences."""
    if plan.always.mean() <= plan.never.mean():
        return ["Asking always earns no more than asking never: feedback teaches this learner nothing on this data."]
    lines = []
    for rule in plan.curves:
        for of, words in (("reward", "reward of asking always"), ("gain", "gain of asking always over asking never")):
            lines.append(
                f"{rule}: to reach {100 * GOAL:g} % of the {words}, {_needed(plan, rule, plan.need(rule, of))}."
            )
    return lines


def _needed(plan: BudgetPlan, rule: str, need: Need) -> str:
    low, middle, high = (about(x, plan.priced) for x in (need.low, need.budget, need.high))
    if math.isinf(need.budget):
        where = f" (interval from {low})" if math.isfinite(need.low) and plan.runs > 1 else ""
        return f"even the largest budget tried, {number(plan.budgets[-1])}, is not enough{where}"
    if need.budget <= plan.budgets[0]:
        return f"the smallest budget tried, {number(need.budget)}, is enough (interval up to {high})"
    curve = plan.curves[rule]
    paid = (curve.spent if plan.priced else curve.asks).mean(axis=1)
    used = about(float(np.interp(need.budget, plan.budgets, paid)), plan.priced)
    what = f"a budget of about {middle}" if plan.priced else f"a budget of about {middle} asks"
    return f"it needs {what} (interval {low} to {high}), of which about {used} get used"


def starter(plan: BudgetPlan) -> str:
    """Python that starts an agent as the plan says: the rule that reaches the goal with the least, and its budget."""
    needs = {rule: plan.need(rule).budget for rule in plan.curves if rule != UNIFORM}
    rule = min(needs, key=lambda name: needs[name], default="BalancedMatching")
    budget = min(needs.get(rule, math.inf), plan.budgets[-1])
    amount = f"{budget:.3g}" if plan.priced else f"{math.ceil(budget)}"
    contexts = () if plan.data.dim or plan.data.groups == 1 else plan.data.group_names
    names = [] if plan.data.dim else [f"    actions={list(plan.data.actions)!r},"]
    names += [f"    contexts={list(contexts)!r},"] if contexts else []
    lines = [f"    sp.{plan.learner!r},", f"    rule=sp.{rule_from(rule)!r},", f"    budget={amount},", *names]
    return "\n".join(["import sparingly as sp", "", "agent = sp.Agent(", *lines, ")"])


def against_uniform(plan: BudgetPlan) -> list[str]:
    """How each rule compares with uniform asking at the same budget."""
    if UNIFORM not in plan.curves or plan.logged or plan.runs < 2:
        return []
    lines = []
    for rule, curve in plan.curves.items():
        for place, budget in enumerate(plan.budgets):
            if rule != UNIFORM:
                mean, low, high = plan.interval(curve.reward[place] - plan.curves[UNIFORM].reward[place])
                p = plan.better(rule, UNIFORM, place)
                lines.append(f"| {rule} | {number(budget)} | {mean:+.4f} | [{low:+.4f}, {high:+.4f}] | {_p(p)} |")
    return lines


def _p(value: float) -> str:
    return f"{value:.1e}" if math.isfinite(value) else "–"


def report(plan: BudgetPlan, notes: tuple[str, ...]) -> str:
    """The plan as Markdown."""
    middle = len(plan.budgets) // 2
    text = [
        f"# {heading(plan)}", "",
        f"Data: {plan.data.source or plan.data.name}, {len(plan.data):,} rows, {len(plan.data.actions)} actions. "
        f"Learner: `{plan.learner!r}`. Seed {plan.seed}.{_prices(plan)}", "",
        "![Reward against budget, and when each rule asks](figure.png)", "",
        "## How many questions to ask", "", *(f"- {line}" for line in answers(plan)), "",
        f"Interpolated between the budgets tried; {100 * plan.level:g} % intervals from resampled runs.", "",
        "## Start with it", "", "```python", starter(plan), "```", "",
        "## Reward against budget", "", markdown(heads(plan), rows(plan)), "",
        "Reward is the mean of a round; `Always` asks in every round until the budget is spent. "
        f"{100 * plan.level:g} % intervals: {meaning(plan)}.", "",
    ]  # fmt: skip
    compared = against_uniform(plan)
    if compared:
        text += [
            "## Against asking at random", "",
            "Differences to uniform asking at the same budget, in the same rounds; p is of a one-sided paired t-test, "
            "for one comparison: multiply it by their number.", "",
            "| rule | budget | difference | interval | p |", "|---|---:|---:|---:|---:|", *compared, "",
        ]  # fmt: skip
    if plan.policies:
        text += [
            "## Off-policy estimates", "",
            "Each rule learns on one half of the log, under the same budget; the policy at its end is valued on the "
            "other half, by inverse propensity (ips), the same with weights divided by their sum (snips), and doubly "
            "robust (dr). If they disagree, doubt the propensities. `while learning` is the mean reward of the rounds "
            "of those shorter replays, exploration included; `effective` is how many rows of even weight an estimate "
            f"is worth: below {FEW}, intervals are too short. Means over {HALVINGS} ways to halve the log.", "",
            markdown(POLICY_HEADS, policy_rows(plan)), "",
        ]  # fmt: skip
    text += [f"## Where the asks go (budget {number(plan.budgets[middle])})", "", *_spending(plan, middle), ""]
    if notes:
        text += ["## Warnings", "", *(f"- {note}" for note in notes), ""]
    return "\n".join(text)


def _prices(plan: BudgetPlan) -> str:
    if not plan.priced:
        return ""
    costs = np.ravel(plan.learner.costs)[: len(plan.data.actions)]  # the same in every context
    listed = ", ".join(f"{name} {cost:g}" for name, cost in zip(plan.data.actions[:TOP], costs, strict=False))
    return f" An ask costs: {listed}{', …' if len(plan.data.actions) > TOP else ''}; budgets are money."


def _spending(plan: BudgetPlan, place: int) -> list[str]:
    """For each rule: the share of its asks made early, and which actions and contexts they are about."""
    lines = []
    for rule, curve in plan.curves.items():
        total = float(curve.when[place].sum())
        if total == 0.0:
            lines.append(f"- {rule}: asks nothing.")
            continue
        early = float(curve.when[place][: PARTS // 10].sum()) / total
        words = [f"{early:.0%} in the first tenth of the rounds"]
        words.append("by action " + _largest(curve.by_action[place] / total, plan.data.actions))
        if plan.data.groups > 1:
            words.append("by context " + _largest(curve.by_context[place] / total, plan.data.group_names))
        cost = f" for {float(curve.spent[place].mean()):,.4g}" if plan.priced else ""
        lines.append(f"- {rule}: {total:,.0f} asks{cost}; {'; '.join(words)}.")
    return lines


def _largest(shares: Any, names: tuple[str, ...]) -> str:
    order = np.argsort(-shares, kind="stable")[:TOP]
    rest = ", …" if shares.size > TOP else ""
    return ", ".join(f"{names[i]} {shares[i]:.0%}" for i in order) + rest


def figure(plan: BudgetPlan) -> Figure:
    """On the left, reward against budget; on the right, when each rule asks at the middle budget."""
    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        fig = Figure(figsize=(10.4, 4.2), layout="constrained")
        left, right = fig.subplots(1, 2)
        for name, values, dashes in (("asking always", plan.always, "-"), ("asking never", plan.never, ":")):
            left.axhline(float(values.mean()), color="0.45", linestyle=dashes, linewidth=2, label=name)
        middle = len(plan.budgets) // 2
        for (rule, curve), look in zip(plan.curves.items(), looks(list(plan.curves)), strict=True):
            style = {name: look[name] for name in ("color", "linestyle")}
            mean, low, high = np.array([plan.interval(values) for values in curve.reward]).T
            left.plot(plan.budgets, mean, label=rule, **look)
            if plan.runs > 1:
                left.fill_between(plan.budgets, low, high, color=style["color"], alpha=0.15, linewidth=0)
            rounds = np.linspace(0, plan.rounds, PARTS + 1)
            right.plot(rounds, np.append(0.0, curve.when[middle].cumsum()), label=rule, **style)
        if plan.budgets[0] > 0:
            left.set_xscale("log")
            left.set_xticks(plan.budgets, labels=[number(budget) for budget in plan.budgets])
            left.minorticks_off()
        left.set(
            xlabel="budget (money)" if plan.priced else "budget (asks)",
            ylabel=f"reward a round, {100 * plan.level:g} % intervals",
        )
        left.set_title(f"{plan.rounds:,} rounds, {plan.runs} runs, seed {plan.seed}", fontsize=10)
        right.set(xlabel="round", ylabel="asks so far (mean)")
        right.set_title(f"when they ask: budget {number(plan.budgets[middle])}", fontsize=10)
        fig.suptitle(plan.data.name, parse_math=False)
        for axis in (left, right):
            axis.legend(frameon=False)
            axis.grid(alpha=0.25)
    return fig


def write(plan: BudgetPlan, folder: Path, notes: tuple[str, ...] = ()) -> Path:
    """Write report.md, the figure, curve.parquet (a row per run), asks.parquet, policies.parquet; return report.md."""
    folder.mkdir(parents=True, exist_ok=True)
    picture = figure(plan)
    for ending in ("png", "svg"):
        picture.savefig(folder / f"figure.{ending}", dpi=150, metadata={"Date": None} if ending == "svg" else None)
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(_runs(plan)), folder / "curve.parquet")
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(_asks(plan)), folder / "asks.parquet")
    if plan.policies:
        pyarrow.parquet.write_table(pyarrow.Table.from_pylist(_estimates(plan)), folder / "policies.parquet")
    path = folder / "report.md"
    path.write_text(report(plan, notes or plan.notes), encoding="utf-8")
    return path


def _runs(plan: BudgetPlan) -> list[dict[str, Any]]:
    ends = (("always", plan.always, float(plan.rounds)), ("never", plan.never, 0.0))
    lines: list[dict[str, Any]] = [
        {"rule": f"asking {name}", "budget": None, "run": run, "reward": float(reward), "asks": asks, "spent": None}
        for name, values, asks in ends
        for run, reward in enumerate(values)
    ]
    for rule, curve in plan.curves.items():
        for place, budget in enumerate(plan.budgets):
            for run in range(plan.runs):
                line = {"rule": rule, "budget": budget, "run": run, "reward": float(curve.reward[place, run])}
                lines.append(line | {"asks": float(curve.asks[place, run]), "spent": float(curve.spent[place, run])})
    return lines


def _estimates(plan: BudgetPlan) -> list[dict[str, Any]]:
    return [
        {"rule": rule, "budget": budget, **asdict(estimate)}
        for rule, evaluations in plan.policies.items()
        for budget, found in zip(plan.budgets if rule in plan.curves else (None,), evaluations, strict=True)
        for estimate in found.estimates
    ]


def _asks(plan: BudgetPlan) -> list[dict[str, Any]]:
    parts = [f"{i / PARTS:.2f}" for i in range(PARTS)]
    return [
        {"rule": rule, "budget": budget, "by": by, "key": key, "asks": float(asks)}
        for rule, curve in plan.curves.items()
        for place, budget in enumerate(plan.budgets)
        for by, keys, counts in (
            ("time", parts, curve.when[place]),
            ("action", plan.data.actions, curve.by_action[place]),
            ("context", plan.data.group_names, curve.by_context[place]),
        )
        for key, asks in zip(keys, counts, strict=True)
    ]
