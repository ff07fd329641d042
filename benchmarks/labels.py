"""How fast Softmax and Logistic decide and learn, against river: `python -m benchmarks.labels`, after `make peers`.

Candidates take turns; each decides and learns from the answer in every round, from a plain Python loop.
"""

from __future__ import annotations

from functools import partial

import numpy as np

import sparingly as sp
from benchmarks.timing import race, report

ROUNDS, TURNS = 200, 40


def world(d: int, classes: int) -> tuple[np.ndarray, list[int]]:
    """Inputs of length 1, and labels that a softmax has drawn."""
    random = np.random.default_rng(0)
    X = random.normal(size=(ROUNDS, d))
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    scores = X @ (8.0 * random.normal(size=(d, classes)))
    return X, (scores + random.gumbel(size=scores.shape)).argmax(axis=1).tolist()


def softmax_rounds(X: np.ndarray, labels: list[int], classes: int) -> None:
    """An Agent that asks always."""
    agent = sp.Agent(sp.Softmax(X.shape[1], classes), sp.Always(), budget=np.inf, seed=0)
    for x, label in zip(X, labels, strict=True):
        agent.observe(agent.decide(x), label=label)


def river_softmax_rounds(X: np.ndarray, labels: list[int]) -> None:
    """river's EntropySampler on its softmax regression, told every label."""
    from river import active, linear_model, optim, preprocessing

    softmax = linear_model.SoftmaxRegression(optim.SGD(0.01))
    model = active.EntropySampler(preprocessing.StandardScaler() | softmax, seed=0)
    for x, label in zip(X, labels, strict=True):
        inputs = dict(enumerate(x.tolist()))
        model.predict_one(inputs)
        model.learn_one(inputs, label)


def logistic_rounds(X: np.ndarray, labels: list[int], arms: int) -> None:
    """An Agent that asks always, with so many rows of features."""
    agent = sp.Agent(sp.Logistic(X.shape[1]), sp.Always(), budget=np.inf, seed=0)
    for t, label in enumerate(labels):
        agent.observe(agent.decide(X[t % (len(X) - arms) :][:arms]), float(label > 0))


def river_logistic_rounds(X: np.ndarray, labels: list[int], arms: int) -> None:
    """river's logistic regression, asked about each of the rows and told of the best."""
    from river import linear_model

    model = linear_model.LogisticRegression()
    for t, label in enumerate(labels):
        rows = [dict(enumerate(row)) for row in X[t % (len(X) - arms) :][:arms].tolist()]
        best = max(rows, key=lambda row: model.predict_proba_one(row)[True])
        model.learn_one(best, bool(label > 0))


def main() -> None:
    """Four sizes of Softmax, and Logistic."""
    for d, classes in ((64, 10), (16, 10), (16, 7), (10, 2)):
        X, labels = world(d, classes)
        softmax_rounds(X[:20], labels[:20], classes)
        timings = race(
            {
                "sparingly, Softmax": (partial(softmax_rounds, X, labels, classes), ROUNDS),
                "river, EntropySampler on SoftmaxRegression": (partial(river_softmax_rounds, X, labels), ROUNDS),
            },
            TURNS,
        )
        report(f"Decide and observe a label, d = {d}, K = {classes}", timings, "sparingly, Softmax")
    X, labels = world(16, 2)
    logistic_rounds(X[:40], labels[:20], 10)
    timings = race(
        {
            "sparingly, Logistic": (partial(logistic_rounds, X, labels, 10), ROUNDS),
            "river, LogisticRegression": (partial(river_logistic_rounds, X, labels, 10), ROUNDS),
        },
        TURNS,
    )
    report("Decide and observe yes or no, d = 16, ten actions", timings, "sparingly, Logistic")


if __name__ == "__main__":
    main()
