"""Why a decision was made, as the service stores it (two words) and says it: a reason, how it was chosen, sentences."""

from __future__ import annotations

from sparingly import reasons

REASONS = {
    reasons.ASKED: "width_reaches_threshold",
    reasons.RESERVED: "reserve",
    reasons.FREE: "worth_it",
    reasons.DECLINED: "below_threshold",
    reasons.DENIED: "budget_exhausted",
    reasons.SPENT: "free_part_spent",
    reasons.WAITING: "better_rounds",
    reasons.SETTLED: "settled",
}
CHOICES = {
    reasons.EXPLORED: "explored",
    reasons.EXPLOITED: "exploited",
    reasons.PAST: "past_policy",
    reasons.BLIND: "unknown",
}
SENTENCES = {name: reasons.WHETHER[code] for code, name in REASONS.items()} | {
    "paused": "Not asked: the agent is paused.",
}
CHOSEN = {name: reasons.CHOSEN[code] for code, name in CHOICES.items()}


def stored(why: int, instead: str | None) -> str:
    """What is stored of a decision's reason; `instead` is what the service knows better than the agent."""
    chosen, whether = divmod(why, reasons.STEP)
    return f"{instead or REASONS[whether]} {CHOICES[chosen]}"


def reason_of(text: str) -> str:
    """Why it is asked about, or not."""
    return text.partition(" ")[0]


def chosen_of(text: str) -> str | None:
    """How the action was chosen; None for decisions of version 0.1.0, which did not store it."""
    return text.partition(" ")[2] or None


def in_words(text: str) -> str:
    """The same as sentences."""
    reason, _, chosen = text.partition(" ")
    return " ".join(part for part in (CHOSEN.get(chosen, ""), SENTENCES[reason]) if part)
