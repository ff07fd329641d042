"""Mutants of the theorems as functions: upper bounds, lower bounds, budget profiles."""

from __future__ import annotations

from tests.mutants.mutant import CONSTANT, Mutant

THEORY = "theory/test_theory.py"
HAND = f"{THEORY}::test_theorem_2_by_hand"
LOWER = f"{THEORY}::test_lower_bounds_by_hand"
LEMMAS = "theory/test_lemmas.py"
PROFILES = f"{THEORY}::test_profiles_against_the_direct_sum"

MUTANTS = (
    Mutant(
        "upper/theorem-1-exponent", CONSTANT, "theory/upper.py",
        "np.minimum(a / usable ** (1.0 - b) + c / usable, most)", "np.minimum(a / usable + c / usable, most)",
        "Theorem 1 has α/B in place of α/B^(1−β)",
        (f"{THEORY}::test_theorem_1_by_hand",), ("greedy/any-base", "greedy/moss"),
    ),
    Mutant(
        "upper/theorem-1-own-part", CONSTANT, "theory/upper.py",
        "a * _horizons(B) ** b + c + np.cumsum(terms", "c + np.cumsum(terms",
        "Theorem 1 has no αT^β",
        (f"{THEORY}::test_theorem_1_by_hand",), ("greedy/any-base", "greedy/moss"),
    ),
    Mutant(
        "upper/theorem-2-sum", CONSTANT, "theory/upper.py",
        "shape = 4.0 * np.sqrt(cost / B)", "shape = 1.0 * np.sqrt(cost / B)",
        "Theorem 2 has sqrt(6 log(MT)C/B) in its sum, without the 4",
        (HAND,), ("ucb/regret", "ucb/rate"),
    ),
    Mutant(
        "upper/theorem-2-asked", CONSTANT, "theory/upper.py",
        "np.sqrt(24.0 * cells * T * logarithm)", "np.sqrt(6.0 * cells * T * logarithm)",
        "Theorem 2 has sqrt(6MT log(MT)) in place of sqrt(24MT log(MT))",
        (HAND,), ("ucb/regret",),
    ),
    Mutant(
        "upper/r1-whole-asks", CONSTANT, "theory/upper.py",
        "np.maximum(np.floor(budget / cost), 1.0)", "np.maximum(4.0 * np.floor(budget / cost), 1.0)",
        "the bound of R1 has 4⌊B/C⌋ in place of ⌊B/C⌋",
        (f"{THEORY}::test_r1_by_hand",), ("ours/exact-arms",),
    ),
    Mutant(
        "upper/asked-without-1-over-f", CONSTANT, "theory/upper.py",
        "factor + 1.0 / factor", "factor + 0.0 / factor",
        'with explore="asked" the bound has f in place of f + 1/f',
        (f"{THEORY}::test_what_exploring_less_costs_is_of_lower_order", f"{THEORY}::test_r3_by_hand"),
        ("ours/explore-asked", "ours/balanced-arms"),
    ),
    Mutant(
        "upper/r2-whole-asks", CONSTANT, "theory/upper.py",
        "b = np.floor(finite / dearest) + 1.0", "b = np.floor(finite / dearest) + 2.0",
        "the bound of R2 takes b = ⌊B⌋ + 2",
        (f"{THEORY}::test_theorem_3_and_r2_by_hand",), ("ours/exact-linear", "ours/oful-costs"),
    ),
    Mutant(
        "upper/theorem-3-cap", CONSTANT, "theory/upper.py",
        "sums = _capped_sum(2.0 * radius * spread, 1.0 / np.sqrt(B), 2.0)",
        "sums = _capped_sum(2.0 * radius * spread, 1.0 / np.sqrt(B), 1.0)",
        "with features a round may lose 1, not 2",
        (f"{THEORY}::test_theorem_3_and_r2_by_hand",), ("oful/regret", "oful/rate"),
    ),
    Mutant(
        "upper/spread-without-d", CONSTANT, "theory/upper.py",
        "np.sqrt(2.0 * d * np.log1p(T * L**2 / (d * lam)))", "np.sqrt(2.0 * np.log1p(T * L**2 / (d * lam)))",
        "v_T has no d under its root",
        (f"{THEORY}::test_theorem_3_and_r2_by_hand",), ("oful/budget", "oful/regret", "ours/exact-linear"),
    ),
    Mutant(
        "upper/radius-without-delta", CONSTANT, "theory/upper.py",
        'np.log((1.0 + T * L**2 / lam) / probability(delta, "delta"))', "np.log((1.0 + T * L**2 / lam))",
        "l_T has no 1/δ in its logarithm",
        (f"{THEORY}::test_theorem_3_and_r2_by_hand",), ("oful/budget", "oful/regret", "ours/exact-linear"),
    ),
    Mutant(
        "upper/reserve-from-zero", CONSTANT, "theory/upper.py",
        "np.minimum(share * finite, np.maximum(finite - nothing, 0.0))", "share * finite",
        "the bounds of R3 have M(B) = ρB from the first unit on",
        (f"{THEORY}::test_r3_is_r1_or_r2_with_less_budget",), ("ours/balanced-arms", "ours/balanced-oful"),
    ),
    Mutant(
        "upper/theorem-4-constant", CONSTANT, "theory/upper.py",
        "np.asarray(36.0 * L * np.sqrt(S * A * H**4 * T)", "np.asarray(3.6 * L * np.sqrt(S * A * H**4 * T)",
        "Theorem 4 has 3.6 in place of 36",
        (f"{THEORY}::test_theorems_4_and_5_by_hand",), ("ucbvi/regret", "episodic/one-query-per-episode"),
    ),
    Mutant(
        "upper/theorem-4-lower-order", CONSTANT, "theory/upper.py",
        "np.sqrt(S * A * H**4 * T) + 306.0 * H**3", "np.sqrt(S * A * H**4 * T) + 0.0 * H**3",
        "Theorem 4 has no 306 H³S²A L²",
        (f"{THEORY}::test_theorems_4_and_5_by_hand",), ("ucbvi/regret", "episodic/one-query-per-episode"),
    ),
    Mutant(
        "upper/theorem-5-log", CONSTANT, "theory/upper.py",
        "np.asarray(45.0 * L**2 * np.sqrt(S * A * H**3", "np.asarray(45.0 * L * np.sqrt(S * A * H**3",
        "Theorem 5 has L in place of L², as its proof but not its statement",
        (f"{THEORY}::test_theorems_4_and_5_by_hand",), ("ulcvi/regret", "episodic/one-query-per-episode"),
    ),
    Mutant(
        "upper/episodes-without-rewarding", CONSTANT, "theory/upper.py",
        "shape = np.sqrt(R * H**2 / B) + S * A", "shape = np.sqrt(H**2 / B) + S * A",
        "the sums of Theorems 4 and 5 have no |L_R|",
        (f"{THEORY}::test_theorems_4_and_5_by_hand",), ("ucbvi/regret", "episodic/sparsity"),
    ),
    Mutant(
        "upper/episodes-log-term", CONSTANT, "theory/upper.py",
        "delta, \"delta\") * T**2 * (T + 1.0)", "delta, \"delta\") * (T + 1.0)",
        "L_T has T + 1 in place of T²(T + 1)",
        (f"{THEORY}::test_theorems_4_and_5_by_hand",), ("ucbvi/regret", "episodic/one-query-per-episode"),
    ),
    Mutant(
        "upper/moss-constant", CONSTANT, "theory/upper.py",
        "Base(113.0 * math.sqrt", "Base(11.3 * math.sqrt",
        "MOSS's own regret is 11.3 sqrt(AT) in place of 113 sqrt(AT)",
        (f"{THEORY}::test_bases",), ("greedy/moss",),
    ),
    Mutant(
        "lower/constant", CONSTANT, "theory/lower.py",
        "np.minimum(ratio, 1.0) / 140.0", "np.minimum(ratio, 1.0) / 14.0",
        "the lower bounds for arms have 1/14 in place of 1/140",
        (LOWER,), ("lower/unit-costs", "lower/arm-costs", "lower/varying-budget"),
    ),
    Mutant(
        "lower/linear-constant", CONSTANT, "theory/lower.py",
        "d * T / (80.0 * np.sqrt(B))", "d * T / (8.0 * np.sqrt(B))",
        "the lower bound for linear rewards has 1/8 in place of 1/80",
        (LOWER,), ("lower/linear",),
    ),
    Mutant(
        "lower/without-log-a", CONSTANT, "theory/lower.py",
        "float(values.sum()) / (1.0 + math.log(values.size))", "float(values.sum())",
        "the lower bound for costs has no 1 + log A",
        (LOWER,), ("lower/arm-costs",),
    ),
    Mutant(
        "lower/without-log-t", CONSTANT, "theory/lower.py",
        "axis=-1) / (1.0 + np.log(T))", "axis=-1) / 1.0",
        "the lower bound for growing budgets has no 1 + log T",
        (LOWER,), ("lower/varying-budget",),
    ),
    Mutant(
        "upper/r1-episodes-width", CONSTANT, "theory/upper.py",
        "shape = 2.0 * min(H, R) * root + 10.0 * H * root**2", "shape = 2.0 * min(H, R) * root + 1.0 * H * root**2",
        "the bound of R1 for episodes has H/k in place of 10H/k",
        (f"{THEORY}::test_r1_and_r3_for_episodes_by_hand",), ("ours/exact-episodes-bound",),
    ),
    Mutant(
        "lower/varying-linear-without-log-t", CONSTANT, "theory/lower.py",
        "(80.0 * (1.0 + np.log(T)))", "80.0",
        "the lower bound for linear rewards and growing budgets has no 1 + log T",
        (f"{THEORY}::test_the_varying_linear_bound_by_hand",), ("lower/varying-linear",),
    ),
    Mutant(
        "lemmas/shift", CONSTANT, "theory/lemmas.py",
        "8.0 * gap * gap * math.log(4.0 / 3.0)", "2.0 * gap * gap * math.log(4.0 / 3.0)",
        "Lemma 8 has 2 log(4/3)ε² in place of 8 log(4/3)ε²",
        (f"{LEMMAS}::test_lemma_8_bounds_the_kl_of_a_half",), ("lemmas/information",),
    ),
    Mutant(
        "lemmas/roots-halved", CONSTANT, "theory/lemmas.py",
        "return M + 2.0 * math.sqrt(M * N)", "return M + math.sqrt(M * N)",
        "the sum of 1/sqrt(n) over asks has sqrt(MN) without the 2",
        (f"{LEMMAS}::test_sums_over_counts",), ("lemmas/counting",),
    ),
    Mutant(
        "lemmas/potential-halved", CONSTANT, "theory/lemmas.py",
        "return 2.0 * d * math.log1p(n * L * L / (d * lam))", "return d * math.log1p(n * L * L / (d * lam))",
        "the elliptical potential has d log(…) in place of 2d log(…)",
        (f"{LEMMAS}::test_the_elliptical_potential",), ("lemmas/counting",),
    ),
    Mutant(
        "lemmas/self-normalized-without-delta", CONSTANT, "theory/lemmas.py",
        "math.sqrt(ratio + doubt)", "math.sqrt(ratio)",
        "the bound on self-normalized sums has no 2 log(1/δ)",
        (f"{LEMMAS}::test_self_normalized_sums_and_the_radius",), ("lemmas/concentration",),
    ),
    Mutant(
        "lemmas/total-variance", CONSTANT, "theory/lemmas.py",
        "return Variance(steps, squares - V * V)", "return Variance(steps, squares)",
        "the variance of a sum of rewards is its second moment",
        (f"{LEMMAS}::test_the_law_of_total_variance_by_enumeration",), ("lemmas/total-variance",),
    ),
    Mutant(
        "profiles/linear", CONSTANT, "theory/profiles.py",
        "np.asarray(2.0 * scale * np.sqrt(as_rounds(rounds)))", "np.asarray(scale * np.sqrt(as_rounds(rounds)))",
        "for B = εt the sum has sqrt(AT/ε) in place of 2 sqrt(AT/ε)",
        (PROFILES,), ("profiles/linear",),
    ),
    Mutant(
        "profiles/polynomial", CONSTANT, "theory/profiles.py",
        "as_rounds(rounds) ** exponent / exponent", "as_rounds(rounds) ** exponent",
        "for B = t^c the sum has no 1/(1 − c/2)",
        (PROFILES,), ("profiles/polynomial",),
    ),
    Mutant(
        "profiles/periodic", CONSTANT, "theory/profiles.py",
        "np.minimum(2.0 * N * np.sqrt(np.ceil(T / N)), T)", "np.minimum(N * np.sqrt(np.ceil(T / N)), T)",
        "for a periodic budget the sum has N sqrt(⌈T/N⌉) without the 2",
        (PROFILES,), ("profiles/periodic",),
    ),
)  # fmt: skip
