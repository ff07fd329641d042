"""One model for all steps on environments that others wrote: `python -m benchmarks.stationary`.

Steps and asks until the best guess is at 95 % of the optimum and stays there, and the regret of the first 1,000
episodes; medians and means over seeds. The settings are the same everywhere. The machine does not matter, but for time.
"""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import numpy as np

import sparingly as sp
from benchmarks.gridworlds import CASES, Case

ASKS = 10  # the budget, for each of the S·A cells
EPISODES = 1_000  # whose regret is counted
PROTOTYPE = {  # steps, asks and regret an episode of a throw-away prototype, of the same idea, to be compared with
    "Penalty-3x3": (88, 74, 0.117), "Loop-3x3": (375, 133, 0.009), "RiverSwim-6": (200, 71, 0.20),
    "TwoRoomQuick-3x5": (697, 226, 0.020), "Corridor-3x4": (698, 162, 0.040), "Distract-6x6": (388, 286, 0.024),
    "TwoRoom-2x11": (330, 175, 0.005), "FrozenLake 4x4": (8_385, 276, 0.032), "FrozenLake 8x8": (14_320, 1_432, 0.13),
    "CliffWalking": (262, 214, 2.0), "Taxi": (6_224, 4_754, 25.0),
}  # fmt: skip


@dataclasses.dataclass
class Course:
    """What has become of one run."""

    steps: float  # until it had learned, ∞ if it never has
    asks: float  # until then
    regret: float  # an episode, over the first EPISODES
    seconds: float


def run(case: Case, seed: int, **settings: Any) -> Course:
    """One run: learner and environment with this seed, its best guess looked at every now and then."""
    env, truth, began = case.make(), case.truth, time.perf_counter()
    S, A = int(env.observation_space.n), int(env.action_space.n)
    given = {"returns": case.returns} | settings
    learner = sp.StationaryUCBVI(S, A, case.horizon, rewards=case.rewards, **given)
    agent = sp.Agent(learner, sp.ExactMatching(), budget=ASKS * S * A, seed=seed)
    last = max(5_000, 5 * PROTOTYPE[case.title][0])
    steps = episodes = 0
    lost, looks, look = 0.0, [], 20
    while steps < last or episodes < EPISODES:
        s, h, going = int(env.reset(seed=seed if steps == 0 else None)[0]), 0, True
        while going:
            a = agent.act(s)
            if episodes < EPISODES:
                lost += truth.V[h, s] - truth.Q[h, s, a]
            after, reward, ended, cut, _ = env.step(a)
            s, h, steps = int(after), h + 1, steps + 1
            going = not (ended or cut or h == case.horizon)
            d = agent.reached(s, terminated=ended, truncated=not going)
            if d.ask:
                agent.observe(d, float(reward))
            if steps == look:
                looks.append((steps, agent.ledger.spent, truth.good(agent.best_guess())))
                look = max(look + 1, int(look * 1.1))
        episodes += 1
    good = np.array([good for *_, good in looks])
    bad = np.flatnonzero(~good)
    first = 0 if not bad.size else bad[-1] + 1
    learned = looks[first] if first < len(looks) else (np.inf, np.inf, True)
    return Course(learned[0], learned[1], lost / EPISODES, time.perf_counter() - began)


def table(cases: tuple[Case, ...], seeds: range, **settings: Any) -> None:
    """A row for each environment."""
    for case in cases:
        runs = [run(case, seed, **settings) for seed in seeds]
        steps, asks = (np.array([getattr(r, name) for r in runs]) for name in ("steps", "asks"))
        before = PROTOTYPE[case.title]
        print(
            f"{case.title:18} {np.isfinite(steps).sum():2}/{len(runs)}  {np.median(steps):8,.0f} "
            f"({np.median(steps) / before[0]:4.2f})  {np.median(asks):6,.0f} ({np.median(asks) / before[1]:4.2f})  "
            f"{np.mean([r.regret for r in runs]):7.3f} ({before[2]:g})  {np.mean([r.seconds for r in runs]):5.1f} s",
            flush=True,
        )


if __name__ == "__main__":
    table(CASES, range(10))
