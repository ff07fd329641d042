"""The lemmas behind the theorems, checked where they can be computed: by enumeration, on worst cases, by simulation."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Check, Evidence, Panel, claim
from sparingly.lab.claims.panels import Floats, curve
from sparingly.lab.claims.runner import Runner
from sparingly.theory import lemmas

Step = tuple[int, int, int]  # an arm, whether it was asked about, and its answer, 0 if it was not
Policy = Callable[[tuple[Step, ...]], Floats]  # the probabilities of (arm, ask), (A, 2), after a history

ROUNDING = 1e-9  # relative: what is equal may differ by so much


def histories(policy: Policy, means: Floats, rounds: int) -> Iterator[tuple[tuple[Step, ...], float]]:
    """All that can be observed of Bernoulli arms in so many rounds, with its probability.

    What is not asked about is observed as 0.
    """
    open_ends: list[tuple[tuple[Step, ...], float]] = [((), 1.0)]
    for _ in range(rounds):
        grown: list[tuple[tuple[Step, ...], float]] = []
        for past, chance in open_ends:
            for (arm, ask), share in np.ndenumerate(policy(past)):
                for answer, odds in ((1, means[arm]), (0, 1.0 - means[arm])) if ask else ((0, 1.0),):
                    if share * odds > 0.0:
                        grown.append(((*past, (arm, ask, answer)), chance * float(share * odds)))
        open_ends = grown
    yield from open_ends


def ask_once(past: tuple[Step, ...], arms: int) -> Floats:
    """Ask about arm 0 once, then play it for ever if the answer was 1, and arm 1 if it was 0: learns all it can."""
    shares = np.zeros((arms, 2))
    shares[0 if not past or past[0][2] else 1, 0 if past else 1] = 1.0
    return shares


def some_policy(seed: np.random.SeedSequence, arms: int) -> Policy:
    """A policy that does something else after every history."""
    table: dict[tuple[Step, ...], Floats] = {}
    random = np.random.default_rng(seed)

    def shares(past: tuple[Step, ...]) -> Floats:
        if past not in table:
            table[past] = random.dirichlet(np.full(2 * arms, 0.5)).reshape(arms, 2)
        return table[past]

    return shares


def observed(policy: Policy, means: Floats, others: Floats, rounds: int) -> dict[str, Any]:
    """A policy on two bandits, by enumeration: KL of what is observed, and expected asks and plays of each arm."""
    arms = means.size
    first = dict(histories(policy, means, rounds))
    second = dict(histories(policy, others, rounds))
    kl, asks, plays, plays_other = 0.0, np.zeros(arms), np.zeros(arms), np.zeros(arms)
    for past, chance in first.items():
        kl += chance * math.log(chance / second[past])
        for arm, ask, _ in past:
            asks[arm] += chance * ask
            plays[arm] += chance
            plays_other[arm] += second[past]
    return {"kl": kl, "asks": asks, "plays": plays, "others": plays_other}


@claim(
    "lemmas/information",
    "What is observed of two bandits differs by KL = Σ E n^q(a)·KL(ν_a, ν'_a): rounds that are not asked about tell "
    "nothing.",
    source="Lemmas 7 and 8 (KL and counts)",
    judged="Exact: every history of random policies, and of one that learns, is enumerated; the two sides must agree, "
    "and kl of the expected plays, and their distance, must stay within what the lemmas allow.",
    quick={"policies": 12, "arms": 2, "rounds": 4, "gap": 0.2},
    full={"policies": 100, "arms": 3},
)
def information(runner: Runner, policies: int, arms: int, rounds: int, gap: float) -> Evidence:
    apart, processing, shift, exact, bound = 0.0, 0.0, 0.0, [], []
    for place in range(policies):
        means = np.full(arms, 0.5)
        others = means + gap * (np.arange(arms) == place % arms)
        policy = some_policy(runner.seeds(place), arms) if place else functools.partial(ask_once, arms=arms)
        found, k = observed(policy, means, others, rounds), place % arms
        each = [lemmas.bernoulli_kl(x, y) for x, y in zip(means, others, strict=True)]
        told = lemmas.information(found["asks"], each)
        apart = max(apart, abs(found["kl"] / told - 1.0))
        seen = lemmas.bernoulli_kl(found["plays"][k] / rounds, found["others"][k] / rounds)
        processing = max(processing, seen / told)
        distance = abs(found["plays"][k] - found["others"][k])
        shift = max(shift, distance / lemmas.bernoulli_shift(rounds, found["asks"][k], gap))
        exact.append(found["kl"])
        bound.append(told)
    checks = (
        statistics.exact("Lemma 7: largest relative difference of the two sides", apart, "≤", ROUNDING),
        statistics.exact("Lemma 7: kl(E Z, E' Z) of the plays, over the bound", processing, "≤", 1.0),
        statistics.exact("Lemma 8: how far expected plays differ, over the bound", shift, "≤", 1.0),
    )
    lines = (curve("enumerated", range(1, policies + 1), exact), curve("Lemma 7", range(1, policies + 1), bound))
    panel = Panel("KL of what is observed", "policy", "KL", lines, x_log=False, y_log=False)
    return Evidence(checks, (panel,))


def counted(cells: ArrayLike, many: int) -> tuple[float, float]:
    """Σ 1/sqrt(n ∨ 1) and Σ 1/(n ∨ 1) over the rounds, n the count before the round."""
    counts, roots, inverses = np.zeros(many), 0.0, 0.0
    for cell in np.asarray(cells):
        n = max(counts[cell], 1.0)
        roots, inverses = roots + 1.0 / math.sqrt(n), inverses + 1.0 / n
        counts[cell] += 1.0
    return roots, inverses


def potential(rows: Floats, ridge: float) -> float:
    """Σ min(‖x_i‖² in V_{i−1}⁻¹, 1)."""
    inverse, total = np.eye(rows.shape[1]) / ridge, 0.0
    for x in rows:
        y = inverse @ x
        square = float(x @ y)
        total += min(square, 1.0)
        inverse -= np.outer(y, y) / (1.0 + square)
    return total


@claim(
    "lemmas/counting",
    "However cells and directions are chosen, their widths sum up to M + 2 sqrt(Mn), M(2 + log n), 2d log(1 + nL²/(dλ))"
    " at most; and some arm is both rarely played and rarely asked about.",
    source="Lemmas 9 and 30, proofs of Theorems 2 to 5",
    judged="Exact: sums over the bound for random and for worst orders, cells that come in turn and rows that do.",
    quick={"cells": 6, "dim": 5, "asks": 600, "orders": 20},
    full={"asks": 5_000, "orders": 100},
)
def counting(runner: Runner, cells: int, dim: int, asks: int, orders: int) -> Evidence:
    random = np.random.default_rng(runner.seeds(0))
    worst = {"roots": 0.0, "inverses": 0.0, "norms": 0.0}
    unfit = 0
    for order in range(orders):
        odds = random.dirichlet(np.full(cells, 0.3)) if order else np.full(cells, 1.0 / cells)
        chosen = random.choice(cells, asks, p=odds) if order else np.arange(asks) % cells
        roots, inverses = counted(chosen, cells)
        rows = random.normal(size=(asks, dim)) if order else np.eye(dim)[np.arange(asks) % dim]
        rows /= np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1.0)
        found = {
            "roots": roots / lemmas.sum_of_roots(asks, cells),
            "inverses": inverses / lemmas.sum_of_inverses(asks, cells),
            "norms": potential(rows, 1.0) / lemmas.sum_of_norms(asks, dim),
        }
        worst = {name: max(worst[name], value) for name, value in found.items()}
        x, y = random.dirichlet(np.full(60, 0.2), size=2)
        index = lemmas.pigeonhole(x, y)
        unfit += not (x[index] <= 1.25 * x.mean() and y[index] <= 15.0 * y.mean())
    checks = (
        statistics.exact("Σ 1/sqrt(n ∨ 1), over M + 2 sqrt(Mn)", worst["roots"], "≤", 1.0),
        statistics.exact("Σ 1/(n ∨ 1), over M(2 + log n)", worst["inverses"], "≤", 1.0),
        statistics.exact("Lemma 30: Σ min(‖x‖², 1), over 2d log(1 + n/d)", worst["norms"], "≤", 1.0),
        statistics.exact("Lemma 9: indices that do not fit", unfit, "=", 0),
    )
    n = np.unique(np.geomspace(1, asks, 40).astype(int))
    sums = [counted(np.arange(k) % cells, cells)[0] for k in n]
    lines = (
        curve("cells in turn", n, sums),
        curve("M + 2 sqrt(Mn)", n, [lemmas.sum_of_roots(int(k), cells) for k in n], role="upper"),
    )
    return Evidence(checks, (Panel("Σ 1/sqrt(n ∨ 1)", "asks", "sum", lines, chance=False),))


def skewed(random: np.random.Generator, runs: int, rounds: int) -> tuple[Floats, Floats]:
    """Y_t in [0, 1] and E(Y_t | past), (runs, rounds): rare, and rarer after it was often seen lately."""
    Y, expected, level = np.zeros((runs, rounds)), np.zeros((runs, rounds)), np.full(runs, 0.5)
    for t in range(rounds):
        chance = 0.02 + 0.3 * level
        Y[:, t], expected[:, t] = random.random(runs) < chance, chance
        level = 0.9 * level + 0.1 * (1.0 - Y[:, t])
    return Y, expected


@claim(
    "lemmas/concentration",
    "Freedman's inequality, its consequences, and the empirical Bernstein bound fail with probability δ at most.",
    source="Lemmas 13, 27 and 29 (concentration)",
    judged="The share of simulated martingales, and of averages, that leave the bound must be at most δ.",
    quick={"delta": 0.05, "rounds": 200, "runs": 4_000, "answers": 30, "mean": 0.1},
    full={"rounds": 2_000, "runs": 20_000},
)
def concentration(runner: Runner, delta: float, rounds: int, runs: int, answers: int, mean: float) -> Evidence:
    random = np.random.default_rng(runner.seeds(0))
    Y, expected = skewed(random, runs, rounds)
    seen, wanted = Y.sum(axis=1), expected.sum(axis=1)
    variance = (expected * (1.0 - expected)).sum(axis=1)
    eta = min(1.0, math.sqrt(-math.log(delta) / float(variance.mean())))
    freedman = [lemmas.freedman(v, eta, delta) for v in variance]
    from_seen = [lemmas.expected_from_seen(s, 1.0, delta) for s in seen]
    from_expected = [lemmas.seen_from_expected(e, 1.0, delta) for e in wanted]
    draws = random.random((runs, answers)) < mean
    bars = lemmas.empirical_bernstein(draws.var(axis=1, ddof=1), answers, delta)
    share_bar = float(lemmas.bennett(mean, answers, delta))
    off = draws.mean(axis=1) - mean
    checks: tuple[Check, ...] = tuple(
        statistics.chance(f"{label}: the chance to leave the bound", outside, "≤", delta)
        for label, outside in {
            "Lemma 29, Freedman": seen - wanted > freedman,
            "Lemma 27, expected from seen": wanted > from_seen,
            "Lemma 27, seen from expected": seen > from_expected,
            "Maurer and Pontil, mean above average": -off > bars,
            "Bennett, both sides": np.abs(off) > share_bar,
        }.items()
    )
    order = np.argsort(seen - wanted)
    shares = (np.arange(runs) + 1.0) / runs
    lines = (
        curve("measured", shares, (seen - wanted)[order]),
        curve("Freedman", shares, np.array([lemmas.freedman(v, eta, delta) for v in variance[order]]), role="upper"),
    )
    thin = tuple(curve(c.label, c.x[:: runs // 200], c.y[:: runs // 200], c.role) for c in lines)
    label = f"Σ X: {runs:,} runs"
    return Evidence(checks, (Panel("Sums, from the least to the largest", "share", label, thin, False, False),))


@claim(
    "lemmas/total-variance",
    "Summed over a path, the variance of the next value is that of the sum of expected rewards, and at most H².",
    source="Lemma 32 (law of total variance)",
    judged="Exact, on random MDPs and policies: the relative difference of the two sides, and their size over H².",
    quick={"sizes": (4, 3, 6), "tries": 200},
    full={"tries": 5_000},
)
def total_variance(runner: Runner, sizes: Sequence[int], tries: int) -> Evidence:
    S, A, H = sizes
    random, apart, largest, sides = np.random.default_rng(runner.seeds(0)), 0.0, 0.0, []
    for _ in range(tries):
        P = random.dirichlet(np.full(S, random.choice([0.1, 1.0])), size=(H, S, A))
        found = lemmas.total_variance(P, random.random((H, S, A)), random.integers(A, size=(H, S)))
        apart = max(apart, float(np.abs(found.steps - found.total).max()))
        largest = max(largest, float(found.total.max()))
        sides.append((float(found.steps[0]), float(found.total[0])))
    checks = (
        statistics.exact("the two sides: largest difference", apart, "≤", ROUNDING),
        statistics.exact("the largest variance, over H²", largest / H**2, "≤", 1.0),
    )
    steps, total = np.array(sorted(sides)).T
    lines = (curve("Σ Var of the next value", total, steps), curve("equal", total, total, role="fit"))
    panel = Panel("Both sides", "variance of the sum of rewards", "variance", lines, x_log=False, y_log=False)
    return Evidence(checks, (panel,))
