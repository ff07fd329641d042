"""How many questions do I need to ask? Reward against budget on real data, for several rules, with intervals.

On a table each run draws its rounds from it; on a log each run replays a resample of it. All rules see the same rounds.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sparingly.errors import InvalidInput
from sparingly.lab import catalogue
from sparingly.lab.off_policy import FEW, FEW_REWARDS, Evaluation, combined, evaluate, horizon, replay
from sparingly.lab.table_runs import Trajectory, Uniform, run_on_table
from sparingly.numba_support import notice
from sparingly.problems.real import DataWarning, Logged, Table
from sparingly.rules import Always, Never
from sparingly.simulation.progress import Progress
from sparingly.validation import number, probability, whole

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]
Work = tuple[Callable[..., Any], *tuple[Any, ...]]  # a call with its arguments

PARTS = 20  # of a run; asks are counted in each
GOAL = 0.95  # of the reward of asking always
HALVINGS = 5  # of a log: learn on one half, evaluate on the other
REDRAWS = 2_000  # bootstrap samples of the runs, for the interval of the budget that is needed
UNIFORM = "uniform"
RULES = ("BalancedMatching", "ExactMatching", "Greedy", UNIFORM)


@dataclass(frozen=True)
class RuleCurve:
    """One rule at every budget."""

    reward: Floats  #: (budgets, runs) mean reward per round
    asks: Floats  #: (budgets, runs)
    spent: Floats  #: (budgets, runs) what the asks cost
    when: Floats  #: (budgets, PARTS) mean asks in each part of a run
    by_action: Floats  #: (budgets, A) mean asks
    by_context: Floats  #: (budgets, S)


@dataclass(frozen=True)
class Need:
    """The smallest budget that reaches the goal, interpolated, with its interval; infinite if no budget tried does."""

    budget: float
    low: float
    high: float


@dataclass(frozen=True)
class BudgetPlan:
    """What `plan` returns: a curve for each rule, and what asking always and asking never earn in the same rounds."""

    data: Table | Logged
    learner: Any
    budgets: tuple[float, ...]
    rounds: int
    runs: int
    seed: int
    level: float
    curves: dict[str, RuleCurve]
    always: Floats  #: (runs,)
    never: Floats  #: (runs,)
    notes: tuple[str, ...] = field(default=())
    policies: Mapping[str, tuple[Evaluation, ...]] = field(default_factory=dict)  #: on a log, one for each budget

    @property
    def priced(self) -> bool:
        """Whether asks have costs: then budgets are money."""
        return self.learner.costs is not None

    @property
    def logged(self) -> bool:
        """Whether the data is a log, of which each run replays a resample."""
        return isinstance(self.data, Logged)

    def interval(self, values: Floats) -> tuple[float, float, float]:
        """Mean and interval of one number per run.

        On a table: Student's interval of the mean over runs, given the rows. On a log the runs are resamples of it
        (bootstrap), and their spread is the uncertainty that the log leaves: the interval is that of one more run,
        mean ± t·standard deviation·sqrt(1 + 1/runs).
        """
        mean = float(values.mean())
        if values.size < 2:
            return mean, -math.inf, math.inf
        width = float(stats.t.ppf(0.5 + self.level / 2.0, values.size - 1) * values.std(ddof=1))
        half = width * math.sqrt(1.0 / values.size + self.logged)
        return mean, mean - half, mean + half

    def share(self, rule: str, place: int, of: str = "reward") -> float:
        """The share of what asking always earns, or gains over asking never, that the rule reaches at a budget."""
        base = 0.0 if of == "reward" else float(self.never.mean())
        gain = float(self.always.mean()) - base
        return (float(self.curves[rule].reward[place].mean()) - base) / gain if gain > 0 else math.nan

    def need(self, rule: str, of: str = "reward", goal: float = GOAL) -> Need:
        """The smallest budget that reaches the goal. The interval is from resampled runs, on a log from single runs."""
        random = np.random.default_rng(self.seed)
        size = 1 if self.logged else self.runs
        every = np.arange(self.runs)
        draws = [every, *(random.integers(self.runs, size=size) for _ in range(REDRAWS if self.runs > 1 else 0))]
        found = np.array([self._crossing(rule, of, goal, chosen) for chosen in draws])
        tail = (1.0 - self.level) / 2.0
        low, high = np.quantile(found[1:], (tail, 1.0 - tail), method="nearest") if self.runs > 1 else (0.0, math.inf)
        return Need(float(found[0]), float(low), float(high))

    def _crossing(self, rule: str, of: str, goal: float, runs: Integers) -> float:
        base = 0.0 if of == "reward" else float(self.never[runs].mean())
        target = base + goal * (float(self.always[runs].mean()) - base)
        means = self.curves[rule].reward[:, runs].mean(axis=1)
        reached = np.flatnonzero(means >= target)
        if reached.size == 0:
            return math.inf
        place = int(reached[0])
        if place == 0:
            return self.budgets[0]
        share = (target - means[place - 1]) / (means[place] - means[place - 1])
        before, after = self.budgets[place - 1], self.budgets[place]
        return float(before * (after / before) ** share if before > 0.0 else share * after)

    def better(self, rule: str, other: str, place: int) -> float:
        """The p-value of a paired t-test that the rule earns more than the other.

        It is NaN if there is nothing to test: on a log, whose resamples overlap, and if all differences are equal.
        """
        difference = self.curves[rule].reward[place] - self.curves[other].reward[place]
        if self.logged or self.runs < 2 or difference.std() < 1e-9:
            return math.nan
        error = float(difference.std(ddof=1)) / math.sqrt(self.runs)
        return float(stats.t.sf(float(difference.mean()) / error, self.runs - 1))


def plan(
    data: Table | Logged,
    budgets: Sequence[float],
    rules: Sequence[str] = RULES,
    learner: Any = None,
    rounds: int | None = None,
    runs: int = 20,
    seed: int = 0,
    level: float = 0.95,
    jobs: int | None = None,
    progress: bool | None = None,
    costs: Sequence[float] | None = None,
) -> BudgetPlan:
    """Run each rule under each budget on the data, and asking always and asking never as well.

    On a log, the value of the learned policies is estimated as well.

    Parameters:
    - `data`: rounds with all rewards known, or a log with propensities.
    - `budgets`: the budgets to try.
    - `rules`: names of rules, with parameters if needed ("Matching(alpha=1)"), or "uniform".
    - `learner`: one of the library's learners; by default the one that fits the data.
    - `rounds`: how long a run is; by default, as long as the data.
    - `runs`: how many runs there are.
    - `seed`: the results depend on it alone.
    - `level`: the level of the intervals.
    - `jobs`: how many processes to use.
    - `progress`: whether to show a bar; None shows one in a terminal.
    - `costs`: what an ask about each action costs, in the order of the data's actions. Budgets are then money.

    Returns: a curve for each rule, and the smallest budget that is enough (`BudgetPlan.need`).
    """
    amounts = tuple(sorted({number(b, "a budget", least=0.0) for b in budgets}))
    if not amounts or not rules:
        raise InvalidInput("give at least one budget and one rule")
    workers = (os.cpu_count() or 1) if jobs is None else whole(jobs, "jobs", most=4096)
    runs, seed = whole(runs, "runs", most=10**5), whole(seed, "seed", least=0)
    made = {_rule_name(str(rule)): rule_from(str(rule)) for rule in rules}
    learner = data.learner() if learner is None else learner
    if costs is not None:
        if len(costs) != len(data.actions):
            raise InvalidInput(f"there are {len(costs)} costs for {len(data.actions)} actions; give one for each")
        learner = replace(learner, costs=list(costs))
    length = whole(rounds or (horizon(data) if isinstance(data, Logged) else data.rounds or len(data)), "rounds")
    ends = [("asking always", Always(), math.inf), ("asking never", Never(), 0.0)]
    cases = [*ends, *((name, rule, amount) for name, rule in made.items() for amount in amounts)]
    seeds = np.random.SeedSequence(seed).generate_state(runs, np.uint64).tolist()
    probability(level, "level")
    work: list[Work] = [(_run_once, data, learner, rule, budget, length, s) for _, rule, budget in cases for s in seeds]
    evaluated = cases if isinstance(data, Logged) else []
    work += [(_evaluate_policy, data, learner, rule, budget, seed, level) for _, rule, budget in evaluated]
    results = _run_all(work, workers, Progress(len(work), "planning", progress))
    summaries, evaluations = results[: len(cases) * runs], results[len(cases) * runs :]
    grouped = [summaries[i * runs : (i + 1) * runs] for i in range(len(cases))]
    rewards = [np.array([summary.reward for summary in group]) for group in grouped]
    curves = {name: _curve(grouped[2 + i * len(amounts) : 2 + (i + 1) * len(amounts)]) for i, name in enumerate(made)}
    policies: dict[str, tuple[Evaluation, ...]] = {}
    for (name, _, _), evaluation in zip(evaluated, evaluations, strict=True):
        policies[name] = (*policies.get(name, ()), evaluation)
    notes = _notes_on_silent_rules(data, made, curves, amounts)
    if evaluated:
        notes += [*_notes_on_replays(data, grouped, length), *_notes_on_estimates(cases, evaluations)]
    return BudgetPlan(
        data, learner, amounts, length, runs, seed, level, curves, rewards[0], rewards[1], tuple(notes), policies
    )


def _notes_on_silent_rules(
    data: Table | Logged, made: Mapping[str, Any], curves: Mapping[str, RuleCurve], amounts: Sequence[float]
) -> list[str]:
    """Name the rules that asked nothing although they had a budget, and say why."""
    unknown = data.dim or len(data.actions) * data.groups
    notes = []
    for name, rule in made.items():
        silent = [
            budget for budget, asks in zip(amounts, curves[name].asks, strict=True) if budget > 0 and not asks.any()
        ]
        if silent and not isinstance(rule, Never):
            notes.append(
                f"{name} asks nothing with a budget of {silent[-1]:g}{' or less' if len(silent) > 1 else ''}: a "
                "matching rule asks if the budget could bring everything to the same precision, and there are "
                f"{unknown:,} unknowns. Try more, describe the data with fewer, or use BalancedMatching"
            )
    return notes


@dataclass(frozen=True)
class _RunSummary:
    """The numbers that are kept of one run."""

    reward: float
    asks: int
    spent: float
    rounds: int
    rewarded: int  # rounds with a reward above 0
    when: Integers
    by_action: Integers
    by_context: Integers


def _run_once(data: Table | Logged, learner: Any, rule: Any, budget: float, rounds: int, seed: int) -> _RunSummary:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)  # of single replays; the notes of the plan sum them up
        if isinstance(data, Logged):
            rows = np.random.default_rng([seed, 1]).integers(len(data), size=len(data))  # a resample: bootstrap
            done: Trajectory = replay(data, learner, rule, budget, rounds, seed, rows)[0]
        else:
            done = run_on_table(data, learner, rule, budget, rounds, seed)
    contexts = data.contexts[done.rows] if data.contexts is not None else np.zeros(done.rows.size, dtype=np.int64)
    return _RunSummary(
        done.reward,
        done.asks,
        done.ledger.spent,
        done.rows.size,
        int((done.rewards > 0.0).sum()),
        np.bincount(np.flatnonzero(done.asked) * PARTS // done.rows.size, minlength=PARTS),
        np.bincount(done.actions[done.asked], minlength=len(data.actions)),
        np.bincount(contexts[done.asked], minlength=data.groups),
    )


def _evaluate_policy(data: Logged, learner: Any, rule: Any, budget: float, seed: int, level: float) -> Evaluation:
    """Learn under a budget on halves of the log, and estimate the value of the learned policies."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataWarning)
        return combined([evaluate(data, learner, rule, budget, seed + i, level) for i in range(HALVINGS)])


def _notes_on_replays(data: Table | Logged, grouped: Sequence[Sequence[_RunSummary]], length: int) -> list[str]:
    """Warnings about all replays together."""
    least = min(summary.rounds for group in grouped for summary in group)
    rewarded = float(np.mean([summary.rewarded for summary in grouped[0]]))
    notes = []
    if least < FEW:
        rarest = float(data.propensity.min()) if isinstance(data, Logged) else 1.0
        notes.append(
            f"a replay finds {least} rounds in {len(data):,} rows, whose least propensity is {rarest:.3g}; "
            "the mean of so few says little"
        )
    if least < length:
        notes.append(
            f"the log is too short for {length:,} rounds: a replay ended after {least:,}, before its budget was used "
            "as planned; ask for fewer (rounds=…, --rounds)"
        )
    if rewarded < FEW_REWARDS:
        notes.append(
            f"even with all feedback a replay has {rewarded:.1f} rounds with a reward above 0, on average: intervals "
            "of such rare rewards are too short, and the budgets that seem to be enough say nothing"
        )
    return notes


def _notes_on_estimates(cases: Sequence[tuple[str, Any, float]], found: Sequence[Evaluation]) -> list[str]:
    """Warnings about the estimates of policies."""
    named = [
        (name if math.isinf(budget) or name == "asking never" else f"{name} with a budget of {budget:,.12g}", each)
        for (name, _, budget), each in zip(cases, found, strict=True)
    ]
    notes = []
    doubtful = sorted((each["dr"].effective, name, each.doubt) for name, each in named if each.doubt)
    if doubtful:
        _, name, doubt = doubtful[0]
        notes.append(f"{len(doubtful)} of {len(named)} estimates of policies rest on little; {name}: {doubt}")
    apart = [name for name, each in named if not each.agrees]
    if apart:
        notes.append(
            f"ips, snips and dr contradict each other in {len(apart)} of {len(named)} cases, the first being "
            f"{apart[0]}: look at the propensities of the log"
        )
    return notes


def _run_all(work: Sequence[Work], workers: int, bar: Progress) -> list[Any]:
    """Run all calls on `workers` processes and return the results in order."""
    results: list[Any] = []
    try:
        if workers == 1:
            with notice("the agent"):
                for call, *arguments in work:
                    results.append(call(*arguments))
                    bar.add(1)
        else:
            from joblib import Parallel, delayed  # processes: agents are driven from Python

            for result in Parallel(workers, return_as="generator")(delayed(call)(*rest) for call, *rest in work):
                results.append(result)
                bar.add(1)
    finally:
        bar.close()
    return results


def _curve(groups: list[list[_RunSummary]]) -> RuleCurve:
    def means(name: str) -> Floats:
        return np.array([np.mean([getattr(summary, name) for summary in group], axis=0) for group in groups])

    return RuleCurve(
        np.array([[summary.reward for summary in group] for group in groups]),
        np.array([[summary.asks for summary in group] for group in groups], dtype=np.float64),
        np.array([[summary.spent for summary in group] for group in groups]),
        means("when"), means("by_action"), means("by_context"),
    )  # fmt: skip


def _rule_name(rule: str) -> str:
    """The name of a rule in tables."""
    return UNIFORM if rule.strip().lower() == UNIFORM else rule.strip()


def rule_from(text: str) -> Any:
    """Make a rule from its name: "uniform", or one of the catalogue, with parameters if needed.

    >>> rule_from("Matching(alpha=1, beta=0.5)"), rule_from("uniform")
    (Matching(alpha=1, beta=0.5), Uniform())
    """
    if _rule_name(text) == UNIFORM:
        return Uniform()
    if text not in catalogue.RULES and "(" not in text:
        raise InvalidInput(f"there is no rule {text!r}; choose among {', '.join(catalogue.RULES)} and uniform")
    return catalogue.build(catalogue.RULES, "rule", catalogue.entry(text))


def learner_from(text: str, data: Table | Logged) -> Any:
    """Make a learner from its name, for example "OFUL(scale=0.3)", with the sizes of the data."""
    sizes = {"arms": len(data.actions), "contexts": data.groups, "dim": data.dim}
    described = catalogue.entry(text)
    fitting = ("OFUL",) if data.dim else ("UCB1", "MOSS")
    if described["type"] not in fitting:
        has = "features" if data.dim else "contexts"
        raise InvalidInput(f"{text} does not fit: {data.name} has {has}, use {' or '.join(fitting)}")
    given = [name for name in (*sizes, "costs") if name in described]
    if given:
        raise InvalidInput(f"{text}: leave {', '.join(given)} out; sizes are those of the data, costs are given apart")
    return catalogue.build(catalogue.LEARNERS, "learner", described, **sizes)
