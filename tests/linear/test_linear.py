"""OFUL: against direct solves and the formulas of the paper; the agent with features; linear simulations."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparingly as sp
from sparingly.ledger import UNIT
from sparingly.linear import round as linear
from sparingly.linear.family import LinearFamily, make_memory
from sparingly.linear.memory import SAMPLED, open_memory
from sparingly.rules.exact import exact_bar, potential
from sparingly.rules.paper import paper_bar
from tests.conftest import RULES, interpreted, same


def random_rows(random: np.random.Generator, rows: int, d: int) -> np.ndarray:
    X = random.normal(size=(rows, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


STREAMS = {
    "directions": lambda random, n, d: random_rows(random, n, d),
    "lengths from 1e-6 to 1": lambda random, n, d: random_rows(random, n, d) * 10 ** random.uniform(-6, 0, (n, 1)),
    "nearly collinear": lambda random, n, d: 0.9 * random_rows(random, 1, d) + 1e-5 * random_rows(random, n, d),
}


def fresh(learner: sp.OFUL) -> np.ndarray:
    """A memory in which one ellipsoid serves learner and rule, as in a simulation."""
    return make_memory(LinearFamily.make_pair(learner, sp.Always()), learner, np.uint64(0), together=True)


@pytest.mark.slow
@pytest.mark.parametrize("stream", STREAMS)
def test_a_million_updates_lose_no_digits(stream):
    """θ̂, V⁻¹ and log det V agree with a direct solve, its sums in extended precision, to 1e-8."""
    random, d, n = np.random.default_rng(0), 6, 1_000_000
    X, R = STREAMS[stream](random, n, d), random.normal(size=n)
    words = fresh(sp.OFUL(d))
    for x, r in zip(X, R.tolist(), strict=True):
        linear.learn(words, x, r)
    m = open_memory(words, None)
    exact = X.astype(np.longdouble)
    V = np.array([[np.sum(exact[:, i] * exact[:, j]) for j in range(d)] for i in range(d)]) + np.eye(d)
    b = np.array([np.sum(exact[:, i] * R) for i in range(d)]).astype(float)
    V = V.astype(float)
    inverse = np.linalg.inv(V)
    theta = np.linalg.solve(V, b)
    assert np.linalg.norm(m.known.inverse - inverse) <= 1e-8 * np.linalg.norm(inverse)
    assert np.linalg.norm(m.theta - theta) <= 1e-8 * np.linalg.norm(theta)
    assert m.known.sizes["log_det"][0] == pytest.approx(np.linalg.slogdet(V)[1], rel=1e-8)
    assert m.known.sizes["tr"][0] == pytest.approx(np.trace(V), rel=1e-8)


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    d=st.integers(1, 9),
    actions=st.integers(1, 12),
    asks=st.integers(0, 90),
    radius=st.sampled_from(["simple", "determinant"]),
    ridge=st.sampled_from([0.1, 1.0, 7.0]),
    scale=st.sampled_from([0.0, 0.1, 1.0]),
)
def test_every_quantity_agrees_with_a_direct_solve(seed, d, actions, asks, radius, ridge, scale):
    random = np.random.default_rng(seed)
    noise, delta, D = 0.3, 0.1, 1.7
    learner = sp.OFUL(d, noise=noise, delta=delta, ridge=ridge, norm=D, radius=radius, scale=scale)
    agent = sp.Agent(learner, rule=sp.PaperMatching(), budget=50 * d, seed=0)
    V, b = ridge * np.eye(d), np.zeros(d)
    for x in random_rows(random, asks, d):
        r = float(random.normal())
        linear.learn(agent._family.words, x, r)
        V, b = V + np.outer(x, x), b + r * x
    X = random_rows(random, actions, d) * random.uniform(0.1, 1, (actions, 1))
    inverse, theta = np.linalg.inv(V), np.linalg.solve(V, b)
    np.testing.assert_allclose(agent.theta, theta, atol=1e-10)
    if radius == "simple":  # no round was lived through yet: l_0
        reach = max(1, noise * math.sqrt(2 * d * math.log(1 / delta)) + math.sqrt(ridge) * D)
    else:
        grown = np.linalg.slogdet(V)[1] - d * math.log(ridge)
        reach = max(1, noise * math.sqrt(grown + 2 * math.log(1 / delta)) + math.sqrt(ridge) * D)
    index = X @ theta + scale * reach * np.sqrt(np.einsum("ij,jk,ik->i", X, inverse, X))
    decision = agent.decide(X)
    assert index[decision.action] >= index.max() - 1e-9
    norm = np.linalg.norm(X[decision.action]) / math.sqrt(ridge)  # nothing was asked for yet: the rule's V is λI
    assert decision.width == pytest.approx(2 * reach * norm, rel=1e-9)
    B = 50 * d
    v = math.sqrt(2 * d * math.log(1 + B / (d * ridge)))
    if v * v <= B:
        assert decision.threshold == pytest.approx(2 * reach * v / math.sqrt(B), rel=1e-9)
        assert decision.ask == (min(norm, 1) >= v / math.sqrt(B))


def test_the_simple_radius_grows_with_the_rounds():
    """l_{t−1} counts all rounds before this one, asked about or not; the index, the width and the view have it."""
    d, noise, delta, ridge, D = 3, 0.3, 0.1, 2.0, 1.5
    learner = sp.OFUL(d, noise=noise, delta=delta, ridge=ridge, norm=D, radius="simple")
    agent, random = sp.Agent(learner, rule=sp.ExactMatching(), budget=20, seed=0), np.random.default_rng(0)
    V = ridge * np.eye(d)
    for t in range(1, 400):
        reach = noise * math.sqrt(2 * d * math.log((1 + (t - 1) / ridge) / delta)) + math.sqrt(ridge) * D
        assert agent.radius == pytest.approx(reach, rel=1e-12)
        X = random_rows(random, 1, d)
        decision = agent.decide(X)
        assert decision.width == pytest.approx(2 * reach * math.sqrt(X[0] @ np.linalg.solve(V, X[0])), rel=1e-9)
        if decision.ask:
            V += np.outer(X[0], X[0])
            agent.observe(decision.id, float(random.normal()))
    assert 0 < agent.ledger.spent <= 20


def test_scores_by_hand():
    """(UCB of the runner-up − LCB of x) · Σ ⟨z, V⁻¹x⟩²/(1 + ‖x‖²), over the last 32 rows z that were proposed."""
    random, d = np.random.default_rng(0), 3
    agent, V, rows = sp.Agent(sp.OFUL(d, scale=0.5, ties="first"), budget=40, seed=0), np.eye(d), []
    for _ in range(100):
        X, bonus = random_rows(random, 4, d) * random.uniform(0.3, 1, (4, 1)), 0.5 * agent.radius
        inverse, values = np.linalg.inv(V), X @ agent.theta
        norms = np.sqrt(np.einsum("ij,jk,ik->i", X, inverse, X))
        indices = values + bonus * norms
        a = int(np.argmax(indices))
        rows = [*rows, X[a]][-SAMPLED:]
        overlap = max(np.delete(indices, a)) - (values[a] - bonus * norms[a])
        expected = overlap * ((np.array(rows) @ inverse @ X[a]) ** 2).sum() / (1 + norms[a] ** 2)
        decision = agent.decide(X)
        assert agent._family.memory.pace.state[0].score == pytest.approx(expected, rel=1e-6)
        if decision.ask:
            V += np.outer(X[a], X[a])
            agent.observe(decision.id, float(random.normal()))
    assert agent.ledger.spent > 10


def test_greedys_reservoir_is_uniform_and_holds_what_it_says():
    """After l policies the kept one is each of them with probability 1/l (chi-square, false alarms 1e-6), as it was."""
    from scipy.stats import chi2

    kept, X = np.zeros(4), np.eye(2)
    for seed in range(1_200):
        agent, past = sp.Agent(sp.OFUL(2, radius="simple"), rule=sp.Greedy(), budget=4, seed=seed), []
        for _ in range(4):
            past.append([*agent.theta, agent.radius])
            agent.observe(agent.decide(X).id, 1.0 + seed % 7)
        reservoir = agent._family.memory.reservoir
        policy = reservoir.policies[0].view(np.float64)
        np.testing.assert_allclose([*policy[1:3], policy[0]], past[int(reservoir.since[0]) - 1], rtol=1e-12)
        kept[reservoir.since[0] - 1] += 1
    assert ((kept - 300) ** 2 / 300).sum() < chi2.ppf(1 - 1e-6, 3)


def test_greedy_acts_with_a_past_policy():
    """Where the budget does not pay. The past is changed here, to tell it from the present."""
    agent = sp.Agent(sp.OFUL(2, ties="first"), rule=sp.Greedy(), budget=1, seed=0)
    agent.observe(agent.decide(np.eye(2)).id, 1.0)
    for row in (0, 1):
        agent._family.memory.reservoir.policies[0].view(np.float64)[1:3] = 100 * np.eye(2)[row]
        assert agent.decide(np.eye(2)).action == row


def test_out_of_budget_the_best_estimate_is_played():
    """⟨x, θ̂⟩ decides, without the bonus, which is larger in the direction that nobody has asked about."""
    for explore, row in (("asked", 0), ("always", 1)):
        agent = sp.Agent(sp.OFUL(2), rule=sp.Never(explore=explore), budget=0, seed=0)
        for _ in range(20):
            linear.learn(agent._family.words, np.array([1.0, 0.0]), 0.5)
            linear.count_ask(agent._family.words, None, np.array([1.0, 0.0]), UNIT)
        assert agent.decide(np.eye(2)).action == row


def test_e4_nothing_is_asked_while_the_bar_is_above_one():
    """v_B² > B: the clip min(‖x‖, 1) matters. With λ = 0.01 the width is 10, and the paper's other form would ask."""
    assert paper_bar(4, 0.01, 1.0, 10 * UNIT) == math.inf
    v = math.sqrt(2 * 4 * math.log(1 + 10 / (4 * 0.01)))
    assert v / math.sqrt(10) <= 10  # "or, alternatively, norm ≥ v_B/sqrt B"
    agent = sp.Agent(sp.OFUL(4, ridge=0.01), rule=sp.PaperMatching(), budget=10, seed=0)
    assert not agent.decide(np.eye(4)).ask


def most_asks(epsilon: float, d: int, L: float, log_det: float, trace: float) -> int:
    """N(ε) by brute force: the largest n with n·log(1 + ε²) ≤ d·log((tr V + nL²)/d) − log det V."""
    n = 0
    while n < 100_000 and (n + 1) * math.log1p(epsilon**2) <= potential(d, L, log_det, trace, n + 1.0):
        n += 1
    return n


@settings(max_examples=100)
@given(
    seed=st.integers(0, 2**32), d=st.integers(1, 6), asks=st.integers(0, 60), left=st.integers(0, 300),
    factor=st.sampled_from([0.5, 0.9, 0.999, 1.001, 1.1, 2.0]),
)  # fmt: skip
def test_r2_is_its_definition(seed, d, asks, left, factor):
    """Ask if N(ε) ≤ B − spent: the bar in closed form is where the brute-force N crosses the budget."""
    V = np.eye(d) + sum((np.outer(x, x) for x in random_rows(np.random.default_rng(seed), asks, d)), np.zeros((d, d)))
    log_det, trace = float(np.linalg.slogdet(V)[1]), float(np.trace(V))
    bar = exact_bar(d, 1.0, log_det, trace, left * UNIT, UNIT, UNIT, UNIT)
    assert bar > 0  # a bar of 0 would make the comparison below say nothing
    epsilon = bar * factor
    if epsilon > 1e-3:
        assert (most_asks(epsilon, d, 1.0, log_det, trace) <= left) == (epsilon > bar)


@pytest.mark.parametrize("left", [0, 1, 10**6, 10**12, 10**18])
@pytest.mark.parametrize("log_det", [-300.0, 0.0, 1e4])
@pytest.mark.parametrize("trace", [1e-12, 1.0, 1e15])
def test_r2_never_fails_on_extreme_arguments(left, log_det, trace):
    bar = exact_bar(3, 1.0, log_det, trace, left, UNIT, UNIT, UNIT)
    assert bar >= 0
    assert not math.isnan(bar)


def play(agent, data, rounds, d, actions):
    """An adversary that picks grants, features and answers, knowing everything."""
    bars = []
    directions = np.vstack([np.eye(d), -np.eye(d), np.ones((1, d)) / math.sqrt(d)])
    for _ in range(rounds):
        agent.grant(data.draw(st.sampled_from([0.0, 0.0, 1.0, 0.3, 5.0])))
        places = data.draw(st.lists(st.integers(0, 2 * d), min_size=actions, max_size=actions))
        lengths = data.draw(st.lists(st.sampled_from([1.0, 0.5, 1e-3]), min_size=actions, max_size=actions))
        decision = agent.decide(directions[places] * np.array(lengths)[:, None])
        if decision.ask and data.draw(st.booleans()):
            agent.observe(decision.id, data.draw(st.sampled_from([-1.0, 0.0, 1.0])))
        bars.append(exact_threshold(agent))
        assert agent.ledger.spent <= agent.ledger.granted
    return bars


def exact_threshold(agent):
    m = agent._family.memory
    left, sizes = agent.ledger.granted_units - agent.ledger.spent_units, m.asked.sizes[0]
    return exact_bar(m.theta.size, 1.0, sizes.log_det, sizes.tr, left, UNIT, UNIT, UNIT)


@settings(max_examples=80)
@given(data=st.data(), d=st.integers(1, 4), actions=st.integers(1, 3))
def test_r2_is_never_refused_and_its_threshold_never_rises(data, d, actions):
    agent = sp.Agent(sp.OFUL(d), rule=sp.ExactMatching(), budget=0, seed=0)
    bars = play(agent, data, data.draw(st.integers(1, 40)), d, actions)
    assert agent.ledger.refused == 0
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in itertools.pairwise(bars))


@settings(max_examples=60)
@given(data=st.data(), d=st.integers(1, 4))
def test_paper_matching_is_never_refused(data, d):
    agent = sp.Agent(sp.OFUL(d), rule=sp.PaperMatching(), budget=0, seed=0)
    play(agent, data, data.draw(st.integers(1, 40)), d, 2)
    assert agent.ledger.refused == 0


@settings(max_examples=60)
@given(data=st.data(), costs=st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=2, max_size=2))
def test_r2_with_costs_is_never_refused(data, costs):
    agent = sp.Agent(sp.OFUL(2, costs=costs), rule=sp.ExactMatching(), budget=0, seed=0)
    play(agent, data, data.draw(st.integers(1, 40)), 2, 2)
    assert agent.ledger.refused == 0


def most_cost(rate: float, d: int, log_det: float, trace: float, cheapest: float) -> float:
    """K(ρ) by brute force, in steps of a hundredth."""
    amount = 0.0
    while amount < 400 and rate * (amount + 0.01) <= potential(d, 1.0, log_det, trace, (amount + 0.01) / cheapest):
        amount += 0.01
    return amount


@settings(max_examples=60)
@given(
    seed=st.integers(0, 2**32), d=st.integers(1, 4), asks=st.integers(0, 40), left=st.integers(1, 100),
    price=st.sampled_from([0.5, 1.0, 3.0]), factor=st.sampled_from([0.5, 0.9, 1.1, 2.0]),
)  # fmt: skip
def test_r2_with_costs_is_its_definition(seed, d, asks, left, price, factor):
    """Ask if K(ρ) ≤ B − spent, with ρ = log(1 + ε²)/c and c_min = 0.5."""
    V = np.eye(d) + sum((np.outer(x, x) for x in random_rows(np.random.default_rng(seed), asks, d)), np.zeros((d, d)))
    log_det, trace = float(np.linalg.slogdet(V)[1]), float(np.trace(V))
    bar = exact_bar(d, 1.0, log_det, trace, left * UNIT, int(price * UNIT), UNIT // 2, 3 * UNIT)
    assert bar > 0  # a bar of 0 would make the comparison below say nothing
    epsilon = bar * factor
    amount = most_cost(math.log1p(epsilon**2) / price, d, log_det, trace, 0.5)
    if abs(amount - left) > 0.02 and amount < 399:
        assert (amount <= left) == (epsilon > bar)


def test_free_asks_do_not_raise_the_bar():
    """Three units pay for four asks of width 0.85; with the free ones counted the bar would be 2."""
    agent = sp.Agent(sp.OFUL(2, costs=[0, 1]), rule=sp.ExactMatching(), budget=3, seed=0)
    for _ in range(3_000):  # the second action is of no use, so that the first is played
        assert agent.decide(np.array([[1.0, 0.0], [0.0, 0.0]])).ask
    assert agent.ledger.spent == 0
    assert agent.decide(np.array([[0.0, 0.0], [0.0, 1.0]])).ask
    assert agent.ledger.spent == 1


def test_no_limit_means_no_limit():
    agent = sp.Agent(sp.OFUL(2, costs=[4.9e8, 4.9e8]), rule=sp.ExactMatching(), budget=math.inf, seed=0)
    assert all(agent.decide(np.eye(2)).ask for _ in range(12_000))


def test_costs_given_to_the_agent_count(tmp_path):
    agent = sp.Agent(sp.OFUL(2), budget=100, costs=[50, 50], seed=0)
    asks = [agent.decide(np.eye(2)).ask for _ in range(5)]
    assert agent.ledger.spent == 50 * sum(asks) <= 100
    with pytest.raises(sp.InvalidInput, match="unit costs"):
        sp.Agent(sp.OFUL(2), rule=sp.PaperMatching(), budget=1, costs=[1, 2])
    priced = sp.Agent(sp.OFUL(2, costs=[1, 2]), budget=100, seed=0)
    priced.decide(np.eye(2))
    priced.save(tmp_path / "a.json")  # with an answer awaited
    assert sp.Agent.load(tmp_path / "a.json").awaited == (1,)


@pytest.mark.parametrize(("ridge", "length"), [(1.0, 1e4), (1e-8, 1.0), (1.0, 1e3), (100.0, 0.01)])
def test_no_ridge_and_no_length_costs_digits(ridge, length):
    """θ̂ against a direct solve between two refreshes, for λ and L that are far apart."""
    random = np.random.default_rng(0)
    words = fresh(sp.OFUL(6, ridge=ridge, length=length))
    V, b = ridge * np.eye(6), np.zeros(6)
    for x in length * random_rows(random, 60, 6):
        r = float(random.normal())
        linear.learn(words, x, r)
        V, b = V + np.outer(x, x), b + r * x
    theta = np.linalg.solve(V, b)
    assert np.linalg.norm(open_memory(words, None).theta - theta) <= 1e-8 * np.linalg.norm(theta)


def test_simulate_checks_what_it_draws():
    with pytest.raises(sp.InvalidInput, match="length=5"):
        sp.simulate(sp.problems.Linear([0.6, 0.8], arms=5 * np.eye(2)), sp.OFUL(2), sp.Never(), 1, rounds=5, runs=1)
    with pytest.raises(sp.InvalidInput, match="costs are given for 2 actions"):
        sp.simulate(sp.problems.Linear([1.0], arms=np.ones((8, 1)), costs=[1, 2]), sp.OFUL(1), sp.Never(), 1)
    with pytest.raises(sp.InvalidInput, match="WhenContext"):
        sp.simulate(sp.problems.Linear([1.0], arms=[[1.0]]), sp.OFUL(1), sp.Never(), sp.budgets.WhenContext(0))

    class Wrong(sp.features.Sphere):
        def draw(self, random, first, count, grew, dim):
            return np.zeros((count, self.arms + 1, dim))

    with pytest.raises(sp.InvalidInput, match="gave features of shape"):
        sp.simulate(sp.problems.Linear([1.0, 0.0], arms=Wrong(2)), sp.OFUL(2), sp.Never(), 1, rounds=5, runs=1)


@pytest.mark.parametrize("rule", [r for r in RULES["linear"] if not isinstance(r, sp.Greedy)], ids=repr)
def test_the_threshold_tells_what_was_done(rule):
    agent = sp.Agent(sp.OFUL(2), rule=rule, budget=sp.budgets.Linear(0.4), seed=0)
    random = np.random.default_rng(0)
    for _ in range(300):
        refused = agent.ledger.refused
        d = agent.decide(np.vstack([random_rows(random, 2, 2), np.zeros((1, 2))]))
        if agent.ledger.refused == refused:
            assert d.ask == (d.width >= d.threshold)
        if d.ask:
            agent.observe(d.id, float(random.normal()))


def test_paper_matching_refuses_costs():
    with pytest.raises(sp.InvalidInput, match="unit costs"):
        sp.Agent(sp.OFUL(2, costs=[1, 2]), rule=sp.PaperMatching(), budget=1)
    sp.Agent(sp.OFUL(2, costs=[1, 1]), rule=sp.PaperMatching(), budget=1)


def coverage(radius: str, share: float, runs: int) -> float:
    """How often θ lies within a share of the radius in every round, if asks are skipped adversarially.

    The adversary lets an ask happen only if the noise of the round before was not positive.
    """
    d, delta, noise, inside = 3, 0.1, 0.5, 0
    for seed in range(runs):
        random = np.random.default_rng(seed)
        theta, skip, good = random_rows(random, 1, d)[0], False, True
        agent = sp.Agent(sp.OFUL(d, noise=noise, delta=delta, radius=radius), rule=sp.Never(), seed=0)
        m = agent._family.memory
        for x in random_rows(random, 40, d):
            shock = noise * random.normal()
            agent.decide(x[np.newaxis])
            if not skip:
                linear.learn(agent._family.words, x, float(x @ theta + shock))
            skip = shock > 0
            error = m.theta - theta
            good &= bool(error @ np.linalg.solve(m.known.inverse, error) <= (share * agent.radius) ** 2)
        inside += good
    return inside / runs


def test_theta_stays_in_the_ellipsoid():
    """δ = 0.1: at least 90 % of 2,000 runs. The true share is above 99 %, so chance has no part in it."""
    assert coverage("determinant", 1.0, runs=2_000) >= 0.9


def test_coverage_can_fail():
    assert coverage("simple", 1.0, runs=100) == 1.0
    assert coverage("determinant", 0.35, runs=100) < 0.9


@pytest.mark.parametrize(
    ("features", "message"),
    [
        (None, "features must"),
        ([0.1, 0.2], "shape"),
        ([[0.1, 0.2]], "shape"),
        (np.zeros((0, 3)), "shape"),
        ([[0.1, 0.2, "x"]], "features must be numbers"),
        ([[0.1, 0.2, math.nan]], "finite"),
        ([[0.1, 0.2, math.inf]], "finite"),
        ([[1.0, 1.0, 1.0]], "no longer than length=1"),
    ],
)
def test_bad_features_change_nothing(features, message):
    agent = sp.Agent(sp.OFUL(3), budget=5, seed=0)
    before = agent._family.words.tobytes()
    with pytest.raises(sp.InvalidInput, match=message):
        agent.decide(features)
    assert agent._family.words.tobytes() == before


@pytest.mark.parametrize("reward", [math.nan, math.inf, "1", None, [1.0]])
def test_bad_rewards(reward):
    agent = sp.Agent(sp.OFUL(2), budget=5, seed=0)
    d = agent.decide(np.eye(2))
    with pytest.raises(sp.InvalidInput, match="finite number"):
        agent.observe(d.id, reward)
    agent.observe(d.id, -3.5)


@pytest.mark.parametrize(
    "make",
    [
        lambda: sp.OFUL(0),
        lambda: sp.OFUL(2, noise=-1),
        lambda: sp.OFUL(2, delta=0),
        lambda: sp.OFUL(2, delta=1),
        lambda: sp.OFUL(2, ridge=0),
        lambda: sp.OFUL(2, length=0),
        lambda: sp.OFUL(2, radius="large"),
        lambda: sp.OFUL(2, scale="x"),
        lambda: sp.OFUL(2, costs=[]),
        lambda: sp.OFUL(2, ridge=1e-12),
        lambda: sp.OFUL(2, length=1e150),
        lambda: sp.Agent(sp.OFUL(1), budget=0, seed=0).decide([[10**400]]),
        lambda: sp.problems.hypercube(3, 100, signs="abc"),
        lambda: sp.problems.linear_trap(7),
        lambda: sp.problems.Linear([1.0], arms=[[1.0]], costs=[-1]),
        lambda: sp.problems.Linear([1.0], arms=sp.budgets.Adaptive(lambda history: 1)),
        lambda: sp.OFUL(2, costs=[1, -1]),
        lambda: sp.problems.Linear([], arms=[[1.0]]),
        lambda: sp.problems.Linear([1.0], arms=[[1.0, 2.0]]),
        lambda: sp.problems.Linear([math.nan], arms=[[1.0]]),
        lambda: sp.problems.Linear([1.0], arms=[[1.0]], noise=-1),
        lambda: sp.problems.Linear([1.0], arms=sp.features.HalfSpaces(2)),
        lambda: sp.problems.Linear([1.0], arms="many"),
        lambda: sp.features.Sphere(0),
        lambda: sp.features.Rows([[1.0, math.inf]], arms=2),
        lambda: sp.features.WhenBudgetGrows([[1.0]], [[1.0], [2.0]]),
        lambda: sp.problems.hypercube(20, 5),
        lambda: sp.problems.hypercube(2, 5, signs=[1, 0]),
        lambda: sp.simulate(sp.problems.Linear([1.0], arms=[[1.0]]), sp.UCB1(1), sp.Never(), 1),
        lambda: sp.simulate(sp.problems.Linear([1.0], arms=[[1.0]]), sp.OFUL(2), sp.Never(), 1),
    ],
)
def test_bad_parameters(make):
    with pytest.raises(sp.InvalidInput):
        make()


def test_the_number_of_actions_may_vary():
    agent = sp.Agent(sp.OFUL(3), budget=50, seed=0)
    random = np.random.default_rng(0)
    for actions in (1, 5, 2, 9):
        d = agent.decide(random_rows(random, actions, 3))
        assert 0 <= d.action < actions


@pytest.mark.parametrize("rule", RULES["linear"], ids=repr)
def test_saved_with_late_answers_it_resumes(tmp_path, rule):
    agent = sp.Agent(sp.OFUL(3, ties="random"), rule=rule, budget=sp.budgets.Linear(0.5), seed=1)

    def go_on(agent, seed):
        random, decisions = np.random.default_rng(seed), []
        for _ in range(60):
            decisions.append(agent.decide(random_rows(random, 4, 3)))
            while agent.awaited and random.random() < 0.4:
                agent.observe(int(random.choice(agent.awaited)), float(random.normal()))
        return decisions

    go_on(agent, 0)
    agent.save(tmp_path / "a.json")
    loaded = sp.Agent.load(tmp_path / "a.json")
    for name, part in agent._family.parts().items():
        np.testing.assert_array_equal(loaded._family.parts()[name], part, err_msg=name)
    assert go_on(loaded, 1) == go_on(agent, 1)


def test_asks_and_answers_are_two_sets_of_statistics():
    agent = sp.Agent(sp.OFUL(2), rule=sp.Always(), budget=10, seed=0)
    for _ in range(5):
        agent.decide(np.eye(2))
    m = agent._family.memory
    assert m.asked.sizes["tr"][0] == 7
    assert m.known.sizes["tr"][0] == 2
    agent.observe(3, 1.0)
    assert m.known.sizes["tr"][0] == 3


SOURCES = {
    "fixed": lambda d: random_rows(np.random.default_rng(5), 7, d),
    "sphere": lambda d: sp.features.Sphere(5),
    "gaussian": lambda d: sp.features.Gaussian(5),
    "rows": lambda d: sp.features.Rows(random_rows(np.random.default_rng(5), 30, d), arms=4),
    "given": lambda d: np.stack([random_rows(np.random.default_rng(i), 3, d) for i in range(6)]),
    "half-spaces": lambda d: sp.features.HalfSpaces(5),
    "cube": lambda d: np.array(list(itertools.product((-0.5, 0.5), repeat=d))),
    "duplicates": lambda d: np.repeat(np.eye(d), 2, axis=0),
}


@pytest.mark.parametrize("rule", RULES["linear"], ids=repr)
@pytest.mark.parametrize("source", SOURCES)
def test_fast_plain_and_agent_are_one(source, rule):
    d = 4
    problem = sp.problems.Linear(random_rows(np.random.default_rng(1), 1, d)[0], arms=SOURCES[source](d))
    for radius in ("simple", "determinant"):
        options = {"rounds": 250, "runs": 1, "checkpoints": range(1, 251), "seed": 3}
        learner = sp.OFUL(d, radius=radius)
        runs = [
            sp.simulate(problem, learner, rule, sp.budgets.Bernoulli(0.3), path=path, **options)
            for path in ("fast", "plain", "agent")
        ]
        same(runs[0], runs[1])
        same(runs[0], runs[2])


def digest() -> list[float]:
    """Trajectories of every rule, for comparison with the interpreter."""
    result = []
    for rule in RULES["linear"]:
        for source in ("fixed", "half-spaces"):
            problem = sp.problems.Linear([0.6, 0.0, 0.8, 0.0], arms=SOURCES[source](4))
            learner = sp.OFUL(4, ties="random")
            r = sp.simulate(problem, learner, rule, sp.budgets.Bernoulli(0.4), rounds=80, runs=1, checkpoints=[20, 80])
            result += [*r.regret[0], *r.asked[0].tolist()]
    return result


def test_compiled_and_interpreted_runs_are_identical():
    assert interpreted("tests.linear.test_linear") == digest()


def test_an_adversary_may_pick_features():
    def pick(history):
        return np.eye(2) if history.grew else np.eye(2)[::-1]

    problem = sp.problems.Linear([0.2, 0.8], arms=sp.contexts.Adaptive(pick))
    r = sp.simulate(problem, sp.OFUL(2), sp.ExactMatching(), sp.budgets.Bernoulli(0.5), rounds=100, runs=1)
    assert r.refused.sum() == 0
    assert r.asked[0, -1] > 0


HARD = {"rounds": 20_000, "runs": 10}


def regrets(arms, budget):
    theta = random_rows(np.random.default_rng(0), 1, 16)[0]
    problem = sp.problems.Linear(theta, arms=arms, noise=0.1)
    results = {}
    for rule in (sp.Greedy(), sp.PaperMatching(), sp.ExactMatching()):
        r = sp.simulate(problem, sp.OFUL(16, noise=0.1), rule, budget, **HARD)
        assert r.refused.sum() == 0
        results[type(rule).__name__] = r.final_regret()[0]
    return results


def test_half_spaces_ruin_greedy_and_not_exact_matching():
    r = regrets(sp.features.HalfSpaces(10), sp.budgets.Bernoulli(0.1))
    assert r["ExactMatching"] <= 0.4 * r["PaperMatching"]
    assert r["ExactMatching"] <= 0.05 * r["Greedy"]


def test_robustness_costs_nothing():
    r = regrets(sp.features.Sphere(10), 2_000)
    assert r["ExactMatching"] <= 1.15 * r["Greedy"]


def test_the_papers_counterexample_in_four_dimensions():
    learner = sp.OFUL(4, norm=1.3)
    for rule, most in ((sp.PaperMatching(), 100), (sp.ExactMatching(), 100)):
        for good in (0, 1):
            problem, budget = sp.problems.linear_trap(good)
            assert sp.simulate(problem, learner, rule, budget, rounds=20_000, runs=5).final_regret()[0] <= most
    problem, budget = sp.problems.linear_trap(1)
    assert sp.simulate(problem, learner, sp.Greedy(), budget, rounds=20_000, runs=5).final_regret()[0] >= 0.2 * 20_000


def test_the_hypercube_instance():
    problem = sp.problems.hypercube(3, budget=100, signs=[1, -1, 1])
    assert problem.arms.matrix.shape == (8, 3)
    np.testing.assert_allclose(problem.theta, [0.1, -0.1, 0.1])
    learner = sp.OFUL(3, noise=1.0, length=math.sqrt(3), norm=math.sqrt(3) / 10)
    r = sp.simulate(problem, learner, sp.ExactMatching(), 100, rounds=10_000, runs=3)
    assert (r.asked[:, -1] <= 100).all()
    assert r.final_regret()[0] >= 3 * 10_000 / (80 * math.sqrt(100))  # the lower bound d·T/(80 sqrt B)
