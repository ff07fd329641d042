"""Checksums chained over the log of an agent: each record has one, made from its own content and the one before it.

Whoever knows the last one can tell whether anything before it was changed, lost or put in. Not in it are the payload,
which may be erased later (its fingerprint is), and what becomes of a decision afterwards (the entries of the log are).
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from operator import attrgetter

import msgspec

from sparingly.serve.records import DECISION_COLUMNS, ENTRY_COLUMNS, MUTABLE, DecisionRecord, EntryRecord

SIZE = 16  # bytes
OPEN = ("agent", "payload", "chain", *MUTABLE)  # what is not in the checksum
SEALED_DECISION = tuple(column for column in DECISION_COLUMNS if column not in OPEN)
SEALED_ENTRY = tuple(column for column in ENTRY_COLUMNS if column not in ("agent", "chain"))
_of_decision, _of_entry = attrgetter(*SEALED_DECISION), attrgetter(*SEALED_ENTRY)
_encode = msgspec.json.Encoder().encode


def start(name: str, created: int) -> bytes:
    """What the chain of an agent begins with."""
    return blake2b(_encode((name, created)), digest_size=SIZE).digest()


def link(before: bytes, record: DecisionRecord | EntryRecord) -> bytes:
    """The checksum of a record that comes after one with the checksum `before`."""
    values = _of_decision(record) if isinstance(record, DecisionRecord) else _of_entry(record)
    return blake2b(before + _encode(values), digest_size=SIZE).digest()


def seal(before: bytes, records: Iterable[DecisionRecord | EntryRecord]) -> bytes:
    """Give records their checksums, in their order; the last one."""
    for record in records:
        record.chain = before = link(before, record)
    return before
