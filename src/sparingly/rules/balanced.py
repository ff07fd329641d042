"""BalancedMatching, our own: a reserve that no adversary can starve, and a free part for the rounds that are worth it.

The budget is split into M(B) = min(ρB, max(B − B₀, 0)), the reserve, and F(B) = B − M(B), the free part; neither ever
shrinks. The reserve is spent as in exact matching; what it pays for is guaranteed to every cell or direction. The free
part is spent where it does most good (pacing.py). docs/paper.md has the proofs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from sparingly.ledger import UNLIMITED
from sparingly.numba_support import apart, compiled, inlined
from sparingly.protocol import Question
from sparingly.reasons import ASKED, FREE, RESERVED, WAITING, is_ask
from sparingly.rules.exact import exact_bar
from sparingly.rules.pacing import PATIENCE, reason_to_spend
from sparingly.rules.rule import Rule
from sparingly.validation import number, whole

PARTS = 2**20  # the reserve is counted in such parts of the budget, in whole numbers: then nothing is rounded


@compiled
def reserve_of(granted: int, share: float, nothing: int) -> int:
    """M(B) = min(ρB, max(B − B₀, 0)) in millionths; `nothing` is B₀, up to which a reserve could promise nothing."""
    parts = round(share * PARTS)
    most = granted // PARTS * parts + granted % PARTS * parts // PARTS  # ⌊ρB⌋
    return max(min(most, granted - nothing), 0)


@inlined
def cells_reserve(rule: BalancedMatching, question: Question) -> int:
    """M(B) with cells: B₀ = C/ρ, what it takes to reserve one ask about every cell."""
    return reserve_for_cells(rule, question.units.granted, question.units.total_cost)


@inlined
def reserve_for_cells(rule: BalancedMatching, granted: int, total: int) -> int:
    """M of a budget, with cells that cost so much in all."""
    nothing = math.ceil(total / rule.reserve) if rule.reserve > 0.0 else 0
    return reserve_of(granted, rule.reserve, nothing)


@inlined
def kappa_now(rule: BalancedMatching, question: Question) -> int:
    """κ = ⌊M(B)/C⌋, how many asks about every cell are reserved; the excess over it is brought in line."""
    kappa = cells_reserve(rule, question) // max(question.units.total_cost, 1)
    if kappa != question.pace.state[0].kappa:
        sum_excess(question.pace.state, question.counts, kappa)
    return int(kappa)


@apart
def sum_excess(state: Any, counts: Any, kappa: int) -> None:
    """Σ c·max(n − κ, 0) over all cells, and Σ c over those with n > κ."""
    excess = over = 0
    for cell in range(counts.size):
        if counts[cell].asked > kappa and counts[cell].cost > 0:
            excess += counts[cell].cost * (counts[cell].asked - kappa)
            over += counts[cell].cost
    state[0].kappa, state[0].excess, state[0].over = kappa, excess, over


@inlined
def free_left(rule: BalancedMatching, question: Question) -> int:
    """F(B) − Σ c·max(n − M(B)/C, 0): what is left of the free part. M(B)/C is κ and a fraction."""
    state, units, reserve = question.pace.state[0], question.units, cells_reserve(rule, question)
    total = max(units.total_cost, 1)
    fraction = (reserve - state.kappa * total) / total * (1.0 - 1e-12)  # rounding must not make it larger
    return int(units.granted + state.ahead - reserve - state.excess + int(fraction * state.over))


@inlined
def count_excess(state: Any, asked: int, cost: int) -> None:
    """Count an ask about a cell that was asked about so many times before."""
    if asked >= state[0].kappa:
        state[0].excess += cost
        state[0].over += cost if asked == state[0].kappa else 0


@inlined
def reason_for_cell(rule: BalancedMatching, question: Question) -> int:
    """From the reserve while n^q < κ, else from the free part, in rounds that are worth it."""
    units = question.units
    if units.granted >= UNLIMITED or units.cost == 0:
        return ASKED
    if question.recalled >= 0.0:
        return reason_for_faded(rule, question)
    if question.asked < kappa_now(rule, question):
        return RESERVED
    free = units.granted + question.pace.state[0].ahead - cells_reserve(rule, question)
    reason = reason_to_spend(question, free, free_left(rule, question), rounds_left(rule, question), PATIENCE)
    return WAITING if reason == FREE and question.asked >= fair_limit(question) else reason


@apart
def reason_for_faded(rule: BalancedMatching, question: Question) -> int:
    """The same with a learner that forgets, where Φ, what is remembered of the budget, takes the place of B.

    The reserve pays while (n^q + 1)·C ≤ M(Φ). An ask from the free part has to leave M(Φ) of what is left.
    """
    units, pace = question.units, question.pace.state[0]
    whole = units.granted + math.ceil((question.recalled - question.asked) * units.total_cost)  # Φ
    reserve = reserve_for_cells(rule, whole, units.total_cost)
    if (question.recalled + 1.0) * units.total_cost <= reserve:
        return RESERVED
    left, free = units.granted - units.spent, units.granted + pace.ahead - reserve
    reason = reason_to_spend(question, free, left - reserve, rounds_left(rule, question), PATIENCE)
    return WAITING if reason == FREE and question.asked >= fair_limit(question) else reason


@inlined
def fair_limit(question: Question) -> float:
    """How many asks about a cell the free part pays for at most: its share B/C, and more as its context keeps coming.

    An adversary could otherwise let one context come until it has taken the whole free part.
    """
    if question.pace.scores.size == 0:
        return math.inf
    fair = question.units.granted / max(question.units.total_cost, 1)
    return float(max(1.0, fair, math.sqrt(question.pace.state[0].visits * fair)))


@inlined
def asks(rule: BalancedMatching, question: Question) -> bool:
    """Whether one of the two parts pays."""
    return is_ask(reason_for_cell(rule, question))


@inlined
def promise(rule: BalancedMatching, question: Question) -> int:
    """κ − 1: up to there the reserve pays."""
    units = question.units
    return UNLIMITED if units.granted >= UNLIMITED else cells_reserve(rule, question) // max(units.total_cost, 1) - 1


@inlined
def streak(rule: BalancedMatching, question: Question) -> int:
    """How many asks in a row about this cell: what is left of its reserve, then of the free part."""
    units = question.units
    if units.granted >= UNLIMITED or units.cost == 0:
        return UNLIMITED
    kappa = kappa_now(rule, question)
    return int(max(kappa - question.asked, 0) + max(free_left(rule, question) // units.cost, 0))


@inlined
def rounds_left(rule: BalancedMatching, question: Question) -> float:
    """Up to the horizon, this one included; ∞ without a horizon."""
    return math.inf if rule.end == 0.0 else float(max(rule.end - question.round + 1.0, 1.0))


@inlined
def asks_step(rule: BalancedMatching, question: Question) -> bool:
    """From the reserve while n^q < κ, else from the free part, evenly over the cells that were visited."""
    units = question.units
    if units.granted >= UNLIMITED or units.cost == 0:
        return True
    kappa = kappa_now(rule, question)
    if question.asked < kappa:
        return True
    return free_left(rule, question) >= units.cost and question.asked <= visited_limit(question)


@inlined
def visited_limit(question: Question) -> int:
    """The largest n^q with (n^q + 1)·C' ≤ B: R1 with C' summed over the cells that were visited, this one included."""
    step, units = question.step, question.units
    cost = step.seen_cost + (units.cost if step.visits == 0 else 0)
    return int(units.granted // max(cost, 1) - 1)


@inlined
def signal(rule: BalancedMatching, question: Question) -> float:
    """The limit on counts: κ, or that of visited cells, if the free part can pay for an ask such as this one."""
    units = question.units
    if units.granted >= UNLIMITED:
        return -1.0
    kappa = kappa_now(rule, question)
    payable = free_left(rule, question) >= units.cost
    return float(max(kappa, visited_limit(question) + 1) if payable else kappa)


@inlined
def rows_reserve(rule: BalancedMatching, question: Question) -> int:
    """M(B) with features: B₀ is what so few asks would cost that R2 would promise nothing, over ρ."""
    row = question.row
    nothing = int(row.least * row.dearest / rule.reserve) + 1 if rule.reserve else 0
    return reserve_of(question.units.granted, rule.reserve, nothing)


@inlined
def from_reserve(rule: BalancedMatching, question: Question) -> bool:
    """Whether the reserve pays for a row."""
    left = rows_reserve(rule, question) - question.pace.state[0].reserved
    return bool(left >= question.units.cost and question.row.norm > bar(rule, question))


@inlined
def bar(rule: BalancedMatching, question: Question) -> float:
    """The ε above which the reserve pays: R2 with V_m, of the asks that it has paid for, and what is left of it.

    V ⪰ V_m, so norms in V⁻¹ are the smaller ones, and Σ log(1 + ‖x‖²) is at most log det V_m − d log λ: the proof of
    R2 needs no more than this bound, and V_m itself need not be kept.
    """
    row, state, units = question.row, question.pace.state[0], question.units
    if units.granted >= UNLIMITED:
        return 0.0
    left, first = rows_reserve(rule, question) - state.reserved, row.dim * math.log(row.ridge)
    return exact_bar(
        row.dim, row.length, first + state.gain, row.dim * row.ridge + state.length, left, units.cost, row.cheapest,
        row.dearest,
    )  # fmt: skip


@inlined
def reason_for_row(rule: BalancedMatching, question: Question) -> int:
    """From the reserve if it pays, else from the free part."""
    units = question.units
    if units.granted >= UNLIMITED or units.cost == 0:
        return ASKED
    if from_reserve(rule, question):
        return RESERVED
    free = units.granted - rows_reserve(rule, question)
    left = free - (units.spent - question.pace.state[0].reserved)
    return reason_to_spend(question, free, left, rounds_left(rule, question), question.row.patience)


@inlined
def asks_row(rule: BalancedMatching, question: Question) -> bool:
    """Whether one of the two parts pays."""
    return is_ask(reason_for_row(rule, question))


@dataclass(frozen=True)
class BalancedMatching(
    Rule,
    tabular=asks,
    linear=asks_row,
    episodic=asks_step,
    streak=streak,
    promise=promise,
    bar=bar,
    reserves=from_reserve,
    reason=reason_for_cell,
    reason_for_row=reason_for_row,
    signal=signal,
):
    """The default: a reserve that no adversary can starve, and a free part that is spent where it helps most.

    `reserve` is ρ, the share of the budget that is spent as in exact matching. It guarantees every cell or direction
    what ExactMatching would give it under the budget ρB. The rest is free: it is spent as it comes in, in the rounds
    that are worth most. With a `horizon`, the number of rounds, a budget that is available from the start is spread
    over all of them, for worlds that change. Without one, it is spent in the better half of the rounds.
    """

    summary = "The default: a reserve that no adversary can starve, and a free part that is spent where it helps most."

    paced = True
    derived = ("end",)

    reserve: float = 0.25
    horizon: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        number(self.reserve, "reserve", least=0.0, most=1.0)
        if self.horizon is not None:
            whole(self.horizon, "horizon, the number of rounds,")

    @property
    def end(self) -> float:
        """The horizon, 0 if it is not known."""
        return float(self.horizon or 0)

    @classmethod
    def examples(cls) -> tuple[BalancedMatching, ...]:
        return cls(), cls(reserve=0.5, horizon=300)
