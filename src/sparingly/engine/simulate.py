"""`simulate`: many runs of a learner and a rule on a problem under a budget, in parallel on all cores.

What the world decides ahead is a tape, and the compiled loop plays it. Adaptive adversaries, and learners or
rules written in plain Python, take the slower path: an Agent, round by round, with the same result.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray

from sparingly import budgets, contexts
from sparingly.agent import Agent
from sparingly.budgets import Budget, as_budget
from sparingly.compiling import notice
from sparingly.contexts import Contexts
from sparingly.engine import arms as engine
from sparingly.engine.progress import Progress
from sparingly.errors import InvalidInput, MissingExtra
from sparingly.families import arms
from sparingly.history import History
from sparingly.learners import UCB1
from sparingly.learners.base import TabularLearner, full_costs
from sparingly.ledger import GRANTED, REFUSED, SPENT, in_amounts
from sparingly.problems.arms import ContextualArms
from sparingly.protocol import Learner, Problem, QueryRule
from sparingly.randomness import keys
from sparingly.rules import Never, Rule

if TYPE_CHECKING:
    import pandas

BLOCK = 2**14  # rounds of tape in memory at a time
LONG_BLOCK = 2**24  # rounds between two reports of progress where no tape is needed

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


@dataclass(frozen=True, repr=False)
class Simulation:
    """What `simulate` returns: the state of each run at K checkpoints."""

    rounds: Integers  # (K,) the checkpoints
    regret: Floats  # (runs, K) cumulative pseudo-regret
    asked: Integers  # (runs, K) asks so far
    spent: Floats  # (runs, K) budget spent so far
    budget: Floats  # (runs, K) B(t)
    refused: Integers  # (runs,) how often the ledger had to refuse
    plays: Integers  # (runs, S, A) how often each cell was played
    labels: dict[str, str] = field(default_factory=dict)  # problem, learner, rule, budget: what was run

    def frame(self) -> pandas.DataFrame:
        """All checkpoints of all runs as a pandas data frame, one row each."""
        try:
            import pandas
        except ImportError:
            raise MissingExtra("Simulation.frame()", "lab") from None
        runs, marks = self.regret.shape
        columns: dict[str, Any] = {
            "run": np.repeat(np.arange(runs), marks),
            "round": np.tile(self.rounds, runs),
            "regret": self.regret.ravel(),
            "asked": self.asked.ravel(),
            "spent": self.spent.ravel(),
            "budget": self.budget.ravel(),
        }
        return pandas.DataFrame(columns | self.labels)

    def final_regret(self) -> tuple[float, float]:
        """The mean regret at the end, and the half-width of its 95 % interval (normal approximation)."""
        last = self.regret[:, -1]
        if last.size == 1:
            return float(last[0]), math.nan
        return float(last.mean()), float(1.96 * last.std(ddof=1) / math.sqrt(last.size))

    def __repr__(self) -> str:
        mean, half = self.final_regret()
        runs, label = self.regret.shape[0], ", ".join(self.labels.values())
        return f"Simulation({label}: regret {mean:.1f} ± {half:.1f} after {self.rounds[-1]} rounds, {runs} runs)"


@dataclass(frozen=True)
class Setup:
    """One simulation, checked and ready to run."""

    problem: Problem
    learner: TabularLearner | Learner
    rule: Rule | QueryRule
    budget: Budget
    contexts: Contexts
    costs: Floats  # (S, A)
    checkpoints: Integers
    skip: bool

    @property
    def shape(self) -> tuple[int, int]:
        return self.costs.shape[0], self.costs.shape[1]

    @property
    def gaps(self) -> Floats:
        means = np.asarray(self.problem.means, dtype=np.float64)
        return np.asarray(means.max(axis=1, keepdims=True) - means)

    @property
    def compiled(self) -> bool:
        """Whether everything is known ahead and built in."""
        return (
            isinstance(self.learner, TabularLearner)
            and isinstance(self.rule, Rule)
            and isinstance(self.problem, ContextualArms)
            and type(self.problem).draw is ContextualArms.draw
            and not isinstance(self.budget, budgets.Adaptive)
            and not isinstance(self.contexts, contexts.Adaptive)
        )


def simulate(
    problem: Problem,
    learner: TabularLearner | Learner,
    rule: Rule | QueryRule,
    budget: float | Budget,
    rounds: int = 100_000,
    runs: int = 20,
    seed: int = 0,
    checkpoints: int | Sequence[int] | Integers = 200,
    spacing: Literal["log", "linear"] = "log",
    jobs: int | None = None,
    progress: bool | None = None,
    path: Literal["fast", "plain", "agent"] = "fast",
) -> Simulation:
    """Run a learner and a rule on a problem under a budget, `runs` times, and record regret and asks.

    `checkpoints` is how many rounds to record, spaced by `spacing`, or which ones. `jobs` limits the threads.
    Results depend on the seed alone, never on `jobs`. `path` exists to check the engine against itself:
    "plain" plays every round, "agent" plays them on an Agent in Python; all give the same result.

    >>> import sparingly as sp
    >>> r = sp.simulate(sp.problems.Arms([0.2, 0.8]), sp.UCB1(arms=2), sp.ExactMatching(), 100, rounds=1000, runs=3)
    >>> r.regret.shape == (3, len(r.rounds)), int(r.refused.sum()), bool((r.asked <= 100).all())
    (True, 0, True)
    """
    for name, value in (("rounds", rounds), ("runs", runs)):
        if isinstance(value, bool) or not isinstance(value, int | np.integer) or value < 1:
            raise InvalidInput(f"{name} must be a whole number ≥ 1, not {value!r}")
    if path not in ("fast", "plain", "agent"):
        raise InvalidInput(f"path must be 'fast', 'plain' or 'agent', not {path!r}")
    marks = choose_checkpoints(int(rounds), checkpoints, spacing)
    setup = _check(problem, learner, rule, budget, marks, skip=path == "fast")
    one_run = _run_compiled if setup.compiled and path != "agent" else _run_agent
    if one_run is _run_compiled:
        _warm_up()
    bar = Progress(int(rounds) * int(runs), "simulating", progress)
    seeds = np.random.SeedSequence(seed).spawn(int(runs))
    records = _in_threads(lambda s: one_run(setup, int(rounds), s, bar.add), seeds, jobs)
    bar.close()
    labels = {"problem": problem, "learner": learner, "rule": rule, "budget": setup.budget}
    return Simulation(
        rounds=setup.checkpoints,
        regret=np.array([r.regret for r, _ in records]),
        asked=np.array([r.asked for r, _ in records]),
        spent=in_amounts(np.array([r.spent for r, _ in records])),
        budget=in_amounts(np.array([r.budget for r, _ in records])),
        refused=np.array([refused for _, refused in records]),
        plays=np.array([r.plays.reshape(setup.shape) for r, _ in records]),
        labels={name: repr(part) for name, part in labels.items()},
    )


def _in_threads(call: Callable[[Any], Any], items: Sequence[Any], jobs: int | None) -> list[Any]:
    """The results of `call` for all items, in order; compiled code releases the GIL, so threads use all cores."""
    workers = min(jobs or os.cpu_count() or 1, len(items))
    if workers == 1:
        return [call(item) for item in items]
    with ThreadPoolExecutor(workers) as pool:
        try:
            return list(pool.map(call, items))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def choose_checkpoints(
    rounds: int, checkpoints: int | Sequence[int] | Integers, spacing: Literal["log", "linear"] = "log"
) -> Integers:
    """The rounds to record: `checkpoints` many up to the last one, or exactly those given."""
    if isinstance(checkpoints, int | np.integer) and not isinstance(checkpoints, bool):
        if checkpoints < 1:
            raise InvalidInput(f"at least one checkpoint is needed, not {checkpoints}")
        if spacing not in ("log", "linear"):
            raise InvalidInput(f"spacing must be 'log' or 'linear', not {spacing!r}")
        count = min(int(checkpoints), rounds)
        first = 1 if count > 1 else rounds
        marks = np.geomspace(first, rounds, count) if spacing == "log" else np.linspace(rounds / count, rounds, count)
        return np.unique(np.rint(marks).astype(np.int64))
    marks = np.asarray(checkpoints)
    if marks.ndim != 1 or marks.size == 0 or not np.issubdtype(marks.dtype, np.integer):
        raise InvalidInput("checkpoints must be a whole number or a list of whole numbers")
    if marks[0] < 1 or marks[-1] > rounds or (np.diff(marks) <= 0).any():
        raise InvalidInput(f"checkpoints must increase and lie in 1 … {rounds}")
    return marks.astype(np.int64)


def _check(problem: Any, learner: Any, rule: Any, budget: Any, marks: Integers, skip: bool) -> Setup:
    if not isinstance(problem, Problem):
        raise InvalidInput(f"{problem!r} is not a problem: it needs means, costs, contexts and draw")
    contexts_there, arms_there = np.asarray(problem.means).shape
    made_for = (getattr(learner, "contexts", None), getattr(learner, "arms", None))
    if made_for != (contexts_there, arms_there):
        raise InvalidInput(
            f"the problem has {contexts_there} contexts and {arms_there} arms, the learner is made for {made_for[0]} "
            f"and {made_for[1]}; use {type(learner).__name__}(arms={arms_there}, contexts={contexts_there})"
        )
    if problem.costs is not None and learner.costs is not None and not np.array_equal(problem.costs, learner.costs):
        raise InvalidInput("the problem and the learner name different costs of asking; leave one of them out")
    costs = full_costs(learner.costs if problem.costs is None else problem.costs, contexts_there, arms_there)
    world, source = as_budget(budget), problem.contexts
    if isinstance(source, contexts.WhenBudgetGrows) and world.watches_contexts:
        raise InvalidInput("the contexts wait for the budget and the budget waits for the contexts")
    Agent(learner, rule, costs=costs)  # refuses what is not a learner or not a rule
    return Setup(problem, learner, rule, world, source, costs, marks, skip)


def _warm_up() -> None:
    """The first simulation of a process loads the compiled code; the first one ever compiles it, and says so."""
    if not _warm:
        _warm.append(True)
        with notice("the simulator"):
            setup = _check(ContextualArms([[0.0]]), UCB1(1), Never(), 0.0, np.ones(1, dtype=np.int64), True)
            _run_compiled(setup, 1, np.random.SeedSequence(0), lambda rounds: None)


_warm: list[bool] = []


class _Tapes:
    """The contexts and the budget of one run, block by block."""

    def __init__(self, setup: Setup, seeds: np.random.SeedSequence) -> None:
        first, second = (np.random.default_rng(s) for s in seeds.spawn(2))
        self.setup = setup
        self.adaptive_contexts = isinstance(setup.contexts, contexts.Adaptive)
        self.adaptive_budget = isinstance(setup.budget, budgets.Adaptive)
        self.context_random, self.budget_random = first, second
        self.contexts = None if self.adaptive_contexts else setup.contexts.tape(first, setup.shape[0])
        self.budget = None if self.adaptive_budget else setup.budget.tape(second)
        self.granted = 0  # B of the round before

    def take(self, first: int, count: int) -> tuple[Integers, Integers]:
        """Contexts and budget of the next `count` rounds (a single context if there is only one)."""
        assert self.contexts is not None and self.budget is not None
        unknown = np.zeros(1, dtype=np.int64)
        if self.setup.contexts.watches_budget:
            budget = self.budget.take(first, count, unknown)
            context = self.contexts.take(first, count, np.diff(budget, prepend=self.granted) > 0)
        else:
            context = self.contexts.take(first, count, unknown > 0)
            budget = self.budget.take(first, count, context)
        self.granted = int(budget[-1])
        return context, budget

    def blocks(self, rounds: int) -> Iterator[engine.Block]:
        """Blocks until all rounds are covered; without contexts a formula needs no tape, however many rounds."""
        nothing = np.zeros(1, dtype=np.int64)
        by_formula = self.setup.shape[0] == 1 and self.setup.budget.formula[0] != budgets.TAPED
        size = LONG_BLOCK if by_formula else BLOCK
        for first in range(1, rounds + 1, size):
            count = min(size, rounds - first + 1)
            if by_formula:
                yield engine.Block(first, count, nothing, *self.setup.budget.formula, nothing)
            else:
                context, budget = self.take(first, count)
                yield engine.Block(first, count, context, budgets.TAPED, 0.0, 0.0, budget)


def _new_record(setup: Setup) -> engine.Record:
    marks = setup.checkpoints
    asked, spent, budget = (np.zeros(marks.size, dtype=np.int64) for _ in range(3))
    return engine.Record(marks, np.zeros(marks.size), asked, spent, budget, np.zeros(setup.costs.size, dtype=np.int64))


def _run_compiled(
    setup: Setup, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
) -> tuple[engine.Record, int]:
    """One run on the compiled loop."""
    problem, learner, rule = setup.problem, setup.learner, setup.rule
    assert isinstance(problem, ContextualArms) and isinstance(learner, TabularLearner) and isinstance(rule, Rule)
    world_seed, noise_seed, learner_seed = seeds.spawn(3)
    words = arms.remember(learner, rule, setup.costs, (learner.code, rule.code), keys(learner_seed, 1)[0])
    rewards, noise = problem.rewards, keys(noise_seed, setup.costs.size)
    world = engine.World(rewards.code, rewards.spread, problem.parameters.ravel(), noise, setup.gaps.ravel())
    record, leads, mark = _new_record(setup), engine.new_leads(setup.shape[0]), 0
    for block in _Tapes(setup, world_seed).blocks(rounds):
        mark = engine.run_block(words, world, record, mark, leads, block, setup.skip)
        report(block.length)
    return record, int(arms.open_memory(words).account[REFUSED])


def _run_agent(
    setup: Setup, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
) -> tuple[engine.Record, int]:
    """One run on an Agent, round by round: for adversaries that react, and for parts in plain Python."""
    world_seed, noise_seed, learner_seed = seeds.spawn(3)
    agent = Agent(setup.learner, setup.rule, budget=0.0, seed=learner_seed, costs=setup.costs)
    account = agent.ledger.account
    noise = keys(noise_seed, setup.costs.size).reshape(setup.shape)
    record, gaps, mark = _new_record(setup), setup.gaps.ravel(), 0
    plays, asked = record.plays.reshape(setup.shape), np.zeros(setup.shape, dtype=np.int64)
    world = _AdaptiveWorld(setup, _Tapes(setup, world_seed), agent, plays, asked)
    for t in range(1, rounds + 1):
        u = world.next_context(t)
        decision = agent.decide(context=u)
        world.last = (u, decision.action, decision.ask)
        plays[u, decision.action] += 1
        if decision.ask:
            k = int(asked[u, decision.action])
            asked[u, decision.action] += 1
            agent.observe(decision.id, setup.problem.draw(u, decision.action, noise[u, decision.action], k))
        if mark < record.rounds.size and t == record.rounds[mark]:
            record.regret[mark] = sum(record.plays[cell] * gaps[cell] for cell in range(gaps.size))
            record.asked[mark], record.spent[mark], record.budget[mark] = asked.sum(), account[SPENT], account[GRANTED]
            mark += 1
        report(1)
    return record, agent.ledger.refused


class _AdaptiveWorld:
    """Picks the context and raises the agent's budget, round by round, asking the adversaries there are."""

    def __init__(self, setup: Setup, tapes: _Tapes, agent: Agent, plays: Integers, asked: Integers) -> None:
        self.setup, self.tapes, self.agent = setup, tapes, agent
        self.plays, self.asked = plays, asked
        self.last: tuple[int, int, bool] | None = None
        self.memories: tuple[dict[str, Any], dict[str, Any]] = ({}, {})  # of the two adversaries, for this run

    def next_context(self, t: int) -> int:
        """Let round t begin: its context; the agent's ledger then knows B(t)."""
        tapes, unknown = self.tapes, np.zeros(1, dtype=np.int64)
        before = tapes.granted
        if not tapes.adaptive_contexts and not tapes.adaptive_budget:
            context, budget = tapes.take(t, 1)
            self._grant_units(int(budget[0]))
            return int(context[0])
        if tapes.contexts is None and tapes.budget is not None and not self.setup.budget.watches_contexts:
            self._grant_units(int(tapes.budget.take(t, 1, unknown)[0]))
        if tapes.contexts is None:
            u = self._adversary_context(t, tapes.granted > before)
        else:
            u = int(tapes.contexts.take(t, 1, unknown > 0)[0])
        if tapes.budget is None:
            assert isinstance(self.setup.budget, budgets.Adaptive)
            self.agent.ledger.grant_to(self.setup.budget.callback(self._history(t, u, False, 1, tapes.budget_random)))
            tapes.granted = int(self.agent.ledger.account[GRANTED])
        elif self.setup.budget.watches_contexts:
            self._grant_units(int(tapes.budget.take(t, 1, np.array([u]))[0]))
        return u

    def _grant_units(self, units: int) -> None:
        self.agent.ledger.account[GRANTED] = self.tapes.granted = units

    def _adversary_context(self, t: int, grew: bool) -> int:
        assert isinstance(self.setup.contexts, contexts.Adaptive)
        u = self.setup.contexts.callback(self._history(t, None, grew, 0, self.tapes.context_random))
        if isinstance(u, bool) or not isinstance(u, int | np.integer) or not 0 <= u < self.setup.shape[0]:
            raise InvalidInput(f"the adversary picked context {u!r}; it must lie in 0 … {self.setup.shape[0] - 1}")
        return int(u)

    def _history(self, t: int, u: int | None, grew: bool, who: int, random: np.random.Generator) -> History:
        ledger = self.agent.ledger
        return History(
            round=t, context=u, granted=ledger.granted, grew=grew, spent=ledger.spent, plays=self.plays.copy(),
            asked=self.asked.copy(), last=self.last, random=random, memory=self.memories[who],
        )  # fmt: skip
