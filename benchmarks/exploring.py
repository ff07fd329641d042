"""What it is worth, in episodes, to explore only where one can still ask: `python -m benchmarks.exploring`.

UCBVI with exact matching and 20 asks for each cell, all at once, for half a million episodes of random MDPs of three
sizes. Both candidates meet the same MDPs, transitions and answers; the ratio of their mean regrets is what counts. The
floor is what one loses who knows all transitions and has these 20 answers for each cell from the start: so much is
lost to the budget, however one explores.
"""

from __future__ import annotations

import argparse

import numpy as np

import sparingly as sp

SIZES = ((3, 2, 3), (4, 2, 4), (5, 3, 5))  # S, A, H
ASKS = 20  # for each cell


def regrets(size: tuple[int, int, int], scale: float, explore: str, episodes: int, seed: int) -> float:
    """The regret of one run on the MDP of this seed."""
    states, actions, horizon = size
    r = sp.simulate(
        sp.problems.random_mdp(*size, seed=seed),
        sp.UCBVI(*size, scale=scale),
        sp.ExactMatching(explore=explore),
        sp.budgets.Fixed(ASKS * states * actions * horizon),
        rounds=episodes, runs=1, checkpoints=1, seed=seed, jobs=1,
    )  # fmt: skip
    return float(r.regret[0, -1])


def floor(size: tuple[int, int, int], episodes: int, seed: int, draws: int = 100) -> float:
    """The expected regret of the best policy for the true transitions and the means of `ASKS` answers."""
    problem, random = sp.problems.random_mdp(*size, seed=seed), np.random.default_rng(seed)
    P, R = problem.transitions(), problem.means
    lost = [
        problem.optimal_values[0] - problem.value(sp.problems.Episodic(P, means).optimal_policy)[0]
        for means in random.binomial(ASKS, R, size=(draws, *R.shape)) / ASKS
    ]
    return episodes * float(np.mean(lost))  # episodes start in any state alike


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--episodes", type=int, default=500_000)
    parser.add_argument("--seeds", type=int, default=10, help="random MDPs of each size")
    parser.add_argument("--scales", default="1,0.3,0.1", help="of the bonuses, by commas")
    given = parser.parse_args()
    print("| scale | S, A, H | always | asked | floor | asked/always | better in |\n|---|---|---:|---:|---:|---:|---:|")
    floors = {size: np.mean([floor(size, given.episodes, seed) for seed in range(given.seeds)]) for size in SIZES}
    for scale in map(float, given.scales.split(",")):
        ratios = []
        for size in SIZES:
            found = {
                how: np.array([regrets(size, scale, how, given.episodes, seed) for seed in range(given.seeds)])
                for how in ("always", "asked")
            }
            means = {how: values.mean() for how, values in found.items()}
            ratios.append(means["asked"] / means["always"])
            better = int((found["asked"] < found["always"]).sum())
            print(
                f"| {scale:g} | {', '.join(map(str, size))} | {means['always']:,.0f} | {means['asked']:,.0f} | "
                f"{floors[size]:,.0f} | {ratios[-1]:.2f} | {better} of {given.seeds} |",
                flush=True,
            )
        print(f"| {scale:g} | all sizes, on average | | | | {np.mean(ratios):.2f} | |", flush=True)


if __name__ == "__main__":
    main()
