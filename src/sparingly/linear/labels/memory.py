"""What an agent for labels remembers: one array of 64-bit words, and its parts by name.

Of the last answers their rows are kept, so that their pulls can be fitted again. A row that makes room for another
leaves its pull in the weights for good: nothing is forgotten, and the memory stays as large as it was.
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.family import OF_PAIR, Pair
from sparingly.layout import Over, layout
from sparingly.ledger import ACCOUNT, Account, cost_in_units
from sparingly.linear.ellipsoid import Ellipsoid, reset
from sparingly.linear.memory import SAMPLED
from sparingly.numba_support import compiled, record
from sparingly.randomness import Stream
from sparingly.rules.exact import least_asks
from sparingly.rules.greedy import Reservoir
from sparingly.rules.pacing import SCORES, Pace

Words = NDArray[np.int64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ROWS = 512  # answers whose pulls can still change
EFFORT = 2**16  # an answer costs so many multiplications of a weight, about
PER_CLASS = 16  # what a class costs beside them, in multiplications: exponentials are slow
FITS = 96  # rows that are fitted again after an answer, at most,
LATER = 4  # and in each round after that, until all have converged
NOTED = 64  # asks that the free part of a budget has paid for and that a reserve may take over
PATIENCE = 8.0  # an early label is worth more than a late one: what is waiting is spent sooner than with rewards

ASK = record(
    norm=np.float64,  # ‖z‖ in V⁻¹ when it was asked; 0: none
    square=np.float64,  # z·z
    price=np.int64,  # in millionths
)
HEAD = record(  # the sizes, what kind of learner and rule, and what is fixed for life; then the counters
    dim=np.int64,  # d
    classes=np.int64,  # K
    prices=np.int64,  # 1, or K
    **OF_PAIR,
    scores=np.int64,  # how many scores it keeps,
    sampled=np.int64,  # and N, how many of the last inputs
    together=np.int64,  # 0: the one ellipsoid is the rule's
    rows=np.int64,  # R
    noted=np.int64,  # N', how many asks are noted that a reserve may take over
    fits=np.int64,  # how many rows are fitted again after an answer,
    later=np.int64,  # and in each round after that
    cheapest=np.int64,  # the least price that is not 0, in millionths
    dearest=np.int64,  # the largest price
    ridge=np.float64,  # λ
    length=np.float64,  # sqrt(d), which no ‖z‖ exceeds
    stretch=np.float64,  # sqrt(d)/L, by which inputs are multiplied
    least=np.float64,  # with fewer asks than this, exact matching promises nothing
    patience=np.float64,  # of rules that keep a pace
    scale=np.float64,  # of the widths
    note=np.float64,  # of the last ask: what it has gained for a reserve; −‖z‖ if the free part has paid; 0 without one
    dropped=np.float64,  # the widest of the asks that were noted and have made room for wider ones
    decisions=np.int64,  # made so far
    clock=np.int64,  # rounds that the learner has lived through
    answers=np.int64,  # rows that there ever were
    place=np.int64,  # of the row to be fitted next
    calm=np.int64,  # how many rows in a row have not changed when they were fitted again
)


class Memory(NamedTuple):
    """The parts of an agent's memory, as views: d dimensions, K classes, R rows, P past policies of Greedy."""

    own: Any  # None, or the compiled functions of a user's own rule
    head: Annotated[Any, HEAD, 1]
    account: Annotated[Account, ACCOUNT, 1]
    random: Annotated[Stream, np.uint64, 1]
    learner: Annotated[Floats, np.float64, "learner_numbers"]  # its parameters, as the functions take them
    rule: Annotated[Floats, np.float64, "rule_numbers"]  # its parameters
    pace: Pace  # what the rule remembers, if it keeps a pace,
    sample: Annotated[Floats, np.float64, "sampled", "dim"]  # (N, d) and the last inputs
    price: Annotated[Integers, np.int64, "prices"]  # of asking for each class, in millionths; (1,) if all are equal
    z: Annotated[Floats, np.float64, "dim"]  # the input of this round, and
    y: Annotated[Floats, np.float64, "dim"]  # room to compute in,
    work: Annotated[Floats, np.float64, "dim", "dim"]
    room: Annotated[Floats, np.float64, 5, "classes"]
    weights: Annotated[Floats, np.float64, "classes", "dim"]
    policy: Annotated[Words, Over("weights"), np.int64, "kept"]  # the weights as one block: what Greedy keeps
    inputs: Annotated[Floats, np.float64, "rows", "dim"]  # (R, d) of the rows: z,
    squares: Annotated[Floats, np.float64, "rows"]  # z·z,
    told: Annotated[Integers, np.int64, "rows"]  # which class is right; −1 − k: class k is wrong
    pulls: Annotated[Floats, np.float64, "rows", "classes"]
    asked: Ellipsoid  # of the asks
    reservoir: Reservoir
    free: Annotated[Any, ASK, "noted"]  # the widest asks that the free part of the budget has paid for


look, blank = layout(Memory, kept="classes * dim")
open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(pair: Pair, learner: Any, key: np.uint64) -> Words:
    """A fresh memory."""
    d, classes, prices = learner.dim, learner.classes, cost_in_units([1.0] if learner.costs is None else learner.costs)
    scores, sampled = (SCORES, SAMPLED) if pair.paced else (0, 0)
    positive, longest = prices[prices > 0], math.sqrt(d)
    fits = min(max(EFFORT // (classes * (d + PER_CLASS)), LATER), FITS)
    head = pair.head(
        HEAD, learner.numbers, learner.ties, dim=d, classes=classes, prices=prices.size, scores=scores, sampled=sampled,
        rows=ROWS, noted=NOTED if pair.paced else 0, fits=fits, later=LATER,
        cheapest=positive.min() if positive.size else 0, dearest=prices.max(),
        ridge=learner.ridge, length=longest, stretch=longest / learner.length,
        least=pair.shared(least_asks)(d, longest, learner.ridge), patience=PATIENCE, scale=learner.scale,
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
    reset(m.asked, m.head[0].ridge)
