"""Mutants of the learners that are not the paper's, of answers that cost nothing, and of agents that threads share."""

from __future__ import annotations

from tests.mutants.mutant import Mutant

KLUCB, THOMPSON, TEACHING = "tabular/test_klucb.py", "tabular/test_thompson.py", "test_teaching.py"
FORGETTING, BETTING = "tabular/test_forgetting.py", "tabular/test_betting.py"
ATTACK = f"{FORGETTING}::test_the_budget_holds_and_safe_rules_are_never_refused"

MUTANTS = (
    Mutant(
        "klucb/log-log-dropped", "learner", "tabular/klucb.py",
        "(log + learner.c * math.log(max(log, 1.0)))", "(log + 0.0 * math.log(max(log, 1.0)))",
        "KL-UCB's level is log t, whatever c is",
        (f"{KLUCB}::test_the_index_of_an_agent_by_hand",),
    ),
    Mutant(
        "klucb/one-step", "learner", "tabular/klucb.py",
        "for _ in range(50):", "for _ in range(1):",
        "Newton's method ends after one step: the index is too large",
        (f"{KLUCB}::test_the_index_is_the_largest_mean_within_the_budget",),
    ),
    Mutant(
        "klucb/mirrored", "pacing", "tabular/klucb.py",
        "return 1.0 - largest_mean(1.0 - estimate.average, budget),",
        "return 2.0 * estimate.average - largest_mean(estimate.average, budget),",
        "the interval from below is the mirror image of that from above",
        (f"{KLUCB}::test_a_sure_start_is_not_a_settled_context",),
    ),
    Mutant(
        "thompson/no-prior", "learner", "tabular/thompson.py",
        "drawn = beta(state, learner.a + total,", "drawn = beta(state, 1.0 + total,",
        "the prior has one success, whatever was given",
        (f"{THOMPSON}::test_beliefs_are_beta",),
    ),
    Mutant(
        "thompson/variance", "learner", "tabular/thompson.py",
        "learner.noise / math.sqrt(n + 1.0)", "learner.noise / math.sqrt(n + 2.0)",
        "normal beliefs have one answer more than there were",
        (f"{THOMPSON}::test_with_a_noise_beliefs_are_normal",),
    ),
    Mutant(
        "epsilon/never-roams", "learner", "tabular/epsilon_greedy.py",
        "uniform(random) < learner.epsilon", "uniform(random) < 0.0 * learner.epsilon",
        "ε-greedy never explores",
        (f"{THOMPSON}::test_epsilon_greedy_explores_as_often_as_it_says",),
    ),
    Mutant(
        "lessons/rules-do-not-count-them", "exploring", "tabular/round.py",
        "answers, tries = counts.answered + counts.taught, counts.asked + counts.taught",
        "answers, tries = counts.answered + counts.taught, counts.asked",
        "rules ask about a cell as if nothing had been taught",
        (f"{TEACHING}::test_exact_matching_asks_less_about_what_it_was_taught",),
    ),
    Mutant(
        "lessons/means-of-asks", "exploring", "tabular/round.py",
        "answers, tries = counts.answered + counts.taught, counts", "answers, tries = counts.answered, counts",
        "a lesson does not weigh as an answer",
        (f"{TEACHING}::test_what_was_taught_is_saved_and_weighs_as_an_answer",),
    ),
    Mutant(
        "lessons/wide-as-before", "exploring", "linear/round.py",
        "    take_answer(m, x, reward)\n    if not m.head[0].together:\n        add(m.asked, x, m.y, m.work)\n",
        "    take_answer(m, x, reward)\n",
        "with features the rule's ellipsoid does not know what was taught",
        (f"{TEACHING}::test_features_are_taught_by_rows",),
    ),
    Mutant(
        "lessons/half-a-log", "saving", "teaching.py",
        "lessons = [self._lesson(*row) for row in rows]\n",
        "for row in rows:\n            self._teach_all([self._lesson(*row)])\n        lessons = []\n",
        "the rows before one that does not fit are learnt",
        (f"{TEACHING}::test_a_log_is_a_warm_start_all_or_nothing",),
    ),
    Mutant(
        "lessons/forgotten", "saving", "tabular/family.py",
        'if m.counts["taught"].any() else {}', "if m.counts is None else {}",
        "a saved agent does not remember what it was taught",
        (f"{TEACHING}::test_what_was_taught_is_saved_and_weighs_as_an_answer",),
    ),
    Mutant(
        "forget/costs-never-fade", "ledger", "tabular/forgetting.py",
        "int(purse.costs * weight_after(m, m.clock[0] - purse.since) * MARGIN)", "int(purse.costs * MARGIN)",
        "what was spent is remembered for ever, while counts fade: rules ask for more than is left",
        (ATTACK,),
    ),
    Mutant(
        "forget/late-answers-are-new", "learner", "tabular/forgetting.py",
        "    f, weight = m.faded[cell], weight_after(m, m.clock[0] - since)\n    f.heard",
        "    f, weight = m.faded[cell], 1.0\n    f.heard",
        "an answer weighs as much as one of this round, however late it comes",
        (f"{FORGETTING}::test_an_answer_weighs_the_same_whenever_it_comes",),
    ),
    Mutant(
        "forget/free-part-takes-the-reserve", "rule", "rules/balanced.py",
        "reason_to_spend(question, free, left - reserve, ", "reason_to_spend(question, free, left, ",
        "with a learner that forgets the free part spends what is reserved",
        (f"{FORGETTING}::test_the_free_part_leaves_the_reserve",),
    ),
    Mutant(
        "forget/cells-ahead-ignored", "ledger", "tabular/forgetting.py",
        "m.purse[0].uneven = costs, m.clock[0], 1", "m.purse[0].uneven = costs, m.clock[0], 0",
        "after a change of actions no cell is taken to be ahead of the others",
        (ATTACK,),
    ),
    Mutant(
        "forget/rounds-never-fade", "learner", "tabular/forgetting.py",
        "return int(math.expm1(fading * m.clock[0]) / math.expm1(fading) + 0.5)", "return int(m.clock[0])",
        "the logarithm of the bonus counts all rounds, also those that are forgotten",
        (f"{FORGETTING}::test_sums_by_hand",),
    ),
    Mutant(
        "betting/for-one-time-only", "learner", "tabular/betting.py",
        "(level + 0.5 * learner.scale", "(level + 0.0 * learner.scale",
        "the interval lacks log(n)/2: it does not hold at all times at once",
        (f"{BETTING}::test_the_interval_rests_on_answers_only",),
    ),
    Mutant(
        "betting/pending-asks-narrow-it", "learner", "tabular/betting.py",
        "    answers_only = True", "    answers_only = False",
        "an ask that nobody has answered narrows the interval that rules see",
        (f"{BETTING}::test_the_interval_rests_on_answers_only",),
    ),
    Mutant(
        "sequences/bets-on-this-answer", "learner", "theory/sequences.py",
        "return _before(means, 0.5), bets", "return means, bets",
        "the variance is taken about a mean that has seen the answer",
        ("theory/test_sequences.py::test_empirical_bernstein_term_by_term",),
    ),
    Mutant(
        "prior/worth-nothing", "learner", "tabular/round.py",
        "total += head.weight * head.guess", "total += 0.0",
        "a prior counts as answers of 0",
        (f"{TEACHING}::test_a_prior_counts_as_answers_to_the_learner_but_not_to_rules",),
    ),
    Mutant(
        "fit/propensities-ignored", "learner", "teaching.py",
        "weight = 1.0 / number(chance,", "weight = 1.0 + 0.0 * number(chance,",
        "all rows of a log weigh the same, whatever their propensities are",
        (f"{TEACHING}::test_a_log_whose_choices_depended_on_more_is_weighted_by_its_propensities",),
    ),
    Mutant(
        "threads/decide-unlocked", "ledger", "agent.py",
        "with self._lock:  # as `locked`", "if self._lock:  # as `locked`",
        "two threads may decide at the same time: decisions get the same id",
        ("test_naming.py::test_threads_share_an_agent",), compiled=True,
    ),
)  # fmt: skip
