"""The corrections E1 to E10 that can be run: what the paper says, and what holds instead. E7 is `ucbvi/budget`."""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sparingly.agent import Agent
from sparingly.budgets import Fixed, Periodic
from sparingly.episodic.learner import log_term
from sparingly.features import HalfSpaces
from sparingly.lab.claims import statistics
from sparingly.lab.claims.evidence import Evidence, Panel, claim
from sparingly.lab.claims.panels import Floats, band, curve, share_of_runs, spending
from sparingly.lab.claims.runner import Runner
from sparingly.lab.paper_policies import OFUL, UCB1, UCBVI, Always, ExactMatching, Matching
from sparingly.ledger import budget_in_units
from sparingly.problems import Arms, Linear, random_mdp
from sparingly.protocol import Question
from sparingly.rules import PaperMatching
from sparingly.rules.paper import paper_episode_bar
from sparingly.tabular.round import cell_width as width

EXACT = "Exact."


@claim(
    "corrections/e1",
    "CBM-UCB's interval form, CI ≥ 4 sqrt(6 log(At) C/B), is the same as n ≤ B/(4C).",
    source="Algorithm 3, line 5; E1",
    judged=EXACT + " The two forms are compared for all n, B and C of a grid.",
    correction="It is the same as n ∨ 1 ≤ B/(16C), which is what PaperMatching computes.",
    quick={"most": 60, "rounds": 1_000},
    full={"most": 200},
)
def e1(runner: Runner, most: int, rounds: int) -> Evidence:
    differ = {"stated": 0, "corrected": 0, "PaperMatching": 0}
    for n, B, C in itertools.product(range(most), range(1, 40 * most, 37), range(2, 12, 3)):
        ci, bar = width(n, rounds, C), 4.0 * math.sqrt(6.0 * math.log(C * rounds) * C / B)
        interval = ci >= bar * (1.0 - 1e-12)  # if they are equal, rounding must not decide
        question = Question(rounds, n, ci, 1.0, float(C), float(B), 0.0, C)
        differ["stated"] += interval != (4 * C * n <= B)
        differ["corrected"] += interval != (max(n, 1) <= B / (16 * C))
        differ["PaperMatching"] += interval != PaperMatching().asks(question)
    checks = (
        statistics.exact("n ≤ B/(4C): cases in which it decides otherwise", differ["stated"], "=", 0, "stated"),
        statistics.exact(
            "n ∨ 1 ≤ B/(16C): cases in which it decides otherwise", differ["corrected"], "=", 0, "corrected"
        ),
        statistics.exact("PaperMatching: cases in which it decides otherwise", differ["PaperMatching"], "=", 0),
    )
    budgets = np.arange(16, 2_000, 8)
    panel = Panel(
        "How often a cell may be asked about, C = 4", "budget B", "asks of one cell",
        (
            curve("n ≤ B/(4C), as stated", budgets, budgets // 16 + 1),
            curve("interval form: n ∨ 1 ≤ B/(16C)", budgets, budgets // 64 + 1),
            curve("exact matching: n + 1 ≤ B/C", budgets, budgets // 4),
            curve("an equal share B/C", budgets, budgets / 4, role="upper"),
        ),
        x_log=False, y_log=False, chance=False,
    )  # fmt: skip
    return Evidence(checks, (panel,))


@dataclass(frozen=True)
class RemarkRule:
    """The rule that the paper's remark recommends: ask if n ≤ B/C + c."""

    def asks(self, question: Question) -> bool:
        return question.asked <= question.budget / question.total_cost + question.cost


@claim(
    "corrections/e2",
    "Asking if n ≤ B/C + c(a) would be a better rule than CBM-UCB's.",
    source="Remark after Algorithm 3; E2",
    judged=EXACT + " As stated, it must never want to spend more than B(t): no refusals.",
    correction="It overspends. Safe and tight is (n + 1)·C ≤ B, exact matching (R1).",
    quick={"costs": (3.0, 2.0, 1.0), "rounds": 3_000, "runs": 4},
    full={"rounds": 30_000, "runs": 10},
)
def e2(runner: Runner, costs: tuple[float, ...], rounds: int, runs: int) -> Evidence:
    problem, learner, budget = Arms([0.5] * len(costs), costs=costs), UCB1(len(costs), costs=costs), Periodic(60, 500)
    remark = runner.simulate(problem, learner, RemarkRule(), budget, rounds=rounds, runs=runs)
    ours = runner.simulate(problem, learner, ExactMatching(), budget, rounds=rounds, runs=runs)
    checks = (
        statistics.exact("n ≤ B/C + c: refusals by the ledger", remark.refused.sum(), "=", 0, "stated"),
        statistics.exact("(n + 1)·C ≤ B: refusals by the ledger", ours.refused.sum(), "=", 0, "corrected"),
    )
    return Evidence(checks, (spending({"n ≤ B/C + c (refused by the ledger)": remark, "(n + 1)·C ≤ B": ours}),))


@claim(
    "corrections/e3",
    "CI = 2b^r = sqrt(6 log(At)/(n ∨ 1)) with b^r = sqrt(3 log(At)/(2n ∨ 1)).",
    source="Section 5.1, Appendix C; E3",
    judged=EXACT + " The largest relative difference between 2b^r and CI over n = 0 … 100.",
    correction="The denominator is 2·(n ∨ 1).",
    quick={"arms": 5, "rounds": 1_000},
    full={},
)
def e3(runner: Runner, arms: int, rounds: int) -> Evidence:
    n, logs = np.arange(101), math.log(arms * rounds)
    ci = np.array([width(int(k), rounds, arms) for k in n])
    stated = 2 * np.sqrt(3 * logs / np.maximum(2 * n, 1))
    corrected = 2 * np.sqrt(3 * logs / (2 * np.maximum(n, 1)))
    checks = (
        statistics.exact(
            "2n ∨ 1: largest relative difference", float(np.abs(stated / ci - 1).max()), "≤", 1e-12, "stated"
        ),
        statistics.exact(
            "2(n ∨ 1): largest relative difference", float(np.abs(corrected / ci - 1).max()), "≤", 1e-12, "corrected"
        ),
    )
    lines = (curve("2b^r with 2n ∨ 1, as stated", n, stated), curve("CI = 2b^r with 2(n ∨ 1)", n, corrected))
    panel = Panel("The interval of an arm", "asks n", "width", lines, x_log=False, y_log=False, chance=False)
    return Evidence(checks, (panel,))


@claim(
    "corrections/e4",
    "CBM-OFUL may ask if CI ≥ l v_B/(2 sqrt B).",
    source="Algorithm 4, line 7; E4",
    judged=EXACT + " It must never want to spend more than B: no refusals, with features that change direction.",
    correction="The proof needs min(‖x‖, 1) ≥ v_B/sqrt(B), four times as much, and asks nothing while v_B² > B.",
    quick={"dim": 16, "budget": 60, "rounds": 4_000, "runs": 10},
    full={"rounds": 40_000, "runs": 40},
)
def e4(runner: Runner, dim: int, budget: int, rounds: int, runs: int) -> Evidence:
    v = math.sqrt(2 * dim * math.log1p(budget / dim))
    problem = Linear(np.full(dim, dim**-0.5), HalfSpaces(10), noise=0.1)
    learner = OFUL(dim, noise=0.1)
    stated, corrected, ours = (
        runner.simulate(problem, learner, rule, Fixed(budget), rounds=rounds, runs=runs)
        for rule in (Matching(v / 4), PaperMatching(), ExactMatching())
    )
    checks = (
        statistics.exact("as stated: refusals by the ledger", stated.refused.sum(), "=", 0, "stated"),
        statistics.exact("as corrected: refusals by the ledger", corrected.refused.sum(), "=", 0, "corrected"),
        statistics.exact("exact matching: refusals by the ledger", ours.refused.sum(), "=", 0, "corrected"),
    )
    panel = spending({"as stated (refused by the ledger)": stated, "as corrected": corrected, "ExactMatching": ours})
    return Evidence(checks, (panel,))


def best_values(problem: Any) -> Floats:
    """V*, (H, S), by the plain recursion without any cut: the reference for the library's own value iteration."""
    P, R = problem.transitions(), problem.means
    V = np.zeros((problem.horizon + 1, problem.states))
    for h in range(problem.horizon - 1, -1, -1):
        V[h] = (R[h] + P[h] @ V[h + 1]).max(axis=1)
    return V[:-1]


def _optimistic_run(learner: Any, rule: Any, problem: Any, episodes: int, seed: int) -> tuple[bool, float]:
    """Whether V_upper ≥ V* at the first step, in every state and episode of a run; and the smallest margin."""
    agent = Agent(learner, rule=rule, budget=0, seed=seed)
    random = np.random.default_rng(seed)
    best, H, P = best_values(problem)[0], problem.horizon, problem.transitions()
    least = math.inf
    for _ in range(episodes):
        policy = agent.plan()
        least = min(least, float((agent.values[0][0] - best).min()))
        states, s = [], int(random.integers(problem.states))
        for h in range(H):
            states.append(s)
            s = int(random.choice(problem.states, p=P[h, s, policy[h, s]]))
        actions = policy[np.arange(H), states]
        agent.grant(1)
        asks = agent.decide_episode(states, actions)
        means = problem.means[np.arange(H), states, actions]
        agent.observe_episode(np.where(asks, random.random(H) < means, np.nan))
    return least >= -1e-9, least


@claim(
    "corrections/e5",
    "Value iteration that cuts V_h off at H − h is optimistic: V* ≤ V_h for all h.",
    source="Algorithm 6 (truncated value iteration); E5",
    judged="As stated: the cut at the last step against the best value there (exact). As corrected: the chance of a "
    "run in which "
    "some V_upper falls below V* must be at most δ.",
    correction="The cut is H − h + 1: a step can still pay 1.",
    quick={"sizes": (2, 2, 2), "delta": 0.2, "episodes": 100, "runs": 80},
    full={"episodes": 400, "runs": 100},
)
def e5(runner: Runner, sizes: tuple[int, int, int], delta: float, episodes: int, runs: int) -> Evidence:
    problem, H = random_mdp(*sizes, seed=runner.seed), sizes[2]
    learner, rule = runner.change(UCBVI(*sizes, delta=delta), ExactMatching())
    done = [_optimistic_run(learner, rule, problem, episodes, 1_000 * runner.seed + run) for run in range(runs)]
    values = best_values(problem)
    best = float(values[H - 1].max())
    cut, first = np.arange(H, 0, -1), values.max(axis=1)
    checks = (
        statistics.exact("the cut H − h at h = H, against V*_H", 0.0, "≥", best, "stated"),
        statistics.exact("the cut H − h + 1 at h = H, against V*_H", 1.0, "≥", best, "corrected"),
        statistics.chance(
            "runs in which V_upper fell below V*", [not fine for fine, _ in done], "≤", delta, "corrected"
        ),
    )
    steps = np.arange(1, H + 1)
    lines = (
        curve("largest V*_h", steps, first),
        curve("cut at H − h + 1", steps, cut, role="upper"),
        curve("cut at H − h, as stated", steps, cut - 1, role="lower"),
    )
    panel = Panel("Cuts and values", "step h", "value", lines, x_log=False, y_log=False)
    return Evidence(checks, (panel,))


@claim(
    "corrections/e6",
    "CBM-UCBVI asks if CI^R ≥ 2L(sqrt(|L_R|/B) + SAH log(1+B)/B), the text's threshold, which is the algorithm's.",
    source="Appendix E, text and Algorithm 5; E6",
    judged=EXACT + " The largest relative difference between thresholds over B = 1 … 10⁶.",
    correction="The algorithm's differs, L(6 sqrt(|L_R|/B) + 4SAH(log(1+B)+1)/B), and is the one that the code "
    "computes.",
    quick={"cells": 32, "rewarding": 8},
    full={},
)
def e6(runner: Runner, cells: int, rewarding: int) -> Evidence:
    budgets = np.geomspace(1, 1e6, 200).round()
    used = np.array([paper_episode_bar(rewarding, cells, int(budget_in_units([b])[0])) for b in budgets])
    text = 2 * (np.sqrt(rewarding / budgets) + cells * np.log1p(budgets) / budgets)
    algorithm = 6 * np.sqrt(rewarding / budgets) + 4 * cells * (np.log1p(budgets) + 1) / budgets
    checks = (
        statistics.exact(
            "text: largest relative difference", float(np.abs(text / used - 1).max()), "≤", 1e-12, "stated"
        ),
        statistics.exact(
            "algorithm: largest relative difference", float(np.abs(algorithm / used - 1).max()), "≤", 1e-12, "corrected"
        ),
    )
    lines = (curve("the text's", budgets, text), curve("the algorithm's, and ours", budgets, algorithm))
    return Evidence(checks, (Panel("Threshold for CI^R / L", "budget B", "threshold", lines, chance=False),))


@claim(
    "corrections/e8",
    "The bonus b^p of CBM-UCBVI has a term 5HL/n, and is used from the first episode on.",
    source="Appendix E; E8",
    judged=EXACT + " Cells without a finite bonus before the first episode; values that the planner makes of them.",
    correction="Divide by n ∨ 1.",
    quick={"sizes": (3, 2, 4)},
    full={},
)
def e8(runner: Runner, sizes: tuple[int, int, int]) -> Evidence:
    S, A, H = sizes
    visits, counts = np.zeros(S * A * H), np.arange(11.0)
    with np.errstate(divide="ignore"):
        stated, as_stated = int((~np.isfinite(5.0 * H / visits)).sum()), 5.0 * H / counts
    learner, rule = runner.change(UCBVI(S, A, H), ExactMatching())
    agent = Agent(learner, rule=rule, budget=10, seed=runner.seed)
    agent.plan()
    values = agent.values[0][:H]
    checks = (
        statistics.exact("5HL/n: cells without a finite bonus", stated, "=", 0, "stated"),
        statistics.exact("the planner: values that are not finite", (~np.isfinite(values)).sum(), "=", 0, "corrected"),
        statistics.exact(
            "the planner: the least V_h − (H − h + 1)", float((values - np.arange(H, 0, -1)[:, None]).min()), "≥", 0.0,
            "corrected",
        ),
    )  # fmt: skip
    lines = (
        curve("5H/n, as stated: infinite at n = 0", counts, as_stated),
        curve("5H/(n ∨ 1)", counts, 5.0 * H / np.maximum(counts, 1.0)),
        curve("H, the largest value", counts, np.full(counts.size, float(H)), role="upper"),
    )
    panel = Panel("The term of the bonus, over L", "visits n", "bonus", lines, x_log=False, y_log=False, chance=False)
    return Evidence(checks, (panel,))


@claim(
    "corrections/e9",
    "L_R may be taken to be the cells whose reward has variance 0.",
    source="Footnote of Appendix E; E9",
    judged=EXACT + " The proof uses that cells outside of L_R never show any variance.",
    correction="The cells whose variance is not 0.",
    quick={"draws": 200},
    full={"draws": 2_000},
)
def e9(runner: Runner, draws: int) -> Evidence:
    random = np.random.default_rng(runner.seeds(0))
    means, noisy = np.array([0.3, 0.5, 0.7, 1.0]), np.array([True, True, False, False])
    learner, _ = runner.change(UCBVI(4, 1, 1), Always())
    agent = Agent(learner, rule=Always(), budget=4 * draws, seed=runner.seed)
    marks = np.unique(np.geomspace(2, draws, 20).astype(np.int64))
    seen = []
    for turn in range(1, draws + 1):
        for state in range(4):
            agent.plan()
            agent.decide_episode([state], [0])
            agent.observe_episode([float(random.random() < means[state]) if noisy[state] else means[state]])
        if turn in marks:  # the variance that the agent has found, from CI^R = 2 b^r
            L = log_term(learner.log_constant, 4 * turn + 1)
            seen.append(((agent.widths[0, :, 0] - 10.0 * L / turn) / 2.0) ** 2 * turn / (2.0 * L))
    found = np.array(seen)
    variance = found[-1]
    checks = (
        statistics.exact(
            "L_R = {Var = 0}: largest variance outside of it", variance[noisy].max(), "≤", 1e-12, "stated"
        ),
        statistics.exact("L_R = {Var ≠ 0}: largest variance outside", variance[~noisy].max(), "≤", 1e-12, "corrected"),
    )
    lines = [
        curve(f"mean {mean:g}, {'0 or 1' if varies else 'always the same'}", marks, found[:, cell].round(12))
        for cell, (mean, varies) in enumerate(zip(means, noisy, strict=True))
    ]
    panel = Panel("What the agent has found, one run", "answers", "variance of a cell", tuple(lines), y_log=False)
    return Evidence(checks, (panel,))


@claim(
    "corrections/e10",
    "rbar divides the sum of the rewards asked for by the count of asks before the last one.",
    source="Appendix E; E10",
    judged="As stated, the mean of that estimate over runs must not exceed 1, as rewards do not (Student's t). As "
    "corrected, the "
    "agent's estimate must be the mean of its answers (exact).",
    correction="Divide by the number of answers.",
    quick={"mean": 0.9, "asks": 5, "runs": 200},
    full={"runs": 1_000},
)
def e10(runner: Runner, mean: float, asks: int, runs: int) -> Evidence:
    random = np.random.default_rng(runner.seeds(0))
    answers = (random.random((runs, asks)) < mean).astype(float)
    stated = answers.sum(axis=1) / max(asks - 1, 1)
    learner, rule = runner.change(UCBVI(1, 1, 1), ExactMatching())
    apart = 0.0
    for row in answers:
        agent = Agent(learner, rule=rule, budget=asks, seed=runner.seed)
        for reward in row:
            agent.plan()
            if agent.decide_episode([0], [0])[0]:
                agent.observe_episode([reward])
        apart = max(apart, abs(float(np.nan_to_num(agent.means[0, 0, 0])) - float(row.mean())))
    checks = (
        statistics.mean("divided by n − 1: the estimate of a mean of 0.9", stated, "≤", 1.0, "stated"),
        statistics.exact("the agent: largest distance from the mean of its answers", apart, "≤", 1e-12, "corrected"),
    )
    n, sums = np.arange(1, asks + 1), answers.cumsum(axis=1)
    lines = (
        band("divided by n − 1 ∨ 1, as stated", n, sums / np.maximum(n - 1, 1)),
        band("divided by n", n, sums / n),
        curve("the largest reward", n, np.ones(asks), role="upper"),
    )
    label = f"estimate: {share_of_runs([runs])}"
    panel = Panel(f"The estimate of a mean of {mean:g}", "answers n", label, lines, x_log=False, y_log=False)
    return Evidence(checks, (panel,))
