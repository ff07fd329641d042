"""Mutants of episodes: the bonuses of UCBVI and ULCVI, value iteration, Greedy and the paper's rule there."""

from __future__ import annotations

from tests.mutants.mutant import CONSTANT, Mutant

EPISODES = "episodic/test_episodic.py"
PLANNER = f"{EPISODES}::test_the_planner_is_the_papers"
UNCUT = f"{EPISODES}::test_the_planner_is_the_papers_where_nothing_is_cut_off"
FOR_UCBVI = (f"{PLANNER}[3-2-4-3-0.02-UCBVI]", f"{UNCUT}[3-2-3-UCBVI-0.01]")
FOR_ULCVI = (f"{PLANNER}[3-2-4-3-0.02-ULCVI]", f"{UNCUT}[3-2-3-ULCVI-2e-05]")

MUTANTS = (
    Mutant(
        "ucbvi/bp-without-h", CONSTANT, "episodic/ucbvi.py",
        "return learner.horizon * math.sqrt(2.0 / n), 5.0 *", "return math.sqrt(2.0 / n), 5.0 *",
        "b^p = sqrt(2L/n) + … in place of sqrt(2H²L/n) + …",
        FOR_UCBVI, ("constants/ucbvi", "ucbvi/regret", "corrections/e5"),
    ),
    Mutant(
        "ucbvi/bp-linear-without-h", CONSTANT, "episodic/ucbvi.py",
        "5.0 * learner.horizon / n\n", "5.0 / n\n",
        "b^p = … + 5L/n in place of 5HL/n",
        FOR_UCBVI, ("constants/ucbvi", "ucbvi/regret", "corrections/e5"),
    ),
    Mutant(
        "ucbvi/log-constant", CONSTANT, "episodic/ucbvi.py",
        "return 12.0 * self.states**2 * self.actions", "return 12.0 * self.actions",
        "L = log(12 AH t²(t+1)/δ), without S²",
        FOR_UCBVI, ("constants/ucbvi", "ucbvi/regret"),
    ),
    Mutant(
        "ulcvi/log-constant", CONSTANT, "episodic/ulcvi.py",
        "return 16.0 * self.states**2 * self.actions * self.horizon / self.delta",
        "return 16.0 * self.states**2 * self.actions * self.horizon",
        "L = log(16 S²AH t²(t+1)), without 1/δ",
        FOR_ULCVI, ("constants/ulcvi", "ulcvi/regret"),
    ),
    Mutant(
        "ulcvi/bp-halved", CONSTANT, "episodic/ulcvi.py",
        "return 0.0, 44.0 * learner.horizon", "return 0.0, 22.0 * learner.horizon",
        "b^p has 22H²S in place of 44H²S",
        FOR_ULCVI, ("constants/ulcvi", "ulcvi/regret"),
    ),
    Mutant(
        "ulcvi/lower-is-upper", CONSTANT, "episodic/value_iteration.py",
        "share * expected(model, row, lower)", "share * expected(model, row, upper)",
        "the lower bound looks ahead to the upper one",
        FOR_ULCVI, ("constants/ulcvi", "ulcvi/regret"),
    ),
    Mutant(
        "ulcvi/variance-is-h2", CONSTANT, "episodic/value_iteration.py",
        "variance = share * scattered(model, row, upper, ahead)",
        "variance = float(model.sizes[0].horizon * model.sizes[0].horizon)",
        "H² stands for Var(V): Hoeffding in place of Bernstein",
        FOR_ULCVI, ("constants/ulcvi", "ulcvi/regret"),
    ),
    Mutant(
        "ulcvi/gap-dropped", CONSTANT, "episodic/value_iteration.py",
        "+ (ahead - behind) / (16.0 * model.sizes[0].horizon)", "+ 0.0 * (ahead - behind)",
        "b^p has no E[V_up − V_low]/(16H)",
        FOR_ULCVI, ("constants/ulcvi", "ulcvi/regret"),
    ),
    Mutant(
        "ulcvi/lower-with-bonus", CONSTANT, "episodic/value_iteration.py",
        "(mean - bonus) + behind", "(mean + bonus) + behind",
        "the lower bound adds the bonuses",
        FOR_ULCVI, ("constants/ulcvi", "ulcvi/regret"),
    ),
    Mutant(
        "episodes/log-term-of-t", CONSTANT, "episodic/learner.py",
        "math.log(constant * t * t * (t + 1.0))", "math.log(constant * (t + 1.0))",
        "L has t + 1 in place of t²(t + 1)",
        FOR_UCBVI, ("constants/ucbvi", "ucbvi/regret", "corrections/e5"),
    ),
    Mutant(
        "episodes/br-root-halved", CONSTANT, "episodic/learner.py",
        "return math.sqrt(2.0 * variance / max(n, 1))", "return 0.5 * math.sqrt(2.0 * variance / max(n, 1))",
        "b^r has half of its root",
        FOR_UCBVI, ("constants/ucbvi", "ucbvi/regret", "corrections/e5"),
    ),
    Mutant(
        "episodes/br-linear-dropped", CONSTANT, "episodic/learner.py",
        "return 5.0 / max(n, 1)", "return 0.0 / max(n, 1)",
        "b^r has no 5L/n",
        FOR_UCBVI, ("constants/ucbvi", "ucbvi/regret", "corrections/e5"),
    ),
    Mutant(
        "episodes/variance-biased", CONSTANT, "rules/intervals.py",
        "return squares / (n - 1) if n >= 2 else 0.0", "return squares / n if n >= 2 else 0.0",
        "the variance of the answers is the biased one",
        FOR_UCBVI, ("constants/ucbvi", "ucbvi/regret"),
    ),
    Mutant(
        "episodes/squares-once", "learner", "episodic/memory.py",
        "m.squares[U(cell)] += away * (reward - row.average)", "m.squares[U(cell)] += away * away",
        "deviations are taken from the mean before the answer",
        FOR_UCBVI,
    ),
    Mutant(
        "episodes/interval-halved", CONSTANT, "rules/intervals.py",
        "log_term / n) + 10.0 * log_term / n", "log_term / n) + 5.0 * log_term / n",
        "CI^R has 5L/n in place of 10L/n",
        (f"{EPISODES}::test_e6_the_threshold_is_the_algorithms",),
        ("constants/ucbvi", "corrections/e6", "ucbvi/budget"),
    ),
    Mutant(
        "episodes/cut-of-the-paper", CONSTANT, "episodic/value_iteration.py",
        "high = min(high, float(horizon - h))", "high = min(high, float(horizon - h - 1))",
        "V_h is cut off at H − h in place of H − h + 1 (E5)",
        FOR_UCBVI, ("constants/ucbvi", "corrections/e5"),
    ),
    Mutant(
        "episodes/uncut", CONSTANT, "episodic/value_iteration.py",
        "high = min(high, float(horizon - h))", "high = min(high, float(horizon))",
        "V_h is cut off at H everywhere",
        FOR_UCBVI, ("constants/ucbvi", "corrections/e5", "ucbvi/regret"),
    ),
    Mutant(
        "episodes/memo-without-drift", "learner", "episodic/value_iteration.py",
        "model.rows[U(row + a)].ahead + (drift - model.rows[U(row + a)].since)", "model.rows[U(row + a)].ahead",
        "an action is passed over though V may have risen since its last look",
        (f"{EPISODES}::test_passing_over_actions_is_exact_in_long_runs",),
        compiled=True,
    ),
    Mutant(
        "episodes/unknown-looks-bad", "learner", "episodic/learner.py",
        "return max(float(self.scale), 1.0 / (5.0 * math.log(2.0 * self.log_constant)))", "return float(self.scale)",
        "with a small scale, what is not known does not look promising",
        (f"{EPISODES}::test_the_unknown_stays_promising_at_any_scale",), compiled=True,
    ),
    Mutant(
        "episodes/greedy-plays-the-latest", CONSTANT, "episodic/round.py",
        "head.acting = slot\n", "head.acting = OWN\n",
        "in episodes the policy of now acts in place of a past one",
        (f"{EPISODES}::test_greedy_acts_with_a_past_policy",), ("greedy/past-policies", "greedy/ucbvi"),
    ),
    Mutant(
        "episodes/greedy-by-halves", "rule", "episodic/round.py",
        "if head.slots == 0 or can_pay(m.account, head.dearest):", "if head.slots == 0 or can_pay(m.account, 1):",
        "Greedy begins episodes that it cannot pay for to the end",
        (f"{EPISODES}::test_greedy_asks_whole_episodes_or_nothing",), ("greedy/ucbvi",),
    ),
    Mutant(
        "episodes/paper-bar", CONSTANT, "rules/paper.py",
        "return 6.0 * math.sqrt(rewarding / budget)", "return 3.0 * math.sqrt(rewarding / budget)",
        "CBM-UCBVI's bar has 3 sqrt(|L_R|/B) in place of 6 sqrt(|L_R|/B)",
        (f"{EPISODES}::test_e6_the_threshold_is_the_algorithms",),
        ("constants/ucbvi", "corrections/e6", "ucbvi/budget"),
    ),
    Mutant(
        "episodes/paper-bar-linear", CONSTANT, "rules/paper.py",
        "granted: int, each: float = 4.0) -> float:", "granted: int, each: float = 1.0) -> float:",
        "CBM-UCBVI's bar has SAH(…)/B in place of 4SAH(…)/B",
        (f"{EPISODES}::test_e6_the_threshold_is_the_algorithms",),
        ("constants/ucbvi", "corrections/e6", "ucbvi/budget"),
    ),
    Mutant(
        "episodes/paper-all-rewarding", CONSTANT, "rules/paper.py",
        "paper_episode_bar(question.step.rewarding, question.cells,",
        "paper_episode_bar(question.cells, question.cells,",
        "CBM-UCBVI ignores |L_R|",
        (f"{EPISODES}::test_e7_without_the_ledger_paper_matching_overspends",),
        ("constants/ucbvi", "corrections/e6", "episodic/sparsity"),
    ),
    Mutant(
        "episodes/regret-of-the-last-policy", "simulation", "episodic/loop.py",
        "if changed >= 0:", "if changed > 0:",
        "a policy that changes in its first step only is not evaluated anew",
        (f"{EPISODES}::test_regret_is_what_policies_lose", f"{EPISODES}::test_regret_of_the_first_step"),
    ),
)  # fmt: skip
