"""How episodes are simulated: the loop of loop.py on tapes of initial states and budgets."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.agent import Agent
from sparingly.budgets import Budget
from sparingly.episodic import loop, memory
from sparingly.episodic.family import EpisodicFamily, make_memory
from sparingly.episodic.value_iteration import Values
from sparingly.errors import InvalidInput
from sparingly.problems.episodic import Episodic, evaluate, step
from sparingly.randomness import keys
from sparingly.simulation.adversary import World
from sparingly.simulation.record import SO_FAR, Record, is_due_now, write_now
from sparingly.simulation.simulator import Simulator, check_block, check_number, with_costs
from sparingly.simulation.tapes import Tapes

BLOCK = 2**12  # episodes of tape in memory at a time

Integers = NDArray[np.int64]


class EpisodicSimulator(Simulator):
    """A simulation of episodes."""

    about = "episodes"
    problems = Episodic

    def __init__(self, problem: Episodic, learner: Any, rule: Any, budget: Budget, marks: Integers, skip: bool) -> None:
        H, S, A = problem.shape
        if not EpisodicFamily.takes(learner):
            raise InvalidInput(f"an episodic problem needs UCBVI or ULCVI({S}, {A}, {H}, …), not {learner!r}")
        if (learner.horizon, learner.states, learner.actions) != problem.shape:
            name = type(learner).__name__
            raise InvalidInput(
                f"the problem has {S} states, {A} actions and {H} steps, the learner is made for {learner.states}, "
                f"{learner.actions} and {learner.horizon}; use {name}(states={S}, actions={A}, horizon={H})"
            )
        learner = with_costs(learner, problem.costs)
        super().__init__(problem, learner, rule, budget, marks, skip)
        self.source, self.costs, self.truth = problem.initial, None, problem.within_reach()
        self.check()
        self.pair = EpisodicFamily.make_pair(learner, rule)

    @property
    def shape(self) -> tuple[int, ...]:
        H, S, A = self.problem.shape
        return int(H), int(S), int(A)

    @property
    def contexts(self) -> int:
        return int(self.problem.states)

    def start(self, seeds: np.random.SeedSequence) -> Any:
        """The memory of one run."""
        return make_memory(self.pair, self.learner, keys(seeds, 1)[0], passes=self.skip)

    def room(self) -> loop.Room:
        """Room for one episode."""
        H = self.problem.horizon
        return loop.Room(np.zeros((H, 2), dtype=np.int64), np.zeros(H, dtype=np.bool_), np.zeros(H))

    def worth(self, words: Any, own: Values, past: NDArray[np.float64]) -> loop.Worth:
        """What policies are worth in truth: the best, the learner's own (in this memory), those of its past."""
        policy = memory.open_memory(words, None).values.policy
        return loop.Worth(self.problem.optimal_values[0], Values(own.upper, own.lower, policy), past)

    def run_compiled(
        self, rounds: int, seeds: np.random.SeedSequence, report: Callable[[int], None]
    ) -> tuple[Record, int]:
        world_seed, noise_seed, learner_seed = seeds.spawn(3)
        words, own, run_block = self.start(learner_seed), self.pair.own, self.pair.code(loop.run_block)
        record, noise, tapes = self.new_record(), keys(noise_seed, 2), Tapes(self, world_seed)
        room, so_far, values = self.room(), np.zeros(1, dtype=SO_FAR), self.first_values()
        past = np.zeros((self.pair.slots, self.contexts))
        for first in range(1, rounds + 1, BLOCK):
            initial, budget = tapes.take(first, min(BLOCK, rounds - first + 1))
            initial = check_block(initial, budget.size, self.contexts)
            done, words = 0, memory.tidy(words)
            while done < budget.size:
                words = memory.grow(words)
                worth, states = self.worth(words, values, past), initial[done:] if initial.size > 1 else initial
                done += run_block(
                    words, own, self.truth, noise, worth, room, record, so_far, states, budget[done:], first + done
                )
            report(budget.size)
        return record, int(memory.open_memory(words, None).account["refused"][0])

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
        noise = keys(noise_seed, 2)
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
            if is_due_now(record, mark, t):
                write_now(record, mark, regret, int(asked.sum()), agent.ledger.account)
                mark += 1
            report(1)
        return record, agent.ledger.refused

    def check_context(self, context: Any) -> int:
        return check_number(context, self.contexts, "state")
