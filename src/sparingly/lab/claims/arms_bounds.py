"""CBM-UCB: Theorem 2 for regret, its lemma for the budget, and how fast regret grows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from sparingly.budgets import Adaptive, Bernoulli, Budget, Linear, Periodic, Polynomial, Schedule
from sparingly.history import History
from sparingly.lab.claims import statistics
from sparingly.lab.claims.adversaries import cells_in_turn, exactly
from sparingly.lab.claims.evidence import Check, Curve, Evidence, Panel, claim
from sparingly.lab.claims.panels import Floats, along, bound_line, curve, name, of_runs, regrets, spending
from sparingly.lab.claims.runner import Runner
from sparingly.lab.claims.worst_case import JUDGED, of_arms, worst_case_growth
from sparingly.lab.paper_policies import UCB1, ExactMatching
from sparingly.ledger import in_amounts
from sparingly.problems import Arms, greedy_trap
from sparingly.rules import PaperMatching
from sparingly.simulation.simulate import Simulation
from sparingly.theory import lower, upper


class Setting(NamedTuple):
    """A problem, a learner that fits it, a budget, and the bound on regret that holds there."""

    label: str
    problem: Any
    learner: Any
    budget: Budget
    bound: Callable[[Floats], Floats]
    rounds: int
    largest: float  # the most that one round can lose


def settings(rounds: int, adversarial: int) -> list[Setting]:
    """Two arms for a tenth of the rounds, ten arms with costs, and both of the paper's adversaries.

    They are long enough for the bound to say something: at least three times as much could be lost.
    """
    costs = np.linspace(0.5, 2.0, 10)
    trap = [(adversary, *greedy_trap(adversary)) for adversary in ("contexts", "budget")]
    return [
        Setting(
            "two arms, B = t", Arms([0.1, 0.6]), UCB1(2), Linear(1.0), lambda b: upper.cbm_ucb(b, 2), rounds // 10,
            largest=0.5,
        ),
        Setting(
            "ten arms with costs, B = t^0.9", Arms([0.3] * 9 + [0.8], costs=costs), UCB1(10, costs=costs),
            Polynomial(0.9),
            lambda b: upper.cbm_ucb(b, 10, total_cost=float(costs.sum())), rounds, largest=0.5,
        ),
        *(
            Setting(
                f"adversarial {who}", problem, UCB1(2, contexts=2), budget,
                lambda b: upper.cbm_ucb(b, 2, contexts=2), adversarial, largest=1.0,
            )
            for who, problem, budget in trap
        ),
    ]  # fmt: skip


def below_bound(
    runner: Runner, where: Sequence[Setting], rule: Any, runs: int, x_label: str = "round"
) -> tuple[list[Check], list[Panel]]:
    """Check regret against its bound, and that nothing is refused, in each setting; one pair of figures each."""
    checks, panels = [], []
    for place, setting in enumerate(where):
        result = runner.simulate(
            setting.problem, setting.learner, rule, setting.budget, rounds=setting.rounds, runs=runs, stream=place
        )
        bars = along(result, setting.bound)
        checks += [
            statistics.below_for_any_law(
                f"{setting.label}: regret ≤ the bound", result.regret, bars, setting.largest * result.rounds
            ),
            statistics.exact(f"{setting.label}: refusals", result.refused.sum(), "=", 0),
        ]
        line = bound_line("upper bound", result, bars)
        panels += setting_panels(setting.label, {name(rule): result}, line, x_label)
    return checks, panels


def setting_panels(label: str, results: dict[str, Simulation], bound: Curve, x_label: str) -> list[Panel]:
    """Regret below its bound, and spending below the budget, in one setting."""
    title = label[:1].upper() + label[1:]
    return [regrets(title, results, bound, x_label=x_label), spending(results, x_label, f"{title}: spent")]


@claim(
    "ucb/regret",
    "CBM-UCB loses at most sqrt(24AT log(AT)) + A sqrt(6 log(AT)) + 4 sqrt(6 log(AT) Σc) Σ E sqrt(1/B(t)) + 2.",
    source="Theorem 2",
    judged="The mean regret must stay below the bound at every checkpoint, with costs and under adversaries, whatever "
    "the law of regret is: so many runs that even the largest regret possible, in the share of runs that may have gone "
    "unseen, would not lift the mean above it.",
    quick={"rounds": 10_000_000, "adversarial_rounds": 200_000, "runs": 200},
    full={"rounds": 30_000_000, "adversarial_rounds": 1_000_000},
)
def regret(runner: Runner, rounds: int, adversarial_rounds: int, runs: int) -> Evidence:
    checks, panels = below_bound(runner, settings(rounds, adversarial_rounds), PaperMatching(), runs)
    return Evidence(tuple(checks), tuple(panels))


def _stingy(history: History) -> float:
    """Grant a unit only if the least asked arm was just declined: the worst case for equal shares."""
    last = history.last
    return history.granted + float(last is None or (not last[2] and history.asked[0, last[1]] == history.asked.min()))


def budgets_to_try() -> dict[str, Budget]:
    """Benign, bursty, random, and adversarial."""
    return {
        "B = t/10": Linear(0.1),
        "100 every 1,000": Periodic(100, every=1_000),
        "a unit with probability 1/5": Bernoulli(0.2),
        "an adversary": Adaptive(_stingy),
    }


def within_budget(
    runner: Runner, problem: Any, learner: Any, rule: Any, rounds: int, runs: int
) -> tuple[list[Check], dict[str, Simulation]]:
    """Check under each budget that no more is spent than granted, and nothing is refused."""
    checks, shown = [], {}
    for place, (label, budget) in enumerate(budgets_to_try().items()):
        span = min(rounds, 8_000) if isinstance(budget, Adaptive) else rounds  # adversaries are plain Python
        result = runner.simulate(
            problem, learner, rule, budget, rounds=span, runs=min(runs, 4) if span < rounds else runs, stream=place
        )
        checks += [
            statistics.exact(f"{label}: the most by which spending exceeds the budget", excess(result), "≤", 0.0),
            statistics.exact(f"{label}: refusals by the ledger", result.refused.sum(), "=", 0),
        ]
        shown[label] = result
    return checks, shown


def excess(result: Simulation) -> float:
    """The most by which spending exceeds the budget at any checkpoint of any run."""
    return float((result.spent - result.budget).max())


def shares(shown: dict[str, Simulation], x_label: str = "round") -> Panel:
    """How much of each budget was spent."""
    with np.errstate(divide="ignore", invalid="ignore"):
        lines = [
            curve(label, r.rounds, np.nan_to_num(r.spent.mean(axis=0) / r.budget.mean(axis=0)))
            for label, r in shown.items()
        ]
    one = next(iter(shown.values())).rounds
    return Panel(
        "Share of the budget spent", x_label,
        f"spent / B(t): means of {of_runs(len(result.regret) for result in shown.values())}",
        (*lines, curve("all of it", one, np.ones(one.size), "upper")), y_log=False,
    )  # fmt: skip


MOST_OF_CELLS = 1.0 / 8.0  # (k + 1)/(16k) with k = ⌊B/(16C)⌋ = 1


@claim(
    "ucb/budget",
    "CBM-UCB never spends more than B(t), for any costs, contexts and budgets, and is never refused.",
    source="Lemma 11 (CBM-UCB: the budget constraint is satisfied)",
    judged="Exact, in every run: spent ≤ B(t) at every checkpoint, and the ledger refuses nothing. With cells in turn "
    "and B = 16C it must spend an eighth of the budget, no more and no less: the rule asks about a cell "
    "⌊B/(16C)⌋ + 1 times, so this is the largest share that it ever spends.",
    quick={"arms": 6, "rounds": 100_000, "runs": 20},
    full={"rounds": 1_000_000, "runs": 100},
)
def budget(runner: Runner, arms: int, rounds: int, runs: int) -> Evidence:
    costs = 0.25 + 0.375 * np.arange(arms, dtype=np.float64)  # sums of them are exact
    problem = Arms(np.linspace(0.3, 0.7, arms), costs=costs)
    checks, shown = within_budget(runner, problem, UCB1(arms, costs=costs), PaperMatching(), rounds, runs)
    for stream, prices in enumerate((np.ones(arms), costs), 10):
        drive = cells_in_turn(UCB1, prices, 16.0 * float(prices.sum()), 5)
        checks += exactly(runner, PaperMatching(), drive, MOST_OF_CELLS, stream)
    return Evidence(tuple(checks), (shares(shown),))


def both_bounds(x: Any, arms: int, cases: Sequence[tuple[Schedule, int]]) -> tuple[Curve, Curve]:
    """Theorem 2 and Corollary 3 for unit costs, for each (schedule, horizon)."""
    ends = []
    for schedule, rounds in cases:
        granted = in_amounts(schedule.tape(np.random.default_rng(0)).take(1, rounds, np.zeros(1, dtype=np.int64)))
        ends.append((upper.cbm_ucb(granted, arms)[-1], lower.varying_budget(granted, np.ones(arms))[-1]))
    high, low = zip(*ends, strict=True)
    return curve("Theorem 2", x, high, role="upper"), curve("Corollary 3", x, low, role="lower")


@claim(
    "ucb/rate",
    "With a budget εt, the worst regret of CBM-UCB grows like sqrt(T) up to logarithms.",
    source="Theorem 2, Corollary 3",
    judged=JUDGED,
    quick={"arms": 5, "share": 0.5, "horizons": (4_000, 32_000, 256_000), "runs": 800},
    full={"horizons": (4_000, 16_000, 64_000, 256_000, 1_024_000)},
)
def rate(runner: Runner, arms: int, share: float, horizons: Sequence[int], runs: int) -> Evidence:
    cases = [(Linear(share), T) for T in horizons]
    bounds = both_bounds(horizons, arms, cases)
    rules = (PaperMatching(), ExactMatching())
    checks, panel = worst_case_growth(runner, of_arms(arms), rules, "T", horizons, cases, 0.5, runs, bounds=bounds)
    return Evidence(tuple(checks), (panel,))
