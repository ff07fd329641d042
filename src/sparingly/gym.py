"""Gymnasium environments under a budget: rewards only on request, tables as problems, learning to play.

`AskForReward` hides the rewards of any environment behind `ask`. `problem` turns an environment that knows its
own transitions into an episodic problem for `simulate`. `learn` plays an environment without a model of it, and
`play` says what a policy earns there. Needs the extra `gym`; `import sparingly` does not import it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from sparingly.agent import Agent
from sparingly.budgets import Budget, Schedule
from sparingly.contexts import Contexts, Iid
from sparingly.episodic.family import EpisodicFamily
from sparingly.episodic.learner import EpisodicLearner
from sparingly.episodic.stationary.learner import StationaryUCBVI
from sparingly.errors import InvalidInput, MissingExtra
from sparingly.ledger import Ledger, cost_in_units
from sparingly.problems.episodic import Episodic, Successor
from sparingly.protocol import QueryRule
from sparingly.randomness import seed_sequence
from sparingly.rules import Rule
from sparingly.simulation.progress import Progress
from sparingly.validation import indices, number, shown, table, whole

try:
    import gymnasium
    from gymnasium.spaces import Discrete
    from gymnasium.utils import RecordConstructorArgs
except ImportError:
    raise MissingExtra("sparingly.gym", "gym") from None

from sparingly.gym_spaces import numbered

__all__ = ["AskForReward", "Game", "Learning", "learn", "play", "problem"]


def __dir__() -> list[str]:
    return __all__


Integers = NDArray[np.int64]
Floats = NDArray[np.float64]
Environment = gymnasium.Env[Any, Any]
AnyEpisodic = EpisodicLearner | StationaryUCBVI
Observation = TypeVar("Observation")
Action = TypeVar("Action")


class AskForReward(gymnasium.Wrapper[Observation, Action, Observation, Action], RecordConstructorArgs):
    """An environment whose rewards must be asked for, each at a cost, within a hard budget.

    `step` returns NaN for the reward, unless told to `ask` at once. `ask()` returns the reward of the last step,
    `ask(step)` that of an earlier step of the same episode, from 0, until the next `reset`. A reward is paid for once.
    If the budget cannot pay, it is NaN, and the ledger counts the refusal. `info["budget"]` holds granted, spent, left,
    and whether this step's reward was asked for; everything else in `info` is passed on as it is.

    `budget` is a number, to which `grant` adds, or a schedule that grows with every episode. A reset does not restore
    it, so a seed alone does not repeat a run: the environment's spec says "nondeterministic".

    >>> env = AskForReward(gymnasium.make("FrozenLake-v1"), budget=1)
    >>> _ = env.reset(seed=0)
    >>> env.step(0)[1], env.step(0)[1]
    (nan, nan)
    >>> env.ask(), env.ask(), env.ask(0), env.ledger
    (0.0, 0.0, nan, Ledger(granted=1, spent=1, refused=1))
    """

    def __init__(
        self, env: gymnasium.Env[Observation, Action], budget: float | Schedule = 0.0, cost: float = 1.0
    ) -> None:
        if not isinstance(env, gymnasium.Env):
            raise InvalidInput(f"an environment of gymnasium is needed, not {shown(env)}")
        if isinstance(budget, Budget) and not isinstance(budget, Schedule):
            raise InvalidInput(f"a budget is a number or a schedule here, not {budget!r}; call grant() as it grows")
        RecordConstructorArgs.__init__(self, budget=budget, cost=cost)
        gymnasium.Wrapper.__init__(self, env)
        self.cost = number(cost, "the cost of asking", least=0.0)
        cost_in_units(self.cost)  # refuses what is too small or too large to count
        self.schedule = budget if isinstance(budget, Schedule) else None
        self.ledger = Ledger(0.0 if isinstance(budget, Schedule) else budget)
        self.episode = 1  # the number of the episode, from 1; a reset without a step since the last starts no new one
        self._scheduled = 0  # what the schedule has granted so far, in millionths
        self._rewards: list[float] = []
        self._asked: list[bool] = []
        self._follow_schedule(1)
        if self.spec is not None:  # a copy of the environment's own
            self.spec.nondeterministic = True

    def _follow_schedule(self, episode: int) -> None:
        if self.schedule is not None:
            self._scheduled = self.schedule.follow(self.ledger, episode, self._scheduled)

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode. The rewards of the previous one can no longer be asked for."""
        following = self.episode + bool(self._rewards)
        self._follow_schedule(following)
        observation, info = self.env.reset(seed=seed, options=options)
        self.episode, self._rewards, self._asked = following, [], []
        return observation, self._with_budget(info)

    def step(self, action: Action, *, ask: bool = False) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Act. The reward is NaN; with `ask`, it is what `ask()` returns."""
        observation, reward, terminated, truncated, info = self.env.step(action)
        self._rewards.append(float(reward))
        self._asked.append(False)
        shown_reward = self.ask() if ask else math.nan
        return observation, shown_reward, terminated, truncated, self._with_budget(info)

    def _with_budget(self, info: dict[str, Any]) -> dict[str, Any]:
        asked = bool(self._asked) and self._asked[-1]
        ledger = self.ledger
        return info | {
            "budget": {"granted": ledger.granted, "spent": ledger.spent, "left": ledger.left, "asked": asked}
        }

    def ask(self, step: int | None = None) -> float:
        """The reward of the last step, or of the given step of this episode; NaN if the budget cannot pay for it."""
        if not self._rewards:
            raise InvalidInput("there is no reward to ask for: no step was made since the reset")
        last = len(self._rewards) - 1
        place = last if step is None else whole(step, "step", least=0, most=last)
        if not self._asked[place]:
            self._asked[place] = self.ledger.charge(self.cost)
        return self._rewards[place] if self._asked[place] else math.nan

    def grant(self, amount: float) -> None:
        """Add to the budget. What was granted cannot be taken back."""
        self.ledger.grant(amount)


class Game(Episodic):
    """An episodic problem made of an environment's own table; `low` and `high` are the rewards that became 0 and 1."""

    low: float
    high: float

    def in_rewards(self, values: ArrayLike) -> Floats:
        """V (H, S) of this problem in the environment's units: (high − low)·V, and `low` for each step to go."""
        V = np.asarray(values, dtype=np.float64)
        if V.shape != (self.horizon, self.states):
            raise InvalidInput(f"values must have shape {(self.horizon, self.states)}, not {V.shape}")
        to_go = np.arange(self.horizon, 0, -1.0)[:, np.newaxis]
        scaled: Floats = self.low * to_go + (self.high - self.low) * V
        return scaled


def problem(
    env: Environment | str,
    horizon: int,
    cost: float = 1.0,
    initial: Contexts | int | ArrayLike | None = None,
    **options: Any,
) -> Game:
    """An episodic problem from an environment that knows its transitions, as FrozenLake, CliffWalking and Taxi do.

    `env` is an environment, or a name for `gymnasium.make` with `options`. Episodes last `horizon` steps, whatever the
    environment's own time limit. An episode that ends early stays in an extra state, the last one, where rewards are 0
    and asking is free. Rewards are rescaled to [0, 1]; `in_rewards` converts values back. `initial` says where episodes
    start: by default as in the environment's `initial_state_distrib`, or where `reset` puts it.

    If a state and an action lead to one next state with several rewards, the problem has their mean. This does not
    change values. If the environment has only two different rewards, the mean is a probability, and nothing is lost.

    >>> lake = problem("FrozenLake-v1", horizon=20)
    >>> lake, round(float(lake.optimal_values[0, 0]), 3)
    (FrozenLake-v1(17 states, 4 actions, 20 steps, Bernoulli()), 0.199)
    """
    made = open_env(env, options)
    states, actions = sizes_of(made)
    end, bare = states.n, made.unwrapped
    name = made.spec.id if made.spec is not None else type(bare).__name__
    chances = _entries(bare, name, states, actions)
    paid = {0.0}.union(reward for row in chances for cell in row for _, _, reward in cell)
    low, high = min(paid), max(paid)
    if not (math.isfinite(low) and math.isfinite(high) and low < high):
        raise InvalidInput(f"the rewards of {name} must be finite numbers other than 0, not {shown(sorted(paid))}")
    rows: list[list[list[Successor]]] = [
        [[(p, after, (reward - low) / (high - low)) for p, after, reward in cell] for cell in row] for row in chances
    ]
    rows.append([[(1.0, int(end), -low / (high - low))] for _ in range(actions.n)])
    initial = _start(made, states) if initial is None else initial
    game = Game.from_successors(
        rows,
        horizon,
        initial,
        rewards="bernoulli" if len(paid) == 2 else "fixed",
        costs=costs_of(states, actions, cost),
        name=name,
    )
    game.low, game.high = low, high
    return game


def _entries(bare: Any, name: str, states: Discrete, actions: Discrete) -> list[list[list[Successor]]]:
    """The table of an environment: (probability, next state, reward), with the end of an episode as a state."""
    source = getattr(bare, "P", None)
    if not isinstance(source, Mapping | Sequence):
        raise InvalidInput(f"{name} has no table of transitions P; `sparingly.gym.learn` plays without one")
    try:
        return [
            [
                [
                    (float(p), int(states.n if done else after - states.start), float(reward))
                    for p, after, reward, done in source[s][a]
                ]
                for a in range(actions.start, actions.start + actions.n)
            ]
            for s in range(states.start, states.start + states.n)
        ]
    except (LookupError, TypeError, ValueError) as error:
        raise InvalidInput(f"P of {name} must hold (probability, next, reward, done) in P[s][a]: {error!r}") from None


def _start(env: Environment, states: Discrete) -> Contexts | int:
    """Where the episodes of an environment start."""
    share = getattr(env.unwrapped, "initial_state_distrib", None)
    if share is None:
        return int(env.reset(seed=0)[0]) - int(states.start)
    return int(np.argmax(share)) if np.max(share) == 1.0 else Iid([*share, 0.0])


@dataclass(frozen=True, repr=False)
class Learning:
    """The result of `learn`. Returns are in the environment's units. You see them; the agent does not."""

    agent: Agent
    policy: Integers  #: (H, S) the agent's best guess at the end, (H, S + 1) with UCBVI; `play` measures what it earns
    returns: Floats  #: (episodes,) the sum of all rewards, asked for or not
    steps: Integers  #: (episodes,) the number of steps, which is the number of rewards that there were to ask for
    asked: Integers  #: (episodes,) how many rewards were asked for
    budget: Floats  #: (episodes,) B(t)

    def __repr__(self) -> str:
        asked, steps, mean = self.asked.sum(), self.steps.sum(), self.returns.mean()
        return f"Learning({self.returns.size:,} episodes, {asked:,} of {steps:,} rewards asked for, mean {mean:.3g})"


def learn(
    env: Environment | str | gymnasium.vector.VectorEnv,
    learner: AnyEpisodic | Callable[..., AnyEpisodic] = StationaryUCBVI,
    rule: Rule | QueryRule | None = None,
    budget: float | Schedule | None = None,
    episodes: int = 1_000,
    horizon: int | None = None,
    seed: int | np.random.SeedSequence = 0,
    reward_range: tuple[float, float] | None = None,
    cost: float = 1.0,
    progress: bool | None = None,
) -> Learning:
    """Let an Agent learn in an environment with Discrete states and actions, without a model of it.

    Parameters:
    - `env`: an environment of Gymnasium, its name, or several side by side, from `gymnasium.make_vec`. Spaces that are
      made of several Discrete ones, as Blackjack's are, are numbered from 0; the last part counts fastest.
    - `learner`: makes a learner from `states`, `actions`, `horizon` and `rewards`: a class, or for instance
      `functools.partial(sp.StationaryUCBVI, returns=(0, 1))`. `StationaryUCBVI` acts and asks step by step.
    - `rule`: decides which rewards to ask for.
    - `budget`: what may be spent; a budget that grows does so with every step.
    - `episodes`: how many episodes to play.
    - `horizon`: the greatest number of steps of an episode; by default the environment's own time limit, or 1,000.
    - `seed`: the same seed plays the same episodes.
    - `reward_range`: the least and the greatest reward, if the environment neither names them nor has a table of
      transitions.
    - `cost`: the cost of asking for one reward.
    - `progress`: whether to show a bar; None shows one in a terminal.

    Returns: the agent, its best policy, and what each episode earned and asked.

    With `UCBVI` or `ULCVI` whole episodes are planned for, and asked about in their end. They have to be given a
    `horizon`, and get one state more than the environment has: there an episode stays that ends early, which pays 0 and
    is free to ask about. They see rewards as [0, 1]. A learner sees only those rewards that it has asked for.

    >>> learn("FrozenLake-v1", budget=300, episodes=10).policy.shape
    (100, 16)
    """
    from sparingly.gym_steps import learn_by_steps, plays_by_steps  # which needs what is in this file

    if plays_by_steps(learner):
        return learn_by_steps(env, learner, rule, budget, episodes, horizon, seed, reward_range, cost, progress)
    return _learn_by_episodes(env, learner, rule, budget, episodes, horizon, seed, reward_range, cost, progress)


def _learn_by_episodes(
    env: Any, learner: Any, rule: Any, budget: Any, episodes: int, horizon: int | None, seed: Any, reward_range: Any,
    cost: float, progress: bool | None,
) -> Learning:  # fmt: skip
    """`learn` with a learner that plans whole episodes, and asks about them in their end."""
    if horizon is None:
        raise InvalidInput("UCBVI and ULCVI plan for episodes of a fixed length: give horizon=…")
    made = numbered(open_env(env, {}))
    states, actions = sizes_of(made)
    episodes, H = whole(episodes, "episodes", most=10**9), whole(horizon, "horizon", most=10**6)
    low, high = _reward_range(made, reward_range)
    made_for = _learner(learner, int(states.n) + 1, int(actions.n), H)
    agent_seed, world_seed = seed_sequence(seed).spawn(2)
    if made_for.costs is not None and cost != 1.0:
        raise InvalidInput("the learner has costs of asking already; leave out cost=…")
    costs = costs_of(states, actions, cost) if made_for.costs is None else None
    agent = Agent(made_for, rule, budget, agent_seed, costs)
    returns, budgets = np.zeros(episodes), np.zeros(episodes)
    steps, asked = np.zeros(episodes, dtype=np.int64), np.zeros(episodes, dtype=np.int64)
    bar, start = Progress(episodes, "learning", progress), int(world_seed.generate_state(1)[0])
    try:
        for t in range(episodes):
            path, rewards = _play_once(made, agent.plan(), states, actions, None if t else start)
            check_rewards(rewards, low, high)
            asks = agent.decide_episode(path[:, 0], path[:, 1])
            answers = np.zeros(H)
            answers[: len(rewards)] = rewards
            agent.observe_episode(np.where(asks, (answers - low) / (high - low), np.nan))
            returns[t], steps[t], asked[t] = sum(rewards), len(rewards), asks[: len(rewards)].sum()
            budgets[t] = agent.ledger.granted
            bar.add(1)
    finally:
        bar.close()
    return Learning(agent, agent.best_guess(), returns, steps, asked, budgets)


def play(
    env: Environment | str, policy: ArrayLike, episodes: int = 1_000, seed: int | np.random.SeedSequence = 0
) -> Floats:
    """The return of a policy (H, S), or (H, S + 1) with the state after the end, in each episode of at most H steps."""
    made = numbered(open_env(env, {}))
    states, actions = sizes_of(made)
    given = table(policy, "a policy", f"(H, {states.n}) or (H, {states.n + 1})")
    if given.ndim != 2 or given.shape[1] not in (states.n, states.n + 1):
        raise InvalidInput(f"a policy must have shape (H, {states.n}) or (H, {states.n + 1}), not {given.shape}")
    table_of_actions = indices(policy, "the actions of a policy", given.shape, int(actions.n) - 1)
    padded = np.pad(table_of_actions, ((0, 0), (0, states.n + 1 - table_of_actions.shape[1])))
    count, start = whole(episodes, "episodes"), int(seed_sequence(seed).generate_state(1)[0])
    bar = Progress(count, "playing")
    returns = np.zeros(count)
    try:
        for t in range(count):
            returns[t] = sum(_play_once(made, padded, states, actions, None if t else start)[1])
            bar.add(1)
    finally:
        bar.close()
    return returns


def _play_once(
    env: Environment, policy: Integers, states: Discrete, actions: Discrete, seed: int | None
) -> tuple[Integers, list[float]]:
    """One episode: states and actions (H, 2), those after its end included, and the rewards up to its end."""
    path, rewards, going = np.zeros((len(policy), 2), dtype=np.int64), [], True
    s = state_of(env.reset(seed=seed)[0], states)
    for h in range(len(policy)):
        a = int(policy[h, s])
        path[h] = s, a
        if going:
            observation, reward, terminated, truncated, _ = env.step(a + int(actions.start))
            going = not (terminated or truncated)
            s = state_of(observation, states) if going else int(states.n)
            rewards.append(float(reward))
    return path, rewards


def state_of(observation: Any, states: Discrete) -> int:
    """The number of a state, from 0, if it is one."""
    if not states.contains(observation):
        raise InvalidInput(f"the environment showed {shown(observation)}, which is not in its {states}")
    return int(observation) - int(states.start)


def open_env(env: Environment | str, options: dict[str, Any]) -> Environment:
    """An environment, made by its name if need be."""
    if isinstance(env, str):
        try:
            return gymnasium.make(env, **options)
        except gymnasium.error.Error as error:
            raise InvalidInput(f"gymnasium cannot make {env!r}: {error}") from None
    if not isinstance(env, gymnasium.Env):
        raise InvalidInput(f"an environment of gymnasium or its name is needed, not {shown(env)}")
    if options:
        raise InvalidInput(f"{', '.join(options)} can only be given with the name of an environment")
    return env


def sizes_of(env: Environment) -> tuple[Discrete, Discrete]:
    """The spaces of states and actions, if they are finite."""
    states, actions = env.observation_space, env.action_space
    if not isinstance(states, Discrete) or not isinstance(actions, Discrete):
        raise InvalidInput(
            f"observations and actions must be Discrete, or made of Discrete ones, not {states} and {actions}"
        )
    return states, actions


def costs_of(states: Discrete, actions: Discrete, cost: float) -> Floats:
    """What asking costs, (S + 1, A): nothing after the end."""
    costs = np.zeros((int(states.n) + 1, int(actions.n)))
    costs[:-1] = number(cost, "the cost of asking", least=0.0)
    return costs


def _learner(learner: Any, S: int, A: int, H: int) -> Any:
    """The learner, made for S states, A actions and H steps if need be."""
    if callable(learner):
        try:
            learner = learner(states=S, actions=A, horizon=H)
        except TypeError as error:
            raise InvalidInput(f"UCBVI or ULCVI is needed, or what makes one, not {shown(learner)}: {error}") from None
    if not EpisodicFamily.takes(learner):
        raise InvalidInput(f"UCBVI or ULCVI is needed, or what makes one, not {shown(learner)}")
    if (learner.horizon, learner.states, learner.actions) != (H, S, A):
        raise InvalidInput(
            f"with the state after the end there are {S} states, {A} actions and {H} steps, the learner is made for "
            f"{learner.states}, {learner.actions} and {learner.horizon}; give {type(learner).__name__} without sizes"
        )
    return learner


def _reward_range(env: Environment, given: tuple[float, float] | None) -> tuple[float, float]:
    """The least and the greatest reward, 0 among them, which is what follows the end."""
    named = getattr(env.unwrapped, "reward_range", None) if given is None else given
    if named is None:
        raise InvalidInput("the range of rewards is not known: give reward_range=(least, greatest)")
    ends = table(named, "reward_range", "(2,)")
    if ends.shape != (2,) or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise InvalidInput(f"reward_range must be two finite numbers (least, greatest), not {shown(named)}")
    return min(float(ends[0]), 0.0), max(float(ends[1]), 0.0)


def check_rewards(rewards: list[float], low: float, high: float, first: int = 0) -> None:
    """Refuse rewards outside of their range; the first is that of this step."""
    for step, reward in enumerate(rewards, start=first):
        if math.isnan(reward):
            raise InvalidInput(
                f"step {step} paid nan, which is no number; `learn` hides rewards and asks for them by itself, so give "
                "it the environment without AskForReward"
            )
        if not low <= reward <= high:
            raise InvalidInput(
                f"step {step} paid {reward:g}, outside of the range of rewards {low:g} … {high:g}; give reward_range=…"
            )
