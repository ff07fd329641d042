"""When to ask: Always, Never, Greedy, PaperMatching, Matching(α, β) and our own ExactMatching.

For tabular learners every matching rule is a limit on counts: ask about a cell while n^q ≤ limit(B(t)). The
paper's interval sqrt(6 log(Mt)/(n^q ∨ 1)) and its threshold share the factor sqrt(6 log(Mt)), which cancels.
For linear learners it is a bar for the width ‖x‖ in V⁻¹; there the factor that cancels is twice the radius.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

from sparingly.checks import number, whole
from sparingly.compiling import compiled
from sparingly.errors import InvalidInput
from sparingly.ledger import UNIT, UNLIMITED, budget_in_units, cost_in_units
from sparingly.protocol import Question

ALWAYS, NEVER, GREEDY, PAPER, EXACT, MATCHING, ADAPTIVE, CUSTOM = range(8)


@compiled
def limit(rule: int, alpha: float, beta: float, granted: int, total_cost: int) -> int:
    """The largest n^q at which a cell is still asked for; −1: not at all. Grows with the budget only."""
    if granted >= UNLIMITED:
        return -1 if rule == NEVER else UNLIMITED
    if rule == EXACT:  # R1: (n^q + 1)·C ≤ B
        return granted // total_cost - 1 if total_cost > 0 else UNLIMITED
    if rule == PAPER:  # CBM-UCB: sqrt(1/(n^q ∨ 1)) ≥ 4 sqrt(C/B), that is n^q ∨ 1 ≤ B/(16 C)
        most = granted // (16 * total_cost) if total_cost > 0 else UNLIMITED
        return most if most >= 1 else -1
    if rule == MATCHING:  # sqrt(6/(n^q ∨ 1)) ≥ α B^(β−1), that is n^q ∨ 1 ≤ 6 B^(2−2β)/α²
        if granted == 0:
            return -1
        bound = 6.0 * (granted / UNIT) ** (2.0 - 2.0 * beta) / (alpha * alpha)
        if bound >= UNLIMITED:
            return UNLIMITED
        return int(bound * (1.0 + 1e-12)) if bound >= 1.0 - 1e-12 else -1  # equality means ask, in spite of rounding
    return -1 if rule == NEVER else UNLIMITED  # the ledger alone limits Always and Greedy


@compiled
def wants(rule: int, asked: int, limit: int, cost: int) -> bool:
    """Whether the rule wants to ask about a cell. What is free adds nothing to R1's sum, so R1 always takes it."""
    return asked <= limit or (rule == EXACT and cost == 0)


@compiled
def width(asked: int, rounds: int, cells: int) -> float:
    """CI_t = 2 b^r = sqrt(6 log(Mt)/(n^q ∨ 1)) (E3)."""
    return math.sqrt(6.0 * math.log(max(cells * rounds, 2)) / max(asked, 1))


@compiled
def threshold(limit: int, rounds: int, cells: int) -> float:
    """The width at which the rule stops asking: that of a cell asked for `limit` times."""
    if limit < 0:
        return math.inf
    return 0.0 if limit >= UNLIMITED else width(limit, rounds, cells)


# For linear learners a rule is a bar for the width ‖x‖ in V⁻¹.


@compiled
def paper_bar(d: int, ridge: float, length: float, granted: int) -> float:
    """CBM-OFUL (E4): ask if min(‖x‖, 1) ≥ v_B/sqrt(B), v_B = sqrt(2d log(1 + BL²/(dλ))); nothing if v_B² > B."""
    budget = granted / UNIT
    if granted >= UNLIMITED:
        return 0.0
    square = 2.0 * d * math.log1p(budget * length * length / (d * ridge))
    if granted == 0 or square > budget:
        return math.inf
    return math.sqrt(square / budget)


@compiled
def potential(d: int, length: float, log_det: float, trace: float, asks: float) -> float:
    """The most that `asks` further asks can add to log det V: d log((tr V + n L²)/d) − log det V."""
    return d * math.log((trace + asks * length * length) / d) - log_det


@compiled
def exact_bar(
    d: int, length: float, log_det: float, trace: float, left: int, price: int, cheapest: int, dearest: int
) -> float:
    """R2: the ε above which an ask is safe: if every later ask were as wide, the rest of the budget would pay.

    Equal prices: N(ε) ≤ k with k = ⌊left/price⌋ means that k + 1 asks of width ε would exceed the potential:
    (k + 1) log(1 + ε²) > potential(k + 1), an inequality that is solved for ε. Other prices: an ask of price c has the
    rate ρ = log(1 + ε²)/c, and K units can go into asks of rate ≥ ρ only if ρK ≤ potential(K/cheapest); so ask if
    ρ·left exceeds potential(left/cheapest). What is free is always asked for. With nothing left the bar is as high as
    any width can be; rounding aside, no action is above it.
    """
    if price == 0:
        return 0.0
    reach = length * (1.0 + 1e-9)  # by so much a feature may be longer than it should
    slack = 1e-11 * (d + abs(log_det))  # far above the rounding errors of the potential
    if cheapest == dearest:
        asks = float(left // price + 1)
        square = math.expm1((potential(d, reach, log_det, trace, asks) + slack) / asks)
    elif left <= 0:
        return math.inf
    else:
        asks = left / cheapest
        square = math.expm1((potential(d, reach, log_det, trace, asks) + slack) * price / left)
    return math.sqrt(max(square, 0.0))


@compiled
def matching_bar(alpha: float, beta: float, granted: int) -> float:
    """The generic form: ask if ‖x‖ ≥ α B^(β−1); the radius cancels."""
    if granted == 0:
        return math.inf
    return 0.0 if granted >= UNLIMITED else alpha * (granted / UNIT) ** (beta - 1.0)


# For episodes a rule looks at CI^R = 2 b^r of the cell (h, s, a), or at the variance of its answers.


@compiled
def reward_width(variance: float, asked: int, log_term: float) -> float:
    """CI^R = 2 b^r = 2 sqrt(2 Var L/(n^q ∨ 1)) + 10 L/(n^q ∨ 1)."""
    n = max(asked, 1)
    return 2.0 * math.sqrt(2.0 * variance * log_term / n) + 10.0 * log_term / n


@compiled
def episode_bar(rule: int, alpha: float, beta: float, rewarding: float, cells: int, granted: int) -> float:
    """Ask if CI^R ≥ L times this: CBM-UCBVI's 6 sqrt(|L_R|/B) + 4SAH(log(1+B)+1)/B (E6), or α B^(β−1)."""
    if rule == ALWAYS:
        return 0.0
    if granted == 0 or rule == NEVER:
        return math.inf
    if granted >= UNLIMITED:
        return 0.0
    budget = granted / UNIT
    if rule == PAPER:
        return 6.0 * math.sqrt(rewarding / budget) + 4.0 * cells * (math.log1p(budget) + 1.0) / budget
    return float(alpha * budget ** (beta - 1.0))


@compiled
def asks_needed(variance: float, goal: float, log_term: float) -> float:
    """The least whole number of asks that bring CI^R down to `goal`: `reward_width` solved for 1/sqrt(n^q)."""
    noise = 2.0 * math.sqrt(2.0 * variance * log_term)
    x = 2.0 * goal / (noise + math.sqrt(noise * noise + 40.0 * log_term * goal))
    return math.ceil((1.0 - 1e-12) / (x * x))


@dataclass(frozen=True)
class Rule:
    """A rule of this library: a code for the compiled functions above, and its two parameters."""

    @property
    def code(self) -> int:
        raise InvalidInput(
            f"{type(self).__name__} names no code; a rule of your own needs only asks(question), no base class"
        )

    @property
    def parameters(self) -> tuple[float, float]:
        """(α, β) where the rule has them."""
        return (0.0, 0.0)

    def asks(self, question: Question) -> bool:
        """The rule by itself, for use outside an agent: the same functions as everywhere."""
        granted, spent = (int(x) for x in budget_in_units([question.budget, question.spent]))
        cost, total = (int(x) for x in cost_in_units([question.cost, question.total_cost]))
        if self.code == GREEDY:
            return granted >= UNLIMITED or spent + cost <= granted
        return bool(wants(self.code, question.asked, limit(self.code, *self.parameters, granted, total), cost))


def built_in(rule: object) -> TypeGuard[Rule]:
    """Whether a rule is one of ours; with `asks` overridden it is the user's own."""
    return isinstance(rule, Rule) and type(rule).asks is Rule.asks


@dataclass(frozen=True)
class Always(Rule):
    """Ask in every round, as far as the ledger lets it: the unbudgeted reference."""

    @property
    def code(self) -> int:
        return ALWAYS


@dataclass(frozen=True)
class Never(Rule):
    """Ask nothing."""

    @property
    def code(self) -> int:
        return NEVER


@dataclass(frozen=True)
class Greedy(Rule):
    """The greedy reduction (Algorithm 1): ask whenever the budget allows, and learn in those rounds only.

    In the other rounds act with a past policy, drawn uniformly. Only the law of that draw enters the expected
    regret, so instead of all past policies a reservoir of `policies` of them is kept.
    """

    policies: int = 1

    def __post_init__(self) -> None:
        whole(self.policies, "the number of past policies that Greedy keeps", most=1024)

    @property
    def code(self) -> int:
        return GREEDY


@dataclass(frozen=True)
class PaperMatching(Rule):
    """Confidence-budget matching as in the paper: ask if CI ≥ 4 sqrt(6 log(Mt)·C/B(t)) (CBM-UCB).

    With OFUL: ask if min(‖x‖, 1) ≥ v_B/sqrt(B) in V⁻¹ (CBM-OFUL, as corrected in docs/paper.md). With UCBVI and
    ULCVI: ask if CI^R ≥ L·(6 sqrt(|L_R|/B) + 4SAH(log(1+B)+1)/B), which the ledger has to guard: see docs/paper.md, E7.
    """

    @property
    def code(self) -> int:
        return PAPER


@dataclass(frozen=True)
class ExactMatching(Rule):
    """Ask if the budget could still pay for bringing every cell to this same precision: (n^q + 1)·C ≤ B(t).

    Safe for any adversary: no cell is ever asked for more than B/C times, so Σ c·n^q ≤ B. With OFUL: ask if the rest
    of the budget could pay for all asks that can still be as wide as this one (`exact_bar`). With UCBVI and ULCVI the
    cells are the S·A·H of (h, s, a). The default.
    """

    @property
    def code(self) -> int:
        return EXACT


@dataclass(frozen=True)
class Matching(Rule):
    """The generic form for an optimistic learner whose regret is of the order α T^β: ask if CI ≥ α_t B(t)^(β−1).

    α_t = α sqrt(log(Mt)), the logarithmic factor of the interval itself; with OFUL it is α times the radius, so that
    an action is asked about if ‖x‖ ≥ α B(t)^(β−1) in V⁻¹; with UCBVI and ULCVI it is α L_t. Whether it stays within the
    budget depends on α; the ledger keeps it there and counts the refusals. PaperMatching is α = 4 sqrt(6C), β = 1/2.
    """

    alpha: float
    beta: float = 0.5

    def __post_init__(self) -> None:
        number(self.alpha, "alpha", least=0.0, above=True)
        number(self.beta, "beta", least=0.0, most=1.0)

    @property
    def code(self) -> int:
        return MATCHING

    @property
    def parameters(self) -> tuple[float, float]:
        return (float(self.alpha), float(self.beta))


@dataclass(frozen=True)
class AdaptiveMatching(Rule):
    """For UCBVI and ULCVI: exact matching that puts the budget where noise and visits are. No |L_R| has to be known.

    `share` of the budget is exact matching's: every cell may be asked about κ = share·B/C times, whatever happens.
    Beyond κ, ask about a cell if the budget could still pay for bringing every other cell to the CI^R that this one
    would then have: cells whose answers did not vary need fewer asks for that. But to no more than 2·visits + 1
    asks, since a cell that is hardly visited can hardly be asked about; and to no fewer than κ. What a declined cell
    would have needed is remembered, and it waits until the budget has grown to that. Safe for any adversary: the
    proof is in docs/paper.md.
    """

    share: float = 0.5

    def __post_init__(self) -> None:
        number(self.share, "share", least=0.0, most=1.0)

    @property
    def code(self) -> int:
        return ADAPTIVE

    @property
    def parameters(self) -> tuple[float, float]:
        return (float(self.share), 0.0)
