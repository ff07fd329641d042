"""Mutants of what surrounds the learners: the ledger, budgets, contexts, simulations, saved agents."""

from __future__ import annotations

from tests.mutants.mutant import CONSTANT, Mutant

LEDGER = "test_ledger.py"
BUDGETS = "test_budgets.py"
VALUES = f"{BUDGETS}::test_values_of_the_schedules"
SIMULATE = "simulation/test_simulate.py"
SAVING = "test_saving.py"

MUTANTS = (
    Mutant(
        "ledger/charged-after-the-fact", "ledger", "ledger.py",
        "if not can_pay(account, cost):", "if not can_pay(account, 1 if cost > 0 else 0):",
        "an ask is paid as long as anything is left",
        (f"{LEDGER}::test_never_overspends_in_exact_arithmetic", f"{LEDGER}::test_tenths_add_up_exactly"),
        ("constants/ledger", "ucbvi/budget", "oful/budget"),
    ),
    Mutant(
        "ledger/one-unit-generous", "ledger", "ledger.py",
        "account[0].spent + cost <= account[0].granted)", "account[0].spent + cost <= account[0].granted + 1)",
        "a millionth more than the budget may be spent",
        (f"{LEDGER}::test_free_asks_need_no_budget",), ("constants/ledger",),
    ),
    Mutant(
        "ledger/costs-rounded-down", "ledger", "ledger.py",
        "return np.ceil(values * UNIT * (1.0 - ROUNDING)).astype(np.int64)",
        "return np.floor(values * UNIT * (1.0 + ROUNDING)).astype(np.int64)",
        "costs are rounded down to millionths",
        (f"{LEDGER}::test_a_cost_just_above_one_is_rounded_up",),
    ),
    Mutant(
        "ledger/budgets-rounded-up", "ledger", "ledger.py",
        "scaled = np.floor(np.asarray(amounts, dtype=np.float64) * UNIT * (1.0 + ROUNDING))",
        "scaled = np.ceil(np.asarray(amounts, dtype=np.float64) * UNIT * (1.0 - ROUNDING))",
        "budgets are rounded up to millionths",
        (f"{LEDGER}::test_a_budget_just_below_one_is_rounded_down",),
    ),
    Mutant(
        "ledger/no-refund", "ledger", "ledger.py",
        "account[0].spent -= cost", "account[0].spent -= 0",
        "an ask that is taken back is not refunded",
        ("test_withdraw.py::test_taking_back_undoes_an_ask_about_an_arm",),
    ),
    Mutant(
        "ledger/shrinks", "ledger", "ledger.py",
        "if units < self.granted_units:", "if units < 0:",
        "a budget may shrink",
        (f"{LEDGER}::test_a_budget_never_shrinks",),
    ),
    Mutant(
        "ledger/wraps-around", "ledger", "ledger.py",
        "account[0].spent + times * cost if times <= room else UNLIMITED", "account[0].spent + times * cost",
        "without a limit the sum of costs goes beyond 64 bits",
        (f"{LEDGER}::test_infinite_budget", f"{SIMULATE}::test_huge_budgets_never_wrap_around"),
    ),
    Mutant(
        "ledger/refusals-uncounted", "ledger", "ledger.py",
        "account[0].refused += 1", "account[0].refused += 0",
        "refusals are not counted",
        (f"{LEDGER}::test_tenths_add_up_exactly",), ("constants/ledger", "corrections/e2"),
    ),
    Mutant(
        "budgets/linear-a-round-late", "budgets and contexts", "budgets.py",
        "return a * t\n", "return a * (t - 1.0)\n",
        "Linear(ε) grants ε(t − 1)",
        (VALUES,),
    ),
    Mutant(
        "budgets/polynomial-without-scale", "budgets and contexts", "budgets.py",
        "return a * float(t**b)", "return float(t**b)",
        "Polynomial ignores its scale",
        (VALUES,),
    ),
    Mutant(
        "budgets/late-a-round-late", "budgets and contexts", "budgets.py",
        "return a if t >= b else 0.0", "return a if t > b else 0.0",
        "Late begins a round after its start",
        (VALUES,),
    ),
    Mutant(
        "budgets/periodic-a-round-late", "budgets and contexts", "budgets.py",
        "return a * (1.0 + math.floor(t / b))", "return a * (1.0 + math.floor((t - 1.0) / b))",
        "Periodic is replenished a round late",
        (VALUES,),
    ),
    Mutant(
        "budgets/sequence-a-round-early", "budgets and contexts", "budgets.py",
        "self.units[np.minimum(np.arange(first - 1, first - 1 + count), self.units.size - 1)]",
        "self.units[np.minimum(np.arange(first, first + count), self.units.size - 1)]",
        "the tape of a Sequence is a round ahead of it",
        (f"{BUDGETS}::test_tape_does_not_depend_on_blocks",),
    ),
    Mutant(
        "budgets/bernoulli-opposite", "budgets and contexts", "budgets.py",
        "lambda contexts, count: random.random(count) < self.p",
        "lambda contexts, count: random.random(count) > self.p",
        "Bernoulli(p) grows with probability 1 − p",
        (f"{BUDGETS}::test_bernoulli_grows_at_its_rate",),
    ),
    Mutant(
        "budgets/growing-forgets", "budgets and contexts", "budgets.py",
        "times = self.times + np.cumsum(", "times = np.cumsum(",
        "a budget that grows at random begins anew with every block of rounds",
        (f"{BUDGETS}::test_tape_does_not_depend_on_blocks",),
    ),
    Mutant(
        "budgets/when-another-context", "budgets and contexts", "budgets.py",
        "np.broadcast_to(contexts == self.context, (count,))", "np.broadcast_to(contexts != self.context, (count,))",
        "WhenContext grows in all contexts but its own",
        (f"{BUDGETS}::test_when_context_counts_its_context",),
    ),
    Mutant(
        "budgets/tape-rounded-up", "budgets and contexts", "budgets.py",
        "return int(scaled) if scaled < UNLIMITED else UNLIMITED",
        "return int(scaled) + 1 if scaled < UNLIMITED else UNLIMITED",
        "in simulations every B(t) is a millionth too large",
        (f"{BUDGETS}::test_tape_does_not_depend_on_blocks",),
    ),
    Mutant(
        "contexts/swapped", "budgets and contexts", "contexts.py",
        "np.where(grew, self.grows, self.still)", "np.where(grew, self.still, self.grows)",
        "WhenBudgetGrows gives its contexts the other way round",
        ("problems/test_problems.py::test_contexts",), ("greedy/adversarial-contexts",),
    ),
    Mutant(
        "contexts/probabilities-shifted", "budgets and contexts", "contexts.py",
        "edges = np.cumsum(self.probabilities)[:-1]", "edges = np.cumsum(self.probabilities)[1:]",
        "every context gets the probability of the one before it as well",
        ("problems/test_problems.py::test_contexts",),
    ),
    Mutant(
        "contexts/given-from-the-start", "budgets and contexts", "contexts.py",
        "np.arange(first - 1, first - 1 + count) % self.values.size", "np.arange(count) % self.values.size",
        "given contexts begin anew with every block of rounds",
        ("problems/test_problems.py::test_contexts",),
    ),
    Mutant(
        "simulate/one-seed", "simulation", "simulation/simulate.py",
        "seeds = seed_sequence(seed).spawn(runs)",
        "seeds = [np.random.SeedSequence(seed_sequence(seed).entropy) for _ in range(runs)]",
        "all runs have the same seed",
        (f"{SIMULATE}::test_results_depend_on_the_seed_alone",),
    ),
    Mutant(
        "simulate/spent-for-budget", "simulation", "simulation/record.py",
        "record.budget[mark] = account[0].granted", "record.budget[mark] = account[0].spent",
        "what was spent is written down as the budget",
        (f"{SIMULATE}::test_the_record_is_of_its_rounds",),
    ),
    Mutant(
        "simulate/logarithmic-from-two", "simulation", "simulation/simulate.py",
        "first = 1 if count > 1 else rounds", "first = 2 if count > 1 else rounds",
        "checkpoints begin with round 2",
        (f"{SIMULATE}::test_checkpoints",),
    ),
    Mutant(
        "simulate/budget-of-the-block-before", "simulation", "simulation/tapes.py",
        "self.granted = int(budget[-1])", "self.granted = int(budget[0])",
        "at the start of a block the budget seems to have grown",
        (f"{SIMULATE}::test_long_tapes_are_read_in_blocks",),
    ),
    Mutant(
        "simulate/answers-anew", "simulation", "simulation/simulator.py",
        "asked[self.cell(context, decision.action)] += 1", "asked[self.cell(context, decision.action)] += 0",
        "on an Agent every answer of a cell is its first",
        (f"{SIMULATE}::test_an_adaptive_budget_equals_its_tape",),
    ),
    Mutant(
        "random/key-ignored", "simulation", "randomness.py",
        "return mix(key + np.uint64(k + 1) * GAMMA)", "return mix(np.uint64(k + 1) * GAMMA)",
        "all cells of all runs get the same answers",
        ("test_randomness.py::test_stream_and_key_agree", "test_randomness.py::test_cells_and_runs_are_independent"),
        ("ucb/rate",),
    ),
    Mutant(
        "random/coin-biased", "simulation", "problems/rewards.py",
        "math.ceil(center * 9007199254740992.0)", "math.ceil(center * center * 9007199254740992.0)",
        "a Bernoulli arm of mean m answers 1 with probability m²",
        ("test_randomness.py::test_bernoulli",),
    ),
    Mutant(
        "hard/gap-tiny", CONSTANT, "problems/hard_instances.py",
        "SMALL, LARGE = 1 / 35, 1 / 5", "SMALL, LARGE = 1 / 350, 1 / 5",
        "the hidden arm of the lower bounds is better by a tenth of what the proof has",
        ("problems/test_hard_instances.py::test_hard_arms",), ("lower/unit-costs",),
    ),
    Mutant(
        "saving/clock-left-out", "saving", "tabular/family.py",
        'fill(m.clock, parts["clock"])', "pass",
        "a saved agent for arms begins anew with its clock",
        (f"{SAVING}::test_resumes_with_identical_decisions",),
    ),
    Mutant(
        "saving/past-left-out", "saving", "tabular/family.py",
        'fill_rows(policies[:, cells:], parts["past_level"], -1)', "pass",
        "a saved Greedy forgets the levels of its past policies",
        (f"{SAVING}::test_resumes_with_identical_decisions",),
    ),
    Mutant(
        "saving/sample-left-out", "saving", "linear/family.py",
        'fill(m.sample, parts["sample"])', "pass",
        "a saved agent for features forgets the rows of the last rounds",
        ("linear/test_linear.py::test_saved_with_late_answers_it_resumes",),
    ),
    Mutant(
        "saving/open-cells-left-out", "saving", "episodic/family.py",
        'fill(m.open, parts["open"])', "pass",
        "a saved agent for episodes forgets where the rule would ask",
        ("episodic/test_episodic.py::test_a_saved_agent_resumes_identically",),
    ),
    Mutant(
        "saving/checksum-unchecked", "saving", "saving.py",
        'if plain.pop("checksum", None) != _checksum(plain):', 'if plain.pop("checksum", None) is None:',
        "the checksum of a saved agent is not compared",
        (f"{SAVING}::test_every_changed_character_is_refused_or_means_the_same",),
    ),
    Mutant(
        "saving/old-rules-explore-less", "saving", "saving.py",
        'if body["version"] < 3 and', 'if body["version"] < 2 and',
        'agents of version 0.1.0 go on with explore="asked"',
        ("frozen/test_frozen.py::test_agents_saved_by_0_1_0_go_on_as_they_would_have",),
    ),
)  # fmt: skip
