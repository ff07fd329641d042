"""The paper's remarks: budgets revealed after the action, a first budget that is too small, and the rule of thumb."""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from sparingly.agent import Agent
from sparingly.budgets import Fixed, Late, Periodic
from sparingly.lab.claims import statistics
from sparingly.lab.claims.arms_bounds import excess
from sparingly.lab.claims.evidence import Evidence, Panel, claim
from sparingly.lab.claims.panels import Floats, band, curve, name, regrets, share_of_runs, spending
from sparingly.lab.claims.runner import Runner
from sparingly.lab.paper_policies import OFUL, UCB1, ExactMatching, Matching
from sparingly.problems import Arms, hypercube
from sparingly.rules import PaperMatching
from sparingly.theory import upper


def _spiteful_run(problem: Arms, learner: Any, rule: Any, rounds: int, seed: int) -> tuple[Floats, Floats, int, int]:
    """One run in which the budget is decided after the action: it grows only if the action was the worst arm.

    A copy of the agent decides before the budget is known; then the budget is granted and the agent itself decides.
    Returns regret and B(t) of every round, how often the two actions differed, and the number of refusals.
    """
    agent = Agent(learner, rule=rule, budget=0, seed=seed)
    random = np.random.default_rng(seed)
    gaps, worst = problem.gaps[0], int(np.argmax(problem.gaps[0]))
    lost, granted, differed = np.empty(rounds), np.empty(rounds), 0
    for t in range(rounds):
        before = copy.deepcopy(agent).decide().action
        if before == worst:
            agent.grant(1)
        d = agent.decide()
        differed += d.action != before
        if d.ask:
            agent.observe(d.id, float(random.random() < problem.means[0, d.action]))
        lost[t], granted[t] = gaps[d.action], agent.ledger.granted
    return np.cumsum(lost), granted, differed, agent.ledger.refused


@claim(
    "remarks/budget-after-action",
    "Matching does not need B(t) to act: all results hold if the budget is revealed, or decided, after the action.",
    source="Remark 1",
    judged="An adversary grants a unit only after it has seen the action, and only if it was the worst arm. In every "
    "round "
    "the action must be the one chosen before the grant, so that all is as if B(t) had been known before (exact); "
    "and the "
    "regret must be less than half of what asking nothing loses.",
    quick={"means": (0.2, 0.6, 0.5), "rounds": 1_000, "runs": 20},
    full={"rounds": 10_000, "runs": 40},
)
def after_action(runner: Runner, means: tuple[float, ...], rounds: int, runs: int) -> Evidence:
    problem, checks, losses, grants = Arms(means), [], [], []
    marks = np.unique(np.geomspace(1, rounds, 40).astype(np.int64))
    nothing = problem.gaps[0, 0] * rounds  # without answers UCB1 stays with the first arm
    for rule in (PaperMatching(), ExactMatching()):
        learner, used = runner.change(UCB1(len(means)), rule)
        done = [_spiteful_run(problem, learner, used, rounds, 1_000 * runner.seed + run) for run in range(runs)]
        regret = np.array([lost[marks - 1] for lost, *_ in done])
        budgets = np.array([granted[marks - 1] for _, granted, *_ in done])
        checks += [
            statistics.exact(
                f"{name(rule)}: actions that changed with the budget", sum(d for *_, d, _ in done), "=", 0
            ),
            statistics.exact(f"{name(rule)}: refusals", sum(refused for *_, refused in done), "=", 0),
            statistics.mean(f"{name(rule)}: regret, against asking nothing", regret[:, -1] / nothing, "≤", 0.5),
        ]
        losses.append(band(name(rule), marks, regret))
        grants.append(band(name(rule), marks, budgets))
    shown = share_of_runs([runs])
    panels = (
        Panel("Granted only after the worst arm was played", "round", f"regret: {shown}", tuple(losses)),
        Panel("What was granted", "round", f"budget B(t): {shown}", tuple(grants)),
    )
    return Evidence(tuple(checks), panels)


@claim(
    "remarks/initial-budget",
    "If the first budget is too small to ask, the bound grows by T_I, the rounds until CI ≥ α sqrt(1/B) for the "
    "first time.",
    source="Remark 2",
    judged="With a budget that comes late, the mean regret must stay below T_I plus the bound of Theorem 2 for what "
    "follows, whatever the law of regret.",
    quick={"arms": 4, "start": 20_000, "amount": 20_000, "rounds": 3_000_000, "runs": 100},
    full={"rounds": 10_000_000},
)
def initial_budget(runner: Runner, arms: int, start: int, amount: int, rounds: int, runs: int) -> Evidence:
    problem, learner = Arms([0.2] * (arms - 1) + [0.8]), UCB1(arms)
    result = runner.simulate(problem, learner, PaperMatching(), Late(amount, start), rounds=rounds, runs=runs)
    # CBM-UCB asks as soon as B ≥ 16·C, so T_I = start; from there on the budget is constant, and so are the terms.
    free, ample = (upper.cbm_ucb(np.full(rounds, b), arms)[result.rounds - 1] for b in (math.inf, float(amount)))
    after = np.maximum(result.rounds - start + 1, 0) / result.rounds
    bars = np.minimum(start - 1, result.rounds) + free + (ample - free) * after
    checks = (
        statistics.exact("the late budget, against the 16·C at which CBM-UCB begins to ask", amount, "≥", 16 * arms),
        statistics.below_for_any_law("regret ≤ T_I + Theorem 2", result.regret, bars, 0.6 * result.rounds),
        statistics.exact("asks before T_I", result.asked[:, result.rounds < start].max(initial=0), "=", 0),
        statistics.exact("refusals", result.refused.sum(), "=", 0),
    )
    line = curve("T_I + Theorem 2", result.rounds, bars, role="upper")
    shown = {"PaperMatching": result}
    return Evidence(checks, (regrets(f"Nothing before round {start:,}", shown, line), spending(shown)))


@claim(
    "remarks/rule-of-thumb",
    "For an optimistic learner with regret α T^β, asking if CI ≥ α_t B^(β−1) never violates the budget.",
    source="Section 5.4 (general view)",
    judged="Exact, in every run: the generic rule with the constants of CBM-UCB, 4 sqrt(6C), and of CBM-OFUL, v_B, "
    "is never "
    "refused; with a quarter of them it is, so the constant matters.",
    quick={"arms": 5, "dim": 3, "budget": 400, "rounds": 100_000, "runs": 10},
    full={"rounds": 1_000_000, "runs": 40},
)
def rule_of_thumb(runner: Runner, arms: int, dim: int, budget: int, rounds: int, runs: int) -> Evidence:
    v = math.sqrt(2 * dim * math.log1p(budget))  # L² = d on the hypercube, and λ = 1
    cases = {
        "UCB1": (Arms([0.5] * arms), UCB1(arms), 4.0 * math.sqrt(6.0 * arms), Periodic(arms, every=20)),
        "OFUL": (hypercube(dim, budget), OFUL(dim, noise=1.0, length=math.sqrt(dim)), v, Fixed(budget)),
    }
    checks, shown = [], {}
    for place, (label, (problem, learner, alpha, schedule)) in enumerate(cases.items()):
        for factor in (1.0, 0.25):
            result = runner.simulate(
                problem, learner, Matching(factor * alpha), schedule, rounds=rounds, runs=runs, stream=place
            )
            text = f"{label}, {factor:g} × α"
            refused = result.refused.sum()
            checks.append(
                statistics.exact(f"{text}: refusals", refused, "=", 0)
                if factor == 1.0
                else statistics.exact(f"{text}: refusals", refused, "≥", 1)
            )
            checks.append(statistics.exact(f"{text}: spent beyond the budget", excess(result), "≤", 0.0))
            shown[text] = result
    return Evidence(tuple(checks), (spending({k: r for k, r in shown.items() if k.startswith("UCB1")}),))
