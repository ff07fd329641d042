"""The mind of an agent for arms and contextual arms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from sparingly.checks import number
from sparingly.errors import InvalidInput, UnreadableFile
from sparingly.families import arms
from sparingly.families.custom import CustomRound
from sparingly.learners.base import CUSTOM_CODE, TabularLearner, full_costs
from sparingly.learners.base import built_in as our_learner
from sparingly.ledger import GRANTED, SPENT, UNLIMITED, Account
from sparingly.minds.base import Outcome, fill, refuse_for_episodes_only
from sparingly.protocol import Learner, QueryRule
from sparingly.randomness import keys
from sparingly.rules import CUSTOM, Rule
from sparingly.rules import built_in as our_rule


class ArmsMind:
    """Arms and contextual arms: contexts are whole numbers, a ticket is (context, action)."""

    def __init__(
        self, learner: TabularLearner | Learner, rule: Rule | QueryRule, costs: Any, seeds: np.random.SeedSequence
    ) -> None:
        refuse_for_episodes_only(rule)
        codes = (
            learner.code if our_learner(learner) else CUSTOM_CODE,
            rule.code if our_rule(rule) else CUSTOM,
        )
        self.shape = (learner.contexts, learner.arms)
        cost = full_costs(learner.costs if costs is None else costs, *self.shape)
        self.words = arms.remember(learner, rule, cost, codes, keys(seeds, 1)[0])
        arms.decide(self.words.copy(), 0)  # loads the compiled code, or compiles it, while the notice is up
        own = codes[0] == CUSTOM_CODE or codes[1] == CUSTOM
        self.custom = CustomRound(self.words, learner, rule, seeds) if own else None
        self.attach()

    def attach(self) -> None:
        """Name the parts of the memory (again, after a copy)."""
        self.memory = arms.open_memory(self.words)
        self.account: Account = self.memory.account
        if self.custom is not None:
            self.custom.attach(self.words)

    @property
    def decisions(self) -> int:
        return int(self.words[arms.DECISIONS])

    def check(self, context: Any) -> int:
        """A whole number in range; may be left out if there is only one."""
        contexts = self.shape[0]
        if context is None and contexts == 1:
            return 0
        if isinstance(context, int | np.integer) and not isinstance(context, bool) and 0 <= context < contexts:
            return int(context)
        raise InvalidInput(f"context must be a whole number in 0 … {contexts - 1}, not {context!r}")

    def decide(self, context: int) -> Outcome:
        u = context
        if self.custom is None:
            action, ask, width, threshold = arms.decide(self.words, u)
        else:
            action, ask, width, threshold = self.custom.decide(u)
        return action, ask, width, threshold, (u, action)

    def count_ask(self, context: int, action: int) -> tuple[int, int]:
        """Count an ask that was decided elsewhere; its ticket."""
        arms.count_ask(self.words, context, action)
        return context, action

    def take_back(self, ticket: tuple[int, int]) -> None:
        """Undo an ask that nobody has seen."""
        arms.take_back(self.words, *ticket)

    def learn(self, ticket: tuple[int, int], reward: float) -> None:
        if self.custom is None:
            arms.learn(self.words, *ticket, reward)
        else:
            self.custom.learn(*ticket, reward)

    def threshold(self) -> float:
        """The width at which the next decision will not be asked about; NaN for a rule of one's own."""
        return float(arms.threshold_now(self.words)) if self.custom is None else math.nan

    def check_reward(self, reward: object) -> float:
        if type(reward) is float and 0.0 <= reward <= 1.0:
            return reward
        return number(reward, "a reward (rescaled to [0, 1])", least=0.0, most=1.0)

    def parts(self) -> dict[str, Any]:
        m = self.memory
        return {
            "account": m.account,
            "random": m.random,
            "clock": m.clock,
            "counts": m.counts,
            "total": m.values[:, arms.TOTAL],
            "past": m.past,
            "past_level": m.past_level,
            "counters": m.head[[arms.POLICIES, arms.DECISIONS]],
            "custom": None if self.custom is None else self.custom.snapshot(),
        }

    def restore(self, parts: dict[str, Any]) -> None:
        m = self.memory
        for name in ("account", "random", "clock", "counts", "past", "past_level"):
            fill(getattr(m, name), parts[name])
        fill(m.values[:, arms.TOTAL], parts["total"])
        m.head[[arms.POLICIES, arms.DECISIONS]] = parts["counters"]
        m.head[arms.TOTAL_COST] = m.counts[:, arms.COST].sum()
        arms.refresh_all(self.words)
        if self.custom is not None:
            self.custom.restore(parts["custom"])

    def check_sums(self, tickets: list[Any]) -> None:
        cost, asked, answered = self.memory.counts.T
        awaited = np.zeros_like(asked)
        for u, a in tickets:
            if not (0 <= u < self.shape[0] and 0 <= a < self.shape[1]):
                raise UnreadableFile(f"an answer is awaited for cell ({u}, {a}), which does not exist")
            awaited[u * self.shape[1] + a] += 1
        if not (asked == answered + awaited).all():
            raise UnreadableFile("asks, answers and awaited decisions do not add up")
        paid = sum(int(c) * int(n) for c, n in zip(cost, asked, strict=True))
        if min(paid, UNLIMITED) > self.account[SPENT] or self.account[SPENT] > self.account[GRANTED]:
            raise UnreadableFile("the ledger does not add up")
