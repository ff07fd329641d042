"""Upper bounds on regret: Theorems 1 to 5 with the constants of the paper's appendices, and those of our own rules.

A budget is an array (…, T) with B(1), …, B(T) along the last axis; a bound has the same shape, one number for each
horizon 1, …, T. Theorems 1 and 2 bound the expected regret; the others hold for all horizons at once, with
probability 1 − δ.

Every bound has a part for the rounds that were asked about and a sum over the rounds that were not. In that sum a
round counts as min(its term, the largest loss of a round). The largest loss is 1 for arms, 2 for linear rewards (which
lie in [−1, 1]) and H for episodes. The paper instead assumes that the first round can be asked about, and otherwise
adds the T_I rounds before the first ask; here B(t) = 0 needs no exception, and no round is charged more than it can
lose. For arms and linear rewards the proofs bound each of these rounds separately, and a round never loses more than
the largest loss. For episodes they bound a sum over episodes. Fix a horizon, charge H for the episodes whose term
exceeds H, which B(t) determines before they begin, and apply the proof to the others: its martingales stay martingales
if they skip such episodes, and its union bound has an event for each horizon anyway. (If B(t) may depend on the
trajectory of episode t, B(t − 1) determines it, and one more H must be added: the episodes charged with H come first.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.errors import InvalidInput
from sparingly.ledger import UNIT
from sparingly.rules.balanced import PARTS
from sparingly.rules.exact import least_asks
from sparingly.rules.rule import EXPLORE
from sparingly.validation import choice, growing, number, probability, table, whole

Floats = NDArray[np.float64]


class Base(NamedTuple):
    """The regret of a learner without a budget: at most alpha·T^beta + constant at every horizon T."""

    alpha: float
    beta: float
    constant: float


def greedy_reduction(
    budget: ArrayLike, alpha: float, beta: float, constant: float = 0.0, largest_loss: float = math.inf
) -> Floats:
    """Theorem 1, for Greedy with stochastic contexts: α T^β + C + Σ_t (α/B(t)^(1−β) + C/B(t)).

    The learner's own regret is at most α T^β + C: `greedy_reduction(budget, *base_moss(arms))`. The budget counts asks
    of unit cost and is rounded down to whole numbers (for episodes it counts episodes: give ⌊B/H⌋). The paper needs
    B(1) ≥ 1; rounds with less are allowed if `largest_loss` gives what a round can lose, which then caps every term.

    >>> greedy_reduction([1, 4, 4], alpha=2.0, beta=0.5).round(3).tolist()
    [4.0, 5.828, 7.464]
    """
    B = np.floor(growing(budget, "budget"))
    a, b = number(alpha, "alpha", least=0.0), number(beta, "beta", least=0.0, most=1.0)
    c = number(constant, "constant", least=0.0)
    most = number(largest_loss, "largest_loss", least=0.0, infinite=True)
    if most == math.inf and (B < 1.0).any():
        raise InvalidInput("the greedy reduction needs B(1) ≥ 1; for a smaller budget give largest_loss as well")
    usable = np.maximum(B, 1.0)
    terms = np.where(B >= 1.0, np.minimum(a / usable ** (1.0 - b) + c / usable, most), most)
    return np.asarray(a * _horizons(B) ** b + c + np.cumsum(terms, axis=-1))


def cbm_ucb(budget: ArrayLike, arms: int, total_cost: float | None = None, contexts: int = 1) -> Floats:
    """Theorem 2, for UCB1 with PaperMatching, with M = S·A cells and C = Σ c, M by default:

    sqrt(24 M T log(MT)) + M sqrt(6 log(MT)) + Σ_t min(4 sqrt(6 log(MT) C/B(t)), 1) + 2.

    >>> cbm_ucb([16, 16], arms=2).round(2).tolist()
    [12.85, 21.3]
    """
    B, cells, cost = _arms_input(budget, arms, total_cost, contexts)
    with np.errstate(divide="ignore", over="ignore"):
        shape = 4.0 * np.sqrt(cost / B) if cost > 0.0 else np.zeros_like(B)
    return _arms_bound(B, cells, shape)


def exact_arms(
    budget: ArrayLike, arms: int, total_cost: float | None = None, contexts: int = 1, explore: str = "always"
) -> Floats:
    """Ours, for UCB1 with ExactMatching (R1): Theorem 2 with a sum about four times smaller,

    sqrt(24 M T log(MT)) + M sqrt(6 log(MT)) + Σ_t min(sqrt(6 log(MT)/(⌊B(t)/C⌋ ∨ 1)), 1) + 2.

    The proof is that of Theorem 2. R1 declines a cell only if (n^q + 1)·C > B, that is n^q ≥ ⌊B/C⌋, for n^q is a whole
    number. The interval sqrt(6 log(Mt)/(n^q ∨ 1)) is then no wider than the term of the sum, which itself is at most
    sqrt(6 log(MT)·C/(B − C)).

    With explore="asked" the arm with the best estimate is played where R1 declines, f = sqrt(6 log(MT)) in the sum
    becomes f + 1/f, and M log(T/M ∨ 1) is added (docs/paper.md).

    >>> exact_arms([200, 200], arms=2).round(2).tolist()
    [12.05, 19.88]
    """
    B, cells, cost = _arms_input(budget, arms, total_cost, contexts)
    return _arms_bound(B, cells, _declined_at(B, cost), choice(explore, "explore", EXPLORE))


def balanced_arms(
    budget: ArrayLike, arms: int, total_cost: float | None = None, contexts: int = 1, reserve: float = 0.25,
    explore: str = "asked",
) -> Floats:  # fmt: skip
    """Ours, for UCB1 with BalancedMatching (R3): that of `exact_arms` with the reserve M(B) in the place of B,

    sqrt(24 M T log(MT)) + M sqrt(6 log(MT)) + M log(T/M ∨ 1) + Σ_t min((f + 1/f)/sqrt(⌊M(B(t))/C⌋ ∨ 1), 1) + 2,

    where f = sqrt(6 log(MT)), and M without (B) is the number of cells.
    M(B) is `reserve`·B as soon as B ≥ C/(ρ(1 − ρ)), for a reserve of ρ. Up to B = C/ρ it is 0, and every round counts
    as all that it can lose. R3 declines a cell only if n^q ≥ ⌊M(B)/C⌋, whatever the free part was spent on. With
    explore="always" the terms 1/f and M log(T/M ∨ 1) fall away.

    >>> [round(float(f([10_000] * 20_000, arms=2)[-1])) for f in (exact_arms, balanced_arms)]
    [5463, 7807]
    """
    B, cells, cost = _arms_input(budget, arms, total_cost, contexts)
    reserved = _reserved(B, reserve, cost)
    return _arms_bound(B, cells, _declined_at(reserved, cost), choice(explore, "explore", EXPLORE))


def cbm_oful(
    budget: ArrayLike, dim: int, noise: float = 1.0, ridge: float = 1.0, length: float = 1.0, norm: float = 1.0,
    delta: float = 0.05,
) -> Floats:  # fmt: skip
    """Theorem 3, for OFUL with PaperMatching at unit costs: 2 l_T v_T sqrt(T) + Σ_t min(2 l_T v_T/sqrt(B(t)), 2).

    l_T = max(1, σ sqrt(2d log((1 + TL²/λ)/δ)) + sqrt(λ)·D) and v_T = sqrt(2d log(1 + TL²/(dλ))). This is as
    stated; the proof has v_B(t) in the sum and replaces it by v_T, which needs B(t) ≤ T.

    >>> cbm_oful([0, 0, 0], dim=2).round(1).tolist()
    [14.3, 27.8, 40.4]
    """
    B = growing(budget, "budget")
    radius, spread = _ellipsoid(_horizons(B), dim, noise, ridge, length, norm, delta)
    with np.errstate(divide="ignore", over="ignore"):
        sums = _capped_sum(2.0 * radius * spread, 1.0 / np.sqrt(B), 2.0)
    return np.asarray(2.0 * radius * spread * np.sqrt(_horizons(B)) + sums)


def exact_oful(
    budget: ArrayLike, dim: int, noise: float = 1.0, ridge: float = 1.0, length: float = 1.0, norm: float = 1.0,
    delta: float = 0.05, costs: ArrayLike = 1.0,
) -> Floats:  # fmt: skip
    """Ours, for OFUL with ExactMatching (R2): Theorem 3 with a smaller sum, for any budget. At unit costs

    2 l_T v_T sqrt(T) + Σ_t min(2 l_T ε(b), 2), ε(b)² = (1 + bL²/(dλ))^(d/b) − 1 = exp(v_b²/(2b)) − 1, b = ⌊B(t)⌋ + 1.

    Let n asks be made and k = ⌊B⌋ − n be left. R2 declines x only if ‖x‖ ≤ ε, where ε, the bar, solves
    (k + 1) log(1 + ε²) = p(k + 1) for the potential p(m) = d log((tr V + mL²)/d) − log det V.
    (1) The bar never rises. An ask of width w > ε raises log det V by log(1 + w²) and tr V by at most L², so what was
        p(k + 1) becomes at most p(k + 1) − log(1 + ε²) = k log(1 + ε²) with k in the place of k + 1. A grant raises k,
        and p(m)/m falls in m since p is concave and p(0) ≥ 0.
    (2) So all n asks were wider than today's ε: log det V ≥ d log λ + n log(1 + ε²). And tr V ≤ dλ + nL².
    (3) Put into the equation of the bar: (k + 1 + n) log(1 + ε²) ≤ d log(1 + (n + k + 1)L²/(dλ)), and n + k + 1 = b.
    A round that is declined loses at most min(2 l_T ‖x‖, 2). Rounds that are asked about cost as in Theorem 3. The
    radius from the determinant is never larger than l_T, so the bound holds for both.

    `costs` are the prices of the actions; B counts asks at the price if all are equal. If they differ, from c_min to
    c_max, a row of price c is declined only if log(1 + ‖x‖²) ≤ c·ρ with ρ = d log(1 + BL²/(c_min·dλ))/B, and the bound
    has c_max for c. So what counts is c_max·d·log(…), not Σ c (docs/paper.md). See `least_budget`.

    >>> T = np.arange(10_000)
    >>> [round(float(bound(T, dim=2)[-1])) for bound in (cbm_oful, exact_oful)]
    [23627, 19806]
    """
    B = growing(budget, "budget")
    radius, spread = _ellipsoid(_horizons(B), dim, noise, ridge, length, norm, delta)
    cheapest, dearest = _prices(costs)
    finite, ratio = np.where(np.isinf(B), 0.0, B), length**2 / (dim * ridge)
    with np.errstate(divide="ignore", invalid="ignore"):
        if cheapest == dearest:
            b = np.floor(finite / dearest) + 1.0
            exponent = dim * np.log1p(b * ratio) / b
        else:
            rate = np.where(finite > 0.0, dim * np.log1p(finite / cheapest * ratio) / finite, np.inf)
            exponent = dearest * rate
    bar = np.where(np.isinf(B), 0.0, np.sqrt(np.expm1(np.minimum(exponent, 600.0))))  # beyond, it is capped anyway
    return np.asarray(2.0 * radius * spread * np.sqrt(_horizons(B)) + _capped_sum(2.0 * radius, bar, 2.0))


def balanced_oful(
    budget: ArrayLike, dim: int, noise: float = 1.0, ridge: float = 1.0, length: float = 1.0, norm: float = 1.0,
    delta: float = 0.05, reserve: float = 0.25, costs: ArrayLike = 1.0,
) -> Floats:  # fmt: skip
    """Ours, for OFUL with BalancedMatching (R3): `exact_oful` with the reserve M(B) in the place of B.

    M(B) is `reserve`·B as soon as B ≥ B₀/(1 − ρ), for a reserve of ρ, with B₀ = b·c_max/ρ for the least b with
    b·log(1 + L²/λ) ≥ d·log(1 + bL²/(dλ)). Up to B = B₀ it is 0. The bound is the same for explore="asked" and "always".

    The proof is that of `exact_oful` with d log λ + g in the place of log det V, where g = Σ log(1 + ‖x‖²) in V⁻¹ and
    tr V − dλ = Σ x·x are taken over the asks that the reserve has paid for, and V over all asks (docs/paper.md).

    >>> T = np.arange(10_000)
    >>> [round(float(bound(T, dim=2)[-1])) for bound in (exact_oful, balanced_oful)]
    [19806, 25836]
    """
    sizes = (number(x, n, least=0.0, above=True) for x, n in ((length, "length"), (ridge, "ridge")))
    least = least_asks(whole(dim, "dim"), *sizes) * _prices(costs)[1]
    reserved = _reserved(growing(budget, "budget"), reserve, least)
    return exact_oful(reserved, dim, noise, ridge, length, norm, delta, costs)


def least_budget(dim: int, costs: ArrayLike = 1.0, ridge: float = 1.0, length: float = 1.0) -> float:
    """Below this budget R2 promises nothing about actions at the dearest price: a fresh agent asks about none of them.

    It is the least B with B·log(1 + L²/λ) ≥ c_max·d·log(1 + BL²/(c_min·dλ)). For R3 the reserve M(B) must reach it.

    >>> round(least_budget(50)), round(least_budget(50, costs=[200] + [1] * 49))
    (50, 111195)
    """
    L, lam = (number(x, n, least=0.0, above=True) for x, n in ((length, "length"), (ridge, "ridge")))
    cheapest, dearest = _prices(costs)
    return dearest * float(least_asks(whole(dim, "dim"), L, lam, dearest / cheapest))


def cbm_ucbvi(
    budget: ArrayLike, states: int, actions: int, horizon: int, rewarding: int | None = None, delta: float = 0.05
) -> Floats:
    """Theorem 4, for UCBVI with PaperMatching, with L_T = log(12 S²AH T²(T+1)/δ), T episodes and R = |L_R|:

    36 L_T sqrt(SAH⁴T) + Σ_t min(36 L_T (sqrt(R H²/B(t)) + SAH² (log(1 + B(t)) + 1)/B(t)), H) + 306 H³S²A L_T².

    `rewarding` is R, all S·A·H cells by default. The theorem rests on the lemma that the rule never overspends, which
    its constants do not give (docs/paper.md, E7): it covers runs in which the ledger refused nothing. It is vacuous for
    a long time: even without a limit on asking, and with S = A = H = 2, it exceeds HT up to T = 10⁸.
    """
    B, sizes, R = _episodes_input(budget, states, actions, horizon, rewarding)
    L, lasting = _theorem_4(_horizons(B), *sizes, delta)
    return np.asarray(lasting + _capped_sum(36.0 * L, _episode_shape(B, *sizes, R), float(sizes[2])))


def cbm_ulcvi(
    budget: ArrayLike, states: int, actions: int, horizon: int, rewarding: int | None = None, delta: float = 0.05
) -> Floats:
    """Theorem 5, for ULCVI with PaperMatching, with L_T = log(16 S²AH T²(T+1)/δ), T episodes and R = |L_R|:

    45 L_T² sqrt(SAH³T) + Σ_t min(45 L_T² (sqrt(R H²/B(t)) + SAH² (log(1 + B(t)) + 1)/B(t)), H) + 2904 H³S²A L_T².

    This is as stated; the proof gives 45 L_T in place of 45 L_T². The remarks on Theorem 4 apply here too, except that
    with S = A = H = 2 this bound exceeds HT up to T = 10¹².
    """
    B, sizes, R = _episodes_input(budget, states, actions, horizon, rewarding)
    L, lasting = _theorem_5(_horizons(B), *sizes, delta)
    return np.asarray(lasting + _capped_sum(45.0 * L**2, _episode_shape(B, *sizes, R), float(sizes[2])))


def exact_ucbvi(
    budget: ArrayLike, states: int, actions: int, horizon: int, rewarding: int | None = None, delta: float = 0.05,
    total_cost: float | None = None,
) -> Floats:  # fmt: skip
    """Ours, for UCBVI with ExactMatching(explore="always"), R1, which is not told R = |L_R|. Theorem 4 with this sum:

    36 L_T sqrt(SAH⁴T) + Σ_t min(3 L_T (2H'/sqrt(k) + 10H/k), H) + 306 H³S²A L_T², k = ⌊B(t)/C⌋ ∨ 1, H' = min(H, R).

    C = S·A·H at unit cost. The proof is that of Theorem 4, which charges each declined step 3·CI^R. R1 declines only
    if n^q ≥ ⌊B/C⌋, and then CI^R ≤ 2 sqrt(L/k) + 10 L/k: the unbiased variance of answers in [0, 1] is at most 1/2.
    Outside of L_R it is 0, and an episode has at most H' steps in L_R. Nothing is ever refused, so there is no E7.

    >>> B = np.full(1_000, 1e12)
    >>> bool((exact_ucbvi(B, 2, 2, 4) < cbm_ucbvi(B, 2, 2, 4))[-1]), bool((exact_ucbvi(B, 2, 2, 4) > 0).all())
    (True, True)
    """
    B, sizes, R = _episodes_input(budget, states, actions, horizon, rewarding)
    return _exact_episodes(B, sizes, R, _cells_cost(sizes, total_cost), *_theorem_4(_horizons(B), *sizes, delta))


def exact_ulcvi(
    budget: ArrayLike, states: int, actions: int, horizon: int, rewarding: int | None = None, delta: float = 0.05,
    total_cost: float | None = None,
) -> Floats:  # fmt: skip
    """Ours, for ULCVI with ExactMatching(explore="always"): Theorem 5 with the sum of `exact_ucbvi`, L_T as there."""
    B, sizes, R = _episodes_input(budget, states, actions, horizon, rewarding)
    return _exact_episodes(B, sizes, R, _cells_cost(sizes, total_cost), *_theorem_5(_horizons(B), *sizes, delta))


def balanced_ucbvi(
    budget: ArrayLike, states: int, actions: int, horizon: int, rewarding: int | None = None, delta: float = 0.05,
    total_cost: float | None = None, reserve: float = 0.25,
) -> Floats:  # fmt: skip
    """Ours, for UCBVI with BalancedMatching(explore="always"), R3: `exact_ucbvi` with the reserve M(B) in place of B.

    R3 declines a cell only if n^q ≥ ⌊M(B)/C⌋. M(B) is `reserve`·B as soon as B ≥ C/(ρ(1 − ρ)), and 0 up to C/ρ.
    """
    cost = _cells_cost(_sizes(states, actions, horizon), total_cost)
    reserved = _reserved(growing(budget, "budget"), reserve, cost)
    return exact_ucbvi(reserved, states, actions, horizon, rewarding, delta, cost)


def balanced_ulcvi(
    budget: ArrayLike, states: int, actions: int, horizon: int, rewarding: int | None = None, delta: float = 0.05,
    total_cost: float | None = None, reserve: float = 0.25,
) -> Floats:  # fmt: skip
    """Ours, for ULCVI with BalancedMatching(explore="always"): `exact_ulcvi` with the reserve M(B) in place of B."""
    cost = _cells_cost(_sizes(states, actions, horizon), total_cost)
    reserved = _reserved(growing(budget, "budget"), reserve, cost)
    return exact_ulcvi(reserved, states, actions, horizon, rewarding, delta, cost)


def cbm_ucbvi_order(rate: ArrayLike, states: int, actions: int, horizon: int, rewarding: int | None = None) -> Floats:
    """Theorem 4 for B(t) = rate·t and large T: sqrt(SAH⁴) + 2 sqrt(R H²/rate), times 36 L_T sqrt(T).

    >>> cbm_ucbvi_order([1.0, 4.0], states=2, actions=2, horizon=4).tolist()
    [64.0, 48.0]
    """
    return _episode_order(rate, states, actions, horizon, rewarding, power=4)


def cbm_ulcvi_order(rate: ArrayLike, states: int, actions: int, horizon: int, rewarding: int | None = None) -> Floats:
    """Theorem 5 for B(t) = rate·t and large T: sqrt(SAH³) + 2 sqrt(R H²/rate), times 45 L_T² sqrt(T).

    >>> cbm_ulcvi_order([1.0, 4.0], states=2, actions=2, horizon=4).tolist()
    [48.0, 32.0]
    """
    return _episode_order(rate, states, actions, horizon, rewarding, power=3)


def base_moss(arms: int) -> Base:
    """MOSS-anytime with α = 1.35: E Reg ≤ 113 sqrt(A T), the constant that Degenne & Perchet (2016) publish.

    The constant is quoted, not derived here.

    >>> base_moss(4)
    Base(alpha=226.0, beta=0.5, constant=0.0)
    """
    return Base(113.0 * math.sqrt(whole(arms, "arms")), 0.5, 0.0)


def base_oful(
    rounds: int, dim: int, noise: float = 1.0, ridge: float = 1.0, length: float = 1.0, norm: float = 1.0,
    delta: float = 0.05,
) -> Base:  # fmt: skip
    """OFUL in expectation, up to `rounds` = T: α = 2 l_T v_T, β = 1/2, C = 2δT for the event that the bound fails.

    The regret of Theorem 3 without a budget; l and v grow, so α holds for all horizons up to T. δ = 1/T keeps C small.
    """
    T = whole(rounds, "rounds")
    radius, spread = _ellipsoid(np.array([float(T)]), dim, noise, ridge, length, norm, delta)
    return Base(float(2.0 * radius[0] * spread[0]), 0.5, 2.0 * delta * T)


def base_ucbvi(rounds: int, states: int, actions: int, horizon: int, delta: float = 0.05) -> Base:
    """UCBVI in expectation, up to `rounds` = T episodes: α = 36 L_T sqrt(SAH⁴), β = 1/2, C = 306 H³S²A L_T² + δHT.

    The regret of Theorem 4 without a budget; the last part is for the event that the bound fails.
    """
    T = whole(rounds, "rounds")
    S, A, H = _sizes(states, actions, horizon)
    L = float(_log_term(12.0, S, A, H, delta, np.array([float(T)]))[0])
    return Base(36.0 * L * math.sqrt(S * A * H**4), 0.5, 306.0 * H**3 * S**2 * A * L**2 + delta * H * T)


def first_useful(bound: ArrayLike, largest_loss: float) -> int | None:
    """The first horizon T at which a bound (T,) says more than the trivial largest_loss·T; None if it never does.

    >>> first_useful(cbm_ucb([100_000] * 1_000, arms=2), largest_loss=1)
    449
    """
    values = table(bound, "bound", "(T,)")
    if values.ndim != 1 or values.size == 0 or np.isnan(values).any():
        raise InvalidInput(f"bound must be numbers of shape (T,), one for each horizon, not shape {values.shape}")
    useful = values < number(largest_loss, "largest_loss", least=0.0) * _horizons(values)
    return int(np.argmax(useful)) + 1 if useful.any() else None


def _horizons(budget: Floats) -> Floats:
    """1, …, T."""
    return np.arange(1.0, budget.shape[-1] + 1.0)


def _capped_sum(factor: Floats, shape: Floats, cap: float) -> Floats:
    """Σ_{t ≤ T} min(factor_T · shape_t, cap) for every T: factor (T,) > 0, shape (…, T) falls along the rounds.

    Since it falls, the rounds that cost the cap come first, and a binary search finds their number for every T:
    T log T steps, not T².
    """
    reach = cap / factor  # a shape at or above this costs the cap
    rows = np.minimum(shape, reach.max()).reshape(
        -1, shape.shape[-1]
    )  # infinite ones and all that is capped for every T
    horizons = np.arange(1, shape.shape[-1] + 1)
    total: Floats = np.empty_like(rows)
    for row, result in zip(rows, total, strict=True):
        sums = np.concatenate(([0.0], np.cumsum(row)))
        capped = np.minimum(np.searchsorted(-row, -reach, side="right"), horizons)
        result[:] = cap * capped + factor * (sums[horizons] - sums[capped])
    return np.asarray(total.reshape(shape.shape))


def _arms_input(budget: ArrayLike, arms: int, total_cost: float | None, contexts: int) -> tuple[Floats, int, float]:
    """B, M and C."""
    cells = whole(arms, "arms") * whole(contexts, "contexts")
    cost = float(cells) if total_cost is None else number(total_cost, "total_cost", least=0.0)
    return growing(budget, "budget"), cells, cost


def _arms_bound(budget: Floats, cells: int, shape: Floats, explore: str = "always") -> Floats:
    """The common part of Theorem 2 and our sharper bounds; sqrt(6 log(MT)) times `shape` is the width when declined."""
    T = _horizons(budget)
    logarithm = np.log(np.maximum(cells * T, 2.0))  # a single arm in round 1 must not take log 1
    asked, factor = np.sqrt(24.0 * cells * T * logarithm) + cells * np.sqrt(6.0 * logarithm), np.sqrt(6.0 * logarithm)
    if explore == "asked":
        asked, factor = asked + cells * np.log(np.maximum(T / cells, 1.0)), factor + 1.0 / factor
    return np.asarray(asked + _capped_sum(factor, shape, 1.0) + 2.0)


def _declined_at(budget: Floats, cost: float) -> Floats:
    """1/sqrt(⌊B/C⌋ ∨ 1): R1 declines a cell only if n^q ≥ ⌊B/C⌋."""
    if cost == 0.0:
        return np.zeros_like(budget)
    with np.errstate(over="ignore"):
        return np.asarray(1.0 / np.sqrt(np.maximum(np.floor(budget / cost), 1.0)))


def _reserved(budget: Floats, reserve: float, least: float) -> Floats:
    """M(B) = min(ρB, max(B − B₀, 0)), B₀ = least/ρ: rounded as the rule does it. No limit stays none."""
    share = round(number(reserve, "reserve", least=0.0, most=1.0) * PARTS) / PARTS
    nothing = math.ceil(least / share * UNIT) / UNIT if share > 0.0 else 0.0
    finite = np.where(np.isinf(budget), 0.0, budget)
    return np.where(np.isinf(budget), budget, np.minimum(share * finite, np.maximum(finite - nothing, 0.0)))


def _prices(costs: ArrayLike) -> tuple[float, float]:
    """The least price that is not 0, and the largest: what is free is always asked about, and costs no budget."""
    prices = np.atleast_1d(table(costs, "costs", "(A,)"))
    if prices.ndim != 1 or not ((prices >= 0.0) & (prices < np.inf)).all() or not (prices > 0.0).any():
        raise InvalidInput("costs must be finite numbers ≥ 0 of shape (A,), and not all 0")
    return float(prices[prices > 0.0].min()), float(prices.max())


def _ellipsoid(
    T: Floats, dim: int, noise: float, ridge: float, length: float, norm: float, delta: float
) -> tuple[Floats, Floats]:
    """l_T and v_T."""
    d, sigma, D = whole(dim, "dim"), number(noise, "noise", least=0.0), number(norm, "norm", least=0.0)
    lam, L = (number(x, n, least=0.0, above=True) for x, n in ((ridge, "ridge"), (length, "length")))
    inside = np.log((1.0 + T * L**2 / lam) / probability(delta, "delta"))
    radius = np.maximum(1.0, sigma * np.sqrt(2.0 * d * inside) + math.sqrt(lam) * D)
    return radius, np.sqrt(2.0 * d * np.log1p(T * L**2 / (d * lam)))


def _sizes(states: int, actions: int, horizon: int) -> tuple[int, int, int]:
    return whole(states, "states"), whole(actions, "actions"), whole(horizon, "horizon")


def _episodes_input(
    budget: ArrayLike, states: int, actions: int, horizon: int, rewarding: int | None
) -> tuple[Floats, tuple[int, int, int], int]:
    """B, (S, A, H) and |L_R|."""
    S, A, H = _sizes(states, actions, horizon)
    R = S * A * H if rewarding is None else whole(rewarding, "rewarding", most=S * A * H)
    return growing(budget, "budget"), (S, A, H), R


def _episode_order(
    rate: ArrayLike, states: int, actions: int, horizon: int, rewarding: int | None, power: int
) -> Floats:
    """sqrt(SAH^power) + 2 sqrt(R H²/rate): the sums of 1/B are of the order log²(T), those of 1/sqrt(B) of sqrt(T)."""
    rates = table(rate, "rate", "numbers")
    if not (rates > 0.0).all():
        raise InvalidInput("rate must be numbers > 0")
    _, (S, A, H), R = _episodes_input([1.0], states, actions, horizon, rewarding)
    return np.asarray(math.sqrt(S * A * H**power) + 2.0 * np.sqrt(R * H**2 / rates))


def _log_term(constant: float, S: int, A: int, H: int, delta: float, T: Floats) -> Floats:
    """L_T = log(constant · S²AH T²(T+1)/δ)."""
    return np.asarray(np.log(constant * S**2 * A * H / probability(delta, "delta") * T**2 * (T + 1.0)))


def _theorem_4(T: Floats, S: int, A: int, H: int, delta: float) -> tuple[Floats, Floats]:
    """L_T, and what is lost without a limit on asking."""
    L = _log_term(12.0, S, A, H, delta, T)
    return L, np.asarray(36.0 * L * np.sqrt(S * A * H**4 * T) + 306.0 * H**3 * S**2 * A * L**2)


def _theorem_5(T: Floats, S: int, A: int, H: int, delta: float) -> tuple[Floats, Floats]:
    """L_T, and what is lost without a limit on asking."""
    L = _log_term(16.0, S, A, H, delta, T)
    return L, np.asarray(45.0 * L**2 * np.sqrt(S * A * H**3 * T) + 2904.0 * H**3 * S**2 * A * L**2)


def _cells_cost(sizes: tuple[int, int, int], total_cost: float | None) -> float:
    """C: S·A·H at unit cost."""
    return float(math.prod(sizes)) if total_cost is None else number(total_cost, "total_cost", least=0.0)


def _exact_episodes(B: Floats, sizes: tuple[int, int, int], R: int, cost: float, L: Floats, lasting: Floats) -> Floats:
    """With R1: a declined step is charged 3·CI^R, CI^R ≤ L·(2/sqrt(k) + 10/k) in L_R, and 10 L/k elsewhere."""
    H, root = sizes[2], _declined_at(B, cost)
    shape = 2.0 * min(H, R) * root + 10.0 * H * root**2
    return np.asarray(lasting + _capped_sum(3.0 * L, shape, float(H)))


def _episode_shape(B: Floats, S: int, A: int, H: int, R: int) -> Floats:
    """sqrt(R H²/B) + SAH² (log(1 + B) + 1)/B; 0 without a limit."""
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):
        shape = np.sqrt(R * H**2 / B) + S * A * H**2 * (np.log1p(B) + 1.0) / B
    return np.where(np.isinf(B), 0.0, shape)
