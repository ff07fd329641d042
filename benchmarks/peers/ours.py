"""Our own candidates: OFUL, as `Table.learner` sets it up, with several ways to ask; Softmax with rewards or labels."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

import sparingly as sp
from benchmarks.peers.rounds import Candidate, Facts, is_labelled
from sparingly.lab.table_runs import Uniform, agent_for

NOISE, SCALE = 0.25, 0.3  # those of Rounds.learner
LOGISTIC_SCALE = 0.1


class Ours:
    """An agent; inputs that all actions share become a block of features for each of them, class ⊗ x."""

    def __init__(
        self, facts: Facts, rule: Any, budget: Any, seeds: np.random.SeedSequence, mirrored: bool, learner: Any
    ) -> None:
        count, size = facts.actions, facts.size
        self.blocks = None if facts.per_action else np.zeros((count, count, size))
        self.places, self.mirrored = np.arange(count), mirrored
        dim = size + 1 if mirrored else size * (1 if facts.per_action else count)
        rule, budget = (sp.Always(), float(facts.rounds)) if facts.always else (rule, budget)
        self.agent = agent_for(learner(dim), rule, budget, facts.rounds, seeds)

    def decide(self, inputs: np.ndarray) -> tuple[int, bool]:
        self.decision = self.agent.decide(self.features(inputs))
        return self.decision.action, self.decision.ask

    def features(self, inputs: np.ndarray) -> np.ndarray:
        if self.blocks is None:
            return inputs
        if self.mirrored:  # two classes: what speaks for one speaks against the other, so an ask teaches both
            half = inputs / np.sqrt(2.0)
            return np.column_stack([np.full(2, np.sqrt(0.5)), np.stack([-half, half])])
        self.blocks[self.places, self.places] = inputs
        return self.blocks.reshape(len(self.places), -1)

    def learn(self, answer: float) -> None:
        self.agent.observe(self.decision.id, answer)


class OurLabels:
    """An agent with Softmax, which takes the inputs as they are."""

    def __init__(self, facts: Facts, growing: bool, seeds: np.random.SeedSequence, feedback: str) -> None:
        budget = sp.budgets.Linear(facts.share) if growing else float(facts.budget)
        rule, budget = (sp.Always(), float(facts.rounds)) if facts.always else (sp.BalancedMatching(), budget)
        self.agent = agent_for(sp.Softmax(facts.size, facts.actions), rule, budget, facts.rounds, seeds)
        self.feedback = feedback

    def decide(self, inputs: np.ndarray) -> tuple[int, bool]:
        self.decision = self.agent.decide(inputs)
        return self.decision.action, self.decision.ask

    def learn(self, answer: float) -> None:
        self.agent.observe(self.decision, **{self.feedback: int(answer)})


def making_labels(feedback: str, growing: bool) -> Any:
    """Makes an agent with Softmax that is told the label, or the reward of what it did."""

    def make(facts: Facts, setting: Mapping[str, Any], seeds: np.random.SeedSequence) -> OurLabels:
        return OurLabels(facts, growing, seeds, feedback)

    return make


def softmax_candidates() -> list[Candidate]:
    """Softmax with the default rule, told the reward or the label, under either kind of budget."""
    return [
        Candidate(
            f"sparingly Softmax, {feedback}s{', growing budget' if growing else ''}", "sparingly",
            making_labels(feedback, growing), "Softmax(), BalancedMatching(), all defaults",
            f"sparingly Softmax {feedback}", feedback=feedback, budget="growing" if growing else "at once",
            fits=is_labelled,
        )
        for feedback in ("reward", "label")
        for growing in (False, True)
    ]  # fmt: skip


def oful(dim: int) -> sp.OFUL:
    return sp.OFUL(dim, noise=NOISE, scale=SCALE)


def logistic(dim: int) -> sp.Logistic:
    return sp.Logistic(dim, scale=LOGISTIC_SCALE)


def making(rule: Any, growing: bool = False, mirrored: bool = False, learner: Any = oful) -> Any:
    """Makes an agent with this rule, under a budget that is there at once or grows with the rounds."""

    def make(facts: Facts, setting: Mapping[str, Any], seeds: np.random.SeedSequence) -> Ours:
        budget = sp.budgets.Linear(facts.share) if growing else float(facts.budget)
        return Ours(facts, rule, budget, seeds, mirrored, learner)

    return make


OURS = "sparingly, balanced matching"
SAYS = f"OFUL(noise={NOISE}, scale={SCALE})"


def candidates() -> list[Candidate]:
    """Two rules under either kind of budget, two simple ways to ask, and a coding for two classes."""
    plain = {"module": "sparingly", "learner": "sparingly OFUL"}
    balanced, exact = sp.BalancedMatching(), sp.ExactMatching()
    named = {OURS: balanced, "sparingly, exact matching": exact, "sparingly, asks until spent": sp.Always()}
    growing = {OURS: balanced, "sparingly, exact matching": exact}
    return [
        *(Candidate(name, make=making(rule), says=f"{SAYS}, {type(rule).__name__}()", **plain)
          for name, rule in named.items()),
        *(Candidate(f"{name}, growing budget", make=making(rule, growing=True), budget="growing",
                    says=f"{SAYS}, {type(rule).__name__}(), budgets.Linear(share)", **plain)
          for name, rule in growing.items()),
        Candidate("sparingly, asks at random", make=making(Uniform()), says=f"{SAYS}, in rounds drawn ahead", **plain),
        Candidate(
            f"{OURS}, ±x", "sparingly", making(balanced, mirrored=True),
            f"{SAYS}, BalancedMatching(); features (1, ±x)/√2, so that an ask teaches both classes",
            "sparingly OFUL ±x", fits=lambda table: is_labelled(table) and len(table.actions) == 2,
        ),
        *(Candidate(f"sparingly Logistic{', growing budget' if growing else ''}",
                    make=making(balanced, growing, learner=logistic), module="sparingly", learner="sparingly Logistic",
                    says=f"Logistic(scale={LOGISTIC_SCALE}), BalancedMatching()",
                    budget="growing" if growing else "at once")
          for growing in (False, True)),
        *softmax_candidates(),
    ]  # fmt: skip
