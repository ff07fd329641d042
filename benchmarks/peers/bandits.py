"""Peers that learn from the reward of what they did: LinUCB of river and contextualbandits, ActiveExplorer, VW.

None of them has a rule for asking: they ask until the budget is spent, or in rounds drawn at random before the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers.rounds import Candidate, Facts, is_labelled, whole_seed


class RiverLinUCB:
    """river's LinUCBDisjoint, one model per action; with features per action one BayesianLinearRegression for all."""

    def __init__(self, facts: Facts, setting: Mapping[str, Any], seeds: np.random.SeedSequence) -> None:
        from river import bandit, linear_model

        self.arms = list(range(facts.actions))
        self.policy = None if facts.per_action else bandit.LinUCBDisjoint(seed=whole_seed(seeds), **setting)
        self.shared = linear_model.BayesianLinearRegression()

    def decide(self, inputs: np.ndarray) -> tuple[int, bool]:
        if self.policy is not None:
            self.x = dict(enumerate(inputs.tolist()))
            self.action = self.policy.pull(self.arms, context=self.x)
            return self.action, True
        rows = [dict(enumerate(row)) for row in inputs.tolist()]
        beliefs = [self.shared.predict_one(row, with_dist=True) for row in rows]
        self.action = int(np.argmax([belief.mu + belief.sigma for belief in beliefs]))
        self.x = rows[self.action]
        return self.action, True

    def learn(self, answer: float) -> None:
        if self.policy is not None:
            self.policy.update(self.action, self.x, answer)
        else:
            self.shared.learn_one(self.x, answer)


class ContextualBandits:
    """A policy of contextualbandits, one model per action."""

    def __init__(self, policy: Any, budget: int, exploits: bool) -> None:
        self.policy, self.left, self.exploits = policy, budget, exploits

    def decide(self, inputs: np.ndarray) -> tuple[int, bool]:
        self.x = inputs[np.newaxis]
        greedy = {"exploit": True} if self.exploits and not self.left and self.policy.is_fitted else {}
        self.action = int(self.policy.predict(self.x, **greedy)[0])
        return self.action, True

    def learn(self, answer: float) -> None:
        self.left -= 1
        self.policy.partial_fit(self.x, np.array([self.action]), np.array([answer]))


class OneLinUCB:
    """contextualbandits' LinUCB for features per action: the index of its first arm, the only one that is taught."""

    def __init__(self, policy: Any, seeds: np.random.SeedSequence) -> None:
        self.policy, self.random = policy, np.random.default_rng(seeds)

    def decide(self, inputs: np.ndarray) -> tuple[int, bool]:
        if self.policy.is_fitted:
            action = int(np.argmax(self.policy.decision_function(inputs)[:, 0]))
        else:
            action = int(self.random.integers(len(inputs)))
        self.x = inputs[action : action + 1]
        return action, True

    def learn(self, answer: float) -> None:
        self.policy.partial_fit(self.x, np.zeros(1, dtype=int), np.array([answer]))


def lin_ucb(facts: Facts, setting: Mapping[str, Any], seeds: np.random.SeedSequence) -> Any:
    from contextualbandits.online import LinUCB

    seed = whole_seed(seeds)
    if facts.per_action:  # its prior for arms with few answers would give all candidates a random index
        return OneLinUCB(LinUCB(2, beta_prior=None, random_state=seed, **setting), seeds)
    return ContextualBandits(LinUCB(facts.actions, random_state=seed, **setting), facts.budget, exploits=False)


def active_explorer(facts: Facts, setting: Mapping[str, Any], seeds: np.random.SeedSequence) -> ContextualBandits:
    from contextualbandits.linreg import LinearRegression
    from contextualbandits.online import ActiveExplorer

    model = LinearRegression(lambda_=1.0)
    policy = ActiveExplorer(model, facts.actions, batch_train=True, random_state=whole_seed(seeds), njobs=1)
    return ContextualBandits(policy, facts.budget, exploits=True)


class Wabbit:
    """Vowpal Wabbit's contextual bandit for features per action; acts on its best guess once nothing can be asked."""

    def __init__(self, facts: Facts, setting: Mapping[str, Any], seeds: np.random.SeedSequence) -> None:
        import vowpalwabbit

        cross = "" if facts.per_action else "-q sa"
        self.vw = vowpalwabbit.Workspace(f"--quiet --cb_explore_adf {cross} {setting['explore']}")
        self.random, self.left, self.arms = np.random.default_rng(seeds), facts.budget, range(facts.actions)

    def decide(self, inputs: np.ndarray) -> tuple[int, bool]:
        if inputs.ndim == 2:
            self.lines = [f"|a {written(row)}" for row in inputs]
        else:
            self.lines = [f"shared |s {written(inputs)}", *(f"|a a{arm}" for arm in self.arms)]
        chances = np.asarray(self.vw.predict(self.lines))
        if self.left:
            self.action = int(self.random.choice(len(chances), p=chances / chances.sum()))
        else:
            self.action = int(chances.argmax())
        self.chance = chances[self.action]
        return self.action, True

    def learn(self, answer: float) -> None:
        self.left -= 1
        lines = list(self.lines)
        place = self.action + (len(lines) > len(self.arms))  # after the shared line, if there is one
        lines[place] = f"0:{1.0 - answer:g}:{self.chance:.6g} {lines[place]}"
        self.vw.learn(lines)

    def close(self) -> None:
        self.vw.finish()


def written(row: np.ndarray) -> str:
    """A vector in Vowpal Wabbit's format."""
    return " ".join(f"{place}:{value:.6g}" for place, value in enumerate(row.tolist()))


def candidates() -> list[Candidate]:
    """Those without a rule for asking: a counter stops them."""
    river = "river LinUCB"
    theirs = {"module": "contextualbandits", "budget": "none"}
    return [
        Candidate(
            "river LinUCB, asks until spent", "river", RiverLinUCB, "LinUCBDisjoint(), its defaults", river,
            asking="capped", budget="none",
        ),
        Candidate(
            "contextualbandits LinUCB, asks until spent", make=lin_ucb, says="LinUCB(), its defaults",
            learner="contextualbandits LinUCB", asking="capped", **theirs,
        ),
        Candidate(
            "contextualbandits LinUCB, asks at random", make=lin_ucb, says="LinUCB(), its defaults",
            learner="contextualbandits LinUCB", asking="uniform", **theirs,
        ),
        Candidate(
            "contextualbandits LinUCB, tuned", make=lin_ucb, learner="contextualbandits LinUCB tuned", asking="capped",
            says="LinUCB(alpha), asks until spent; chosen in pilot runs",
            grid=tuple({"alpha": alpha} for alpha in (1.0, 0.5, 0.25, 0.1)), **theirs,
        ),
        Candidate(
            "contextualbandits ActiveExplorer, asks until spent", make=active_explorer,
            says="on its LinearRegression(lambda_=1), batch_train; then exploits",
            learner="contextualbandits ActiveExplorer", asking="capped", fits=is_labelled, **theirs,
        ),
        Candidate(
            "Vowpal Wabbit bandit, asks until spent", "vowpalwabbit", Wabbit,
            "--cb_explore_adf --squarecb; then its best", "Vowpal Wabbit bandit",
            asking="capped", budget="none", grid=({"explore": "--squarecb"},),
        ),
    ]  # fmt: skip
