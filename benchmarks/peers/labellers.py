"""Peers that learn from the label: river's EntropySampler, scikit-activeml's stream strategies, VW's active mode.

Their inputs are scaled to about unit variance, as they expect. The first labels, WARM of them, are asked for without
asking the rule: one that has seen one class only is sure of it, and may ask no more.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

import numpy as np

from benchmarks.peers.bandits import written
from benchmarks.peers.rounds import Candidate, Facts, Make, is_labelled, whole_seed

WARM = 10  # labels
GROWTH = 1.01  # a classifier without partial_fit is fitted again when its labels have become so many times as many


class Entropy:
    """river's EntropySampler on a softmax regression."""

    def __init__(self, facts: Facts, setting: Mapping[str, Any], seeds: np.random.SeedSequence) -> None:
        from river import active, linear_model, optim, preprocessing

        softmax = linear_model.SoftmaxRegression(optim.SGD(setting.get("rate", 0.01)))
        model = preprocessing.StandardScaler() | softmax
        self.model = active.EntropySampler(model, setting.get("discount", 3), seed=whole_seed(seeds))
        self.learned = 0

    def decide(self, inputs: np.ndarray) -> tuple[int, bool]:
        self.x = dict(enumerate(inputs.tolist()))
        label, ask = self.model.predict_one(self.x)
        return (label if self.learned else 0), ask or self.learned < WARM

    def learn(self, answer: float) -> None:
        self.learned += 1
        self.model.learn_one(self.x, int(answer))


class Activeml:
    """A stream strategy of scikit-activeml with its default budget manager."""

    def __init__(self, strategy: Any, classifier: Any, scale: float) -> None:
        self.strategy, self.classifier, self.scale = strategy, classifier, scale
        self.needs_model = type(strategy).__name__ != "StreamRandomSampling"
        self.inputs: list[np.ndarray] = []
        self.labels: list[int] = []
        self.fitted = 0

    def decide(self, inputs: np.ndarray) -> tuple[int, bool]:
        self.x = inputs[np.newaxis] * self.scale
        action = int(self.classifier.predict(self.x)[0]) if self.fitted else 0
        if len(self.labels) < WARM:
            return action, True
        model = {"clf": self.classifier} if self.needs_model else {}
        queried, utilities = self.strategy.query(candidates=self.x, return_utilities=True, **model)
        more = {"budget_manager_param_dict": {"utilities": utilities}} if self.needs_model else {}
        self.strategy.update(candidates=self.x, queried_indices=queried, **more)
        return action, len(queried) > 0

    def learn(self, answer: float) -> None:
        self.inputs.append(self.x[0])
        self.labels.append(int(answer))
        if len(self.labels) >= GROWTH * self.fitted:
            self.fitted = len(self.labels)
            self.classifier.fit(np.array(self.inputs), np.array(self.labels))


def activeml(strategy: str, classifier: str) -> Make:
    """Makes a strategy of this name with this classifier."""

    def make(facts: Facts, setting: Mapping[str, Any], seeds: np.random.SeedSequence) -> Activeml:
        from skactiveml import classifier as models
        from skactiveml import stream
        from sklearn.linear_model import LogisticRegression

        common = {"classes": np.arange(facts.actions), "random_state": whole_seed(seeds)}
        if classifier == "Parzen":
            model = models.ParzenWindowClassifier(**common)
        else:
            model = models.SklearnClassifier(LogisticRegression(), **common)
        share = (facts.budget - WARM) / (facts.rounds - WARM)  # of the rounds that are left to its rule
        known = {"classes": np.arange(facts.actions)} if strategy == "FixedUncertainty" else {}
        rule = getattr(stream, strategy)(budget=share, random_state=whole_seed(seeds), **known)
        return Activeml(rule, model, np.sqrt(facts.size))

    return make


class WabbitActive:
    """Vowpal Wabbit's --active: for two classes one model, for more one for each class against the others.

    It prints the importance that a label would have, and nothing for one that is not worth asking; read through a pipe.
    """

    def __init__(self, facts: Facts, setting: Mapping[str, Any], seeds: np.random.SeedSequence) -> None:
        self.models = [
            ActiveModel(setting["mellowness"], whole_seed(seeds))
            for _ in range(1 if facts.actions == 2 else facts.actions)
        ]
        self.scale, self.always = np.sqrt(facts.size), facts.always

    def decide(self, inputs: np.ndarray) -> tuple[int, bool]:
        self.x = written(inputs * self.scale)
        told = [model.predict(self.x) for model in self.models]
        self.importance = [importance for _, importance in told]
        scores = [score for score, _ in told]
        action = int(scores[0] > 0) if len(scores) == 1 else int(np.argmax(scores))
        return action, any(self.importance)

    def learn(self, answer: float) -> None:
        for place, (model, importance) in enumerate(zip(self.models, self.importance, strict=True)):
            right = answer == (1 if len(self.models) == 1 else place)
            if self.always or importance:  # the reference learns from every label, each as important as the others
                model.learn(self.x, right, 1.0 if self.always else importance)

    def close(self) -> None:
        for model in self.models:
            model.close()


class ActiveModel:
    """One workspace and the pipe that it writes its predictions to."""

    def __init__(self, mellowness: float, seed: int) -> None:
        import vowpalwabbit

        self.out, self.into = os.pipe()
        self.vw = vowpalwabbit.Workspace(  # --no_daemon: --active alone opens a port and waits for a caller
            f"--quiet --active --no_daemon --loss_function logistic --mellowness {mellowness} --random_seed {seed} "
            f"-p /dev/fd/{self.into}"
        )

    def predict(self, x: str) -> tuple[float, float]:
        """The score, and the importance of the label; 0 if it is not worth asking."""
        example = self.vw.parse(f"| {x}")
        self.vw.predict(example)
        self.vw.finish_example(example)
        score, *importance = os.read(self.out, 4096).split()
        return float(score), float(importance[0]) if importance else 0.0

    def learn(self, x: str, right: bool, importance: float) -> None:
        example = self.vw.parse(f"{1 if right else -1} {importance:g} | {x}")
        self.vw.learn(example)
        self.vw.finish_example(example)
        os.read(self.out, 4096)

    def close(self) -> None:
        self.vw.finish()
        os.close(self.into)
        os.close(self.out)


DISCOUNTS = (3.0, 1.0, 10.0, 20.0, 50.0, 150.0, 500.0, 2000.0, 10000.0)
MELLOWNESS = (0.1, 1.0, 0.03, 0.01, 1e-3, 1e-4, 1e-6, 1e-9)


def candidates() -> list[Candidate]:
    """As their users would set them up; defaults first, then with settings chosen in pilot runs."""
    label = {"feedback": "label", "fits": is_labelled}
    entropy = {"module": "river", "make": Entropy, "budget": "none", "warm": WARM, **label}
    wabbit = {
        "module": "vowpalwabbit",
        "make": WabbitActive,
        "learner": "Vowpal Wabbit active",
        "budget": "none",
        **label,
    }
    softmax = "StandardScaler | SoftmaxRegression"
    streams = [
        Candidate(
            f"scikit-activeml {strategy}", "skactiveml", activeml(strategy, model), f"its defaults; {shown}",
            f"skactiveml {model}", budget="growing", warm=WARM, **label,
        )
        for strategy, model, shown in (
            ("StreamRandomSampling", "logistic", "scikit-learn's LogisticRegression()"),
            ("VariableUncertainty", "logistic", "scikit-learn's LogisticRegression()"),
            ("FixedUncertainty", "logistic", "scikit-learn's LogisticRegression()"),
            ("Split", "logistic", "scikit-learn's LogisticRegression()"),
            ("StreamProbabilisticAL", "Parzen", "ParzenWindowClassifier(), BalancedIncrementalQuantileFilter"),
        )
    ]  # fmt: skip
    return [
        Candidate(
            "river EntropySampler, stopped when spent", says=f"its defaults; {softmax}, SGD(0.01); a counter stops it",
            learner="river softmax", asking="capped", **entropy,
        ),
        Candidate(
            "river EntropySampler, calibrated",
            says=f"{softmax}, SGD(0.01); discount_factor from pilot runs, no counter",
            learner="river softmax", grid=tuple({"discount": d} for d in DISCOUNTS), aim="labels", **entropy,
        ),
        Candidate(
            "river EntropySampler, tuned", says=f"{softmax}, SGD(rate); chosen in pilot runs; a counter stops it",
            learner="river softmax tuned", asking="capped",
            grid=tuple({"rate": r} for r in (0.01, 0.03, 0.1, 0.3)), **entropy,
        ),
        *streams,
        Candidate(
            "Vowpal Wabbit active, stopped when spent", says="--active --loss_function logistic; a counter stops it",
            asking="capped", grid=({"mellowness": 0.1},), **wabbit,
        ),
        Candidate(
            "Vowpal Wabbit active, calibrated",
            says="--active --loss_function logistic; --mellowness from pilot runs, no counter",
            grid=tuple({"mellowness": m} for m in MELLOWNESS), aim="labels", **wabbit,
        ),
    ]  # fmt: skip
