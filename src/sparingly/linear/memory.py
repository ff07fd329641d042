"""What an agent for linear rewards remembers: one array of 64-bit words, and its parts by name.

The rule's ellipsoid grows when something is asked, the learner's when it is answered; in a simulation they are one.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from sparingly.family import Pair
from sparingly.ledger import ACCOUNT, Account, cost_in_units
from sparingly.linear.ellipsoid import SIZES, Ellipsoid, reset
from sparingly.numba_support import compiled, inlined, record
from sparingly.randomness import Stream
from sparingly.rules.exact import least_asks
from sparingly.rules.greedy import Reservoir, reservoir_words
from sparingly.rules.pacing import PACE, PACE_WORDS, PATIENCE, SCORES, Pace, fresh_pace
from sparingly.tabular.learner import TIES

Words = NDArray[np.int64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

SAMPLED = 32  # how many of the rows that were proposed last are kept, to tell what an ask would teach about others

HEAD = record(  # the sizes, what kind of learner and rule, and what is fixed for life; then two counters
    dim=np.int64,  # d
    slots=np.int64,  # P, of Greedy's reservoir; 0 without the reduction
    prices=np.int64,  # K
    learner=np.int64,  # its number in the registry
    learner_numbers=np.int64,  # how many parameters it has
    rule=np.int64,  # its number in the registry
    rule_numbers=np.int64,  # how many parameters it has
    random_ties=np.int64,  # 1 if ties are broken at random
    exploits=np.int64,  # 1 if the best estimate is played where nothing is asked
    paced=np.int64,  # 1 if the rule keeps a pace
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
HEAD_WORDS, ACCOUNT_WORDS, SIZES_WORDS = (kind.itemsize // 8 for kind in (HEAD, ACCOUNT, SIZES))


class Rows(NamedTuple):
    """The last answers, R of them, whose pulls can still change; what has gone has left its pull in θ̂."""

    inputs: Floats  # (R, d) x,
    squares: Floats  # (R,) x·x,
    told: Floats  # (R,) the reward,
    pulls: Floats  # (R,) and the pull


class Memory(NamedTuple):
    """The parts of an agent's memory, as views: dimension d, K prices, P past policies of Greedy."""

    own: Any  # None, or the compiled functions of a user's own learner or rule
    head: Any  # (1,) of HEAD
    account: Account  # (1,) of ACCOUNT
    random: Stream  # (1,)
    learner: Floats  # its parameters, as the functions take them
    rule: Floats  # its parameters
    pace: Pace  # what the rule remembers, if it keeps a pace,
    sample: Floats  # (N, d) and the rows that were proposed last
    price: Integers  # (K,) of asking about each action, in millionths; (1,) if all are equal
    sum: Floats  # (d,) Σ x R
    y: Floats  # (d,) and
    work: Floats  # (d, d) room to compute in
    theta: Floats  # (d,) θ̂
    known: Ellipsoid  # of the answers: the learner's
    bonus: Floats  # (1,) of the policy that was kept last
    policy: Words  # (d + d·d + 1,) θ̂, V⁻¹ and the bonus as one block: what Greedy keeps
    asked: Ellipsoid  # of the asks: the rule's
    reservoir: Reservoir
    drawn: Floats  # (d,) θ as it was drawn, or room to compute in
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


@inlined
def look(words: Words, own: Any) -> Memory:
    """Name the parts of a memory."""
    head = words[:HEAD_WORDS].view(HEAD)
    d, slots, floats = head[0].dim, head[0].slots, words.view(np.float64)
    square = d * d
    random = HEAD_WORDS + ACCOUNT_WORDS
    learner = random + 1
    rule = learner + head[0].learner_numbers
    pace = rule + head[0].rule_numbers
    scores = pace + PACE_WORDS
    sample = scores + head[0].scores
    price = sample + head[0].sampled * d
    total = price + head[0].prices
    y = total + d
    work = y + d
    theta = work + square
    inverse = theta + d
    bonus = inverse + square
    known = bonus + 1
    sizes = known + 2 * square
    end = sizes + SIZES_WORDS
    asked = known if head[0].together else end + square  # of the rule's V; its inverse lies before it
    asked_inverse = inverse if head[0].together else end
    past = asked + 2 * square + SIZES_WORDS
    policies = past + 1 + slots
    drawn = policies + slots * (known - theta)
    inputs = drawn + d
    squares = inputs + head[0].rows * d
    told = squares + head[0].rows
    pulls = told + head[0].rows
    return Memory(
        own,
        head,
        words[HEAD_WORDS:random].view(ACCOUNT),
        words[random:learner].view(np.uint64),
        floats[learner:rule],
        floats[rule:pace],
        Pace(words[pace:scores].view(PACE), floats[scores:sample]),
        floats[sample:price].reshape((head[0].sampled, d)),
        words[price:total],
        floats[total:y],
        floats[y:work],
        floats[work:theta].reshape((d, d)),
        floats[theta:inverse],
        Ellipsoid(
            floats[known : known + square].reshape((d, d)),
            floats[known + square : sizes].reshape((d, d)),
            floats[inverse:bonus].reshape((d, d)),
            words[sizes:end].view(SIZES),
        ),
        floats[bonus:known],
        words[theta:known],
        Ellipsoid(
            floats[asked : asked + square].reshape((d, d)),
            floats[asked + square : asked + 2 * square].reshape((d, d)),
            floats[asked_inverse : asked_inverse + square].reshape((d, d)),
            words[asked + 2 * square : past].view(SIZES),
        ),
        Reservoir(
            words[past : past + 1],
            words[past + 1 : policies],
            words[policies:drawn].reshape((slots, known - theta)),
        ),
        floats[drawn:inputs],
        Rows(
            floats[inputs:squares].reshape((head[0].rows, d)),
            floats[squares:told],
            floats[told:pulls],
            floats[pulls : pulls + head[0].rows],
        ),
    )


open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(pair: Pair, learner: Any, key: np.uint64, together: bool = False) -> Words:
    """A fresh memory; `together` if every answer will come at once, so that one ellipsoid serves both.

    It cannot where answers have weights.
    """
    together = together and learner.rows == 0
    d, prices = learner.dim, cost_in_units([1.0] if learner.costs is None else learner.costs)
    size = HEAD_WORDS + ACCOUNT_WORDS + 1 + learner.numbers.size + pair.rule_numbers.size + prices.size
    scores, sampled = (SCORES, SAMPLED) if pair.paced and not pair.python_learner else (0, 0)
    size += PACE_WORDS + scores + sampled * d
    ellipsoid, policy = 3 * d * d + SIZES_WORDS, d + d * d + 1
    size += 3 * d + d * d + 1 + (1 if together else 2) * ellipsoid + reservoir_words(pair.slots, policy)
    size += d + learner.rows * (d + 3)
    words = np.zeros(size, dtype=np.int64)
    positive = prices[prices > 0]
    words[:HEAD_WORDS].view(HEAD)[0] = (
        d, pair.slots, prices.size, pair.learner, learner.numbers.size, pair.rule, pair.rule_numbers.size,
        TIES[learner.ties], pair.exploits, pair.paced, scores, sampled, pair.exploits and prices.min() > 0, together,
        learner.rows, learner.draws,
        positive.min() if positive.size else 0, prices.max(), learner.ridge, learner.length,
        pair.shared(least_asks)(d, learner.length, learner.ridge), PATIENCE, learner.scale, 0,
        0, 0, 0, 0,
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
    reset(m.known, m.head[0].ridge)
    reset(m.asked, m.head[0].ridge)
