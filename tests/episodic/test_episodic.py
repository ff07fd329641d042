"""Episodes: the planner against a plain transcription, the rules, the agent, and the simulator against itself."""

from __future__ import annotations

import copy
import itertools
import json
import math
import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparingly as sp
from sparingly.episodic.learners import LEARNERS as EPISODIC
from sparingly.problems.episodic import step
from sparingly.rules.balanced import reserve_of
from sparingly.rules.intervals import reward_width
from sparingly.rules.paper import paper_episode_bar
from sparingly.saving import _checksum
from tests.conftest import RULES as ALL_RULES
from tests.conftest import interpreted, same

LEARNERS = {learner.__name__: learner for learner in EPISODIC}
RULES = ALL_RULES["episodic"]


class Notebook:
    """What the paper's algorithms need to know, kept as lists of everything that was seen."""

    def __init__(self, learner):
        self.learner, self.t = learner, 1
        self.rewards = {cell: [] for cell in itertools.product(*map(range, learner.shape))}
        self.after = {cell: [] for cell in itertools.product(*map(range, learner.shape))}

    def see(self, states, actions):
        H = self.learner.horizon
        for h in range(H):
            self.after[h, states[h], actions[h]].append(states[h + 1] if h + 1 < H else None)
        self.t += 1

    def reward_bonus(self, cell, L):
        """The empirical Bernstein bonus, with the variance as a sum over pairs."""
        answers = self.rewards[cell]
        n = max(len(answers), 1)
        variance = 0.0
        if len(answers) >= 2:
            pairs = sum((x - y) ** 2 for x in answers for y in answers)
            variance = pairs / (2 * len(answers) * (len(answers) - 1))
        return math.sqrt(2 * variance * L / n) + 5 * L / n


def transcribed_ucbvi(book: Notebook):
    """Truncated value iteration on the optimistic model (E5, E8), word by word."""
    (H, S, A), scale = book.learner.shape, book.learner.scale
    L = math.log(12 * S**2 * A * H * book.t**2 * (book.t + 1) / book.learner.delta)
    V, Q = np.zeros((H + 1, S)), np.zeros((H, S, A))
    for h in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                answers, after = book.rewards[h, s, a], book.after[h, s, a]
                n = max(len(after), 1)
                b_p = math.sqrt(2 * H**2 * L / n) + 5 * H * L / n
                mean = sum(answers) / max(len(answers), 1)
                expected = sum(V[h + 1, x] for x in after if x is not None) / n
                Q[h, s, a] = mean + scale * (book.reward_bonus((h, s, a), L) + b_p) + expected
            V[h, s] = min(Q[h, s].max(), H - h)  # h counts from 0 here: H − h + 1 of the paper
    return V[:H], np.zeros((H, S)), Q


def transcribed_ulcvi(book: Notebook):
    """Optimistic-pessimistic value iteration, word by word."""
    (H, S, A), scale = book.learner.shape, book.learner.scale
    L = math.log(16 * S**2 * A * H * book.t**2 * (book.t + 1) / book.learner.delta)
    up, low, Q = np.zeros((H + 1, S)), np.zeros((H + 1, S)), np.zeros((H, S, A))
    for h in reversed(range(H)):
        for s in range(S):
            under = np.zeros(A)
            for a in range(A):
                answers, after = book.rewards[h, s, a], [x for x in book.after[h, s, a] if x is not None]
                n = max(len(book.after[h, s, a]), 1)
                mean = sum(answers) / max(len(answers), 1)
                e_up, e_low = sum(up[h + 1, x] for x in after) / n, sum(low[h + 1, x] for x in after) / n
                variance = sum((up[h + 1, x] - e_up) ** 2 for x in after) / n
                b_p = math.sqrt(2 * variance * L / n) + 44 * H**2 * S * L / n + (e_up - e_low) / (16 * H)
                bonus = scale * (book.reward_bonus((h, s, a), L) + b_p)
                Q[h, s, a], under[a] = mean + bonus + e_up, mean - bonus + e_low
            up[h, s] = min(Q[h, s].max(), H - h)
            low[h, s] = max(under[int(np.argmax(Q[h, s]))], 0.0)
    return up[:H], low[:H], Q


TRANSCRIBED = {"UCBVI": transcribed_ucbvi, "ULCVI": transcribed_ulcvi}


def written_down(agent, book, problem, episodes):
    """Let an agent play, and write all of it into the notebook; a pause before every episode, with the agent's plan."""
    (horizon, states, actions), random = agent.learner.shape, np.random.default_rng(0)
    P, R = problem.transitions(), problem.means
    for episode in range(episodes):
        policy = agent.plan()
        yield policy
        s, states_seen, actions_done = int(random.integers(states)), [], []
        for h in range(horizon):
            a = int(policy[h, s]) if episode % 3 else int(random.integers(actions))  # the data may be off policy
            states_seen.append(s)
            actions_done.append(a)
            s = int(random.choice(states, p=P[h, s, a]))
        asks = agent.decide_episode(states_seen, actions_done)
        book.see(states_seen, actions_done)
        for h in np.flatnonzero(asks):
            if random.random() < 0.7:  # some answers never come
                reward = float(np.clip(R[h, states_seen[h], actions_done[h]] + random.normal(0, 0.1), 0, 1))
                agent.observe((agent.decisions, int(h)), reward)
                book.rewards[h, states_seen[h], actions_done[h]].append(reward)


def agree_with_the_transcription(agent, book, policy):
    """Values and policy, in states that were seen; the transcription's bounds there."""
    horizon, states, actions = agent.learner.shape
    upper, lower, Q = TRANSCRIBED[type(agent.learner).__name__](book)
    seen = np.array([[any(book.after[h, s, a] for a in range(actions)) for s in range(states)] for h in range(horizon)])
    np.testing.assert_allclose(agent.values[0][seen], upper[seen], rtol=0, atol=1e-10)
    np.testing.assert_allclose(agent.values[1][seen], lower[seen], rtol=0, atol=1e-10)
    chosen = np.take_along_axis(Q, policy[..., np.newaxis], axis=2)[..., 0]
    assert (chosen[seen] >= Q.max(axis=2)[seen] - 1e-9).all()
    return upper, lower


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("scale", [1.0, 0.02])
@pytest.mark.parametrize(("states", "actions", "horizon", "successors"), [(3, 2, 4, 3), (24, 2, 3, 2), (17, 1, 3, 17)])
def test_the_planner_is_the_papers(name, scale, states, actions, horizon, successors):
    """Values and policy equal the transcription in every episode; few successors are lists, many are rows."""
    learner = LEARNERS[name](states, actions, horizon, scale=scale)
    problem = sp.problems.random_mdp(states, actions, horizon, successors=successors, seed=3, rewards="beta")
    rule = sp.ExactMatching(explore="always")
    agent, book = sp.Agent(learner, rule=rule, budget=10 * learner.cells, seed=0), Notebook(learner)
    for policy in written_down(agent, book, problem, 60):
        agree_with_the_transcription(agent, book, policy)
    counted = {cell: len(after) for cell, after in book.after.items()}
    assert all(agent.visits[cell] == n for cell, n in counted.items())


@pytest.mark.parametrize(("name", "scale"), [("UCBVI", 0.01), ("ULCVI", 2e-5)])
@pytest.mark.parametrize(("states", "actions", "successors"), [(3, 2, 3), (16, 1, 2)])
def test_the_planner_is_the_papers_where_nothing_is_cut_off(name, scale, states, actions, successors):
    """In long runs with small bonuses most values lie between their caps, so every term of the bonus counts."""
    learner = LEARNERS[name](states, actions, 4, scale=scale)
    problem = sp.problems.random_mdp(states, actions, 4, successors=successors, seed=3, rewards="beta")
    agent = sp.Agent(learner, rule=sp.ExactMatching(explore="always"), budget=30 * learner.cells, seed=0)
    book, caps, below, above = Notebook(learner), np.arange(4, 0, -1.0)[:, np.newaxis], [], []
    for episode, policy in enumerate(written_down(agent, book, problem, 2_001)):
        if episode % 250 == 0 and episode:
            upper, lower = agree_with_the_transcription(agent, book, policy)
            below.append((upper < caps - 1e-6).mean())
            above.append((lower > 1e-6).mean())
    assert min(below[-3:]) > 0.5
    assert min(above[-3:]) > 0.5 or name == "UCBVI"


def test_what_is_remembered_of_transitions_is_what_was_seen():
    """Lists that grow by doubling and turn into rows lose nothing."""
    agent = sp.Agent(sp.UCBVI(40, 1, 2), budget=0, seed=0)
    random = np.random.default_rng(1)
    seen = np.zeros((40, 40))
    for _ in range(3_000):
        path = [int(random.integers(3)), int(random.integers(1 + 13 * int(random.integers(1, 4))))]
        agent.decide_episode(path, [0, 0])
        seen[path[0], path[1]] += 1
    recorded = np.zeros((40, 40))
    for cell, after, times in agent._family.transitions():
        recorded[int(cell), int(after)] = times
    np.testing.assert_array_equal(recorded, seen)
    assert (seen > 0).sum(axis=1).max() > 30


@pytest.mark.parametrize("seed", range(3))
def test_optimal_values_are_the_best_of_all_policies(seed):
    """Every policy of a tiny problem is evaluated by plain sums."""
    problem = sp.problems.random_mdp(2, 2, 2, seed=seed)
    P, R = problem.transitions(), problem.means
    best = np.full((2, 2), -1.0)
    for actions in itertools.product(range(2), repeat=4):
        policy = np.array(actions).reshape(2, 2)
        V = np.zeros((3, 2))
        for h in (1, 0):
            for s in range(2):
                V[h, s] = R[h, s, policy[h, s]] + P[h, s, policy[h, s]] @ V[h + 1]
        np.testing.assert_allclose(problem.value(policy), V[:2], atol=1e-14)
        best = np.maximum(best, V[:2])
    np.testing.assert_allclose(problem.optimal_values, best, atol=1e-14)


def test_draws_follow_the_model():
    """Next states and rewards of lists and of rows; chi-square with a false-alarm probability of 1e-6."""
    from scipy.stats import chi2

    for problem in (sp.problems.random_mdp(30, 1, 1, successors=4, seed=1), sp.problems.random_mdp(20, 1, 1, seed=1)):
        P, n, cell = problem.transitions()[0, 2, 0], 20_000, 2
        draws = [step(problem.truth, cell, np.uint64(5), np.uint64(6), k) for k in range(n)]
        counts = np.bincount([d.state for d in draws], minlength=problem.states)
        possible = P > 0
        assert counts[~possible].sum() == 0
        statistic = ((counts[possible] - n * P[possible]) ** 2 / (n * P[possible])).sum()
        assert statistic < chi2.ppf(1 - 1e-6, possible.sum() - 1)
        mean, expected = np.mean([d.reward for d in draws]), problem.means[0, 2, 0]
        assert abs(mean - expected) < 4.9 * math.sqrt(expected * (1 - expected) / n)


def wander(agent, problem, episodes, start):
    """Let an agent play a problem, and yield its bounds, its policy's value and V* in every episode."""
    P, random, H = problem.transitions(), np.random.default_rng(0), problem.horizon
    ladder, means = np.cumsum(P, axis=-1), problem.means
    ladder[..., -1] = 2.0
    policy, value = np.full((H, problem.states), -1), None
    for episode in range(episodes):
        plan = agent.plan()
        if (plan != policy).any():
            policy, value = plan, problem.value(plan)
        yield *agent.values, value
        s, u, states, actions = start(episode), random.random((2, H)), np.zeros(H, int), np.zeros(H, int)
        for h in range(H):
            states[h], actions[h] = s, policy[h, s]
            s = int(np.argmax(ladder[h, s, policy[h, s]] > u[0, h]))
        asks = agent.decide_episode(states, actions)
        rewards = (u[1] < means[np.arange(H), states, actions]).astype(float)
        agent.observe_episode(np.where(asks, rewards, np.nan))


@pytest.mark.parametrize(
    ("name", "means", "episodes", "scale"),
    [
        ("UCBVI", 0.3 * np.random.default_rng(5).random((2, 2, 2)), 9_000, 1.0),
        ("ULCVI", [[[0.2]], [[0.9]]], 12_000, 1.0),
        ("ULCVI", [[[0.1, 0.5]]], 12_000, 1.0),
        ("ULCVI", np.random.default_rng(5).random((3, 3, 2)), 4_000, 0.002),  # with several states V has a variance
    ],
)
def test_optimism_and_pessimism_in_every_episode(name, means, episodes, scale):
    """V_lower ≤ V^π ≤ V* ≤ V_upper with the paper's constants; asks are skipped and first states alternate."""
    horizon, states, actions = np.shape(means)
    P = np.random.default_rng(0).dirichlet(np.ones(states), size=(horizon, states, actions))
    problem, learner = sp.problems.Episodic(P, means), LEARNERS[name](states, actions, horizon, scale=scale)
    agent = sp.Agent(learner, rule=sp.ExactMatching(), budget=sp.budgets.Linear(0.9 * horizon), seed=0)
    best, most, tight, positive = problem.optimal_values, np.arange(horizon, 0, -1.0)[:, np.newaxis], 0, 0
    for upper, lower, value in wander(agent, problem, episodes, lambda episode: episode % states):
        assert (lower <= value + 1e-9).all()
        assert (value <= best + 1e-9).all()
        assert (best <= upper + 1e-9).all()
        tight += (upper < most).any()
        positive += (lower > 0.0).any()
    assert tight > 1_000  # the upper bound said something
    assert positive > 1_000 or name == "UCBVI"  # and so did the lower one


def test_optimism_can_fail():
    """With a thousandth of the bonus the same check notices."""
    problem = sp.problems.river_swim(4, 6)
    agent = sp.Agent(sp.UCBVI(4, 2, 6, scale=0.001, ties="first"), rule=sp.Always(), budget=math.inf, seed=0)
    failed = sum(
        (upper < problem.optimal_values - 1e-9).any() for upper, _, _ in wander(agent, problem, 300, lambda episode: 0)
    )
    assert failed > 100


# The rules.


def test_e6_the_threshold_is_the_algorithms():
    L, B, rewarding, cells = 7.0, 50.0, 3, 40
    bar = paper_episode_bar(float(rewarding), cells, int(B * 1e6))
    assert L * bar == pytest.approx(L * (6 * math.sqrt(rewarding / B) + 4 * cells * (math.log(1 + B) + 1) / B))
    b_r = math.sqrt(2 * 0.2 * L / 9) + 5 * L / 9
    assert reward_width(0.2, 9, L) == pytest.approx(2 * b_r)
    assert reward_width(0.0, 0, L) == reward_width(0.0, 1, L) == 10 * L


def test_e7_without_the_ledger_paper_matching_overspends():
    """SAH = 5, |L_R| = 1, B = 9: every cell is wanted at n = 0 and again at n = 1, ten asks where nine are granted."""
    L, bar = 5.0, paper_episode_bar(1.0, 5, 9_000_000)
    wanted = sum(reward_width(0.0, n, L) >= L * bar for n in (0, 1) for _ in range(5))
    assert wanted == 10 > 9

    agent = sp.Agent(sp.UCBVI(states=5, actions=1, horizon=1, rewarding=1), rule=sp.PaperMatching(), budget=9, seed=0)
    asks = 0
    for s in (0, 1, 2, 3, 4, 0, 1, 2, 3, 4):
        mask = agent.decide_episode([s], [0])
        agent.observe_episode([0.0] if mask[0] else [np.nan])
        asks += int(mask.sum())
    assert asks == 9
    assert agent.ledger.spent == 9
    assert agent.ledger.refused == 1


def test_the_unknown_stays_promising_at_any_scale():
    """However small the scale, every action is tried, and a reward that was never asked for may be 1."""
    problem = sp.problems.Episodic([[[1.0], [1.0]]], [[0.5, 1.0]], horizon=5, initial=0, rewards="fixed")
    for learner in (sp.UCBVI, sp.ULCVI):
        r = sp.simulate(problem, learner(1, 2, 5, scale=1e-4), sp.Always(), math.inf, rounds=20_000, runs=1)
        assert (r.plays > 0).all()
        assert (r.plays[0, :, 0, 1] > 19_000).all()
    agent = sp.Agent(sp.UCBVI(3, 2, 4, scale=0.0), rule=sp.Never(explore="always"), budget=0, seed=0)
    for _ in range(50):
        states = [0, 1, 2, 0]
        policy = agent.plan()
        agent.decide_episode(states, [int(policy[h, s]) for h, s in enumerate(states)])
    assert (agent.values[0] == np.arange(4, 0, -1)[:, np.newaxis]).all()


def test_greedy_asks_whole_episodes_or_nothing():
    agent = sp.Agent(sp.UCBVI(3, 2, 4, scale=0.05), rule=sp.Greedy(), budget=sp.budgets.Linear(1.5), seed=0)
    for _ in range(100):
        policy = agent.plan()
        states = [0, 1, 2, 0]
        mask = agent.decide_episode(states, [int(policy[h, s]) for h, s in enumerate(states)])
        assert mask.all() or not mask.any()
        agent.observe_episode(np.where(mask, 0.5, np.nan))
    assert agent.ledger.refused == 0
    assert agent.ledger.spent == 148  # 150 were granted


def test_greedy_acts_with_a_past_policy():
    """Where the budget does not pay for an episode. The past is changed here, to tell it from the present."""
    agent = sp.Agent(sp.UCBVI(1, 2, 3, ties="first"), rule=sp.Greedy(), budget=3, seed=0)
    agent.decide_episode([0, 0, 0], agent.plan()[:, 0])
    memory = agent._family.memory
    memory.reservoir.policies[0] = 1 - memory.values.policy.ravel()
    assert (agent.plan() == 1 - memory.values.policy).all()


def test_the_reservoir_is_uniform():
    """After l policies the kept one is each of them with probability 1/l: chi-square, false alarms 1e-6."""
    from scipy.stats import chi2

    kept = np.zeros(5)
    for seed in range(2_000):
        agent = sp.Agent(sp.UCBVI(1, 1, 1), rule=sp.Greedy(), budget=5, seed=seed)
        for _ in range(5):
            agent.decide_episode([0], [0])
        kept[agent._family.memory.reservoir.since[0] - 1] += 1
    assert ((kept - 400) ** 2 / 400).sum() < chi2.ppf(1 - 1e-6, 4)


def test_an_adversary_of_initial_states_ruins_greedy_and_not_matching():
    regret = {}
    for rule in (sp.Greedy(), sp.ExactMatching(), sp.BalancedMatching()):
        problem, budget = sp.problems.episode_trap()
        r = sp.simulate(problem, sp.UCBVI(3, 2, 2, scale=0.05), rule, budget, rounds=50_000, runs=10)
        assert r.refused.sum() == 0
        regret[type(rule).__name__] = r.final_regret()[0]
    assert regret["Greedy"] > 0.2 * 50_000
    assert max(regret["ExactMatching"], regret["BalancedMatching"]) < 600


COSTS = st.sampled_from([0.0, 0.1, 0.3, 1.0, 2.0])


def promised(rule, agent):
    """How many asks about each cell no adversary can take from it: κ, of exact matching or of a reserve."""
    granted, total = agent.ledger.granted_units, int(agent._family.memory.counts["cost"].sum())
    if isinstance(rule, sp.BalancedMatching):
        granted = reserve_of(granted, rule.reserve, math.ceil(total / rule.reserve) if rule.reserve else 0)
    return 0 if isinstance(rule, sp.Greedy) or total == 0 else granted // total


@pytest.mark.parametrize(
    "rule",
    [
        sp.ExactMatching(), sp.Greedy(), sp.BalancedMatching(), sp.BalancedMatching(reserve=0.0),
        sp.BalancedMatching(reserve=0.5, explore="always"),
    ],
    ids=repr,
)  # fmt: skip
@settings(max_examples=60)
@given(data=st.data())
def test_the_budget_is_hard_and_safe_rules_are_never_refused(rule, data):
    """Hypothesis picks costs, grants, paths and answers, knowing the past."""
    S, A, H = (data.draw(st.integers(1, most)) for most in (3, 2, 3))
    costs = None
    if data.draw(st.booleans(), label="costs?"):
        costs = [[[data.draw(COSTS) for _ in range(A)] for _ in range(S)] for _ in range(H)]
    agent = sp.Agent(sp.UCBVI(S, A, H, costs=costs), rule=rule, budget=0, seed=0)
    for _ in range(data.draw(st.integers(1, 40), label="episodes")):
        agent.grant(data.draw(st.sampled_from([0.0, 0.5, 1.0, float(S * A * H)]), label="grant"))
        states = [data.draw(st.integers(0, S - 1)) for _ in range(H)]
        actions, before = [data.draw(st.integers(0, A - 1)) for _ in range(H)], agent.asked
        asks = agent.decide_episode(states, actions)
        for h in np.flatnonzero(asks):
            if data.draw(st.booleans(), label="answer?"):
                agent.observe((agent.decisions, int(h)), data.draw(st.sampled_from([0.0, 0.5, 1.0])))
        assert agent.ledger.spent <= agent.ledger.granted
        price = np.ones((H, S, A)) if costs is None else np.array(costs)
        assert float((agent.asked * price).sum()) == pytest.approx(agent.ledger.spent)
        assert (asks >= (before[range(H), states, actions] < promised(rule, agent))).all()  # no cell is starved
    assert agent.ledger.refused == 0


@pytest.mark.parametrize("rule", [sp.PaperMatching(), sp.Always(), sp.Matching(0.1)])
@settings(max_examples=25)
@given(seed=st.integers(0, 2**32), growth=st.floats(0, 3))
def test_unsafe_rules_are_kept_within_the_budget(rule, seed, growth):
    problem = sp.problems.random_mdp(3, 2, 2, seed=seed % 7)
    r = sp.simulate(
        problem, sp.UCBVI(3, 2, 2, rewarding=1), rule, sp.budgets.Linear(growth), rounds=300, runs=1, seed=seed
    )
    assert (r.spent <= r.budget).all()


# The simulator against itself.

BUDGETS = [sp.budgets.Linear(0.7), sp.budgets.Bernoulli(0.5), sp.budgets.Periodic(10, every=30), math.inf]


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("rule", RULES, ids=repr)
@pytest.mark.parametrize("ties", ["first", "random"])
def test_compiled_loop_and_agent_are_one(name, rule, ties):
    for number, budget in enumerate(BUDGETS):
        problem = sp.problems.random_mdp(20 if number == 1 else 3, 2, 3, successors=3, seed=number)
        learner = LEARNERS[name](problem.states, 2, 3, scale=0.05, ties=ties)
        common = {"rounds": 150, "runs": 2, "seed": number, "checkpoints": 30}
        fast, plain, by_agent = (
            sp.simulate(problem, learner, rule, budget, path=path, **common) for path in ("fast", "plain", "agent")
        )
        same(fast, plain)
        same(fast, by_agent)


@pytest.mark.parametrize("problem", [sp.problems.grid(4, 5, 8), sp.problems.random_mdp(24, 3, 4, seed=1)], ids=repr)
def test_passing_over_actions_is_exact_in_long_runs(problem):
    learner = sp.UCBVI(problem.states, problem.actions, problem.horizon, scale=0.05)
    common = {"rounds": 20_000, "runs": 2, "checkpoints": 50}
    fast, plain = (
        sp.simulate(problem, learner, sp.ExactMatching(), sp.budgets.Linear(1), path=path, **common)
        for path in ("fast", "plain")
    )
    same(fast, plain)


def digest() -> list[float]:
    """Short runs of every learner and rule, as numbers that leave no room for a difference."""
    result = []
    for name, rule in itertools.product(LEARNERS, RULES):
        problem = sp.problems.random_mdp(18, 2, 2, successors=5, seed=1, sparsity=0.5, rewards="beta")
        learner = LEARNERS[name](18, 2, 2, scale=0.05, ties="random")
        r = sp.simulate(problem, learner, rule, sp.budgets.Linear(0.8), rounds=60, runs=1, checkpoints=[20, 60])
        result += [*r.regret[0], *r.asked[0].tolist()]
    return result


def test_compiled_and_interpreted_runs_are_identical():
    assert interpreted("tests.episodic.test_episodic") == digest()


def test_results_depend_on_the_seed_alone():
    problem, learner = sp.problems.grid(3, 4, 8), sp.UCBVI(12, 4, 8, scale=0.02)
    common = {"rounds": 400, "runs": 4, "seed": 3}
    one = sp.simulate(problem, learner, sp.ExactMatching(), sp.budgets.Linear(2), jobs=1, **common)
    same(one, sp.simulate(problem, learner, sp.ExactMatching(), sp.budgets.Linear(2), jobs=4, **common))
    assert len(np.unique(one.regret[:, -1])) > 1


def test_regret_is_what_policies_lose():
    """The recorded pseudo-regret against policies replayed on an agent and evaluated by the problem."""
    problem, learner = sp.problems.chain(4, 5), sp.UCBVI(4, 2, 5, scale=0.05)
    policies = []

    def start(history):
        return history.round % 4

    problem.initial = sp.contexts.Adaptive(start)
    original = sp.Agent.plan

    def spy(agent):
        policies.append(original(agent).copy())
        return policies[-1]

    sp.Agent.plan = spy
    try:
        r = sp.simulate(
            problem, learner, sp.Greedy(), sp.budgets.Linear(2), rounds=120, runs=1, checkpoints=np.arange(1, 121)
        )
    finally:
        sp.Agent.plan = original
    planned = policies[::2]  # decide_episode asks for the plan once more
    lost = [
        problem.optimal_values[0, t % 4] - problem.value(policy)[0, t % 4] for t, policy in enumerate(planned, start=1)
    ]
    np.testing.assert_allclose(r.regret[0], np.cumsum(lost), atol=1e-9)


def test_regret_of_the_first_step():
    """With one step, the regret is the sum of the gaps of what was played; a change of that step must not be missed."""
    problem = sp.problems.Episodic([[[1.0], [1.0]]], [[0.2, 0.7]], horizon=1, initial=0, rewards="fixed")
    r = sp.simulate(problem, sp.UCBVI(1, 2, 1, scale=0.1), sp.Always(), math.inf, rounds=200, runs=1)
    assert r.regret[0, -1] == pytest.approx(0.5 * r.plays[0, 0, 0, 0])
    assert 0 < r.plays[0, 0, 0, 0] < 200


def test_adversaries_may_pick_initial_states_and_budgets():
    def least_known(history):
        return int(np.argmin(history.asked[0].sum(axis=1)))

    def stingy(history):
        return history.granted + (history.context == 0)

    problem = sp.problems.Episodic(
        np.full((3, 2, 3), 1 / 3), np.random.default_rng(0).random((3, 2)), horizon=2,
        initial=sp.contexts.Adaptive(least_known),
    )  # fmt: skip
    r = sp.simulate(problem, sp.ULCVI(3, 2, 2), sp.ExactMatching(), sp.budgets.Adaptive(stingy), rounds=200, runs=1)
    assert r.refused.sum() == 0
    assert 0 < r.asked[0, -1] <= r.budget[0, -1] < 200


@pytest.mark.parametrize("values", [[3, 0], [-1, 0], [10**6, 0], [0.5, 0.0], [0, 0, 0]])
def test_a_source_of_ones_own_is_checked(values):
    """Compiled code does not check its indices, so what it is given is checked."""

    class Own(sp.contexts.Contexts):
        def tape(self, random, contexts):
            return sp.contexts.Tape(lambda first, count, grew: np.array(values))

    for problem, learner in (
        (
            sp.problems.Episodic(np.full((3, 1, 3), 1 / 3), np.zeros((3, 1)), horizon=2, initial=Own()),
            sp.UCBVI(3, 1, 2),
        ),
        (sp.problems.ContextualArms(np.zeros((3, 2)), contexts=Own()), sp.UCB1(2, 3)),
    ):
        with pytest.raises(sp.InvalidInput, match="context"):
            sp.simulate(problem, learner, sp.Never(), 0, rounds=2, runs=1)


def test_free_asks_are_always_taken():
    costs = np.ones((3, 2))
    costs[2] = 0.0
    problem = sp.problems.Episodic(np.full((3, 2, 3), 1 / 3), np.full((3, 2), 0.5), horizon=2, costs=costs)
    for rule in (sp.ExactMatching(), sp.BalancedMatching(), sp.PaperMatching(), sp.Always()):
        r = sp.simulate(problem, sp.UCBVI(3, 2, 2), rule, 0, rounds=100, runs=1)
        assert r.asked[0, -1] == r.plays[0, :, 2].sum() > 0
        assert r.spent[0, -1] == 0


# The agent.


def played(agent, episodes, seed):
    """Let an agent live through episodes in which a third of the answers come an episode late."""
    random, log, late = np.random.default_rng(seed), [], []
    H, S, _ = agent.learner.shape
    for _ in range(episodes):
        policy = agent.plan()
        states = random.integers(0, S, H)
        asks = agent.decide_episode(states, policy[np.arange(H), states])
        log.append((policy.tolist(), asks.tolist()))
        for step_id, reward in late:
            agent.observe(step_id, reward)
        late = []
        for h in np.flatnonzero(asks):
            answer = ((agent.decisions, int(h)), float(random.random()))
            if random.random() < 0.3:
                late.append(answer)
            else:
                agent.observe(*answer)
    return log


@pytest.mark.parametrize("name", LEARNERS)
@pytest.mark.parametrize("rule", RULES, ids=repr)
def test_a_saved_agent_resumes_identically(name, rule, tmp_path):
    """Also in the middle of an episode, with answers awaited; a copy and a pickle do the same."""
    agent = sp.Agent(
        LEARNERS[name](20, 2, 3, scale=0.05, ties="random"), rule=rule, budget=sp.budgets.Linear(1.5), seed=1
    )
    played(agent, 40, seed=0)
    agent.plan()
    agent.save(tmp_path / "agent.json")
    others = [sp.Agent.load(tmp_path / "agent.json"), copy.deepcopy(agent), pickle.loads(pickle.dumps(agent))]
    assert all(other.awaited == agent.awaited for other in others)
    log = played(agent, 40, seed=5)
    for other in others:
        assert played(other, 40, seed=5) == log
        assert repr(other.ledger) == repr(agent.ledger)
        np.testing.assert_array_equal(other.means, agent.means)


@pytest.mark.parametrize("name", LEARNERS)
def test_looking_changes_nothing(name):
    agent = sp.Agent(LEARNERS[name](20, 2, 3, scale=0.05), budget=500, seed=1)
    played(agent, 50, seed=0)
    before = agent._family.words.copy()
    for look in ("asked", "answered", "means", "visits", "widths", "values", "decisions", "awaited", "ledger"):
        getattr(agent, look)
    guess = agent.best_guess()
    np.testing.assert_array_equal(agent._family.words, before)
    means = np.nan_to_num(agent.means)
    counts = np.zeros((3, 20, 2, 20))
    for cell, after, times in agent._family.transitions():
        counts.reshape(-1, 20)[int(cell), int(after)] = times
    V = np.zeros(20)
    for h in (2, 1, 0):  # the guess is optimal in the estimated model
        Q = means[h] + (counts[h] / np.maximum(agent.visits[h], 1)[..., np.newaxis]) @ V
        V = Q.max(axis=1)
        seen = agent.visits[h].any(axis=1)
        np.testing.assert_allclose(Q[seen, guess[h, seen]], V[seen], atol=1e-12)


@pytest.mark.parametrize("rule", [sp.ExactMatching(), sp.BalancedMatching(), sp.Greedy()], ids=repr)
def test_costs_given_to_the_agent_are_saved(rule, tmp_path):
    agent = sp.Agent(sp.UCBVI(3, 2, 2, scale=0.05), rule=rule, budget=200, seed=0, costs=np.full((3, 2), 5.0))
    played(agent, 10, seed=0)
    agent.plan()
    agent.save(tmp_path / "a.json")
    other = sp.Agent.load(tmp_path / "a.json")
    for first, second in zip(agent.values, other.values, strict=True):
        np.testing.assert_array_equal(first, second)
    log = played(agent, 200, seed=1)
    assert played(other, 200, seed=1) == log
    assert repr(agent.ledger) == repr(other.ledger)
    assert agent.ledger.refused == 0


def tampered(change, tmp_path, learner=None, rule=None):
    """A saved agent with something changed in its memory and a checksum that fits again."""
    agent = sp.Agent(learner or sp.UCBVI(3, 2, 2), rule=rule or sp.ExactMatching(), budget=50, seed=0)
    played(agent, 30, seed=0)
    agent.plan()
    agent.save(tmp_path / "a.json")
    plain = json.loads((tmp_path / "a.json").read_text())
    plain.pop("checksum")
    change(plain["memory"])
    (tmp_path / "b.json").write_text(json.dumps(plain | {"checksum": _checksum(plain)}))
    return sp.Agent.load(tmp_path / "b.json")


def put(name, place, value):
    return lambda memory: memory[name]["data"].__setitem__(place, value)


@pytest.mark.parametrize(
    "change",
    [
        put("counts", 0, 0),  # free asks
        put("counts", 1, -1),
        put("counts", 2, 10**6),
        put("counts", 3, 0),
        put("counts", 3, 10**9),
        put("means", 0, {"float": "nan"}),
        put("means", 0, 1.5),
        put("squares", 0, -1.0),
        put("squares", 1, {"float": "inf"}),
        put("policy", 0, 2),
        put("policy", 0, -1),
        put("upper", 0, 3.0),
        put("upper", -1, 1.0),
        put("lower", 0, {"float": "nan"}),
        put("transitions", 0, 999.0),
        put("transitions", 1, 3.0),
        put("transitions", 1, -1.0),
        put("transitions", 1, 0.5),
        put("transitions", 2, 0.0),
        put("transitions", 2, 5000.0),
        put("counters", 0, -1),
        put("counters", 1, -5),
        put("counters", 2, -5),
        put("counters", 3, 7),
        put("counters", 4, 0),  # acting with a past policy that there is not
        put("counters", 4, -2),
        put("account", 1, -5),
        lambda memory: memory["transitions"].update(shape=[0, 3], data=[]),
        lambda memory: memory["transitions"].update(
            shape=[memory["transitions"]["shape"][0] + 1, 3],
            data=memory["transitions"]["data"] + memory["transitions"]["data"][:3],
        ),
        lambda memory: memory.pop("counters"),
    ],
)
def test_a_tampered_file_is_refused(change, tmp_path):
    tampered(lambda memory: None, tmp_path)  # by itself it is fine
    with pytest.raises(sp.UnreadableFile):
        tampered(change, tmp_path)


def test_a_shallow_copy_is_an_agent_of_its_own():
    agent = sp.Agent(sp.UCBVI(20, 2, 3, scale=0.05), budget=10, seed=0)
    other = copy.copy(agent)
    played(other, 60, seed=0)
    other.grant(5)
    assert (agent.decisions, agent.ledger.granted) == (0, 10)
    assert (other.decisions, other.ledger.granted) == (60, 15)


def test_a_plan_stays_until_the_episode_ends():
    agent = sp.Agent(sp.UCBVI(3, 2, 4, scale=0.05), budget=100, seed=0)
    first = agent.plan()
    agent.grant(5)
    assert (agent.plan() == first).all()
    agent.decide_episode([0, 1, 2, 0], [0, 0, 0, 0])
    assert agent.decisions == 1
    assert agent.awaited == ((1, 0), (1, 1), (1, 2), (1, 3))


@pytest.mark.parametrize(
    ("states", "actions", "message"),
    [
        ([0, 1], [0, 0, 0], "states must be whole numbers of shape"),
        ([[0], [1, 2], 1], [0, 0, 0], "states must be whole numbers of shape"),
        ([0, 1, 3], [0, 0, 0], "states must lie in 0 … 2"),
        ([0, 1, -1], [0, 0, 0], "states must lie in 0 … 2"),
        ([0, 1, 1.5], [0, 0, 0], "states must be whole numbers"),
        ([0, 1, 1], [0, 0, 2], "actions must lie in 0 … 1"),
        ([0, 1, 1], [True, False, True], "actions must be whole numbers"),
        (None, [0, 0, 0], "states must be whole numbers"),
    ],
)
def test_bad_episodes_change_nothing(states, actions, message):
    agent = sp.Agent(sp.UCBVI(3, 2, 3), budget=10, seed=0)
    before = agent._family.words.copy()
    with pytest.raises(sp.InvalidInput, match=message):
        agent.decide_episode(states, actions)
    np.testing.assert_array_equal(agent._family.words, before)


@pytest.mark.parametrize(
    ("rewards", "error"),
    [
        ([0.5, 0.5, 1.5], sp.InvalidInput),
        ([0.5, 0.5, math.inf], sp.InvalidInput),
        ([0.5, 0.5], sp.InvalidInput),
        (["a", 0, 0], sp.InvalidInput),
        ([0.5, 0.5, 0.5, 0.5], sp.InvalidInput),
    ],
)
def test_bad_rewards_change_nothing(rewards, error):
    agent = sp.Agent(sp.UCBVI(3, 2, 3), rule=sp.Always(), budget=3, seed=0)
    agent.decide_episode([0, 0, 0], [0, 0, 0])
    with pytest.raises(error):
        agent.observe_episode(rewards)
    assert agent.answered.sum() == 0
    assert len(agent.awaited) == 3


def test_answers_come_once_and_only_where_asked():
    agent = sp.Agent(sp.UCBVI(3, 2, 3), rule=sp.Always(), budget=2, seed=0)
    assert agent.decide_episode([0, 0, 0], [0, 0, 0]).tolist() == [True, True, False]
    with pytest.raises(sp.NotAwaited):
        agent.observe_episode([0.5, 0.5, 0.5])
    agent.observe_episode([0.5, np.nan, np.nan])
    with pytest.raises(sp.NotAwaited):
        agent.observe((1, 0), 0.5)
    with pytest.raises(sp.UnknownDecision):
        agent.observe((2, 0), 0.5)
    with pytest.raises(sp.UnknownDecision):
        agent.observe(1, 0.5)
    for nonsense in ((1, 0, 0), ("a", 0), (None, 0), ([1], 0), (1.0, 0), "x", None):
        with pytest.raises(sp.UnknownDecision):
            agent.observe(nonsense, 0.5)
    for nonsense in (99, "x", 0, [1]):
        with pytest.raises(sp.InvalidInput):
            agent.observe_episode([np.nan] * 3, episode=nonsense)
    agent.observe((1, 1), 0.25)
    assert np.nansum(agent.means) == 0.75
    assert agent.awaited == ()


class ForEpisodes(sp.Rule, episodic=True):
    """Asks about every step, and knows no other setting."""


def test_what_belongs_to_another_family_says_so():
    episodes, arms = sp.Agent(sp.UCBVI(2, 2, 2), budget=1), sp.Agent(sp.UCB1(2), budget=1)
    with pytest.raises(sp.InvalidInput, match="decides whole episodes"):
        episodes.decide()
    for call in (arms.plan, lambda: arms.decide_episode([0], [0]), lambda: arms.visits, lambda: arms.widths):
        with pytest.raises(sp.InvalidInput, match=r"agents of UCBVI.* ULCVI.* have it"):
            call()
    for learner in (sp.UCB1(2), sp.OFUL(2)):
        with pytest.raises(sp.InvalidInput, match="ForEpisodes is for episodes"):
            sp.Agent(learner, rule=ForEpisodes(), budget=1)
    problem = sp.problems.river_swim()
    with pytest.raises(sp.InvalidInput, match="needs UCBVI or ULCVI"):
        sp.simulate(problem, sp.UCB1(2), sp.Never(), 0, rounds=1)
    with pytest.raises(sp.InvalidInput, match="states=6, actions=2, horizon=20"):
        sp.simulate(problem, sp.UCBVI(5, 2, 20), sp.Never(), 0, rounds=1)
    with pytest.raises(sp.InvalidInput, match="unit costs only"):
        sp.Agent(sp.UCBVI(2, 2, 2, costs=np.full((2, 2), 2.0)), rule=sp.PaperMatching(), budget=1)


@pytest.mark.parametrize(
    "make",
    [
        lambda: sp.UCBVI(0, 2, 2),
        lambda: sp.UCBVI(2, 2, 2.0),
        lambda: sp.UCBVI(2, 2, 2, delta=1.0),
        lambda: sp.UCBVI(2, 2, 2, delta=0.0),
        lambda: sp.UCBVI(2, 2, 2, scale=-1),
        lambda: sp.UCBVI(2, 2, 2, rewarding=9),
        lambda: sp.UCBVI(2, 2, 2, rewarding=0),
        lambda: sp.UCBVI(2, 2, 2, ties="last"),
        lambda: sp.UCBVI(2, 2, 2, costs=[1, 2]),
        lambda: sp.UCBVI(2, 2, 2, costs=[[1, 2], [3, -1]]),
        lambda: sp.UCBVI(10**5, 10**5, 10**5),
        lambda: sp.BalancedMatching(reserve=1.5),
        lambda: sp.problems.Episodic([[[0.5, 0.4]]], [[0.5]], horizon=2),
        lambda: sp.problems.Episodic([[[0.5, 0.4], [0.5, 0.5]]], [[0.5]], horizon=2),
        lambda: sp.problems.Episodic([[[1.0]]], [[1.5]], horizon=2),
        lambda: sp.problems.Episodic([[[1.0]]], [[math.nan]], horizon=2),
        lambda: sp.problems.Episodic([[[math.nan]]], [[0.5]], horizon=2),
        lambda: sp.problems.Episodic([[[1.0]]], [[0.5]]),
        lambda: sp.problems.Episodic([[[[1.0]]]] * 3, [[0.5]], horizon=2),
        lambda: sp.problems.Episodic([[[[1.0]]]] * 3, [[[0.5]]] * 2),
        lambda: sp.problems.Episodic([[[1.0]]], [[0.5, 0.5]], horizon=2),
        lambda: sp.problems.Episodic([[[1.0]]], [[0.5]], horizon=2, initial=1),
        lambda: sp.problems.Episodic([[[1.0]]], [[0.5]], horizon=2, costs=[[-1]]),
        lambda: sp.problems.Episodic.from_successors([[[(0.5, 0, 0.0)]]], horizon=1),
        lambda: sp.problems.Episodic.from_successors([[[(1.0, 1, 0.0)]]], horizon=1),
        lambda: sp.problems.Episodic.from_successors([[[]]], horizon=1),
        lambda: sp.problems.Episodic.from_successors([[[(-0.5, 0, 0.0), (1.5, 0, 0.0)]]], horizon=1),
        lambda: sp.problems.Episodic.from_successors([[[(math.nan, 0, 0.0), (1.0, 0, 0.5)]]], horizon=1),
        lambda: sp.problems.Episodic.from_successors([[[(0.5, 0, -1.0), (0.5, 0, 2.0)]]], horizon=1),
        lambda: sp.problems.Episodic.from_successors([[[(1.0, 0)]]], horizon=1),
        lambda: sp.problems.river_swim().value([[0], [1, 2]]),
        lambda: sp.problems.Episodic.from_successors([], horizon=1),
        lambda: sp.problems.random_mdp(3, 2, 2, sparsity=0),
        lambda: sp.problems.random_mdp(3, 2, 2, successors=4),
        lambda: sp.problems.river_swim().value([[0]]),
        lambda: sp.problems.river_swim().value(np.full((20, 6), 2)),
    ],
)
def test_bad_parameters(make):
    with pytest.raises(sp.InvalidInput):
        make()


def test_shapes_of_rewards_and_transitions_agree():
    """The same problem written in every shape that is taken, and from successors."""
    random = np.random.default_rng(0)
    P, R = random.dirichlet(np.ones(3), size=(3, 2)), random.random((3, 2))
    by_successor = np.repeat(R[..., np.newaxis], 3, axis=2)
    rows = [[[(P[s, a, x], x, R[s, a]) for x in range(3)] for a in range(2)] for s in range(3)]
    problems = [
        sp.problems.Episodic(P, R, horizon=4),
        sp.problems.Episodic(np.tile(P, (4, 1, 1, 1)), R),
        sp.problems.Episodic(P, np.tile(R, (4, 1, 1))),
        sp.problems.Episodic(P, by_successor, horizon=4),
        sp.problems.Episodic(P, np.tile(by_successor, (4, 1, 1, 1))),
        sp.problems.Episodic.from_successors(rows, horizon=4, rewards="bernoulli"),
    ]
    learner = sp.UCBVI(3, 2, 4, scale=0.05)
    runs = [sp.simulate(p, learner, sp.ExactMatching(), 100, rounds=200, runs=2) for p in problems]
    for problem, run in zip(problems, runs, strict=True):
        np.testing.assert_allclose(problem.optimal_values, problems[0].optimal_values, atol=1e-14)
        np.testing.assert_allclose(problem.means, problems[0].means, atol=1e-15)
        np.testing.assert_allclose(problem.transitions(), problems[0].transitions(), atol=1e-15)
        np.testing.assert_array_equal(run.plays, runs[0].plays)


def test_deep_sea_and_river_swim_are_what_they_are_called():
    sea = sp.problems.deep_sea(5)
    s, actions = 0, sea.optimal_policy
    for h in range(5):
        assert s == h * 5 + h  # on the diagonal, towards the treasure
        s = int(np.argmax(sea.transitions()[h, s, actions[h, s]]))
    assert sea.optimal_values[0, 0] == pytest.approx(1.0)
    river = sp.problems.river_swim(6, 50)
    left = river.value(np.zeros((50, 6), dtype=int))[0, 0]
    assert left == pytest.approx(50 * 0.005)
    assert river.optimal_values[0, 0] > 20 * left
