"""The end of a run in the terminal: chapters, the few sentences, where to look; nothing is said that was not shown."""

from __future__ import annotations

import dataclasses
import io
from pathlib import Path

from rich.console import Console

from sparingly.lab.claims import CLAIMS, Check, ClaimRecord, Evidence
from sparingly.lab.conclusion import SENTENCES, conclusion


def record(id: str, outcome: str = "shown", form: str = "") -> ClaimRecord:
    check = Check("asks, of those that B allows", 0.9, "≤", 1.0, 0.8, 0.95, outcome, "exact", form=form)
    return ClaimRecord(id, "A statement.", "Theorem 1", "by counting", "", "quick", 0, {}, Evidence((check,)))


def shown(records: list[ClaimRecord]) -> str:
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(conclusion(records, "quick", Path("results") / "quick"))
    return console.export_text()


def test_chapters_are_counted_and_the_report_is_named():
    both = record("corrections/e2", "refuted", "stated")
    both = dataclasses.replace(
        both, evidence=Evidence((*both.evidence.checks, *record("x", "shown", "corrected").evidence.checks))
    )
    text = shown([record("ucb/budget"), record("ucb/regret"), both, record("ours/exact-arms", "open")])
    lines = [line.rsplit(None, 3) for line in text.splitlines()]
    rows = {line[0].strip(): line[1:] for line in lines if len(line) == 4}
    assert rows["Multi-armed bandits (CBM-UCB)"] == ["2", "·", "·"]
    assert rows["Corrections to the paper"] == ["·", "1", "·"]
    assert rows["Our own rules"] == ["·", "·", "1"]
    assert rows["in all"] == ["2", "1", "1"]
    assert "4 claims were run and judged by 5 checks (quick mode)" in text
    assert "Confidence-Budget Matching" in text
    assert str(Path("results") / "quick" / "report.html") in text


def test_a_sentence_is_said_only_if_its_claim_was_run_and_holds():
    text = shown([record("ucb/budget"), record("ours/exact-arms", "open")])
    assert SENTENCES["ucb/budget"] in text
    assert ". [ucb/budget]" in text and "asks, of those that B allows: 0.9; must be ≤ 1" in text
    assert SENTENCES["ours/exact-arms"] not in text
    assert SENTENCES["corrections/e2"] not in text
    assert "What it says" not in shown([record("lower/unit-costs")])


def test_the_sentences_are_about_claims_that_exist():
    assert SENTENCES.keys() <= CLAIMS.keys()
