"""The tests that judge claims: each covers, each can refute, and none decides what the data do not."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest

from sparingly.errors import InvalidInput
from sparingly.lab.claims import Check, ClaimRecord, Curve, Evidence, Panel, statistics
from sparingly.lab.claims.evidence import power_words, verdict

random = np.random.default_rng(0)


def test_a_mean_is_shown_refuted_or_left_open():
    values = random.normal(10.0, 1.0, 100)
    assert statistics.mean("", values, "≤", 11.0).outcome == "shown"
    assert statistics.mean("", values, "≤", 9.0).outcome == "refuted"
    assert statistics.mean("", values, "≤", values.mean() + 0.01).outcome == "open"
    assert statistics.mean("", values, "≥", 9.0).outcome == "shown"
    assert statistics.mean("", values, "≥", 11.0).outcome == "refuted"
    assert statistics.mean("", [3.0], "≤", 1e9).outcome == "open"  # one run shows nothing


def test_intervals_of_means_cover(monkeypatch):
    """With a false-alarm rate of 5 % a side, 10 % of 4,000 intervals miss: between 8 and 12 % (chance < 1e-4)."""
    monkeypatch.setattr(statistics, "ALARM", 0.05)
    samples = random.normal(1.0, 1.0, (12, 4_000))
    _, low, high = statistics.interval(samples)
    assert 0.08 <= np.mean((low > 1.0) | (high < 1.0)) <= 0.12


def test_intervals_of_ratios_cover(monkeypatch):
    monkeypatch.setattr(statistics, "ALARM", 0.05)
    missed = 0
    for _ in range(2_000):
        b = random.normal(5.0, 1.0, 30)
        low, high = statistics.fieller(2.0 * b + random.normal(0.0, 1.0, 30), b)
        missed += not low <= 2.0 <= high
    assert 0.07 <= missed / 2_000 <= 0.13
    assert statistics.fieller(random.normal(1, 1, 9), random.normal(0, 1, 9)) == (-math.inf, math.inf)


def test_intervals_of_chances_are_those_of_a_binomial():
    check = statistics.chance("", [False] * 300, "≤", 0.05)
    assert check.outcome == "shown"
    assert (1.0 - check.high) ** 300 == pytest.approx(statistics.ALARM)
    assert statistics.chance("", [False] * 200, "≤", 0.05).outcome == "open"
    assert statistics.chance("", [True] * 40 + [False] * 60, "≤", 0.05).outcome == "refuted"


def test_a_bound_must_hold_at_every_checkpoint():
    bound = np.array([10.0, 20.0, 30.0])
    values = bound * random.uniform(0.4, 0.5, (20, 3))
    assert statistics.below_curve("", values, bound).outcome == "shown"
    values[:, 1] *= 4.0
    check = statistics.below_curve("", values, bound)
    assert check.outcome == "refuted" and check.value > 1.0


def test_a_bound_that_differs_from_run_to_run_is_compared_run_by_run():
    bound = random.uniform(5.0, 50.0, (20, 4))
    check = statistics.below_curve("", 0.9 * bound, bound)
    assert check.outcome == "shown" and check.value == pytest.approx(0.9)
    assert statistics.below_curve("", 1.1 * bound, bound, estimates=2).outcome == "refuted"
    assert statistics.below_curve("", bound, bound).outcome == "open"


def test_an_estimated_bound_gets_half_of_the_alarm():
    values, bound = random.normal(0.9, 0.01, (30, 2)), np.ones(2)
    one, two = (statistics.below_curve("", values, bound, estimates=k) for k in (1, 2))
    assert one.alarm == two.alarm == statistics.ALARM
    assert two.high > one.high


def rare(runs, chance, generator=random):
    """Losses of 0 or 1: skewed as regret is where a learner errs seldom and then for good."""
    return (generator.random((runs, 1)) < chance).astype(float)


def test_whatever_the_law_is_a_bound_is_not_shown_by_luck():
    """A mean of 0.1 against a bar of 0.05: with 20 runs, chance shows none in 0.9^20 = 12 % of all experiments.

    Student's interval is then a point, and calls the bound shown; the chance that fewer than 10 of 400 do is < 1e-8.
    """
    experiments = [rare(20, 0.1) for _ in range(400)]
    wrong = {"Student": 0, "any law": 0}
    for values in experiments:
        wrong["Student"] += statistics.below_curve("", values, [0.05]).outcome == "shown"
        wrong["any law"] += statistics.below_for_any_law("", values, [0.05], [1.0]).outcome == "shown"
    assert wrong["Student"] >= 10 and wrong["any law"] == 0


def test_for_any_law_the_alarm_is_kept(monkeypatch):
    """With an alarm of 5 % and the hardest law, a bar just below its mean is shown in 5 % of 4,000 at most: < 7 %."""
    monkeypatch.setattr(statistics, "ALARM", 0.05)
    runs = 40
    unseen = 1.0 - 0.05 ** (1.0 / runs)
    bar = unseen / (1.0 - unseen) + 1e-9
    assert statistics.below_for_any_law("", np.zeros((runs, 1)), [bar], [1.0]).outcome == "shown"
    assert statistics.below_for_any_law("", np.zeros((runs, 1)), [bar - 2e-9], [1.0]).outcome == "open"
    shown = [
        statistics.below_for_any_law("", rare(runs, bar + 1e-9), [bar], [1.0]).outcome == "shown" for _ in range(4_000)
    ]
    assert 0.01 <= np.mean(shown) <= 0.07


def test_for_any_law_bounds_are_shown_refuted_or_left_open():
    most = np.array([1.0, 10.0, 100.0])
    low = random.uniform(0.0, 0.01, (200, 3)) * most
    assert statistics.below_for_any_law("", low, 0.2 * most, most).outcome == "shown"
    assert statistics.below_for_any_law("", low, 0.05 * most, most).outcome == "open"  # 200 runs cannot tell: p = 6.7 %
    high = random.uniform(0.8, 0.9, (200, 3)) * most
    assert statistics.below_for_any_law("", high, 0.2 * most, most).outcome == "refuted"
    one = low.copy()
    one[7, 2] = 100.0  # a single run that loses all there is
    assert statistics.below_for_any_law("", one, 0.2 * most, most).outcome == "open"
    varied = 0.2 * most * random.uniform(0.9, 1.1, (200, 1))
    assert statistics.below_for_any_law("", low, varied, most).outcome == "shown"
    assert statistics.below_for_any_law("", high, varied, most).outcome == "open"
    with pytest.raises(InvalidInput, match="outside"):
        statistics.below_for_any_law("", 2.0 * high, most, most)


def test_what_a_test_supposes_is_said():
    values = random.uniform(1.0, 2.0, (30, 2))
    column = values[:, 0]
    supposing = [
        statistics.mean("", column, "≤", 3.0), statistics.below_curve("", values, [3.0, 3.0]),
        statistics.below_everywhere("", [column], 3.0), statistics.above_somewhere("", [column], 0.5),
        statistics.ratio("", column, column, "≤", 2.0), *statistics.growth("", [1e3, 1e4], [column, column], 0.5),
    ]  # fmt: skip
    free = [
        statistics.below_for_any_law("", values, [3.0, 3.0], [3.0, 3.0]), statistics.chance("", column > 3.0, "≤", 0.9),
        statistics.exact("", 1.0, "≤", 2.0),
    ]  # fmt: skip
    assert all(statistics.NORMAL in check.test for check in supposing)
    assert not any(statistics.NORMAL in check.test for check in free)
    assert {check.alarm for check in (*supposing, *free[:2])} == {statistics.ALARM}


def test_a_chance_that_cannot_be_seen_for_sure():
    perhaps, surely = np.arange(300) < 60, np.arange(300) < 1
    check = statistics.chance("", perhaps, "≤", 0.1, certain=surely)
    assert check.outcome == "open" and check.low < 0.1 < check.high
    assert statistics.chance("", perhaps, "≤", 0.1).outcome == "refuted"
    assert statistics.chance("", surely, "≤", 0.1, certain=surely).outcome == "shown"


def test_a_control_must_stay_below_everywhere():
    instances = [random.normal(m, 0.1, 50) for m in (1.0, 3.0, 0.5)]
    assert statistics.below_everywhere("", instances, 4.0).outcome == "shown"
    assert statistics.below_everywhere("", instances, 2.0).outcome == "refuted"


def test_a_lower_bound_must_be_passed_by_one_instance():
    instances = [random.normal(m, 0.1, 50) for m in (1.0, 3.0, 0.5)]
    assert statistics.above_somewhere("", instances, 2.0).outcome == "shown"
    assert statistics.above_somewhere("", instances, 4.0).outcome == "refuted"
    assert statistics.above_somewhere("", instances, 3.01).outcome == "open"


@pytest.mark.parametrize(("power", "wanted"), [(0.5, ("shown", "shown")), (0.9, ("refuted", "shown"))])
def test_growth_is_judged_from_both_sides(power, wanted):
    x = np.geomspace(1e3, 1e7, 9)
    samples = [t**power * random.lognormal(0.0, 0.1, 40) for t in x]
    assert tuple(check.outcome for check in statistics.growth("", x, samples, 0.5)) == wanted
    assert statistics.slope(x, samples)[0] == pytest.approx(power, abs=0.02)


def test_without_a_logarithm_growth_may_be_off_by_a_factor_over_the_range():
    x = np.geomspace(1.0, 64.0, 4)

    def outcomes(power):
        samples = [t**power * random.lognormal(0.0, 0.05, 200) for t in x]
        return tuple(check.outcome for check in statistics.growth("", x, samples, -0.5, factor=1.5))

    off = np.log(1.5) / np.log(64.0)
    assert outcomes(-0.5) == ("shown", "shown")
    assert outcomes(-0.5 + 1.4 * off) == ("refuted", "shown")
    assert outcomes(-0.5 - 1.4 * off) == ("shown", "refuted")
    checks = statistics.growth("", x, [np.ones(5)] * 4, -0.5, factor=1.5)
    assert [check.bar for check in checks] == pytest.approx([-0.5 + off, -0.5 - off])
    assert all("−0.5, up to a factor of 1.5" in check.says for check in checks)


def test_growth_of_nothing_is_left_open():
    checks = statistics.growth("", [10.0, 100.0, 1000.0], [np.zeros(5)] * 3, 0.5)
    assert {check.outcome for check in checks} == {"open"}


def test_a_ratio_is_that_of_paired_runs():
    b = random.uniform(1.0, 100.0, 40)
    assert statistics.ratio("", 0.5 * b, b, "≤", 0.501).outcome == "shown"
    assert statistics.ratio("", 0.5 * b, b, "≤", 0.499).outcome == "refuted"
    apart = statistics.ratio("", 0.5 * b, b, "≤", 0.501, paired=False)
    assert apart.outcome == "open" and "independent" in apart.test


def test_intervals_of_ratios_of_independent_runs_cover(monkeypatch):
    monkeypatch.setattr(statistics, "ALARM", 0.05)
    missed = 0
    for _ in range(2_000):
        low, high = statistics.fieller(random.normal(10.0, 2.0, 30), random.normal(5.0, 1.0, 30), paired=False)
        missed += not low <= 2.0 <= high
    assert 0.07 <= missed / 2_000 <= 0.13


def check(outcome, form=""):
    return Check("", 0.0, "≤", 1.0, 0.0, 0.0, outcome, "exact", 0.0, form)


def test_the_verdict_follows_from_the_checks():
    shown, stated, corrected = check("shown"), check("refuted", "stated"), check("shown", "corrected")
    assert verdict([shown]) == "holds"
    assert verdict([shown, check("open")]) == "fails"
    assert verdict([shown, stated, corrected]) == "holds as corrected"
    assert verdict([shown, check("shown", "stated"), corrected]) == "holds"
    assert verdict([check("refuted"), stated, corrected]) == "fails"
    assert verdict([shown, stated, check("open", "corrected")]) == "fails"
    assert verdict([shown, stated]) == "fails"


def measured(relation, bar, value, low, high, outcome="shown", **more):
    return Check("", value, relation, bar, low, high, outcome, "t", 1e-6, **more)


@pytest.mark.parametrize(
    ("made", "margin", "power"),
    [
        (measured("≤", 1.0, 0.8, 0.7, 0.9), 1.0 / 0.7, "sharp"),  # from the end that is farther away
        (measured("≥", 1.0, 1.2, 1.1, 1.6), 1.6, "loose"),
        (measured("≤", 1.0, 0.02, 0.0, 0.4), 50.0, "loose"),  # an end at 0 says nothing; the value does
        (measured("≤", 1.0, 0.0001, 0.0, 0.4), 10_000.0, "vacuous"),
        (measured("≤", 0.1, 0.0, 0.0, 0.09), math.inf, "vacuous"),
        (measured("≤", 1.0, 0.8, 0.7, 0.9, most=0.95), 1.0 / 0.7, "vacuous"),  # nothing could pass the bar
        (measured("≤", 0.6, 0.5, 0.45, 0.55, span=100.0), 100.0**0.15, "loose"),  # a slope, over two decades
        (measured("≥", -0.6, -0.5, -0.52, -0.48, span=10.0), 10.0**0.12, "sharp"),
        (measured("≤", 1.0, 0.8, 0.7, 1.1, outcome="open"), None, None),
        (measured("=", 0.0, 0.0, 0.0, 0.0), None, None),
        (statistics.exact("", -5.0, "≤", 0.0), None, None),  # an amount against 0
        (statistics.exact("", 1e-15, "≤", 1e-12), None, None),  # an equality up to rounding
        (statistics.exact("", 300.0, "≥", 1.0), 300.0, "vacuous"),
    ],
)
def test_margins(made, margin, power):
    assert made.margin == (margin if margin is None else pytest.approx(margin))
    assert made.power == power


def test_tests_say_what_margins_need():
    """Growth names its range, and the test for any law the most that can be lost."""
    samples = [t**0.5 * random.lognormal(0.0, 0.01, 40) for t in (1e3, 1e4, 1e5)]
    assert [check.span for check in statistics.growth("", [1e3, 1e4, 1e5], samples, 0.5)] == pytest.approx([100.0] * 2)
    losses = np.full((200, 2), 0.01)
    assert statistics.below_for_any_law("", losses, [0.5, 0.5], [1.0, 1.0]).power == "loose"
    assert statistics.below_for_any_law("", losses, [2.0, 2.0], [1.0, 1.0]).power == "vacuous"


def test_margins_are_in_the_data_and_old_data_can_be_read():
    checks = (measured("≤", 1.0, 0.8, 0.7, 0.9), measured("≤", 0.1, 0.0, 0.0, 0.09))
    assert power_words(checks) == "1 sharp, 1 vacuous"
    record = ClaimRecord("a/b", "says", "Theorem 1", "by a test", "", "quick", 0, {}, Evidence(checks))
    data = json.loads(json.dumps(record.to_json(), allow_nan=False))
    found = data["evidence"]["checks"]
    assert [(check["margin"], check["power"]) for check in found] == [
        (1.0 / 0.7, "sharp"),
        ({"number": "inf"}, "vacuous"),
    ]
    for check in found:
        for later in ("margin", "power", "most", "span"):
            del check[later]
    assert ClaimRecord.from_json(data) == record


def test_a_record_survives_json():
    lines = (Curve("a", (1.0, 2.0), (3.0, math.inf)), Curve("b", (1.0,), (2.0,), (1.0,), (3.0,), "upper"))
    evidence = Evidence((check("shown"),), (Panel("p", "x", "y", lines, y_log=False),), "note")
    record = ClaimRecord("a/b", "says", "Theorem 1", "by a test", "", "quick", 0, {"rounds": 10}, evidence)
    text = json.dumps(record.to_json(), allow_nan=False)
    assert ClaimRecord.from_json(json.loads(text)) == record
