"""Softmax: against a direct fit, with hostile data and answers; its budget against adversaries; every path alike."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparingly as sp
from sparingly.linear.labels.memory import ROWS
from sparingly.linear.memory import SAMPLED
from tests.conftest import RULES, interpreted, same


def directions(random, count, d):
    X = random.normal(size=(count, d))
    return X / np.linalg.norm(X, axis=1, keepdims=True)


def chances(scores):
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return p / p.sum(axis=-1, keepdims=True)


def gradient(W, Z, told, ridge):
    """Of Σ log P(told) − λ/2·‖w‖²."""
    p = chances(Z @ W.T)
    t = np.zeros_like(p)
    for i, k in enumerate(told):
        if k >= 0:
            t[i, k] = 1.0
        else:  # the others, given that this one is wrong
            t[i] = p[i] / (1.0 - p[i, -1 - k])
            t[i, -1 - k] = 0.0
    return (t - p).T @ Z - ridge * W


def direct_fit(Z, told, classes, ridge):
    """The weights at which it is 0: uphill, with a bound on the Hessian."""
    W, V = np.zeros((classes, Z.shape[1])), ridge * np.eye(Z.shape[1]) + 0.5 * Z.T @ Z
    for _ in range(20_000):
        step = np.linalg.solve(V, gradient(W, Z, told, ridge).T).T
        W += step
        if np.abs(step).max() < 1e-12:
            break
    return W


def settled(agent, rounds=4_000):
    """Rounds without an answer, in which what is left to fit is fitted."""
    for _ in range(rounds):
        agent.decide(np.zeros(agent.learner.dim))
    return agent._family.memory


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["labels", "rewards"])
def test_the_weights_are_those_of_a_direct_fit(seed, kind):
    random = np.random.default_rng(seed)
    d, classes, ridge, length = int(random.integers(1, 7)), int(random.integers(2, 6)), [0.3, 1.0, 5.0][seed % 3], 2.0
    agent = sp.Agent(sp.Softmax(d, classes, ridge=ridge, length=length), sp.Always(), budget=80, seed=seed)
    X, told = length * directions(random, 60, d) * random.uniform(0.1, 1.0, (60, 1)), []
    for x in X:
        decision, k = agent.decide(x), int(random.integers(classes))
        if kind == "labels":
            told.append(k)
            agent.observe(decision, label=k)
        else:
            right = k == decision.action
            told.append(decision.action if right else -1 - decision.action)
            agent.observe(decision, reward=right)
    m = settled(agent)
    Z = X * math.sqrt(d) / length
    if kind == "labels":  # the loss is convex, with one minimum
        np.testing.assert_allclose(m.weights, direct_fit(Z, told, classes, ridge), atol=1e-6)
    np.testing.assert_allclose(gradient(m.weights, Z, told, ridge), 0.0, atol=1e-5)
    np.testing.assert_allclose(m.weights, m.pulls[:60].T @ Z / ridge, atol=1e-9)
    np.testing.assert_allclose(agent.predict(X[0])[0], chances(m.weights @ Z[0]), atol=1e-12)


HOSTILE = {
    "separable": lambda x, t: int(x[0] > 0),
    "one class only": lambda x, t: 1,
    "collinear": lambda x, t: int(x[0] > 0.02) + int(x[0] > 0.05),
    "every label wrong": lambda x, t: t % 3,
    "zero": lambda x, t: t % 2,
}


@pytest.mark.parametrize("kind", HOSTILE)
@pytest.mark.parametrize("answer", ["label", "reward"])
def test_hostile_data_leave_finite_weights(kind, answer):
    random, d = np.random.default_rng(0), 5
    agent = sp.Agent(sp.Softmax(d, 3), sp.Always(), budget=1_500, seed=0)
    axis = directions(random, 1, d)[0]

    def some(kind):
        x = directions(random, 1, d)[0]
        return np.array([0.6, *0.8 * directions(random, 1, d - 1)[0]]) if kind == "one class only" else x

    for t in range(1_500):
        x = some(kind)
        if kind == "collinear":
            x = axis * random.uniform(-0.1, 0.1) + 1e-9 * x
        elif kind == "zero":
            x = np.zeros(d)
        decision, label = agent.decide(x), HOSTILE[kind](x, t)
        if answer == "label":
            agent.observe(decision, label=label)
        else:
            agent.observe(decision, reward=decision.action == label)
    m = settled(agent, 10)
    assert np.isfinite(m.weights).all()
    assert np.abs(m.weights).max() < 100
    assert np.isfinite(m.pulls).all() and np.abs(m.pulls).max() <= 1.0 + 1e-12
    if kind in ("separable", "one class only"):
        tests = [some(kind) for _ in range(200)]
        right = [int(np.argmax(agent.predict(x)[0])) == HOSTILE[kind](x, 0) for x in tests]
        assert np.mean(right) >= 0.95


def test_the_order_of_answers_does_not_matter():
    """Answered late and in another order, the same rows end in the same weights."""
    random = np.random.default_rng(3)
    X, labels = directions(random, 40, 4), random.integers(3, size=40)
    found = []
    for order in (range(40), random.permutation(40)):
        agent = sp.Agent(sp.Softmax(4, 3), sp.Always(), budget=40, seed=0)
        decisions = [agent.decide(x) for x in X]
        for i in order:
            agent.observe(decisions[i], label=int(labels[i]))
        found.append(settled(agent).weights)
    np.testing.assert_allclose(found[0], found[1], atol=1e-7)


def test_more_answers_than_rows_are_kept_take_no_more_room():
    random = np.random.default_rng(0)
    agent = sp.Agent(sp.Softmax(3, 3), sp.Always(), budget=3 * ROWS, seed=0)
    truth, size = 3.0 * random.normal(size=(3, 3)), agent._family.words.size
    for x in directions(random, 3 * ROWS, 3):
        agent.observe(agent.decide(x), label=int(np.argmax(truth @ x)))
    assert agent._family.words.size == size
    tests = directions(random, 500, 3)
    right = [np.argmax(agent.predict(x)[0]) == np.argmax(truth @ x) for x in tests]
    assert np.mean(right) > 0.95


def test_the_widths_are_those_of_a_direct_solve():
    """2·scale·‖z‖ in V⁻¹ over the asks, with z = sqrt(d)/L·x: d unknowns, however many classes there are."""
    random, d, scale = np.random.default_rng(1), 4, 0.7
    agent = sp.Agent(sp.Softmax(d, 5, ridge=2.0, length=3.0, scale=scale), sp.ExactMatching(), budget=30, seed=0)
    V = 2.0 * np.eye(d)
    for _ in range(100):
        x = 3.0 * directions(random, 1, d)[0] * random.uniform(0.2, 1.0)
        z = x * math.sqrt(d) / 3.0
        decision = agent.decide(x)
        assert decision.width == pytest.approx(2 * scale * math.sqrt(z @ np.linalg.solve(V, z)), rel=1e-9)
        assert decision.ask == (decision.width >= decision.threshold)
        if decision.ask:
            V += np.outer(z, z)
            agent.observe(decision, label=int(random.integers(5)))
    assert 0 < agent.ledger.spent <= 30


def test_scores_by_hand():
    """(width − margin) · Σ ⟨v, V⁻¹z⟩²/(1 + ‖z‖²), over the last 32 inputs v."""
    random, d = np.random.default_rng(0), 3
    agent = sp.Agent(sp.Softmax(d, 3, scale=0.8, ties="first"), budget=40, seed=0)
    m, V, seen = agent._family.memory, np.eye(d), []
    for _ in range(100):
        x = directions(random, 1, d)[0]
        z = x * math.sqrt(d)
        seen = [*seen, z][-SAMPLED:]
        decision = agent.decide(x)
        scores = np.sort(m.weights @ z)
        y = np.linalg.solve(V, z)
        overlap = 2 * 0.8 * math.sqrt(z @ y) - (scores[-1] - scores[-2])
        expected = overlap * ((np.array(seen) @ y) ** 2).sum() / (1 + z @ y)
        assert m.pace.state[0].score == pytest.approx(expected, rel=1e-6, abs=1e-9)
        if decision.ask:
            V += np.outer(z, z)
            agent.observe(decision, label=int(x[0] > 0) + int(x[1] > 0))
    assert agent.ledger.spent > 10


@settings(max_examples=60)
@given(data=st.data(), d=st.integers(1, 4), classes=st.integers(2, 4))
@pytest.mark.parametrize("rule", [sp.BalancedMatching(), sp.ExactMatching(), sp.PaperMatching(), sp.Greedy()], ids=repr)
def test_safe_rules_are_never_refused(data, rule, d, classes):
    """An adversary picks grants, inputs and answers, knowing everything."""
    agent = sp.Agent(sp.Softmax(d, classes), rule=rule, budget=0, seed=0)
    inputs = np.vstack([np.eye(d), -np.eye(d), np.ones((1, d)) / math.sqrt(d)])
    for _ in range(data.draw(st.integers(1, 40))):
        agent.grant(data.draw(st.sampled_from([0.0, 0.0, 1.0, 0.3, 5.0, 40.0])))
        x = inputs[data.draw(st.integers(0, 2 * d))] * data.draw(st.sampled_from([1.0, 0.5, 1e-3]))
        decision = agent.decide(x)
        if decision.ask:
            how = data.draw(st.sampled_from(["label", "reward", "never", "withdraw"]))
            if how == "label":
                agent.observe(decision, label=data.draw(st.integers(0, classes - 1)))
            elif how == "reward":
                agent.observe(decision, reward=data.draw(st.booleans()))
            elif how == "withdraw" and agent.rule != sp.PaperMatching():
                agent.withdraw(decision)
        assert agent.ledger.spent <= agent.ledger.granted
    assert agent.ledger.refused == 0


@settings(max_examples=40)
@given(data=st.data(), costs=st.lists(st.sampled_from([0.0, 0.25, 1.0, 3.0]), min_size=3, max_size=3))
@pytest.mark.parametrize("rule", [sp.BalancedMatching(), sp.ExactMatching()], ids=repr)
def test_costs_are_never_refused(data, costs, rule):
    agent = sp.Agent(sp.Softmax(2, 3, costs=costs), rule=rule, budget=0, seed=0)
    spent = 0.0
    for _ in range(data.draw(st.integers(1, 40))):
        agent.grant(data.draw(st.sampled_from([0.0, 1.0, 0.3, 20.0])))
        decision = agent.decide(np.eye(2)[data.draw(st.integers(0, 1))])
        if decision.ask:
            spent += costs[decision.action]
            agent.observe(decision, label=data.draw(st.integers(0, 2)))
        assert agent.ledger.spent == pytest.approx(spent) and spent <= agent.ledger.granted + 1e-9
    assert agent.ledger.refused == 0


def play(agent, rounds, seed=0, start=0):
    """What an agent does in rounds whose answers come late, some as labels, some as rewards, some never."""
    random, done, open_asks = np.random.default_rng([seed, start]), [], []
    d, classes = agent.learner.dim, agent.learner.classes
    for _ in range(rounds):
        x = directions(random, 1, d)[0]
        decision = agent.decide(x)
        done.append((decision.action, decision.ask, decision.width, decision.threshold, decision.why))
        label = int(x[0] > 0) + int(x[-1] > 0.3) * (classes > 2)
        if decision.ask and random.random() < 0.9:
            open_asks.append((decision.id, decision.action, label))
        if open_asks and random.random() < 0.7:
            number, action, label = open_asks.pop(int(random.integers(len(open_asks))))
            if number % 3:
                agent.observe(number, label=label)
            else:
                agent.observe(number, reward=float(action == label))
    return done, open_asks


@pytest.mark.parametrize("rule", RULES["linear"], ids=repr)
def test_a_saved_agent_goes_on_as_if_nothing_had_happened(rule, tmp_path):
    agent = sp.Agent(sp.Softmax(3, 3), rule, sp.budgets.Linear(0.3), seed=1)
    play(agent, 60)
    agent.save(tmp_path / "a.json")
    again = sp.Agent.load(tmp_path / "a.json")
    assert again.awaited == agent.awaited
    assert play(agent, 60, start=1) == play(again, 60, start=1)
    np.testing.assert_array_equal(agent._family.memory.weights, again._family.memory.weights)


def test_a_saved_agent_whose_rows_went_round_goes_on_too(tmp_path):
    random = np.random.default_rng(0)
    agent = sp.Agent(sp.Softmax(2, 2), sp.Always(), budget=2_000, seed=0)
    for x in directions(random, ROWS + 40, 2):
        agent.observe(agent.decide(x), label=int(x[0] > 0))
    agent.save(tmp_path / "a.json")
    again = sp.Agent.load(tmp_path / "a.json")
    assert play(agent, 50) == play(again, 50)


WEIGHTS = [[3.0, 0.0, 0.0], [0.0, 3.0, -1.0], [-2.0, 0.0, 2.0]]
PROBLEMS = {
    "labels": sp.problems.Labels(WEIGHTS, sp.features.Sphere(1)),
    "rewards": sp.problems.Labels(WEIGHTS, sp.features.Gaussian(1), tells="reward"),
    "given, with costs": sp.problems.Labels(WEIGHTS, np.eye(3)[[0, 2, 1, 1]], costs=[1.0, 0.5, 2.0]),
}


@pytest.mark.parametrize("name", PROBLEMS)
@pytest.mark.parametrize("rule", RULES["linear"], ids=repr)
def test_the_simulator_and_the_agent_are_one(name, rule):
    if "costs" in name and rule == sp.PaperMatching():
        pytest.skip("proved for unit costs only")
    runs = [
        sp.simulate(
            PROBLEMS[name], sp.Softmax(3, 3), rule, sp.budgets.Bernoulli(0.4), rounds=90, runs=2, seed=1, path=path,
            checkpoints=range(1, 91),
        )
        for path in ("fast", "agent")
    ]  # fmt: skip
    same(*runs)
    assert runs[0].asked[:, -1].max() > 0 or isinstance(rule, sp.Never)
    assert (runs[0].spent <= runs[0].budget).all()


def test_simulated_labels_come_with_their_probabilities():
    """Class k is right with probability P(k | x): chi-square over 20,000 answers, false alarms 1e-6."""
    from scipy.stats import chi2

    from sparingly.problems.labels import right_class

    x, room, counts = np.array([0.6, 0.0, 0.8]), np.zeros(3), np.zeros(3)
    for k in range(20_000):
        counts[right_class(np.array(WEIGHTS), x, np.uint64(7), k, room)] += 1
    expected = 20_000 * chances(np.array(WEIGHTS) @ x)
    assert ((counts - expected) ** 2 / expected).sum() < chi2.ppf(1 - 1e-6, 2)


def test_an_adversary_may_pick_inputs():
    problem = sp.problems.Labels(WEIGHTS, sp.contexts.Adaptive(lambda history: np.eye(3)[int(history.grew)]))
    r = sp.simulate(problem, sp.Softmax(3, 3), sp.ExactMatching(), sp.budgets.Bernoulli(0.5), rounds=60, runs=1)
    assert r.refused.sum() == 0 and r.asked[0, -1] > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: sp.problems.Labels([[1.0, 2.0]], np.eye(2)),
        lambda: sp.problems.Labels(WEIGHTS, np.eye(2)),
        lambda: sp.problems.Labels(WEIGHTS, sp.features.Sphere(2)),
        lambda: sp.problems.Labels(WEIGHTS, np.eye(3), tells="all"),
        lambda: sp.problems.Labels(WEIGHTS, np.eye(3), costs=[1.0]),
        lambda: sp.simulate(PROBLEMS["labels"], sp.OFUL(3), sp.Always(), 5, rounds=5),
        lambda: sp.simulate(PROBLEMS["labels"], sp.Softmax(3, 2), sp.Always(), 5, rounds=5),
        lambda: sp.simulate(sp.problems.Labels(WEIGHTS, 2 * np.eye(3)), sp.Softmax(3, 3), sp.Always(), 5, rounds=5),
    ],
)
def test_bad_problems(make):
    with pytest.raises(sp.InvalidInput):
        make()


def digest():
    """What agents and simulations do, to the last digit."""
    result = []
    for rule in RULES["linear"]:
        agent = sp.Agent(sp.Softmax(3, 3, scale=0.7), rule, sp.budgets.Linear(0.3), seed=2)
        result += [list(step) for step in play(agent, 50)[0]]
        result.append(agent._family.memory.weights.ravel().tolist())
    for problem in PROBLEMS.values():
        r = sp.simulate(problem, sp.Softmax(3, 3), sp.BalancedMatching(), sp.budgets.Bernoulli(0.4), 80, 1)
        result += [r.regret[0].tolist(), r.asked[0].tolist()]
    return [[str(value) for value in part] for part in result]


def test_compiled_and_interpreted_runs_are_identical():
    assert interpreted("tests.linear.test_labels") == digest()


class AsksTwice:
    """A rule in plain Python."""

    def asks(self, question):
        return question.asked < 2 and question.spent + question.cost <= question.budget


def test_a_rule_in_plain_python_decides_too():
    agent = sp.Agent(sp.Softmax(2, 2), AsksTwice(), budget=10, seed=0)
    asks = [agent.decide(np.array([1.0, 0.0])).ask for _ in range(5)]
    assert asks == [True, True, False, False, False]


def test_taking_back_undoes_an_ask():
    agent, random = sp.Agent(sp.Softmax(3, 2), budget=60, seed=0), np.random.default_rng(0)
    play(agent, 40)
    m = agent._family.memory
    before = (m.asked.V + m.asked.rest).copy(), m.pace.state[["reserved", "gain", "length"]].copy(), agent.ledger.spent
    while not (decision := agent.decide(directions(random, 1, 3)[0])).ask:
        pass
    agent.withdraw(decision)
    np.testing.assert_allclose(np.tril(m.asked.V + m.asked.rest), np.tril(before[0]), atol=1e-12)
    assert agent.ledger.spent == before[2]
    for name in ("reserved", "gain", "length"):
        assert m.pace.state[name][0] == pytest.approx(before[1][name][0], abs=1e-9)


def test_the_reserve_takes_over_what_it_would_pay_today():
    """Under a budget that grows: reserved ≤ M(B), what it has gained is that of so many asks, and more can be asked."""
    agent, random = sp.Agent(sp.Softmax(4, 3), budget=sp.budgets.Linear(0.2), seed=0), np.random.default_rng(0)
    m, asked, taken = agent._family.memory, {}, 0
    for _ in range(1_500):
        x, before = directions(random, 1, 4)[0], m.pace.state.copy()[0]
        decision = agent.decide(x)
        if decision.ask:
            asked[decision.id] = decision.width / 2
            agent.observe(decision, label=int(x[0] > 0) + int(x[1] > 0))
        state = m.pace.state[0]
        grown = round((state.reserved - before.reserved) / 1e6) - (state.last_gain > 0 and decision.ask)
        taken += grown
        B, B0 = agent.ledger.granted, m.head["least"][0] / 0.25
        assert state.reserved / 1e6 <= max(min(0.25 * B, B - B0), 0.0) + 1e-6
        assert agent.ledger.spent - state.reserved / 1e6 <= B - max(min(0.25 * B, B - B0), 0.0) + 2e-6
    assert taken >= 5
    widths = sorted(asked.values(), reverse=True)[: round(m.pace.state[0].reserved / 1e6)]
    assert m.pace.state[0].gain <= sum(math.log1p(w * w) for w in widths) + 1e-6
    assert agent.ledger.refused == 0


def test_an_ask_that_the_reserve_has_taken_over_can_be_taken_back():
    agent, random = sp.Agent(sp.Softmax(4, 3), budget=0, seed=0), np.random.default_rng(0)
    m, agent_asks = agent._family.memory, []
    agent.grant(60)
    while len(agent_asks) < 40:
        decision = agent.decide(directions(random, 1, 4)[0])
        agent_asks += [decision] if decision.ask else []
    before = m.pace.state.copy()[0]
    agent.grant(600)
    agent.decide(directions(random, 1, 4)[0] * 0.01)
    assert m.pace.state[0].reserved > before.reserved
    for decision in agent_asks:
        agent.withdraw(decision)
    assert agent.ledger.spent <= 1.0
    for name in ("reserved", "gain", "length"):
        assert m.pace.state[name][0] <= (1e6 if name == "reserved" else 5.0)


def test_what_was_set_aside_can_be_answered():
    x = np.array([0.6, 0.8])
    agent, twin = (sp.Agent(sp.Softmax(2, 3), budget=9, seed=0) for _ in range(2))
    first, second = agent.decide(x), twin.decide(x)
    note = agent.set_aside(first.id)
    agent.expect(first.id, x, first.action, note)
    agent.observe(first.id, reward=0)
    twin.observe(second, reward=0)
    assert agent._family.words.tobytes() == twin._family.words.tobytes()


def test_rewards_of_all_classes_are_a_label():
    agents = [sp.Agent(sp.Softmax(2, 3), budget=9, seed=0, actions=["a", "b", "c"]) for _ in range(3)]
    ways = ({"label": "b"}, {"rewards": [0, 1, 0]}, {"rewards": {"b": 1}})
    for agent, way in zip(agents, ways, strict=True):
        agent.observe(agent.decide([1.0, 0.0]), **way)
    assert len({agent._family.words.tobytes() for agent in agents}) == 1
    assert agents[0].decide([1.0, 0.0]).action == "b"


def test_what_was_taught_costs_nothing_and_narrows():
    agent = sp.Agent(sp.Softmax(2, 3), sp.Never(), budget=0, seed=0)
    before = agent.decide([1.0, 0.0]).width
    agent.teach(2, 1, [1.0, 0.0])
    agent.fit([1, 0], [1, 0], [[0.0, 1.0], [0.0, 1.0]])
    after = agent.decide([1.0, 0.0])
    assert after.action == 2 and after.width < before and agent.ledger.spent == 0
    assert agent.decide([0.0, 1.0]).action == 1


BAD = [
    (None, "one input of shape .2,. for all classes, not nothing"),
    ([0.1], "one input of shape"),
    (np.eye(2), "one input of shape"),
    (["x", 0.1], "numbers of shape"),
    ([math.nan, 0.1], "finite"),
    ([math.inf, 0.1], "finite"),
    ([1.0, 1.0], "no longer than length=1"),
]


@pytest.mark.parametrize(("x", "message"), BAD)
def test_bad_inputs_change_nothing(x, message):
    agent = sp.Agent(sp.Softmax(2, 3), budget=5, seed=0)
    before = agent._family.words.tobytes()
    with pytest.raises(sp.InvalidInput, match=message):
        agent.decide(x)
    assert agent._family.words.tobytes() == before


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        ({"label": 3}, r"label must be an action, 0 … 2"),
        ({"label": True}, "label must be an action"),
        ({"label": "b"}, "label must be an action"),
        ({"reward": 0.5}, "1 if the class was right"),
        ({"reward": None}, "1 if the class was right"),
        ({"rewards": [1, 1, 0]}, "1 for the right one"),
        ({"rewards": [1, 0]}, "1 for the right one"),
        ({"rewards": [0, 0, 0]}, "1 for the right one"),
        ({"label": 1, "reward": 1}, "one of reward, label and rewards"),
    ],
)
def test_bad_answers_change_nothing(answer, message):
    agent = sp.Agent(sp.Softmax(2, 3), budget=5, seed=0)
    decision = agent.decide([1.0, 0.0])
    before = agent._family.words.tobytes()
    with pytest.raises(sp.InvalidInput, match=message):
        agent.observe(decision, **answer)
    assert agent._family.words.tobytes() == before
    agent.observe(decision, label=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: sp.Softmax(0, 2),
        lambda: sp.Softmax(2, 1),
        lambda: sp.Softmax(2, 2, ridge=0),
        lambda: sp.Softmax(2, 2, ridge=1e-9),
        lambda: sp.Softmax(2, 2, length=-1),
        lambda: sp.Softmax(2, 2, scale="x"),
        lambda: sp.Softmax(2, 2, ties="last"),
        lambda: sp.Softmax(2, 2, costs=[1, 2, 3]),
        lambda: sp.Softmax(2, 2, costs=[1, -2]),
    ],
)
def test_bad_parameters(make):
    with pytest.raises(sp.InvalidInput):
        make()


def test_ties_are_broken_as_asked():
    first = sp.Agent(sp.Softmax(2, 3, ties="first"), sp.Never(), budget=0, seed=0)
    assert {first.decide([1.0, 0.0]).action for _ in range(30)} == {0}
    drawn = sp.Agent(sp.Softmax(2, 3), sp.Never(), budget=0, seed=0)
    assert {drawn.decide([1.0, 0.0]).action for _ in range(60)} == {0, 1, 2}


def test_labels_are_learnt_with_few_asks():
    """Seven classes, a twentieth of 2,000 rounds: at least 85 % right in the second half, by a plain world."""
    random = np.random.default_rng(0)
    truth = directions(random, 5, 6)
    agent = sp.Agent(sp.Softmax(6, 5), budget=sp.budgets.Linear(0.05), seed=0)
    right = []
    for x in directions(random, 2_000, 6):
        label = int(np.argmax(truth @ x))
        decision = agent.decide(x)
        right.append(decision.action == label)
        if decision.ask:
            agent.observe(decision, label=label)
    assert agent.ledger.spent <= 100 and agent.ledger.refused == 0
    assert np.mean(right[1_000:]) >= 0.85


def test_a_row_that_makes_room_leaves_its_pull_in_the_weights():
    """w_k = Σ p_k z/λ over the rows that are kept and those that have gone: the first go with the pull they had."""
    random = np.random.default_rng(0)
    agent = sp.Agent(sp.Softmax(3, 3), sp.Always(), budget=2 * ROWS, seed=0)
    m, gone = agent._family.memory, np.zeros((3, 3))
    for t, x in enumerate(directions(random, ROWS + 50, 3)):
        decision = agent.decide(x)
        if t >= ROWS:
            gone += np.outer(m.pulls[t - ROWS], m.inputs[t - ROWS])
        agent.observe(decision, label=int(random.integers(3)))
    np.testing.assert_allclose(m.weights, m.pulls.T @ m.inputs + gone, atol=1e-9)
