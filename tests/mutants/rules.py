"""Mutants of rules: R1, the paper's, matching, Greedy, and balanced matching with its two parts and its pace."""

from __future__ import annotations

from tests.mutants.mutant import CONSTANT, Mutant

RULES = "rules/test_rules.py"
BALANCED = "rules/test_balanced.py"
TWO_ARMS = f"{BALANCED}::test_two_arms_by_hand"
ATTACKS = (TWO_ARMS, f"{BALANCED}::test_random_attacks")
ROWS = (f"{BALANCED}::test_one_direction_by_hand", f"{BALANCED}::test_features_under_attack")
EPISODES = (f"{BALANCED}::test_random_attacks",)
CHANGES = ("properties/test_changing_actions.py::test_the_budget_holds_and_nothing_is_refused",)
PARTS = f"{BALANCED}::test_both_parts_grow_with_the_budget"

MUTANTS = (
    Mutant(
        "r1/off-by-one", CONSTANT, "rules/exact.py",
        "return int(units.granted // units.total_cost - 1)", "return int(units.granted // units.total_cost)",
        "R1 asks if n·C ≤ B in place of (n + 1)·C ≤ B: unsafe",
        (f"{RULES}::test_exact_matching_is_r1",), ("ours/exact-spends", "ours/exact-arms", "ours/exact-episodes"),
    ),
    Mutant(
        "r1/one-too-few", CONSTANT, "rules/exact.py",
        "return int(units.granted // units.total_cost - 1)", "return int(units.granted // units.total_cost - 2)",
        "R1 asks if (n + 2)·C ≤ B in place of (n + 1)·C ≤ B",
        (f"{RULES}::test_exact_matching_is_r1",), ("ours/exact-spends", "ours/exact-arms", "ours/exact-episodes"),
    ),
    Mutant(
        "paper/four-for-sixteen", CONSTANT, "rules/paper.py",
        "most = units.granted // (16 * units.total_cost)", "most = units.granted // (4 * units.total_cost)",
        "CBM-UCB asks while n ≤ B/(4C) in place of n ≤ B/(16C) (E1)",
        (f"{RULES}::test_e1_the_count_form_of_the_paper_is_not_its_interval_form",),
        ("constants/arms", "ucb/budget", "ucb/regret", "corrections/e1"),
    ),
    Mutant(
        "matching/exponent", CONSTANT, "rules/matching.py",
        "** (2.0 - 2.0 * rule.beta)", "** (1.0 - rule.beta)",
        "the limit of Matching is B^(1−β) in place of B^(2−2β)",
        (f"{RULES}::test_generic_matching_is_its_interval_form",), ("remarks/rule-of-thumb",),
    ),
    Mutant(
        "matching/row-exponent", CONSTANT, "rules/matching.py",
        "** (rule.beta - 1.0))", "** (0.5 * rule.beta - 1.0))",
        "the bar of Matching is B^(β/2−1) in place of B^(β−1)",
        (f"{RULES}::test_generic_matching_with_features_is_its_bar",), ("remarks/rule-of-thumb",),
    ),
    Mutant(
        "greedy/asks-after-the-fact", "rule", "rules/greedy.py",
        "return bool(units.granted >= UNLIMITED or units.spent + units.cost <= units.granted)",
        "return bool(units.granted >= UNLIMITED or units.spent < units.granted)",
        "Greedy asks as long as anything is left, the price or not",
        (f"{RULES}::test_no_budget_means_no_ask_and_free_asks_are_free",), ("constants/ledger",),
    ),
    Mutant(
        "balanced/kappa-dropped", "rule", "rules/balanced.py",
        "if question.asked < kappa_now(rule, question):", "if kappa_now(rule, question) < 0:",
        "no ask is from the reserve",
        ATTACKS, ("ours/balanced-arms", "ours/balanced-starves-not"),
    ),
    Mutant(
        "balanced/kappa-too-large", CONSTANT, "rules/balanced.py",
        "kappa = cells_reserve(rule, question) // max(question.units.total_cost, 1)\n    if",
        "kappa = 5 * cells_reserve(rule, question) // (2 * max(question.units.total_cost, 1))\n    if",
        "κ is two and a half times what the reserve pays for",
        ATTACKS, ("ours/balanced-arms", "ours/balanced-starves-not"),
    ),
    Mutant(
        "balanced/kappa-dropped-in-episodes", "rule", "rules/balanced.py",
        "    if question.asked < kappa:\n", "    if kappa < 0:\n",
        "in episodes no ask is from the reserve",
        EPISODES,
    ),
    Mutant(
        "balanced/excess-uncounted", "rule", "rules/balanced.py",
        "state[0].excess += cost", "state[0].excess += 0",
        "asks beyond κ are not counted against the free part",
        ATTACKS, ("ours/balanced-arms",),
    ),
    Mutant(
        "balanced/over-uncounted", "rule", "rules/balanced.py",
        "state[0].over += cost if", "state[0].over += 0 if",
        "cells beyond κ are not counted",
        ATTACKS,
    ),
    Mutant(
        "balanced/fraction-dropped", "rule", "rules/balanced.py",
        "- state.excess + int(fraction * state.over))", "- state.excess)",
        "the part of the reserve beyond whole κ lies idle",
        (f"{BALANCED}::test_no_part_of_the_reserve_lies_idle",),
    ),
    Mutant(
        "balanced/reserve-from-zero", CONSTANT, "rules/balanced.py",
        "granted - nothing), 0)", "granted), 0)",
        "B₀ = 0: a reserve that promises nothing is kept all the same",
        (PARTS,), ("ours/balanced-arms", "ours/balanced-oful"),
    ),
    Mutant(
        "balanced/reserve-not-capped", CONSTANT, "rules/balanced.py",
        "max(min(most, granted - nothing), 0)", "max(granted - nothing, 0)",
        "above B₀ all of the budget is reserved, whatever ρ is",
        (PARTS,), ("ours/balanced-arms", "ours/balanced-oful"),
    ),
    Mutant(
        "balanced/b0-without-rho", CONSTANT, "rules/balanced.py",
        "math.ceil(total / rule.reserve) if", "total if",
        "B₀ = C in place of C/ρ",
        ATTACKS, ("ours/balanced-arms",),
    ),
    Mutant(
        "balanced/free-part-unchecked-in-episodes", "rule", "rules/balanced.py",
        "    return free_left(rule, question) >= units.cost and", "    return",
        "in episodes the free part is spent though nothing is left of it",
        EPISODES,
    ),
    Mutant(
        "balanced/visited-limit", "rule", "rules/balanced.py",
        "cost = step.seen_cost + (units.cost if step.visits == 0 else 0)", "cost = units.cost",
        "in episodes one visited cell may have the whole budget",
        (f"{BALANCED}::test_visited_cells_share_the_free_part",),
    ),
    Mutant(
        "balanced/fair-limit", "pacing", "rules/balanced.py",
        "return float(max(1.0, fair, math.sqrt(question.pace.state[0].visits * fair)))", "return math.inf",
        "one context may have the whole free part",
        (f"{BALANCED}::test_one_context_cannot_have_the_whole_free_part",), ("ours/balanced-starves-not",),
    ),
    Mutant(
        "balanced/rows-uncharged", "rule", "linear/round.py",
        "state.reserved += price", "state.reserved += 0",
        "with features the reserve is not charged",
        ROWS, ("ours/balanced-oful",),
    ),
    Mutant(
        "balanced/rows-gain-uncounted", "rule", "linear/round.py",
        "state.gain += state.last_gain", "state.gain += 0.0",
        "with features the potential that the reserve has used up is not counted",
        ROWS, ("ours/balanced-oful",),
    ),
    Mutant(
        "balanced/rows-length-uncounted", "rule", "linear/round.py",
        "state.length += dot(x, x)", "state.length += 0.0",
        "with features the trace of V_m stays at dλ",
        ROWS, ("ours/balanced-oful",),
    ),
    Mutant(
        "balanced/least-asks-halved", CONSTANT, "rules/exact.py",
        "    return high\n", "    return 0.5 * high\n",
        "with features B₀ is half of what it takes for R2 to promise something",
        (f"{BALANCED}::test_the_least_number_of_asks_by_hand",), ("ours/balanced-oful",),
    ),
    Mutant(
        "balanced/horizon-never-nears", "pacing", "rules/balanced.py",
        "max(rule.end - question.round + 1.0, 1.0)", "max(rule.end, 1.0)",
        "the rounds that are left are all rounds, also near the horizon",
        (f"{BALANCED}::test_a_horizon_spreads_what_is_left",),
    ),
    Mutant(
        "pacing/free-part-unchecked", "pacing", "rules/pacing.py",
        "if left < cost:", "if left < -(10**18):",
        "the free part is spent though nothing is left of it",
        ATTACKS, ("ours/balanced-arms",),
    ),
    Mutant(
        "pacing/settled-rounds-asked", "pacing", "rules/pacing.py",
        "if not score > 0.0:", "if score < -math.inf:",
        "rounds in which there is nothing to learn are asked about",
        (f"{BALANCED}::test_which_rounds_the_free_part_pays_for",),
    ),
    Mutant(
        "pacing/worst-rounds", "pacing", "rules/pacing.py",
        "above += scores[i] > score", "above += scores[i] < score",
        "the rounds with the lowest scores are asked about",
        (f"{BALANCED}::test_which_rounds_the_free_part_pays_for",), ("ours/balanced-starves-not",),
    ),
    Mutant(
        "pacing/savings-lie-idle", "pacing", "rules/pacing.py",
        "share = (rate + left / (patience if rounds_left == math.inf else rounds_left)) / cost",
        "share = rate / cost",
        "what was not spent in earlier rounds is never spent",
        (f"{BALANCED}::test_which_rounds_the_free_part_pays_for",),
    ),
    Mutant(
        "pacing/rate-from-zero", "pacing", "rules/pacing.py",
        "rate = (free - state.first) / max(state.seen, 1)", "rate = free / max(state.seen, 1)",
        "what was there from the start counts as coming in",
        (f"{BALANCED}::test_which_rounds_the_free_part_pays_for",),
    ),
    Mutant(
        "shares/not-shared", "rule", "tabular/round.py",
        "left, granted = granted - spent, budget_in_shares(m)", "left, granted = granted - spent, granted",
        "after a change rules see the whole budget, in place of the shares that are left",
        CHANGES,
    ),
    Mutant(
        "shares/sunk", "rule", "tabular/shares.py",
        "m.shares[0].sunk = m.account[0].spent - paid", "m.shares[0].sunk = 0",
        "what was spent on retired cells is shared out once more",
        CHANGES,
    ),
    Mutant(
        "shares/floor", "rule", "tabular/shares.py",
        "if m.before[cell] <= floor:", "if m.before[cell] < floor:",
        "the cells at the floor itself cost nothing on the way up",
        CHANGES,
    ),
)  # fmt: skip
