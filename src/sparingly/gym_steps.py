"""Playing Gymnasium's environments step by step, one or several side by side: what `sparingly.gym.learn` does.

The agent has one model for all steps (`StationaryUCBVI`) and sees no reward that it has not asked for.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium.spaces import Discrete
from gymnasium.vector import AutoresetMode, SyncVectorEnv, VectorEnv

from sparingly.agent import Agent
from sparingly.budgets import Schedule
from sparingly.episodic.stationary.learner import StationaryUCBVI
from sparingly.errors import InvalidInput
from sparingly.gym import Learning, check_rewards, costs_of, open_env, sizes_of, state_of
from sparingly.gym_spaces import numbered
from sparingly.randomness import seed_sequence
from sparingly.simulation.progress import Progress
from sparingly.validation import shown, table, whole

HORIZON = 1_000  # steps of an episode, where neither the caller nor the environment says how many


def plays_by_steps(learner: Any) -> bool:
    """Whether a learner, or what makes one, acts step by step."""
    made = learner.func if isinstance(learner, functools.partial) else learner
    return isinstance(made, StationaryUCBVI) or (isinstance(made, type) and issubclass(made, StationaryUCBVI))


def learn_by_steps(
    env: Any, learner: Any, rule: Any, budget: float | Schedule | None, episodes: int, horizon: int | None, seed: Any,
    reward_range: tuple[float, float] | None, cost: float, progress: bool | None,
) -> Learning:  # fmt: skip
    """Let an Agent play so many episodes, asking about the steps as it goes."""
    made: Any = env if isinstance(env, VectorEnv) else numbered(open_env(env, {}))
    states, actions = _spaces(made)
    low, high = _range(made, _named(learner) if reward_range is None else reward_range)
    H = _horizon(made) if horizon is None else whole(horizon, "horizon", most=10**6)
    agent_seed, world_seed = seed_sequence(seed).spawn(2)
    parts = _learner(learner, int(states.n), int(actions.n), H, (low, high))
    costs = None if cost == 1.0 else costs_of(states, actions, cost)[:-1]
    if costs is not None and parts.costs is not None:
        raise InvalidInput("the learner names the costs of asking already; leave out cost=…")
    agent = Agent(parts, rule, budget, agent_seed, costs)
    count, start = whole(episodes, "episodes", most=10**9), int(world_seed.generate_state(1)[0])
    notes = Notes(agent, count, parts.horizon, Progress(count, "learning", progress), (low, high), (states, actions))
    try:
        if isinstance(made, VectorEnv):
            _play_many(made, notes, start)
        else:
            _play(made, notes, start)
    finally:
        notes.bar.close()
    return notes.learning()


class Notes:
    """What is known of the episodes: the agent, what each has returned, and how to make the next step."""

    def __init__(
        self, agent: Agent, episodes: int, horizon: int, bar: Progress, ends: tuple[float, float],
        spaces: tuple[Discrete, Discrete],
    ) -> None:  # fmt: skip
        self.agent, self.episodes, self.horizon, self.bar, self.ends = agent, episodes, horizon, bar, ends
        self.states, self.actions = spaces
        self.done: list[tuple[float, int, int, float]] = []  # return, steps, asks, budget of each episode
        self.now: dict[int, tuple[float, int, int]] = {}  # return, steps and asks so far, of each environment

    def act(self, observation: Any, env: int) -> int:
        """What to do, as the environment calls it."""
        return self.agent.act(state_of(observation, self.states), env=env) + int(self.actions.start)

    def take(self, observation: Any, reward: float, terminated: bool, truncated: bool, env: int) -> bool:
        """A step was made: whether the episode has ended."""
        earned, steps, asks = self.now.get(env, (0.0, 0, 0))
        check_rewards([float(reward)], *self.ends, first=steps)
        d = self.agent.reached(state_of(observation, self.states), bool(terminated), bool(truncated), env=env)
        if d.ask:
            self.agent.observe(d, float(reward))
        earned, steps, asks = earned + float(reward), steps + 1, asks + d.ask
        ended = bool(terminated or truncated)
        if ended and not self.full:
            self.done.append((earned, steps, asks, self.agent.ledger.granted))
            self.bar.add(1)
        self.now[env] = (0.0, 0, 0) if ended else (earned, steps, asks)
        return ended

    @property
    def full(self) -> bool:
        """Whether there were as many episodes as there should be."""
        return len(self.done) >= self.episodes

    def learning(self) -> Learning:
        """What `learn` returns."""
        returns, steps, asked, budget = (np.array(column) for column in zip(*self.done, strict=True))
        return Learning(self.agent, self.agent.best_guess(), returns.astype(float), steps, asked, budget.astype(float))


def _play(env: Any, notes: Notes, start: int) -> None:
    """One environment, episode by episode."""
    while not notes.full:
        observation, ended, h = env.reset(seed=None if notes.done else start)[0], False, 0
        while not ended:
            after, reward, terminated, truncated, _ = env.step(notes.act(observation, 0))
            h += 1
            ended = notes.take(after, reward, terminated, truncated or h == notes.horizon, 0)
            observation = after


def _play_many(env: VectorEnv, notes: Notes, start: int) -> None:
    """Several environments side by side. Those that begin anew by themselves take a step for it, or none."""
    mode = env.metadata.get("autoreset_mode", AutoresetMode.NEXT_STEP)
    if mode not in (AutoresetMode.NEXT_STEP, AutoresetMode.SAME_STEP):
        raise InvalidInput(f"environments side by side must reset by themselves, not {mode}")
    observations, waits = env.reset(seed=start)[0], np.zeros(env.num_envs, dtype=bool)
    resting = int(notes.actions.start)
    while not notes.full:
        actions = [resting if waits[i] else notes.act(observations[i], i) for i in range(env.num_envs)]
        observations, rewards, terminated, truncated, info = env.step(np.array(actions))
        for i in np.flatnonzero(~waits):
            ended = bool(terminated[i] or truncated[i])
            after = info["final_obs"][i] if ended and mode == AutoresetMode.SAME_STEP else observations[i]
            notes.take(after, float(rewards[i]), terminated[i], truncated[i], int(i))
        waits = (terminated | truncated) & ~waits if mode == AutoresetMode.NEXT_STEP else np.zeros_like(waits)


def _spaces(env: Any) -> tuple[Discrete, Discrete]:
    """The spaces of states and actions of one environment."""
    if not isinstance(env, VectorEnv):
        return sizes_of(env)
    states, actions = env.single_observation_space, env.single_action_space
    if not isinstance(states, Discrete) or not isinstance(actions, Discrete):
        raise InvalidInput(f"side by side, observations and actions must be Discrete, not {states} and {actions}")
    return states, actions


def _one_of(env: Any) -> Any:
    """One of several environments side by side, where it can be looked at."""
    return env.envs[0] if isinstance(env, SyncVectorEnv) else env


def _horizon(env: Any) -> int:
    """The time limit of an environment."""
    spec = getattr(_one_of(env), "spec", None)
    return int(getattr(spec, "max_episode_steps", None) or HORIZON)


def _named(learner: Any) -> tuple[float, float] | None:
    """The range of rewards that a learner, or what makes one, was given."""
    given: Any = learner.keywords.get("rewards") if isinstance(learner, functools.partial) else None
    return learner.rewards if isinstance(learner, StationaryUCBVI) else given


def _range(env: Any, given: tuple[float, float] | None) -> tuple[float, float]:
    """The least and the greatest reward: as given, as the environment says, or as its table has it."""
    bare = _one_of(env).unwrapped
    named = getattr(bare, "reward_range", None) if given is None else given
    if named is None:
        named = _range_of(getattr(bare, "P", None))
    if named is None:
        raise InvalidInput("the range of rewards is not known: give reward_range=(least, greatest)")
    ends = table(named, "reward_range", "(2,)")
    if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise InvalidInput(f"reward_range must be two finite numbers (least, greatest), not {shown(named)}")
    return float(ends[0]), float(ends[1])


def _range_of(source: Any) -> tuple[float, float] | None:
    """The least and the greatest reward of a table P[s][a] of (probability, next, reward, done)."""
    try:
        rewards = [float(entry[2]) for row in _values(source) for cell in _values(row) for entry in cell]
    except (TypeError, ValueError, LookupError):
        return None
    return (min(rewards), max(rewards)) if rewards and min(rewards) < max(rewards) else None


def _values(source: Any) -> Iterable[Any]:
    """The entries of a table, by number or by name."""
    if source is None:
        return ()
    return source.values() if isinstance(source, Mapping) else iter(source)


def _learner(learner: Any, states: int, actions: int, horizon: int, rewards: tuple[float, float]) -> StationaryUCBVI:
    """The learner, made for this environment if need be."""
    if not isinstance(learner, StationaryUCBVI):
        given = learner.keywords if isinstance(learner, functools.partial) else {}
        sizes = {"states": states, "actions": actions, "horizon": horizon, "rewards": rewards}
        try:
            learner = learner(**(sizes | {name: given[name] for name in given if name in sizes}))
        except TypeError as error:
            raise InvalidInput(f"StationaryUCBVI cannot be made of {shown(learner)}: {error}") from None
    if (learner.states, learner.actions) != (states, actions):
        raise InvalidInput(
            f"the environment has {states} states and {actions} actions, the learner is made for {learner.states} and "
            f"{learner.actions}; give StationaryUCBVI without sizes"
        )
    if not learner.rewards[0] <= rewards[0] < rewards[1] <= learner.rewards[1]:
        raise InvalidInput(
            f"rewards lie in {rewards[0]:g} … {rewards[1]:g}, the learner is made for {learner.rewards[0]:g} … "
            f"{learner.rewards[1]:g}; leave out its rewards=…, or reward_range=…"
        )
    return learner  # type: ignore[no-any-return]  # it came as anything, and has been checked
