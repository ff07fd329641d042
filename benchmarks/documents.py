"""Tables that a command writes into a document, between two comments."""

from __future__ import annotations

from pathlib import Path


def put_between(path: Path, begin: str, end: str, text: str) -> None:
    """Replace what stands between the two comments of a document."""
    whole = path.read_text(encoding="utf-8")
    before, first, rest = whole.partition(begin)
    _, last, after = rest.partition(end)
    if not first or not last:
        raise SystemExit(f"{path} has no {begin} … {end}")
    path.write_text(f"{before}{begin}\n{text}\n{end}{after}", encoding="utf-8")
