"""One model for all steps on environments that others wrote: `python -m benchmarks.stationary`, or `make bench-steps`.

Steps and asks until the best guess is at 95 % of the optimum and stays there, and the regret of the first 1,000
episodes: those of `StationaryUCBVI`, of Q-learning, which sees all rewards, and of `UCBVI`, which plans for each step.
The settings are the same everywhere; only the range of rewards and returns is told (gridworlds.py). The machine does
not matter, but for the time it takes: an hour and more on one core. Names of environments and `--silence 0.3`, the
probability with which a reward is 0, choose a part; `--seeds 3` a first look.
"""

from __future__ import annotations

import argparse
import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np

import sparingly as sp
from benchmarks.gridworlds import CASES, Case

ASKS = 10  # the budget, for each of the S·A cells
ASKS_EACH = 3  # that of UCBVI, for each of its S·A·H cells
EPISODES = 1_000  # whose regret is counted
PROTOTYPE = {  # steps and asks of a throw-away prototype of the same idea: medians, to be compared with
    "Penalty-3x3": (88, 74), "Loop-3x3": (375, 133), "RiverSwim-6": (200, 71), "TwoRoomQuick-3x5": (697, 226),
    "Corridor-3x4": (698, 162), "Distract-6x6": (388, 286), "TwoRoom-2x11": (330, 175), "FrozenLake 4x4": (8_385, 276),
    "FrozenLake 8x8": (14_320, 1_432), "CliffWalking": (262, 214), "Taxi": (6_224, 4_754),
}  # fmt: skip


class Looks:
    """Whether a policy was good, at some moments: from when on it was, and stayed so."""

    def __init__(self, case: Case) -> None:
        self.case, self.following = case, 20
        self.seen: list[tuple[int, float, bool]] = []

    def look(self, steps: int, asks: float, policy: Callable[[], np.ndarray]) -> None:
        """Look at the policy, if it is time."""
        if steps >= self.following:
            self.seen.append((steps, asks, self.case.truth.good(policy())))
            self.following = max(steps + 1, int(steps * 1.1))

    def learned(self) -> tuple[float, float]:
        """Steps and asks from which on it was good; ∞ if it was not at the end."""
        bad = [i for i, (*_, good) in enumerate(self.seen) if not good]
        first = bad[-1] + 1 if bad else 0
        return self.seen[first][:2] if first < len(self.seen) else (np.inf, np.inf)


@dataclasses.dataclass
class Course:
    """What has become of one run."""

    steps: float  # until it had learned, ∞ if it never has
    asks: float  # until then
    regret: float  # an episode, over the first EPISODES


def run(case: Case, seed: int) -> Course:
    """One run of StationaryUCBVI."""
    env, truth, looks = case.make(), case.truth, Looks(case)
    S, A = int(env.observation_space.n), int(env.action_space.n)
    learner = sp.StationaryUCBVI(S, A, case.horizon, rewards=case.rewards, returns=case.returns)
    agent = sp.Agent(learner, sp.ExactMatching(), budget=ASKS * S * A, seed=seed)
    last = max(5_000, 5 * PROTOTYPE[case.title][0])
    steps = episodes = 0
    lost = 0.0
    while steps < last or episodes < EPISODES:
        s, h, going = int(env.reset(seed=seed if steps == 0 else None)[0]), 0, True
        while going:
            a = agent.act(s)
            lost += truth.V[h, s] - truth.Q[h, s, a] if episodes < EPISODES else 0.0
            after, reward, ended, cut, _ = env.step(a)
            s, h, steps = int(after), h + 1, steps + 1
            going = not (ended or cut or h == case.horizon)
            d = agent.reached(s, terminated=ended, truncated=not going)
            if d.ask:
                agent.observe(d, float(reward))
            if steps <= last:
                looks.look(steps, agent.ledger.spent, agent.best_guess)
        episodes += 1
    return Course(*looks.learned(), lost / EPISODES)


def q_learning(case: Case, seed: int, rate: float, most: int) -> float:
    """Steps until Q-learning has learned, which sees every reward: ε-greedy (0.1), γ = 0.99, from optimistic values."""
    env, looks, random = case.make(), Looks(case), np.random.default_rng(seed)
    S, A = int(env.observation_space.n), int(env.action_space.n)
    Q = np.full((S, A), max(case.rewards[1], 0.0) if case.returns[1] > 1.0 else case.returns[1], dtype=float)
    steps = 0

    def policy() -> np.ndarray:
        return np.broadcast_to(Q.argmax(axis=1), (case.horizon, S))

    while steps < most:
        s, h, going = int(env.reset(seed=seed if steps == 0 else None)[0]), 0, True
        while going:
            a = int(random.integers(A)) if random.random() < 0.1 else int(Q[s].argmax())
            after, reward, ended, cut, _ = env.step(a)
            Q[s, a] += rate * (reward + (0.0 if ended else 0.99 * Q[after].max()) - Q[s, a])
            s, h, steps = int(after), h + 1, steps + 1
            going = not (ended or cut or h == case.horizon)
            looks.look(steps, steps, policy)
    return looks.learned()[0]


def per_step(case: Case, seed: int, scale: float) -> float:
    """The regret of UCBVI, an episode, over the first EPISODES: rewards rescaled, a state for the end of an episode."""
    env, truth, H = case.make(), case.truth, case.horizon
    S, A, (low, high) = int(env.observation_space.n), int(env.action_space.n), case.rewards
    low, high = min(low, 0.0), max(high, 0.0)
    costs = np.concatenate([np.ones((S, A)), np.zeros((1, A))])
    learner = sp.UCBVI(S + 1, A, H, scale=scale, costs=costs)
    agent = sp.Agent(learner, sp.ExactMatching(), budget=ASKS_EACH * S * A * H, seed=seed)
    lost = 0.0
    for episode in range(EPISODES):
        policy, s, going = agent.plan(), int(env.reset(seed=None if episode else seed)[0]), True
        states, rewards = np.full(H, S), np.zeros(H)
        for h in range(H):
            states[h], a = s, int(policy[h, s])
            if going:
                lost += truth.V[h, s] - truth.Q[h, s, a]
                after, rewards[h], ended, cut, _ = env.step(a)
                going = not (ended or cut)
                s = int(after) if going else S
        asks = agent.decide_episode(states, policy[np.arange(H), states])
        agent.observe_episode(np.where(asks, (rewards - low) / (high - low), np.nan))
    return lost / EPISODES


def row(case: Case, seeds: range, against: bool) -> str:
    """What became of all runs in one environment, as a line of the table."""
    runs = [run(case, seed) for seed in seeds]
    steps, asks = (np.array([getattr(r, name) for r in runs]) for name in ("steps", "asks"))
    (most_steps, most_asks), regret = PROTOTYPE[case.title], float(np.mean([r.regret for r in runs]))
    cells: list[Any] = [
        case.title, f"{np.isfinite(steps).sum()} of {len(runs)}", f"{np.median(steps):,.0f}",
        f"{np.median(steps) / most_steps:.2f}", f"{np.median(asks):,.0f}", f"{np.median(asks) / most_asks:.2f}",
        f"{regret:.3g}",
    ]  # fmt: skip
    if against:
        cap = int(min(max(20_000, 20 * np.median(steps)), 400_000))
        q = min(np.median([q_learning(case, seed, rate, cap) for seed in range(3)]) for rate in (0.1, 0.5, 1.0))
        least = min(per_step(case, 0, scale) for scale in (0.001, 0.01))
        cells += [f"{q:,.0f}" if np.isfinite(q) else f"over {cap:,}", f"{least:.3g}", f"{least / regret:.0f} ×"]
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of the names of environments")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--silence", type=float, default=0.0)
    parser.add_argument("--alone", action="store_true", help="without Q-learning and UCBVI")
    given = parser.parse_args()
    cases = [case for case in CASES if not given.names or any(name in case.title for name in given.names)]
    titles = ["environment", "learned", "steps", "× prototype", "asks", "× prototype", "regret"]
    titles += [] if given.alone else ["steps of Q-learning", "regret of UCBVI", "is"]
    print("| " + " | ".join(titles) + " |\n|" + "---|" * len(titles))
    for case in cases:
        print(row(case.silenced(given.silence), range(given.seeds), not given.alone), flush=True)


if __name__ == "__main__":
    main()
