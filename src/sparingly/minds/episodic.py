"""The mind of an agent for episodes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sparingly.checks import indices, number
from sparingly.errors import InvalidInput, UnreadableFile
from sparingly.families import episodic, episodic_memory
from sparingly.families.episodic_memory import ACTING, CLOCK, DECISIONS, LIVES, OPEN, POLICIES
from sparingly.induction import COUNT, MEAN, START
from sparingly.learners.episodic import EpisodicLearner
from sparingly.ledger import GRANTED, SPENT, UNLIMITED, Account
from sparingly.minds.base import Outcome, fill
from sparingly.protocol import QueryRule
from sparingly.randomness import keys
from sparingly.rules import PAPER, Rule
from sparingly.rules import built_in as our_rule

COUNTERS = [POLICIES, DECISIONS, CLOCK, OPEN, ACTING, LIVES]


class EpisodicMind:
    """Episodes: `plan` gives a policy (H, S), `decide` takes a trajectory (H, 2), a ticket is the number of a cell."""

    def __init__(
        self, learner: EpisodicLearner, rule: Rule | QueryRule, costs: Any, seeds: np.random.SeedSequence
    ) -> None:
        if not our_rule(rule):
            raise InvalidInput(f"{type(learner).__name__} works with the rules of this library only, not with {rule!r}")
        if costs is not None:
            learner = dataclasses.replace(learner, costs=costs)
        if rule.code == PAPER and learner.costs is not None and not np.isin(learner.costs, (0.0, 1.0)).all():
            raise InvalidInput("with episodes PaperMatching is for costs of 1 (or 0) only; use ExactMatching()")
        self.learner = learner
        self.words = episodic_memory.remember(learner, rule, keys(seeds, 1)[0])
        self.policy = np.zeros((learner.horizon, learner.states), dtype=np.int64)
        self._load_code()
        self.attach()

    def _load_code(self) -> None:
        """Load the compiled code, or compile it, while the notice is up."""
        copy = self.words.copy()
        episodic.plan(copy, self.policy.copy())
        episodic.decide(copy, np.zeros((self.learner.horizon, 2), dtype=np.int64), np.zeros(self.learner.horizon, bool))

    def attach(self) -> None:
        """Name the parts of the memory (again, after a copy or when it has grown)."""
        self.memory = episodic_memory.open_memory(self.words)
        self.account: Account = self.memory.account

    @property
    def decisions(self) -> int:
        return int(self.words[DECISIONS])

    @property
    def open(self) -> bool:
        """Whether an episode was planned and has not ended."""
        return bool(self.words[OPEN])

    def plan(self) -> NDArray[np.int64]:
        episodic.plan(self.words, self.policy)
        return self.policy.copy()

    def check(self, context: Any) -> NDArray[np.int64]:
        """States and actions (H,) each, as one array (H, 2)."""
        (states, actions), (H, S, A) = context, self.learner.shape
        return np.stack([indices(states, "states", (H,), S - 1), indices(actions, "actions", (H,), A - 1)], axis=1)

    def decide_episode(self, path: NDArray[np.int64]) -> tuple[NDArray[np.bool_], NDArray[np.int64]]:
        """The steps to ask about, and the cell of each step."""
        _, S, A = self.learner.shape
        grown = episodic_memory.grow(self.words)
        if grown is not self.words:
            self.words = grown
            self.attach()
        asks = np.zeros(self.learner.horizon, dtype=np.bool_)
        episodic.decide(self.words, path, asks)
        return asks, (np.arange(self.learner.horizon) * S + path[:, 0]) * A + path[:, 1]

    def decide(self, context: Any) -> Outcome:
        raise InvalidInput("an episodic agent decides whole episodes: policy = agent.plan(), then decide_episode(…)")

    def count_ask(self, context: Any, action: int) -> Any:
        raise InvalidInput("asks about the steps of an episode cannot be taken over from a record")

    def take_back(self, ticket: Any) -> None:
        raise InvalidInput("asks about the steps of an episode cannot be taken back")

    def learn(self, ticket: int, reward: float) -> None:
        episodic.learn(self.words, ticket, reward)

    def check_reward(self, reward: object) -> float:
        return number(reward, "a reward (rescaled to [0, 1])", least=0.0, most=1.0)

    def transitions(self) -> NDArray[np.float64]:
        """All that was seen, (rows, 3): cell, next state, times; in the order in which a cell met them."""
        model, states = self.memory.model, self.learner.states
        triples = []
        for cell in np.flatnonzero(model.where[:, COUNT]):
            start, count = model.where[cell, [START, COUNT]]
            dense = count == states
            after = np.arange(states) if dense else model.next[start : start + 2 * count : 2]
            times = model.weight[start : start + count] if dense else model.weight[start + 1 : start + 2 * count : 2]
            seen = times > 0.0
            triples.append(np.stack([np.full(seen.sum(), cell), after[seen], times[seen]], axis=1))
        return np.concatenate([np.zeros((0, 3)), *triples])

    def parts(self) -> dict[str, Any]:
        m = self.memory
        return {
            "account": m.account,
            "random": m.random,
            "counts": m.counts,
            "notes": m.notes,
            "means": m.model.numbers[:, MEAN],
            "transitions": self.transitions(),
            "upper": m.values.upper,
            "lower": m.values.lower,
            "policy": m.values.policy,
            "past": m.past,
            "past_from": m.past_from,
            "counters": m.head[COUNTERS],
        }

    def restore(self, parts: dict[str, Any]) -> None:
        m, prices = self.memory, self.memory.counts[:, episodic_memory.COST].copy()
        for name in ("account", "random", "counts", "notes", "past", "past_from"):
            fill(getattr(m, name), parts[name])
        for name in ("upper", "lower", "policy"):
            fill(getattr(m.values, name), parts[name])
        fill(m.model.numbers[:, MEAN], parts["means"])
        m.head[COUNTERS] = parts["counters"]
        if (m.counts[:, episodic_memory.COST] != prices).any():
            raise UnreadableFile("the costs of asking are not the learner's")
        self._check_ranges()
        self._restore_transitions(np.asarray(parts["transitions"]))
        episodic_memory.list_states(self.words)
        self.attach()
        episodic_memory.refresh_all(self.words)

    def _restore_transitions(self, rows: Any) -> None:
        """Put back what was counted, if it fits the visits: every step but the last has led somewhere."""
        (H, S, A), visits = self.learner.shape, self.memory.counts[:, episodic_memory.VISITS]
        cells = self.learner.cells
        if rows.dtype != np.float64 or rows.shape[1:] != (3,) or not (rows == np.rint(rows)).all():
            raise UnreadableFile("transitions are not three whole numbers each")
        if rows.size and ((rows < [0, 0, 1]).any() or (rows[:, :2] >= [cells, S]).any()):
            raise UnreadableFile("a transition leads from or to a state that does not exist")
        if len(np.unique(rows[:, 0] * S + rows[:, 1])) < len(rows):
            raise UnreadableFile("a transition is listed twice")
        left = np.bincount(rows[:, 0].astype(np.int64), weights=rows[:, 2], minlength=cells)
        if (left != np.where(np.arange(cells) < (H - 1) * S * A, visits, 0)).any():
            raise UnreadableFile("transitions and visits do not add up")
        for cell, after, times in rows:
            self.words = episodic_memory.grow(self.words)
            episodic_memory.restore_transition(self.words, int(cell), int(after), times)

    def _check_ranges(self) -> None:
        """Whatever a file says, compiled code must not reach outside of its arrays, nor compute nonsense."""
        m, (H, _, A) = self.memory, self.learner.shape
        _, asked, answered, visits = m.counts.T
        policies, decisions, clock, is_open, acting, lives = (int(n) for n in m.head[COUNTERS])
        means, upper, lower = m.model.numbers[:, MEAN], m.values.upper, m.values.lower
        fine = [
            (answered >= 0).all() and (answered <= asked).all() and (asked <= visits).all(),
            (visits.reshape(H, -1).sum(axis=1) == clock).all(),
            all(((part >= 0) & (part < A)).all() for part in (m.values.policy, m.past)),
            ((m.past_from >= 0) & (m.past_from <= policies)).all(),
            0 <= policies <= clock + is_open and 0 <= clock <= decisions < 2**53,
            is_open in (0, 1) and lives in (0, 1),
            episodic_memory.OWN <= acting < int(m.head[episodic_memory.SLOTS]),
            ((means >= 0.0) & (means <= 1.0)).all(),
            (np.isfinite(m.notes) & (m.notes >= 0.0)).all(),
            ((upper >= 0.0) & (upper <= H) & (lower >= 0.0) & (lower <= H)).all(),
            not upper[H].any() and not lower[H].any(),
            (m.account >= 0).all(),
        ]
        if not all(fine):
            raise UnreadableFile("a number is out of its range")

    def check_sums(self, tickets: list[Any]) -> None:
        cost, asked, answered, visits = self.memory.counts.T
        awaited = np.zeros_like(asked)
        for cell in tickets:
            if not 0 <= cell < self.learner.cells:
                raise UnreadableFile(f"an answer is awaited for cell {cell}, which does not exist")
            awaited[cell] += 1
        if not (asked == answered + awaited).all() or (asked > visits).any():
            raise UnreadableFile("visits, asks, answers and awaited decisions do not add up")
        paid = sum(int(c) * int(n) for c, n in zip(cost, asked, strict=True))
        if min(paid, UNLIMITED) > self.account[SPENT] or self.account[SPENT] > self.account[GRANTED]:
            raise UnreadableFile("the ledger does not add up")
