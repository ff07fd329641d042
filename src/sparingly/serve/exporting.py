"""The log of an agent as a file: JSON lines or Parquet, written page by page, so that its length does not matter."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet

from sparingly.serve.answers import log_head, log_line
from sparingly.serve.rows import AgentRow
from sparingly.serve.store import PAGE, Reading, log_page, read_log

WHOLE, REAL, TEXT = pyarrow.int64(), pyarrow.float64(), pyarrow.string()
COLUMNS = pyarrow.schema(
    [
        ("seq", WHOLE), ("kind", TEXT), ("at", pyarrow.timestamp("us", tz="UTC")), ("granted", WHOLE), ("spent", WHOLE),
        ("held", WHOLE), ("asks", WHOLE), ("answers", WHOLE), ("event_id", TEXT), ("number", WHOLE), ("context", TEXT),
        ("payload", TEXT), ("action", WHOLE), ("ask", WHOLE), ("reason", TEXT), ("width", REAL), ("threshold", REAL),
        ("cost", WHOLE), ("lease", WHOLE), ("status", TEXT), ("due", WHOLE), ("reward", REAL), ("learned", WHOLE),
        ("late", WHOLE), ("answered", WHOLE), ("fingerprint", TEXT), ("key", TEXT), ("amount", WHOLE),
    ]
)  # fmt: skip


def json_lines(read: Reading, agent: AgentRow, after: int) -> tuple[bytes, int]:
    """The page of the log behind record `after`, and its last record; the agent itself comes before the first."""
    records, last = log_page(read, agent.id, after, agent.seq) if after < agent.seq else ([], agent.seq)
    head = [_line(log_head(agent))] if after == 0 else []
    return b"".join([*head, *(_line(log_line(record)) for record in records)]), last


def _line(record: dict[str, object]) -> bytes:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode() + b"\n"


def write_parquet(read: Reading, agent: AgentRow, after: int, path: Path) -> None:
    """The same as a Parquet file; the agent itself is in the metadata of the schema."""
    schema = COLUMNS.with_metadata({"sparingly.agent": json.dumps(log_head(agent))})
    with pyarrow.parquet.ParquetWriter(path, schema, compression="zstd") as writer:
        rows: list[dict[str, object]] = []
        for record in read_log(read, agent.id, after, agent.seq):
            row = {name: getattr(record, name, None) for name in schema.names}
            row["kind"] = getattr(record, "kind", "decision")
            rows.append(row)
            if len(rows) == PAGE:
                writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
                rows = []
        writer.write_table(pyarrow.Table.from_pylist(rows, schema=schema))
