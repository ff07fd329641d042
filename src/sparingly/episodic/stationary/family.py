"""The Agent's side of one model for all steps: `act` in a state, then `reached`; a ticket is an edge."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sparingly.episodic.family import InEpisodes
from sparingly.episodic.stationary import memory
from sparingly.episodic.stationary import round as rounds
from sparingly.episodic.stationary.learner import StationaryUCBVI, cell_costs
from sparingly.episodic.stationary.memory import (
    LEARNERS,
    NONE,
    grown,
    laid_out,
    open_memory,
    remember,
    with_stages,
)
from sparingly.episodic.stationary.pooling import pool
from sparingly.errors import InvalidInput, NotAwaited, UnknownDecision, UnreadableFile
from sparingly.family import (
    as_integers,
    check_rule,
    check_spending,
    fill,
    saved_pace,
    with_given_costs,
)
from sparingly.interpreter import as_python
from sparingly.protocol import Outcome
from sparingly.randomness import keys
from sparingly.reasons import ASKED, SETTLED
from sparingly.rules.intervals import reward_width
from sparingly.validation import number, whole

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

LISTS = ("lanes", "places", "cells", "edges")  # parts of the memory that are saved as tables of whole numbers
COUNTERS = (
    "seen_cost", "decisions", "episodes", "plans", "stale", "settled", "twice", "differ", "enough", "places", "edges",
    "waiting", "look_at",
)  # fmt: skip
MOST_TO_GUESS = 5 * 10**6  # values of states and steps that a best guess is planned for
BY = "acts step by step: action = agent.act(state), then step = agent.reached(next_state)"


class StationaryFamily(InEpisodes):
    """One model for all steps, with any rule that decides step by step."""

    by = BY
    learners = LEARNERS
    views = ("asked", "answered", "means", "visits", "widths", "values", "best_guess", "act", "reached")
    instead: ClassVar[dict[str, str]] = {
        "threshold": "the threshold of an episode differs from cell to cell; `widths` has what is compared",
        **dict.fromkeys(("plan", "decide_episode", "observe_episode"), f"this agent {BY}"),
    }
    state = (*InEpisodes.state, "shape")
    compiled: ClassVar[dict[str, Any]] = {"_act": rounds.act, "_reached": rounds.reached, "_learn": rounds.learn}
    open_memory = staticmethod(open_memory)
    fixed = "the {what} of {learner} are fixed, since plans and bonuses count them: make a new agent"
    rescales = False  # the end of an episode is worth 0, wherever that lies in the range of rewards
    nameable: ClassVar[dict[str, int | None]] = {}
    _act: Any
    _reached: Any

    @staticmethod
    def takes(learner: Any) -> bool:
        """Whether a learner is for this setting."""
        return isinstance(learner, StationaryUCBVI)

    @classmethod
    def check_pair(cls, learner: Any, rule: Any, costs: Any) -> None:
        """Refuse what does not fit together."""
        given = learner.costs if costs is None else costs
        prices = np.ones(1) if given is None else cell_costs(given, learner.states, learner.actions)
        if getattr(rule, "reduction", False):
            raise InvalidInput(
                f"{type(rule).__name__} asks about whole episodes or not at all, {type(learner).__name__} about each "
                "step; use BalancedMatching() or ExactMatching()"
            )
        check_rule(rule, cls.setting, learner, unit_costs=bool(np.isin(prices, (0.0, 1.0)).all()))

    def __init__(self, learner: Any, rule: Any, costs: Any, seeds: np.random.SeedSequence) -> None:
        self.check_pair(learner, rule, costs)
        self.learner, self.rule = with_given_costs(learner, costs), rule
        self.shape = (learner.states, learner.actions)
        self.bind()
        self.start(remember(self.pair, self.learner, keys(seeds, 1)[0]), seeds)

    @property
    def light(self) -> bool:  # type: ignore[override]  # the base has an attribute
        """Whether plain Python is quick enough until the compiler is done: plans look at all cells."""
        return bool(self.learner.cells * self.learner.stages <= 1_000)

    def warm_up(self) -> None:
        """Load the compiled code, or compile it: make a step on a copy."""
        if not self.by_steps:
            words = self.words.copy()
            self._act(words, self.own, 0, 0)
            self._learn(words, self.own, self._reached(words, self.own, 0, 0, 0, np.zeros(1, dtype=np.bool_)), 0.0)

    def _room(self, lanes: int = 0) -> None:
        """Give the memory more room."""
        self.words = grown(self.words, lanes)
        self.attach()

    def _lane(self, env: Any) -> int:
        """The number of an environment; there is a lane for each from now on."""
        lane = whole(env, "env, the number of an environment,", least=0, most=10**6)
        if lane >= self.memory.lanes.size:
            self._room(max(lane + 1, 2 * self.memory.lanes.size))
        return lane

    def check_state(self, state: Any) -> int:
        """A state, or an error that says what it must be."""
        return whole(state, "a state", least=0, most=self.shape[0] - 1)

    def act(self, state: Any, env: Any = 0) -> int:
        """The action in a state."""
        s, lane = self.check_state(state), self._lane(env)
        action = self._act(self.words, self.own, s, lane)
        if action == rounds.NO_ROOM:
            self._room()
            action = self._act(self.words, self.own, s, lane)
        if action == rounds.ELSEWHERE:
            m = self.memory
            there = int(m.places[int(m.lanes[lane].place)].state)
            what = "was told to act in" if m.lanes[lane].action != NONE else "has reached"
            raise InvalidInput(
                f"environment {lane} {what} state {there}, so it cannot be in state {s}; say what came of its last "
                "step with agent.reached(state, terminated=… or truncated=…) before a new episode begins"
            )
        return int(action)

    def reached(self, state: Any, terminated: bool, truncated: bool, env: Any = 0) -> Outcome:
        """Take in what a step has led to: its action, whether to ask, width, threshold, why, ticket."""
        s, lane, m = self.check_state(state), self._lane(env), self.memory
        for name, given in (("terminated", terminated), ("truncated", truncated)):
            if not isinstance(given, bool | np.bool_):
                raise InvalidInput(f"{name} must be True or False, not {given!r}")
        if m.lanes[lane].action == NONE:
            raise InvalidInput(f"environment {lane} has made no step: call agent.act(state) first")
        ended = rounds.TERMINATED if terminated else rounds.TRUNCATED if truncated else rounds.GOES_ON
        if m.head[0].places + 2 > m.head[0].room or m.head[0].edges + 1 > m.head[0].pool:
            self._room()
        action = int(self.memory.lanes[lane].action)
        if self.pair.python_rule:
            edge, ask = self.whole_or_not_at_all(self._reached_in_python, s, ended, lane)
        else:
            asks = np.zeros(1, dtype=np.bool_)
            edge = self._reached(self.words, self.own, s, ended, lane, asks)
            ask = bool(asks[0])
        return action, ask, np.nan, np.nan, ASKED if ask else SETTLED, int(edge)

    def _reached_in_python(self, state: int, ended: int, lane: int) -> tuple[int, bool]:
        """The same with a rule in plain Python: Question, asks, settle."""
        edge = int(rounds.step_edge(self.words, self.own, state, ended, lane))
        due = bool(rounds.step_due(self.words, edge))
        cell = int(self.memory.edges[edge].cell)
        asked = due and bool(self.asks(question_now(self.memory, cell, log_now(self.memory))))
        return edge, bool(rounds.step_arrive(self.words, self.own, edge, asked, due, ended, lane))

    def learn(self, ticket: int, reward: float) -> None:
        """Take in one answer."""
        self._learn(self.words, self.own, ticket, reward)

    def check_reward(self, reward: object) -> float:
        """A number in the learner's range of rewards."""
        least, most = self.learner.rewards
        return number(reward, "a reward (the learner's `rewards` has the range)", least=least, most=most)

    def check_id(self, id: Any) -> InvalidInput:
        """The error for an id that nothing is awaited for."""
        if not isinstance(id, int | np.integer) or isinstance(id, bool) or not 1 <= id <= self.made[0]:
            return UnknownDecision(f"no step has the id {id!r}; ids so far are 1 … {self.made[0]}")
        return NotAwaited(f"step {id} awaits no feedback: it was answered already, or never asked for")

    # What an Agent can be asked about, (S, A).

    def _spread(self, values: Any, otherwise: Any, kind: Any) -> Any:
        """What is kept for each cell of a place, for all states."""
        (S, A), m = self.shape, self.memory
        used = int(m.head[0].places)
        full = np.full((S, A), otherwise, dtype=kind)
        full[m.places["state"][:used]] = values[: used * A].reshape(used, A)
        return full

    def counted(self, name: str) -> Integers:
        """One of the counts of every cell."""
        counts: Integers = self._spread(self.memory.cells[name], 0, np.int64)
        return counts

    def means(self) -> Floats:
        """The mean answer of each cell; NaN where there is none."""
        means: Floats = self._spread(self.memory.cells["average"], np.nan, np.float64)
        return np.where(self.answered() > 0, means, np.nan)

    def widths(self) -> Floats:
        """CI^R of each cell, for rewards in [0, 1]: how wide the interval of its expected reward is."""
        log, m = log_now(self.memory), self.memory
        result = np.zeros(m.cells.size)
        self.pair.shared(rounds.write_widths)(self.words, result)
        never: Floats = self._spread(result, reward_width(0.0, 0, log), np.float64)
        return never

    def _by_stages(self, m: Any, table: Any, otherwise: Any) -> Any:
        """What a memory keeps for each number of steps to go, as (H, S); with a discount all steps are alike."""
        H, S = self.learner.horizon, self.shape[0]
        used, states = int(m.head[0].places), m.places["state"][: int(m.head[0].places)]
        stages = min(H, int(m.head[0].stages))
        full = np.empty((stages, S), dtype=table.dtype)
        for h in range(stages):
            full[h] = otherwise(H - h)
            full[h, states] = table[min(H - h, int(m.head[0].settled)) if table.shape[0] > 1 else 0, :used]
        return full if stages == H else np.broadcast_to(full, (H, S))

    def values(self) -> tuple[Floats, Floats]:
        """V of the latest plan from above, (H, S); from below there is nothing but the least return."""
        m = self.memory
        upper = self._by_stages(m, m.values, lambda k: memory_call("most_to_go")(m, k))
        low = np.array([memory_call("least_to_go")(m, self.learner.horizon - h) for h in range(self.learner.horizon)])
        return upper, np.broadcast_to(low[:, np.newaxis], upper.shape)

    def best_guess(self) -> Integers:
        """The policy (H, S) that would be best for H steps if the estimates were true.

        Answers about random rewards are pooled with those about other ways to the same outcome, where they agree.
        Where that is too much to plan for, the policy is that of a discounted future, the same at every step.
        """
        much = (self.learner.horizon + 1) * max(self.memory.heap.size, self.shape[0]) > MOST_TO_GUESS
        words = self.words.copy() if much else with_stages(self.words)
        m = open_memory(words, None)
        if m.head[0].outcomes:
            pool(m.edges[: int(m.head[0].edges)])
        self.pair.shared(rounds.guess)(words)
        policy: Integers = self._by_stages(m, m.policy, lambda k: 0)
        return policy

    # Saving.

    def parts(self) -> dict[str, Any]:
        """All that is remembered, by name."""
        m = self.memory
        used, edges = int(m.head[0].places), int(m.head[0].edges)
        sizes = {"lanes": m.lanes.size, "places": used, "cells": used * self.shape[1], "edges": edges}
        named: dict[str, Any] = {name: as_integers(getattr(m, name)[: sizes[name]]) for name in LISTS}
        named |= {
            "account": m.account.view(np.int64),
            "random": m.random,
            "heap": m.heap[: int(m.head[0].waiting)],
            "values": m.values[:, :used],
            "policy": m.policy[:, :used],
            "counters": np.array([m.head[0][name] for name in COUNTERS]),
            "signal": m.head["signal"],
        }
        return named | saved_pace(self.pair, m.pace)

    def restore(self, parts: dict[str, Any]) -> None:
        """Put everything back."""
        counters = dict(zip(COUNTERS, np.asarray(parts["counters"]).tolist(), strict=True))
        used, edges, lanes = counters["places"], counters["edges"], len(parts["lanes"])
        if not (0 <= used <= self.shape[0] and 0 <= edges <= 2 * used * used * self.shape[1] + used and lanes >= 1):
            raise UnreadableFile("the numbers of states and transitions are out of their range")
        self.words = laid_out(self.memory, room=max(16, used + 2), pool=max(64, edges + 2), lanes=lanes)
        self.attach()
        m = self.memory
        sizes = {"lanes": lanes, "places": used, "cells": used * self.shape[1], "edges": edges}
        for name in LISTS:
            fill(as_integers(getattr(m, name)[: sizes[name]]), parts[name])
        self.restore_common(parts)
        fill(m.heap[: counters["waiting"]], parts["heap"])
        fill(m.values[:, :used], parts["values"])
        fill(m.policy[:, :used], parts["policy"])
        for name, value in counters.items():
            m.head[name] = value
        m.head["signal"] = parts["signal"]
        check_memory(m, used, edges)
        m.place_of[m.places["state"][:used]] = np.arange(used)
        if (m.cells["cost"][: used * self.shape[1]] != self._prices_of(m, used)).any():
            raise UnreadableFile("the costs of asking are not the learner's")

    def _prices_of(self, m: Any, used: int) -> Integers:
        """What asking about the cells of all places costs."""
        A = self.shape[1]
        if m.prices.size == 1:
            return np.full(used * A, m.prices[0])
        table: Integers = m.prices.reshape(self.shape)[m.places["state"][:used]].ravel()
        return table

    def check_sums(self, tickets: list[Any]) -> None:
        """Refuse counts and a ledger that do not add up with what is awaited."""
        m = self.memory
        edges = m.edges[: int(m.head[0].edges)]
        if not all(isinstance(ticket, int) and 0 <= ticket < edges.size for ticket in tickets):
            raise UnreadableFile("an answer is awaited for a transition that does not exist")
        awaited = np.bincount(np.array(tickets, dtype=np.int64), minlength=edges.size)
        if not (edges["asked"] == edges["answered"] + awaited).all():
            raise UnreadableFile("asks, answers and awaited steps do not add up")
        cells = m.cells[: int(m.head[0].places) * self.shape[1]]
        check_spending(self.account, cells["cost"], cells["asked"])


def check_memory(m: memory.Memory, used: int, edges: int) -> None:
    """Whatever a file says, compiled code must not reach outside of its arrays, nor compute nonsense."""
    head, A, S = m.head[0], int(m.head[0].actions), int(m.head[0].states)
    places, cells, links, stages = m.places[:used], m.cells[: used * A], m.edges[:edges], int(head.stages)
    visits = np.bincount(links["cell"], weights=links["visits"], minlength=cells.size) if edges else 0
    asked = np.bincount(links["cell"], weights=links["asked"], minlength=cells.size) if edges else 0
    ends, span = links["after"] >= S, (head.least, head.most)
    fine = [
        _inside(places["state"], 0, S), len(np.unique(places["state"])) == used,
        _inside(places["into"], NONE, edges), _inside(places["spot"], NONE, head.waiting),
        _inside(m.heap[: head.waiting], 0, used), 0 <= head.waiting <= used,
        _inside(cells["first"], NONE, edges), _inside(cells["open"], 0, 2), _inside(links["cell"], 0, cells.size),
        _inside(links["after"], 0, 2 * S), _inside(links["place"], NONE, used),
        ((links["place"] == NONE) == ends).all(),
        _inside(links["following"], NONE, edges), _inside(links["beside"], NONE, edges),
        _inside(m.policy[:, :used], NONE, A), _inside(m.lanes["place"], NONE, used),
        _inside(m.lanes["action"], NONE, A), _inside(m.lanes["left"], 0, head.horizon + 1),
        0 <= head.settled < max(stages, 1), 0 <= head.differ <= head.twice, head.enough >= 0,
        0 <= head.decisions < 2**53, (cells["visits"] == visits).all(),
        (cells["asked"] == asked).all(), int(cells["visits"].sum()) == head.decisions, np.isfinite(m.values).all(),
        (m.account.view(np.int64) >= 0).all(),
        *(_answers_fit(part, span) for part in (cells, links)),
    ]  # fmt: skip
    if not all(bool(one) for one in fine) or not _chains_fit(m, cells, links, places):
        raise UnreadableFile("a number is out of its range")


def _inside(values: Any, least: int, below: int) -> bool:
    return bool(((values >= least) & (values < below)).all())


def _answers_fit(part: Any, span: tuple[float, float]) -> bool:
    """Counts in order, and means in the range of rewards."""
    counts = (part["answered"] >= 0) & (part["answered"] <= part["asked"]) & (part["asked"] <= part["visits"])
    means = (part["answered"] == 0) | ((part["average"] >= span[0] - 1e-9) & (part["average"] <= span[1] + 1e-9))
    return bool(counts.all() and means.all() and (np.isfinite(part["squares"]) & (part["squares"] >= 0.0)).all())


def _chains_fit(m: memory.Memory, cells: Any, links: Any, places: Any) -> bool:
    """Every edge hangs in the chain of its cell and, if it leads somewhere, in that of its place; once each."""
    for heads, step, owner, expected in (
        (cells["first"], "following", "cell", links.size),
        (places["into"], "beside", "place", int((links["place"] != NONE).sum())),
    ):
        met = 0
        for start, edge in enumerate(heads.tolist()):
            while edge != NONE:
                if links[owner][edge] != start or met > expected:
                    return False
                met, edge = met + 1, int(links[step][edge])
        if met != expected:
            return False
    return True


def memory_call(name: str) -> Any:
    """A compiled function of memory.py, for use from Python."""
    function = getattr(memory, name)
    return getattr(function, "py_func", function)


question_now, log_now = as_python(memory.question_about), memory_call("current_log")
