"""What an agent for labels remembers: one array of 64-bit words, and its parts by name.

Of the last answers their rows are kept, so that their pulls can be fitted again. A row that makes room for another
leaves its pull in the weights for good: nothing is forgotten, and the memory stays as large as it was.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.family import Pair
from sparingly.ledger import ACCOUNT, Account, cost_in_units
from sparingly.linear.ellipsoid import SIZES, Ellipsoid, reset
from sparingly.linear.memory import SAMPLED
from sparingly.numba_support import compiled, inlined, record
from sparingly.randomness import Stream
from sparingly.rules.exact import least_asks
from sparingly.rules.greedy import Reservoir, reservoir_words
from sparingly.rules.pacing import PACE, PACE_WORDS, SCORES, Pace, fresh_pace
from sparingly.tabular.learner import TIES

Words = NDArray[np.int64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

ROWS = 512  # answers whose pulls can still change
EFFORT = 2**16  # an answer costs so many multiplications of a weight, about
PER_CLASS = 16  # what a class costs beside them, in multiplications: exponentials are slow
FITS = 128  # rows that are fitted again after an answer, at most,
LATER = 4  # and in each round after that, until all have converged
PATIENCE = 8.0  # an early label is worth more than a late one: what is waiting is spent sooner than with rewards

HEAD = record(  # the sizes, what kind of learner and rule, and what is fixed for life; then the counters
    dim=np.int64,  # d
    classes=np.int64,  # K
    slots=np.int64,  # P, of Greedy's reservoir; 0 without the reduction
    prices=np.int64,  # 1, or K
    learner=np.int64,  # its number in the registry
    learner_numbers=np.int64,  # how many parameters it has
    rule=np.int64,  # its number in the registry
    rule_numbers=np.int64,  # how many parameters it has
    random_ties=np.int64,  # 1 if ties are broken at random
    exploits=np.int64,  # 1 if the best estimate is played where nothing is asked
    paced=np.int64,  # 1 if the rule keeps a pace
    scores=np.int64,  # how many scores it keeps,
    sampled=np.int64,  # and N, how many of the last inputs
    together=np.int64,  # 0: the one ellipsoid is the rule's
    rows=np.int64,  # R
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
    decisions=np.int64,  # made so far
    clock=np.int64,  # rounds that the learner has lived through
    answers=np.int64,  # rows that there ever were
    place=np.int64,  # of the row to be fitted next
    calm=np.int64,  # how many rows in a row have not changed when they were fitted again
)
HEAD_WORDS, ACCOUNT_WORDS, SIZES_WORDS = (kind.itemsize // 8 for kind in (HEAD, ACCOUNT, SIZES))


class Memory(NamedTuple):
    """The parts of an agent's memory, as views: d dimensions, K classes, R rows, P past policies of Greedy."""

    own: Any  # None, or the compiled functions of a user's own rule
    head: Any  # (1,) of HEAD
    account: Account  # (1,) of ACCOUNT
    random: Stream  # (1,)
    learner: Floats  # its parameters, as the functions take them
    rule: Floats  # its parameters
    pace: Pace  # what the rule remembers, if it keeps a pace,
    sample: Floats  # (N, d) and the last inputs
    price: Integers  # (K,) of asking where each class is played, in millionths; (1,) if all are equal
    z: Floats  # (d,) the input of this round, and
    y: Floats  # (d,) room to compute in,
    work: Floats  # (d, d)
    room: Floats  # (5, K)
    scores: Floats  # (K,)
    weights: Floats  # (K, d)
    policy: Words  # (K·d,) the weights as one block: what Greedy keeps
    inputs: Floats  # (R, d) of the rows: z,
    squares: Floats  # (R,) z·z,
    told: Integers  # (R,) which class is right; −1 − k: class k is wrong
    pulls: Floats  # (R, K)
    asked: Ellipsoid  # of the asks
    reservoir: Reservoir


@inlined
def look(words: Words, own: Any) -> Memory:
    """Name the parts of a memory."""
    head = words[:HEAD_WORDS].view(HEAD)
    d, classes, rows, slots = head[0].dim, head[0].classes, head[0].rows, head[0].slots
    floats, square = words.view(np.float64), d * d
    random = HEAD_WORDS + ACCOUNT_WORDS
    learner = random + 1
    rule = learner + head[0].learner_numbers
    pace = rule + head[0].rule_numbers
    kept = pace + PACE_WORDS
    sample = kept + head[0].scores
    price = sample + head[0].sampled * d
    z = price + head[0].prices
    work = z + 2 * d
    room = work + square
    scores = room + 5 * classes
    weights = scores + classes
    inputs = weights + classes * d
    squares = inputs + rows * d
    told = squares + rows
    pulls = told + rows
    asked = pulls + rows * classes
    sizes = asked + 3 * square
    past = sizes + SIZES_WORDS
    return Memory(
        own,
        head,
        words[HEAD_WORDS:random].view(ACCOUNT),
        words[random:learner].view(np.uint64),
        floats[learner:rule],
        floats[rule:pace],
        Pace(words[pace:kept].view(PACE), floats[kept:sample]),
        floats[sample:price].reshape((head[0].sampled, d)),
        words[price:z],
        floats[z : z + d],
        floats[z + d : work],
        floats[work:room].reshape((d, d)),
        floats[room:scores].reshape((5, classes)),
        floats[scores:weights],
        floats[weights:inputs].reshape((classes, d)),
        words[weights:inputs],
        floats[inputs:squares].reshape((rows, d)),
        floats[squares:told],
        words[told:pulls],
        floats[pulls:asked].reshape((rows, classes)),
        Ellipsoid(
            floats[asked : asked + square].reshape((d, d)),
            floats[asked + square : asked + 2 * square].reshape((d, d)),
            floats[asked + 2 * square : sizes].reshape((d, d)),
            words[sizes:past].view(SIZES),
        ),
        Reservoir(
            words[past : past + 1],
            words[past + 1 : past + 1 + slots],
            words[past + 1 + slots :].reshape((slots, inputs - weights)),
        ),
    )


open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(pair: Pair, learner: Any, key: np.uint64) -> Words:
    """A fresh memory."""
    d, classes, prices = learner.dim, learner.classes, cost_in_units([1.0] if learner.costs is None else learner.costs)
    scores, sampled = (SCORES, SAMPLED) if pair.paced else (0, 0)
    size = HEAD_WORDS + ACCOUNT_WORDS + 1 + learner.numbers.size + pair.rule_numbers.size + prices.size
    size += PACE_WORDS + scores + sampled * d + 2 * d + 4 * d * d + SIZES_WORDS + (6 + d) * classes
    size += ROWS * (d + 2 + classes) + reservoir_words(pair.slots, classes * d)
    words, positive, longest = np.zeros(size, dtype=np.int64), prices[prices > 0], math.sqrt(d)
    words[:HEAD_WORDS].view(HEAD)[0] = (
        d, classes, pair.slots, prices.size, pair.learner, learner.numbers.size, pair.rule, pair.rule_numbers.size,
        TIES[learner.ties], pair.exploits, pair.paced, scores, sampled, 0, ROWS,
        min(max(EFFORT // (classes * (d + PER_CLASS)), LATER), FITS), LATER,
        positive.min() if positive.size else 0, prices.max(), learner.ridge, longest, longest / learner.length,
        pair.shared(least_asks)(d, longest, learner.ridge), PATIENCE, learner.scale, 0, 0, 0, 0, 0,
    )  # fmt: skip
    memory = open_memory(words, None)
    memory.learner[:], memory.rule[:], memory.price[:] = learner.numbers, pair.rule_numbers, prices
    memory.random[0] = key
    fresh_pace(memory.pace.state)
    pair.shared(start)(words)
    return words


@compiled
def start(words: Words) -> None:
    """Nothing is known yet: V = λI."""
    m = look(words, None)
    reset(m.asked, m.head[0].ridge)
