"""Mutants of labels and of yes or no: fits, what a wrong class tells, widths, scores, the reserve, draws."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

LABELS = "linear/test_labels.py"
LOGISTIC = "linear/test_logistic.py"
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
    Mutant(
        "softmax/taken-over-for-nothing", "ledger", "linear/labels/round.py",
        "        state.gain += math.log1p(ask.norm * ask.norm)", "        state.gain += 0.0",
        "an ask that the reserve takes over uses up no potential",
        (f"{LABELS}::test_an_ask_that_the_reserve_has_taken_over_can_be_taken_back",
         f"{LABELS}::test_the_reserve_takes_over_what_it_would_pay_today"),
    ),
    Mutant(
        "softmax/given-back-half", "ledger", "linear/labels/round.py",
        "    return 0.0 if norm <= m.head[0].dropped else math.log1p(norm * norm)", "    return 0.0",
        "an ask that the reserve has taken over is not taken out of it again",
        (f"{LABELS}::test_an_ask_that_the_reserve_has_taken_over_can_be_taken_back",),
    ),
    Mutant(
        "logistic/weight-of-one", "learner", "linear/logistic.py",
        "return 4.0 * chance * (1.0 - chance)", "return 1.0",
        "every answer counts as if its chance were even",
        (f"{LOGISTIC}::test_intervals_by_hand",),
    ),
    Mutant(
        "logistic/doubt-dropped", "learner", "linear/logistic.py",
        "return max(1.0, 2.0 * math.sqrt(max(log_det - learner.first_log_det, 0.0) + learner.doubt) + learner.bias)",
        "return max(1.0, 2.0 * math.sqrt(max(log_det - learner.first_log_det, 0.0)) + learner.bias)",
        "the radius has no 2 log(1/δ)",
        (f"{LOGISTIC}::test_intervals_by_hand",),
    ),
    Mutant(
        "logistic/bracket-open", "learner", "linear/logistic.py",
        "and abs(following - score) <= 0.5 * moved):", "):",
        "Newton's steps may go to and fro between the ends of the bracket",
        (f"{LOGISTIC}::test_roots_are_found_where_newton_goes_astray",),
    ),
    Mutant(
        "logistic/penalty-whole", "learner", "linear/round.py",
        "share = 4.0 / m.head[0].ridge", "share = 1.0 / m.head[0].ridge",
        "the penalty is λ/2 in place of λ/8",
        (f"{LOGISTIC}::test_theta_is_that_of_a_direct_fit",),
    ),
    Mutant(
        "lints/too-wide", "learner", "linear/round.py",
        "theta.size, m.work, bonus / math.sqrt(theta.size)", "theta.size, m.work, bonus",
        "draws are sqrt(d) times too far from the estimate",
        (f"{LOGISTIC}::test_draws_follow_their_law",),
    ),
)  # fmt: skip
