"""A budget in front of DQN of Stable-Baselines3: `python examples/stable_baselines.py`, after installing that package.

Agents of other libraries want a number for every reward. `Remembered` asks about each step the first times that it is
made, and answers from memory after that; what it cannot pay for is 0. The budget is hard, whatever the agent does.
"""

from __future__ import annotations

import argparse
import math
from collections import defaultdict
from typing import Any

import gymnasium

import sparingly.gym


class Remembered(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Rewards as numbers: each state, action and next state is asked about `times` times, then the mean is given."""

    def __init__(self, env: sparingly.gym.AskForReward[Any, Any], times: int = 1) -> None:
        super().__init__(env)
        self.times, self.answers, self.state = times, defaultdict[Any, list[float]](list), None

    def reset(self, **options: Any) -> Any:
        self.state, info = self.env.reset(**options)
        return self.state, info

    def step(self, action: Any) -> Any:
        after, _, terminated, truncated, info = self.env.step(action)
        known = self.answers[self.state, int(action), after]
        if len(known) < self.times:
            reward = self.env.ask()
            known += [] if math.isnan(reward) else [reward]
        self.state = after
        return after, sum(known) / len(known) if known else 0.0, terminated, truncated, info


def main(steps: int, budget: float) -> tuple[float, float]:
    """Train, and play a game with what was learned: its return, and how much was spent."""
    from stable_baselines3 import DQN  # not a dependency

    hidden = sparingly.gym.AskForReward(gymnasium.make("FrozenLake-v1", is_slippery=False), budget=budget)
    agent = DQN(
        "MlpPolicy", Remembered(hidden), learning_rate=1e-3, learning_starts=500, exploration_fraction=0.5,
        target_update_interval=250, seed=0,
    )  # fmt: skip
    agent.learn(steps)
    env = gymnasium.make("FrozenLake-v1", is_slippery=False)
    s, _ = env.reset(seed=0)
    earned, going = 0.0, True
    while going:
        s, reward, terminated, truncated, _ = env.step(int(agent.predict(s, deterministic=True)[0]))
        earned, going = earned + float(reward), not (terminated or truncated)
    return earned, hidden.ledger.spent


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--steps", type=int, default=10_000)
    parser.add_argument("--budget", type=float, default=64)
    given = parser.parse_args()
    earned, spent = main(given.steps, given.budget)
    print(f"DQN has asked for {spent:g} of {given.steps:,} rewards, and its policy returns {earned:g}; the best one 1")
