"""What a budget does to reinforcement learning: four studies, their tables, and one report with a figure.

`sparingly episodes` runs them. Each study compares policies on the same problems with the same noise; a ratio is the
regret summed over its problems, divided by that of the study's reference.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
import pandas
from matplotlib.figure import Figure
from matplotlib.ticker import StrMethodFormatter

from sparingly.budgets import Budget, Fixed, Linear, Polynomial
from sparingly.lab.experiment_results import write_parquet
from sparingly.lab.paper_policies import UCBVI, ULCVI, Always, BalancedMatching, ExactMatching
from sparingly.lab.styles import colours, looks
from sparingly.problems import Episodic, random_mdp
from sparingly.rules import Greedy, PaperMatching
from sparingly.simulation.simulate import Simulation, simulate

FREE, ROOT = Fixed(math.inf), Polynomial(0.5, scale=100)


@dataclass(frozen=True)
class Case:
    """One policy on one problem."""

    study: str
    group: str  # cases of a group are compared with its reference
    policy: str
    problem: Episodic
    learner: Any
    rule: Any
    budget: Budget
    episodes: int
    runs: int
    reference: bool = False

    def run(self, jobs: int | None, progress: bool | None) -> Simulation:
        """Simulate it; all cases of a group share their noise."""
        return simulate(
            self.problem, self.learner, self.rule, self.budget, rounds=self.episodes, runs=self.runs, jobs=jobs,
            progress=progress, checkpoints=100, spacing="linear",
        )  # fmt: skip


TITLES = {
    "random": "Random MDPs, budget 100·sqrt(t): regret against asking always (UCBVI, scale 0.05)",
    "once": "One ask an episode, B(t) = t, against B(t) = H·t (ExactMatching)",
    "sparse": "Rewards in 5 % of the cells, one ask every 20 episodes: regret against asking always (UCBVI)",
    "paper": "The paper's constants (UCBVI, scale 1), S = 4, A = 2, H = 4: is the regret concave?",
}


def cases(quick: bool = False) -> Iterator[Case]:
    """Yield all cases; `quick` has a hundredth of the episodes and fewer problems."""
    short = 100 if quick else 1
    shapes = ((4, 2, 4), (6, 3, 4), (8, 2, 5), (5, 4, 6), (10, 3, 5))
    yield from _random(shapes[: 1 if quick else None], range(1 if quick else 6), 10**6 // short)
    yield from _once(shapes[: 1 if quick else 2], range(1 if quick else 3), 10**6 // short)
    yield from _sparse(((20, 2, 5),) if quick else ((10, 4, 5), (20, 2, 5)), range(1 if quick else 2), 10**6 // short)
    problem, learner = random_mdp(4, 2, 4), UCBVI(4, 2, 4)
    for rule, budget in ((Always(), FREE), (ExactMatching(), ROOT)):
        name = f"{type(rule).__name__}, {'no limit' if budget is FREE else 'budget 100·sqrt(t)'}"
        yield Case("paper", "scale 1", name, problem, learner, rule, budget, 10**7 // short, 4, budget is FREE)


def _random(shapes: Any, seeds: Any, episodes: int) -> Iterator[Case]:
    for S, A, H in shapes:
        for seed in seeds:
            problem, learner = random_mdp(S, A, H, seed=seed), UCBVI(S, A, H, scale=0.05)
            for rule in (Always(), ExactMatching(), BalancedMatching(), PaperMatching(), Greedy()):
                always = type(rule).__name__ == Always.__name__
                yield Case(
                    "random", f"S={S} A={A} H={H}", type(rule).__name__, problem, learner, rule,
                    FREE if always else ROOT, episodes, 4, always,
                )  # fmt: skip


def _once(shapes: Any, seeds: Any, episodes: int) -> Iterator[Case]:
    for (S, A, H), make, scale in ((shape, *pair) for shape in shapes for pair in ((UCBVI, 0.05), (ULCVI, 0.005))):
        for seed in seeds:
            problem = random_mdp(S, A, H, seed=seed)
            for rate in (H, 1):
                yield Case(
                    "once", f"{make.__name__} S={S} A={A} H={H}", "B(t) = t" if rate == 1 else "B(t) = H·t", problem,
                    make(S, A, H, scale=scale), ExactMatching(), Linear(rate), episodes, 4, rate == H,
                )  # fmt: skip


def _sparse(shapes: Any, seeds: Any, episodes: int) -> Iterator[Case]:
    for (S, A, H), scale in ((shape, scale) for shape in shapes for scale in (0.05, 0.2)):
        for seed in seeds:
            problem = random_mdp(S, A, H, sparsity=0.05, seed=seed)
            few, plain = UCBVI(S, A, H, scale=scale, rewarding=problem.rewarding), UCBVI(S, A, H, scale=scale)
            rate = Linear(problem.rewarding / problem.cells)
            for policy, learner, rule, budget in (
                ("Always", plain, Always(), FREE),
                ("ExactMatching", plain, ExactMatching(), rate),
                ("BalancedMatching", plain, BalancedMatching(), rate),
                ("PaperMatching, L_R known", few, PaperMatching(), rate),
                ("PaperMatching, L_R = SAH", plain, PaperMatching(), rate),
            ):
                yield Case(
                    "sparse", f"S={S} A={A} H={H} scale={scale}", policy, problem, learner, rule, budget, episodes, 4,
                    budget is FREE,
                )  # fmt: skip


def run(
    quick: bool, jobs: int | None, progress: bool | None, tell: Callable[[str], None]
) -> list[tuple[Case, Simulation]]:
    """Run all cases and return the results in order; `tell` gets a line before each."""
    todo, done = list(cases(quick)), []
    for number, case in enumerate(todo, start=1):
        tell(f"[{number}/{len(todo)}] {case.study}: {case.group}, {case.policy}")
        done.append((case, case.run(jobs, progress)))
    return done


def summary(done: list[tuple[Case, Simulation]], study: str) -> pandas.DataFrame:
    """A study's groups and policies: regret and its ratio to the reference, share of the rewards asked, refusals."""
    rows: dict[tuple[str, str], list[Any]] = {}
    for case, result in done:
        if case.study == study:
            share = result.asked[:, -1].mean() / (case.episodes * case.problem.horizon)
            entry = rows.setdefault((case.group, case.policy), [])
            entry.append((result.regret[:, -1].mean(), share, result.refused.sum(), case.reference))
    total = {key: float(np.sum([e[0] for e in entries])) for key, entries in rows.items()}
    reference = {group: total[group, policy] for (group, policy), entries in rows.items() if entries[0][3]}
    return pandas.DataFrame(
        [
            {
                "problem": group,
                "policy": policy,
                "regret": total[group, policy] / len(entries),
                "ratio": total[group, policy] / reference[group],
                "asked": float(np.mean([e[1] for e in entries])),
                "refused": int(np.sum([e[2] for e in entries])),
            }
            for (group, policy), entries in rows.items()
        ]
    )


def slopes(done: list[tuple[Case, Simulation]]) -> pandas.DataFrame:
    """Regret per 1,000 episodes in the first tenth, in the middle and in the last tenth, with the paper's constants."""
    rows = []
    for case, result in done:
        if case.study == "paper":
            gained = np.diff(result.regret.mean(axis=0), prepend=0.0)
            spans = np.diff(result.rounds, prepend=0)
            parts = [slice(0, 10), slice(45, 55), slice(-10, None)]
            rate = [1_000 * gained[part].sum() / spans[part].sum() for part in parts]
            rows.append({"policy": case.policy, "first tenth": rate[0], "middle": rate[1], "last tenth": rate[2]})
    return pandas.DataFrame(rows)


def overall(table: pandas.DataFrame) -> str:
    """One line for the random MDPs: the ratio over all problems, each group weighing the same."""
    means = table.groupby("policy", sort=False)["ratio"].mean()
    return "Mean ratio over all sizes: " + ", ".join(f"{policy} {ratio:.2f}" for policy, ratio in means.items())


def write(out: Path, done: list[tuple[Case, Simulation]]) -> Path:
    """Write the report as Markdown, its figure, and all checkpoints as Parquet; return the path of the report."""
    out.mkdir(parents=True, exist_ok=True)
    lines = ["# What a budget does to reinforcement learning", "", "![regret and asks](figure.png)", ""]
    for study, title in TITLES.items():
        table = summary(done, study)
        lines += [f"## {title}", "", _markdown(table), ""]
        if study == "random":
            lines += [overall(table), ""]
        if study == "paper":
            lines += ["Regret per 1,000 episodes:", "", _markdown(slopes(done)), ""]
    path = out / "report.md"
    path.write_text("\n".join(lines), encoding="utf-8")
    figure(done).savefig(out / "figure.png", dpi=150)
    named = {
        f"{case.study}: {case.group}, {number}": {case.policy: result} for number, (case, result) in enumerate(done)
    }
    write_parquet(out / "results.parquet", named)
    return path


def _markdown(table: pandas.DataFrame) -> str:
    """A data frame as a Markdown table."""

    def cell(column: str, value: Any) -> str:
        if not isinstance(value, float):
            return str(value)
        return {"regret": f"{value:,.0f}", "asked": f"{value:.2%}"}.get(column, f"{value:.2f}")

    numbers = ["---:" if table[c].dtype.kind in "fi" else "---" for c in table.columns]
    rows = [[cell(c, row[c]) for c in table.columns] for row in table.to_dict("records")]
    return "\n".join("| " + " | ".join(line) + " |" for line in [list(table.columns), numbers, *rows])


def figure(done: list[tuple[Case, Simulation]]) -> Figure:
    """Left: random MDPs, regret against asking always. Right: the paper's constants over ten million episodes."""
    with matplotlib.rc_context({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False}):
        fig = Figure(figsize=(11.5, 4.4), layout="constrained")
        left, right = fig.subplots(1, 2)
        _draw_ratios(left, summary(done, "random"))
        shown = [(case, result) for case, result in done if case.study == "paper"]
        for (case, result), look in zip(shown, looks([case.policy for case, _ in shown]), strict=True):
            style = {name: look[name] for name in ("color", "linestyle")}
            right.plot(result.rounds, result.regret.mean(axis=0), label=case.policy, linewidth=2, **style)
            low, high = result.regret.min(axis=0), result.regret.max(axis=0)
            right.fill_between(result.rounds, low, high, color=look["color"], alpha=0.15, linewidth=0)
        right.set(xlabel="episode", ylabel="regret: mean, least and greatest of 4 runs", title="UCBVI, scale 1")
        right.set_ylim(bottom=0)
        right.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        right.yaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
        right.tick_params(axis="x", labelrotation=20)
        right.legend(frameon=False)
        right.grid(alpha=0.25)
    return fig


def _draw_ratios(axis: Any, table: pandas.DataFrame) -> None:
    """For each size of problem, each rule's regret divided by that of asking always."""
    groups, policies = list(table["problem"].unique()), [p for p in table["policy"].unique() if p != "Always"]
    width, hatches = 0.8 / len(policies), ("", "//", "..", "xx")
    for place, (policy, colour) in enumerate(zip(policies, colours(policies), strict=True)):
        ratio = table[table["policy"] == policy]["ratio"].to_numpy()
        at = np.arange(len(groups)) + (place - (len(policies) - 1) / 2) * width
        axis.bar(at, ratio, width, label=policy, color=colour, hatch=hatches[place % 4], edgecolor="white")
    axis.axhline(1.0, color="0.35", linewidth=1)
    axis.set_yscale("log")
    axis.set_ylim(0.8, 4.0 * table["ratio"].max())  # room for the legend
    axis.yaxis.set_major_formatter(StrMethodFormatter("{x:g} ×"))
    axis.set_xticks(range(len(groups)), [g.replace(" ", "\n") for g in groups])
    axis.set(ylabel="regret, against asking always", title="random MDPs, budget 100·sqrt(t)")
    axis.legend(frameon=False, loc="upper left", ncols=2)
