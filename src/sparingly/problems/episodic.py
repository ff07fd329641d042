"""Episodic problems: any transitions, rewards and initial states, solved exactly when they are made."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.contexts import Contexts, Given, Iid, as_contexts
from sparingly.episodic.learner import EpisodeSizes, episode_costs
from sparingly.episodic.value_iteration import BEST, GIVEN, ROW, SIZES, Model, U, Values, few, induce
from sparingly.errors import InvalidInput
from sparingly.numba_support import compiled, inlined, notice
from sparingly.problems.rewards import Rewards, as_rewards, draw
from sparingly.randomness import Stream, bits_at, to_unit
from sparingly.validation import indices, number, table, whole

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Successor = tuple[float, int, float]  # probability, next state, reward


class Successors(NamedTuple):
    """All transitions that can happen, row by row: (h·S + s)·A + a, or s·A + a if all steps are alike."""

    row: Integers
    after: Integers  # the next state
    chance: Floats
    reward: Floats  # the parameter of its distribution


class Truth(NamedTuple):
    """A problem as compiled code sees it."""

    model: Model
    ladder: Floats  # beside each weight in the pool: the probability of this successor or one before it
    centers: Floats  # beside each weight: the parameter of the reward
    kind: int  # the distribution of rewards around it
    spread: float


class Step(NamedTuple):
    """What the world answers to an action."""

    state: int
    reward: float


@inlined
def find(ladder: Floats, first: int, count: int, stride: int, u: float) -> int:
    """Which of `count` successors has the first rung above u; rungs lie `stride` places apart."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high) // 2
        if ladder[U(first + stride * middle)] > u:
            high = middle
        else:
            low = middle + 1
    return low


@compiled
def step(truth: Truth, cell: int, key: np.uint64, reward_key: np.uint64, k: int) -> Step:
    """The k-th visit of a cell: the next state and the reward, the same whatever else has happened."""
    model = truth.model
    rows = model.rows.size
    row = cell if cell < rows else cell % rows
    start, count = model.rows[U(row)].start, model.rows[U(row)].successors
    u = to_unit(bits_at(bits_at(key, cell), k))
    if count == model.sizes[0].states:
        place = start + find(truth.ladder, start, count, 1, u)
        after = place - start
    else:
        place = start + 2 * find(truth.ladder, start + 1, count, 2, u) + 1
        after = model.next[U(place - 1)]
    return Step(after, draw(truth.kind, truth.centers[U(place)], truth.spread, bits_at(reward_key, cell), k))


@compiled
def mark_reachable(model: Model, reached: NDArray[np.bool_]) -> None:
    """Mark the states (H, S) that can be reached by any actions; those of the first step are given."""
    rows, states, actions = model.rows.size, model.sizes[0].states, model.sizes[0].actions
    for h in range(reached.shape[0] - 1):
        for s in range(states):
            if reached[h, s]:
                for cell in range((h * states + s) * actions, (h * states + s + 1) * actions):
                    row = cell if cell < rows else cell % rows
                    start, count = model.rows[row].start, model.rows[row].successors
                    for i in range(count):
                        if count == states:
                            reached[h + 1, i] = reached[h + 1, i] or model.weight[start + i] > 0.0
                        else:
                            reached[h + 1, model.next[start + 2 * i]] = True


@compiled
def solve(model: Model, values: Values, random: Stream) -> None:
    """The optimal values and an optimal policy."""
    induce(model, values, BEST, 0.0, 0.0, model.sizes[0].horizon - 1, False, random)


@compiled
def evaluate(model: Model, values: Values, top: int, random: Stream) -> None:
    """The value of the policy in `values`, anew from step `top` down, where it has changed last."""
    induce(model, values, GIVEN, 0.0, 0.0, top, False, random)


class Episodic(EpisodeSizes):
    """A finite Markov decision process that is played in episodes of `horizon` steps.

    `P` is (S, A, S) and the same at every step, or (H, S, A, S); `R` holds expected rewards in [0, 1] as (S, A) or
    (S, A, S), or the same with H in front. `initial` says where episodes start: a state, a source such as
    `contexts.Iid([…])`, a list to repeat, or None for uniform draws. `rewards` is "bernoulli",
    "beta", "normal", "fixed" or a `Rewards`; `costs` is what asking costs, (S, A) or (H, S, A). An R that could be read
    both ways, as when S = A = H, goes by P: with H in front of P it is (H, S, A), otherwise (S, A, S). Its solution is
    `optimal_values` and `optimal_policy`, (H, S) each.

    >>> stay_or_go = Episodic([[[1, 0], [0, 1]], [[0, 1], [0, 1]]], [[0, 0], [1, 1]], horizon=3, initial=0)
    >>> stay_or_go.optimal_values[0].tolist()
    [2.0, 3.0]
    """

    def __init__(
        self,
        P: ArrayLike,
        R: ArrayLike,
        horizon: int | None = None,
        initial: Contexts | int | ArrayLike | None = None,
        rewards: str | Rewards = "bernoulli",
        costs: ArrayLike | None = None,
        name: str = "Episodic",
    ) -> None:
        chances, payoffs = table(P, "P", "(S, A, S) or (H, S, A, S)"), table(R, "R", "(S, A), (S, A, S), …")
        if chances.ndim not in (3, 4) or chances.shape[-1] != chances.shape[-3] or chances.size == 0:
            raise InvalidInput(f"P must have shape (S, A, S) or (H, S, A, S), not {chances.shape}")
        S, A = chances.shape[-3:-1]
        by_successor = payoffs.ndim == 4 or (payoffs.ndim == 3 and payoffs.shape == (S, A, S) != chances.shape[:-1])
        steps = {part.shape[0] for part, plain in ((chances, 3), (payoffs, 2 + by_successor)) if part.ndim > plain}
        if not steps and horizon is None:
            raise InvalidInput("the horizon is missing: P and R are the same at every step, so give horizon=…")
        H = whole(min(steps) if horizon is None else horizon, "horizon", most=10**6)
        if steps - {H}:
            raise InvalidInput(
                f"P or R is given for {' and for '.join(map(str, sorted(steps)))} steps, the horizon is {H}"
            )
        rows = (H if steps else 1) * S * A
        shape = (H if steps else 1, S, A, S)
        if payoffs.shape[-3 if by_successor else -2 :] != shape[1 : 4 if by_successor else 3]:
            raise InvalidInput(f"R must have shape {(S, A)} or {(S, A, S)}, or that for each step; not {payoffs.shape}")
        kernel = np.broadcast_to(chances, shape).reshape(rows, S)
        paid = np.broadcast_to(payoffs if by_successor else payoffs[..., np.newaxis], shape).reshape(rows, S)
        row, after = np.nonzero(kernel)
        found = Successors(row, after, kernel[row, after], paid[row, after])
        self._build(found, (H, S, A), shape[0], initial, rewards, costs, name)

    @classmethod
    def from_successors(
        cls,
        rows: Sequence[Sequence[Sequence[Successor]]],
        horizon: int,
        initial: Contexts | int | ArrayLike | None = None,
        rewards: str | Rewards = "fixed",
        costs: ArrayLike | None = None,
        name: str = "Episodic",
    ) -> Self:
        """A problem from lists: `rows[s][a]` holds (probability, next state, reward in [0, 1]) for each successor.

        It stores only the successors, where P would need S·A·S numbers.
        """
        H, S = whole(horizon, "horizon", most=10**6), len(rows)
        A = len(rows[0]) if S else 0
        if A == 0 or any(len(row) != A for row in rows):
            raise InvalidInput("rows must be a list of S states with a list of A actions each")
        flat = [
            (number, after, p, reward)
            for number, successors in enumerate(successors for row in rows for successors in row)
            for p, after, reward in _merge(successors, S)
        ]
        columns = [np.array(column) for column in zip(*flat, strict=True)]
        problem = cls.__new__(cls)
        problem._build(Successors(*columns), (H, S, A), 1, initial, rewards, costs, name)
        return problem

    def _build(
        self, found: Successors, shape: tuple[int, int, int], stages: int, initial: Any, rewards: Any, costs: Any,
        name: str,
    ) -> None:  # fmt: skip
        self.horizon, self.states, self.actions = H, S, A = shape
        self.name, self.rewards, self.initial = name, as_rewards(rewards), as_initial(initial)
        self.initial.check(S)
        self.costs: Any = None if costs is None else episode_costs(costs, H, S, A)
        pool = _Pool(found, stages * S * A, S)
        different, which = np.unique(found.reward, return_inverse=True)
        worth = self.rewards.means(different)[which]
        rows, sizes = np.zeros(stages * S * A, dtype=ROW), np.zeros(1, dtype=SIZES)
        sizes[0] = H, S, A, stages, 0
        rows["share"], rows["start"], rows["successors"] = 1.0, pool.start, pool.successors
        rows["average"] = np.bincount(found.row, weights=found.chance * worth)
        listed, many = np.tile(np.arange(S), (stages, 1)), np.full(stages, S)
        model = Model(sizes, rows, pool.words, pool.words.view(np.float64), listed, many, np.zeros(H + 1))
        self.truth = Truth(model, pool.ladder, pool.centers, self.rewards.code, self.rewards.spread)
        values = self.no_values()
        with notice("the solver of episodic problems"):
            solve(model, values, np.zeros(1, dtype=np.uint64))
        self.optimal_values: Floats = values.upper[:H]  # V*, (H, S)
        self.optimal_policy: Integers = values.policy  # (H, S)

    @property
    def means(self) -> Floats:
        """Expected rewards of all cells, (H, S, A)."""
        table = self.truth.model.rows["average"].reshape(-1, self.states, self.actions)
        return np.broadcast_to(table, self.shape).copy()

    @property
    def rewarding(self) -> int:
        """|L_R|: how many cells have a reward other than zero."""
        return int((self.means > 0.0).sum())

    def no_values(self) -> Values:
        """Room for the values of a policy, (H + 1, S) with a last row of zeros; the policy is action 0."""
        H, S = self.horizon, self.states
        return Values(np.zeros((H + 1, S)), np.zeros((H + 1, 1)), np.zeros((H, S), dtype=np.int64))

    def value(self, policy: ArrayLike) -> Floats:
        """V^π of a policy (H, S), for every step and state: (H, S)."""
        values = self.no_values()
        values.policy[:] = indices(policy, "the actions of a policy", (self.horizon, self.states), self.actions - 1)
        evaluate(self.truth.model, values, self.horizon - 1, np.zeros(1, dtype=np.uint64))
        return values.upper[: self.horizon]

    def within_reach(self) -> Truth:
        """The truth for those who only want values at the first step: other states are left out where they can be."""
        reached = np.zeros((self.horizon, self.states), dtype=np.bool_)
        reached[0] = self.initial.possible(self.states)
        mark_reachable(self.truth.model, reached)
        listed = np.argsort(~reached, axis=1, kind="stable")  # the reached ones first, in order
        return self.truth._replace(model=self.truth.model._replace(listed=listed, many=reached.sum(axis=1)))

    def transitions(self) -> Floats:
        """P as an array (H, S, A, S)."""
        model = self.truth.model
        rows = np.zeros((model.rows.size, self.states))
        for row, (start, count) in enumerate(zip(model.rows["start"], model.rows["successors"], strict=True)):
            if count == self.states:
                rows[row] = model.weight[start : start + count]
            else:
                pairs = slice(start, start + 2 * count, 2)
                weights = slice(start + 1, start + 2 * count, 2)
                rows[row, model.next[pairs]] = model.weight[weights]
        full = rows.reshape(-1, self.states, self.actions, self.states)
        return np.broadcast_to(full, (*self.shape, self.states)).copy()

    def __repr__(self) -> str:
        H, S, A = self.shape
        return f"{self.name}({S} states, {A} actions, {H} steps, {self.rewards})"


class _Pool:
    """The successors of all rows laid out as the induction reads them, with ladders to draw from."""

    def __init__(self, found: Successors, rows: int, states: int) -> None:
        _check(found, rows)
        counts = np.bincount(found.row, minlength=rows)
        dense = counts > few(states)
        lengths = np.where(dense, states, 2 * counts)
        start = np.cumsum(lengths) - lengths
        self.start, self.successors = start, np.where(dense, states, counts)  # of each row
        self.words = np.zeros(int(lengths.sum()), dtype=np.int64)
        self.ladder, self.centers = np.full(self.words.size, 2.0), np.zeros(self.words.size)
        rank = np.arange(found.row.size) - (np.cumsum(counts) - counts)[found.row]  # of a successor within its row
        place = start[found.row] + np.where(dense[found.row], found.after, 2 * rank + 1)
        listed = ~dense[found.row]
        self.words[place[listed] - 1] = found.after[listed]
        weights = self.words.view(np.float64)
        weights[place] = found.chance
        self.centers[place] = found.reward
        for count in np.unique(self.successors):
            first = start[self.successors == count]
            stride = np.arange(count) if count == states else 2 * np.arange(count) + 1
            places = first[:, np.newaxis] + stride
            rungs = np.cumsum(weights[places], axis=1)
            rungs[rungs >= rungs[:, -1:]] = 2.0  # the last that is possible takes what rounding leaves
            self.ladder[places] = rungs


def _check(found: Successors, rows: int) -> None:
    sums = np.bincount(found.row, weights=found.chance, minlength=rows)
    if not np.isfinite(found.chance).all() or (found.chance < 0.0).any() or (np.abs(sums - 1.0) > 1e-9).any():
        raise InvalidInput("every row of P must be probabilities: numbers ≥ 0 that add up to 1")
    if not ((found.reward >= 0.0) & (found.reward <= 1.0)).all():
        raise InvalidInput("every expected reward must lie in [0, 1]; rescale them")


def _merge(successors: Sequence[Successor], states: int) -> list[Successor]:
    """One entry for each next state: probabilities add up, rewards are averaged."""
    chance: dict[int, float] = {}
    earned: dict[int, float] = {}
    for successor in successors:
        if not isinstance(successor, Sequence) or len(successor) != 3:
            raise InvalidInput(f"a successor is (probability, next state, reward), not {successor!r}")
        after = whole(successor[1], "a next state", least=0, most=states - 1)
        p = number(successor[0], "a probability", least=0.0, most=1.0 + 1e-9)
        reward = number(successor[2], "a reward (rescaled to [0, 1])", least=0.0, most=1.0)
        chance[after] = chance.get(after, 0.0) + p
        earned[after] = earned.get(after, 0.0) + p * reward
    row = [(p, after, earned[after] / p) for after, p in chance.items() if p > 0.0]
    if not row:
        raise InvalidInput("every action needs at least one successor with a positive probability")
    return row


def as_initial(initial: Any) -> Contexts:
    """Where episodes start: None means uniform draws, a number always this state."""
    if isinstance(initial, int | np.integer) and not isinstance(initial, bool):
        return Given([int(initial)])
    return Iid() if initial is None else as_contexts(initial)
