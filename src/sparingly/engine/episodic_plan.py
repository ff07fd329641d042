"""How episodes are simulated: the compiled loop of episodic_memory.py on tapes of initial states and budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.agent import Agent
from sparingly.budgets import Budget, Fixed
from sparingly.engine import episodic as engine
from sparingly.engine.plan import Plan, Record, Tapes, World, check_block, check_number, with_costs
from sparingly.errors import InvalidInput
from sparingly.families import episodic_memory
from sparingly.induction import Values
from sparingly.learners import UCBVI, ULCVI
from sparingly.learners.episodic import EpisodicLearner
from sparingly.ledger import GRANTED, REFUSED, SPENT
from sparingly.problems.episodic import Episodic, evaluate, step
from sparingly.randomness import keys
from sparingly.rules import Never

BLOCK = 2**12  # episodes of tape in memory at a time

Integers = NDArray[np.int64]


class EpisodicPlan(Plan):
    """A simulation of episodes."""

    family = "episodes"

    def __init__(self, problem: Episodic, learner: Any, rule: Any, budget: Budget, marks: Integers, skip: bool) -> None:
        H, S, A = problem.shape
        if not isinstance(learner, EpisodicLearner):
            raise InvalidInput(f"an episodic problem needs UCBVI or ULCVI({S}, {A}, {H}, …), not {learner!r}")
        if learner.shape != problem.shape:
            name = type(learner).__name__
            raise InvalidInput(
                f"the problem has {S} states, {A} actions and {H} steps, the learner is made for {learner.states}, "
                f"{learner.actions} and {learner.horizon}; use {name}(states={S}, actions={A}, horizon={H})"
            )
        learner = with_costs(learner, problem.costs)
        super().__init__(problem, learner, rule, budget, marks, skip)
        self.source, self.costs, self.truth = problem.initial, None, problem.within_reach()
        self.check_parts()

    @property
    def shape(self) -> tuple[int, ...]:
        H, S, A = self.problem.shape
        return int(H), int(S), int(A)

    @property
    def contexts(self) -> int:
        return int(self.problem.states)

    @property
    def compiled(self) -> bool:
        return not self.adaptive

    def load(self) -> None:
        smallest = Episodic([[[1.0]]], [[0.0]], horizon=1)
        for learner in (UCBVI, ULCVI):
            plan = EpisodicPlan(smallest, learner(1, 1, 1), Never(), Fixed(0), np.ones(1, dtype=np.int64), True)
            plan.run_compiled(1, np.random.SeedSequence(0), lambda rounds: None)

    def open_tape(self, random: np.random.Generator) -> Any:
        return self.source.tape(random, self.contexts)

    def run_compiled(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        world_seed, noise_seed, learner_seed = seeds.spawn(3)
        words = episodic_memory.remember(self.learner, self.rule, keys(learner_seed, 1)[0], passes=self.skip)
        record, noise, tapes = self.new_record(), keys(noise_seed, 2), Tapes(self, world_seed)
        H, S, _ = self.problem.shape
        room = engine.Room(
            np.zeros((H, 2), dtype=np.int64), np.zeros(H, dtype=np.bool_), np.zeros(H), np.zeros(2, dtype=np.int64),
            np.zeros(1),
        )  # fmt: skip
        own, best, past = (
            self.first_values(),
            self.problem.optimal_values[0],
            np.zeros((int(words[episodic_memory.SLOTS]), S)),
        )
        for first in range(1, rounds + 1, BLOCK):
            initial, budget = tapes.take(first, min(BLOCK, rounds - first + 1))
            initial = check_block(initial, budget.size, self.contexts)
            done, words = 0, episodic_memory.tidy(words)
            while done < budget.size:
                words = episodic_memory.grow(words)
                policy = episodic_memory.open_memory(words).values.policy
                worth = engine.Worth(best, Values(own.upper, own.lower, policy), past)
                states = initial[done:] if initial.size > 1 else initial
                done += engine.run_block(
                    words, self.truth, noise, worth, room, record, states, budget[done:], first + done
                )
            report(budget.size)
        return record, int(episodic_memory.open_memory(words).account[REFUSED])

    def first_values(self) -> Values:
        """The values of the policy that plays action 0 everywhere: a learner's before its first plan."""
        values: Values = self.problem.no_values()
        evaluate(self.truth.model, values, self.problem.horizon - 1, np.zeros(1, dtype=np.uint64))
        return values

    def run_agent(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        """One run on an Agent, episode by episode: for adversaries that react."""
        world_seed, noise_seed, learner_seed = seeds.spawn(3)
        agent = Agent(self.learner, self.rule, budget=0.0, seed=learner_seed)
        noise, ledger = keys(noise_seed, 2), agent.ledger
        H, S, A = self.problem.shape
        record, mark, regret, truth = self.new_record(), 0, 0.0, self.truth
        plays, asked = record.plays.reshape(self.shape), np.zeros(self.shape, dtype=np.int64)
        world, best = World(self, world_seed, agent, plays, asked), self.problem.optimal_values[0]
        values = self.first_values()
        states, actions, rewards = np.zeros(H, dtype=np.int64), np.zeros(H, dtype=np.int64), np.zeros(H)
        for t in range(1, rounds + 1):
            s = int(world.next_context(t))
            policy = agent.plan()
            changed = np.flatnonzero((policy != values.policy).any(axis=1))
            if changed.size:
                values.policy[:] = policy
                evaluate(truth.model, values, int(changed[-1]), np.zeros(1, dtype=np.uint64))
            regret += best[s] - values.upper[0, s]
            for h in range(H):
                a = int(policy[h, s])
                states[h], actions[h] = s, a
                s, rewards[h] = step(truth, (h * S + s) * A + a, noise[0], noise[1], plays[h, s, a])
                plays[h, states[h], a] += 1
            asks = agent.decide_episode(states, actions)
            agent.observe_episode(np.where(asks, rewards, np.nan))
            asked[np.flatnonzero(asks), states[asks], actions[asks]] += 1
            world.last = (int(states[0]), actions.copy(), asks)
            if mark < record.rounds.size and t == record.rounds[mark]:
                record.regret[mark], record.asked[mark] = regret, asked.sum()
                record.spent[mark], record.budget[mark] = ledger.account[SPENT], ledger.account[GRANTED]
                mark += 1
            report(1)
        return record, agent.ledger.refused

    def check_context(self, context: Any) -> int:
        return check_number(context, self.contexts, "state")
