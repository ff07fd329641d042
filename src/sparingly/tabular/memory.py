"""What an agent for arms remembers: one array of 64-bit words, so that a call from Python stays cheap, and its parts.

`look` names the parts, as views. Asks are counted when asked (for the rule), answers when answered (for the learner).
"""

from __future__ import annotations

import math
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sparingly.family import OF_PAIR, Pair
from sparingly.layout import Over, layout
from sparingly.ledger import ACCOUNT, Account, cost_in_units
from sparingly.numba_support import record
from sparingly.randomness import Stream
from sparingly.rules.greedy import Reservoir
from sparingly.rules.pacing import SCORES, Pace
from sparingly.tabular.learner import ESTIMATE, TabularLearner

Words = NDArray[np.int64]
Integers = NDArray[np.int64]
Floats = NDArray[np.float64]

HEAD = record(  # the sizes, what kind of learner and rule, and what is fixed for life
    contexts=np.int64,  # S
    arms=np.int64,  # A
    live=np.int64,  # arms that were not retired
    **OF_PAIR,
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
    forgets=np.int64,  # 1 if the learner forgets
    fading=np.float64,  # log(1 − forget)
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
ESTIMATE_WORDS = ESTIMATE.itemsize // 8


class Memory(NamedTuple):
    """The parts of an agent's memory, as views: S contexts, A arms, M = S·A cells, P past policies of Greedy.

    The cell of context u and arm a is number u·A + a.
    """

    own: Any  # None, or the compiled functions of a user's own learner or rule
    head: Annotated[Any, HEAD, 1]
    account: Annotated[Account, ACCOUNT, 1]
    random: Annotated[Stream, np.uint64, 1]  # the learner's own randomness
    learner: Annotated[Floats, np.float64, "learner_numbers"]  # its parameters, as the functions take them
    rule: Annotated[Floats, np.float64, "rule_numbers"]  # its parameters
    pace: Pace  # what the rule remembers, if it keeps a pace
    clock: Annotated[Integers, np.int64, "1 + contexts"]  # rounds the learner has lived: in all, in each context
    counts: Annotated[Any, COUNTS, "cells"]
    shares: Annotated[Any, SHARES, "changed"]  # (1,) once cells were added or retired, (0,) before
    before: Annotated[Integers, np.int64, "cells * changed"]  # n⁰, the asks up to the last such change; (0,) before
    faded: Annotated[Any, FADED, "cells * forgets"]
    visits: Annotated[Any, VISITS, "contexts * forgets"]
    purse: Annotated[Any, PURSE, "forgets"]
    estimates: Annotated[Any, ESTIMATE, "cells"]
    levels: Annotated[Floats, np.float64, "contexts"]  # of the policy that was kept last
    policy: Annotated[Words, Over("estimates"), np.int64, "kept"]  # estimates and levels: what Greedy keeps
    reservoir: Reservoir


look, blank = layout(Memory, cells="contexts * arms", kept=f"{ESTIMATE_WORDS} * cells + contexts")
open_memory = getattr(look, "py_func", look)  # the same, for use from Python


def remember(pair: Pair, learner: Any, costs: Floats, key: np.uint64, changed: bool = False) -> Words:
    """A fresh memory, given the costs of asking (S, A); the estimates still have to be refreshed.

    `changed`: with room for what is remembered once cells were added or retired.
    """
    contexts, arms = costs.shape
    known: Any = TabularLearner(arms, contexts) if pair.python_learner else learner
    units = cost_in_units(costs).ravel()
    hopeful = pair.exploits and known.hopeful  # who explores by asks tries every arm first
    head = pair.head(
        HEAD, pair.learner_numbers, known.ties, contexts=contexts, arms=arms, live=arms,
        scores=SCORES if pair.paced and contexts > 1 and not pair.python_learner else 0,
        per_context=known.per_context, straight=known.straight, hopeful=hopeful,
        bounded="bounds" in known.functions, samples="sample" in known.functions,
        unknown=max(known.unknown, 1.0) if hopeful else known.unknown, total_cost=units.sum(), changed=changed,
        answers_only=known.answers_only, guess=known.prior, weight=known.prior_weight, forgets=known.forget > 0.0,
        fading=math.log1p(-known.forget),
    )  # fmt: skip
    words = blank(head)
    memory = open_memory(words, None)
    memory.counts["cost"] = units
    pair.begin(memory, pair.learner_numbers, key)
    return words
