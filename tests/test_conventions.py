"""What people look for in an open-source project is there, and agrees with the package."""

from __future__ import annotations

import re
import tomllib
from datetime import date
from pathlib import Path
from typing import Any

import pytest
import yaml

import sparingly

ROOT = Path(__file__).parent.parent
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def parsed(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def normal(name: str) -> str:
    """The name of a package as installers compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def test_the_citation_is_of_this_version():
    citation = parsed("CITATION.cff")
    assert citation["cff-version"] == "1.2.0"
    assert citation["version"] == sparingly.__version__
    assert citation["license"] == PROJECT["license"]
    assert citation["authors"] == PROJECT["authors"]
    assert [person["family-names"] for person in citation["references"][0]["authors"]] == [
        "Efroni", "Merlis", "Saha", "Mannor",
    ]  # fmt: skip


def test_the_changelog_has_this_version():
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (.*)$", text, flags=re.MULTILINE)
    assert headings[0] == "[Unreleased]"
    versions = [re.fullmatch(r"\[(\d+\.\d+\.\d+)\] - (\S+)", heading) for heading in headings[1:]]
    assert all(versions), headings
    assert versions[0][1] == sparingly.__version__
    dates = [date.fromisoformat(version[2]) for version in versions]
    assert dates == sorted(dates, reverse=True)
    kinds = set(re.findall(r"^### (.*)$", text, flags=re.MULTILINE))
    assert kinds <= {"Added", "Changed", "Deprecated", "Removed", "Fixed", "Security"}


def jobs() -> dict[str, Any]:
    return parsed(".github/workflows/ci.yml")["jobs"]


def made() -> list[str]:
    """The targets that the workflow makes."""
    runs = [step["run"] for job in jobs().values() for step in job["steps"] if "run" in step]
    return sorted({target for run in runs for target in re.findall(r"\bmake ([\w-]+)", run)})


@pytest.mark.parametrize("target", made())
def test_the_workflow_makes_targets_that_exist(target):
    assert re.search(rf"^{target}:", MAKEFILE, flags=re.MULTILINE), f"the Makefile has no target {target}"


def test_the_workflow_runs_all_tests_on_every_python_that_is_promised():
    assert "test" in made()
    promised = [c.rpartition(" ")[2] for c in PROJECT["classifiers"] if re.search(r":: 3\.\d+$", c)]
    assert jobs()["test"]["strategy"]["matrix"]["python"] == promised
    assert PROJECT["requires-python"] == f">={promised[0]}"


def test_the_workflow_may_only_read_and_ends():
    assert parsed(".github/workflows/ci.yml")["permissions"] == {"contents": "read"}
    for name, job in jobs().items():
        assert "permissions" not in job, name
        assert job["timeout-minutes"] <= 120, name


def test_hooks_before_a_commit_download_nothing():
    for repo in parsed(".pre-commit-config.yaml")["repos"]:
        assert repo["repo"] == "local"
        for hook in repo["hooks"]:
            assert hook["language"] == "system"
            assert hook["entry"].startswith(".venv/bin/"), hook["entry"]


@pytest.mark.parametrize("name", ["bug_report", "feature_request"])
def test_forms_for_issues_are_complete(name):
    form = parsed(f".github/ISSUE_TEMPLATE/{name}.yml")
    assert {"name", "description", "body"} <= form.keys()
    fields = [field for field in form["body"] if field["type"] != "markdown"]
    ids = [field["id"] for field in fields]
    assert len(ids) == len(set(ids))
    assert all(field["attributes"]["label"] for field in fields)


def test_every_direct_dependency_is_pinned():
    lines = (ROOT / "constraints.txt").read_text(encoding="utf-8").splitlines()
    pins = [re.fullmatch(r"([\w.-]+)==[\w.]+", line) for line in lines]
    assert all(pins), [line for line, pin in zip(lines, pins, strict=True) if not pin]
    pinned = [normal(pin[1]) for pin in pins]
    assert len(pinned) == len(set(pinned))
    extras = PROJECT["optional-dependencies"].values()
    wanted = [*PROJECT["dependencies"], *(line for extra in extras for line in extra)]
    names = {normal(re.match(r"[\w.-]+", line)[0]) for line in wanted} - {"sparingly"}
    names |= {normal(name) for name in re.findall(r"--no-deps ([\w.-]+)", MAKEFILE)}
    assert not names - set(pinned)


def test_coverage_runs_tests_that_exist():
    text = MAKEFILE.replace("\\\n", " ")
    names = " ".join(re.findall(r"^COVERED_\w+ = (.*)$", text, flags=re.MULTILINE)).split()
    assert names
    there = {path.stem.removeprefix("test_") for path in (ROOT / "tests").rglob("test_*.py")}
    assert not set(names) - there
