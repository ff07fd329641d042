"""What an agent for linear rewards remembers: one array of 64-bit words, and its parts by name.

The rule's ellipsoid grows when something is asked, the learner's when it is answered; in a simulation they are one.
"""

from __future__ import annotations

from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparingly.family import OF_PAIR, Pair
from sparingly.layout import Over, Shared, layout
from sparingly.ledger import ACCOUNT, Account, cost_in_units
from sparingly.linear.ellipsoid import Ellipsoid, reset
from sparingly.numba_support import compiled, record
from sparingly.randomness import Stream
from sparingly.rules.exact import least_asks
from sparingly.rules.greedy import Reservoir
from sparingly.rules.pacing import PATIENCE, SCORES, Pace

Words = NDArray[np.int64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

SAMPLED = 32  # how many of the rows that were proposed last are kept, to tell what an ask would teach about others

HEAD = record(  # the sizes, what kind of learner and rule, and what is fixed for life; then two counters
    dim=np.int64,  # d
    prices=np.int64,  # K
    **OF_PAIR,
    scores=np.int64,  # how many scores it keeps,
    sampled=np.int64,  # and N, how many of the rows that were proposed last
    by_asks=np.int64,  # 1 if exploration shrinks with asks, rather than with answers
    together=np.int64,  # 1 if every answer comes at once, so that one ellipsoid serves learner and rule
    rows=np.int64,  # R, how many of the last answers are kept; 0 if none are needed
    draws=np.int64,  # 1 if a θ is drawn in each round, and trusted
    cheapest=np.int64,  # the least price that is not 0, in millionths
    dearest=np.int64,  # the largest price
    ridge=np.float64,  # λ
    length=np.float64,  # L
    least=np.float64,  # with fewer asks than this, exact matching promises nothing
    patience=np.float64,  # of rules that keep a pace
    scale=np.float64,  # of the bonus
    decisions=np.int64,  # made so far
    clock=np.int64,  # rounds that the learner has lived through
    answers=np.int64,  # rows that there ever were
    place=np.int64,  # of the row to be fitted next
    calm=np.int64,  # how many rows in a row have not changed when they were fitted again
)


class Rows(NamedTuple):
    """The last answers, R of them, whose pulls can still change; what has gone has left its pull in θ̂."""

    inputs: Annotated[Floats, np.float64, "rows", "dim"]  # (R, d) x,
    squares: Annotated[Floats, np.float64, "rows"]  # (R,) x·x,
    told: Annotated[Floats, np.float64, "rows"]  # (R,) the reward,
    pulls: Annotated[Floats, np.float64, "rows"]  # (R,) and the pull


class Memory(NamedTuple):
    """The parts of an agent's memory, as views: dimension d, K prices, P past policies of Greedy."""

    own: Any  # None, or the compiled functions of a user's own learner or rule
    head: Annotated[Any, HEAD, 1]
    account: Annotated[Account, ACCOUNT, 1]
    random: Annotated[Stream, np.uint64, 1]
    learner: Annotated[Floats, np.float64, "learner_numbers"]  # its parameters, as the functions take them
    rule: Annotated[Floats, np.float64, "rule_numbers"]  # its parameters
    pace: Pace  # what the rule remembers, if it keeps a pace,
    sample: Annotated[Floats, np.float64, "sampled", "dim"]  # (N, d) and the rows that were proposed last
    price: Annotated[Integers, np.int64, "prices"]  # of asking about each action, in millionths; (1,) if all are equal
    sum: Annotated[Floats, np.float64, "dim"]  # Σ x R
    y: Annotated[Floats, np.float64, "dim"]  # and
    work: Annotated[Floats, np.float64, "dim", "dim"]  # room to compute in
    bonus: Annotated[Floats, np.float64, 1]  # of the policy that was kept last
    theta: Annotated[Floats, np.float64, "dim"]  # θ̂
    known: Ellipsoid  # of the answers: the learner's
    policy: Annotated[Words, Over("bonus"), np.int64, "kept"]  # bonus, θ̂ and V⁻¹ as one block: what Greedy keeps
    asked: Annotated[Ellipsoid, Shared("known", "together")]  # of the asks: the rule's
    reservoir: Reservoir
    drawn: Annotated[Floats, np.float64, "dim"]  # θ as it was drawn, or room to compute in
    rows: Rows


class Counting(Protocol):
    """What it takes to ask about a row and to count the ask; the memory of labels has it, too."""

    @property
    def own(self) -> Any: ...
    @property
    def head(self) -> Any: ...
    @property
    def account(self) -> Account: ...
    @property
    def rule(self) -> Floats: ...
    @property
    def pace(self) -> Pace: ...
    @property
    def sample(self) -> Floats: ...
    @property
    def price(self) -> Integers: ...
    @property
    def y(self) -> Floats: ...
    @property
    def work(self) -> Floats: ...
    @property
    def asked(self) -> Ellipsoid: ...


look, blank = layout(Memory, kept="1 + dim + dim * dim")
open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(pair: Pair, learner: Any, key: np.uint64, together: bool = False) -> Words:
    """A fresh memory; `together` if every answer will come at once, so that one ellipsoid serves both.

    It cannot where answers have weights.
    """
    prices = cost_in_units([1.0] if learner.costs is None else learner.costs)
    scores, sampled = (SCORES, SAMPLED) if pair.paced and not pair.python_learner else (0, 0)
    positive = prices[prices > 0]
    head = pair.head(
        HEAD, learner.numbers, learner.ties, dim=learner.dim, prices=prices.size, scores=scores, sampled=sampled,
        by_asks=pair.exploits and prices.min() > 0, together=together and not learner.rows,
        rows=learner.rows, draws=learner.draws, patience=PATIENCE,
        cheapest=positive.min() if positive.size else 0, dearest=prices.max(), ridge=learner.ridge,
        length=learner.length, least=pair.shared(least_asks)(learner.dim, learner.length, learner.ridge),
        scale=learner.scale,
    )  # fmt: skip
    words = blank(head)
    memory = open_memory(words, None)
    memory.price[:] = prices
    pair.begin(memory, learner.numbers, key)
    pair.shared(start)(words)
    return words


@compiled
def start(words: Words) -> None:
    """Nothing is known yet: V = λI."""
    m = look(words, None)
    reset(m.known, m.head[0].ridge)
    reset(m.asked, m.head[0].ridge)
