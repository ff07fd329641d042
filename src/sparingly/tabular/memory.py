"""What an agent for arms remembers: one array of 64-bit words, so that a call from Python stays cheap, and its parts.

`look` names the parts, as views. Asks are counted when asked (for the rule), answers when answered (for the learner).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.family import Pair
from sparingly.ledger import ACCOUNT, Account, cost_in_units
from sparingly.numba_support import inlined, record
from sparingly.randomness import Stream
from sparingly.rules.greedy import Reservoir, reservoir_words
from sparingly.rules.pacing import PACE, PACE_WORDS, SCORES, Pace, fresh_pace
from sparingly.tabular.learner import ESTIMATE, TIES, TabularLearner

Words = NDArray[np.int64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

HEAD = record(  # the sizes, what kind of learner and rule, and what is fixed for life
    contexts=np.int64,  # S
    arms=np.int64,  # A
    live=np.int64,  # arms that were not retired
    slots=np.int64,  # P, of Greedy's reservoir; 0 without the reduction
    learner=np.int64,  # its number in the registry
    learner_numbers=np.int64,  # how many parameters it has
    rule=np.int64,  # its number in the registry
    rule_numbers=np.int64,  # how many parameters it has
    random_ties=np.int64,  # 1 if ties are broken at random
    exploits=np.int64,  # 1 if the best estimate is played where nothing is asked
    paced=np.int64,  # 1 if the rule keeps a pace
    scores=np.int64,  # K, how many scores it keeps: with contexts only
    per_context=np.int64,  # 1 if the learner counts the rounds of each context by themselves
    straight=np.int64,  # 1 if the index is a linear function of the level
    hopeful=np.int64,  # 1 if an average has one answer more, a 1
    bounded=np.int64,  # 1 if the learner names an interval of its own
    samples=np.int64,  # 1 if the learner chooses at random
    answers_only=np.int64,  # 1 if its offset is of answers, not of asks
    unknown=np.float64,  # the average of an arm without answers
    guess=np.float64,  # the prior: what an arm is thought to be worth,
    weight=np.float64,  # and as how many answers that counts
    fading=np.float64,  # log(1 − forget); 0 if the learner forgets nothing
    total_cost=np.int64,  # C, in millionths
    changed=np.int64,  # 1 once actions or contexts were added or retired
    decisions=np.int64,  # made so far
)
COUNTS = record(  # of one cell
    cost=np.int64,  # of asking, in millionths; −1 − cost if the cell was retired
    asked=np.int64,  # n^q
    answered=np.int64,  # n
    taught=np.int64,  # answers that came without an ask
)
SHARES = record(  # of the budget, once actions or contexts were added or retired: see shares.py
    sunk=np.int64,  # what was spent on cells that were retired, in millionths
    floor=np.int64,  # a number of asks to which the budget can bring every live cell
    paid=np.int64,  # Σ c·max(n⁰, floor) over them: what that takes
    under=np.int64,  # Σ c over those with n⁰ ≤ floor: what one more ask about each of them takes
    next=np.int64,  # the least n⁰ above the floor; FAR if there is none
)
FADED = record(  # of one cell, if the learner forgets: sums in which older rounds weigh less, as of round `since`
    asked=np.float64,  # asks
    heard=np.float64,  # answers, with and without an ask
    taught=np.float64,  # answers that came without an ask
    since=np.int64,
)
VISITS = record(rounds=np.float64, since=np.int64)  # of one context, if the learner forgets
PURSE = record(  # if the learner forgets: see forgetting.py
    costs=np.float64,  # Σ c·n^q over the live cells, in millionths, as of round `since`
    since=np.int64,
    uneven=np.int64,  # 1 if cells may be ahead of the others
)
FAR = 2**62
HEAD_WORDS, ACCOUNT_WORDS, COUNTS_WORDS, ESTIMATE_WORDS, SHARES_WORDS, FADED_WORDS, VISITS_WORDS, PURSE_WORDS = (
    t.itemsize // 8 for t in (HEAD, ACCOUNT, COUNTS, ESTIMATE, SHARES, FADED, VISITS, PURSE)
)


class Memory(NamedTuple):
    """The parts of an agent's memory, as views: S contexts, A arms, M = S·A cells, P past policies of Greedy.

    The cell of context u and arm a is number u·A + a.
    """

    own: Any  # None, or the compiled functions of a user's own learner or rule
    head: Any  # (1,) of HEAD
    account: Account  # (1,) of ACCOUNT
    random: Stream  # (1,) the learner's own randomness
    learner: Floats  # its parameters, as the functions take them
    rule: Floats  # its parameters
    pace: Pace  # what the rule remembers, if it keeps a pace
    clock: Integers  # (1 + S,) rounds the learner has lived through: in all, and in each context
    counts: Any  # (M,) of COUNTS
    shares: Any  # (1,) of SHARES once cells were added or retired, (0,) before
    before: Integers  # (M,) n⁰, the asks up to the last such change; (0,) before
    faded: Any  # (M,) of FADED if the learner forgets, else (0,)
    visits: Any  # (S,) of VISITS if it does
    purse: Any  # (1,) of PURSE if it does
    estimates: Any  # (M,) of ESTIMATE
    levels: Floats  # (S,) of the policy that was kept last
    policy: Words  # (4·M + S,) estimates and levels as one block: what Greedy keeps
    reservoir: Reservoir


@inlined
def look(words: Words, own: Any) -> Memory:
    """Name the parts of a memory."""
    head = words[:HEAD_WORDS].view(HEAD)
    contexts, slots = head[0].contexts, head[0].slots
    cells = contexts * head[0].arms
    floats = words.view(np.float64)
    random = HEAD_WORDS + ACCOUNT_WORDS
    learner = random + 1
    rule = learner + head[0].learner_numbers
    pace = rule + head[0].rule_numbers
    scores = pace + PACE_WORDS
    clock = scores + head[0].scores
    counts = clock + 1 + contexts
    shares = counts + COUNTS_WORDS * cells
    before = shares + SHARES_WORDS * head[0].changed
    forgets = int(head[0].fading != 0.0)
    faded = before + cells * head[0].changed
    visits = faded + FADED_WORDS * cells * forgets
    purse = visits + VISITS_WORDS * contexts * forgets
    estimates = purse + PURSE_WORDS * forgets
    levels = estimates + ESTIMATE_WORDS * cells
    reservoir = levels + contexts
    return Memory(
        own,
        head,
        words[HEAD_WORDS:random].view(ACCOUNT),
        words[random:learner].view(np.uint64),
        floats[learner:rule],
        floats[rule:pace],
        Pace(words[pace:scores].view(PACE), floats[scores:clock]),
        words[clock:counts],
        words[counts:shares].view(COUNTS),
        words[shares:before].view(SHARES),
        words[before:faded],
        words[faded:visits].view(FADED),
        words[visits:purse].view(VISITS),
        words[purse:estimates].view(PURSE),
        words[estimates:levels].view(ESTIMATE),
        floats[levels:reservoir],
        words[estimates:reservoir],
        Reservoir(
            words[reservoir : reservoir + 1],
            words[reservoir + 1 : reservoir + 1 + slots],
            words[reservoir + 1 + slots :].reshape((slots, reservoir - estimates)),
        ),
    )


open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(pair: Pair, learner: Any, costs: Floats, key: np.uint64, changed: bool = False) -> Words:
    """A fresh memory, given the costs of asking (S, A); the estimates still have to be refreshed.

    `changed`: with room for what is remembered once cells were added or retired.
    """
    contexts, arms = costs.shape
    cells, policy = contexts * arms, ESTIMATE_WORDS * contexts * arms + contexts
    size = HEAD_WORDS + ACCOUNT_WORDS + 1 + pair.learner_numbers.size + pair.rule_numbers.size + 1 + contexts
    scores = SCORES if pair.paced and contexts > 1 and not pair.python_learner else 0
    size += PACE_WORDS + scores + changed * (SHARES_WORDS + cells)
    known: Any = TabularLearner(arms, contexts) if pair.python_learner else learner
    if known.forget > 0.0:
        size += FADED_WORDS * cells + VISITS_WORDS * contexts + PURSE_WORDS
    words = np.zeros(size + COUNTS_WORDS * cells + policy + reservoir_words(pair.slots, policy), dtype=np.int64)
    units = cost_in_units(costs).ravel()
    hopeful = pair.exploits and known.hopeful  # who explores by asks tries every arm first
    unknown = max(known.unknown, 1.0) if hopeful else known.unknown
    words[:HEAD_WORDS].view(HEAD)[0] = (
        contexts, arms, arms, pair.slots, pair.learner, pair.learner_numbers.size, pair.rule, pair.rule_numbers.size,
        TIES[known.ties], pair.exploits, pair.paced, scores, known.per_context, known.straight,
        hopeful, "bounds" in known.functions, "sample" in known.functions, known.answers_only, unknown,
        known.prior, known.prior_weight, math.log1p(-known.forget), units.sum(), changed, 0,
    )  # fmt: skip
    memory = open_memory(words, None)
    memory.learner[:], memory.rule[:] = pair.learner_numbers, pair.rule_numbers
    memory.counts["cost"] = units
    fresh_pace(memory.pace.state)
    memory.random[0] = key
    return words
