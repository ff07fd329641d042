"""The theorems as functions: against numbers worked out by hand, in their limits, and against each other."""

from __future__ import annotations

import functools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sparingly as sp
from sparingly.episodic.learner import log_term
from sparingly.linear.oful import simple_radius
from sparingly.rules.exact import least_asks
from sparingly.rules.intervals import variance_of
from sparingly.theory import lower, profiles, upper

T = 60
plain_radius = getattr(simple_radius, "py_func", simple_radius)  # compiled, it has no way in from Python
EPISODES = {"states": 3, "actions": 2, "horizon": 4}
BOUNDS = {
    "cbm_ucb": (lambda B, **o: upper.cbm_ucb(B, **({"arms": 3} | o)), 1.0),
    "exact_arms": (lambda B, **o: upper.exact_arms(B, **({"arms": 3} | o)), 1.0),
    "balanced_arms": (lambda B, **o: upper.balanced_arms(B, **({"arms": 3} | o)), 1.0),
    "cbm_oful": (lambda B, **o: upper.cbm_oful(B, **({"dim": 3} | o)), 2.0),
    "exact_oful": (lambda B, **o: upper.exact_oful(B, **({"dim": 3} | o)), 2.0),
    "balanced_oful": (lambda B, **o: upper.balanced_oful(B, **({"dim": 3} | o)), 2.0),
    "cbm_ucbvi": (lambda B, **o: upper.cbm_ucbvi(B, **(EPISODES | o)), 4.0),
    "cbm_ulcvi": (lambda B, **o: upper.cbm_ulcvi(B, **(EPISODES | o)), 4.0),
    "exact_ucbvi": (lambda B, **o: upper.exact_ucbvi(B, **(EPISODES | o)), 4.0),
    "exact_ulcvi": (lambda B, **o: upper.exact_ulcvi(B, **(EPISODES | o)), 4.0),
    "balanced_ucbvi": (lambda B, **o: upper.balanced_ucbvi(B, **(EPISODES | o)), 4.0),
    "balanced_ulcvi": (lambda B, **o: upper.balanced_ulcvi(B, **(EPISODES | o)), 4.0),
    "greedy": (
        lambda B, **o: upper.greedy_reduction(B, **({"alpha": 2.0, "beta": 0.5, "constant": 1.0} | o)),
        math.inf,
    ),
}
GROWING = [np.full(T, 200.0), np.arange(1.0, T + 1), np.arange(1.0, T + 1) ** 0.6, np.repeat([1.0, 1e3, 1e9], T // 3)]


@pytest.fixture(params=BOUNDS)
def bound(request):
    return BOUNDS[request.param][0]


def last(values):
    return float(np.asarray(values)[..., -1])


# By hand


def test_theorem_1_by_hand():
    got = upper.greedy_reduction([1, 2.9, 16], alpha=3.0, beta=0.25, constant=0.5)
    sums = np.cumsum([3 + 0.5, 3 / 2**0.75 + 0.25, 3 / 8 + 0.5 / 16])  # 2.9 counts as 2
    np.testing.assert_allclose(got, 3 * np.array([1, 2, 3]) ** 0.25 + 0.5 + sums)


@pytest.mark.parametrize("contexts", [1, 5])
@pytest.mark.parametrize("total_cost", [None, 0.5, 30.0])
def test_theorem_2_by_hand(contexts, total_cost):
    B = np.repeat([0.0, 1e3, 1e5, 1e7], 8)
    got = upper.cbm_ucb(B, arms=2, total_cost=total_cost, contexts=contexts)
    M = 2 * contexts
    C = M if total_cost is None else total_cost
    for T in (1, 9, 20, 32):
        log = math.log(M * T)
        declined = sum(min(4 * math.sqrt(6 * log * C / b), 1.0) if b else 1.0 for b in B[:T])
        expected = math.sqrt(24 * M * T * log) + M * math.sqrt(6 * log) + declined + 2
        assert got[T - 1] == pytest.approx(expected, rel=1e-12)


def test_r1_by_hand():
    B = np.repeat([0.0, 5.0, 1e3, 1e5], 8)
    got = upper.exact_arms(B, arms=3, total_cost=6.0)
    for T in (1, 9, 20, 32):
        log = math.log(3 * T)
        declined = sum(min(math.sqrt(6 * log / max(b // 6, 1)), 1.0) for b in B[:T])
        assert got[T - 1] == pytest.approx(math.sqrt(72 * T * log) + 3 * math.sqrt(6 * log) + declined + 2, rel=1e-12)


def test_r1_is_at_most_the_width_that_it_refuses_at():
    """No term exceeds sqrt(6 log(MT)·C/(B − C)), and asymptotically the sum is a quarter of the paper's."""
    B = np.full(1_000, 1e6)
    budget_parts = [f(B, arms=4) - f(np.full(1_000, np.inf), arms=4) for f in (upper.exact_arms, upper.cbm_ucb)]
    assert last(budget_parts[0]) <= 1_000 * math.sqrt(6 * math.log(4_000) * 4 / (1e6 - 4)) * (1 + 1e-9)
    assert last(budget_parts[1]) / last(budget_parts[0]) == pytest.approx(4.0, rel=1e-4)


@pytest.mark.parametrize("options", [{}, {"noise": 0.1, "ridge": 2.0, "length": 3.0, "norm": 0.5, "delta": 1e-3}])
def test_theorem_3_and_r2_by_hand(options):
    o = {"noise": 1.0, "ridge": 1.0, "length": 1.0, "norm": 1.0, "delta": 0.05} | options
    B = np.repeat([0.0, 7.5, 1e4, 1e7], 8)
    paper, ours = upper.cbm_oful(B, dim=4, **options), upper.exact_oful(B, dim=4, **options)
    for T in (1, 9, 20, 32):
        radius = plain_radius(4, T, o["noise"], o["delta"], o["ridge"], o["length"], o["norm"])
        v = math.sqrt(8 * math.log(1 + T * o["length"] ** 2 / (4 * o["ridge"])))
        declined = sum(min(2 * radius * v / math.sqrt(b), 2.0) if b else 2.0 for b in B[:T])
        assert paper[T - 1] == pytest.approx(2 * radius * v * math.sqrt(T) + declined, rel=1e-12)
        whole = [math.floor(b) + 1 for b in B[:T]]
        bars = [math.sqrt((1 + b * o["length"] ** 2 / (4 * o["ridge"])) ** (4 / b) - 1) for b in whole]
        declined = sum(min(2 * radius * e, 2.0) for e in bars)
        assert ours[T - 1] == pytest.approx(2 * radius * v * math.sqrt(T) + declined, rel=1e-9)


@pytest.mark.parametrize("costs", [[2.0, 2.0], [0.5, 0.0, 3.0]])
def test_r2_with_costs_by_hand(costs):
    """Equal prices count asks; others weigh log(1 + BL²/(c_min·dλ)) by the dearest price. What is free has no part."""
    B = np.repeat([0.0, 7.5, 1e4, 1e7], 8)
    o = {"noise": 0.1, "ridge": 2.0, "length": 3.0, "norm": 0.5, "delta": 1e-3}
    got, free = upper.exact_oful(B, 4, costs=costs, **o), upper.exact_oful(B + np.inf, 4, **o)
    for T in (1, 9, 20, 32):
        radius = plain_radius(4, T, 0.1, 1e-3, 2.0, 3.0, 0.5)
        declined = 0.0
        for budget in B[:T]:
            b = math.floor(budget / 2) + 1
            equal, unlike = 4 * math.log(1 + b * 9 / 8) / b, 3 * 4 * math.log(1 + budget / 0.5 * 9 / 8) / (budget or 1)
            exponent = equal if len(costs) == 2 else unlike if budget else 600
            declined += min(2 * radius * math.sqrt(math.expm1(exponent)), 2.0)
        assert got[T - 1] == pytest.approx(free[T - 1] + declined, rel=1e-9)
    np.testing.assert_array_equal(upper.exact_oful(B, 4, costs=[1, 1, 0]), upper.exact_oful(B, 4))
    np.testing.assert_allclose(upper.exact_oful(2 * B, 4, costs=2.0), upper.exact_oful(B, 4))


def test_it_is_the_dearest_price_that_counts_and_not_the_sum():
    """One dear action of 50 needs 200 × 50 × log, though Σ c is 249: a budget of 40,000 promises nothing at all."""
    dear, B = [200.0] + [1.0] * 49, np.full(100, 40_000.0)
    np.testing.assert_allclose(upper.exact_oful(B, 50, costs=dear), upper.exact_oful(0 * B, 50))
    assert last(upper.exact_oful(B * 1e5, 50, costs=dear)) < last(upper.exact_oful(B, 50, costs=dear))
    least = upper.least_budget(50, dear)
    square = math.expm1(200 * 50 * math.log1p(least / 50) / least)
    assert square == pytest.approx(1.0, rel=1e-9)  # there the bar is the first norm, L²/λ = 1
    assert upper.least_budget(7) == pytest.approx(7.0) and upper.least_budget(7, [3, 3, 0]) == pytest.approx(21.0)
    reserved = upper.balanced_oful(np.full(9, 1e7), 50, costs=dear)
    np.testing.assert_allclose(reserved, upper.exact_oful(np.full(9, 2.5e6), 50, costs=dear))


@pytest.mark.parametrize("rule", [sp.ExactMatching(explore="always"), sp.BalancedMatching(explore="always")], ids=repr)
@pytest.mark.parametrize("costs", [[1.0, 5.0, 0.0], [3.0, 0.5, 40.0]])
def test_with_costs_r2_and_r3_decline_only_below_their_bars(rule, costs):
    """log(1 + ‖x‖²) ≤ c·d·log(1 + B/(c_min·d))/B for a declined row of price c, and nothing is refused."""
    random, declined, dim = np.random.default_rng(0), 0, 3
    agent = sp.Agent(sp.OFUL(dim, radius="simple", costs=costs), rule=rule, budget=sp.budgets.Linear(0.7), seed=0)
    cheapest, dearest = min(c for c in costs if c), max(costs)
    for t in range(3_000):
        x = random.normal(size=(3, dim)) if t % 3 else np.eye(dim)[random.permutation(dim)]
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        reach = agent.radius
        d = agent.decide(context=x)
        if d.ask:
            agent.observe(d.id, 0.0)
            continue
        B = agent.ledger.granted
        if isinstance(rule, sp.BalancedMatching):
            B = min(B / 4, max(B - 4 * dearest * least_asks(dim, 1.0, 1.0), 0.0))
        if B > 0:
            rate = dim * math.log1p(B / (cheapest * dim)) / B
            bar = math.sqrt(math.expm1(min(costs[d.action] * rate, 600)))
            assert d.width <= 2 * max(reach, agent.radius) * bar * (1 + 1e-6)
            declined += bar < 1
    assert declined > 20
    assert agent.ledger.refused == 0


def test_r3_by_hand():
    """C = 6, ρ = 1/4: B₀ = 24, so M(23) = 0 and M(30) = 6; from B = 32 on it is a quarter: 8, 250, 25,000."""
    B, asks = np.repeat([23.0, 30.0, 32.0, 1e3, 1e5], 8), np.repeat([1, 1, 1, 41, 4166], 8)
    got = upper.balanced_arms(B, arms=3, total_cost=6.0)
    for T in (1, 9, 20, 32, 40):
        log = math.log(3 * T)
        f = math.sqrt(6 * log)
        declined = sum(min((f + 1 / f) / math.sqrt(n), 1.0) for n in asks[:T])
        asked = math.sqrt(72 * T * log) + 3 * f + 3 * math.log(max(T / 3, 1))
        assert got[T - 1] == pytest.approx(asked + declined + 2, rel=1e-12)


@pytest.mark.parametrize("reserve", [0.25, 0.5, 1.0])
def test_r3_is_r1_or_r2_with_less_budget(reserve):
    """From B₀/(1 − ρ) on with ρB, up to B₀ without any budget, and in between with B − B₀."""
    small, middle, large = np.linspace(0, 4 / reserve, T), np.linspace(10, 20, T), 4_000 + np.arange(T) ** 2
    for f, g, least in (
        (upper.exact_arms, functools.partial(upper.balanced_arms, reserve=reserve, explore="always"), 4.0),
        (upper.exact_oful, functools.partial(upper.balanced_oful, reserve=reserve), least_asks(4, 1.0, 1.0)),
    ):
        np.testing.assert_array_equal(g(small[small <= least / reserve], 4), f(0 * small[small <= least / reserve], 4))
        if reserve < 1.0:
            np.testing.assert_allclose(g(large, 4), f(reserve * large, 4), rtol=1e-12)
        else:  # all but B₀ is reserved, however large the budget is
            np.testing.assert_allclose(g(large / 40 + 0.3, 4), f(large / 40 + 0.3 - least, 4), rtol=1e-12)
        between = middle[middle <= least / (reserve * (1 - reserve) or 0.1)]
        np.testing.assert_allclose(g(between, 4), f(np.maximum(between - least / reserve - 1e-6, 0), 4), rtol=1e-6)


def test_without_a_reserve_nothing_is_bounded():
    B = np.full(T, 1e9)
    np.testing.assert_array_equal(upper.balanced_arms(B, 3, reserve=0.0), upper.balanced_arms(0 * B, 3))
    np.testing.assert_array_equal(upper.balanced_oful(B, 3, reserve=0.0), upper.balanced_oful(0 * B, 3))
    for wrong in ({"reserve": 1.5}, {"reserve": -0.1}, {"explore": "never"}):
        with pytest.raises(sp.InvalidInput, match=next(iter(wrong))):
            upper.balanced_arms(B, 3, **wrong)


def test_what_exploring_less_costs_is_of_lower_order():
    """1/f beside f = sqrt(6 log(MT)): the budget's part of the bound grows by a factor 1 + 1/(6 log(MT)), no more.

    The other part grows by M log(T/M).
    """
    B, no_limit = np.full(100_000, 1e6), np.full(100_000, np.inf)
    for f in (upper.exact_arms, upper.balanced_arms):
        parts = [last(f(B, 4, explore=e)) - last(f(no_limit, 4, explore=e)) for e in ("asked", "always")]
        assert parts[0] / parts[1] == pytest.approx(1 + 1 / (6 * math.log(4e5)), rel=1e-9)
        added = last(f(no_limit, 4, explore="asked")) - last(f(no_limit, 4, explore="always"))
        assert added == pytest.approx(4 * math.log(100_000 / 4), rel=1e-9)


@pytest.mark.parametrize("rewarding", [None, 2])
def test_theorems_4_and_5_by_hand(rewarding):
    S, A, H = 3, 2, 4
    B = np.repeat([0.0, 50.0, 1e12, 1e16], 8)
    R = S * A * H if rewarding is None else rewarding
    for f, learner, power, root, factor, constant in (
        (upper.cbm_ucbvi, sp.UCBVI, 1, 4, 36, 306),
        (upper.cbm_ulcvi, sp.ULCVI, 2, 3, 45, 2904),
    ):
        got = f(B, S, A, H, rewarding=rewarding, delta=0.1)
        for T in (1, 9, 20, 32):
            L = log_term(learner(S, A, H, delta=0.1).log_constant, T)
            scale = factor * L**power
            shapes = [math.sqrt(R / b) * H + S * A * H**2 * (math.log(1 + b) + 1) / b if b else math.inf for b in B[:T]]
            terms = [min(scale * shape, H) for shape in shapes]
            lasting = scale * math.sqrt(S * A * H**root * T) + constant * H**3 * S**2 * A * L**2
            assert got[T - 1] == pytest.approx(lasting + sum(terms), rel=1e-12)


@pytest.mark.parametrize(("rewarding", "total_cost"), [(None, None), (2, 6.0)])
def test_r1_and_r3_for_episodes_by_hand(rewarding, total_cost):
    S, A, H = 3, 2, 4
    B = np.repeat([0.0, 50.0, 1e6, 1e9], 8)
    steps = H if rewarding is None else min(H, rewarding)
    cost = S * A * H if total_cost is None else total_cost
    for exact, balanced, base, learner in (
        (upper.exact_ucbvi, upper.balanced_ucbvi, upper.cbm_ucbvi, sp.UCBVI),
        (upper.exact_ulcvi, upper.balanced_ulcvi, upper.cbm_ulcvi, sp.ULCVI),
    ):
        lasting = base(B + np.inf, S, A, H, delta=0.1)
        reserved = [min(b / 4, max(b - 4 * cost, 0.0)) for b in B]
        for f, budget in ((exact, B), (balanced, reserved)):
            got = f(B, S, A, H, rewarding=rewarding, delta=0.1, total_cost=total_cost)
            for T in (1, 9, 20, 32):
                L = log_term(learner(S, A, H, delta=0.1).log_constant, T)
                asks = [max(b // cost, 1) for b in budget[:T]]
                declined = sum(min(3 * L * (2 * steps / math.sqrt(k) + 10 * H / k), H) for k in asks)
                assert got[T - 1] == pytest.approx(lasting[T - 1] + declined, rel=1e-12)
        np.testing.assert_array_equal(exact(B + np.inf, S, A, H, rewarding), base(B + np.inf, S, A, H))


@pytest.mark.parametrize(("sizes", "rewarding"), [((3, 2, 4), 24), ((3, 2, 4), 4), ((30, 4, 5), 5)])
def test_what_r1_pays_for_not_knowing_the_rewarding_cells(sizes, rewarding):
    """With large budgets sqrt(SAH/|L_R|)/6 of what Theorem 4 charges: less, unless SAH > 36·|L_R|."""
    B = np.full(10, 1e14)
    free = [f(B + np.inf, *sizes) for f in (upper.exact_ucbvi, upper.cbm_ucbvi)]
    paid = [
        f(B, *sizes, rewarding=rewarding) - g for f, g in zip((upper.exact_ucbvi, upper.cbm_ucbvi), free, strict=True)
    ]
    ratio = math.sqrt(math.prod(sizes) / rewarding)
    assert last(paid[0]) / last(paid[1]) == pytest.approx(ratio / 6, rel=1e-2)


@pytest.mark.parametrize("n", [2, 3, 4, 7, 50])
def test_the_unbiased_variance_of_answers_is_at_most_a_half(n):
    """n/(4(n − 1)) at most, and 1/2 for two answers: what `exact_ucbvi` rests on, and what the learners compute."""
    spread = getattr(variance_of, "py_func", variance_of)
    worst = max(spread(ones * (n - ones) / n, n) for ones in range(n + 1))
    assert worst <= n / (4 * (n - 1)) + 1e-12 <= 0.5 + 1e-12
    assert worst == pytest.approx(np.var(np.arange(n) < n // 2, ddof=1))
    assert spread(0.0, 1) == 0.0


def test_bases():
    assert upper.base_moss(9) == (339.0, 0.5, 0.0)
    T, delta = 500, 0.01
    oful = upper.base_oful(T, dim=3, noise=0.2, delta=delta)
    assert oful.alpha * math.sqrt(T) == pytest.approx(
        last(upper.cbm_oful(np.full(T, np.inf), dim=3, noise=0.2, delta=delta))
    )
    assert (oful.beta, oful.constant) == (0.5, 2 * delta * T)
    ucbvi = upper.base_ucbvi(T, **EPISODES, delta=delta)
    unbudgeted = last(upper.cbm_ucbvi(np.full(T, np.inf), **EPISODES, delta=delta))
    assert ucbvi.alpha * math.sqrt(T) + ucbvi.constant == pytest.approx(unbudgeted + delta * 4 * T)
    everything = upper.greedy_reduction(np.arange(1, T + 1), *upper.base_moss(2), largest_loss=1.0)
    assert last(everything) == pytest.approx(113 * math.sqrt(2 * T) + T)  # 160/sqrt(B) is above 1 for so few asks


def test_the_capped_sum_is_the_direct_one():
    """The binary search against the definition, on budgets with steps and on several at once."""
    random = np.random.default_rng(0)
    shape = -np.sort(-(10 ** random.uniform(-4, 2, (3, 2, 40))), axis=-1)
    shape[0, 0, :5] = np.inf
    factor = np.sqrt(np.arange(1.0, 41.0))
    got = upper._capped_sum(factor, shape, 2.0)
    for T in range(1, 41):
        direct = np.minimum(factor[T - 1] * shape[..., :T], 2.0).sum(axis=-1)
        np.testing.assert_allclose(got[..., T - 1], direct, rtol=1e-12)


# Limits and order


@pytest.mark.parametrize("name", [n for n in BOUNDS if n != "greedy"])
def test_without_a_budget_every_round_costs_what_it_can_lose(name):
    f, largest = BOUNDS[name]
    nothing, no_limit = f(np.zeros(T)), f(np.full(T, np.inf))
    np.testing.assert_allclose(nothing - no_limit, largest * np.arange(1, T + 1), rtol=1e-9)
    np.testing.assert_allclose(f(np.full(T, 1e40)), no_limit, rtol=1e-9)


def test_greedy_in_the_limits():
    np.testing.assert_allclose(
        upper.greedy_reduction(np.full(T, np.inf), 2.0, 0.5, 3.0), 2 * np.sqrt(np.arange(1, T + 1)) + 3
    )
    late = upper.greedy_reduction([0, 0.5, 1, 1], 2.0, 0.5, 0.0, largest_loss=1.0)
    np.testing.assert_allclose(late, 2 * np.sqrt([1, 2, 3, 4]) + [1, 2, 3, 4])
    with pytest.raises(sp.InvalidInput, match="largest_loss"):
        upper.greedy_reduction([0, 1], 2.0, 0.5)


@pytest.mark.parametrize("budget", GROWING, ids=["fixed", "linear", "polynomial", "steps"])
def test_bounds_grow_with_the_horizon_and_fall_with_the_budget(bound, budget):
    values = bound(budget)
    assert values.shape == budget.shape
    assert (np.diff(values) > 0).all()
    assert (bound(budget + 1) <= values * (1 + 1e-12)).all()
    assert (bound(budget * 10) <= values * (1 + 1e-12)).all()
    assert last(bound(budget * 1e15)) < last(values)


@pytest.mark.parametrize(
    ("name", "larger", "smaller"),
    [
        ("cbm_ucb", [{"arms": 4}, {"contexts": 2}, {"total_cost": 9.0}], []),
        ("exact_arms", [{"arms": 4}, {"contexts": 2}, {"total_cost": 9.0}], []),
        (
            "balanced_arms",
            [{"arms": 4}, {"contexts": 2}, {"total_cost": 9.0}],
            [{"explore": "always"}, {"reserve": 0.5}],
        ),
        ("cbm_oful", [{"dim": 4}, {"noise": 2.0}, {"norm": 2.0}, {"length": 2.0}], [{"delta": 0.2}]),
        ("exact_oful", [{"dim": 4}, {"noise": 2.0}, {"norm": 2.0}, {"length": 2.0}], [{"delta": 0.2}]),
        ("balanced_oful", [{"dim": 4}, {"noise": 2.0}, {"norm": 2.0}], [{"delta": 0.2}, {"reserve": 0.5}]),
        ("cbm_ucbvi", [{"states": 4}, {"actions": 3}, {"horizon": 5}], [{"delta": 0.2}, {"rewarding": 3}]),
        ("cbm_ulcvi", [{"states": 4}, {"actions": 3}, {"horizon": 5}], [{"delta": 0.2}, {"rewarding": 3}]),
        *(
            (
                f"{rule}_{learner}",
                [{"states": 4}, {"actions": 3}, {"horizon": 5}, {"total_cost": 99.0}],
                [{"delta": 0.2}, {"rewarding": 3}] + [{"reserve": 0.5}] * (rule == "balanced"),
            )
            for rule in ("exact", "balanced")
            for learner in ("ucbvi", "ulcvi")
        ),
        ("greedy", [{"alpha": 3.0}, {"constant": 2.0}, {"beta": 0.6}], []),
    ],
)
def test_bounds_grow_with_the_size_of_the_problem(name, larger, smaller):
    f, budget = BOUNDS[name][0], np.arange(1.0, T + 1) * 1e12  # below, episodes are capped
    for options in larger:
        assert (f(budget, **options)[1:] > f(budget)[1:]).all(), options
    for options in smaller:
        assert (f(budget, **options) < f(budget)).all(), options


def test_many_budgets_at_once(bound):
    budgets = np.stack([GROWING[:2], GROWING[2:]])
    together = bound(budgets)
    assert together.shape == (2, 2, T)
    for i, j in np.ndindex(2, 2):
        np.testing.assert_array_equal(together[i, j], bound(budgets[i, j]))
    before = budgets.copy()
    bound(budgets)
    np.testing.assert_array_equal(budgets, before)


@given(
    steps=st.lists(st.floats(0, 1e6), min_size=1, max_size=30),
    arms=st.integers(2, 50),
    cost=st.floats(0.01, 1e3),
    dim=st.integers(1, 12),
)
def test_lower_bounds_are_below_upper_ones(steps, arms, cost, dim):
    B = np.cumsum(steps)
    costs = np.full(arms, cost)
    low = lower.varying_budget(B, costs)
    mine, paper = (f(B, arms, total_cost=costs.sum()) for f in (upper.exact_arms, upper.cbm_ucb))
    assert (low <= mine).all()
    assert (mine <= paper * (1 + 1e-12)).all()
    units = np.floor(B) + 1
    greedy = upper.greedy_reduction(units, *upper.base_moss(arms), largest_loss=1.0)
    assert (lower.varying_budget(units, np.ones(arms)) <= greedy).all()
    rounds = np.arange(1, B.size + 1)
    fixed = np.full(B.size, B[-1])
    assert (lower.unit_costs(rounds, arms, B[-1]) <= upper.exact_arms(fixed, arms)).all()
    # the linear instance: B ≥ d² keeps values in [−1, 1], ‖x‖ = sqrt(d), ‖θ‖ = sqrt(d/B)
    b = dim**2 + int(min(B[-1], 1_000))
    rounds, fixed = np.arange(b, b + 50), np.full(b + 49, float(b))
    options = {"dim": dim, "length": math.sqrt(dim), "norm": math.sqrt(dim / b), "delta": 0.01}
    low = lower.linear(rounds, dim, b)
    mine, paper = (f(fixed, **options)[b - 1 :] for f in (upper.exact_oful, upper.cbm_oful))
    assert (low <= mine).all()
    assert (mine <= paper * (1 + 1e-12)).all()


@given(
    increments=st.lists(st.integers(0, 1), min_size=2, max_size=60),
    dim=st.integers(1, 20),
    ridge=st.floats(0.1, 10),
)
def test_r2_is_no_worse_than_the_paper(increments, dim, ridge):
    """For B(t) ≤ t, where Theorem 3 is proved, every prefix of the sum is smaller."""
    B = np.cumsum(increments)
    paper, ours = (f(B, dim, ridge=ridge, noise=0.1, norm=0.1) for f in (upper.cbm_oful, upper.exact_oful))
    assert (ours <= paper * (1 + 1e-12)).all()


@pytest.mark.parametrize("dim", [1, 4])
@pytest.mark.parametrize("budget", [sp.budgets.Fixed(30), sp.budgets.Linear(0.3), sp.budgets.Sequence([0, 5.5, 60])])
@pytest.mark.parametrize("reserve", [None, 0.25, 0.75])
def test_r2_and_r3_decline_only_below_their_bars(dim, budget, reserve):
    """The derivations of `exact_oful` and `balanced_oful` on runs with hostile features.

    A declined ‖x‖ is at most ε(⌊B⌋ + 1), and for R3 at most ε(⌊M⌋ + 1).
    """
    random, declined = np.random.default_rng(0), 0
    rule = sp.ExactMatching() if reserve is None else sp.BalancedMatching(reserve, explore="always")
    agent = sp.Agent(sp.OFUL(dim, radius="simple"), rule=rule, budget=budget, seed=0)
    for t in range(600):
        x = random.normal(size=(3, dim)) if t % 3 else np.eye(dim)[np.arange(3) % dim]
        x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1.0)
        radius = agent.radius
        d = agent.decide(context=x)
        if d.ask:
            agent.observe(d.id, 0.0)
            continue
        B = agent.ledger.granted
        if reserve is not None:
            B = min(reserve * B, max(B - least_asks(dim, 1.0, 1.0) / reserve, 0.0))
        b = math.floor(B) + 1
        bar = math.sqrt((1 + b / dim) ** (dim / b) - 1)
        assert d.width <= 2 * max(radius, agent.radius) * bar * (1 + 1e-6)
        declined += 1
    assert declined > 100


@pytest.mark.parametrize(
    ("rule", "f"),
    [
        (sp.PaperMatching(), upper.cbm_ucb),
        (sp.ExactMatching(explore="always"), upper.exact_arms),
        (sp.ExactMatching(), functools.partial(upper.exact_arms, explore="asked")),
        (sp.BalancedMatching(), upper.balanced_arms),
    ],
    ids=["paper", "exact, always", "exact", "balanced"],
)
def test_runs_stay_below_the_bounds(rule, f):
    """Not a proof, but a bound that is wrong by a factor of ten would show."""
    problem, rounds = sp.problems.hidden_arm(3, budget=0), 2_000
    budget = sp.budgets.Linear(0.5)
    r = sp.simulate(problem, sp.UCB1(arms=3), rule, budget, rounds=rounds, runs=5)
    bound = f(0.5 * np.arange(1, rounds + 1), arms=3)
    assert (r.regret.mean(axis=0) <= bound[r.rounds - 1]).all()


def test_orders_of_theorems_4_and_5(monkeypatch):
    """By hand; and with a tiny L, where no episode is capped, they are what the bounds come to, but for constants."""
    assert upper.cbm_ucbvi_order(1.0, 3, 2, 4) == pytest.approx(math.sqrt(6 * 4**4) + 2 * math.sqrt(24 * 16))
    assert upper.cbm_ulcvi_order(0.5, 3, 2, 4, rewarding=2) == pytest.approx(math.sqrt(6 * 4**3) + 2 * math.sqrt(64))
    tiny, rounds = 1e-9, 2_000_000
    monkeypatch.setattr(upper, "_log_term", lambda constant, S, A, H, delta, T: np.full(T.shape, tiny))
    for rate in (1.0, 4.0):
        B = rate * np.arange(1.0, rounds + 1.0)
        for bound, order, unit in (
            (upper.cbm_ucbvi, upper.cbm_ucbvi_order, 36 * tiny),
            (upper.cbm_ulcvi, upper.cbm_ulcvi_order, 45 * tiny**2),
        ):
            constant = bound(np.full(2, np.inf), **EPISODES)  # a + b and a sqrt(2) + b
            fixed = constant[0] - (constant[1] - constant[0]) / (math.sqrt(2.0) - 1.0)
            T = np.array([20_000, 200_000, 2_000_000])
            off = (bound(B, **EPISODES)[T - 1] - fixed) / (unit * np.sqrt(T)) / order(rate, **EPISODES) - 1.0
            assert (off > 0).all() and (off[1:] < off[:-1] / 2).all() and off[-1] < 0.15  # like log²(T)/sqrt(T)
    for wrong in (0.0, -1.0, math.nan, "abc"):
        with pytest.raises(sp.InvalidInput):
            upper.cbm_ucbvi_order(wrong, 2, 2, 2)


# When a bound says something


def test_first_useful():
    assert upper.first_useful([5, 4, 2.9], largest_loss=1) == 3
    assert upper.first_useful([1, 2, 3], largest_loss=1) is None
    assert upper.first_useful([0.5, 9], largest_loss=1) == 1
    bound = upper.cbm_ucbvi(np.full(1_000, np.inf), 3, 2, 4)
    assert upper.first_useful(bound, largest_loss=4) is None  # vacuous for long: 306 H³S²A L² alone is over 10⁸
    for wrong in ([[1.0]], [], [math.nan], "abc"):
        with pytest.raises(sp.InvalidInput):
            upper.first_useful(wrong, largest_loss=1)


# Lower bounds and profiles


def test_lower_bounds_by_hand():
    assert lower.unit_costs(1_400, 9, 900) == pytest.approx(1.0)
    assert lower.unit_costs(1_400, 9, 4) == lower.unit_costs(1_400, 9, 0) == 10.0
    np.testing.assert_allclose(lower.unit_costs([140, 1_400], 4, [[16], [0]]), [[0.5, 5.0], [1.0, 10.0]])
    spread = 6 / (1 + math.log(3))
    assert lower.arm_costs(1_400, [1, 2, 3], 100) == pytest.approx(10 * math.sqrt(spread / 100))
    got = lower.varying_budget([0, 100, 400], [1, 2, 3])
    sums = np.cumsum([1, math.sqrt(spread / 100), math.sqrt(spread / 400)])
    np.testing.assert_allclose(got, sums / (140 * (1 + np.log([1, 2, 3]))))
    assert lower.linear(800, 5, 25) == 10.0
    assert (lower.varying_budget(np.zeros(5), [0, 0]) == 0).all()  # what is free teaches all
    assert (lower.varying_budget(np.full(5, np.inf), [1, 1]) == 0).all()
    assert lower.varying_budget(np.ones((4, 2, 7)), [1, 1]).shape == (4, 2, 7)


@pytest.mark.parametrize("power", [0.25, 0.5, 1.0])
def test_e11_a_budget_of_a_power_of_the_horizon(power):
    """B = T^β: the lower bound, the profile and what R1 pays for declining grow like T^(1 − β/2), not T^(1 − β)."""
    T = 10.0 ** np.array([6, 8])

    def slope(values):
        return math.log(values[1] / values[0]) / math.log(T[1] / T[0])

    assert slope(lower.unit_costs(T, 4, T**power)) == pytest.approx(1 - power / 2)
    assert slope([profiles.fixed(t, 4, t**power).bound for t in T]) == pytest.approx(1 - power / 2)
    assert profiles.polynomial(100, 4, power).rounds == 1 - power / 2
    small = np.array([10**3, 10**5])
    budgets = [np.full(t, float(t) ** power) for t in small]
    paid = [last(upper.exact_arms(B, 2)) - last(upper.exact_arms(0 * B + np.inf, 2)) for B in budgets]
    logs = np.sqrt(np.log(2.0 * small))
    grown = math.log(paid[1] / paid[0] * logs[0] / logs[1]) / math.log(100)
    assert grown == pytest.approx(1 - power / 2, abs=0.12)  # where few rounds are capped


def test_lower_bounds_rise_with_the_horizon_and_fall_with_the_budget():
    """A longer horizon costs more, each further unit of the budget no more; where a bound is not capped, less."""
    rounds, budgets = np.arange(1, 301), np.array([0, 1, 2, 5, 10, 50, 300])
    for bound in (
        lambda T, B: lower.unit_costs(T, 5, B),
        lambda T, B: lower.arm_costs(T, [3.0, 1.0, 0.5], B),
    ):
        values = bound(rounds[:, None], budgets)
        assert values.shape == (300, 7) and (values > 0).all()
        assert (np.diff(values, axis=0) > 0).all() and (np.diff(values, axis=1) <= 0).all()
        assert (np.diff(values[:, -3:], axis=1) < 0).all()  # beyond Σ c the min is the root
    values = lower.linear(np.arange(300, 600)[:, None], 3, budgets[1:])
    assert (np.diff(values, axis=0) > 0).all() and (np.diff(values, axis=1) < 0).all()


@given(st.lists(st.floats(0, 100), min_size=2, max_size=40), st.lists(st.floats(0, 100), min_size=40, max_size=40))
def test_the_corollary_falls_when_the_budget_is_raised(steps, more):
    """Raised in any rounds, by any amounts; and if only in the last one, what was before stays the same."""
    B, costs = np.cumsum(steps), [2.0, 1.0, 1.0]
    raised = np.maximum.accumulate(B + np.array(more[: B.size]))
    values = lower.varying_budget(B, costs)
    assert (lower.varying_budget(raised, costs) <= values * (1 + 1e-12)).all()
    late = np.concatenate((B[:-1], [B[-1] + 1_000.0]))
    assert (lower.varying_budget(late, costs)[:-1] == values[:-1]).all()
    assert lower.varying_budget(late, costs)[-1] < values[-1]


def test_the_corollary_rises_with_the_horizon():
    """Its sum grows by what a round costs, its logarithm by 1/T: for budgets that grow no faster than T it rises."""
    t = np.arange(1.0, 2_001.0)
    for B in (np.zeros(2_000), np.full(2_000, 7.0), 0.3 * t, t**0.5, t):
        values = lower.varying_budget(B, [3.0, 1.0, 0.5])
        assert (np.diff(values)[10:] > 0).all()


def test_the_varying_linear_bound_by_hand():
    """⌊B⌋, at most t and at least 1, under the root; weighted by 1/t it is never above the best single horizon."""
    B = np.array([0.0, 0.5, 2.9, 9.0, 9.0])
    asks = np.array([1, 1, 2, 4, 5])
    sums = np.cumsum(3 / np.sqrt(asks)) / (80 * (1 + np.log(np.arange(1, 6))))
    np.testing.assert_allclose(lower.varying_linear(B, 3), sums)
    assert lower.varying_linear(np.ones((4, 2, 7)), 2).shape == (4, 2, 7)
    t = np.arange(1, 301)
    for budget in (0.3 * t, t**0.5, np.where(t < 150, 0, 40.0), np.full(300, 7.0), np.full(300, np.inf)):
        single = np.array([lower.linear(s, 3, max(min(int(min(b, s)), s), 1)) for s, b in zip(t, budget, strict=True)])
        values = lower.varying_linear(budget, 3)
        assert (values <= np.maximum.accumulate(single) * (1 + 1e-12)).all()
        assert (lower.varying_linear(budget + 5, 3) <= values).all()
        upper_one = upper.exact_oful(budget, 3, length=math.sqrt(3), norm=math.sqrt(3), delta=0.01)
        assert (values <= upper_one).all()
    for wrong in ([2, 1], [-1], "abc"):
        with pytest.raises(sp.InvalidInput):
            lower.varying_linear(wrong, 2)


def test_the_corollary_is_below_the_worst_horizon():
    """Its average over horizons, weighted by 1/t, is never above the best single horizon of the proposition."""
    t, costs = np.arange(1, 201), [3.0, 1.0, 0.5]
    for B in (0.3 * t, t**0.5, np.where(t < 150, 0, 40.0), np.full(200, 7.0)):
        single = np.array([lower.arm_costs(s, costs, b) for s, b in zip(t, B, strict=True)])
        assert (lower.varying_budget(B, costs) <= np.maximum.accumulate(single) * (1 + 1e-12)).all()


PROFILES = {
    "linear": (lambda T, A: profiles.linear(T, A, rate=0.3), sp.budgets.Linear(0.3)),
    "polynomial": (lambda T, A: profiles.polynomial(T, A, power=0.6), sp.budgets.Polynomial(0.6)),
    "scaled": (lambda T, A: profiles.polynomial(T, A, 1.0, scale=5.0), sp.budgets.Polynomial(1.0, scale=5.0)),
    "fixed": (lambda T, A: profiles.fixed(T, A, amount=50), sp.budgets.Fixed(50)),
    "late": (lambda T, A: profiles.late(T, A, amount=50, start=700), sp.budgets.Late(50, start=700)),
    "periodic": (lambda T, A: profiles.periodic(T, A, amount=20, every=30), sp.budgets.Periodic(20, every=30)),
    "each round": (lambda T, A: profiles.periodic(T, A, amount=2, every=1), sp.budgets.Periodic(2, every=1)),
}


@pytest.mark.parametrize("name", PROFILES)
@pytest.mark.parametrize("arms", [1, 8])
def test_profiles_against_the_direct_sum(name, arms):
    """Every closed form is above the sum, by at most the constant of its integral, and exact where it is said to be."""
    make, budget = PROFILES[name]
    T = np.arange(1, 3_001)
    with np.errstate(divide="ignore"):
        terms = np.sqrt(arms / np.array([budget(int(t)) for t in T]))
    direct = np.cumsum(np.minimum(terms, 1.0) if name == "late" else terms)
    bound = make(T, arms).bound
    assert (direct <= bound * (1 + 1e-12)).all()
    assert bound[-1] <= direct[-1] * 1.1
    if name in ("fixed", "late"):
        np.testing.assert_allclose(bound, direct)


def test_profiles_grow_as_they_say():
    """Doubling T, the amount or the period multiplies the bound by two to the power of the exponent."""
    T = 3 * 2**20
    cases = [
        (lambda T, x, n: profiles.linear(T, 4, x), 0.1, 1),
        (lambda T, x, n: profiles.polynomial(T, 4, 0.6, x), 1.0, 1),
        (lambda T, x, n: profiles.fixed(T, 4, x), 90.0, 1),
        (lambda T, x, n: profiles.late(T, 4, x, T - int(x) + 1), 64.0, 1),
        (lambda T, x, n: profiles.periodic(T, 4, x, n), 64.0, 8),
    ]
    for make, x, n in cases:
        one = make(T, x, n)
        assert make(2 * T, x, n).bound / one.bound == pytest.approx(2**one.rounds, rel=1e-4)
        assert make(T, 2 * x, n).bound / one.bound == pytest.approx(2**one.amount, rel=1e-4)
        assert make(T, x, 2 * n).bound / one.bound == pytest.approx(2**one.every, rel=1e-4)


# Bad input


@pytest.mark.parametrize(
    ("budget", "message"),
    [
        ([1, -1], "≥ 0"),
        ([1, math.nan], "≥ 0"),
        ([3, 2], "falls from round 1 to round 2"),
        ([[1, 2], [5, 4]], "falls from round 1 to round 2"),
        ([], "shape"),
        (3.0, "shape"),
        ("abc", "numbers"),
    ],
)
def test_bad_budgets_are_refused(bound, budget, message):
    with pytest.raises(sp.InvalidInput, match=message):
        bound(budget)
    with pytest.raises(sp.InvalidInput, match=message):
        lower.varying_budget(budget, [1, 1])


@pytest.mark.parametrize(
    "call",
    [
        lambda: upper.cbm_ucb([1], arms=0),
        lambda: upper.cbm_ucb([1], arms=2, total_cost=-1),
        lambda: upper.exact_arms([1], arms=2, contexts=1.5),
        lambda: upper.cbm_oful([1], dim=0),
        lambda: upper.cbm_oful([1], dim=2, delta=1.0),
        lambda: upper.exact_oful([1], dim=2, ridge=0.0),
        lambda: upper.exact_oful([1], dim=2, costs=[0.0, 0.0]),
        lambda: upper.exact_oful([1], dim=2, costs=[1.0, -1.0]),
        lambda: upper.least_budget(2, costs=[math.inf]),
        lambda: upper.least_budget(0),
        lambda: upper.exact_oful([1], dim=2, length=math.nan),
        lambda: upper.cbm_ucbvi([1], 2, 2, 2, rewarding=9),
        lambda: upper.cbm_ulcvi([1], 2, 2, 2, delta=0.0),
        lambda: upper.exact_ucbvi([1], 2, 2, 2, total_cost=-1),
        lambda: upper.exact_ulcvi([1], 2, 2, 2, rewarding=9),
        lambda: upper.balanced_ucbvi([1], 2, 2, 2, reserve=2.0),
        lambda: upper.balanced_ulcvi([1], 0, 2, 2),
        lambda: upper.greedy_reduction([1], alpha=-1.0, beta=0.5),
        lambda: upper.greedy_reduction([1], alpha=1.0, beta=1.5),
        lambda: upper.base_moss(0),
        lambda: upper.base_oful(0, dim=2),
        lambda: upper.base_ucbvi(10, 0, 2, 2),
        lambda: lower.unit_costs(10, 1, 5),
        lambda: lower.unit_costs(0, 2, 5),
        lambda: lower.unit_costs(1.5, 2, 5),
        lambda: lower.unit_costs(10, 2, -5),
        lambda: lower.arm_costs(10, [1], 5),
        lambda: lower.arm_costs(10, [1, -1], 5),
        lambda: lower.arm_costs(10, [1, math.nan], 5),
        lambda: lower.linear(10, 2, 11),
        lambda: lower.linear(10, 2, 0),
        lambda: lower.linear(10, 2, 2.5),
        lambda: lower.linear(10, 2, math.nan),
        lambda: profiles.linear(10, 2, 0.0),
        lambda: profiles.polynomial(10, 2, 1.5),
        lambda: profiles.fixed(10, 2, 0),
        lambda: profiles.late(10, 2, 5, 0),
        lambda: profiles.periodic(10, 2, 5, 0),
    ],
)
def test_bad_numbers_are_refused(call):
    with pytest.raises(sp.InvalidInput):
        call()
