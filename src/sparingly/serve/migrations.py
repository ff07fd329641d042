"""Brings the schema of a store up to date: numbered steps, in one transaction, or tried and undone.

`sparingly migrate` calls this; `sparingly serve` never changes a schema by itself. Step n leads from
version n to n + 1.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from sparingly.errors import InvalidInput
from sparingly.serve import chain
from sparingly.serve.queries import AGENTS, DELETED, read_log_chunk
from sparingly.serve.records import AgentRecord, DecisionRecord
from sparingly.serve.sqlite import SqliteStore
from sparingly.serve.store import AUDIT, TOKENS, VERSION, Store

COLUMNS = (
    "decisions ADD COLUMN gain DOUBLE PRECISION", "decisions ADD COLUMN who TEXT NOT NULL DEFAULT ''",
    "decisions ADD COLUMN chain {bytes} NOT NULL DEFAULT ''", "entries ADD COLUMN who TEXT NOT NULL DEFAULT ''",
    "entries ADD COLUMN chain {bytes} NOT NULL DEFAULT ''", "agents ADD COLUMN chain {bytes} NOT NULL DEFAULT ''",
    "agents ADD COLUMN erased BIGINT NOT NULL DEFAULT 0",
)  # fmt: skip


class Tried(Exception):
    """A dry run has come to its end: everything is undone."""


@dataclass
class Migration:
    """What is to be done, and what was done."""

    dry_run: bool = False
    backup: Path | None = None  # for SQLite: where a copy is made first
    steps: list[str] = field(default_factory=list)
    records: int = 0

    def __call__(self, store: Store, version: int) -> None:
        """Bring an open store from this version to the present one."""
        if version < VERSION and self.backup is not None and not self.dry_run:
            copy_of(store, self.backup)
        for number in range(version, VERSION):
            step = STEPS[number]
            self.steps.append(f"{number} to {number + 1}: {step.__doc__}")
            self.records += step(store)
            store.run("UPDATE meta SET value = ? WHERE name = 'version'", (number + 1,))
        if self.dry_run:
            raise Tried


def migrate(store: Store, migration: Migration) -> float:
    """Open a store, bring its schema up to date, and close it; returns how long it took, in seconds."""
    began = time.perf_counter()
    store.upgrade = migration
    try:
        store.open()
    except Tried:
        pass
    finally:
        store.close()
    return time.perf_counter() - began


def copy_of(store: Store, path: Path) -> None:
    """A copy of a SQLite database as it is before the migration."""
    if not isinstance(store, SqliteStore):
        raise InvalidInput("--backup is for SQLite; use pg_dump, and then --no-backup")
    if path.exists():
        raise InvalidInput(f"{path} is there already: choose another file for the backup")
    store.copy_to(path)


def _to_2(store: Store) -> int:
    """checksums chained over the logs, who wanted each record, tokens and an audit of administration"""
    for column in COLUMNS:
        store.run(f"ALTER TABLE {column.format(bytes=store.bytes_type)}")
    for table in (TOKENS, AUDIT):
        store.run(table.format(id=store.key_type))
    if not isinstance(store, SqliteStore):  # SQLite cannot drop a default; there only one process has the file
        for table in ("decisions", "entries", "agents"):  # so a process of 0.1.0 that still runs cannot write records
            store.run(f"ALTER TABLE {table} ALTER COLUMN chain DROP DEFAULT")
    count = 0
    for row in store.select(f"{AGENTS} ORDER BY id"):
        agent = AgentRecord(*row)
        if not agent.name.startswith(DELETED):
            count += _chain_log(store, agent)
    return count


def _chain_log(store: Store, agent: AgentRecord) -> int:
    after, last = 0, chain.start(agent.name, agent.created)
    while after < agent.seq:
        records, after = read_log_chunk(store.select, agent.id, after, agent.seq)
        last = chain.seal(last, records)
        for table in ("decisions", "entries"):
            rows = [
                (r.chain, r.agent, r.seq) for r in records if isinstance(r, DecisionRecord) == (table == "decisions")
            ]
            store.run_many(f"UPDATE {table} SET chain = ? WHERE agent = ? AND seq = ?", rows)
    store.run("UPDATE agents SET chain = ? WHERE id = ?", (last, agent.id))
    return agent.seq


STEPS: dict[int, Callable[[Store], int]] = {1: _to_2}
