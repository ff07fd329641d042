"""The demo: five rules on ten arms, with few asks and with many, and against the paper's adversary."""

from __future__ import annotations

from sparingly.budgets import Fixed
from sparingly.lab.experiment import Experiment
from sparingly.learners import UCB1
from sparingly.problems import Arms, greedy_trap, worse_labelling
from sparingly.rules import Always, BalancedMatching, ExactMatching, Greedy, PaperMatching

RULES = {
    "ask until spent, then play the best mean": Always(),
    "Greedy": Greedy(),
    "PaperMatching": PaperMatching(),
    "ExactMatching": ExactMatching(),
    "BalancedMatching": BalancedMatching(),
}


def experiments() -> tuple[Experiment, ...]:
    """Ten stochastic arms with a fixed budget; adversarial contexts, labelled against the learner."""
    arms, contextual = UCB1(arms=10, scale=0.3), UCB1(arms=2, contexts=2, scale=0.3)
    trap = greedy_trap("contexts", good_arm=worse_labelling(contextual))
    benign = [
        Experiment(
            title=f"benign: ten arms, {budget:,} asks",
            problem=Arms([0.6] + [0.5] * 9),
            budget=Fixed(budget),
            policies=tuple((label, arms, rule) for label, rule in RULES.items()),
            runs=100,
        )
        for budget in (1_000, 10_000)
    ]
    adversarial = Experiment(
        title="adversarial: contexts depend on the budget",
        problem=trap.problem,
        budget=trap.budget,
        policies=tuple((label, contextual, rule) for label, rule in RULES.items()),
    )
    return (*benign, adversarial)
