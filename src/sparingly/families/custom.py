"""One round with arms when the learner or the rule is the user's own, written in plain Python.

The ledger, the counts and whatever is not the user's own are those of arms.py; only the order of events, which
is that of `arms.play_round`, is spelled out again here, because compiled code cannot call plain Python.
"""

from __future__ import annotations

import copy
import math
from typing import Any, cast

import numpy as np

from sparingly.errors import ContractBroken
from sparingly.families.arms import (
    ANSWERABLE,
    ARMS,
    ASKED,
    COST,
    DECISIONS,
    LEARNER,
    POLICIES,
    RULE,
    TOTAL_COST,
    UNASKED,
    Memory,
    Words,
    consistent,
    learn,
    limit_now,
    live,
    next_action,
    open_memory,
    settle_cell,
)  # fmt: skip
from sparingly.learners.base import CUSTOM_CODE, TabularLearner
from sparingly.ledger import GRANTED, SPENT, can_pay, in_amounts
from sparingly.protocol import Learner, QueryRule, Question, State
from sparingly.rules import CUSTOM, GREEDY, threshold, wants, width


class CustomRound:
    """Plays rounds on a memory with a learner and a rule of which at least one is not built in."""

    def __init__(
        self, words: Words, learner: Learner | TabularLearner, rule: QueryRule, seeds: np.random.SeedSequence
    ) -> None:
        self.attach(words)
        self.rule = rule
        self.learner = cast(Any, learner)  # of the user, or one of ours: only the former has start, choose and learn
        self.random = np.random.Generator(np.random.PCG64(seeds))
        self.own_learner = int(words[LEARNER]) == CUSTOM_CODE
        self.own_rule = int(words[RULE]) == CUSTOM
        self.greedy = int(words[RULE]) == GREEDY
        self.state: State = self.learner.start() if self.own_learner else {}
        self.past: list[tuple[State, int]] = []  # Greedy's reservoir: a state and the clock at its time

    def attach(self, words: Words) -> None:
        """Work on this memory (again, after a copy)."""
        self.words = words
        self.memory: Memory = open_memory(words)

    def decide(self, u: int) -> tuple[int, bool, float, float]:
        """As `arms.decide`: (action, ask, width, threshold). If the user's code fails, nothing has happened."""
        before, dice = self.words.copy(), self.random.bit_generator.state
        try:
            return self._decide(u)
        except BaseException:
            self.words[:] = before
            self.random.bit_generator.state = dice
            raise

    def _decide(self, u: int) -> tuple[int, bool, float, float]:
        m = self.memory
        t = int(m.clock[0]) + 1
        a = self._action(self.state, u, t)
        cell = u * int(m.head[ARMS]) + a
        if self.greedy:
            wanted = bool(can_pay(m.account, m.counts[cell, COST]))
        else:
            wanted = self._wants(cell, t)
        m.head[DECISIONS] += 1
        bar = threshold(limit_now(self.words), t, m.counts.shape[0]) if not self.own_rule else math.nan
        if self.greedy and not wanted:  # the learner does not live through this round
            a, ending = self._past_action(u), UNASKED
            cell = u * int(m.head[ARMS]) + a
        else:
            live(self.words, u)
            if self.greedy:
                self._keep_policy()
            ending = settle_cell(self.words, cell, wanted)
        ask = ending == ANSWERABLE
        asked_before = int(m.counts[cell, ASKED]) - ask
        span = width(asked_before, max(int(m.clock[0]), 1), m.counts.shape[0])
        return a, ask, span, bar if self.own_rule else consistent(bar, span, ending)

    def learn(self, u: int, a: int, reward: float) -> None:
        """As `arms.learn`."""
        if self.own_learner:
            self.learner.learn(self.state, u, a, reward)
        learn(self.words, u, a, reward)

    def _action(self, state: State, u: int, t: int) -> int:
        m = self.memory
        if not self.own_learner:
            return int(next_action(self.words, u))
        a = self.learner.choose(state, u, t, self.random)
        if isinstance(a, bool) or not isinstance(a, int | np.integer) or not 0 <= a < m.head[ARMS]:
            raise ContractBroken(
                f"{type(self.learner).__name__}.choose must return an arm in 0 … {m.head[ARMS] - 1}, not {a!r}"
            )
        return int(a)

    def _wants(self, cell: int, t: int) -> bool:
        m = self.memory
        asked, cost = int(m.counts[cell, ASKED]), int(m.counts[cell, COST])
        if not self.own_rule:
            return bool(wants(m.head[RULE], asked, limit_now(self.words), cost))
        question = Question(
            round=t,
            asked=asked,
            width=width(asked, t, m.counts.shape[0]),
            cost=in_amounts(cost),
            total_cost=in_amounts(int(m.head[TOTAL_COST])),
            budget=in_amounts(m.account[GRANTED]),
            spent=in_amounts(m.account[SPENT]),
            cells=m.counts.shape[0],
        )
        return bool(self.rule.asks(question))

    def _keep_policy(self) -> None:
        """Algorithm 1, lines 7 and 11, with whole states in the reservoir."""
        m = self.memory
        m.head[POLICIES] += 1
        slots = getattr(self.rule, "policies", 1)
        kept = (copy.deepcopy(self.state), int(m.clock[0]))
        for slot in range(slots):
            if len(self.past) <= slot:
                self.past.append(kept)
            elif self.random.random() * int(m.head[POLICIES]) < 1.0:
                self.past[slot] = kept

    def _past_action(self, u: int) -> int:
        if not self.past:
            return self._action(self.state, u, 1)
        state, t = self.past[int(self.random.random() * len(self.past)) if len(self.past) > 1 else 0]
        return self._action(state, u, t)

    def snapshot(self) -> dict[str, Any]:
        """What a saved agent must remember beyond the memory."""
        return {"state": self.state, "past": [[s, t] for s, t in self.past], "random": self.random.bit_generator.state}

    def restore(self, snapshot: dict[str, Any]) -> None:
        """The inverse of `snapshot`."""
        self.state = snapshot["state"]
        self.past = [(s, int(t)) for s, t in snapshot["past"]]
        self.random.bit_generator.state = snapshot["random"]
