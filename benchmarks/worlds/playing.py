"""One run of one candidate in one world. With one seed all candidates meet the same contexts, budgets and noise.

Rules run in `sp.simulate` where they can, and otherwise as an Agent, round by round; baselines always round by round.
"""

from __future__ import annotations

import random as dice
import time
import warnings
from collections import deque
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import sparingly as sp
from benchmarks.worlds import episodes
from benchmarks.worlds.world import Answers, World, prices
from sparingly.history import History
from sparingly.lab.table_runs import order_of
from sparingly.ledger import in_amounts
from sparingly.problems.linear import noisy
from sparingly.problems.real import Table
from sparingly.randomness import keys
from sparingly.simulation.simulate import make_simulator
from sparingly.simulation.tapes import Tapes

Floats = NDArray[np.float64]
CHECKPOINTS = 100  # of a simulation, at which the budget is looked at


@dataclass(frozen=True)
class Outcome:
    """What a candidate did in one run."""

    regret: float  # expected reward lost against the best action of each round, summed
    reward: float  # expected reward, summed
    asks: int
    spent: float
    budget: float  # at the end
    over: float  # the most by which the budget was exceeded at any time
    refused: int  # how often the ledger had to step in
    seconds: float

    def row(self) -> dict[str, float]:
        return asdict(self)


class Player(Protocol):
    """A candidate that plays round by round."""

    @property
    def refused(self) -> int: ...

    def decide(self, context: Any, budget: float) -> tuple[int, bool, Any]:
        """The action, whether to ask about it, and what is needed to learn from the answer."""

    def learn(self, ticket: Any, reward: float) -> None: ...


class AgentPlayer:
    """A rule as a player."""

    def __init__(self, learner: Any, rule: Any, seeds: np.random.SeedSequence, costs: Any = None) -> None:
        self.agent, self.granted = sp.Agent(learner, rule, budget=0.0, seed=seeds, costs=costs), 0.0

    def decide(self, context: Any, budget: float) -> tuple[int, bool, Any]:
        if budget > self.granted:
            self.agent.ledger.grant_to(budget)
            self.granted = budget
        decision = self.agent.decide(context)
        return decision.action, decision.ask, decision.id

    def learn(self, ticket: Any, reward: float) -> None:
        self.agent.observe(ticket, reward)

    @property
    def refused(self) -> int:
        return int(self.agent.ledger.refused)


class Seeds:
    """The randomness of a run, as `sp.simulate` with one run takes it from the seed."""

    def __init__(self, seed: int) -> None:
        self.world, self.noise, self.player = np.random.SeedSequence(seed).spawn(1)[0].spawn(3)

    def dice(self) -> dice.Random:
        """Python's own generator, for baselines."""
        return dice.Random(int(self.player.generate_state(1)[0]))


def simulator_of(world: World, problem: Any) -> Any:
    """What `sp.simulate` would use: its tapes and its noise are everybody's."""
    return make_simulator(problem, world.learner, sp.Never(), world.budget, np.array([world.rounds]), skip=False)


class ArmsStage:
    """Arms and contexts as they come, for a player."""

    def __init__(self, world: World, problem: Any, seeds: Seeds) -> None:
        simulator = simulator_of(world, problem)
        self.problem, self.costs = problem, prices(problem)
        self.tapes = Tapes(simulator, seeds.world)
        self.adversary = problem.contexts if isinstance(problem.contexts, sp.contexts.Adaptive) else None
        if self.adversary is None:
            contexts, units = self.tapes.take(1, world.rounds)
            self.contexts = np.broadcast_to(contexts, world.rounds).tolist()
        else:
            assert self.tapes.budget is not None
            units = self.tapes.budget.take(1, world.rounds, np.zeros(1, dtype=np.int64))
        self.budgets = in_amounts(units).tolist()
        self.keys = simulator.noise_keys(seeds.noise).reshape(problem.shape)
        self.plays, self.asked = (np.zeros(problem.shape, dtype=np.int64) for _ in range(2))
        self.means, self.memory = problem.means.tolist(), dict[str, Any]()
        self.last: tuple[int, int, bool] | None = None
        self.tops, self.spent = [max(row) for row in self.means], 0.0

    def context(self, t: int) -> Any:
        if self.adversary is None:
            return self.contexts[t]
        history = History(
            round=t + 1, context=None, granted=self.budgets[t], grew=False, spent=self.spent, plays=self.plays,
            asked=self.asked, last=self.last, random=self.tapes.context_random, memory=self.memory,
        )  # fmt: skip
        return int(self.adversary.callback(history))

    def worth(self, t: int, context: int, action: int) -> tuple[float, float]:
        """What the action is worth, and the best one."""
        return self.means[context][action], self.tops[context]

    def settle(self, t: int, context: int, action: int, ask: bool) -> float:
        """Let the round end: the answer, if there was an ask."""
        answer = 0.0
        if ask:
            k = int(self.asked[context, action])
            answer = self.problem.draw(context, action, self.keys[context, action], k)
            self.asked[context, action] += 1
            self.spent += self.costs[context, action]
        if self.adversary is not None:
            self.plays[context, action] += 1
            self.last = (context, action, ask)
        return answer


class FeatureStage:
    """Features as they come, for a player."""

    def __init__(self, world: World, problem: sp.problems.Linear, seeds: Seeds) -> None:
        simulator = simulator_of(world, problem)
        X, units = Tapes(simulator, seeds.world).take(1, world.rounds)
        self.X = np.broadcast_to(X, (world.rounds, *X.shape[1:]))
        self.budgets, self.costs = in_amounts(units).tolist(), prices(problem)
        self.key, self.noise, self.asks, self.spent = simulator.noise_keys(seeds.noise)[0], problem.noise, 0, 0.0
        self.values = self.X @ problem.theta
        self.tops = self.values.max(axis=1)

    def context(self, t: int) -> Any:
        return self.X[t]

    def worth(self, t: int, context: Floats, action: int) -> tuple[float, float]:
        return float(self.values[t, action]), float(self.tops[t])

    def settle(self, t: int, context: Floats, action: int, ask: bool) -> float:
        if not ask:
            return 0.0
        self.asks += 1
        self.spent += self.costs[action]
        return float(noisy(float(self.values[t, action]), self.noise, self.key, self.asks - 1))


class TableStage:
    """Rows of a table as they come, for a player: the same as in `lab.table_runs` with this seed."""

    def __init__(self, world: World, table: Table, seed: int) -> None:
        self.table, self.costs, self.spent = table, prices(table), 0.0
        self.rows = order_of(len(table), world.rounds, np.random.SeedSequence(seed).spawn(2)[0])
        schedule = world.budget
        assert isinstance(schedule, sp.budgets.Schedule)
        self.budgets = [schedule(t) for t in range(1, world.rounds + 1)]
        self.tops = table.rewards.max(axis=1)

    def context(self, t: int) -> Any:
        return self.table.context(int(self.rows[t]))

    def worth(self, t: int, context: Floats, action: int) -> tuple[float, float]:
        row = self.rows[t]
        return float(self.table.rewards[row, action]), float(self.tops[row])

    def settle(self, t: int, context: Floats, action: int, ask: bool) -> float:
        if not ask:
            return 0.0
        self.spent += self.costs[action]
        return self.table.reveal(int(self.rows[t]), action)


def stage_for(world: World, problem: Any, seed: int) -> Any:
    """The rounds of one seed."""
    if isinstance(problem, Table):
        return TableStage(world, problem, seed)
    kind = FeatureStage if isinstance(problem, sp.problems.Linear) else ArmsStage
    return kind(world, problem, Seeds(seed))


def play(stage: Any, player: Player, answers: Answers, silent: NDArray[np.bool_]) -> Outcome:
    """All rounds: the player decides, and is told what it asked for, at once, late or never."""
    start, reward, regret, asks, over = time.perf_counter(), 0.0, 0.0, 0, 0.0
    waiting: deque[tuple[int, Any, float]] = deque()
    for t, budget in enumerate(stage.budgets):
        while waiting and waiting[0][0] <= t:
            player.learn(*waiting.popleft()[1:])
        context = stage.context(t)
        action, ask, ticket = player.decide(context, budget)
        mine, best = stage.worth(t, context, action)
        reward, regret = reward + mine, regret + best - mine
        answer = stage.settle(t, context, action, ask)
        if ask:
            asks, over = asks + 1, max(over, stage.spent - budget)
            if not (silent[t] or action == answers.silent_arm):
                if answers.late:
                    waiting.append((t + answers.late, ticket, answer))
                else:
                    player.learn(ticket, answer)
    seconds = time.perf_counter() - start
    return Outcome(regret, reward, asks, stage.spent, stage.budgets[-1], over, player.refused, seconds)


def silence(world: World, seed: int) -> NDArray[np.bool_]:
    """The rounds whose asks are never answered, the same for everybody."""
    return np.random.default_rng([seed, 3]).random(world.rounds) < world.answers.silent_share


def run_rule(world: World, problem: Any, rule: Any, seed: int, by_rounds: bool = False) -> Outcome:
    """One run of a rule: simulated where that can be, or `by_rounds` on an Agent."""
    adaptive = isinstance(getattr(problem, "contexts", None), sp.contexts.Adaptive)
    if isinstance(problem, Table) or adaptive or not world.prompt or by_rounds:
        seeds = Seeds(seed).player
        player = AgentPlayer(world.learner_of(problem), rule, seeds, getattr(problem, "costs", None))
        return play(stage_for(world, problem, seed), player, world.answers, silence(world, seed))
    start = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", sp.BudgetWarning)  # worlds have budgets that are too small for some rules
        result = sp.simulate(
            problem, world.learner, rule, world.budget, rounds=world.rounds, runs=1, seed=seed, jobs=1, progress=False,
            checkpoints=CHECKPOINTS, spacing="linear",
        )  # fmt: skip
    seconds, regret = time.perf_counter() - start, float(result.regret[0, -1])
    spent, budget = float(result.spent[0, -1]), float(result.budget[0, -1])
    over = max(float((result.spent - result.budget).max()), 0.0)
    reward = optimum(world, problem, seed) - regret
    return Outcome(regret, reward, int(result.asked[0, -1]), spent, budget, over, int(result.refused[0]), seconds)


def optimum(world: World, problem: Any, seed: int) -> float:
    """The expected reward of the best actions, summed over the rounds of a seed."""
    if isinstance(problem, sp.problems.Episodic):
        return float(problem.optimal_values[0][starts(world, problem, seed)[0]].sum())
    if isinstance(problem, sp.problems.Arms):
        return float(problem.means.max()) * world.rounds
    stage = stage_for(world, problem, seed)
    if isinstance(stage, FeatureStage):
        return float(stage.tops.sum())
    return float(problem.means.max(axis=1)[stage.contexts].sum())


def starts(world: World, problem: sp.problems.Episodic, seed: int) -> tuple[Any, Floats]:
    """Where the episodes of a seed start, and the budgets."""
    simulator = simulator_of(world, problem)
    initial, units = Tapes(simulator, Seeds(seed).world).take(1, world.rounds)
    return np.broadcast_to(initial, world.rounds), in_amounts(units)


def run_baseline(world: World, problem: Any, make: Callable[[float, dice.Random], Any], seed: int) -> Outcome:
    """One run of a baseline, which `make` makes, told the budget of the end."""
    if isinstance(problem, sp.problems.Episodic):
        return run_episodes(world, problem, make, seed)
    stage = stage_for(world, problem, seed)
    player = make(stage.budgets[-1], Seeds(seed).dice())
    return play(stage, player, world.answers, silence(world, seed))


def run_episodes(
    world: World, problem: sp.problems.Episodic, make: Callable[[float, dice.Random], Any], seed: int
) -> Outcome:
    """One run of a baseline for episodes. What a policy is worth is computed, not drawn."""
    start, seeds = time.perf_counter(), Seeds(seed)
    initial, budgets = starts(world, problem, seed)
    player = make(float(budgets[-1]), seeds.dice())
    P, R, best = problem.transitions(), problem.means, problem.optimal_values[0]
    noise, truth = keys(seeds.noise, 2), problem.within_reach()
    H, S, _ = problem.shape
    plays, V = np.zeros(problem.shape, dtype=np.int64), np.zeros((H + 1, S))
    path, rewards = np.zeros((H, 2), dtype=np.int64), np.zeros(H)
    reward, regret, over = 0.0, 0.0, 0.0
    for s, budget in zip(initial.tolist(), budgets.tolist(), strict=True):
        policy, epsilon, asking = player.plan(budget)
        episodes.worth(P, R, policy, epsilon, V)
        reward, regret = reward + V[0, s], regret + best[s] - V[0, s]
        episodes.walk(truth, noise, policy, player.swerves(epsilon), s, plays, path, rewards)
        player.live(path, rewards, asking)
        over = max(over, player.spent - budget)
    seconds = time.perf_counter() - start
    asks = int(player.asks.sum())
    return Outcome(float(regret), float(reward), asks, player.spent, float(budgets[-1]), over, 0, seconds)
