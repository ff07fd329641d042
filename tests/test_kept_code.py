"""Compiled code on disk that is damaged is made anew, with one line of notice; nothing fails because of it."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import sparingly

PACKAGE = Path(sparingly.__file__).parent
USE = """
import sparingly as sp
agent = sp.Agent(sp.UCB1(2), rule=sp.Always(), budget=10, seed=0)
for _ in range(3):
    agent.observe(agent.decide(), 0.5)
print(agent.means.tolist())
"""


def run(cache: Path) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(cache), "SPARINGLY_COMPILE": "first"}
    return subprocess.run([sys.executable, "-c", USE], capture_output=True, text=True, timeout=300, env=environment)


@pytest.fixture(scope="module")
def cache(tmp_path_factory):
    """A folder with compiled code: what this copy of the package has already, and the rest made now."""
    folder = tmp_path_factory.mktemp("cache")
    for place in (PACKAGE, *(path for path in PACKAGE.rglob("*") if path.is_dir() and path.name != "__pycache__")):
        kept = folder / f"{place.name}_{hashlib.sha1(str(place).encode(), usedforsecurity=False).hexdigest()}"
        files = [*place.glob("__pycache__/*.nb[ic]"), *place.glob("__pycache__/compiled-from.txt")]
        for file in files:
            kept.mkdir(exist_ok=True)
            shutil.copy2(file, kept)
    done = run(folder)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.parametrize(("ending", "content"), [("nbi", b""), ("nbc", b""), ("nbi", b"garbage" * 9)])
def test_a_damaged_file(cache, ending, content):
    files = sorted(cache.glob(f"tabular_*/round.*.{ending}"))
    assert files
    for file in files:
        file.write_bytes(content)
    done = run(cache)
    assert done.returncode == 0 and done.stdout == "[[0.5, 0.5]]\n", done.stderr
    told = [line for line in done.stderr.splitlines() if "damaged" in line]
    assert len(told) == 1 and told[0].startswith("sparingly: compiled code on disk is damaged"), done.stderr
    again = run(cache)
    assert again.returncode == 0 and "damaged" not in again.stderr
