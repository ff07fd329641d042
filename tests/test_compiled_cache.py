"""Compiled code that is kept on disk: what is damaged is made anew, and where nothing can be kept all works without."""

from __future__ import annotations

import os
import subprocess
import sys

PLAY = """
import sparingly as sp
from sparingly.budgets import amount
{before}
assert amount(1, 2.0, 0.0, 3.0) == 6.0
assert sp.__version__
"""


def said(folder, before: str = "") -> list[str]:
    """What a process of its own says on stderr, line by line."""
    settings = os.environ | {"NUMBA_CACHE_DIR": str(folder), "SPARINGLY_COMPILE": "first"}
    code = PLAY.format(before=before)
    run = subprocess.run([sys.executable, "-c", code], env=settings, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return [line for line in run.stderr.splitlines() if not line.startswith("sparingly: compiling")]


def test_what_is_damaged_is_told_once_and_made_anew(tmp_path):
    assert said(tmp_path) == []
    for pattern, content in (("*.nbi", b""), ("*.nbc", b"\x80garbage")):
        damaged = list(tmp_path.rglob(pattern))
        assert damaged
        for file in damaged:
            file.write_bytes(content)
        (line,) = said(tmp_path)
        assert "cannot be read" in line and "compiled again" in line
    next(tmp_path.rglob("compiled-from.txt")).write_bytes(b"\xff\xfe")
    assert said(tmp_path) == []


def test_where_nothing_can_be_written_each_process_compiles_for_itself(tmp_path):
    (tmp_path / "file").write_text("no folder")
    full = """
import errno
import numba.core.caching
def fail(*arguments):
    raise OSError(errno.ENOSPC, "No space left on device")
numba.core.caching.IndexDataCacheFile.save = fail
"""
    (line,) = said(tmp_path / "kept", full)
    assert "cannot be kept" in line and "No space left on device" in line and "NUMBA_CACHE_DIR" in line
    said(tmp_path / "file" / "below")  # works without
