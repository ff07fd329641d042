"""`sparingly verify` and `sparingly migrate`: what is done with a store while no service needs to run."""

from __future__ import annotations

from pathlib import Path

from sparingly.errors import InvalidInput
from sparingly.serve.migrations import Migration
from sparingly.serve.migrations import migrate as run_migration
from sparingly.serve.run import make_store
from sparingly.serve.sqlite import SqliteStore
from sparingly.serve.store import VERSION
from sparingly.serve.verify import verify_store


def verify(data: Path | None, database: str | None) -> int:
    """Check a store without changing it; returns the exit code."""
    store = make_store(data, database)
    store.open_to_read()
    try:
        wrong = verify_store(store, print)
    finally:
        store.close()
    print(
        f"{store.name}: " + (f"something is wrong in {wrong} places" if wrong else "all logs are as they were written")
    )
    return 1 if wrong else 0


def migrate(data: Path | None, database: str | None, dry_run: bool, backup: Path | None, no_backup: bool) -> None:
    """Bring a store up to date."""
    if not dry_run and not no_backup and backup is None:
        raise InvalidInput(
            "give --backup FILE to make a copy first, or --no-backup if there is one; --dry-run only tries"
        )
    store = make_store(data, database)
    if isinstance(store, SqliteStore) and not store.path.exists():
        raise InvalidInput(f"there is no database in {store.data}: nothing to migrate")
    migration = Migration(dry_run, backup)
    took = run_migration(store, migration)
    if not migration.steps:
        print(f"{store.name} has version {VERSION} already")
        return
    for step in migration.steps:
        print(step)
    done = "tried and undone" if dry_run else "done"
    print(f"{store.name}: {migration.records:,} records in {took:.1f} s, {done}")
