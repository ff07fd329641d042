"""Runs mutants: a copy of the working tree for each, its tests and its claims in processes of their own.

What was run is kept in files, each with a hash of what it depends on: an interrupted run goes on where it stopped, and
after an edit only what it may have changed is run again.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from sparingly.lab.claims import CLAIMS
from sparingly.lab.reproduce import atomic_write, choose
from tests.mutants.claims import noticed
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
COPIED = ("src", "tests", "benchmarks", "scripts", "pyproject.toml")
LIMIT = 300.0  # seconds for the tests of a mutant, and for its claims
CONTROL_LIMIT = 1_800.0  # for those of one file without a mutant, which also compile


@dataclass(frozen=True)
class Outcome:
    """What the tests, or the claims, have said of a mutant."""

    state: str  # killed, timeout, survived, skipped (nothing could be run here), broken (it could not even begin)
    by: str = ""  # the test or the claim
    how: str = ""  # what it said
    seconds: float = 0.0  # of the processor

    @property
    def killed(self) -> bool:
        return self.state in ("killed", "timeout")


@dataclass(frozen=True)
class Ended:
    """A process that has ended, or was ended because it took too long."""

    code: int
    text: str
    seconds: float
    late: bool


stopping = threading.Event()  # set when everything is to end


def run(command: Sequence[str], folder: Path, environment: dict[str, str], limit: float) -> Ended:
    """Run a command in a process group of its own; whatever it has started ends with it."""
    with tempfile.TemporaryFile("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
        start, late = time.monotonic(), False
        done: tuple[int, int, Any] = (0, 0, None)
        try:
            while done[0] == 0:
                done = os.wait4(process.pid, os.WNOHANG)
                late = done[0] == 0 and (time.monotonic() - start > limit or stopping.is_set())
                if late:
                    os.killpg(process.pid, signal.SIGKILL)
                    done = os.wait4(process.pid, 0)
                elif done[0] == 0:
                    time.sleep(0.02)
        finally:
            process.returncode = os.waitstatus_to_exitcode(done[1]) if done[0] else None
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
        used: Any = done[2]
        output.seek(0)
        return Ended(process.returncode or 0, output.read(), used.ru_utime + used.ru_stime, late)


def environment_of(tree: Path, interpreted: bool) -> dict[str, str]:
    """A process there sees the copy of the package and of the tests, and nothing of this working tree."""
    mine = {key: value for key, value in os.environ.items() if key not in ("NUMBA_CACHE_DIR", "NUMBA_DISABLE_JIT")}
    mine |= {"PYTHONPATH": f"{tree / 'src'}{os.pathsep}{tree}", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return mine | ({"NUMBA_DISABLE_JIT": "1"} if interpreted else {})


def in_python(mutant: Mutant) -> bool:
    """Whether its tests run as plain Python. Those of the service take the code that is compiled already."""
    return not mutant.compiled and not mutant.serves


# Claims that play so few rounds that plain Python is done before the compiler would be.
SHORT = (
    "constants/arms", "constants/features", "constants/ledger", "constants/ucbvi", "constants/ulcvi",
    "corrections/e1", "corrections/e3", "corrections/e6",
)  # fmt: skip


def claims_of(mutant: Mutant, interpreted: bool) -> list[str]:
    """The ids of those of its claims that run as plain Python, or compiled; a group stands for all of its claims."""
    ids = list(dict.fromkeys(claim.id for word in mutant.claims for claim in choose([word])))
    return [name for name in ids if (mutant.recompiles and name in SHORT) == interpreted]


@dataclass(frozen=True)
class Case:
    """A test that has run: its id, and what became of it."""

    id: str
    state: str  # passed, failed, skipped, broken
    how: str = ""


def cases_of(report: Path) -> list[Case]:
    """All tests of a report in JUnit's form."""
    found = []
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname', '').replace('.', '/')}.py::{case.get('name')}".removeprefix("tests/")
        state, how = "passed", ""
        for part in case:
            how = (part.get("message") or "").strip()
            if part.tag in ("failure", "error"):
                state = "broken" if "collection failure" in how else "failed"
            elif part.tag == "skipped":
                state = "skipped"
        found.append(Case(name, state, how))
    return found


def run_tests(tree: Path, ids: Sequence[str], interpreted: bool, limit: float, first: bool) -> tuple[list[Case], Ended]:
    """Run tests in a tree, up to the `first` that fails or all of them."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "--tb=short", f"--junitxml={report}"]
        command += ["--hypothesis-profile=unshrunk", *(["-x"] if first else [])]  # that it fails is enough
        command += [f"tests/{test}" for test in ids]
        ended = run(command, tree, environment_of(tree, interpreted), limit)
        return cases_of(report) if report.exists() else [], ended


def judged_by_tests(cases: Sequence[Case], ended: Ended) -> Outcome:
    """What the tests have said of a mutant."""
    if ended.late:
        return Outcome("timeout", "", f"took longer than {LIMIT:.0f} s", ended.seconds)
    failed = next((case for case in cases if case.state == "failed"), None)
    if failed is not None:
        return Outcome("killed", failed.id, failed.how.splitlines()[0][:200] if failed.how else "", ended.seconds)
    if ended.code != 0:
        return Outcome("broken", "", ended.text[-2_000:], ended.seconds)
    if all(case.state == "skipped" for case in cases):
        return Outcome("skipped", "", cases[0].how if cases else "", ended.seconds)
    return Outcome("survived", seconds=ended.seconds)


def run_claims(
    tree: Path, ids: Iterable[str], interpreted: bool, limit: float, sound: Path | None = None
) -> tuple[list[Any], Ended]:
    """Run claims in a tree; given those of the `sound` package, up to the first that notices a difference."""
    command = [sys.executable, "-m", "tests.mutants.claims", *ids]
    command += [] if sound is None else ["--against", str(sound)]
    ended = run(command, tree, environment_of(tree, interpreted), limit)
    return [json.loads(line) for line in ended.text.splitlines() if line.startswith('{"id"')], ended


def judged_by_claims(found: Sequence[Any], ended: Ended, sound: dict[str, Any]) -> Outcome:
    """What the claims have said of a mutant."""
    for claim in found:
        says = noticed(sound[claim["id"]], claim)
        if says:
            return Outcome("killed", claim["id"], says[:200], ended.seconds)
    if ended.late:
        return Outcome("timeout", "", f"took longer than {LIMIT:.0f} s", ended.seconds)
    if ended.code != 0:
        return Outcome("broken", "", ended.text[-2_000:], ended.seconds)
    return Outcome("survived", seconds=ended.seconds)


# What results depend on.


def digest(parts: Iterable[Any]) -> str:
    return hashlib.sha256(repr(list(parts)).encode()).hexdigest()[:24]


@cache
def content(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def package_files(without: tuple[str, ...]) -> list[Path]:
    package = ROOT / "src" / "sparingly"
    return [p for p in sorted(package.rglob("*.py")) if p.relative_to(package).parts[0] not in without]


@cache
def test_files(folder_or_file: Path) -> tuple[Path, ...]:
    """A file of tests, and what stands beside it and is no file of tests itself."""
    beside = [p for p in folder_or_file.parent.glob("*.py") if not p.name.startswith("test_")]
    return tuple(sorted({folder_or_file, ROOT / "tests" / "conftest.py", *beside}))


def tests_key(ids: Sequence[str], interpreted: bool) -> str:
    """Of a run of tests: the tests, and the part of the package that they may run."""
    folders = {test.partition("/")[0] for test in ids}
    without = tuple(part for part in ("lab", "serve", "cli.py") if part not in folders)
    if "serve" in folders:
        without = ("lab",)
    files = [path for test in ids for path in test_files(ROOT / "tests" / test.partition("::")[0])]
    return digest([ids, interpreted, [content(path) for path in [*package_files(without), *files]]])


def claims_key(ids: Iterable[str]) -> str:
    """Of a run of claims."""
    return digest([list(ids), [content(path) for path in package_files(("serve", "cli.py"))]])


class Void(Exception):
    """Without any mutant, a test or a claim fails: nothing that is said of mutants would mean anything."""


class Workshop:
    """Copies of the working tree, and what is kept of the runs in them."""

    def __init__(self, out: Path) -> None:
        self.out = out.absolute()
        self.out.mkdir(parents=True, exist_ok=True)

    @cached_property
    def base(self) -> Path:
        """A copy of the working tree without a mutant; what is compiled there is kept."""
        mark = digest([(str(p.relative_to(ROOT)), content(p)) for p in _all_files()])
        base = self.out / "base"
        if not (base / "made-from").exists() or (base / "made-from").read_text() != mark:
            _renew(base)
            (base / "made-from").write_text(mark)
        return base

    @contextlib.contextmanager
    def tree(self, mutant: Mutant) -> Iterator[Path]:
        """A copy with the mutant in it. What is compiled goes along if it does not depend on the mutant's file."""
        with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
            stale = shutil.ignore_patterns("*.nbi", "*.nbc", "compiled-from.txt") if mutant.recompiles else None
            shutil.copytree(self.base, Path(folder) / "tree", ignore=stale)
            mutant.apply(Path(folder) / "tree" / "src" / "sparingly")
            yield Path(folder) / "tree"

    # Kept results.

    def _path(self, mutant: Mutant, what: str) -> Path:
        return self.out / what / f"{mutant.id.replace('/', '.')}.json"

    def _key(self, mutant: Mutant, what: str) -> str:
        own = digest([mutant.file, mutant.old, mutant.new])
        if what == "tests":
            return own + tests_key(mutant.tests, in_python(mutant))
        return own + claims_key([name for interpreted in (True, False) for name in claims_of(mutant, interpreted)])

    def kept(self, mutant: Mutant, what: str) -> Outcome | None:
        """The outcome of its tests or its claims, if it is kept and nothing has changed since."""
        found = _read(self._path(mutant, what))
        return Outcome(**found["outcome"]) if found.get("key") == self._key(mutant, what) else None

    def keep(self, mutant: Mutant, what: str, outcome: Outcome) -> None:
        if outcome.state not in ("broken", "skipped") and not stopping.is_set():
            _write(self._path(mutant, what), {"key": self._key(mutant, what), "outcome": asdict(outcome)})

    def judge(self, mutant: Mutant, what: Sequence[str]) -> dict[str, Outcome]:
        """What its tests and its claims say, as far as that is not kept."""
        found = {name: self.kept(mutant, name) for name in what}
        if None in found.values():
            with self.tree(mutant) as tree:
                for name in [name for name, outcome in found.items() if outcome is None]:
                    judge = self._judge_by_tests if name == "tests" else self._judge_by_claims
                    outcome = judge(mutant, tree)
                    self.keep(mutant, name, outcome)
                    found[name] = outcome
        return {name: outcome for name, outcome in found.items() if outcome is not None}

    def _judge_by_tests(self, mutant: Mutant, tree: Path) -> Outcome:
        """Up to the first that fails."""
        return judged_by_tests(*run_tests(tree, mutant.tests, in_python(mutant), LIMIT, True))

    def _judge_by_claims(self, mutant: Mutant, tree: Path) -> Outcome:
        """The short ones first, as plain Python; then the others, if they have not killed it."""
        outcome = Outcome("survived")
        for interpreted in (True, False):
            ids, sound = claims_of(mutant, interpreted), self.sound_claims(interpreted)
            if ids and outcome.state == "survived":
                now = judged_by_claims(*run_claims(tree, ids, interpreted, LIMIT, sound), _read(sound))
                outcome = replace(now, seconds=outcome.seconds + now.seconds)
        return outcome

    # The control: without a mutant all tests pass, and all claims hold.

    def sound_claims(self, interpreted: bool) -> Path:
        """What claims say without a mutant."""
        return self.out / ("short-claims.json" if interpreted else "claims.json")

    def check_tests(self, mutants: Iterable[Mutant]) -> Iterator[str]:
        """Run the tests that these mutants name, file by file, unless they have passed before. Yields what it does."""
        named: defaultdict[tuple[str, bool], list[str]] = defaultdict(list)
        for mutant in mutants:
            for test in mutant.tests:
                tests = named[test.partition("::")[0], in_python(mutant)]
                tests += [test] if test not in tests else []
        path = self.out / "control.json"
        for (file, interpreted), tests in named.items():
            passed, keys = _read(path), {f"{test} {interpreted}": tests_key([test], interpreted) for test in tests}
            todo = [test for test in tests if passed.get(f"{test} {interpreted}") != keys[f"{test} {interpreted}"]]
            if todo:
                yield f"{file}: {len(todo)} tests{' as plain Python' if interpreted else ''}"
                cases, ended = run_tests(self.base, todo, interpreted, CONTROL_LIMIT, False)
                failed = [case.id for case in cases if case.state in ("failed", "broken")]
                if ended.late or ended.code != 0:
                    raise Void(f"without a mutant, {', '.join(failed) or file} fails:\n{ended.text[-3_000:]}")
                _write(path, passed | keys)

    def check_claims(self, mutants: Iterable[Mutant]) -> Iterator[str]:
        """The same for their claims."""
        named = ((name, how) for mutant in mutants for how in (True, False) for name in claims_of(mutant, how))
        for name, interpreted in dict.fromkeys(named):
            sound = _read(self.sound_claims(interpreted))
            if sound.get(name, {}).get("key") == claims_key([name]):
                continue
            yield f"claim {name}{' as plain Python' if interpreted else ''}"
            found, ended = run_claims(self.base, [name], interpreted, CONTROL_LIMIT)
            if not found or found[0]["verdict"] == "fails":
                raise Void(f"without a mutant, the claim {name} does not hold:\n{ended.text[-3_000:]}")
            _write(self.sound_claims(interpreted), sound | {name: found[0] | {"key": claims_key([name])}})


def unknown_claims(mutant: Mutant) -> list[str]:
    """The claims that it names and that do not exist."""
    known = {*CLAIMS, *(claim.group for claim in CLAIMS.values())}
    return [word for word in mutant.claims if word not in known]


def _all_files() -> list[Path]:
    found = [p for name in COPIED if (ROOT / name).is_dir() for p in (ROOT / name).rglob("*")]
    found += [ROOT / name for name in COPIED if (ROOT / name).is_file()]
    return sorted(p for p in found if p.is_file() and "__pycache__" not in p.parts)


def _renew(base: Path) -> None:
    """Copy the working tree anew; a file that is the same stays, and with it what was compiled from it."""
    here = {p.relative_to(ROOT) for name in COPIED for p in [ROOT / name, *(ROOT / name).rglob("*")] if p.is_file()}
    here = {p for p in here if "__pycache__" not in p.parts}
    for path in [p for p in base.rglob("*") if p.is_file() and "__pycache__" not in p.parts]:
        if path.relative_to(base) not in here:
            path.unlink()
    for name in here:
        if not (base / name).exists() or (base / name).read_bytes() != (ROOT / name).read_bytes():
            (base / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, base / name)


def _read(path: Path) -> dict[str, Any]:
    try:
        found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return found
    except (OSError, ValueError):
        return {}


def _write(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with atomic_write(path) as draft:
        draft.write_text(json.dumps(value, indent=1, ensure_ascii=False), encoding="utf-8")
