"""Builds the site: `python docs/site/build.py [FOLDER]`, build/docs by default.

It needs no network, and a warning is an error. The folder is made anew.
What Sphinx keeps for itself goes into FOLDER.trees.
"""

from __future__ import annotations

import shutil
import sys
import time
from pathlib import Path

from sphinx.cmd.build import main as sphinx

HERE = Path(__file__).resolve().parent
OPTIONS = ["--quiet", "--fresh-env", "--fail-on-warning", "--keep-going", "--builder", "html"]


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else HERE.parent.parent / "build" / "docs").resolve()
    trees = out.with_name(f"{out.name}.trees")
    for folder in (out, trees):
        shutil.rmtree(folder, ignore_errors=True)
    start = time.monotonic()
    code = sphinx([*OPTIONS, "--conf-dir", str(HERE), "--doctree-dir", str(trees), str(HERE.parent), str(out)])
    if code:
        sys.exit("The site was not built: each line above that says WARNING or ERROR is a reason.")
    pages = sum(1 for _ in out.rglob("*.html"))
    print(f"{pages} pages in {time.monotonic() - start:.0f} s. Open {out / 'index.html'}")


if __name__ == "__main__":
    main()
