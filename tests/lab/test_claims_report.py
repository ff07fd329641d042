"""The report: it says everything, escapes it, is the same every time, and looks right in a real browser."""

from __future__ import annotations

import contextlib
import itertools
import math
import os
import re
import subprocess
import sys
from collections import Counter
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from PIL import Image

from sparingly.errors import InvalidInput
from sparingly.lab import claims_figures
from sparingly.lab.claim_formulas import FORMULAS
from sparingly.lab.claims import CLAIMS, Check, Curve, Panel
from sparingly.lab.claims.evidence import VERDICTS, power_words, powers
from sparingly.lab.claims.statistics import NORMAL
from sparingly.lab.claims_report import grouped, write_report
from sparingly.lab.formatting import bar, number, value_and_interval
from sparingly.lab.mathml import mathml
from sparingly.lab.styles import COLOURS, RULE_COLOURS
from tests.browsing import assert_fits, browser_path, open_browser, opened
from tests.lab import sample_records as samples

ABOUT = {"version": "1.2.3", "seed": "0", "command": "sparingly reproduce --out <here>"}


class Reader(HTMLParser):
    """All elements of a page with their attributes, and all of its text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_data(self, data):
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join("".join(self.words).split())


@pytest.fixture(scope="module")
def path(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("report") / "deeper" / "report.html"
    write_report(path, samples.sample(), "quick", ABOUT)
    return path


@pytest.fixture(scope="module")
def page(path) -> str:
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def reader(page) -> Reader:
    return Reader(page)


def test_everything_that_a_record_says_is_there(reader):
    for record in samples.sample():
        for words in (record.id, record.statement, record.source, record.judged, record.correction, record.verdict,
                      record.evidence.note, *(check.says for check in record.evidence.checks),
                      *(check.test for check in record.evidence.checks),
                      *(panel.title for panel in record.evidence.panels)):  # fmt: skip
            assert words in reader.text
    for words in ("quick", *ABOUT, *ABOUT.values(), "shown", "refuted", "open", "1e-06 (one in 1,000,000)", "1.8e-05"):
        assert words in reader.text
    supposed = sum(NORMAL in check.test for record in samples.sample() for check in record.evidence.checks)
    assert supposed and f"For {supposed} of these that is so “{NORMAL}”" in reader.text
    assert "Confidence-Budget Matching for Sequential Budgeted Learning" in reader.text
    assert f"Of the checks here {power_words(all_checks())}." in reader.text
    assert "margin 2, loose" in reader.text  # 0.51234 [0.50111, 0.52345] against 1


def all_checks():
    return [check for record in samples.sample() for check in record.evidence.checks]


def test_verdicts_are_counted(page):
    counts = Counter(record.verdict for record in samples.sample())
    tiles = re.findall(r'class="count">(\d+)</span> <span class="badge.*?</span> ([a-z ]+)</span></li>', page)
    assert tiles == [(str(counts[verdict]), verdict) for verdict in VERDICTS]
    assert min(counts.values()) > 0


def test_what_claims_say_stays_text(page, reader):
    tags = Counter(tag for tag, _ in reader.elements)
    assert not {"img", "b", "narrow"} & set(tags)
    assert tags["script"] == 1  # the page's own
    assert not [name for _, attributes in reader.elements for name in attributes if name.startswith("on")]
    assert tags["article"] == len(samples.sample())
    assert "<script>alert" not in page and "&lt;script&gt;alert" in page
    assert "<script>alert('x')</script> & \"quotes\"" in reader.text
    assert 'a < b & $c_1$ #1 "quoted"' in reader.text  # in a legend


def test_nothing_comes_from_outside(page, reader):
    assert "http://" not in page and "https://" not in page and "@import" not in page
    assert not re.findall(r"url\((?!#)", page)
    for _, attributes in reader.elements:
        assert "src" not in attributes
        assert (attributes.get("href") or "#").startswith(("#", "data:"))


def test_ids_are_unique_and_links_lead_to_them(page, reader):
    ids = Counter(attributes["id"] for _, attributes in reader.elements if "id" in attributes)
    assert max(ids.values()) == 1
    links = {attributes["href"] for tag, attributes in reader.elements if tag in ("a", "use")}
    assert links and {link.removeprefix("#") for link in links} <= set(ids)
    assert set(re.findall(r"url\(#([^)]+)\)", page)) <= set(ids)
    assert {record.id for record in samples.sample()} <= set(ids)


def test_headings_go_down_one_step_at_a_time(reader):
    levels = [int(tag[1]) for tag, _ in reader.elements if re.fullmatch("h[1-6]", tag)]
    assert levels[0] == 1 and levels.count(1) == 1
    assert all(after - before <= 1 for before, after in itertools.pairwise(levels))


def test_the_same_records_give_the_same_bytes(path, tmp_path):
    again = tmp_path / "again.html"
    write_report(again, samples.sample(), "quick", ABOUT)
    assert again.read_bytes() == path.read_bytes()


def test_a_figure_does_not_depend_on_the_order_of_sets():
    imports = "from tests.lab.sample_records import *; from sparingly.lab.claims_figures import *"
    code = f"{imports}; print(panel_svg(hard_panel(), 'k'))"
    seen = {
        subprocess.run(
            [sys.executable, "-c", code], env=os.environ | {"PYTHONHASHSEED": seed}, cwd=Path(__file__).parents[2],
            capture_output=True, text=True, check=True,
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(seen) == 1


def test_groups_have_their_headings_and_order():
    assert {heading: [record.id.partition("/")[0] for record in members]
            for heading, members in grouped(samples.sample()).items()} == {
        "Our own rules": ["ours"],
        "Lower bounds": ["lower"],
        "The greedy reduction": ["greedy", "greedy"],
        "Multi-armed bandits (CBM-UCB)": ["ucb"],
        "Linear bandits (CBM-OFUL)": ["oful"],
        "Episodic reinforcement learning": ["ucbvi", "ulcvi", "episodic"],
        "Budget profiles": ["profiles"],
        "Remarks": ["remarks"],
        "Corrections to the paper": ["corrections"],
        "Extra": ["extra", "extra"],
    }  # fmt: skip
    assert list(grouped(samples.sample()))[:3] == ["Our own rules", "Lower bounds", "The greedy reduction"]
    assert list(grouped(samples.sample()))[-1] == "Extra"


def test_a_claim_is_reported_once(tmp_path):
    with pytest.raises(InvalidInput, match="several of lower/arms"):
        write_report(tmp_path / "report.html", [samples.sample()[1]] * 2, "quick", {})
    assert not list(tmp_path.iterdir())


def test_a_report_without_claims(tmp_path):
    write_report(tmp_path / "report.html", [], "quick", {})
    assert "0 claims" in (tmp_path / "report.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("value", "low", "high", "limit", "shown"),
    [
        (1_204, 1_204, 1_204, 0, ("1,204", "", "0")),
        (1.00000004, 1.00000004, 1.00000004, 1, ("1.00000004", "", "1")),
        (0.99, 0.98, 1.0004, 1, ("0.9900", "[0.9800, 1.0004]", "1")),
        (math.nan, -math.inf, math.inf, 2, ("undefined", "[−∞, ∞]", "2")),
        (-12.345, -13.0, -11.7, 1e-6, ("−12.3", "[−13.0, −11.7]", "1e-06")),
        (0.000123, 0.0, 0.34, 1, ("0.00012", "[0.00, 0.34]", "1")),
        (1.2e-7, 0.9e-7, 1.5e-7, 1e-6, ("1.2e-07", "[9e-08, 1.5e-07]", "1e-06")),
        (math.inf, math.inf, math.inf, math.inf, ("∞", "", "∞")),
    ],
)
def test_digits(value, low, high, limit, shown):
    """Two of the width of the interval, but enough to tell a number from the bar."""
    check = Check("", value, "≤", limit, low, high, "shown", "t")
    assert (*value_and_interval(check), bar(check)) == shown


def test_whole_numbers_are_written_in_full():
    assert number(10**9) == "1,000,000,000"
    assert number(1e300) == "1e+300"


def test_formulas_are_of_claims_and_are_typeset(tmp_path):
    assert set(FORMULAS) <= set(CLAIMS)
    for name, formula in FORMULAS.items():
        made = mathml(formula, block=True)
        ElementTree.fromstring(made)
        words = "".join(ElementTree.fromstring(made).itertext())
        assert not re.search(r"[\\{}]\w|frac|left|right", words.replace("{(", "").replace(")}", "")), (name, words)
    known = samples.record("lower/linear", "A bound.", samples.shown())
    write_report(tmp_path / "report.html", [known], "quick", {})
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    assert mathml(FORMULAS["lower/linear"], block=True) in page


def test_a_claim_without_a_sharp_check_says_so(tmp_path):
    """0.51 against a bar of 1 is loose; an equality notices everything."""
    equal = Check("none refused", 0.0, "=", 0.0, 0.0, 0.0, "shown", "exact")
    for checks, told in (((samples.shown(),), True), ((samples.shown(), equal), False)):
        write_report(tmp_path / "report.html", [samples.record("ucb/x", "A bound.", *checks)], "quick", {})
        page = (tmp_path / "report.html").read_text(encoding="utf-8")
        assert ("No check of this claim is sharp" in page) == told
        assert ("1 claim has no sharp check" in page) == told


# Figures


PANELS = [panel for record in samples.sample() for panel in record.evidence.panels]


@pytest.mark.parametrize("panel", PANELS, ids=lambda panel: panel.title)
def test_a_panel_takes_its_ink_from_the_page(panel):
    svg = claims_figures.panel_svg(panel, "key")
    root = ElementTree.fromstring(svg)
    styles = " ".join(element.get("style", "") for element in root.iter())
    assert root.get("role") == "img" and panel.title in root.get("aria-label")
    assert "currentColor" in styles and claims_figures.INK not in svg and "xmlns" not in svg
    assert not re.findall(r"(?:fill|stroke): (?:#000000|#ffffff|black|white)", styles)
    assert "font-family" not in styles


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_for_the_documents(tmp_path, ending):
    first, second = tmp_path / "new" / f"a.{ending}", tmp_path / f"b.{ending}"
    for path in (first, second):
        claims_figures.panel_picture(samples.regret_panel(), path)
    assert first.read_bytes() == second.read_bytes()
    if ending == "png":
        with Image.open(first) as image:
            assert image.getpixel((0, 0))[:3] == (255, 255, 255) and image.width > 1_000
    else:
        assert "Regret of ten arms" in first.read_text() and "currentColor" not in first.read_text()


def test_captions_name_the_seed_where_chance_played_a_part(page, tmp_path):
    measured, formula = samples.regret_panel(), samples.formula_panel()
    assert claims_figures.caption(measured, 7) == "Regret of ten arms, 1,000 asks (seed 7)"
    assert claims_figures.caption(formula, 7) == formula.title
    assert "<figcaption>Regret of ten arms, 1,000 asks (seed 0)</figcaption>" in page
    assert f"<figcaption>{formula.title}</figcaption>" in page
    claims_figures.panel_picture(measured, tmp_path / "a.svg", seed=7)
    assert "(seed 7)" in (tmp_path / "a.svg").read_text()


def drawn(panel: Panel):
    with claims_figures.matplotlib.rc_context(claims_figures.STYLE):
        return claims_figures._draw(panel).axes[0]


def test_axes_are_logarithmic_where_the_numbers_allow_it():
    axis = drawn(samples.regret_panel())
    assert (axis.get_xscale(), axis.get_yscale()) == ("log", "log")
    axis = drawn(samples.hard_panel())
    assert (axis.get_xscale(), axis.get_yscale()) == ("symlog", "symlog")
    axis = drawn(samples.linear_panel())
    assert (axis.get_xscale(), axis.get_yscale()) == ("linear", "linear")
    zero = Panel("", "x", "y", (Curve("no regret at all", (1.0, 10.0), (0.0, 0.0)),))
    assert drawn(zero).get_yscale() == "linear"


def test_a_band_below_zero_does_not_stretch_a_logarithmic_axis():
    panel = Panel("", "x", "y", (Curve("a", (1.0, 10.0), (5.0, 50.0), (-1.0, 0.0), (9.0, 90.0)),))
    assert drawn(panel).get_yscale() == "log"
    assert drawn(panel).get_ylim()[0] > 1.0


def test_curves_are_told_apart_without_colour():
    looks = [claims_figures._measured_style(place, 50, "#0072B2") for place in range(14)]
    assert len({(str(look["linestyle"]), look["marker"], look["markerfacecolor"] == "none") for look in looks}) == 14
    lines = {line.get_label(): line for line in drawn(samples.regret_panel()).lines}
    upper, lower, measured = (lines[k] for k in ("upper bound, Theorem 3", "lower bound", "Greedy"))
    assert upper.get_linewidth() > measured.get_linewidth() and upper.is_dashed() and lower.is_dashed()
    assert upper.get_linestyle() and upper.get_marker() == lower.get_marker() == "None" != measured.get_marker()
    assert upper._unscaled_dash_pattern != lower._unscaled_dash_pattern


def luminance(colour: str) -> float:
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    light = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return float(np.dot(light, (0.2126, 0.7152, 0.0722)))


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def test_text_and_lines_stand_out_in_both_themes():
    """WCAG 2: 4.5 for text, 3 for lines."""
    css = files("sparingly.lab").joinpath("templates", "report.css").read_text(encoding="utf-8")
    light, dark = (dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block)) for block in css.split("@media", 2)[:2])
    assert set(light) == set(dark)
    for theme in (light, dark):
        for ground in ("page", "card"):
            for ink in ("ink", "quiet", "link", "good", "fair", "bad"):
                assert contrast(theme[ink], theme[ground]) >= 4.5, (ink, ground)
        for kind in ("good", "fair", "bad"):
            assert contrast(theme[kind], theme[f"{kind}-soft"]) >= 4.5, kind
        for colour in map(claims_figures.legible, {*COLOURS, *RULE_COLOURS.values()}):
            assert colour == claims_figures.INK or contrast(colour, theme["page"]) >= 3.0, colour


# In a browser


@pytest.fixture(scope="module")
def browser():
    with open_browser() as browser:
        yield browser


@pytest.fixture
def open_page(browser, path):
    """Open the report; whatever the browser complains about or asks for besides the file fails the test."""
    with contextlib.ExitStack() as stack:
        yield lambda width, scheme="light": stack.enter_context(opened(browser, path, width, scheme))


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 800, 360])
def test_the_page_fits(open_page, width, scheme):
    page = open_page(width, scheme)
    assert_fits(page)
    page.click("#unfold")
    assert_fits(page)
    sizes = page.evaluate(
        "[...document.querySelectorAll('svg')].map(e => e.getBoundingClientRect()).map(b => [b.width, b.height])"
    )
    assert len(sizes) > 20 and min(map(min, sizes)) > 10
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert (int(re.findall(r"\d+", ground)[0]) < 128) == (scheme == "dark")


def test_figures_stand_side_by_side_only_where_there_is_room(open_page):
    tops = """(() => {
      document.querySelectorAll('details').forEach(e => { e.open = true; });
      const two = [...document.querySelectorAll('.figures')].find(e => e.children.length == 2).children;
      return [...two].map(e => e.getBoundingClientRect().top);
    })()"""
    first, second = open_page(1280).evaluate(tops)
    assert first == second
    first, second = open_page(360).evaluate(tops)
    assert first < second


FIRST_SCREEN = (".tiles", ".chapters", ".powers", ".headline svg")


def test_the_first_screen_has_the_results(open_page):
    """Verdicts, chapters, how sharp the checks are and one figure: nobody scrolls for them."""
    page = open_page(1280)
    for part in FIRST_SCREEN:
        assert page.locator(part).bounding_box()["y"] + page.locator(part).bounding_box()["height"] <= 800, part
    counts = page.locator(".power strong").all_inner_texts()
    assert counts == [str(count) for count in powers(all_checks()).values()]
    phone = open_page(390)
    for part in FIRST_SCREEN[:2]:
        assert phone.locator(part).bounding_box()["y"] + phone.locator(part).bounding_box()["height"] <= 844, part


def test_claims_are_folded_and_the_page_is_short(open_page):
    page = open_page(1280)
    assert page.locator("details.claim[open]").count() == 0
    folded = page.evaluate("document.documentElement.scrollHeight")
    page.click("#unfold")
    assert page.locator("details.claim:not([open])").count() == 0
    assert page.evaluate("document.documentElement.scrollHeight") > 3 * folded
    page.click("#unfold")
    assert page.evaluate("document.documentElement.scrollHeight") == folded


def test_claims_can_be_filtered_and_searched(open_page):
    page = open_page(1280)
    shown = page.locator("details.claim:visible")
    records = samples.sample()
    page.select_option("#verdict", "fails")
    assert shown.count() == sum(record.verdict == "fails" for record in records)
    page.select_option("#verdict", "")
    page.select_option("#chapter", "group-the-greedy-reduction")
    assert shown.count() == len(grouped(records)["The greedy reduction"])
    assert page.locator("section.group:visible").count() == 1
    page.fill("#search", "nothing has these words")
    assert shown.count() == 0 and page.locator("#found").inner_text() == f"0 of {len(records)}"
    page.evaluate("location.hash = '#ucbvi/threshold'")  # a link to what is hidden shows it
    page.wait_for_function("document.querySelector('details.claim[open]')")
    assert shown.count() == len(records)
    page.fill("#search", "lower/arms")
    assert "lower/arms" in page.locator("details.claim:visible code").all_inner_texts()


def test_chapters_lead_to_their_claims(open_page):
    page = open_page(1280)
    page.click("nav.side >> text=Budget profiles")
    assert page.url.endswith("#group-budget-profiles")
    assert not open_page(390).locator("nav.side").is_visible()  # there the first screen has the chapters


def test_it_works_without_a_script(browser, path):
    page = browser.new_page(java_script_enabled=False)
    page.goto(path.as_uri() + "#ucbvi/threshold")
    assert page.locator("article[id='ucbvi/threshold']").is_visible()  # a link opens the claim
    assert not page.locator(".filter").is_visible()
    parameters = page.locator("article[id='ucbvi/threshold'] dl.parameters")
    assert not parameters.is_visible()
    page.click("article[id='ucbvi/threshold'] details summary")
    assert "100,000" in parameters.inner_text()
    page.close()


def test_it_prints(open_page, tmp_path):
    page = open_page(1280, "dark")
    page.emulate_media(media="print", color_scheme="dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    assert page.evaluate("getComputedStyle(document.body).color") == "rgb(0, 0, 0)"
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.evaluate("Math.min(...[...document.querySelectorAll('details dl')].map(e => e.offsetHeight))") > 0
    assert page.pdf(format="A4").startswith(b"%PDF")


def test_without_a_browser_these_tests_fail_unless_told_otherwise(monkeypatch):
    monkeypatch.setattr("shutil.which", lambda name: None)
    monkeypatch.delenv("SPARINGLY_NO_BROWSER", raising=False)
    with pytest.raises(pytest.fail.Exception, match=r"scripts/browser\.sh"):
        browser_path()
    monkeypatch.setenv("SPARINGLY_NO_BROWSER", "1")
    with pytest.raises(pytest.skip.Exception):
        browser_path()
