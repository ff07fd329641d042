"""A real browser for the tests of pages: Chromium or Chrome as the machine has it, driven by Playwright."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Dialog, Page, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
ARGUMENTS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
]  # fmt: skip


def browser_path() -> str:
    """Where the browser is. Without one the test fails, unless the environment says to leave such tests out."""
    if os.environ.get("SPARINGLY_NO_BROWSER"):
        pytest.skip("SPARINGLY_NO_BROWSER is set: tests in a browser are left out")
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        pytest.fail(
            "no Chromium and no Chrome on this machine: run scripts/browser.sh, or install one "
            "(Debian: apt-get install chromium), or set SPARINGLY_NO_BROWSER=1 to leave the tests in a browser out"
        )
    return found


@contextmanager
def open_browser() -> Iterator[Browser]:
    path = browser_path()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=ARGUMENTS, headless=True)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, path: Path, width: int, scheme: str = "light") -> Iterator[Page]:
    """A file in the browser; whatever the browser complains about or asks for besides the file fails the test."""
    with _watched(browser, path.as_uri(), ("file:",), "", width, scheme) as page:
        yield page


@contextmanager
def visited(
    browser: Browser, origin: str, place: str = "/", width: int = 1280, scheme: str = "light", expected: str = ""
) -> Iterator[Page]:
    """A page of a service; every message, error, dialog and request to elsewhere fails the test.

    `expected` is a regular expression for the messages of the console that belong to the test, such as those about an
    answer with the status 409, or about a service that the test has stopped.
    """
    with _watched(browser, origin + place, (origin + "/",), expected, width, scheme) as page:
        yield page


@contextmanager
def _watched(
    browser: Browser, address: str, allowed: tuple[str, ...], expected: str, width: int, scheme: str
) -> Iterator[Page]:
    complaints: list[str] = []

    def heard(text: str) -> None:
        if not (expected and re.search(expected, text)):
            complaints.append(text)

    def stopped(dialog: Dialog) -> None:
        complaints.append(f"a dialog: {dialog.message}")
        dialog.dismiss()

    page = browser.new_page(viewport={"width": width, "height": 800}, color_scheme=scheme)
    page.on("console", lambda message: heard(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("dialog", stopped)
    page.on("request", lambda request: request.url.startswith((*allowed, "data:")) or complaints.append(request.url))
    page.goto(address)
    yield page
    page.close()
    assert complaints == [], complaints


STICKING_OUT = """() => {
  const scrolls = e => e && (/auto|scroll/.test(getComputedStyle(e).overflowX) || scrolls(e.parentElement));
  return [...document.querySelectorAll('body *')].filter(e => {
    const box = e.getBoundingClientRect();
    return box.width && (box.right > innerWidth + 0.5 || box.left < -0.5)
      && !e.matches('.skip') && !scrolls(e.parentElement);
  }).map(e => e.outerHTML.slice(0, 200));
}"""
OVERLAPS = """() => [...document.querySelectorAll('svg.panel')].flatMap(svg => {
  const frame = svg.getBoundingClientRect();
  const boxes = [...svg.querySelectorAll('text')].map(e => [e.textContent, e.getBoundingClientRect()]);
  const before = (a, b) => a.right - 1 <= b.left || a.bottom - 3 <= b.top;
  const apart = (a, b) => before(a, b) || before(b, a);
  const outside = b => b.left < frame.left - 1 || b.right > frame.right + 1 || b.bottom > frame.bottom + 2;
  return boxes.flatMap(([name, a], i) => [
    ...boxes.slice(i + 1).filter(([, b]) => !apart(a, b)).map(([other]) => name + ' / ' + other),
    ...(outside(a) ? [name + ' is cut off'] : []),
  ]);
})"""
SMALLEST_TEXT = """() => Math.min(...[...document.querySelectorAll('svg.panel text')].map(e => {
  const svg = e.ownerSVGElement;
  return parseFloat(getComputedStyle(e).fontSize) * svg.getBoundingClientRect().width / svg.viewBox.baseVal.width;
}))"""


def assert_fits(page: Page) -> None:
    """Nothing sticks out of the window, no text of a figure covers another or is cut off, and all of it is legible."""
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    for complaint in (STICKING_OUT, OVERLAPS):
        found = page.evaluate(complaint)
        assert found == [], found
    assert page.evaluate(SMALLEST_TEXT) >= 8.0


FAINT = """() => {
  const numbers = colour => colour.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = e => {
    for (; e; e = e.parentElement) {
      const colour = numbers(getComputedStyle(e).backgroundColor);
      if (colour.length === 3 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  const own = e => [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
  return [...document.querySelectorAll('body *')]
    .filter(e => own(e) && e.checkVisibility() && !e.closest(':disabled, script, title, .unseen'))
    .map(e => {
      const style = getComputedStyle(e);
      const pair = [numbers(e.ownerSVGElement ? style.fill : style.color), behind(e)].map(light);
      return [(Math.max(...pair) + 0.05) / (Math.min(...pair) + 0.05), e.outerHTML.slice(0, 160)];
    })
    .filter(([contrast]) => contrast < 4.5);
}"""


def assert_legible(page: Page) -> None:
    """All text has a contrast of at least 4.5 with what is behind it."""
    faint = page.evaluate(FAINT)
    assert faint == [], faint
