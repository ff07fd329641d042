"""Balanced matching under attack: never refused, its reserve and its free part never exceeded, nothing starved.

An adversary picks shapes, costs, contexts, arms, grants and answers; it answers late or never, withdraws asks, and lets
the agent be saved and loaded. Hypothesis plays it here, a generator in `attacks` below, where lines of the rule are
broken on purpose. What must hold is worked out anew after each decision, in exact arithmetic.
"""

from __future__ import annotations

import dataclasses
import math
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import sparingly as sp
from sparingly.ledger import UNIT
from sparingly.numba_support import from_python
from sparingly.protocol import Units
from sparingly.reasons import FREE, RESERVED, SETTLED, SPENT, STEP, WAITING
from sparingly.rules.balanced import PARTS, reserve_of, rounds_left
from sparingly.rules.exact import least_asks
from sparingly.rules.pacing import PACE, PATIENCE, UNKNOWN, Pace, fresh_pace, reason_to_spend
from sparingly.saving import dumps, loads

Pick = Callable[[int], int]  # one of 0, …, n − 1, as the adversary likes
COSTS = (1.0, 1.0, 0.3, 2.0, 0.0, 0.1)
RESERVES = (0.25, 0.5, 0.1, 1.0, 0.0)


@dataclasses.dataclass(frozen=True)
class Puppet:
    """A learner whose every move the adversary dictates."""

    arms: int
    contexts: int
    costs: object
    moves: list = dataclasses.field(default_factory=list, compare=False)

    def start(self):
        return {}

    def choose(self, state, context, round, random):
        return self.moves[-1]

    def learn(self, state, context, action, reward):
        pass


def granted(agent: sp.Agent) -> int:
    return int(agent._family.account["granted"][0])


def pace(agent: sp.Agent):
    return agent._family.memory.pace.state[0]


def reserve_by_hand(rule: sp.BalancedMatching, budget: int, least: Fraction) -> int:
    """M(B) = min(⌊ρB⌋, max(B − B₀, 0)), B₀ = ⌈least/ρ⌉, in millionths."""
    if rule.reserve == 0.0:
        return 0
    share = Fraction(round(rule.reserve * PARTS), PARTS)
    return min(math.floor(share * budget), max(budget - math.ceil(least / Fraction(rule.reserve)), 0))


def check_cells(agent: sp.Agent, rule: sp.BalancedMatching) -> int:
    """The invariant, and that the sums which are kept are those of the definition; κ is returned."""
    n, c = agent._family.memory.counts["asked"].tolist(), agent._family.memory.counts["cost"].tolist()
    total, B, state = sum(c), granted(agent), pace(agent)
    M = reserve_by_hand(rule, B, Fraction(total))
    mean = Fraction(M, max(total, 1))
    assert sum(ci * max(ni - mean, 0) for ni, ci in zip(n, c, strict=True)) <= B - M  # the free part is not exceeded
    assert sum(ci * ni for ni, ci in zip(n, c, strict=True)) == round(agent.ledger.spent * UNIT) <= B
    assert agent.ledger.refused == 0
    if state.kappa != UNKNOWN:
        kappa = int(state.kappa)
        assert state.excess == sum(ci * max(ni - kappa, 0) for ni, ci in zip(n, c, strict=True))
        assert state.over == sum(ci for ni, ci in zip(n, c, strict=True) if ni > kappa)
    return M // max(total, 1)


def grant_some(agent: sp.Agent, pick: Pick, total: float) -> None:
    """Nothing, a unit, a round for everything, or many."""
    agent.grant((0.0, 0.0, 1.0, 0.37, total, 7.3 * total)[pick(6)])


def answer_some(agent: sp.Agent, pick: Pick, waiting: list, withdraws: bool = True) -> tuple | None:
    """Answer one of the asks that are waiting, or take it back (it is returned, then), or neither."""
    what = pick(4)
    if not waiting or what == 0:
        return None
    chosen = waiting.pop(pick(len(waiting)))
    if what == 1 and withdraws:
        agent.withdraw(chosen[0])
        return chosen
    agent.observe(chosen[0], (0.0, 0.5, 1.0)[pick(3)])
    return None


def attack_cells(pick: Pick, dictated: bool, rounds: int = 50) -> None:
    """Arms with and without contexts; where the adversary dictates the arms, it can hurt the most."""
    arms, contexts = 1 + pick(3), 1 + pick(3)
    costs = [[COSTS[pick(len(COSTS))] for _ in range(arms)] for _ in range(contexts)]
    horizon = (None, 20)[pick(2)]
    rule = sp.BalancedMatching(RESERVES[pick(len(RESERVES))], horizon=horizon, explore=("always", "asked")[pick(2)])
    learner = Puppet(arms, contexts, costs) if dictated else sp.UCB1(arms, contexts, costs=costs, scale=0.2)
    agent, total, waiting, reserved = sp.Agent(learner, rule, budget=0, seed=0), sum(map(sum, costs)), [], {}
    for _ in range(rounds):
        grant_some(agent, pick, total)
        u, before = pick(contexts), agent.asked.copy()
        if dictated:
            learner.moves.append(pick(arms))
        d = agent.decide(context=u)
        kappa = check_cells(agent, rule)
        if d.ask:
            waiting.append((d.id, u, d.action))
            reserved[d.id] = int(agent._family.prices[u, d.action]) * (d.why % STEP == RESERVED)
            assert d.why % STEP != RESERVED or before[u, d.action] < kappa
        elif dictated or rule.explore == "always":  # then the action is the one that was declined
            assert before[u, d.action] >= kappa
            assert costs[u][d.action] > 0.0
        gone = answer_some(agent, pick, waiting)
        if gone is not None:
            del reserved[gone[0]]
            check_cells(agent, rule)
        assert sum(reserved.values()) <= reserve_by_hand(rule, granted(agent), Fraction(round(total * UNIT)))
        if pick(8) == 0 and not dictated:
            agent = loads(dumps(agent))


def attack_features(pick: Pick, rounds: int = 40) -> None:
    """Rows along the axes, between them, and short ones; with and without costs."""
    dim, few = 1 + pick(3), 2
    costs = [None, [COSTS[pick(len(COSTS))] for _ in range(few)]][pick(2)]
    rule = sp.BalancedMatching(RESERVES[pick(len(RESERVES))], explore="always")
    agent = sp.Agent(sp.OFUL(dim, costs=costs, scale=0.1), rule, budget=0, seed=0)
    prices = np.full(few, 1.0) if costs is None else np.array(costs)
    least = Fraction(least_asks(dim, 1.0, 1.0)) * round(prices.max() * UNIT)
    V, paid, gains, lengths, waiting, taken_back = np.eye(dim), {}, 0.0, 0.0, [], False
    for _ in range(rounds):
        grant_some(agent, pick, dim * max(prices.max(), 0.1))
        X = np.stack([row(pick, dim) for _ in range(few)])
        d = agent.decide(context=X)
        x, cost, why = X[d.action], float(prices[d.action]), d.why % STEP
        norm2 = float(x @ np.linalg.inv(V) @ x)
        M = reserve_by_hand(rule, granted(agent), least)
        if d.ask:
            gain = math.log1p(norm2) if why == RESERVED else 0.0
            paid[d.id] = (round(cost * UNIT) if why == RESERVED else 0, round(cost * UNIT) if why == FREE else 0)
            gains, lengths = gains + gain, lengths + float(x @ x) * (why == RESERVED)
            waiting.append((d.id, x, cost, gain))
            V = V + np.outer(x, x) * (cost > 0.0)
        elif not taken_back and M > 0:
            assert norm2 <= promised(dim, M, round(cost * UNIT), prices) * (1 + 1e-6) + 1e-9
        gone = answer_some(agent, pick, waiting)
        if gone is not None:
            number, y, price, gain = gone
            V, taken_back = V - np.outer(y, y) * (price > 0.0), True
            gains, lengths = gains - gain, lengths - float(y @ y) * (gain > 0.0)
            del paid[number]
        check_features(agent, paid, gains, lengths, M)
        if pick(8) == 0:
            agent = loads(dumps(agent))


def row(pick: Pick, dim: int) -> np.ndarray:
    """An axis, shortened or not, turned a little or not."""
    x = np.eye(dim)[pick(dim)] + 0.2 * pick(2) * np.ones(dim)
    return x / np.linalg.norm(x) * (1.0, 1.0, 0.3, 0.05)[pick(4)]


def promised(dim: int, M: int, price: int, prices: np.ndarray) -> float:
    """No declined ‖x‖² is above this, by the proof: with one price ε², otherwise by the rate of the bar."""
    positive = prices[prices > 0.0]
    if price == 0:
        return -1.0  # what is free is never declined
    if positive.min() == positive.max():
        b = M // price + 1
        return math.expm1(dim * math.log1p(b / dim) / b)
    cheapest = round(positive.min() * UNIT)
    return math.expm1(min(dim * math.log1p(M / cheapest / dim) * price / M, 50.0))


def check_features(agent: sp.Agent, paid: dict, gains: float, lengths: float, M: int) -> None:
    """Neither part is exceeded, and what is kept of the reserve is what it has paid for."""
    state, B = pace(agent), granted(agent)
    from_reserve, from_free = (sum(part) for part in zip((0, 0), *paid.values(), strict=True))
    assert state.reserved == from_reserve <= M
    assert from_free <= B - M
    assert from_reserve + from_free == round(agent.ledger.spent * UNIT) <= B
    assert state.gain == pytest.approx(gains, rel=1e-6, abs=1e-6)
    assert state.length == pytest.approx(lengths, rel=1e-6, abs=1e-6)
    assert agent.ledger.refused == 0


def attack_episodes(pick: Pick, episodes: int = 25) -> None:
    """The adversary picks states and actions of every step, and may ignore the plan."""
    S, A, H = 1 + pick(2), 1 + pick(2), 1 + pick(3)
    costs = [None, [[COSTS[pick(len(COSTS))] for _ in range(A)] for _ in range(S)]][pick(2)]
    rule = sp.BalancedMatching(RESERVES[pick(len(RESERVES))], explore=("always", "asked")[pick(2)])
    agent = sp.Agent(sp.UCBVI(S, A, H, costs=costs), rule, budget=0, seed=0)
    total, waiting = H * (S * A if costs is None else sum(map(sum, costs))), []
    for _ in range(episodes):
        grant_some(agent, pick, total)
        agent.plan()
        states, actions, before = [pick(S) for _ in range(H)], [pick(A) for _ in range(H)], agent.asked.copy()
        asks = agent.decide_episode(states, actions)
        kappa = check_cells(agent, rule)
        for h, (s, a) in enumerate(zip(states, actions, strict=True)):
            assert asks[h] or before[h, s, a] >= kappa
            if asks[h]:
                waiting.append(((agent.decisions, h),))
        answer_some(agent, pick, waiting, withdraws=False)
        if pick(8) == 0:
            agent = loads(dumps(agent))


@pytest.mark.parametrize("dictated", [True, False], ids=["dictated", "UCB1"])
@settings(max_examples=100)
@given(data=st.data())
def test_cells_under_attack(data, dictated):
    attack_cells(lambda n: data.draw(st.integers(0, n - 1)), dictated)


@settings(max_examples=100)
@given(data=st.data())
def test_features_under_attack(data):
    attack_features(lambda n: data.draw(st.integers(0, n - 1)))


@settings(max_examples=60)
@given(data=st.data())
def test_episodes_under_attack(data):
    attack_episodes(lambda n: data.draw(st.integers(0, n - 1)))


def attacks(seeds: int = 25) -> None:
    """The same with a generator for an adversary."""
    for seed in range(seeds):
        random = np.random.default_rng(seed)

        def pick(n: int, random: np.random.Generator = random) -> int:
            return int(random.integers(n))

        attack_cells(pick, dictated=seed % 3 > 0)
        attack_features(pick)
        attack_episodes(pick)


def test_random_attacks():
    attacks(150)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        ("rules/balanced.py", "if question.asked < kappa_now(rule, question):", "if kappa_now(rule, question) < 0:"),
        ("rules/balanced.py", "    if question.asked < kappa:\n", "    if kappa < 0:\n"),
        ("rules/balanced.py", "state[0].excess += cost", "state[0].excess += 0"),
        ("rules/balanced.py", "state[0].over += cost if", "state[0].over += 0 if"),
        ("rules/balanced.py", "    return free_left(rule, question) >= units.cost and", "    return"),
        ("rules/balanced.py", "granted - nothing), 0)", "granted), 0)"),
        ("rules/pacing.py", "if left < cost:", "if left < -(10**18):"),
        ("linear/round.py", "state.gain += state.last_gain", "state.gain += 0.0"),
        ("linear/round.py", "state.length += dot(x, x)", "state.length += 0.0"),
        ("linear/round.py", "state.reserved += price", "state.reserved += 0"),
        ("rules/balanced.py", "(1.0 - 1e-12)", "(1.0 - 2e-12)"),  # the control: nothing of importance
    ],
    ids=[
        "no kappa", "no kappa in episodes", "excess not counted", "cells over kappa not counted",
        "free part unchecked in episodes", "a reserve that promises nothing", "free part unchecked",
        "gain not counted", "lengths not counted", "reserve not charged", "control",
    ],
)  # fmt: skip
def test_the_attacks_find_what_is_broken(tmp_path, request, file, old, new):
    """In plain Python, which needs no compilation."""
    done = run_broken(tmp_path, file, old, new)
    if request.node.callspec.id == "control":
        assert done.returncode == 0, done.stderr
    else:
        assert "AssertionError" in done.stderr


def run_broken(folder: Path, file: str, old: str, new: str) -> subprocess.CompletedProcess[str]:
    """The attacks above on a copy of the package with one line changed."""
    shutil.copytree(
        Path(sp.__file__).parent, folder / "sparingly", ignore=shutil.ignore_patterns("__pycache__", "page")
    )
    path = folder / "sparingly" / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))
    code = f"import runpy; runpy.run_path({__file__!r})['attacks']()"
    environment = os.environ | {"PYTHONPATH": str(folder), "NUMBA_DISABLE_JIT": "1"}
    return subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, cwd=folder)


# By hand


def dictate(moves: list[int], budgets: list[float], reserve: float = 0.25) -> list[int]:
    """Two arms, dictated, with the budget so far in each round: why each was asked about, or not."""
    learner = Puppet(2, 1, None)
    agent, reasons = sp.Agent(learner, sp.BalancedMatching(reserve), budget=0, seed=0), []
    for move, budget in zip(moves, budgets, strict=True):
        agent.grant(budget - agent.ledger.granted)
        learner.moves.append(move)
        reasons.append(agent.decide().why % STEP)
    return reasons


def test_two_arms_by_hand():
    """C = 2, ρ = ¼, so B₀ = 8. Up to B = 8 all is free, and one arm may take it; then one ask of each is reserved.

    B = 10: M = 2, κ = 1, F = 8. Arm 0 has 8 asks, an excess of 7: one more. Then it is declined, but arm 1 is not.
    """
    reasons = dictate([0] * 9 + [0] * 2 + [1] * 2, [8] * 9 + [10] * 4)
    assert reasons == [FREE] * 8 + [SPENT] + [FREE, SPENT] + [RESERVED, SPENT]


def test_no_part_of_the_reserve_lies_idle():
    """B = 11.1: M = 2.775 and κ = 1. If both arms are asked about alike, eleven asks are made: the excess over
    1.3875 is 7.225 after ten, and F = 8.325 pays for one more. Counted over κ it would be 8, and F would not.
    """
    reasons = dictate([0, 1] * 6, [11.1] * 12)
    assert reasons == [RESERVED] * 2 + [FREE] * 9 + [SPENT]


@pytest.mark.parametrize("reserve", [0.0, 0.1, 0.25, 0.7, 1.0])
def test_both_parts_grow_with_the_budget(reserve):
    random = np.random.default_rng(0)
    budgets = np.sort(random.integers(0, 10**10, 3_000))
    nothing = math.ceil(10**9 / reserve) if reserve else 0
    reserved = np.array([reserve_of(b, reserve, nothing) for b in budgets.tolist()])
    assert (np.diff(reserved) >= 0).all()
    assert (np.diff(budgets - reserved) >= 0).all()
    assert (reserved >= 0).all()
    rule = sp.BalancedMatching(reserve)
    assert reserved.tolist() == [reserve_by_hand(rule, b, Fraction(10**9)) for b in budgets.tolist()]


def test_the_least_number_of_asks_by_hand():
    """d = 1: log(1 + b) ≤ b·log 2 from b = 1 on. d = 2: 2·log(1 + b/2) ≤ b·log 2 from b = 2 on, alike for any d."""
    assert least_asks(1, 1.0, 1.0) == pytest.approx(1.0, abs=1e-9)
    assert least_asks(7, 1.0, 1.0) == pytest.approx(7.0, abs=1e-9)
    b = least_asks(3, 2.0, 0.5)
    assert 3 * math.log1p(b * 8 / 3) == pytest.approx(b * math.log(9), rel=1e-9)


def test_one_direction_by_hand():
    """d = λ = L = 1, ρ = ¼: B₀ = 4, and of B = 8 two are reserved.

    x = 1 has ‖x‖² = 1, ½, ⅓. The bars are ε² = 4^(1/3) − 1 = 0.59, sqrt(4/2) − 1 = 0.41 and 4/3 − 1 = ⅓: two asks, from
    the reserve. The free part pays for six, in rounds whose score is in the better half: after an ask the same row is
    worth less, and then more again with every round that it comes in.
    """
    agent = sp.Agent(sp.OFUL(1), sp.BalancedMatching(explore="always"), budget=8, seed=0)
    reasons, scores = [], []
    for i in range(30):
        reasons.append(agent.decide(context=[[1.0], [1.0]]).why % STEP)
        state = pace(agent)
        scores.append(float(state.score))
        assert state.gain == pytest.approx(math.log((2, 3)[min(i, 1)]))
        assert (state.reserved, state.length) == ((i > 0) * UNIT + UNIT, 1.0 + (i > 0))
    assert reasons[:4] == [RESERVED, RESERVED, WAITING, FREE]
    assert reasons.count(FREE) == 6
    for i in range(2, 20):
        better = sum(score > scores[i] for score in scores[: i + 1])
        assert reasons[i] == (FREE if better <= 0.5 * (i + 1) else WAITING)
    assert reasons[20:] == [SPENT] * 10


def test_every_arm_is_tried_first_whatever_the_scale():
    """Without answers an arm counts as the best it can be: one lucky answer cannot keep the others from being tried."""
    for scale in (0.0, 0.1, 0.3):
        agent = sp.Agent(sp.UCB1(10, scale=scale), budget=10, seed=0)
        for _ in range(10):
            agent.observe(agent.decide().id, 0.99)
        assert agent.asked.tolist() == [[1] * 10]


def test_with_contexts_an_arm_that_was_never_asked_about_is_worth_an_ask():
    """Its estimate is optimistic, so it must not count as settled; with a scale of 0 only what is unknown counts."""
    agent = sp.Agent(sp.UCB1(3, contexts=2, scale=0.0), budget=5, seed=0)
    reasons = []
    for _ in range(6):
        d = agent.decide(context=1)
        reasons.append(d.why % STEP)
        if d.ask:
            agent.observe(d.id, 0.5)
    assert agent.asked.tolist() == [[0] * 3, [1] * 3]
    assert reasons[:3] == [FREE] * 3


def test_an_ask_that_is_taken_back_is_reserved_again():
    agent = sp.Agent(sp.OFUL(1), sp.BalancedMatching(), budget=8, seed=0)
    first = agent.decide(context=[[1.0], [1.0]])
    agent.withdraw(first.id)
    state = pace(agent)
    assert (state.gain, state.length, state.reserved) == (0.0, 0.0, 0)
    assert agent.decide(context=[[1.0], [1.0]]).why % STEP == RESERVED


def test_what_is_left_after_taking_back_can_be_saved():
    """Sums of which terms are taken away again may end a little below zero, by rounding."""
    rows = [[1.0], [1.0]], [[0.05], [0.05]], [[0.3], [0.3]]
    agent = sp.Agent(sp.OFUL(1), sp.BalancedMatching(1.0), budget=10**6, seed=0)
    for order in range(60):
        ids = [agent.decide(context=rows[(order + i * i) % 3]).id for i in range(4)]
        for number in ids[order % 4 :] + ids[: order % 4]:
            agent.withdraw(number)
        again = loads(dumps(agent))
        assert pace(again).gain == pytest.approx(0.0, abs=1e-9)
        assert pace(again).length == pytest.approx(0.0, abs=1e-9)


def test_visited_cells_share_the_free_part():
    """Without a reserve, (n + 1)·C' ≤ B = 10 with C' of the cells that were visited: five asks for each of two."""
    agent = sp.Agent(sp.UCBVI(2, 1, 1), sp.BalancedMatching(reserve=0.0), budget=10, seed=0)
    asks = [bool(agent.decide_episode([s], [0])[0]) for s in (0, 0, 0, 0, 1, 0, 0, 0)]
    assert asks == [True] * 6 + [False] * 2


def test_one_context_cannot_have_the_whole_free_part():
    """The only context of ten that comes: at most sqrt(v·B/C) asks about an arm after v visits, 87 after 500."""
    agent, random = sp.Agent(sp.UCB1(2, contexts=10), budget=300, seed=0), np.random.default_rng(0)
    for t in range(1, 1_001):
        d = agent.decide(context=0)
        if d.ask:
            agent.observe(d.id, float(random.random() < 0.5))
        assert agent.asked.max() <= max(300 / 20, math.sqrt(t / 2 * 300 / 20)) + 1
    assert agent.asked.max() > 40


@pytest.mark.parametrize(("round", "left"), [(1, 300.0), (300, 1.0), (400, 1.0)])
def test_a_horizon_spreads_what_is_left(round, left):
    question = sp.Question(round, 0, 1.0, 1.0, 1.0, 1.0, 0.0, 4)
    for horizon, expected in ((300, left), (None, math.inf)):
        rule = sp.BalancedMatching(horizon=horizon)
        assert from_python(rounds_left)(rule.parameters, question) == expected


@pytest.mark.parametrize(
    ("score", "first", "free", "left", "reason"),
    [
        (8.0, 0, 2, 1, FREE),  # a quarter comes in each round, and a little is left: two of eight rounds
        (6.0, 0, 2, 1, FREE),
        (5.0, 0, 2, 1, WAITING),
        (5.0, 1_000, 1_002, 1, WAITING),  # what was there from the start does not come in
        (5.0, 0, 2, 64, FREE),  # half of what is waiting is spent in 64 rounds: 3/4 of the rounds
        (1.0, 0, 2, 64, WAITING),
        (2.0, 0, 2, 0, SPENT),
        (-2.0, 0, 2, 64, SETTLED),
    ],
)
def test_which_rounds_the_free_part_pays_for(score, first, free, left, reason):
    """Scores were 1, …, 8. As large a share of the best rounds as (what comes in + what is left/128)/cost."""
    state = np.zeros(1, dtype=PACE)
    fresh_pace(state)
    state["first"], state["seen"] = first * UNIT, 8
    pace = Pace(state, np.arange(1.0, 9.0))
    question = sp.Question(9, 0, 1.0, 1.0, 1.0, 1.0, 0.0, 4, Units(UNIT, UNIT, UNIT, 0), score=score, pace=pace)
    assert from_python(reason_to_spend)(question, free * UNIT, left * UNIT, math.inf, PATIENCE) == reason


def test_a_settled_round_is_asked_about_from_the_reserve_only():
    """With a tiny scale one context is settled after a few answers; its cells still get what is reserved for them."""
    learner = sp.UCB1(2, contexts=2, scale=1e-6, ties="first")
    agent = sp.Agent(learner, sp.BalancedMatching(explore="always"), budget=100, seed=0)
    for _ in range(60):
        d = agent.decide(context=0)
        if d.ask:
            agent.observe(d.id, float(d.action == 0))
    kappa = reserve_by_hand(agent.rule, granted(agent), Fraction(4 * UNIT)) // (4 * UNIT)
    assert kappa == 6
    assert agent.asked[0, 0] >= kappa
    assert agent.ledger.spent < 30
