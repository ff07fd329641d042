"""Mutants of arms: learners, the round, the sprint that skips what is certain, Greedy's past."""

from __future__ import annotations

from tests.mutants.mutant import CONSTANT, Mutant

LEARNERS = "tabular/test_learners.py"
SPRINT = (
    "simulation/test_simulate.py::test_late_budgets_equal_the_plain_loop",
    "simulation/test_simulate.py::test_the_sprint_equals_the_plain_loop",
)
SILENT = "properties/test_exploring.py::test_an_arm_that_nobody_answers_about_is_left_alone[UCB1-first-ExactMatching()]"

MUTANTS = (
    Mutant(
        "ucb1/bonus-halved", CONSTANT, "tabular/ucb1.py",
        "return learner.scale * math.sqrt(1.5 *", "return 0.5 * learner.scale * math.sqrt(1.5 *",
        "UCB1's bonus is half of sqrt(3 log(Mt)/(2n))",
        (f"{LEARNERS}::test_ucb1_is_the_papers_formula",), ("constants/arms", "ucb/budget", "ucb/regret"),
    ),
    Mutant(
        "ucb1/log-without-m", CONSTANT, "tabular/ucb1.py",
        "math.log(max(learner.contexts * learner.arms * rounds, 2))", "math.log(max(rounds, 2))",
        "UCB1's logarithm is log t in place of log(Mt)",
        (f"{LEARNERS}::test_ucb1_is_the_papers_formula",), ("constants/arms", "ucb/budget", "ucb/regret"),
    ),
    Mutant(
        "ucb1/interval-doubled", CONSTANT, "tabular/round.py",
        "math.sqrt(6.0 * math.log(max(cells * rounds, 2)) / max(asked, 1))",
        "math.sqrt(24.0 * math.log(max(cells * rounds, 2)) / max(asked, 1))",
        "the interval that a rule sees is twice 2b",
        ("properties/test_theory.py::test_r1_refuses_only_narrow_intervals",),
        ("constants/arms", "corrections/e3", "ucb/regret"),
    ),
    Mutant(
        "moss/without-a", CONSTANT, "tabular/moss.py",
        "math.log(rounds / learner.arms)", "math.log(rounds)",
        "MOSS's logarithm is log(t/n) in place of log(t/(An))",
        (f"{LEARNERS}::test_moss_agrees_with_smpybandits",), ("greedy/moss",),
    ),
    Mutant(
        "moss/offset-dropped", CONSTANT, "tabular/moss.py",
        "math.sqrt(max(0.0, level - estimate.offset))", "math.sqrt(max(0.0, level))",
        "MOSS's logarithm does not fall with n",
        (f"{LEARNERS}::test_moss_agrees_with_smpybandits",), ("greedy/moss",),
    ),
    Mutant(
        "moss/one-clock", "learner", "tabular/moss.py",
        "per_context = True", "per_context = False",
        "MOSS's clock counts the rounds of all contexts",
        (f"{LEARNERS}::test_moss_is_one_bandit_per_context",),
    ),
    Mutant(
        "arms/mean-of-asks", CONSTANT, "tabular/round.py",
        "estimate.average = total / answers", "estimate.average = total / max(n, 1)",
        "an ask that nobody has answered counts as an answer of 0 (E10)",
        ("properties/test_exploring.py::test_pending_asks_narrow_what_is_explored_but_not_what_is_known",),
        ("constants/arms", "corrections/e10"),
    ),
    Mutant(
        "arms/ties-lowest", "learner", "tabular/round.py",
        "if tied == 1 or not m.head[0].random_ties:", "if tied >= 1:",
        "ties go to the lowest arm, whatever was asked for",
        (f"{LEARNERS}::test_ties_first_and_random",),
    ),
    Mutant(
        "arms/asks-narrow-late", "exploring", "tabular/round.py",
        "if ending == ANSWERABLE and m.head[0].exploits:", "if ending == DENIED:",
        "exploration shrinks with answers only, not with asks",
        ("properties/test_exploring.py::test_pending_asks_narrow_what_is_explored_but_not_what_is_known",),
    ),
    Mutant(
        "arms/unasked-explored", "exploring", "tabular/round.py",
        "if ending != ANSWERABLE and head.exploits and names:", "if ending == 99 and head.exploits and names:",
        "where the rule does not ask, the optimistic arm is played all the same",
        ("tabular/test_learners.py::test_estimates_by_hand",), ("ours/explore-asked",),
    ),
    Mutant(
        "arms/silent-arm-played", "exploring", "tabular/round.py",
        "counts.taught == 0 and counts.asked > 0) or counts.cost < 0:\n        return -math.inf",
        "counts.taught == 0 and counts.asked > 0) or counts.cost < 0:\n        return math.inf",
        "an arm whose asks nobody answers comes first, not last",
        (SILENT,),
    ),
    Mutant(
        "arms/no-half-answer", "exploring", "tabular/round.py",
        "+ 0.5) / (answers + weight + 1.0)",
        ") / max(answers + weight, 1.0)",
        "the best estimate is the mean without the half: one lucky answer beats many good ones",
        ("tabular/test_learners.py::test_estimates_by_hand",), ("ours/explore-asked",),
    ),
    Mutant(
        "arms/withdrawn-ask-stays", "ledger", "tabular/round.py",
        "m.counts[cell].asked -= 1", "m.counts[cell].asked -= 0",
        "an ask that is taken back stays counted",
        ("test_withdraw.py::test_taking_back_undoes_an_ask_about_an_arm",),
    ),
    Mutant(
        "arms/score-without-visits", "pacing", "tabular/round.py",
        "return float(overlap * visits_of(m, u) / (n * n))", "return float(overlap / (n * n))",
        "a context that comes often is worth no more asks than a rare one",
        ("tabular/test_learners.py::test_scores_by_hand",), ("ours/balanced-arms", "ours/balanced-starves-not"),
    ),
    Mutant(
        "arms/score-of-own-bound", "pacing", "tabular/round.py",
        "rival - interval(m, m.estimates[first + a], level)[0]", "rival - m.estimates[first + a].average",
        "the score compares the runner-up with the mean of the arm, not with its lower bound",
        ("tabular/test_learners.py::test_scores_by_hand",),
    ),
    Mutant(
        "greedy/keeps-the-latest", CONSTANT, "rules/greedy.py",
        "if uniform(random) * reservoir.seen[0] < 1.0:", "if uniform(random) < 1.0:",
        "the l-th policy takes its slot for certain, not with probability 1/l: the latest policy acts (Algorithm 1)",
        ("episodic/test_episodic.py::test_the_reservoir_is_uniform",), ("greedy/past-policies", "greedy/moss"),
    ),
    Mutant(
        "greedy/one-slot", "rule", "rules/greedy.py",
        "return int(uniform(random) * slots) if slots > 1 else 0", "return 0",
        "of several past policies the first slot's always acts",
        ("properties/test_theory.py::test_greedy_uses_each_slot_alike",),
    ),
    Mutant(
        "greedy/lives-unasked", CONSTANT, "tabular/round.py",
        "tick(m, u, -1)\n            return past_action(m, u)", "return past_action(m, u)",
        "Greedy's learner lives through rounds without an ask too (Algorithm 1, line 11)",
        ("test_agent.py::test_the_learner_of_greedy_lives_through_asked_rounds_only",),
        ("greedy/past-policies", "greedy/moss"),
    ),
    Mutant(
        "greedy/arms-play-the-latest", CONSTANT, "tabular/round.py",
        "return choose(m, policy[: ESTIMATE_WORDS * cells].view(ESTIMATE), first, levels[u])",
        "return choose(m, m.estimates, first, level_at(m, max(age(m, u), 1)))",
        "with arms the policy of now acts in place of a past one",
        ("properties/test_theory.py::test_greedy_uses_each_slot_alike",), ("greedy/past-policies", "greedy/moss"),
    ),
    Mutant(
        "sprint/ucb1-ceiling-low", "simulation", "tabular/ucb1.py",
        "math.sqrt(level * level + 1.5 * growth)", "math.sqrt(level * level + 0.15 * growth)",
        "the sprint takes the level to grow a tenth as fast",
        SPRINT, compiled=True,
    ),
    Mutant(
        "sprint/ucb1-earned-high", "simulation", "tabular/ucb1.py",
        "return level * math.sqrt(answers)", "return 1.2 * level * math.sqrt(answers)",
        "the sprint takes the bonus to last longer than it does",
        SPRINT, compiled=True,
    ),
    Mutant(
        "sprint/moss-ceiling-low", "simulation", "tabular/moss.py",
        "float(0.5 * (1.0 + learner.alpha) * growth)", "float(0.05 * (1.0 + learner.alpha) * growth)",
        "the sprint takes MOSS's level to grow a tenth as fast",
        SPRINT, compiled=True,
    ),
    Mutant(
        "sprint/moss-earned-high", "simulation", "tabular/moss.py",
        "offset(learner, answers + ahead)", "offset(learner, max(answers // 2, 1))",
        "the sprint takes MOSS's bonus of fewer answers",
        SPRINT, compiled=True,
    ),
    Mutant(
        "sprint/lead-survives-its-end", "simulation", "tabular/skip.py",
        "if index_of(m.own, head.learner, m.learner, m.estimates[cell], lead.floor) <= lead.rival:",
        "if index_of(m.own, head.learner, m.learner, m.estimates[cell], lead.floor) <= lead.rival - 0.1:",
        "a leader plays on after another arm may have overtaken it",
        SPRINT, compiled=True,
    ),
    Mutant(
        "sprint/change-missed", "simulation", "tabular/skip.py",
        "return high - i\n", "return min(high - i + 1, stop - i)\n",
        "a stretch without asks lasts a round longer than the budget has it",
        SPRINT, compiled=True,
    ),
)  # fmt: skip
