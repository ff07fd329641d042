"""The documentation site: built once, without a warning; complete, without a dead link, and it fits a phone."""

from __future__ import annotations

import fcntl
import json
import os
import re
import subprocess
import sys
from collections import defaultdict
from functools import cache
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

import pytest
import typer

import sparingly as sp
from sparingly.cli import app
from sparingly.serve.app import Service
from sparingly.serve.openapi import document
from sparingly.serve.routes import routes
from tests.browsing import open_browser, opened

ROOT = Path(__file__).parent.parent
LOADS = {
    "img": "src",
    "script": "src",
    "source": "src",
    "iframe": "src",
    "video": "src",
    "audio": "src",
    "link": "href",
}
GUIDES = ("planning", "model_router", "steps", "episodes", "frozen_lake", "sweeps", "service", "client", "deployment")
STARTS = (
    "choosing", "paper", "claims", "tour", "tutorial", "install", "situations", "simulation", "speed", "glossary",
    "learners", "rules",
)  # fmt: skip
OPTIONAL = ("gallery", "peers")  # in the navigation as soon as they are there


class Page(HTMLParser):
    """The ids of a page, where its links lead, what it loads, and its text."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.ids: set[str] = set()
        self.links: list[str] = []
        self.loaded: list[str] = []
        self.words: list[str] = []
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        given = {name: value or "" for name, value in attrs}
        self.ids |= {given[name] for name in ("id", "name") if name in given}
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if LOADS.get(tag) in given and given.get("rel") not in ("canonical", "prev", "next", "index", "search"):
            self.loaded.append(given[LOADS[tag]])
        self.loaded += [part.split()[0] for part in given.get("srcset", "").split(",") if part.strip()]
        self.loaded += re.findall(r"url\(([^)]*)\)", given.get("style", ""))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


@cache
def read(path: Path) -> Page:
    return Page(path)


@pytest.fixture(scope="module")
def site(tmp_path_factory) -> Path:
    """The built site. Of several workers the first one builds it, and the others wait."""
    shared = tmp_path_factory.getbasetemp()
    shared = shared.parent if "PYTEST_XDIST_WORKER" in os.environ else shared
    out, record = shared / "site" / "docs", shared / "site.json"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not record.exists():
            command = [sys.executable, str(ROOT / "docs" / "site" / "build.py"), str(out)]
            done = subprocess.run(command, capture_output=True, text=True)
            record.write_text(json.dumps([done.returncode, done.stdout, done.stderr]))
    code, printed, complaints = json.loads(record.read_text())
    assert code == 0 and "WARNING" not in complaints, complaints
    assert str(out / "index.html") in printed  # it says where the page is
    return out


def pages(site: Path) -> list[Path]:
    return sorted(site.rglob("*.html"))


def reference(site: Path) -> dict[str, Page]:
    return {path.stem: read(path) for path in (site / "reference").glob("*.html")}


def test_pages_load_nothing_from_elsewhere(site):
    for path in pages(site):
        for address in read(path).loaded:
            parts = urlsplit(address)
            assert parts.scheme in ("", "data") and not parts.netloc, f"{path.name} loads {address}"
            assert parts.scheme or (path.parent / unquote(parts.path)).exists(), f"{path.name}: {address} is not there"
    for path in site.rglob("*.css"):
        text = re.sub(r"/\*.*?\*/", "", path.read_text(encoding="utf-8"), flags=re.DOTALL)
        assert "@import" not in text, path.name
        for address in re.findall(r"url\(\s*['\"]?([^'\")]*)", text):
            assert not re.match(r"(https?:)?//", address), f"{path.name} loads {address}"


def test_scripts_fetch_nothing_from_elsewhere(site):
    """The theme's scripts name hosts in comments on licences and in XML namespaces only."""
    for path in site.rglob("*.js"):
        text = re.sub(r"/\*.*?\*/|^\s*//[^\n]*", "", path.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)
        if path.name == "searchindex.js":
            continue  # the words of the pages
        for address in re.findall(r"https?://[^\s'\"`)]+", text):
            assert address.startswith("http://www.w3.org/"), f"{path.name} names {address}"


def test_every_link_and_anchor_leads_somewhere(site):
    dead = defaultdict(list)
    for path in pages(site):
        for link in read(path).links:
            parts = urlsplit(link)
            if parts.scheme in ("http", "https", "mailto"):
                continue
            target = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            there = target.is_relative_to(site) and target.is_file()
            if there and parts.fragment:
                there = unquote(parts.fragment) in read(target).ids
            if not there:
                dead[path.relative_to(site)].append(link)
    assert not dead, json.dumps({str(path): links[:5] for path, links in dead.items()}, indent=1)


def small_site(folder: Path, link: str) -> subprocess.CompletedProcess[str]:
    """The same configuration on a front page with one link and a section whose pages may be missing."""
    (folder / "docs").mkdir(exist_ok=True)
    (folder / "docs" / "planning.md").write_text("# Planning\n")
    contents = "```{sections}\nplanning\ngallery\ngallery/*\n```"
    (folder / "docs" / "index.md").write_text(f"# Front\n\n[words]({link})\n\n{contents}\n")
    options = ["-q", "-W", "--keep-going", "-c", str(ROOT / "docs" / "site"), str(folder / "docs"), str(folder / "out")]
    return subprocess.run([sys.executable, "-m", "sphinx", *options], capture_output=True, text=True)


@pytest.mark.parametrize("missing", ["sparingly/nothing.py", "nothing.md", "planning.md#nothing"])
def test_a_dead_link_ends_the_build(missing, tmp_path):
    done = small_site(tmp_path, missing)
    assert done.returncode != 0 and "xref_missing" in done.stderr, done.stderr
    assert done.stderr.count("WARNING") == 1, done.stderr  # not for the pages of the section that are not there


def test_the_gallery_is_taken_up_when_it_comes(tmp_path):
    (tmp_path / "docs" / "gallery").mkdir(parents=True)
    (tmp_path / "docs" / "gallery.md").write_text("# Gallery\n\n[one](gallery/one.md)\n")
    (tmp_path / "docs" / "gallery" / "one.md").write_text("# One\n\n[all](../gallery.md)\n")
    done = small_site(tmp_path, "planning.md")
    assert done.returncode == 0, done.stderr
    assert {"gallery.html", "gallery/one.html"} <= set(read(tmp_path / "out" / "index.html").links)


def test_every_public_name_is_in_the_reference(site):
    ids = set().union(*(page.ids for page in reference(site).values()))
    modules = {"budgets", "contexts", "features", "problems", "theory"}
    missing = [name for name in sp.__all__ if name not in modules and f"sparingly.{name}" not in ids]
    for name in sorted(modules):
        module = getattr(sp, name)
        assert f"module-sparingly.{name}" in ids, name
        inner = [part for part in module.__all__ if not hasattr(getattr(module, part), "__path__")]
        missing += [
            f"{name}.{part}" for part in inner
            if not {f"sparingly.{name}.{part}", f"module-sparingly.{name}.{part}"} & ids
        ]  # fmt: skip
    assert not missing
    for name in (
        "Client.decide", "AsyncClient", "gym.learn", "testing.check_rule", "problems.real.movielens",
        "problems.tables.from_table", "theory.upper.exact_arms", "theory.lower.linear", "lab.planning.plan",
        "lab.off_policy.evaluate", "lab.sweep.run_sweep", "lab.sweep_grid.read_sweep", "lab.backends.open_backend",
    ):  # fmt: skip
        assert f"sparingly.{name}" in ids, name


def test_docstrings_read_as_they_were_meant(site):
    """Marks of the source that were not understood would show up in the text."""
    for name, page in reference(site).items():
        for mark in (":py:obj:", ":doc:", "``", "TypeAliasForwardRef", "<factory>", "Alias for field number"):
            assert mark not in page.text, f"{name}: {mark}"
    assert "decide_episode(states: ArrayLike, actions: ArrayLike) → Booleans" in reference(site)["agent"].text
    assert "Found[" not in reference(site)["client"].text  # how an answer is fetched is not what a caller gets
    assert "6 sqrt(|L_R|/B) + 4SAH(log(1+B)+1)/B" in reference(site)["rules"].text


def test_the_reference_lists_parameters_and_what_comes_back(site):
    """From docstrings, in both forms, joined with the types of the signatures."""
    text = reference(site)["simulate"].text
    assert "jobs (int | None) -- how many threads to use." in text and "Parameters:-" not in text
    assert "Returns: regret, asks, spending" in text and "Return type: Simulation" in text
    agent = reference(site)["agent"].text
    assert re.search(r"rule \(Rule[^)]*\) -- Decides when to ask[.;]", agent) and "Parameters ----" not in agent
    assert "id (Any) -- the decision, or its id" in agent


def test_all_commands_and_their_options_are_in_the_reference(site):
    page = reference(site)["commands"]
    for name, command in typer.main.get_command(app).commands.items():
        assert f"command-{name}" in page.ids
        assert command.help.replace("`", "").partition("\n")[0] in page.text
        for parameter in command.params:
            for option in parameter.opts:
                if option.startswith("--"):
                    assert option in page.text, f"{name} {option}"


def test_all_operations_and_types_of_the_service_are_in_the_reference(site):
    page, api = reference(site)["http"], document(routes(Service), guarded=True)
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            assert f"{method.upper()} {path}" in page.text
            assert operation["summary"] in page.text
    for name, schema in api["components"]["schemas"].items():
        assert f"http-type-{name.lower()}" in page.ids
        for field in schema.get("properties", {}):
            assert field in page.text


def test_the_navigation_has_every_page(site):
    listed = {urlsplit(link).path for link in read(site / "index.html").links}
    here = [name for name in OPTIONAL if (ROOT / "docs" / f"{name}.md").exists()]
    here += [f"gallery/{path.stem}" for path in (ROOT / "docs" / "gallery").glob("*.md")]
    for name in (*STARTS, "project/contribute", "project/changes", *GUIDES, *here,
                 *(f"reference/{name}" for name in reference(site))):  # fmt: skip
        assert f"{name}.html" in listed, name


def test_formulas_are_typeset_without_the_network(site):
    for name, words in (("rules/exact_matching", "spent"), ("learners/oful", "index")):
        text = (site / f"{name}.html").read_text(encoding="utf-8")
        assert text.count("<math ") >= 2 and not re.search(r"<script[^>]*mathjax", text, re.IGNORECASE), name
        assert "\\frac" not in text and f"<mtext>{words}</mtext>" in text


def test_links_to_sources_show_them(site):
    text = read(site / "source" / "src" / "sparingly" / "rules" / "exact.py.html").text
    assert "class ExactMatching(Rule" in text
    lines = (ROOT / "src" / "sparingly" / "rules" / "exact.py").read_text().splitlines()
    line = next(number for number, text in enumerate(lines) if text.startswith("class ExactMatching("))
    link = next(
        link for link in read(site / "reference" / "rules.html").links if f"rules/exact.py.html#L-{line}" in link
    )
    assert link.startswith("../source/")  # its decorator stands on the line before


@pytest.fixture(scope="module")
def browser(site):
    with open_browser() as browser:
        yield browser


@pytest.mark.parametrize(
    "name", ["index", "tutorial", "choosing", "rules/exact_matching", "reference/agent", "reference/http"]
)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_pages_fit_a_phone(browser, site, name, scheme):
    with opened(browser, site / f"{name}.html", width=390, scheme=scheme) as page:
        assert page.evaluate("document.documentElement.scrollWidth") <= 390
        assert page.locator("h1").first.is_visible()
        assert page.evaluate(
            "[...document.images].every(i => i.loading === 'lazy' || (i.complete && i.naturalWidth > 0))"
        )


SEARCHES = {
    "ExactMatching": "reference/rules.html", "delayed feedback": "situations.html", "non-stationary": "situations.html",
    "warm start": "situations.html", "off-policy evaluation": "situations.html", "notebook": "tutorial.html",
}  # fmt: skip


def test_search_finds_rules_and_the_words_of_the_field_without_a_server(browser, site):
    with opened(browser, site / "search.html", width=1280) as page:
        for words, wanted in SEARCHES.items():
            page.goto((site / "search.html").as_uri() + "?q=" + quote(words))
            page.wait_for_selector("#search-results .search li a")
            found = page.locator("#search-results .search li a").evaluate_all(
                "links => links.map(a => a.getAttribute('href'))"
            )
            assert any(link.startswith(wanted) for link in found), (words, found)
