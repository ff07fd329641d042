"""Episodic problems by name: random MDPs, RiverSwim, a chain, a grid, deep sea, and a trap for greedy."""

from __future__ import annotations

import numpy as np

from sparingly import budgets, contexts
from sparingly.errors import InvalidInput
from sparingly.problems.adversarial import Scenario
from sparingly.problems.episodic import Episodic, Successor
from sparingly.validation import number, whole


def random_mdp(
    states: int,
    actions: int,
    horizon: int,
    sparsity: float = 1.0,
    successors: int | None = None,
    seed: int = 0,
    rewards: str = "bernoulli",
) -> Episodic:
    """Transitions and rewards drawn anew for every step: rows of P uniform on the simplex, means uniform on [0, 1].

    `sparsity` is the share of the S·A·H cells that have a reward at all (at least one cell); `successors` limits how
    many states can follow one cell. Episodes start in uniformly drawn states.

    >>> random_mdp(10, 2, 5, sparsity=0.05).rewarding
    5
    """
    S, A, H = whole(states, "states"), whole(actions, "actions"), whole(horizon, "horizon")
    share = number(sparsity, "sparsity", least=0.0, above=True, most=1.0)
    followers = S if successors is None else whole(successors, "successors", most=S)
    random = np.random.default_rng(whole(seed, "seed", least=0))
    P = random.dirichlet(np.ones(followers), size=(H, S, A))
    if followers < S:
        which = random.permuted(np.tile(np.arange(S), (H, S, A, 1)), axis=-1)[..., :followers]
        full = np.zeros((H, S, A, S))
        np.put_along_axis(full, which, P, axis=-1)
        P = full
    R = random.random((H, S, A))
    cells = random.permutation(R.size)[max(1, round(share * R.size)) :]
    R.ravel()[cells] = 0.0
    return Episodic(P, R, rewards=rewards, name="random_mdp")


def river_swim(states: int = 6, horizon: int = 20) -> Episodic:
    """RiverSwim (Strehl & Littman, 2008): swim right against the current to a large reward, or rest at a small one.

    >>> river_swim().optimal_policy[0].tolist()
    [1, 1, 1, 1, 1, 1]
    """
    S = whole(states, "states", least=2)
    P, R = np.zeros((S, 2, S)), np.zeros((S, 2))
    for s in range(S):
        P[s, 0, max(s - 1, 0)] = 1.0
        P[s, 1, s], P[s, 1, min(s + 1, S - 1)] = 0.6, 0.35
        P[s, 1, max(s - 1, 0)] += 0.05
    P[0, 1] = np.eye(S)[0] * 0.4 + np.eye(S)[1] * 0.6
    P[-1, 1] = np.eye(S)[-1] * 0.6 + np.eye(S)[-2] * 0.4
    R[0, 0], R[-1, 1] = 0.005, 1.0
    return Episodic(P, R, horizon=horizon, initial=0, name="river_swim")


def chain(states: int = 5, horizon: int = 10, slip: float = 0.2) -> Episodic:
    """The chain (Strens, 2000): forward to a reward of 1 at its end, back to the start for 0.2; slips do the other.

    >>> chain(slip=0.0).optimal_values[0, 0].round(3).item()
    6.0
    """
    S = whole(states, "states", least=2)
    miss = number(slip, "slip", least=0.0, most=1.0)
    forward, back = np.eye(S)[np.minimum(np.arange(S) + 1, S - 1)], np.tile(np.eye(S)[0], (S, 1))
    P = np.stack([(1 - miss) * forward + miss * back, (1 - miss) * back + miss * forward], axis=1)
    R = np.zeros((S, 2, S))
    R[:, :, 0] = 0.2  # for coming back to the start,
    R[-1, :, -1] = 1.0  # and for staying at the end
    return Episodic(P, R, horizon=horizon, initial=0, name="chain")


MOVES = ((-1, 0), (1, 0), (0, -1), (0, 1))  # up, down, left, right


def grid(rows: int = 5, columns: int = 10, horizon: int = 20, slip: float = 0.1) -> Episodic:
    """A room with a goal in the corner opposite to the start; a step goes astray to either side with `slip` in all.

    Every step that begins at the goal pays 1, and the goal is not left again.

    >>> grid(rows=2, columns=2, horizon=4, slip=0.0).optimal_values[0, 0].item()
    2.0
    """
    height, width = whole(rows, "rows"), whole(columns, "columns")
    astray = number(slip, "slip", least=0.0, most=1.0)
    S, goal = height * width, height * width - 1
    table: list[list[list[Successor]]] = []
    for s in range(S):
        if s == goal:
            table.append([[(1.0, s, 1.0)]] * 4)
            continue
        ends = [_walk(s, move, height, width) for move in MOVES]
        sides = ((2, 3), (2, 3), (0, 1), (0, 1))
        table.append(
            [
                [
                    (1.0 - astray, ends[a], 0.0),
                    (astray / 2, ends[sides[a][0]], 0.0),
                    (astray / 2, ends[sides[a][1]], 0.0),
                ]
                for a in range(4)
            ]
        )
    return Episodic.from_successors(table, horizon=horizon, initial=0, rewards="bernoulli", name="grid")


def _walk(s: int, move: tuple[int, int], height: int, width: int) -> int:
    """The cell that a move leads to; walls are bumped into."""
    row, column = min(max(s // width + move[0], 0), height - 1), min(max(s % width + move[1], 0), width - 1)
    return row * width + column


def deep_sea(size: int = 8, cost: float = 0.01) -> Episodic:
    """Deep sea (Osband et al., 2019): one row down each step; only going right `size` times finds the treasure.

    Going right costs a little each time, going left nothing, and which action is right differs from cell to cell. To
    keep rewards in [0, 1] the cost is `cost` times 1/size below the 0 of going left, and everything is raised by that.

    >>> deep_sea(4).shape
    (4, 16, 2)
    """
    n = whole(size, "size", least=2)
    toll = number(cost, "cost", least=0.0, most=1.0) / n
    right = np.random.default_rng(n).integers(0, 2, (n, n))
    table: list[list[list[Successor]]] = []
    for s in range(n * n):
        row, column = divmod(s, n)
        down = min(row + 1, n - 1)
        treasure = 1.0 if row == n - 1 and column == n - 1 else 0.0
        go_right = [(1.0, down * n + min(column + 1, n - 1), treasure)]
        go_left = [(1.0, down * n + max(column - 1, 0), toll)]
        table.append([go_left, go_right] if right[row, column] == 1 else [go_right, go_left])
    return Episodic.from_successors(table, horizon=n, initial=0, rewards="fixed", name="deep_sea")


def episode_trap(horizon: int = 2, good_action: int = 1) -> Scenario:
    """The paper's adversary against greedy, for episodes: the first state is 0 while the budget grows, and 1 otherwise.

    In state 0 both actions pay 0.5; in state 1 only `good_action` pays, and pays 1. Afterwards there is nothing to win.
    Greedy spends the budget on episodes that start in state 0, and never learns anything about state 1.
    """
    if good_action not in (0, 1):
        raise InvalidInput(f"good_action must be 0 or 1, not {good_action!r}")
    H = whole(horizon, "horizon")
    P, R = np.zeros((H, 3, 2, 3)), np.zeros((H, 3, 2))
    P[..., 2] = 1.0
    R[0, 0], R[0, 1, good_action] = 0.5, 1.0
    problem = Episodic(P, R, initial=contexts.WhenBudgetGrows(grows=0, still=1), rewards="fixed", name="episode_trap")
    return Scenario(problem, budgets.Bernoulli(0.5))
