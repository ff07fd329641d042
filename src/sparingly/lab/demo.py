"""The demo: three rules on a benign stream and on the paper's adversarial one."""

from __future__ import annotations

from sparingly.budgets import Fixed
from sparingly.lab.experiment import Experiment
from sparingly.learners import UCB1
from sparingly.problems import Arms, greedy_trap, worse_labelling
from sparingly.rules import ExactMatching, Greedy, PaperMatching

RULES = (Greedy(), PaperMatching(), ExactMatching())


def experiments() -> tuple[Experiment, ...]:
    """Ten stochastic arms with a fixed budget; adversarial contexts, labelled against the learner."""
    arms, contextual = UCB1(arms=10, ties="random"), UCB1(arms=2, contexts=2)
    trap = greedy_trap("contexts", good_arm=worse_labelling(contextual))
    return (
        Experiment(
            title="benign: ten arms, 10,000 asks for 100,000 rounds",
            problem=Arms([0.6] + [0.5] * 9),
            budget=Fixed(10_000),
            policies=tuple((type(rule).__name__, arms, rule) for rule in RULES),
        ),
        Experiment(
            title="adversarial: contexts watch the budget",
            problem=trap.problem,
            budget=trap.budget,
            policies=tuple((type(rule).__name__, contextual, rule) for rule in RULES),
        ),
    )
