"""Runs the programs of the gallery and puts their figures and tables into the pages: `make gallery`.

With names, only those: python docs/figures/gallery.py frozen_lake
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
NAMES = ("recommender", "model_router", "labelling", "frozen_lake")
TABLE = re.compile(r"(<!-- table -->\n).*?(<!-- /table -->)", re.DOTALL)


def with_table(text: str, table: str) -> str:
    """A page with a table between its marks, in the place of the one that was there.

    >>> with_table("a\\n<!-- table -->\\nold\\n<!-- /table -->\\nb", "| new |\\n")
    'a\\n<!-- table -->\\n| new |\\n<!-- /table -->\\nb'
    """
    result, found = TABLE.subn(lambda marks: marks[1] + table + marks[2], text)
    if found != 1:
        raise ValueError("a page must have the marks <!-- table --> and <!-- /table --> once, each on its own line")
    return result


def make(name: str) -> None:
    """Run a program; its table goes into its page, its figure beside this file."""
    page, out = HERE.parent / "gallery" / f"{name}.md", ROOT / "results" / "gallery" / name
    command = [sys.executable, str(ROOT / "examples" / "gallery" / f"{name}.py"), "--out", str(out)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)  # noqa: S603 (its progress is shown)
    page.write_text(with_table(page.read_text(encoding="utf-8"), done.stdout), encoding="utf-8")
    shutil.copyfile(out / "figure.png", HERE / f"gallery_{name}.png")


def main(names: Sequence[str]) -> None:
    """Make these pages, or all."""
    for name in names or NAMES:
        if name not in NAMES:
            sys.exit(f"there is no {name}; there are {', '.join(NAMES)}")
        start = time.monotonic()
        make(name)
        print(f"{name}: {time.monotonic() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
