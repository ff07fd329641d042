"""The shape of the project: imports point one way, every file introduces itself, examples in the docs run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
import types
from pathlib import Path

import pytest

from sparingly import numba_support

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "src" / "sparingly"

# From the ground up: a module may import from its own layer and from those above it in this list.
LAYERS = [
    {"errors", "version"},
    {"validation", "numba_support", "history"},
    {"interpreter"},
    {"randomness", "protocol", "parameters", "reasons", "vectors", "naming"},
    {"ledger"},
    {"budgets", "contexts", "features", "rules"},
    {"family", "layout"},
    {"tabular"},
    {"linear"},
    {"episodic"},
    {"settings", "learners"},
    {"agent", "saving", "agent_display", "roster", "stepping", "teaching"},
    {"problems"},
    {"simulation"},
    {"tabular.skip", "linear.fixed_set", "episodic.loop"},
    {"tabular.simulator", "linear.simulator", "linear.labels.simulator", "episodic.simulator"},
    {"simulation.simulate"},
    {"gym", "gym_spaces", "gym_steps", "testing", "theory"},
    {"lab", "serve"},
    {"cli"},
]


def modules():
    return sorted(p for p in PACKAGE.rglob("*.py") if p != PACKAGE / "__init__.py")


def layer(name: str) -> int:
    """Of a module, by its own name or that of its folder."""
    places = {known: i for i, names in enumerate(LAYERS) for known in names}
    return places[name] if name in places else places[name.split(".")[0]]


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_imports_point_one_way(path):
    here = ".".join(path.relative_to(PACKAGE).with_suffix("").parts)
    for node in ast.walk(ast.parse(path.read_text())):
        names = []
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "sparingly":
            module = node.module.partition(".")[2]
            inside = [alias.name for alias in node.names] if (PACKAGE / module.replace(".", "/")).is_dir() else [""]
            names = [f"{module}.{name}".strip(".") for name in inside]
        for name in names:
            assert layer(name) <= layer(here), f"{path.name} imports {name}"


@pytest.mark.slow
def test_every_module_can_be_imported_first():
    """No two modules wait for each other: each is imported while none of its own folder is there."""
    code = """
import importlib, sys
for name in sys.argv[1:]:
    for known in [known for known in sys.modules if known.split(".")[:2] == name.split(".")[:2]]:
        del sys.modules[known]
    importlib.import_module(name)
"""
    parts = [path.relative_to(PACKAGE.parent).with_suffix("").parts for path in modules()]
    names = sorted(".".join(name[:-1] if name[-1] == "__init__" else name) for name in parts)
    subprocess.run([sys.executable, "-c", code, *names], check=True)


@pytest.mark.parametrize("path", [*modules(), *sorted((ROOT / "tests").rglob("test_*.py"))], ids=lambda p: p.name)
def test_every_file_introduces_itself(path):
    assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(PACKAGE)))
def test_functions_fit_on_a_screen(path):
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.FunctionDef):
            assert node.end_lineno - node.lineno < 70, f"{node.name} is {node.end_lineno - node.lineno} lines long"


def documents():
    return [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]


# service.md needs a service to talk to: tests/serve/test_docs.py runs it.
@pytest.mark.slow
@pytest.mark.parametrize("path", [p for p in documents() if p.name != "service.md"], ids=lambda p: p.name)
def test_examples_in_the_documents_run(path, tmp_path, monkeypatch, capsys):
    """All Python blocks of a document run in order, as one module; a text block is what they have printed."""
    module = types.ModuleType("document")
    monkeypatch.setitem(sys.modules, "document", module)  # dataclasses look their module up
    monkeypatch.chdir(tmp_path)
    for number, block in enumerate(re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)):
        exec(compile(block, f"{path.name}, example {number}", "exec"), module.__dict__)
    printed = capsys.readouterr().out
    for block in re.findall(r"```text\n(.*?)```", path.read_text(), flags=re.DOTALL):
        assert block in printed


def test_no_number_was_left_out():
    for path in documents():
        assert not re.findall(r"\b[A-Z]+_(?:NS|US|RATIO)\b", path.read_text()), path.name


@pytest.mark.parametrize("path", documents(), ids=lambda p: p.name)
def test_links_in_the_documents_lead_somewhere(path):
    for target in re.findall(r"\]\(([^)#]+)\)", path.read_text()):
        if not target.startswith("http"):
            assert (path.parent / target).exists(), target


@pytest.mark.slow
def test_compiled_code_is_forgotten_when_a_source_changes(tmp_path):
    """An edit of a formula reaches the functions that it was compiled into."""
    import shutil

    shutil.copytree(PACKAGE, tmp_path / "sparingly", ignore=shutil.ignore_patterns("__pycache__"))
    code = "import sparingly as sp; print(sp.Agent(sp.UCB1(2), sp.Always(), budget=9, seed=0).decide().width)"

    def run() -> str:
        environment = {k: v for k, v in os.environ.items() if k != "NUMBA_CACHE_DIR"} | {"PYTHONPATH": str(tmp_path)}
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    before = run()
    assert list(tmp_path.rglob("*.nbi"))
    rounds = tmp_path / "sparingly" / "tabular" / "round.py"
    rounds.write_text(rounds.read_text().replace("math.sqrt(6.0 * math.log(", "math.sqrt(24.0 * math.log("))
    assert float(run()) == pytest.approx(2 * float(before))


OWN = """
import sys
from dataclasses import dataclass
import sparingly as sp


@sp.compiled
def asks(rule, question):
    return question.asked < rule.most


@dataclass(frozen=True)
class NAME(sp.Rule, tabular=asks):
    most: int = 3


r = sp.simulate(sp.problems.Arms([0.5]), sp.UCB1(1), NAME(), 100, rounds=20, runs=1)
print(r.asked[0, -1], sp.Agent(sp.UCB1(1), NAME(), budget=9, seed=0).decide().ask)
"""


@pytest.mark.slow
def test_a_rule_that_had_another_name_does_no_harm(tmp_path):
    """What is kept on disk must not name a user's classes: another process, where they are gone, has to read it."""
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path / "cache"), "PYTHONPATH": str(tmp_path)}
    for name in ("First", "Second"):
        (tmp_path / "mine.py").write_text(OWN.replace("NAME", name))
        done = subprocess.run(
            [sys.executable, "-W", "error", "-c", "import mine"], env=environment, capture_output=True, text=True
        )
        assert (done.returncode, done.stdout) == (0, "3 True\n"), done.stderr
    kept = list((tmp_path / "cache").rglob("*.nbi"))
    assert kept
    assert not [path for path in kept if b"First" in path.read_bytes() or b"Second" in path.read_bytes()]


@pytest.mark.slow
def test_kept_code_that_is_damaged_is_made_anew(tmp_path):
    code = "import sparingly as sp; print(sp.Agent(sp.UCB1(2), sp.Always(), budget=9, seed=0).decide().ask)"
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    for _ in range(3):
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (0, "True\n"), done.stderr
        for path in [*tmp_path.rglob("*.nbi"), *tmp_path.rglob("*.nbc")][::2]:
            path.write_bytes(path.read_bytes()[:-20])


def test_where_compiled_code_cannot_be_kept_every_process_makes_it():
    """numba looks for a place in zip files only, and finds none."""
    script = (
        "import time, sparingly\n"
        "from sparingly import numba_support\n"
        "print(numba_support.compiled(lambda x: x + 1)(1))\n"
        "with numba_support.notice('it', patience=0.0): time.sleep(0.3)\n"
    )
    places = os.environ | {"NUMBA_CACHE_LOCATOR_CLASSES": "ZipCacheLocator"}
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, env=places)
    assert done.stdout == "2\n"
    assert "compiling it, in every process; with NUMBA_CACHE_DIR set" in done.stderr


def test_nothing_is_compiled_where_edits_are_not_watched():
    for part in numba_support.UNCOMPILED:
        for path in (PACKAGE / part).rglob("*.py") if (PACKAGE / part).is_dir() else [PACKAGE / part]:
            assert not re.search(r"^@(compiled|inlined|apart)|njit", path.read_text(), flags=re.MULTILINE), path


def test_no_path_of_this_machine_and_no_download_address():
    tracked = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout.split()
    for name in tracked:
        if Path(name).suffix in {".py", ".md", ".toml", ".txt", ".c", ""}:
            text = (ROOT / name).read_text(encoding="utf-8")
            assert str(ROOT) not in text, name
            assert "index-" + "url" not in text, name
