"""The Agent's side of episodes: `plan` gives a policy (H, S), `decide_episode` takes a path, a ticket is a cell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparingly.episodic import memory
from sparingly.episodic import round as rounds
from sparingly.episodic.learner import EpisodicLearner, episode_costs
from sparingly.episodic.learners import LEARNERS
from sparingly.episodic.memory import OWN, UNKNOWN, Words, open_memory, remember
from sparingly.episodic.ucbvi import UCBVI
from sparingly.episodic.value_iteration import Values
from sparingly.errors import ContractBroken, InvalidInput, NotAwaited, UnknownDecision, UnreadableFile
from sparingly.family import (
    CellFamily,
    Pair,
    PlainLearner,
    as_integers,
    check_rule,
    fill,
    fill_rows,
    is_compiled,
    saved_pace,
    with_given_costs,
)
from sparingly.protocol import EpisodeLearner, Outcome
from sparingly.randomness import keys
from sparingly.validation import indices, number, table

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

COUNTERS = ("decisions", "clock", "open", "acting", "lives")  # of the head, as they are saved


def stand_in(learner: Any) -> EpisodicLearner:
    """For a learner in plain Python: UCBVI of its sizes and costs, by which widths are measured."""
    return UCBVI(learner.states, learner.actions, learner.horizon, costs=learner.costs)


def make_memory(pair: Pair, learner: Any, key: np.uint64, passes: bool = True) -> Words:
    """A fresh memory for a learner and a rule; `passes`: plans may pass over actions that cannot win."""
    words = remember(pair, stand_in(learner) if pair.python_learner else learner, key, passes)
    pair.code(memory.renew_all)(words, pair.own)
    return words


class InEpisodes(CellFamily):
    """What families with episodes do alike: nothing is decided round by round."""

    setting = "episodic"
    by: ClassVar[str]  # how an agent is used in place of `decide`

    def check(self, context: Any) -> Any:
        """Not in episodes."""
        raise InvalidInput(f"this agent {self.by}")

    def decide(self, context: Any) -> Outcome:
        """Not in episodes."""
        raise InvalidInput(f"this agent {self.by}")

    def count_ask(self, context: Any, action: int) -> Any:
        """Not in episodes."""
        raise InvalidInput("asks about the steps of an episode cannot be taken over from a record")

    def take_back(self, ticket: Any) -> None:
        """Not in episodes."""
        raise InvalidInput("asks about the steps of an episode cannot be taken back")

    def visits(self) -> Integers:
        """How often the learner has seen each cell."""
        return self.counted("visits")


class EpisodicFamily(InEpisodes):
    """Episodes, with any learner for them and any rule, compiled or in plain Python."""

    by = "decides whole episodes: policy = agent.plan(), then agent.decide_episode(…)"
    learners = LEARNERS
    views = (
        "asked", "answered", "means", "visits", "widths", "values", "best_guess", "plan", "decide_episode",
        "observe_episode",
    )  # fmt: skip
    fixed = "the {what} of {learner} are fixed, since the plans and bonuses of episodes count them: make a new agent"
    instead: ClassVar[dict[str, str]] = {
        "threshold": "the threshold of an episode differs from cell to cell; `widths` has what is compared",
    }
    state = (*InEpisodes.state, "shape", "policy")
    compiled: ClassVar[dict[str, Any]] = {"_plan": rounds.plan, "_decide": rounds.decide, "_learn": rounds.learn}
    open_memory = staticmethod(open_memory)

    @staticmethod
    def takes(learner: Any) -> bool:
        """Whether a learner is for this setting."""
        return isinstance(learner, EpisodeLearner) or (isinstance(learner, EpisodicLearner) and is_compiled(learner))

    @classmethod
    def check_pair(cls, learner: Any, rule: Any, costs: Any) -> None:
        """Refuse what does not fit together."""
        given = learner.costs if costs is None else costs
        prices = episode_costs(given, learner.horizon, learner.states, learner.actions)
        check_rule(rule, cls.setting, learner, unit_costs=bool(np.isin(prices, (0.0, 1.0)).all()))

    def __init__(self, learner: Any, rule: Any, costs: Any, seeds: np.random.SeedSequence) -> None:
        self.check_pair(learner, rule, costs)
        self.learner, self.rule = with_given_costs(learner, costs), rule
        self.shape = (learner.horizon, learner.states, learner.actions)
        self.policy = np.zeros(self.shape[:2], dtype=np.int64)
        self.bind()
        self.start(make_memory(self.pair, self.learner, keys(seeds, 1)[0]), seeds)

    @property
    def light(self) -> bool:  # type: ignore[override]  # the base has an attribute
        """Whether plain Python is quick enough until the compiler is done: plans look at all cells."""
        return bool(int(np.prod(self.shape)) <= 1_000)

    @property
    def nameable(self) -> dict[str, int | None]:
        """What may have names, and how many there are; None where that may change."""
        return {}

    def warm_up(self) -> None:
        """Load the compiled code, or compile it: play an episode on a copy."""
        if not self.by_steps:
            words, H = self.words.copy(), self.shape[0]
            self._plan(words, self.own, self.policy.copy())
            self._decide(words, self.own, np.zeros((H, 2), dtype=np.int64), np.zeros(H, dtype=np.bool_))
            self._learn(words, self.own, 0, 0.0)

    @property
    def open(self) -> bool:
        """Whether an episode was planned and has not ended."""
        return bool(self.memory.head["open"][0])

    def plan(self) -> Integers:
        """Start an episode, unless one is open: its policy (H, S)."""
        if self.plain is None:
            if self.pair.exploits and self.pair.python_rule and not self.open:
                self.whole_or_not_at_all(self._look_around)
            self._plan(self.words, self.own, self.policy)
        elif not self.open:
            self.whole_or_not_at_all(self._plan_in_python, self.plain)
        return self.policy.copy()

    def _look_around(self) -> None:
        """Ask a rule in plain Python about every cell, if the budget has changed since the last time."""
        m, logs = self.memory, memory.log_now(self.memory)
        granted, asks = float(m.account["granted"][0]), m.open == 1
        for cell in np.flatnonzero((m.open == UNKNOWN) | (m.head["signal"][0] != granted)).tolist():
            asks[cell] = bool(self.asks(memory.question_now(m, cell, logs)))
        m.head["signal"] = granted
        self.pair.code(memory.set_open)(self.words, self.own, asks)

    def _plan_in_python(self, plain: PlainLearner) -> None:
        """A learner in plain Python plans; Greedy, without the budget for a whole episode, with a past state of it."""
        lives = rounds.step_begin(self.words)
        state, episode = (plain.state, int(self.memory.head["clock"][0]) + 1) if lives else plain.draw()
        policy = np.asarray(plain.learner.plan(state, episode, plain.random))
        if policy.shape != self.shape[:2] or not np.isin(policy, np.arange(self.shape[2])).all():
            raise ContractBroken(
                f"{type(self.learner).__name__}.plan must return a policy {self.shape[:2]} of actions in "
                f"0 … {self.shape[2] - 1}, not {policy!r}"
            )
        self.policy[...] = policy
        self.memory.values.policy[...] = policy
        self.memory.head["acting"] = OWN
        if self.pair.slots > 0 and lives:
            self.memory.reservoir.seen[0] += 1
            plain.keep(episode, int(self.memory.reservoir.seen[0]))

    def check_path(self, states: Any, actions: Any) -> Integers:
        """States and actions (H,) each, as one array (H, 2)."""
        H, S, A = self.shape
        return np.stack([indices(states, "states", (H,), S - 1), indices(actions, "actions", (H,), A - 1)], axis=1)

    def check_rewards(self, rewards: Any) -> Floats:
        """One for each step, (H,)."""
        values: Floats = table(rewards, "rewards", f"({self.shape[0]},)")
        if values.shape != (self.shape[0],):
            raise InvalidInput(f"rewards must have shape ({self.shape[0]},), one for each step, not {values.shape}")
        return values

    def decide_episode(self, path: Integers) -> tuple[NDArray[np.bool_], Integers]:
        """The steps to ask about, and the cell of each step."""
        H, S, A = self.shape
        grown = memory.grow(self.words)
        if grown is not self.words:
            self.words = grown
            self.attach()
        asks, cells = np.zeros(H, dtype=np.bool_), (np.arange(H) * S + path[:, 0]) * A + path[:, 1]
        if self.by_steps:
            self.whole_or_not_at_all(self._decide_by_steps, path, asks, cells)
        else:
            self._decide(self.words, self.own, path, asks)
        return asks, cells

    def _decide_by_steps(self, path: Integers, asks: NDArray[np.bool_], cells: Integers) -> None:
        """Question, asks, settle for each step."""
        if self.memory.head["lives"][0]:
            logs = memory.log_now(self.memory)
            for h, cell in enumerate(cells.tolist()):
                wanted = bool(self.asks(memory.question_now(self.memory, cell, logs)))
                asks[h] = rounds.step_settle(self.words, cell, wanted)
            if self.plain is not None:
                self.plain.learner.visit(self.plain.state, path[:, 0].copy(), path[:, 1].copy())
        self.pair.code(rounds.step_conclude)(self.words, self.own, path, asks)

    def learn(self, ticket: int, reward: float) -> None:
        """Take in one answer."""
        if self.plain is not None:
            step, state, action = (int(i) for i in np.unravel_index(ticket, self.shape))
            self.plain.learner.learn(self.plain.state, step, state, action, reward)
        self._learn(self.words, self.own, ticket, reward)

    def check_reward(self, reward: object) -> float:
        """A number in [0, 1]."""
        return number(reward, "a reward (rescaled to [0, 1])", least=0.0, most=1.0)

    def check_id(self, id: Any) -> InvalidInput:
        """The error for an id that nothing is awaited for."""
        pair = isinstance(id, tuple) and len(id) == 2 and all(isinstance(part, int | np.integer) for part in id)
        if not pair or not 1 <= id[0] <= self.made[0]:
            return UnknownDecision(f"no step has the id {id!r}; ids are (episode, step), episodes 1 … {self.made[0]}")
        return NotAwaited(f"step {id[1]} of episode {id[0]} awaits no feedback: it was answered, or never asked for")

    # What an Agent can be asked about, (H, S, A) unless said otherwise.

    def means(self) -> Floats:
        """The mean answer of each cell; NaN where there is none."""
        return np.where(self.answered() > 0, self.memory.model.rows["average"].reshape(self.shape), np.nan)

    def widths(self) -> Floats:
        """CI^R of each cell: how wide the interval of its expected reward is."""
        result = np.empty(self.memory.counts.size)
        self.pair.shared(rounds.write_widths)(self.words, result)
        return result.reshape(self.shape)

    def values(self) -> tuple[Floats, Floats]:
        """V of the latest plan from above and from below, (H, S) each."""
        H, S, _ = self.shape
        seen, found = (self.visits() > 0).any(axis=2), self.memory.values
        most = np.broadcast_to(np.arange(H, 0, -1.0)[:, np.newaxis], (H, S))
        return np.where(seen, found.upper[:H], most), np.where(seen, found.lower[:H], 0.0)

    def best_guess(self) -> Integers:
        """The policy (H, S) that would be best if the estimates were true."""
        H, S, _ = self.shape
        values = Values(np.zeros((H + 1, S)), np.zeros((H + 1, 1)), np.zeros((H, S), dtype=np.int64))
        self.pair.shared(rounds.guess)(self.words.copy(), values)
        return values.policy

    # Saving.

    def transitions(self) -> NDArray[np.float64]:
        """All that was seen, (rows, 3): cell, next state, times; in the order in which a cell met them."""
        model, states = self.memory.model, self.shape[1]
        triples = []
        for cell in np.flatnonzero(model.rows["successors"]):
            start, count = model.rows["start"][cell], model.rows["successors"][cell]
            dense = count == states
            after = np.arange(states) if dense else model.next[start : start + 2 * count : 2]
            times = model.weight[start : start + count] if dense else model.weight[start + 1 : start + 2 * count : 2]
            seen = times > 0.0
            triples.append(np.stack([np.full(seen.sum(), cell), after[seen], times[seen]], axis=1))
        return np.concatenate([np.zeros((0, 3)), *triples])

    def parts(self) -> dict[str, Any]:
        """All that is remembered, by name."""
        m, (H, S, _) = self.memory, self.shape
        named = {
            "account": m.account.view(np.int64),
            "random": m.random,
            "counts": as_integers(m.counts),
            "squares": m.squares,
            "means": m.model.rows["average"],
            "transitions": self.transitions(),
            "upper": m.values.upper,
            "lower": m.values.lower,
            "policy": m.values.policy,
            "past": m.reservoir.policies.reshape(m.reservoir.since.size * H, S),
            "past_from": m.reservoir.since,
            "counters": np.array([m.reservoir.seen[0], *(m.head[name][0] for name in COUNTERS)]),
        }
        named |= saved_pace(self.pair, m.pace)
        if self.pair.exploits:
            named |= {"open": m.open, "signal": m.head["signal"]}
        return named if self.python is None else named | {"custom": self.python.snapshot()}

    def restore(self, parts: dict[str, Any]) -> None:
        """Put everything back."""
        m, prices, (H, S, _) = self.memory, self.memory.counts["cost"].copy(), self.shape
        self.restore_common(parts)
        fill(as_integers(m.counts), parts["counts"])
        fill(m.squares, parts["squares"])
        for name in ("upper", "lower", "policy"):
            fill(getattr(m.values, name), parts[name])
        fill(m.model.rows["average"], parts["means"])
        fill_rows(m.reservoir.policies, parts["past"], m.reservoir.since.size * H, S)
        fill(m.reservoir.since, parts["past_from"])
        m.reservoir.seen[0] = parts["counters"][0]
        for name, value in zip(COUNTERS, parts["counters"][1:], strict=True):
            m.head[name] = value
        if (m.counts["cost"] != prices).any():
            raise UnreadableFile("the costs of asking are not the learner's")
        if self.pair.exploits:
            fill(m.open, parts["open"])
            m.head["signal"] = parts["signal"]
        self._check_ranges()
        self._restore_transitions(np.asarray(parts["transitions"]))
        self.pair.shared(memory.list_states)(self.words)
        self.attach()
        self.pair.code(memory.renew_all)(self.words, self.own)
        if self.python is not None:
            self.python.restore(parts["custom"])

    def _restore_transitions(self, rows: Any) -> None:
        """Put back what was counted, if it fits the visits: every step but the last has led somewhere."""
        (H, S, A), visits = self.shape, self.memory.counts["visits"]
        cells = H * S * A
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
            self.words = memory.grow(self.words)
            self.pair.shared(memory.restore_transition)(self.words, int(cell), int(after), times)

    def _check_ranges(self) -> None:
        """Whatever a file says, compiled code must not reach outside of its arrays, nor compute nonsense."""
        m, (H, _, A), counts = self.memory, self.shape, self.memory.counts
        head = SimpleNamespace(**{name: int(m.head[name][0]) for name in COUNTERS})
        asked, answered, visits = counts["asked"], counts["answered"], counts["visits"]
        means, upper, lower, seen = m.model.rows["average"], m.values.upper, m.values.lower, int(m.reservoir.seen[0])
        fine = [
            (answered >= 0).all() and (answered <= asked).all() and (asked <= visits).all(),
            (visits.reshape(H, -1).sum(axis=1) == head.clock).all(),
            all(((part >= 0) & (part < A)).all() for part in (m.values.policy, m.reservoir.policies)),
            ((m.reservoir.since >= 0) & (m.reservoir.since <= seen)).all(),
            0 <= seen <= head.clock + head.open and 0 <= head.clock <= head.decisions < 2**53,
            head.open in (0, 1) and head.lives in (0, 1),
            OWN <= head.acting < m.reservoir.since.size,
            ((means >= 0.0) & (means <= 1.0)).all(),
            (np.isfinite(m.squares) & (m.squares >= 0.0)).all(),
            ((upper >= 0.0) & (upper <= H) & (lower >= 0.0) & (lower <= H)).all(),
            not upper[H].any() and not lower[H].any(),
            (m.account.view(np.int64) >= 0).all(),
        ]
        if not all(fine):
            raise UnreadableFile("a number is out of its range")

    def check_sums(self, tickets: list[Any] | None) -> None:
        """Refuse counts and a ledger that do not add up with what is awaited."""
        if tickets is None:
            raise UnreadableFile("what is awaited of episodes cannot be kept elsewhere")
        counts = self.memory.counts
        for cell in tickets:
            if not 0 <= cell < counts.size:
                raise UnreadableFile(f"an answer is awaited for cell {cell}, which does not exist")
        if (counts["asked"] > counts["visits"]).any():
            raise UnreadableFile("visits, asks, answers and awaited decisions do not add up")
        self.check_counts(tickets, self.memory.counts["cost"])
