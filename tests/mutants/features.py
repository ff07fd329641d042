"""Mutants of linear rewards: OFUL's radius, its ellipsoid, R2, the paper's bar, the best estimate."""

from __future__ import annotations

from tests.mutants.mutant import CONSTANT, Mutant

LINEAR = "linear/test_linear.py"
DIRECT = f"{LINEAR}::test_every_quantity_agrees_with_a_direct_solve"

MUTANTS = (
    Mutant(
        "oful/delta-dropped", CONSTANT, "linear/oful.py",
        "math.log((1.0 + rounds * L * L / ridge) / delta)", "math.log(1.0 + rounds * L * L / ridge)",
        "the simple radius has no 1/δ in its logarithm",
        (f"{LINEAR}::test_the_simple_radius_grows_with_the_rounds",),
        ("constants/features", "oful/budget", "oful/regret"),
    ),
    Mutant(
        "oful/doubt-dropped", CONSTANT, "linear/oful.py",
        "return -2.0 * math.log(self.delta)", "return 0.0",
        "the radius from the determinant has no 2 log(1/δ)",
        (DIRECT,), ("constants/features", "oful/budget", "oful/regret", "ours/exact-linear"),
    ),
    Mutant(
        "oful/dimension-dropped", CONSTANT, "linear/oful.py",
        "noise * math.sqrt(2.0 * d * math.log((1.0", "noise * math.sqrt(2.0 * math.log((1.0",
        "the simple radius has no d under its root",
        (f"{LINEAR}::test_the_simple_radius_grows_with_the_rounds",),
        ("constants/features", "oful/budget", "oful/regret"),
    ),
    Mutant(
        "oful/bias-dropped", CONSTANT, "linear/oful.py",
        "ridge) / delta)) + math.sqrt(ridge) * D", "ridge) / delta))",
        "the simple radius has no sqrt(λ)·D",
        (f"{LINEAR}::test_the_simple_radius_grows_with_the_rounds",),
        ("constants/features", "oful/budget", "oful/regret"),
    ),
    Mutant(
        "oful/radius-frozen", CONSTANT, "linear/round.py",
        "m.learner, m.head[0].clock, m.known", "m.learner, 0, m.known",
        "the simple radius stays at l_0",
        (f"{LINEAR}::test_the_simple_radius_grows_with_the_rounds",),
        ("constants/features", "oful/budget", "oful/regret"),
    ),
    Mutant(
        "oful/determinant-frozen", CONSTANT, "linear/oful.py",
        "math.sqrt(max(log_det - start, 0.0) + doubt)", "math.sqrt(doubt)",
        "the radius from the determinant does not grow",
        (DIRECT,), ("constants/features", "oful/budget", "oful/regret", "ours/exact-linear"),
    ),
    Mutant(
        "oful/index-half", CONSTANT, "linear/round.py",
        "value += bonus * math.sqrt(max(dot(x, y), 0.0))", "value += 0.5 * bonus * math.sqrt(max(dot(x, y), 0.0))",
        "the index has half of the bonus",
        (DIRECT,), ("constants/features", "oful/regret", "greedy/oful"),
    ),
    Mutant(
        "oful/passed-over", "learner", "linear/round.py",
        "if value + bonus * math.sqrt(dot(x, x) * stretch) * (1.0 + 1e-9)",
        "if value + 0.7 * bonus * math.sqrt(dot(x, x) * stretch) * (1.0 + 1e-9)",
        "rows are passed over that may have the largest index",
        (DIRECT, f"{LINEAR}::test_fast_plain_and_agent_are_one[sphere-ExactMatching()]"),
    ),
    Mutant(
        "oful/log-det-square", "learner", "linear/ellipsoid.py",
        "e.sizes[0].log_det += math.log1p(square)", "e.sizes[0].log_det += square",
        "log det V grows by ‖x‖² in place of log(1 + ‖x‖²)",
        (DIRECT,),
    ),
    Mutant(
        "oful/removed-half", "ledger", "linear/ellipsoid.py",
        "sum_up(e, i, j, -x[i] * x[j])", "sum_up(e, i, j, -0.5 * x[i] * x[j])",
        "an ask that is taken back leaves half of its x xᵀ",
        ("test_withdraw.py::test_taking_back_undoes_an_ask_about_features",),
    ),
    Mutant(
        "oful/free-asks-counted", CONSTANT, "linear/round.py",
        "if price > 0 and not m.head[0].together:  # what is free", "if not m.head[0].together:  # what is free",
        "what is free uses up potential",
        (f"{LINEAR}::test_free_asks_do_not_raise_the_bar",), ("ours/exact-spends", "ours/exact-linear"),
    ),
    Mutant(
        "oful/unasked-explored", "exploring", "linear/round.py",
        "if ending != ANSWERABLE and m.head[0].exploits:", "if ending == 99 and m.head[0].exploits:",
        "where the rule does not ask, the optimistic row is played all the same",
        (f"{LINEAR}::test_out_of_budget_the_best_estimate_is_played",),
        ("ours/explore-asked", "ours/balanced-oful"),
    ),
    Mutant(
        "oful/greedy-plays-the-latest", CONSTANT, "linear/round.py",
        "return choose(X, policy[1 : 1 + d], inverse, policy[0], stretch, m.y, ties, m.random, False)[0]",
        "return own_action(m, X, bonus)[0]",
        "with features the policy of now acts in place of a past one",
        (f"{LINEAR}::test_greedy_acts_with_a_past_policy",),
        ("greedy/past-policies", "greedy/oful", "greedy/adversarial-linear"),
    ),
    Mutant(
        "oful/score-untaught", "pacing", "linear/round.py",
        "* taught / (1.0 + norm * norm)", "/ (1.0 + norm * norm)",
        "an ask is worth the same whatever it teaches about other rows",
        (f"{LINEAR}::test_scores_by_hand",), ("ours/balanced-oful",),
    ),
    Mutant(
        "fixed-set/width-kept", "simulation", "linear/fixed_set.py",
        "fixed.square[b] - shrink * overlap * overlap", "fixed.square[b] - 0.5 * shrink * overlap * overlap",
        "the widths of a fixed set fall half as fast as they should",
        (f"{LINEAR}::test_fast_plain_and_agent_are_one[fixed-ExactMatching()]",),
    ),
    Mutant(
        "r2/off-by-one", CONSTANT, "rules/exact.py",
        "asks = float(left // price + 1)", "asks = float(max(left // price, 1))",
        "R2 solves for k asks in place of k + 1",
        (f"{LINEAR}::test_r2_is_its_definition",), ("ours/exact-spends", "ours/exact-linear"),
    ),
    Mutant(
        "r2/dearest", CONSTANT, "rules/exact.py",
        "asks = left / cheapest", "asks = left / dearest",
        "with costs, R2 takes all asks to be as dear as the dearest: unsafe",
        (f"{LINEAR}::test_r2_with_costs_is_its_definition",), ("ours/exact-spends", "ours/exact-linear"),
    ),
    Mutant(
        "r2/potential-without-d", CONSTANT, "rules/exact.py",
        "return d * math.log((trace", "return math.log((trace",
        "the potential has no d before its logarithm",
        (f"{LINEAR}::test_r2_is_its_definition",), ("ours/exact-spends", "ours/exact-linear"),
    ),
    Mutant(
        "r2/potential-halved", CONSTANT, "rules/exact.py",
        "asks * length * length) / d) - log_det", "asks * length * length) / (2.0 * d)) - log_det",
        "the potential is too small by d log 2",
        (f"{LINEAR}::test_r2_is_its_definition",), ("ours/exact-spends", "ours/exact-linear"),
    ),
    Mutant(
        "paper/v-without-d", CONSTANT, "rules/paper.py",
        "square = 2.0 * d * math.log1p(", "square = 2.0 * math.log1p(",
        "v_B has no d under its root",
        (DIRECT,), ("constants/features", "oful/budget", "oful/regret", "corrections/e4"),
    ),
    Mutant(
        "paper/unclipped", CONSTANT, "rules/paper.py",
        "if granted == 0 or square > budget:", "if granted == 0:",
        "CBM-OFUL asks under a bar above 1 (E4)",
        (f"{LINEAR}::test_e4_nothing_is_asked_while_the_bar_is_above_one",),
        ("constants/features", "corrections/e4", "oful/budget"),
    ),
)  # fmt: skip
