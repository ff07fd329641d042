"""Gymnasium: rewards on request, tables as problems, learning without a model."""

from __future__ import annotations

import functools
import importlib.util
import math
import subprocess
import sys
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.spaces import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

import sparingly as sp
import sparingly.gym
from sparingly.gym import AskForReward, learn, play, problem
from sparingly.problems.episodic import step

UCBVI = functools.partial(sp.UCBVI, scale=0.001)
BOLD = functools.partial(sp.UCBVI, scale=0.01)


class Corridor(gymnasium.Env):
    """Walk right from 10 to 13 for a prize, −1 for every other step; states start at 10 and actions at 5."""

    def __init__(self, prize=7.0):
        self.observation_space, self.action_space, self.prize = Discrete(4, start=10), Discrete(2, start=5), prize

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.place = 10
        return self.place, {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.place = min(max(self.place + (1 if action == 6 else -1), 10), 13)
        return self.place, self.prize if self.place == 13 else -1.0, self.place == 13, False, {}


class Sensor(gymnasium.Env):
    """Spaces that are not Discrete; pays 0.0, 1.0, 2.0, …"""

    def __init__(self):
        self.observation_space, self.action_space = Dict({"heat": Box(0.0, 1.0)}), Box(-1.0, 1.0)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = -1
        return {"heat": np.zeros(1, dtype=np.float32)}, {"note": "start"}

    def step(self, action):
        self.time += 1
        return {"heat": np.zeros(1, dtype=np.float32)}, np.float32(self.time), False, False, {"note": "on"}


@pytest.mark.parametrize("budget", [10, sp.budgets.Linear(0.5)], ids=repr)
@pytest.mark.parametrize("name", ["FrozenLake-v1", "Taxi-v4", "CartPole-v1"])
def test_gymnasiums_checker_passes(name, budget):
    """It warns of every wrapper, of CartPole's own bounds and, rightly, of the NaN; rendering needs more packages."""
    env = AskForReward(gymnasium.make(name), budget=budget)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        check_env(env, skip_render_check=True)
    known = ("different from the unwrapped version", "The reward is a NaN value", "value is infinity", "is -infinity")
    assert all(any(part in str(w.message) for part in known) for w in caught)
    assert isinstance(env.spec.make(), AskForReward)
    assert not env.env.spec.nondeterministic  # only the wrapper's copy says so


def test_rewards_are_shown_when_asked_for():
    env = AskForReward(Sensor(), budget=5, cost=2)
    action = np.zeros(1, dtype=np.float32)
    _, info = env.reset(seed=0)
    assert info == {"note": "start", "budget": {"granted": 5.0, "spent": 0.0, "left": 5.0, "asked": False}}
    for _ in range(3):
        _, reward, _, _, info = env.step(action)
        assert math.isnan(reward)
    assert info == {"note": "on", "budget": {"granted": 5.0, "spent": 0.0, "left": 5.0, "asked": False}}
    assert env.ask() == env.ask() == env.ask(2) == 2.0
    assert env.ask(1) == 1.0
    assert env.ledger.spent == 4.0
    assert math.isnan(env.ask(0))
    assert env.ledger.refused == 1
    env.grant(3)
    assert env.ask(0) == 0.0
    _, reward, _, _, info = env.step(action, ask=True)
    assert reward == 3.0
    assert info["budget"] == {"granted": 8.0, "spent": 8.0, "left": 0.0, "asked": True}
    _, reward, _, _, info = env.step(action, ask=True)
    assert math.isnan(reward)
    assert not info["budget"]["asked"]
    assert env.ask(3) == 3.0  # paid for before


def test_the_budget_grows_with_episodes_that_are_played():
    env = AskForReward(Corridor(), budget=sp.budgets.Linear(0.5))
    granted = []
    for _ in range(4):
        env.reset()
        env.reset()  # not an episode
        env.step(6)
        granted.append(env.ledger.granted)
    assert granted == [0.5, 1.0, 1.5, 2.0]
    env.grant(10)
    env.reset()
    assert env.ledger.granted == 12.5
    assert env.episode == 5


def test_only_the_current_episode_can_be_asked_about():
    env = AskForReward(Corridor(), budget=math.inf)
    with pytest.raises(sp.InvalidInput, match="no step was made"):
        env.ask()
    env.reset()
    for _ in range(3):
        _, _, terminated, _, _ = env.step(6)
    assert terminated
    assert [env.ask(h) for h in range(3)] == [-1.0, -1.0, 7.0]
    for number in (3, -1, 0.0, True, "0"):
        with pytest.raises(sp.InvalidInput, match="step must be a whole number"):
            env.ask(number)
    env.reset()
    with pytest.raises(sp.InvalidInput, match="no step was made"):
        env.ask(0)


@given(
    st.lists(st.tuples(st.sampled_from(["step", "asking", "ask", "reset", "grant"]), st.integers(0, 5)), max_size=60),
    st.sampled_from([0.3, 1.0, 2.5]),
)
def test_never_overspent_and_never_paid_twice(moves, cost):
    env = AskForReward(Sensor(), budget=sp.budgets.Linear(0.7), cost=cost)
    env.reset()
    paid, steps, bought, action = 0, 0, set(), np.zeros(1, dtype=np.float32)
    for move, k in moves:
        if move in ("step", "asking"):
            reward = env.step(action, ask=move == "asking")[1]
            steps += 1
            if not math.isnan(reward):
                paid, bought = paid + 1, bought | {steps - 1}
        elif move == "ask" and k < steps:
            affordable = env.ledger.left >= cost - 1e-9
            reward = env.ask(k)
            assert math.isnan(reward) == (k not in bought and not affordable)
            if not math.isnan(reward):
                assert reward == k
                paid, bought = paid + (k not in bought), bought | {k}
        elif move == "reset":
            env.reset()
            steps, bought = 0, set()
        elif move == "grant":
            env.grant(k / 10)
        assert env.ledger.spent == pytest.approx(paid * cost)
        assert env.ledger.spent <= env.ledger.granted


def backward_induction(P, horizon):
    """V* (H, S) in the environment's units, straight from the table."""
    V = np.zeros((horizon + 1, len(P)))
    for h in reversed(range(horizon)):
        for s in range(len(P)):
            V[h, s] = max(sum(p * (r + (not done) * V[h + 1, n]) for p, n, r, done in P[s][a]) for a in P[s])
    return V[:-1]


@pytest.mark.parametrize(
    ("name", "horizon", "options"),
    [
        ("FrozenLake-v1", 100, {}),
        ("FrozenLake-v1", 40, {"map_name": "8x8"}),
        ("FrozenLake-v1", 7, {"is_slippery": False}),
        ("CliffWalking-v1", 20, {}),
        ("CliffWalkingSlippery-v1", 20, {}),
        ("Taxi-v4", 12, {}),
    ],
)
def test_optimal_values_against_plain_induction(name, horizon, options):
    env = gymnasium.make(name, **options)
    game = problem(env, horizon)
    values = game.in_rewards(game.optimal_values)
    np.testing.assert_allclose(values[:, :-1], backward_induction(env.unwrapped.P, horizon), atol=1e-9)
    np.testing.assert_allclose(values[:, -1], 0.0, atol=1e-9)
    assert (
        problem(name, horizon, **options).shape == game.shape == (horizon, len(env.unwrapped.P) + 1, env.action_space.n)
    )


def test_frozen_lake_is_won_by_three_in_four_in_a_hundred_steps():
    assert problem("FrozenLake-v1", 100).optimal_values[0, 0] == pytest.approx(0.7442, abs=1e-4)


def test_asking_is_free_after_the_end_only():
    game = problem("Taxi-v4", 3, cost=2.5)
    assert (game.costs[:, :-1] == 2.5).all()
    assert (game.costs[:, -1] == 0.0).all()


def test_the_value_of_a_policy_is_what_frozen_lake_pays():
    """An exact binomial test of 6,000 real episodes; false-alarm probability 1e-6."""
    game = problem("FrozenLake-v1", 20)
    value = game.value(game.optimal_policy)[0, 0]
    returns = play("FrozenLake-v1", game.optimal_policy, episodes=6_000, seed=1)
    assert binomtest(int(returns.sum()), 6_000, value).pvalue >= 1e-6
    assert binomtest(int(returns.sum()), 6_000, 0.8 * value).pvalue < 1e-6  # and it can fail


def test_the_value_of_a_policy_is_what_a_slippery_cliff_pays():
    """Several rewards lead to one next state there. Six standard errors: false-alarm probability below 1e-6."""
    game = problem("CliffWalkingSlippery-v1", 10)
    policy = np.random.default_rng(0).integers(4, size=(10, 48))
    padded = np.pad(policy, ((0, 0), (0, 1)))
    value = game.in_rewards(game.value(padded))[0, 36]
    returns = play("CliffWalkingSlippery-v1", policy, episodes=3_000, seed=1)
    assert abs(returns.mean() - value) <= 6 * returns.std(ddof=1) / math.sqrt(3_000)
    assert returns.std() > 10


def test_simulated_rewards_have_the_law_of_the_table():
    """Beside the goal of the large lake one action wins or drowns: 0 or 1, never the mean. Hoeffding, 1e-6."""
    game = problem("FrozenLake-v1", 1, initial=62, map_name="8x8")
    up = 3  # slips to 61, 54 (a hole, up) or 63 (the goal, right): a third each
    policy_value = game.value(np.full((1, 65), up))[0, 62]
    assert policy_value == pytest.approx(1 / 3)
    draws = [step(game.truth, 62 * 4 + up, np.uint64(1), np.uint64(2), k) for k in range(4_000)]
    ends = np.array([d.reward for d in draws if d.state == 64])
    assert set(ends) == {0.0, 1.0}
    assert abs(ends.mean() - 0.5) <= math.sqrt(math.log(2e6) / (2 * ends.size))


@pytest.mark.parametrize("name", ["Taxi-v4", "CliffWalking-v1"])
def test_without_chance_every_return_is_the_value_of_its_start(name):
    env, game = gymnasium.make(name), problem(name, 25)
    values = game.in_rewards(game.optimal_values)[0]
    starts = []
    for seed in range(40):
        s, _ = env.reset(seed=seed)
        starts.append(s)
        h, total, done = 0, 0.0, False
        while h < 25 and not done:
            s, reward, done, _, _ = env.step(int(game.optimal_policy[h, s]))
            total, h = total + reward, h + 1
        assert total == pytest.approx(values[starts[-1]])
    assert (len(set(starts)) > 10) == (name == "Taxi-v4")


def test_a_table_may_count_from_any_number():
    game = problem(tabular((1.0, 12, -2.0, False)), 4)
    assert game.in_rewards(game.optimal_values)[0].tolist() == [-8.0, -8.0, -8.0, -8.0, 0.0]
    assert game.transitions()[0, 0, 1, 2] == 1.0
    assert game.initial.values.tolist() == [0]  # where reset puts it: 10


def test_a_table_can_be_simulated_under_a_budget():
    game = problem("FrozenLake-v1", 10)
    r = sp.simulate(game, sp.UCBVI(17, 4, 10, scale=0.001), sp.ExactMatching(), 1_400, rounds=3_000, runs=2)
    assert r.refused.sum() == 0
    assert (r.spent[:, -1] <= 1_400).all()
    assert (r.spent[:, -1] > 0).all()
    assert r.plays[:, :, -1].sum() > 0  # the state after the end


def test_learning_sees_only_what_it_asks_for(monkeypatch):
    seen = []

    def watch(agent, rewards, episode=None):
        seen.append(np.array(rewards))
        original(agent, rewards, episode)

    def count(agent, states, actions):
        asks = decide(agent, states, actions)
        asked.append(asks.copy())
        return asks

    asked, original, decide = [], sp.Agent.observe_episode, sp.Agent.decide_episode
    monkeypatch.setattr(sp.Agent, "observe_episode", watch)
    monkeypatch.setattr(sp.Agent, "decide_episode", count)
    result = learn(Corridor(), BOLD, sp.ExactMatching(), 120, episodes=300, horizon=6, reward_range=(-1, 7))
    np.testing.assert_array_equal(~np.isnan(seen), asked)
    assert 0 < np.mean(asked) < 1
    assert set(np.concatenate(seen)[~np.isnan(np.concatenate(seen))]) == {0.0, 0.125, 1.0}
    assert result.asked.sum() == result.agent.ledger.spent <= 120
    assert (result.budget == 120).all()


def test_unasked_rewards_change_nothing():
    runs = [
        learn(Corridor(prize), BOLD, sp.Never(), 10, episodes=50, horizon=6, reward_range=(-1, 7)) for prize in (7, 3)
    ]
    np.testing.assert_array_equal(runs[0].agent.visits, runs[1].agent.visits)
    assert runs[0].returns.max() == 5.0
    assert runs[1].returns.max() == 1.0
    asking = [
        learn(Corridor(prize), BOLD, sp.Always(), 99, episodes=50, horizon=6, reward_range=(-1, 7)) for prize in (7, 3)
    ]
    assert not np.array_equal(asking[0].agent.visits, asking[1].agent.visits)


def test_the_corridor_is_learnt_in_its_own_numbers():
    result = learn(Corridor(), BOLD, None, sp.budgets.Linear(1.0), episodes=400, horizon=6, reward_range=(-1, 7))
    assert result.agent.rule == sp.BalancedMatching()
    np.testing.assert_array_equal(result.budget, np.arange(1.0, 401.0))
    np.testing.assert_array_equal(result.policy, result.agent.best_guess())
    assert result.returns.max() == 5.0
    assert play(Corridor(), result.policy, episodes=3).tolist() == [5.0] * 3
    assert ((result.steps >= 3) & (result.steps <= 6)).all()
    assert repr(result).startswith("Learning(400 episodes, ")


def test_frozen_lake_is_learnt_with_few_rewards():
    """With eight seeds the guesses earn 0.71 to 0.89 of the optimum; this is the first."""
    result = learn("FrozenLake-v1", UCBVI, sp.ExactMatching(), 5_000, episodes=8_000, horizon=20, seed=0)
    game = problem("FrozenLake-v1", 20)
    assert game.value(result.policy)[0, 0] >= 0.65 * game.optimal_values[0, 0]
    assert result.asked.sum() <= 0.04 * result.steps.sum()
    never = learn("FrozenLake-v1", UCBVI, sp.Never(), 5_000, episodes=2_000, horizon=20, seed=0)
    assert game.value(never.policy)[0, 0] <= 0.1 * game.optimal_values[0, 0]


def test_seeds_repeat_a_run():
    runs = [learn("FrozenLake-v1", UCBVI, sp.Greedy(), 500, 100, 10, seed=seed) for seed in (1, 1, 2)]
    np.testing.assert_array_equal(runs[0].steps, runs[1].steps)
    assert not np.array_equal(runs[0].steps, runs[2].steps)


def test_a_learner_may_come_with_its_sizes_and_costs():
    costs = np.full((17, 4), 3.0)
    learner = sp.ULCVI(17, 4, 5, scale=0.01, costs=costs.tolist())
    result = learn("FrozenLake-v1", learner, sp.Always(), math.inf, episodes=20, horizon=5)
    assert result.agent.ledger.spent == 3.0 * 5 * 20  # the end costs what the learner says
    plain = learn("FrozenLake-v1", UCBVI, sp.Always(), math.inf, episodes=20, horizon=40, cost=2)
    assert plain.agent.ledger.spent == 2.0 * plain.steps.sum() < 2.0 * 40 * 20


def test_time_limits_end_episodes():
    env = gymnasium.make("FrozenLake-v1", max_episode_steps=3)
    result = learn(env, UCBVI, sp.Always(), math.inf, episodes=30, horizon=6)
    assert result.steps.max() == 3
    assert result.agent.visits[3:, 16].sum() == 90
    assert result.agent.visits[3:].sum() == 90


def from_arms():
    return sp.Agent(sp.UCB1(2), budget=0, seed=0).best_guess()


def learning(**changes):
    options = {"env": Corridor(), "learner": BOLD, "rule": None, "budget": 9, "episodes": 9, "horizon": 5}
    return learn(**(options | {"reward_range": (-1, 7)} | changes))


def tabular(entry):
    """A corridor with the same entry everywhere in its table."""
    env = Corridor()
    env.P = {s: {a: [entry] for a in (5, 6)} for s in range(10, 14)}
    return env


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: AskForReward("FrozenLake-v1", budget=1), "environment of gymnasium is needed"),
        (lambda: AskForReward(Corridor(), budget=-1), "budget must be"),
        (lambda: AskForReward(Corridor(), budget=sp.budgets.Bernoulli(0.5)), "number or a schedule"),
        (lambda: AskForReward(Corridor(), budget=1, cost=-1), "cost of asking must be"),
        (lambda: AskForReward(Corridor(), budget=1, cost=1e-9), "counted in millionths"),
        (lambda: AskForReward(Corridor(), budget=1).grant(-1), "a grant must be"),
        (lambda: problem("NoSuchGame-v0", 3), "cannot make 'NoSuchGame-v0'"),
        (lambda: problem(3, 3), "environment of gymnasium or its name"),
        (lambda: problem("CartPole-v1", 3), "must be Discrete"),
        (lambda: problem(Corridor(), 3), "no table of transitions P; `sparingly.gym.learn`"),
        (lambda: problem(tabular((1.0, 10)), 3), "must hold"),
        (lambda: problem(tabular((0.5, 10, 1.0, False)), 3), "add up to 1"),
        (lambda: problem(tabular((1.0, 10, 0.0, False)), 3), "other than 0"),
        (lambda: problem(gymnasium.make("FrozenLake-v1"), 3, map_name="8x8"), "map_name can only be given"),
        (lambda: problem("FrozenLake-v1", 0), "horizon must be"),
        (lambda: problem("FrozenLake-v1", 3, cost=-1), "cost of asking must be"),
        (lambda: problem("FrozenLake-v1", 3).in_rewards([1.0]), r"shape \(3, 17\)"),
        (lambda: learning(env="CartPole-v1"), "must be Discrete"),
        (lambda: learning(env=AskForReward(Corridor(), budget=9)), "step 0 paid nan"),
        (lambda: learning(reward_range=None), "give reward_range="),
        (lambda: learning(reward_range=(0, math.inf)), "two finite numbers"),
        (lambda: learning(reward_range=(1, 0)), "two finite numbers"),
        (lambda: learning(reward_range=(0, 7)), "step 0 paid -1, outside of the range of rewards 0 … 7"),
        (lambda: learning(learner=sp.UCB1), "UCBVI or ULCVI is needed"),
        (lambda: learning(learner=functools.partial(sp.UCBVI, scal=1.0)), "scal"),
        (lambda: learning(learner=sp.UCB1(2)), "UCBVI or ULCVI is needed"),
        (lambda: learning(learner=sp.UCBVI(4, 2, 5)), "5 states, 2 actions and 5 steps"),
        (lambda: learning(episodes=0), "episodes must be"),
        (lambda: learning(horizon=0), "horizon must be"),
        (lambda: learning(seed=-1), "seed must be"),
        (lambda: play(Corridor(), [5, 6]), "must have shape"),
        (lambda: play(Corridor(), [[2, 0, 0, 0]]), "must lie in 0 … 1"),
        (lambda: play(Corridor(), [[0.5, 0, 0, 0]]), "must be whole numbers"),
        (lambda: play(Corridor(), [[0], [1, 0]]), "a policy must be numbers of shape"),
        (lambda: learning(learner=functools.partial(sp.UCBVI, costs=np.ones((5, 2))), cost=2), "leave out cost"),
        (lambda: play(Corridor(), [[0, 0, 0, 0]], episodes=0), "episodes must be"),
        (from_arms, "UCBVI, ULCVI and StationaryUCBVI have"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(sp.InvalidInput, match=message):
        call()


def test_a_falling_schedule_is_refused():
    class Falling(sp.budgets.Schedule):
        def __call__(self, round):
            return 5.0 - round

    env = AskForReward(Corridor(), budget=Falling())
    env.reset()
    env.step(6)
    with pytest.raises(sp.InvalidInput, match="only grows"):
        env.reset()
    assert (env.episode, env.ledger.granted, env.ask()) == (1, 4.0, -1.0)  # nothing has changed


def test_without_gymnasium_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "sparingly.gym")
    with pytest.raises(sp.MissingExtra, match=r"sparingly\.gym needs the extra 'gym'"):
        __import__("sparingly.gym")


def test_sparingly_itself_does_not_import_gymnasium():
    code = "import sys, sparingly; assert 'gymnasium' not in sys.modules and 'sparingly.gym' not in sys.modules"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# Step by step.

STEPS = functools.partial(sp.StationaryUCBVI, discount=0.9)


def test_the_corridor_is_learnt_step_by_step():
    """In its own numbers, from states and actions that do not start at 0; the agent sees what it has asked for."""
    result = learn(Corridor(), STEPS, budget=24, episodes=60, horizon=6, reward_range=(-1, 7))
    assert play(Corridor(), result.policy, episodes=3).tolist() == [5.0] * 3
    assert result.asked.sum() == result.agent.ledger.spent <= 24
    assert result.agent.visits.sum() == result.steps.sum()
    assert result.returns[-10:].tolist() == [5.0] * 10
    assert result.policy.shape == (6, 4)


def test_unasked_rewards_change_nothing_step_by_step():
    """With another prize that nobody asks about, everything goes the same way."""
    runs = [learn(Corridor(p), STEPS, sp.Never(), 9, episodes=30, horizon=6, reward_range=(-1, 7)) for p in (7, 3)]
    np.testing.assert_array_equal(runs[0].agent.visits, runs[1].agent.visits)
    assert runs[0].returns.max() > runs[1].returns.max()


def test_what_is_not_given_is_read_off_the_environment():
    """The time limit, the range of rewards from the table, the rule, and the learner."""
    result = learn("CliffWalking-v1", budget=50, episodes=2, horizon=30)
    assert result.agent.learner == sp.StationaryUCBVI(48, 4, 30, rewards=(-100.0, -1.0))
    assert result.agent.rule == sp.BalancedMatching()
    assert learn("FrozenLake-v1", budget=50, episodes=2).agent.learner.horizon == 100
    many = learn(gymnasium.make_vec("CliffWalking-v1", 2, max_episode_steps=20), budget=50, episodes=2)
    assert many.agent.learner == sp.StationaryUCBVI(48, 4, 20, rewards=(-100.0, -1.0))
    assert (result.steps <= 30).all()


@pytest.mark.parametrize("mode", ["NEXT_STEP", "SAME_STEP"])
def test_environments_side_by_side_are_one_to_the_learner(mode):
    """No step that only begins an episode anew is counted, and ends are seen for what they are."""
    many = gymnasium.vector.SyncVectorEnv(
        [lambda: gymnasium.wrappers.TimeLimit(Corridor(), 6)] * 3,
        autoreset_mode=getattr(gymnasium.vector.AutoresetMode, mode),
    )
    result = learn(many, STEPS, budget=24, episodes=60, horizon=6, reward_range=(-1, 7))
    assert play(Corridor(), result.policy, episodes=3).tolist() == [5.0] * 3
    assert len(result.returns) == 60
    after = result.agent._family.memory.edges
    assert 13 - 10 + 4 in after["after"]  # the end, as an end
    assert 13 - 10 not in after["after"][: int(result.agent._family.memory.head["edges"][0])]  # and as nothing else
    counted = result.agent.visits.sum()
    assert result.steps.sum() <= counted <= result.steps.sum() + 3 * 6


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: learn(Corridor(), budget=9), "give reward_range="),
        (lambda: learn("FrozenLake-v1"), "an agent needs a budget"),
        (lambda: learn("FrozenLake-v1", sp.StationaryUCBVI(3, 4, 100), budget=9), "made for 3 and 4"),
        (lambda: learn("FrozenLake-v1", UCBVI, budget=9), "give horizon="),
        (lambda: learn(Corridor(), budget=9, episodes=3, reward_range=(0, 7)), "paid -1, outside of the range"),
        (lambda: learn("FrozenLake-v1", functools.partial(sp.StationaryUCBVI, scal=1), budget=9), "scal"),
        (lambda: learn(gymnasium.make_vec("CartPole-v1", 2), budget=9), "must be Discrete"),
    ],
)
def test_what_cannot_be_played_step_by_step_is_refused(call, message):
    with pytest.raises(sp.InvalidInput, match=message):
        call()


class Locks(gymnasium.Env):
    """Two locks, each open or shut; an action names a lock and what to do. Both open: a prize, and the end."""

    def __init__(self, kind):
        self.kind = kind
        self.observation_space = {
            "dict": Dict({"left": Discrete(2, start=3), "right": MultiBinary(1)}),
            "tuple": Tuple((Discrete(2), Discrete(2, start=-1))),
            "multi": MultiDiscrete([2, 2], start=[0, 7]),
        }[kind]
        self.action_space = MultiDiscrete([[2, 2]]) if kind != "tuple" else Tuple((Discrete(2), Discrete(2)))

    def seen(self):
        left, right = (int(one) for one in self.locks)
        if self.kind == "dict":
            return {"left": np.int64(3 + left), "right": np.array([right], dtype=np.int8)}
        return (left, right - 1) if self.kind == "tuple" else np.array([left, 7 + right])

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.locks = [0, 0]
        return self.seen(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        which, what = (int(one) for one in np.ravel(action))
        self.locks[which] = what
        done = self.locks == [1, 1]
        return self.seen(), float(done), done, False, {}


@pytest.mark.parametrize("kind", ["dict", "tuple", "multi"])
def test_spaces_made_of_discrete_ones_are_numbered(kind):
    """States and actions as mixed radix: every state has its own number, every action is one of the space."""
    result = learn(Locks(kind), STEPS, budget=60, episodes=40, horizon=6, reward_range=(0, 1))
    assert result.policy.shape == (6, 4)
    assert (result.agent.visits.sum(axis=1)[:3] > 0).all()
    assert result.agent.visits[3].sum() == 0  # both open: the end
    assert play(Locks(kind), result.policy, episodes=2).tolist() == [1.0, 1.0]
    assert result.policy[4, 0] in (1, 3)  # with two steps to go: open the left one, or the right one


def test_blackjack_is_played_as_it_is():
    """A tuple of three: 704 states. Even a few hundred hands beat hitting at random."""
    result = learn("Blackjack-v1", functools.partial(sp.StationaryUCBVI, returns=(-1, 1)), budget=1_500, episodes=1_500,
                   reward_range=(-1, 1), horizon=10)  # fmt: skip
    assert result.policy.shape == (10, 32 * 11 * 2)
    assert result.agent.ledger.spent <= 1_500
    random = np.random.default_rng(0).integers(2, size=(10, 704))
    assert play("Blackjack-v1", result.policy, 3_000).mean() > play("Blackjack-v1", random, 3_000).mean() + 0.1


def test_wrapped_environments_are_played_as_they_are_wrapped():
    """Wrappers of users: another time limit, other rewards, other observations."""
    halved = gymnasium.wrappers.TransformReward(Corridor(), lambda reward: reward / 2)
    limited = gymnasium.wrappers.RecordEpisodeStatistics(gymnasium.wrappers.TimeLimit(halved, 5))
    turned = gymnasium.wrappers.TransformObservation(limited, lambda s: 13 - s, Discrete(4))
    result = learn(turned, STEPS, budget=24, episodes=60, horizon=6, reward_range=(-0.5, 3.5))
    assert play(turned, result.policy, episodes=2).tolist() == [2.5, 2.5]
    assert result.steps.max() <= 5


def test_a_reward_that_is_no_number_stops_the_run():
    class Broken(Corridor):
        def step(self, action):
            return (*super().step(action)[:1], math.nan, False, False, {})

    with pytest.raises(sp.InvalidInput, match="step 0 paid nan, which is no number"):
        learn(Broken(), STEPS, budget=9, episodes=2, horizon=6, reward_range=(-1, 7))


@pytest.mark.parametrize("made", [sp.StationaryUCBVI(4, 2, 6), functools.partial(STEPS, rewards=(0, 1))])
def test_a_learner_made_for_other_rewards_is_refused_before_it_plays(made):
    class Untouched(Corridor):
        def reset(self, *, seed=None, options=None):
            raise AssertionError

    with pytest.raises(sp.InvalidInput, match=r"rewards lie in -1 … 7, the learner is made for 0 … 1; leave out"):
        learn(Untouched(), made, budget=9, episodes=2, reward_range=(-1, 7))


@pytest.mark.parametrize(
    "made", [sp.StationaryUCBVI(4, 2, 6, rewards=(-1, 7)), functools.partial(STEPS, rewards=(-1, 7))]
)
def test_the_range_of_rewards_may_come_with_the_learner(made):
    assert learn(Corridor(), made, budget=9, episodes=2, horizon=6).agent.learner.rewards == (-1.0, 7.0)


def remembered():
    """The wrapper of examples/stable_baselines.py."""
    path = Path(__file__).parent.parent / "examples" / "stable_baselines.py"
    spec = importlib.util.spec_from_file_location("stable_baselines_example", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_an_agent_of_another_library_gets_numbers_within_the_budget():
    """Each step is paid for once, what is remembered is right, and what cannot be paid for is 0."""
    hidden = AskForReward(Corridor(), budget=5)
    env, random, seen = remembered().Remembered(hidden), np.random.default_rng(0), {}
    for _ in range(20):
        s, done = env.reset()[0], False
        while not done:
            a = int(random.integers(5, 7))
            after, reward, done, _, _ = env.step(a)
            truth = 7.0 if after == 13 else -1.0
            assert reward == seen.setdefault((s, a, after), reward)
            assert reward in (truth, 0.0)
            s = after
    assert hidden.ledger.spent == 5
    assert sorted(seen.values()).count(0.0) == len(seen) - 5 > 0


def test_dqn_runs_behind_a_budget():
    pytest.importorskip("stable_baselines3", reason="Stable-Baselines3 is not installed: nothing else needs it")
    _, spent = remembered().main(2_000, 20)
    assert 0 < spent <= 20
