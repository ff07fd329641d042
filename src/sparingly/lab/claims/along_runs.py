"""Every number that an agent acts on, along real runs, is the one that the paper's formula gives.

An upper bound says little about the constants of the rule that it is for: it mostly holds by orders of magnitude. So
here an agent plays, and a second record of all that it has seen goes through the formulas of `formulas.py`. Every
action, every decision to ask and every interval must be the formula's. These comparisons are equalities: a wrong
constant, a missing term or a clock that is off by one shows in the first rounds.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from sparingly.agent import Agent
from sparingly.budgets import Fixed
from sparingly.features import Sphere
from sparingly.lab.claims import formulas, statistics
from sparingly.lab.claims.evidence import Check, Evidence, Panel, claim
from sparingly.lab.claims.formulas import Episodes, Floats, Rows
from sparingly.lab.claims.panels import curve, name
from sparingly.lab.claims.runner import Runner
from sparingly.lab.paper_policies import MOSS, OFUL, UCB1, UCBVI, ULCVI, Always, ExactMatching
from sparingly.problems import Arms, Linear, random_mdp
from sparingly.rules import Greedy, PaperMatching

JUDGED = (
    "Exact, in every round of real runs: the action must have the largest index, the decision to ask must be the "
    "rule's, and the interval must be the formula's, all computed a second time from what was seen. Rounds in which "
    "two sides are equal up to rounding are left out of the second count, and must be fewer than one in a hundred."
)
EXACTLY = 1e-9  # how far apart two ways to compute the same number may be, relative to it
MARKS = 40


class Tally:
    """Counts in how many rounds something differs from the formula."""

    def __init__(self, *kinds: str) -> None:
        self.kinds, self.wrong, self.rounds = kinds, Counter[str](), 0
        self.decisions, self.undecided, self.asks = 0, 0, 0

    def note(self, kind: str, wrong: bool) -> None:
        """Count one comparison."""
        self.wrong[kind] += bool(wrong)

    def note_ask(self, asks: bool, expected: bool | None) -> None:
        """Count a decision to ask; None if rounding may decide."""
        self.decisions += 1
        self.asks += bool(asks)
        self.undecided += expected is None
        self.note("asks", expected is not None and asks != expected)

    def checks(self, label: str) -> list[Check]:
        """None may differ; enough must have been decided, and both asked about and not."""
        words = {
            "action": "actions that have not the largest index",
            "asks": "decisions to ask, or amounts spent, that are not the rule's",
            "width": "intervals that are not the formula's",
            "values": "values of plans that are not the formula's",
        }
        told = [statistics.exact(f"{label}: {words[kind]}", self.wrong[kind], "=", 0) for kind in self.kinds]
        both = 0 < self.asks < self.decisions and 100 * self.undecided < self.decisions and self.rounds > 0
        says = f"{label}: of {self.decisions:,} decisions some ask, some decline, and rounding decides few"
        return [*told, statistics.exact(says, both, "=", 1)]


def same(x: float, y: float) -> bool:
    """Equal up to rounding."""
    return abs(x - y) <= EXACTLY * (1.0 + abs(y))


def growing(rounds: int, share: float, every: int) -> Iterator[float]:
    """What is granted in each round: a burst now and then, so that budgets pass through all sizes."""
    for t in range(1, rounds + 1):
        yield share * every if t % every == 0 else 0.0


# Arms


def play_arms(
    runner: Runner, learner: Any, rule: Any, index: Callable[..., float], asks: Callable[..., bool | None],
    costs: Floats, rounds: int, share: float, stream: int,
) -> tuple[Tally, Floats]:  # fmt: skip
    """Play arms in S contexts, costs (S, A), and hold every round against the formulas; the counts of asks at marks.

    `index(average, n, cells, t, t_u)` with the clock of the context last, `asks(n, cells, total, t, budget)`.
    """
    S, A = costs.shape
    random = np.random.default_rng(runner.seeds(stream))
    changed, used = runner.change(learner, rule)
    agent = Agent(changed, used, budget=0, seed=runner.seed)
    means, n, sums, clock = random.random((S, A)), np.zeros((S, A)), np.zeros((S, A)), np.zeros(S)
    tally, spent, budget, seen = Tally("action", "asks", "width"), 0.0, 0.0, []
    for t, more in enumerate(growing(rounds, share, 50), 1):
        agent.grant(more)
        budget += more
        u = int(random.integers(S))
        clock[u] += 1
        d = agent.decide(u) if S > 1 else agent.decide()
        a, cells = d.action, S * A
        found = [index(sums[u, b] / max(n[u, b], 1), int(n[u, b]), cells, t, int(clock[u])) for b in range(A)]
        wanted = asks(int(n[u, a]), cells, float(costs.sum()), t, budget)
        tally.rounds += 1
        tally.note("action", found[a] < max(found) - EXACTLY)
        tally.note("width", not same(d.width, formulas.arm_width(int(n[u, a]), cells, t)))
        tally.note_ask(d.ask, wanted)
        if d.ask:
            reward = float(random.random() < means[u, a])
            agent.observe(d.id, reward)
            n[u, a] += 1
            sums[u, a] += reward
            spent += costs[u, a]
        tally.note("asks", not same(agent.ledger.spent, spent))
        if t % max(rounds // MARKS, 1) == 0:
            seen.append([t, budget, spent])
    return tally, np.array(seen)


def _spent(title: str, seen: dict[str, Floats]) -> Panel:
    """What was spent along the runs, against what was granted."""
    first = next(iter(seen.values()))
    lines = [curve(label, rows[:, 0], rows[:, 2]) for label, rows in seen.items()]
    return Panel(title, "round", "spent in one run", (curve("budget B(t)", first[:, 0], first[:, 1], "budget"), *lines))


def _ucb(average: float, n: int, cells: int, t: int, own: int) -> float:
    return formulas.ucb_index(average, n, cells, t)


@claim(
    "constants/arms",
    "CBM-UCB plays the largest rbar + sqrt(3 log(Mt)/(2(n ∨ 1))) and asks if sqrt(6 log(Mt)/(n ∨ 1)) ≥ "
    "4 sqrt(6 log(Mt) C/B(t)); R1 asks if (n + 1)·C ≤ B(t); MOSS-anytime has sqrt(1.175 max(0, log(t/(An)))/n).",
    source="Algorithm 3; Degenne and Perchet (2016); R1, docs/paper.md",
    judged=JUDGED,
    quick={"arms": 4, "contexts": 3, "rounds": 4_000},
    full={"rounds": 40_000},
)
def arms(runner: Runner, arms: int, contexts: int, rounds: int) -> Evidence:
    def moss(average: float, n: int, cells: int, t: int, own: int) -> float:
        return formulas.moss_index(average, n, arms, own)

    def exact(n: int, cells: int, total: float, t: int, budget: float) -> bool | None:
        return formulas.exact_asks(n, total, budget)

    checks, seen, paper = [], {}, formulas.cbm_ucb_asks
    prices: Floats = 0.5 + 0.125 * np.arange(contexts * arms, dtype=np.float64).reshape(
        contexts, arms
    )  # sums of them are exact
    one, ones = np.ones((1, arms)), np.ones((contexts, arms))
    many = UCB1(arms, contexts=contexts, costs=prices)
    cases = {
        "CBM-UCB": (UCB1(arms), PaperMatching(), _ucb, paper, one, 0.8),
        "CBM-UCB, contexts and costs": (many, PaperMatching(), _ucb, paper, prices, 0.8),
        "R1": (UCB1(arms), ExactMatching(), _ucb, exact, one, 0.1),
        "R1, contexts and costs": (many, ExactMatching(), _ucb, exact, prices, 0.1),
        "MOSS with R1": (MOSS(arms), ExactMatching(), moss, exact, one, 0.1),
        "MOSS with R1, contexts": (MOSS(arms, contexts=contexts), ExactMatching(), moss, exact, ones, 0.1),
    }
    for stream, (label, (learner, rule, index, asks, costs, share)) in enumerate(cases.items()):
        tally, seen[label] = play_arms(runner, learner, rule, index, asks, costs, rounds, share, stream)
        checks += tally.checks(label)
    return Evidence(tuple(checks), (_spent("Spent along the runs", {k: seen[k] for k in ("CBM-UCB", "MOSS with R1")}),))


# Features


def play_rows(
    runner: Runner, learner: Any, rule: Any, asks: Callable[[Rows, float, float, float, float], bool | None],
    arms: int, rounds: int, share: float, stream: int,
) -> Tally:  # fmt: skip
    """Play random rows and hold each round against the formulas: `asks(rows, norm, budget, left, price)`."""
    random = np.random.default_rng(runner.seeds(stream))
    d, L, prices = learner.dim, learner.length, learner.costs or [1.0] * arms
    theta = random.normal(size=d)
    theta *= learner.norm / np.linalg.norm(theta)
    changed, used = runner.change(learner, rule)
    agent, rows = Agent(changed, used, budget=0, seed=runner.seed), Rows(d, learner.ridge)
    tally, spent, budget = Tally("action", "asks", "width"), 0.0, 0.0
    for t, more in enumerate(growing(rounds, share, 20), 1):
        agent.grant(more)
        budget += more
        X = random.normal(size=(arms, d))
        X *= L * random.random((arms, 1)) ** 0.2 / np.linalg.norm(X, axis=1, keepdims=True)
        if learner.radius == "simple":
            reach = formulas.radius(t - 1, d, learner.noise, learner.delta, learner.ridge, L, learner.norm)
        else:
            reach = formulas.determinant_radius(rows, learner.noise, learner.delta, learner.norm)
        norms = rows.norms(X)
        found = rows.estimates(X) + reach * norms
        decision = agent.decide(X)
        a = decision.action
        tally.rounds += 1
        tally.note("action", found[a] < found.max() - 1e-7 * (1.0 + abs(found.max())))
        tally.note("width", abs(decision.width - 2.0 * reach * norms[a]) > 1e-7 * decision.width)
        tally.note_ask(decision.ask, asks(rows, float(norms[a]), budget, budget - spent, prices[a]))
        if decision.ask:
            reward = float(X[a] @ theta + learner.noise * random.normal())
            agent.observe(decision.id, reward)
            rows.see(X[a], reward)
            spent += prices[a]
        tally.note("asks", not same(agent.ledger.spent, spent))
    return tally


@claim(
    "constants/features",
    "CBM-OFUL plays the largest ⟨x, θ̂⟩ + l‖x‖, l = max(1, σ sqrt(2d log((1 + tL²/λ)/δ)) + sqrt(λ)D), and asks if "
    "min(‖x‖, 1) ≥ v_B/sqrt(B), v_B = sqrt(2d log(1 + BL²/(dλ))); R2 asks if N(‖x‖) ≤ B − spent.",
    source="Algorithm 4, E4; R2, docs/paper.md",
    judged=JUDGED,
    quick={"dim": 4, "arms": 5, "rounds": 2_000},
    full={"dim": 8, "rounds": 10_000},
)
def features(runner: Runner, dim: int, arms: int, rounds: int) -> Evidence:
    known = {"noise": 0.3, "delta": 0.1, "ridge": 0.5, "length": 2.0, "norm": 0.7}
    prices = tuple(0.5 + 0.625 * np.arange(arms))

    def paper(rows: Rows, norm: float, budget: float, left: float, price: float) -> bool | None:
        return formulas.cbm_oful_asks(norm, dim, rows.ridge, known["length"], budget)

    def exact(rows: Rows, norm: float, budget: float, left: float, price: float) -> bool | None:
        return formulas.exact_oful_asks(rows, norm, known["length"], left)

    def weighted(rows: Rows, norm: float, budget: float, left: float, price: float) -> bool | None:
        return formulas.exact_costs_asks(rows, norm, known["length"], left, price, min(prices))

    cases = {
        "CBM-OFUL": (OFUL(dim, radius="simple", **known), PaperMatching(), paper, 0.5),
        "CBM-OFUL, λ = 2": (OFUL(dim, radius="simple", **{**known, "ridge": 2.0}), PaperMatching(), paper, 0.5),
        "R2": (OFUL(dim, **known), ExactMatching(), exact, 0.1),
        "R2 with costs": (OFUL(dim, costs=prices, **known), ExactMatching(), weighted, 0.2),
    }
    checks = []
    for stream, (label, (learner, rule, asks, share)) in enumerate(cases.items()):
        checks += play_rows(runner, learner, rule, asks, arms, rounds, share, stream).checks(label)
    return Evidence(tuple(checks))


# Episodes


def play_episodes(
    runner: Runner, learner: Any, rule: Any, two_sided: bool, asks: Callable[..., bool | None], episodes: int,
    share: float, every: int, stream: int,
) -> tuple[Tally, float]:  # fmt: skip
    """Play a random MDP and hold plans, intervals and asks against the formulas; the share of values inside their cuts.

    One episode in three is played at random, so that all cells are soon visited. A plan is looked at `every` so many
    episodes, in states in which every action was tried and answered: there no bonus stands for what is unknown.
    """
    (H, S, A), random = learner.shape, np.random.default_rng(runner.seeds(stream))
    problem = random_mdp(S, A, H, seed=runner.seed, rewards="beta")
    P, R = problem.transitions(), problem.means
    changed, used = runner.change(learner, rule)
    agent, book = Agent(changed, used, budget=0, seed=runner.seed), Episodes(S, A, H, learner.delta, learner.scale)
    tally, spent, budget, inside, looked = Tally("action", "asks", "width", "values"), 0, 0.0, 0, 0
    caps, ways = np.arange(H, 0, -1.0)[:, np.newaxis], np.cumsum(P, axis=3)
    for t, more in enumerate(growing(episodes, share, 5), 1):
        agent.grant(more)
        budget += more
        policy, L = agent.plan(), book.log_term(16.0 if two_sided else 12.0, t)
        known = (book.asked > 0).all(axis=2)
        if t % every == 0 and known.all():
            up, low, Q = book.ulcvi() if two_sided else book.ucbvi()
            wrong = max(float(np.abs(x - y).max()) for x, y in zip(agent.values, (up, low), strict=True))
            chosen = np.take_along_axis(Q, policy[..., np.newaxis], axis=2)[..., 0]
            tally.rounds += 1
            tally.note("values", wrong > EXACTLY)
            tally.note("action", bool((chosen < Q.max(axis=2) - EXACTLY).any()))
            tally.note("width", bool((np.abs(agent.widths / book.width(L) - 1.0) > 1e-7).any()))
            inside += int((up < caps - 1e-6).sum()) + (int((low > 1e-6).sum()) if two_sided else 0)
            looked += up.size * (1 + two_sided)
        s, states, actions = int(random.integers(S)), np.zeros(H, dtype=int), np.zeros(H, dtype=int)
        for h in range(H):
            states[h], actions[h] = s, policy[h, s] if t % 3 else random.integers(A)
            s = min(int(np.searchsorted(ways[h, s, actions[h]], random.random())), S - 1)
        asked = agent.decide_episode(states, actions)
        steps = np.arange(H), states, actions
        for h, width, n in zip(range(H), book.width(L)[steps], book.asked[steps], strict=True):
            tally.note_ask(bool(asked[h]), asks(book, L, float(width), int(n), budget))
        rewards = np.clip(R[steps] + random.normal(0.0, 0.1, H), 0.0, 1.0)
        agent.observe_episode(np.where(asked, rewards, np.nan))
        book.see(states, actions, asked, rewards)
        spent += int(asked.sum())
        tally.note("asks", agent.ledger.spent != spent)
    return tally, inside / max(looked, 1)


def _episode_checks(
    runner: Runner, make: Any, sizes: tuple[int, int, int], scale: float, rewarding: int, episodes: int, every: int
) -> list[Check]:
    """A learner for episodes with the paper's rule, told |L_R| or not, and with R1."""
    two_sided = make is ULCVI

    def told(book: Episodes, L: float, width: float, n: int, budget: float) -> bool | None:
        return budget > 0.0 and formulas.decided(width, book.threshold(L, rewarding, budget))

    def plain(book: Episodes, L: float, width: float, n: int, budget: float) -> bool | None:
        return budget > 0.0 and formulas.decided(width, book.threshold(L, math.prod(sizes), budget))

    def exact(book: Episodes, L: float, width: float, n: int, budget: float) -> bool | None:
        return formulas.exact_asks(n, math.prod(sizes), budget)

    learner = make(*sizes, scale=scale, delta=0.1)
    cases = {
        f"|L_R| = {rewarding}": (replace(learner, rewarding=rewarding), PaperMatching(), told, 20.0),
        "|L_R| = SAH": (learner, PaperMatching(), plain, 40.0),
        "R1": (learner, ExactMatching(), exact, 0.5),
    }
    checks = []
    for stream, (label, (playing, rule, asks, share)) in enumerate(cases.items()):
        tally, inside = play_episodes(runner, playing, rule, two_sided, asks, episodes, share, every, stream)
        checks += tally.checks(f"{make.__name__}, {label}")
        says = f"{make.__name__}, {label}: values that no cut hides, so that every term counts"
        checks.append(statistics.exact(says, inside, "≥", 0.5))
    return checks


EPISODES = JUDGED + " Values from above, and for ULCVI from below, must be those of the paper's induction."


@claim(
    "constants/ucbvi",
    "CBM-UCBVI plans with b^r = sqrt(2 Var L/n) + 5L/n and b^p = sqrt(2H²L/n) + 5HL/n, L = log(12S²AHt²(t+1)/δ), and "
    "asks if 2b^r ≥ L(6 sqrt(|L_R|/B) + 4SAH(log(1+B)+1)/B).",
    source="Algorithms 5 and 6, Appendix E; E5, E6, E8, E10",
    judged=EPISODES,
    quick={"sizes": (3, 2, 3), "scale": 0.01, "rewarding": 5, "episodes": 3_000, "every": 25},
    full={"episodes": 20_000},
)
def ucbvi(
    runner: Runner, sizes: tuple[int, int, int], scale: float, rewarding: int, episodes: int, every: int
) -> Evidence:
    return Evidence(tuple(_episode_checks(runner, UCBVI, sizes, scale, rewarding, episodes, every)))


@claim(
    "constants/ulcvi",
    "CBM-ULCVI plans from both sides with b^p = sqrt(2 Var(V_up) L/n) + 44H²SL/n + E[V_up − V_low]/(16H), "
    "L = log(16S²AHt²(t+1)/δ), and asks like CBM-UCBVI.",
    source="Appendix F; E5, E6, E8, E10",
    judged=EPISODES,
    quick={"sizes": (3, 2, 3), "scale": 3e-4, "rewarding": 5, "episodes": 3_000, "every": 25},
    full={"episodes": 20_000},
)
def ulcvi(
    runner: Runner, sizes: tuple[int, int, int], scale: float, rewarding: int, episodes: int, every: int
) -> Evidence:
    return Evidence(tuple(_episode_checks(runner, ULCVI, sizes, scale, rewarding, episodes, every)))


# The ledger, and the past of Greedy


@claim(
    "constants/ledger",
    "Asking is paid for at once: an ask of cost c is made if it is wanted and spent + c ≤ B(t), and refused if not.",
    source="Section 2 (the budget constraint)",
    judged="Exact, in every round: under a budget that grows in bursts, rules that want to ask whenever they may must "
    "ask just when spent + c ≤ B(t), must have spent the sum of the costs of their asks, and must be refused, or "
    "decline, in all other rounds. The most that is ever left must be less than the dearest ask and the last burst.",
    quick={"arms": 4, "rounds": 3_000},
    full={"rounds": 30_000},
)
def ledger(runner: Runner, arms: int, rounds: int) -> Evidence:
    checks = []
    for stream, rule in enumerate((Always(), Greedy())):
        random = np.random.default_rng(runner.seeds(stream))
        costs = np.array([0.7, 1.0, 1.9, 2.3][:arms])
        learner, used = runner.change(UCB1(arms, costs=tuple(costs)), rule)
        agent, spent, budget, refused = Agent(learner, used, budget=0, seed=runner.seed), 0.0, 0.0, 0
        wrong, sums, full = 0, 0, 0.0
        for more in growing(rounds, 0.13, 31):
            agent.grant(more)
            budget += more
            d = agent.decide()
            can = [formulas.at_least(budget + 1e-9, spent + cost) for cost in costs]
            wrong += d.ask != can[d.action] if d.ask or name(rule) == "Always" else all(can)
            refused += not d.ask
            if d.ask:
                spent += float(costs[d.action])
                agent.observe(d.id, float(random.random() < 0.5))
            sums += not same(agent.ledger.spent, spent)
            full = max(full, spent / budget if budget else 0.0)
        label = name(rule)
        expected = refused if label == "Always" else 0  # Greedy looks at what is left before it wants to ask
        counts = {
            "rounds with an ask that B(t) could not pay, or none though it could": wrong,
            "rounds in which spent is not the sum of the costs asked for": sums,
            "refusals, less the rounds without an ask": agent.ledger.refused - expected,
        }
        checks += [statistics.exact(f"{label}: {says}", count, "=", 0) for says, count in counts.items()]
        beyond = agent.ledger.spent - agent.ledger.granted
        checks += [
            statistics.exact(f"{label}: spent beyond the budget", beyond, "≤", 0.0),
            statistics.exact(f"{label}: the largest share of the budget that was spent", full, "≥", 0.95),
        ]
    return Evidence(tuple(checks))


def _past(
    runner: Runner, label: str, problem: Any, learner: Any, unit: int, rounds: int, lives: int, runs: int, stream: int
) -> list[Check]:
    """Regret after all rounds over T/B times the regret of the B rounds that were asked about: 1 on average."""
    result = runner.simulate(
        problem, learner, Greedy(policies=128), Fixed(lives * unit), rounds=rounds, runs=runs, stream=stream,
        checkpoints=(lives, rounds),
    )  # fmt: skip
    while_asking, all_of_it = result.regret.T
    says = f"{label}: regret after T rounds, over T/B times that of the B asked rounds"
    found = all_of_it * (lives / rounds)
    return [
        statistics.ratio(says, found, while_asking, "≤", APART),
        statistics.ratio(says, found, while_asking, "≥", 1.0 / APART),
    ]


APART = 1.25


@claim(
    "greedy/past-policies",
    "Without budget, Algorithm 1 acts by a uniformly drawn past policy: with B asks at once it loses exactly T/B times "
    "what it lost in the B rounds asked about, on average.",
    source="Algorithm 1, line 12; Theorem 1",
    judged="The mean regret after T rounds, over T/B times the mean regret of the first B rounds, over paired runs: "
    f"below {APART:g} and above 1/{APART:g}, for arms, features and episodes. Acting by the latest policy, or by the "
    "first, would lose far less, or more.",
    quick={"arms": 5, "dim": 4, "sizes": (3, 2, 3), "lives": 300, "rounds": 3_000, "runs": 1_000},
    full={"runs": 2_000},
)
def past_policies(
    runner: Runner, arms: int, dim: int, sizes: tuple[int, int, int], lives: int, rounds: int, runs: int
) -> Evidence:
    theta, gaps = np.full(dim, dim**-0.5), np.linspace(0.1, 0.9, arms)
    cases: dict[str, tuple[Any, Any, int]] = {
        "UCB1": (Arms(gaps), UCB1(arms), 1),
        "MOSS": (Arms(gaps), MOSS(arms), 1),
        "OFUL": (Linear(theta, Sphere(5), noise=0.1), OFUL(dim, noise=0.1, radius="simple"), 1),
        "UCBVI": (random_mdp(*sizes, seed=runner.seed), UCBVI(*sizes, scale=0.01), sizes[2]),
    }
    checks = []
    for stream, (label, (problem, learner, unit)) in enumerate(cases.items()):
        checks += _past(runner, label, problem, learner, unit, rounds, lives, runs, stream)
    return Evidence(tuple(checks))
