"""How long it takes to learn Taxi and lakes of 2,500 and 10,000 states, and in how much memory.

`python -m benchmarks.large`, or `make bench-steps`; names choose a part. The agent is given what the environment's
description says, asks within its budget, and is stopped as soon as its best guess is at 95 % of the optimum, which is
looked at now and then. Seconds are those of the processor for everything but these looks: acting, learning, planning,
and the environment itself. The memory of the process is the most that it has taken so far: give one name at a time.
The truth is kept in another process.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import time
from concurrent.futures import ProcessPoolExecutor

import numpy as np
from gymnasium.envs.toy_text.frozen_lake import generate_random_map

import sparingly as sp
from benchmarks.gridworlds import CASES, Case

FROZEN = 0.95  # of the squares of a large lake
MOST = 3_000_000  # steps


def lake(size: int, slippery: bool) -> Case:
    """FrozenLake with so many rows and columns: the map of seed 0, twenty steps for each row."""
    rows = tuple(generate_random_map(size=size, p=FROZEN, seed=0))
    options = (("desc", rows), ("is_slippery", slippery))
    return Case("FrozenLake-v1", 20 * size, (0.0, 1.0), (0.0, 1.0), options)


LARGE = {
    "Taxi": next(case for case in CASES if case.title == "Taxi"),
    "a slippery lake of 2,500 states": lake(50, slippery=True),
    "a firm lake of 10,000 states": lake(100, slippery=False),
}


def warm_up() -> None:
    """Load the compiled code, or compile it, which happens once for an installation."""
    agent = sp.Agent(sp.StationaryUCBVI(2, 1, 1), sp.ExactMatching(), budget=1, seed=0)
    agent.act(0)
    d = agent.reached(1, truncated=True)
    if d.ask:
        agent.observe(d, 0.0)
    agent.best_guess()


def judge(name: str, policy: np.ndarray) -> tuple[bool, float]:
    """Whether a policy is good, and the optimum. One row of it stands for all steps that are alike."""
    truth = LARGE[name].truth
    return truth.good(np.broadcast_to(policy, (truth.horizon, truth.start.size))), truth.best


def learn(name: str, seed: int) -> tuple[float, int, float, float, float, float]:
    """Seconds, steps and asks until it is learned, memory of the agent and of the process in MB, and the optimum."""
    judges, case = ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")), LARGE[name]
    warm_up()
    start, env = time.process_time(), case.make()
    S, A = int(env.observation_space.n), int(env.action_space.n)
    learner = sp.StationaryUCBVI(S, A, case.horizon, rewards=case.rewards, returns=case.returns)
    agent = sp.Agent(learner, sp.ExactMatching(), budget=10 * S * A, seed=seed)
    steps, spent, following = 0, time.process_time() - start, 1_000
    while steps < MOST:
        start = time.process_time()
        while steps < following:
            s, h, going = int(env.reset(seed=None if steps else seed)[0]), 0, True
            while going:
                s, reward, ended, cut, _ = env.step(agent.act(s))
                s, h = int(s), h + 1
                going = not (ended or cut or h == case.horizon)
                d = agent.reached(s, terminated=ended, truncated=not going)
                if d.ask:
                    agent.observe(d, float(reward))
            steps += h
        policy = agent.best_guess()
        spent += time.process_time() - start
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
        learned, best = judges.submit(judge, name, policy if policy.strides[0] else policy[:1]).result()
        if learned:
            break
        following = int(steps * 1.2)
    return spent, steps, agent.ledger.spent, agent._family.words.nbytes / 1e6, peak, best


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", help="parts of the names of environments")
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    print(
        "| environment | optimum | steps | asks | seconds | memory of the agent | of the process |\n" + "|---" * 7 + "|"
    )
    for name in LARGE:
        if given.names and not any(part in name for part in given.names):
            continue
        seconds, steps, asks, memory, peak, best = learn(name, given.seed)
        learned = f"{steps:,}" if steps < MOST else f"not in {steps:,}"
        print(
            f"| {name} | {best:.3g} | {learned} | {asks:,.0f} | {seconds:.1f} | {memory:.1f} MB | {peak:.0f} MB |",
            flush=True,
        )


if __name__ == "__main__":
    main()
