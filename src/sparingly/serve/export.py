"""Exports the log of an agent as JSON lines or Parquet, in chunks, so that logs may be larger than memory."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet

from sparingly.serve.queries import CHUNK, CHUNK_BYTES, Select, read_log, read_log_chunk
from sparingly.serve.records import AgentRecord
from sparingly.serve.store import StorageError
from sparingly.serve.views import log_head, log_line

WHOLE, REAL, TEXT = pyarrow.int64(), pyarrow.float64(), pyarrow.string()
COLUMNS = pyarrow.schema(
    [
        ("seq", WHOLE), ("kind", TEXT), ("at", pyarrow.timestamp("us", tz="UTC")), ("granted", WHOLE), ("spent", WHOLE),
        ("held", WHOLE), ("asks", WHOLE), ("answers", WHOLE), ("event_id", TEXT), ("number", WHOLE), ("context", TEXT),
        ("payload", TEXT), ("action", WHOLE), ("ask", WHOLE), ("reason", TEXT), ("width", REAL), ("threshold", REAL),
        ("cost", WHOLE), ("lease", WHOLE), ("status", TEXT), ("due", WHOLE), ("reward", REAL), ("learned", WHOLE),
        ("late", WHOLE), ("answered", WHOLE), ("fingerprint", TEXT), ("key", TEXT), ("amount", WHOLE), ("gain", REAL),
        ("who", TEXT), ("chain", TEXT),
    ]
)  # fmt: skip


def json_lines(read: Select, agent: AgentRecord, after: int) -> tuple[bytes, int]:
    """The next chunk of the log after record `after`, and the seq of its last record. The agent itself comes first."""
    records, last = read_log_chunk(read, agent.id, after, agent.seq) if after < agent.seq else ([], agent.seq)
    check_complete(agent, len(records), last - after)
    head = [_line(log_head(agent))] if after == 0 else []
    return b"".join([*head, *(_line(log_line(record)) for record in records)]), last


def check_complete(agent: AgentRecord, found: int, expected: int) -> None:
    """A log has no gaps. If records are missing, the agent is being deleted: what is left of it is not its log."""
    if found != max(expected, 0):
        raise StorageError(f"the log of {agent.name} has {found:,} records where {expected:,} were expected")


def _line(record: dict[str, object]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def write_parquet(read: Select, agent: AgentRecord, after: int, path: Path) -> None:
    """Write the log as a Parquet file, with the agent itself in the metadata of the schema."""
    schema = COLUMNS.with_metadata({"sparingly.agent": json.dumps(log_head(agent))})
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        rows: list[dict[str, object]] = []
        found = size = 0
        for record in read_log(read, agent.id, after, agent.seq):
            row = {name: getattr(record, name, None) for name in schema.names}
            row["kind"] = getattr(record, "kind", "decision")
            row["chain"] = record.chain.hex()
            rows.append(row)
            found += 1
            size += len(getattr(record, "payload", None) or "") + len(getattr(record, "context", ""))
            if len(rows) == CHUNK or size > CHUNK_BYTES:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
                rows, size = [], 0
        writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
    check_complete(agent, found, agent.seq - after)
