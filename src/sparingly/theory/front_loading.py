"""Front-loading: make any policy for a problem without contexts ask in the first B rounds only, at equal regret.

The paper proves that such a policy exists; this is it. Between two asks a policy learns nothing, so what it does until
its next ask is already determined. It can be run ahead: the asked action is played at once, the others later.
"""

from __future__ import annotations

import copy
from collections import deque
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.agent import Agent
from sparingly.budgets import Fixed
from sparingly.errors import InvalidInput, NotAwaited
from sparingly.ledger import UNIT
from sparingly.problems.arms import ContextualArms
from sparingly.protocol import Decision
from sparingly.randomness import keys, seed_sequence
from sparingly.validation import whole

Integers = NDArray[np.int64]
Booleans = NDArray[np.bool_]


class FrontLoaded:
    """A policy that makes a fresh agent with a fixed budget B ask in each of the first min(B, T) rounds, never after.

    It runs a copy of the agent, and plays each action as often as the agent itself would in `rounds` = T rounds: the
    same actions and answers in a different order. If the agent asks fewer than B times, the remaining asks go to
    actions that it plays without asking, and their answers are discarded. `context` is what the agent sees in every
    round: nothing for arms, one set of features for OFUL. Each answer must be given before the next decision.

    >>> from sparingly import UCB1
    >>> policy = FrontLoaded(Agent(UCB1(arms=2), budget=4, seed=0), rounds=6)
    >>> asks = []
    >>> for _ in range(6):
    ...     decision = policy.decide()
    ...     asks.append(decision.ask)
    ...     if decision.ask:
    ...         policy.observe(decision.id, reward=0.5)
    >>> asks
    [True, True, True, True, False, False]
    """

    def __init__(self, agent: Agent, rounds: int, context: Any = None) -> None:
        self.rounds = whole(rounds, "rounds")
        _check_agent(agent)
        self.agent = copy.copy(agent)  # a deep copy: it runs ahead, and the given agent does not change
        self.context = copy.copy(self.agent._family.check(context))
        self.budget = agent.ledger.granted
        self.asks = int(min(self.budget, self.rounds))  # one in each of the first rounds
        self.decisions = 0
        self._later: deque[Decision] = deque()  # what the agent played without asking, still to be played here
        self._awaited: Decision | None = None  # the decision that waits for its answer
        self._inner: int | None = None  # the agent's own decision behind it; None: the answer is discarded

    def decide(self) -> Decision:
        """The next action, and whether to ask about it."""
        if self.decisions == self.rounds:
            raise InvalidInput(f"all {self.rounds} rounds are played; a front-loaded policy has a fixed horizon")
        if self._awaited is not None:
            raise InvalidInput(
                f"decision {self._awaited.id} awaits its answer: call observe({self._awaited.id}, reward=…) first"
            )
        if self.agent.ledger.granted != self.budget:
            raise InvalidInput("the agent was granted more meanwhile; front-loading needs a fixed budget")
        asked = self._run_ahead()
        ask = self.decisions < self.asks
        assert ask or asked is None, "an agent within its budget asks no more than B times"
        chosen = asked if asked is not None else self._later.popleft()
        self.decisions += 1
        decision = chosen._replace(id=self.decisions, ask=ask)
        if ask:
            self._awaited, self._inner = decision, None if asked is None else asked.id
        return decision

    def observe(self, id: int, reward: float) -> None:
        """Report what the asked action was worth."""
        if self._awaited is None or id != self._awaited.id:
            raise NotAwaited(f"decision {id!r} awaits no feedback: only the latest one does, and only if it asks")
        value = self.agent._family.check_reward(reward)
        if self._inner is not None:
            self.agent.observe(self._inner, value)
        self._awaited = self._inner = None

    def _run_ahead(self) -> Decision | None:
        """Let the agent play until it asks, or to the end; keep what it plays without asking for later."""
        while self.agent.decisions < self.rounds:
            ahead = self.agent.decide(context=self.context)
            if ahead.ask:
                return ahead
            self._later.append(ahead)
        return None


def _check_agent(agent: Agent) -> None:
    """Reject agents that the proposition does not cover."""
    if not isinstance(agent, Agent):
        raise InvalidInput(f"front-loading needs an Agent, not {agent!r}")
    if agent._family.setting == "episodic":
        raise InvalidInput("front-loading is for arms and linear rewards: an episode shows its states, asked or not")
    contexts = getattr(agent.learner, "contexts", 1)
    if contexts > 1:
        raise InvalidInput(f"front-loading is for problems without contexts; the learner has {contexts}")
    if (agent._family.prices != UNIT).any():
        raise InvalidInput("front-loading needs unit costs of asking")
    if agent.schedule is not None and not isinstance(agent.schedule, Fixed):
        raise InvalidInput(f"front-loading needs a fixed budget, a number, not {agent.schedule!r}")
    if agent.decisions > 0:
        raise InvalidInput(f"front-loading needs a fresh agent; this one has made {agent.decisions} decisions")


class Played(NamedTuple):
    """What a policy did: how often it played each arm (A,), in which rounds it asked (T,), its regret."""

    plays: Integers
    asks: Booleans
    regret: float


def play(
    policy: Agent | FrontLoaded, problem: ContextualArms, rounds: int, seed: int | np.random.SeedSequence = 0
) -> Played:
    """Run a policy on arms without contexts; the k-th answer about an arm depends on the seed and k, not on the policy.

    So an agent and its front-loaded version get the same answers, and play each arm equally often.

    >>> from sparingly import UCB1, problems
    >>> problem, agent = problems.Arms([0.2, 0.8]), Agent(UCB1(arms=2), budget=20, seed=1)
    >>> moved = play(FrontLoaded(agent, rounds=100), problem, rounds=100)
    >>> original = play(agent, problem, rounds=100)
    >>> original.plays.tolist() == moved.plays.tolist(), np.flatnonzero(moved.asks).tolist() == list(range(20))
    (True, True)
    """
    T = whole(rounds, "rounds")
    agent = policy.agent if isinstance(policy, FrontLoaded) else policy
    if not isinstance(agent, Agent) or agent._family.setting != "tabular":
        raise InvalidInput(f"play needs an Agent for arms, or one that is front-loaded, not {policy!r}")
    if not isinstance(problem, ContextualArms) or problem.shape[0] != 1:
        raise InvalidInput(f"play needs arms without contexts, not {problem!r}")
    if agent._family.shape != problem.shape:
        raise InvalidInput(f"the agent is made for {agent._family.shape[1]} arms, the problem has {problem.shape[1]}")
    noise = keys(seed_sequence(seed), problem.shape[1])
    plays, asked = (np.zeros(problem.shape[1], dtype=np.int64) for _ in range(2))
    asks = np.zeros(T, dtype=np.bool_)
    for t in range(T):
        decision = policy.decide()
        plays[decision.action] += 1
        asks[t] = decision.ask
        if decision.ask:
            k = int(asked[decision.action])
            asked[decision.action] += 1
            policy.observe(decision.id, problem.draw(0, decision.action, noise[decision.action], k))
    return Played(plays, asks, float(plays @ problem.gaps[0]))
