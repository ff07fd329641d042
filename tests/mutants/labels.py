"""Mutants of labels: the fit of a row, what a wrong class tells, widths, scores, rows that make room."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LABELS = "linear/test_labels.py"
DIRECT = f"{LABELS}::test_the_weights_are_those_of_a_direct_fit"

MUTANTS = (
    Mutant(
        "softmax/curvature-of-one-class", "learner", "linear/labels/softmax.py",
        "        below -= factor * share * chance[k]", "        below -= share * chance[k]",
        "Newton's step is that of another matrix",
        (f"{LABELS}::test_hostile_data_leave_finite_weights", DIRECT),
    ),
    Mutant(
        "softmax/ridge-dropped", "learner", "linear/labels/softmax.py",
        "share = (fitted - pull[k]) / learner.ridge", "share = fitted - pull[k]",
        "the weights are not divided by λ",
        (DIRECT,),
    ),
    Mutant(
        "softmax/wrong-tells-all-alike", "learner", "linear/labels/softmax.py",
        "else chance[k] / max(1.0 - chance[wrong], 1e-12)", "else 1.0 / (chance.size - 1)",
        "if a class is wrong, all others are equally likely",
        (DIRECT,),
    ),
    Mutant(
        "softmax/own-pull-kept", "learner", "linear/labels/softmax.py",
        "start[k] = scores[k] - factor * pull[k]", "start[k] = scores[k]",
        "a row that is fitted again does not leave out its own pull",
        (DIRECT,),
    ),
    Mutant(
        "softmax/never-again", "learner", "linear/labels/round.py",
        "    for _ in range(fits):", "    for _ in range(0):",
        "rows are fitted once and never again",
        (DIRECT,),
    ),
    Mutant(
        "softmax/pull-of-the-old-row", "learner", "linear/labels/round.py",
        "        m.pulls[row, k] = 0.0", "        m.pulls[row, k] += 0.0",
        "a row that makes room leaves its pull to the new one",
        (f"{LABELS}::test_a_row_that_makes_room_leaves_its_pull_in_the_weights",),
    ),
    Mutant(
        "softmax/score-without-margin", "pacing", "linear/labels/round.py",
        "(2.0 * m.head[0].scale * norm - margin) * taught", "2.0 * m.head[0].scale * norm * taught",
        "an ask is worth the same however clear the case is",
        (f"{LABELS}::test_scores_by_hand",),
    ),
    Mutant(
        "softmax/ask-uncounted", "ledger", "linear/labels/round.py",
        "    return a, count(m, m.z, question, wanted)", "    return a, count(m, m.y, question, wanted)",
        "the ellipsoid grows by another row than the one that was asked about",
        (f"{LABELS}::test_the_widths_are_those_of_a_direct_solve",),
    ),
)  # fmt: skip
