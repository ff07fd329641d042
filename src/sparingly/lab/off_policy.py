"""Off-policy evaluation: what a policy would have earned, from a log of another one's decisions.

There are three methods: replay, inverse propensity scoring, and doubly robust estimation. The learner sees a logged
reward only in rounds in which its rule asked and its budget paid; the estimates use all of them.
"""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from sparingly.agent import Agent
from sparingly.errors import InvalidInput
from sparingly.lab.table_runs import Trajectory, Uniform, agent_for
from sparingly.problems.real import Logged, warn
from sparingly.protocol import QueryRule
from sparingly.randomness import seed_sequence
from sparingly.rules import Rule
from sparingly.validation import probability, whole

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FEW = 100  # rounds, or effective rounds, below which an estimate gets a warning
FEW_REWARDS = 10  # rows with a reward above 0, below which it gets one too


@dataclass(frozen=True)
class Estimate:
    """A mean reward per round with its interval, and the effective number of rounds behind it."""

    method: str
    value: float
    low: float
    high: float
    effective: float


@dataclass(frozen=True)
class Evaluation:
    """What `evaluate` returns: the replay in which the policy was learned, and estimates of its value."""

    replay: Trajectory
    estimates: tuple[Estimate, ...]  #: "replay" is of the rounds of the replay, the others are of the policy at its end
    level: float
    doubt: str = ""  # why the estimates are unreliable, if they are

    @property
    def agrees(self) -> bool:
        """Whether the intervals of the estimates of the policy overlap."""
        of_policy = [estimate for estimate in self.estimates if estimate.method != "replay"]
        return not max(estimate.low for estimate in of_policy) > min(estimate.high for estimate in of_policy)

    def __getitem__(self, method: str) -> Estimate:
        return next(estimate for estimate in self.estimates if estimate.method == method)


def horizon(log: Logged, rows: int | None = None) -> int:
    """How many rounds to expect from a replay, which takes each of N rows with the least propensity c."""
    mean = (len(log) if rows is None else rows) * float(log.propensity.min())
    return max(int(mean - 3.0 * math.sqrt(mean)), 1)


def replay(
    log: Logged,
    learner: Any,
    rule: Rule | QueryRule | Uniform,
    budget: float,
    rounds: int | None = None,
    seed: int = 0,
    rows: Integers | None = None,
) -> tuple[Trajectory, Agent]:
    """Run an agent on the rows in which it does what was logged; return its trajectory and the agent at the end.

    This is rejection sampling (Li et al., 2011). A row counts if the agent's action is the logged one and a coin with
    probability c/propensity comes up heads, where c is the least propensity. So, whatever the agent does, a row counts
    with probability c, and the rows that count are distributed like fresh ones. The others leave the agent as it was.
    """
    length = whole(horizon(log) if rounds is None else rounds, "rounds")
    for_rows, for_coins, for_agent = seed_sequence(whole(seed, "seed", least=0, most=2**64)).spawn(3)
    if rows is None:
        rows = np.random.default_rng(for_rows).permutation(len(log))
    coins = np.random.default_rng(for_coins).random(rows.size) * log.propensity[rows] < log.propensity.min()
    agent = agent_for(learner, rule, budget, length, for_agent)
    kept: list[tuple[int, int, bool]] = []
    refused: set[tuple[Any, int]] = set()  # (context, action) that the agent does not take in its present state
    for row in rows[coins].tolist():
        same = (row if log.contexts is None else int(log.contexts[row]), int(log.taken[row]))
        if same in refused:
            continue
        trial = copy.copy(agent)
        decision = trial.decide(log.context(row))
        if decision.action != log.taken[row]:
            refused.add(same)
            continue
        agent = trial
        refused.clear()
        if decision.ask:
            agent.observe(decision.id, log.reveal(row))
        kept.append((row, decision.action, decision.ask))
        if len(kept) == length:
            break
    if len(kept) < FEW:
        warn(f"the replay found {len(kept)} rounds in {rows.size:,} rows; its mean says little")
    elif len(kept) < length:
        warn(f"the replay ended after {len(kept):,} of {length:,} rounds: the log has no more rows for it")
    if not kept:
        raise InvalidInput(
            f"none of {rows.size:,} rows could be replayed: the learner never did what was done in a row that counts, "
            f"and rows count with the least propensity, {float(log.propensity.min()):.3g}"
        )
    found, actions, asked = (np.array(part) for part in zip(*kept, strict=True))
    return Trajectory(found, actions, asked, log.reward[found], agent.ledger), agent


def evaluate(
    log: Logged, learner: Any, rule: Rule | QueryRule | Uniform, budget: float, seed: int = 0, level: float = 0.95
) -> Evaluation:
    """Learn on one half of the log under the budget, then estimate on the other half what the learned policy earns.

    The policy is the agent at the end of the replay, frozen. Its value is estimated by inverse propensity scoring
    ("ips"), its self-normalized version ("snips"), and doubly robust estimation ("dr"), whose reward model (means of
    cells, or ridge regression) is fitted on the first half. Intervals are normal: mean ± z·standard error, for snips by
    linearization. The interval of "replay" covers the noise of the rewards in this one run. With a small effective
    sample size all of them are too short.

    Parameters:
    - `log`: what another policy did, with propensities.
    - `learner`: what learns on the first half of the log.
    - `rule`: what decides whether to ask there.
    - `budget`: what it may spend there.
    - `seed`: how the log is halved, and the luck of the replay.
    - `level`: the level of the intervals.

    Returns: an estimate by each method, and the replay.
    """
    probability(level, "level")
    order = np.random.default_rng(seed).permutation(len(log))
    first, second = np.sort(order[: len(log) // 2]), np.sort(order[len(log) // 2 :])
    mixed = np.random.default_rng(seed).permutation(first)
    played, agent = replay(log, learner, rule, budget, horizon(log, first.size), seed, mixed)
    chosen = _choices(agent, log, second)
    weights = (chosen == log.taken[second]) / log.propensity[second]
    reward = log.reward[second]
    expected, predicted = _model(log, first, second, chosen)
    z = float(stats.norm.ppf(0.5 + level / 2.0))
    total = max(float(weights.sum()), 1e-300)
    effective = total**2 / max(float((weights**2).sum()), 1e-300) if weights.any() else 0.0
    doubt = _doubt(weights, reward, effective)
    if doubt:
        warn(doubt)
    share = float((weights * reward).sum()) / total if weights.any() else math.nan
    errors = weights * (reward - share)
    return Evaluation(
        played,
        (
            _mean("replay", played.rewards, z, played.rewards.size),
            _mean("ips", weights * reward, z, effective),
            _around("snips", share, z * math.sqrt(float((errors**2).sum())) / total, effective),
            _mean("dr", expected + weights * (reward - predicted), z, effective),
        ),
        level,
        doubt,
    )


def combined(evaluations: Sequence[Evaluation]) -> Evaluation:
    """Combine evaluations of one case, made with different halves of the log, into one: their mean.

    The halves overlap, so their errors do not average out. The squares of the intervals are averaged, and the square of
    the interval of the mean over the evaluations is added.
    """
    z = float(stats.norm.ppf(0.5 + evaluations[0].level / 2.0))
    estimates = []
    for i, first in enumerate(evaluations[0].estimates):
        values, halves, effective = np.array(
            [(e.estimates[i].value, e.estimates[i].high - e.estimates[i].value, e.estimates[i].effective)
             for e in evaluations]
        ).T  # fmt: skip
        again = z**2 * float(values.var(ddof=1)) / values.size if values.size > 1 else 0.0
        half = math.sqrt(float((halves**2).mean()) + again)
        estimates.append(_around(first.method, float(values.mean()), half, float(effective.mean())))
    worst = min(evaluations, key=lambda e: (not e.doubt, e["dr"].effective))
    return replace(evaluations[0], estimates=tuple(estimates), doubt=worst.doubt)


def _choices(agent: Agent, log: Logged, rows: Integers) -> Integers:
    """What the agent would do next in each of the rows; the agent itself does not change."""

    def choice(row: int) -> int:
        return copy.copy(agent).decide(log.context(row)).index

    if log.contexts is None:
        return np.array([choice(row) for row in rows.tolist()])
    firsts = np.unique(log.contexts[rows], return_index=True)[1]
    by_context = {int(log.contexts[row]): choice(row) for row in rows[firsts].tolist()}
    return np.array([by_context[context] for context in log.contexts[rows].tolist()])


def _doubt(weights: Floats, reward: Floats, effective: float) -> str:
    matching, rewarded = int((weights > 0).sum()), int(((weights > 0) & (reward > 0)).sum())
    if effective < FEW:
        return (
            f"{matching} rows of {weights.size:,} have the action that the policy takes, worth {effective:.0f} of even "
            "weight: estimates from so few are rough, and their intervals too short"
        )
    if rewarded < FEW_REWARDS:
        return (
            f"of the {matching} rows that have the action that the policy takes, {rewarded} "
            "have a reward above 0: intervals of such rare rewards are too short"
        )
    return ""


def _mean(method: str, values: Floats, z: float, effective: float) -> Estimate:
    half = z * float(values.std(ddof=1)) / math.sqrt(values.size) if values.size > 1 else math.inf
    return _around(method, float(values.mean()), half, effective)


def _around(method: str, value: float, half: float, effective: float) -> Estimate:
    return Estimate(method, value, value - half, value + half, float(effective))


def _model(log: Logged, first: Integers, second: Integers, chosen: Integers) -> tuple[Floats, Floats]:
    """Fit a reward model on the rows `first`; predict the rows `second`, for the chosen and for the taken actions."""
    if log.contexts is not None:
        size = (log.groups, len(log.actions))
        count, total = np.zeros(size), np.zeros(size)
        np.add.at(count, (log.contexts[first], log.taken[first]), 1.0)
        np.add.at(total, (log.contexts[first], log.taken[first]), log.reward[first])
        means = (total + log.reward[first].mean()) / (count + 1.0)  # each cell gets one more answer, the overall mean
        return means[log.contexts[second], chosen], means[log.contexts[second], log.taken[second]]
    inputs = np.stack([log.context(row)[log.taken[row]] for row in first.tolist()])
    gram = inputs.T @ inputs + np.eye(log.dim)
    theta = np.linalg.solve(gram, inputs.T @ log.reward[first])
    both = [(log.context(row) @ theta)[[a, log.taken[row]]] for row, a in zip(second.tolist(), chosen, strict=True)]
    expected, predicted = np.array(both).T
    return expected, predicted
