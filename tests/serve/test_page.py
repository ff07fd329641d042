"""The page of the service in a real browser: agents are created, watched, answered; outages, tokens, hostile text."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, Route, expect

from tests.browsing import assert_fits, assert_legible, open_browser, visited
from tests.serve.serving import call, serving

FOLDER = Path(__file__).parents[2] / "src" / "sparingly" / "serve" / "page"
ROUND = 12_000  # milliseconds: a few looks of the page at the service, on a busy machine
HOSTILE = "<img src=x onerror=window.hit=1></script><script>window.hit=1</script>&lt; \u202egnp.exe"
expect.set_options(timeout=ROUND)

# Where a character that makes text run backwards could reach what follows it.
LOOSE = r"""() => [...document.querySelectorAll('main *')]
    .filter(e => [...e.childNodes].some(n => n.nodeType === 3 && /[\u202a-\u202e]/.test(n.textContent)))
    .filter(e => !e.matches('.control, option, title'))
    .map(e => e.outerHTML)"""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with open_browser() as browser:
        yield browser


@pytest.fixture(scope="module")
def url(tmp_path_factory) -> Iterator[str]:
    with serving("--data", str(tmp_path_factory.mktemp("service"))) as url:
        yield url


def create(url: str, name: str, **settings: Any) -> str:
    body = {"learner": {"type": "UCB1"}, "actions": ["only"], "budget": {"initial": 20.0}} | settings
    status, answer = call("PUT", f"{url}/v1/agents/{name}", body)
    assert status == 201, answer
    return f"{url}/v1/agents/{name}"


def decide(agent: str, event_id: str, payload: Any = None, **more: Any) -> dict[str, Any]:
    status, answer = call("POST", f"{agent}/decisions", {"event_id": event_id, "payload": payload, **more})
    assert status == 200, answer
    return answer


def answer(agent: str, event_id: str, reward: float) -> None:
    status, said = call("POST", f"{agent}/decisions/{event_id}/feedback", {"reward": reward})
    assert status == 200, said


def event(agent: str, event_id: str) -> dict[str, Any]:
    return call("GET", f"{agent}/decisions/{event_id}")[1]


def counter(page: Page, name: str):
    return page.locator(f"[data-count={name}]")


def see(page: Page, words: str | re.Pattern[str]) -> None:
    expect(page.get_by_role("main")).to_contain_text(words, use_inner_text=True)


def go(page: Page, place: str) -> None:
    """Go to another view, and wait until the old one is gone."""
    change = """place => new Promise(done => {
        addEventListener('hashchange', () => setTimeout(done), {once: true});
        location.hash = place;
    })"""
    page.evaluate(change, f"#/{place}")


def dots(page: Page) -> list[float]:
    """Where the means are drawn, one per action that has answers."""
    return page.locator("circle.mean").evaluate_all("marks => marks.map(mark => mark.getBoundingClientRect().x)")


# From the first agent to its first answers


def test_an_agent_is_created_watched_and_answered(browser, tmp_path):
    with serving("--data", str(tmp_path)) as url, visited(browser, url) as page:
        page.evaluate("window.untouched = true")
        see(page, "No agents yet")
        page.get_by_role("link", name="Create an agent").click()
        page.get_by_label("Name").fill("router")
        page.get_by_label("Actions, one per line").fill("small\nlarge\n")
        page.get_by_label("Budget at the start").fill("10")
        page.get_by_role("button", name="Create the agent").click()
        expect(page.get_by_role("heading", level=1)).to_have_text(re.compile("router"))
        see(page, "No decisions yet")
        expect(counter(page, "left")).to_have_text("10")

        field = page.get_by_label("Grant more budget")
        field.fill("2")  # half of the number 25: what follows must not disturb whoever is typing it
        agent = f"{url}/v1/agents/router"
        for k in range(4):
            assert decide(agent, f"e{k}", {"prompt": f"question {k}"})["ask"]
        expect(counter(page, "open")).to_have_text("4")
        expect(counter(page, "left")).to_have_text("6")
        expect(counter(page, "spent")).to_have_text("4")
        expect(page.locator("table.decisions tbody tr")).to_have_count(4)
        see(page, "No answers yet")
        assert dots(page) == []
        expect(field).to_be_focused()
        page.keyboard.type("5")
        expect(field).to_have_value("25")
        page.get_by_role("button", name="Grant", exact=True).dblclick()
        expect(counter(page, "left")).to_have_text("31")
        see(page, "25 granted")
        assert call("GET", agent)[1]["budget"]["granted"] == 35.0  # once, for all the clicking

        page.get_by_role("link", name="Answer 4 open asks").click()
        see(page, "question 0")
        expect(page.get_by_role("button", name="Send")).to_be_disabled()
        page.keyboard.press("y")
        expect(page.get_by_role("radio", name="Yes")).to_be_checked()
        page.keyboard.press("Enter")
        see(page, "Stored 1 for decision 1")
        see(page, "question 1")
        see(page, "3 open asks left, 1 answered by you")
        assert event(agent, "e0")["reward"] == 1.0

        page.get_by_role("link", name="router").click()
        expect(counter(page, "answers")).to_have_text("1")
        expect(page.locator("circle.mean")).to_have_count(1)
        first = event(agent, "e0")["action"]
        row = page.locator("table.estimates tbody tr", has_text=first)
        expect(row).to_contain_text(re.compile(r"1 \(0\.\d+ to 1\)|1 \(0 to 1\)"))
        before = dots(page)
        same = next(e for e in call("GET", f"{agent}/asks?status=open")[1]["events"] if e["action"] == first)
        answer(agent, same["event_id"], 0.0)
        expect(row.locator(".value")).to_contain_text("0.5")
        assert dots(page)[0] < before[0] - 20
        expect(page.locator("table.decisions .badge.good")).to_have_count(2)
        assert page.evaluate("window.untouched")


def test_what_the_service_refuses_is_said_next_to_the_form(browser, url):
    create(url, "taken")
    with visited(browser, url, "/#/new", expected="status of (409|422)") as page:
        page.get_by_label("Name").fill("taken")
        page.get_by_label("Actions, one per line").fill("same\nsame")
        page.get_by_role("button", name="Create the agent").click()
        refusal = page.locator("form").get_by_role("alert")
        body = {"learner": {"type": "UCB1"}, "actions": ["same", "same"]}
        _, problem = call("PUT", f"{url}/v1/agents/taken", body)
        expect(refusal).to_contain_text(problem["detail"])
        expect(refusal).to_be_focused()
        page.get_by_label("Actions, one per line").fill("another")
        page.get_by_role("button", name="Create the agent").click()
        _, problem = call("PUT", f"{url}/v1/agents/taken", body | {"actions": ["another"]})
        expect(refusal).to_contain_text(problem["detail"])
        expect(page.get_by_label("Name")).to_have_value("taken")


def test_everything_in_the_form_reaches_the_service(browser, url):
    with visited(browser, url, "/#/new") as page:
        fields = {
            "Name": "full", "Description (optional)": "Was it good?", "Actions, one per line": "a\nb",
            "Contexts, one per line (optional)": "x\ny\nz", "Budget at the start": "7",
        }  # fmt: skip
        for label, value in fields.items():
            page.get_by_label(label, exact=True).fill(value)
        page.get_by_label("Learner").select_option("MOSS")
        page.get_by_label("When it asks").select_option("Matching")
        page.get_by_label("α").fill("2")
        page.get_by_label("It grows").select_option("clock")
        page.get_by_label("by", exact=True).fill("24")
        page.get_by_label("Scale of answers").select_option("1 5")
        page.get_by_text("Advanced").click()
        page.get_by_label("Costs of asking, one per line").fill("1\n2.5")
        page.get_by_label("Unanswered asks close after (hours)").fill("2")
        page.get_by_label("An answer after that").select_option("keep")
        page.get_by_role("button", name="Create the agent").click()
        see(page, "grows by 24 every day")
        body = call("GET", f"{url}/v1/agents/full")[1]["body"]
        assert body["learner"]["type"] == "MOSS"
        assert (body["actions"], body["contexts"], body["costs"]) == (["a", "b"], ["x", "y", "z"], [1.0, 2.5])
        assert body["rule"] == {"type": "Matching", "alpha": 2.0, "beta": 0.5, "explore": "asked"}
        assert body["budget"] == {"initial": 7.0, "growth": {"by": "clock", "amount": 24.0, "every": 86400.0}}
        assert body["rewards"] == {"low": 1.0, "high": 5.0}
        assert body["unanswered"] == {"close_after": 7200.0, "late": "keep"}
        page.goto(f"{url}/#/new")
        page.get_by_label("Name").fill("linear")
        page.get_by_label("Learner").select_option("OFUL")
        page.get_by_label("Number of features").fill("3")
        page.get_by_label("It grows").select_option("decisions")
        page.get_by_label("by % of a unit").fill("7")
        page.get_by_role("button", name="Create the agent").click()
        see(page, "OFUL, 3 features")
        body = call("GET", f"{url}/v1/agents/linear")[1]["body"]
        assert body["learner"]["dim"] == 3 and body["budget"]["growth"] == {"by": "decisions", "rate": 0.07}


def test_a_grant_whose_answer_was_lost_counts_once(browser, url):
    agent = create(url, "lost")

    def lose(route: Route) -> None:
        route.fetch()  # it reaches the service
        route.abort()

    with visited(browser, url, "/#/agents/lost", expected="net::ERR_FAILED") as page:
        expect(counter(page, "left")).to_have_text("20")
        page.route("**/grants", lose)
        page.get_by_label("Grant more budget").fill("5")
        page.keyboard.press("Enter")
        see(page, "Granting the same again is safe")
        page.unroute("**/grants")
        page.keyboard.press("Enter")
        see(page, "5 granted: 25 left of 25")
        page.get_by_label("Grant more budget").fill("5")  # another one of the same size is another one
        page.keyboard.press("Enter")
        see(page, "5 granted: 30 left of 30")
        assert call("GET", agent)[1]["budget"]["granted"] == 30.0


def test_pausing_and_choosing_a_context(browser, url):
    agent = create(url, "paused", contexts=["code", "chat"], actions=["a", "b"])
    answer(agent, decide(agent, "in-chat", context="chat")["event_id"], 1.0)
    with visited(browser, url, "/#/agents/paused") as page:
        expect(page.locator("circle.mean")).to_have_count(0)
        see(page, "No answers yet")
        page.get_by_label("Context").select_option("chat")
        expect(page.locator("circle.mean")).to_have_count(1)
        page.get_by_role("button", name="Pause asking").click()
        see(page, "asks nothing")
        assert call("GET", agent)[1]["paused"]
        assert decide(agent, "while-paused", context="code")["reason"] == "paused"
        expect(page.locator("table.decisions tbody tr").first).to_contain_text("no: paused")
        page.get_by_role("button", name="Resume asking").click()
        see(page, "It asks again")
        assert decide(agent, "later", context="code")["ask"]


def test_a_phone_shows_status_and_reward_of_decisions(browser, url):
    agent = create(url, "phone", contexts=["code"], actions=["a", "an action with a name of some length"])
    answer(agent, decide(agent, "first", context="code")["event_id"], 1.0)
    with visited(browser, url, "/#/agents/phone", width=390) as page:
        row = page.locator("table.decisions tbody tr")
        expect(row).to_contain_text("answered")
        for place in range(8):
            box = row.locator("> *").nth(place).bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390
        heights = [row.locator("time, .badge").nth(place).evaluate("e => e.offsetHeight") for place in range(2)]
        assert max(heights) < 30  # in one line each


def test_an_agent_without_decisions_shows_a_program_that_works(browser, url):
    agent = create(url, "unused", contexts=["code", 'a "chat"'], rewards={"low": 1, "high": 5})
    with visited(browser, url, "/#/agents/unused") as page:
        expect(page.locator("pre.example")).to_contain_text("client.observe")
        program = page.locator("pre.example").inner_text()
        assert url in program and 'context="code"' in program
        exec(program, names := {})
        names["client"].close()
        expect(page.locator("table.decisions tbody tr")).to_have_count(1)
        expect(page.locator("pre.example")).to_be_hidden()
    assert call("GET", agent)[1]["answers"] == 1


# The answer view


def test_keys_score_skip_and_help(browser, url):
    agent = create(url, "stars", rewards={"low": 1, "high": 5})
    for k in range(4):
        decide(agent, f"s{k}", f"text number {k}")
    with visited(browser, url, "/#/agents/stars/answer") as page:
        see(page, "text number 0")
        page.keyboard.press("?")
        expect(page.get_by_role("dialog")).to_contain_text("skip this one")
        page.keyboard.press("s")  # not while the help is open
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_have_count(0)
        see(page, "text number 0")
        page.keyboard.press("s")
        see(page, "text number 1")
        page.keyboard.press("9")  # not on this scale
        expect(page.get_by_role("button", name="Send")).to_be_disabled()
        page.keyboard.press("2")
        page.keyboard.press("4")  # changed one's mind
        page.keyboard.press("Enter")
        see(page, "text number 2")
        page.get_by_label("or any value from 1 to 5").click()
        page.keyboard.type("2.5")  # digits are for the field now
        page.keyboard.press("Enter")
        see(page, "text number 3")
        page.get_by_label("send at once").check()
        page.wait_for_timeout(500)  # longer than a bounced key
        page.keyboard.press("5")
        see(page, "You have skipped 1 ask")
        assert [event(agent, f"s{k}")["reward"] for k in range(4)] == [None, 4.0, 2.5, 5.0]
        decide(agent, "s4", "a new one")  # it comes by itself
        see(page, "a new one")
        page.keyboard.press("1")
        page.get_by_role("button", name="Go through them again").click()
        see(page, "text number 0")
        page.get_by_role("radio", name="3").check(force=True)
        see(page, "No open asks")
        assert [event(agent, f"s{k}")["reward"] for k in (0, 4)] == [3.0, 1.0]


def test_enter_sends_after_a_click_on_skip(browser, url):
    agent = create(url, "clicks")
    for k in range(3):
        decide(agent, f"c{k}", f"text number {k}")
    with visited(browser, url, "/#/agents/clicks/answer") as page:
        see(page, "text number 0")
        page.get_by_role("button", name="Skip").click()
        see(page, "text number 1")
        page.keyboard.press("n")
        page.keyboard.press("Enter")
        see(page, "text number 2")
        page.get_by_role("radio", name="Yes").check(force=True)
        page.get_by_role("button", name="Send").click()
        see(page, "You have skipped 1 ask")
        assert [event(agent, f"c{k}")["reward"] for k in range(3)] == [None, 0.0, 1.0]


def test_one_key_press_answers_one_ask(browser, url):
    agent = create(url, "bounce")
    for k in range(3):
        decide(agent, f"b{k}", f"text number {k}")
    press = """repeat => document.body.dispatchEvent(new KeyboardEvent('keydown', {key: 'y', bubbles: true, repeat}))"""
    bounce = f"""() => new Promise(done => {{
        const shown = document.querySelector('.shown');
        new MutationObserver((_, observer) => {{
            if (!shown.textContent.includes('text number 1')) return;
            observer.disconnect();
            setTimeout(() => done(({press})(false)));
        }}).observe(shown, {{childList: true, subtree: true}});
        ({press})(false);
    }})"""
    with visited(browser, url, "/#/agents/bounce/answer") as page:
        see(page, "text number 0")
        page.evaluate(press, True)  # a key that was held down on the page before
        expect(page.get_by_role("radio", name="Yes")).not_to_be_checked()
        page.get_by_label("send at once").check()
        page.evaluate(bounce)  # once more at the moment when the next ask is there
        page.wait_for_timeout(300)
        see(page, "text number 1")
        assert [event(agent, f"b{k}")["status"] for k in range(3)] == ["answered", "open", "open"]
        page.wait_for_timeout(300)
        page.keyboard.press("y")
        see(page, "text number 2")


def test_answered_by_someone_else_meanwhile(browser, url):
    agent = create(url, "both")
    for k in range(3):
        decide(agent, f"t{k}", f"text number {k}")
    with visited(browser, url, "/#/agents/both/answer", expected="status of 409") as page:
        see(page, "text number 0")
        stale, sent = event(agent, "t0"), []
        page.on("request", lambda request: request.method == "POST" and sent.append(request.url))
        # Until the answer is on its way the page has not heard of the other one.
        page.route("**/decisions/t0", lambda route: route.continue_() if sent else route.fulfill(json=stale))
        page.keyboard.press("n")
        answer(agent, "t0", 1.0)
        page.keyboard.press("Enter")
        see(page, "Someone else had answered decision 1 already: 1. Yours was not stored.")
        see(page, "text number 1")
        answer(agent, "t1", 0.0)  # while it is on the screen: the page sees it, and does not jump away
        see(page, "Someone else has answered this meanwhile, with 0")
        page.keyboard.press("y")
        expect(page.get_by_role("radio", name="Yes")).not_to_be_checked()
        see(page, "text number 1")
        expect(page.get_by_role("button", name="Next")).to_be_enabled()
        page.keyboard.press("Enter")
        see(page, "text number 2")
        assert [event(agent, f"t{k}")["reward"] for k in range(3)] == [1.0, 0.0, None]


def test_an_answer_that_cannot_be_stored_is_sent_again(browser, url):
    agent = create(url, "retry")
    decide(agent, "r0", "first")
    problem = {"type": "urn:x", "title": "Unavailable", "status": 503, "detail": "the disk is full"}

    def refuse(route: Route) -> None:
        route.fulfill(status=503, content_type="application/problem+json", body=json.dumps(problem))

    with visited(browser, url, "/#/agents/retry/answer", expected="status of 503") as page:
        see(page, "first")
        page.route("**/feedback", refuse)
        page.keyboard.press("y")
        page.keyboard.press("Enter")
        see(page, "the disk is full")
        see(page, "sent again by itself")
        assert event(agent, "r0")["reward"] is None
        page.unroute("**/feedback")
        see(page, "No open asks")
        assert event(agent, "r0")["reward"] == 1.0


def test_payloads_are_readable(browser, url):
    agent = create(url, "payloads", rewards={"low": 0, "high": 100})
    meta = {"user": {"id": 7, "pro": True}, "tags": ["a", "b"]}
    decide(agent, "p0", {"prompt": "line one\nline two", "meta": meta, "none": None})
    decide(agent, "p1", "word " * 5_000)
    decide(agent, "p2", {"rows": list(range(2_000))})
    deep: Any = "the bottom"
    for _ in range(24):
        deep = {"deeper": deep}
    decide(agent, "p3", deep)
    decide(agent, "p4")
    for width in (1280, 390):
        with visited(browser, url, "/#/agents/payloads/answer", width) as page:
            see(page, "pro")
            assert page.locator(".payload dt").all_text_contents() == [
                "prompt", "meta", "user", "id", "pro", "tags", "1", "2", "none"
            ]  # fmt: skip
            assert "line one\nline two" in page.locator(".payload").inner_text()
            assert page.get_by_role("radio").count() == 0  # no buttons for a hundred numbers
            page.keyboard.type("85")
            expect(page.get_by_label("A value from 0 to 100")).to_have_value("85")
            page.keyboard.press("s")
            see(page, "word word")
            box = page.locator(".payload").evaluate("e => [e.clientHeight, e.scrollHeight]")
            assert box[0] < 500 < box[1]
            assert_fits(page)
            page.wait_for_timeout(500)  # longer than a bounced key
            page.keyboard.press("s")
            see(page, "It is too large to be shown in full")
            page.get_by_text("It is too large to be shown in full").click()
            expect(page.locator("pre.payload")).to_contain_text("1999")
            assert_fits(page)
            page.wait_for_timeout(500)
            page.keyboard.press("s")
            see(page, "the bottom")
            assert_fits(page)
            page.wait_for_timeout(500)
            page.keyboard.press("s")
            see(page, "without a payload")


# Hostile text, hostile times


@pytest.mark.parametrize("width", [1280, 390])
def test_hostile_text_stays_text(browser, url, width):
    name = f"hostile-{width}"
    agent = create(url, name, actions=[HOSTILE, "b"], contexts=[HOSTILE, "y"], description=HOSTILE)
    decide(agent, "h0", HOSTILE, context=HOSTILE)
    decide(agent, "h1", {HOSTILE: [HOSTILE]}, context=HOSTILE)
    answer(agent, decide(agent, "h2", HOSTILE, context="y")["event_id"], 1.0)
    places = ["", f"agents/{name}", f"agents/{name}/answer", f"agents/{name}/answer/h1", f"agents/{name}/decisions/h0"]
    with visited(browser, url, "/", width) as page:
        for place in places:
            go(page, place)
            see(page, HOSTILE)
            expect(page.locator(".control").first).to_be_visible()
            assert_fits(page)
            assert page.locator("main :is(img, script, iframe, object, link, style)").count() == 0
            assert page.evaluate("window.hit === undefined")
            backwards = page.locator(".control").evaluate_all("all => all.map(e => getComputedStyle(e).unicodeBidi)")
            assert backwards and set(backwards) == {"isolate"}  # it can be seen, and turns nothing around
            assert page.evaluate(LOOSE) == []
        expect(page.locator(".payload")).to_have_text(HOSTILE)


def test_it_says_when_the_service_is_gone_and_recovers(browser, tmp_path):
    with ExitStack() as life, ExitStack() as looking:
        url = life.enter_context(serving("--data", str(tmp_path)))
        agent = create(url, "lasting")
        decide(agent, "l0", "before")
        page = looking.enter_context(visited(browser, url, "/#/agents/lasting/answer", expected="net::ERR_"))
        see(page, "before")
        banner = page.locator("#connection")
        expect(banner).to_be_empty()
        life.close()
        expect(banner).to_contain_text("cannot be reached")
        see(page, "before")  # what was there is still there to be read
        page.keyboard.press("y")
        page.keyboard.press("Enter")
        see(page, "sent again by itself")
        with serving("--data", str(tmp_path), "--port", url.rpartition(":")[2]):
            expect(banner).to_contain_text("is back")
            see(page, "No open asks")
            assert event(agent, "l0")["reward"] == 1.0
            expect(banner).to_be_empty(timeout=ROUND)
            decide(agent, "l1", "after")
            see(page, "after")
            looking.close()


def test_it_says_when_the_service_is_not_ready(browser, url):
    create(url, "unready")
    health = {"status": "unavailable", "version": "1", "detail": "the disk is full"}
    with visited(browser, url, "/#/agents/unready", expected="status of 503") as page:
        see(page, "No decisions yet")
        page.route("**/readyz", lambda route: route.fulfill(status=503, json=health))
        expect(page.locator("#connection")).to_contain_text("not ready. Since", timeout=1.5 * ROUND)
        expect(page.locator("#connection")).to_contain_text("the disk is full")
        page.unroute("**/readyz")
        expect(page.locator("#connection")).to_contain_text("is back")


def test_the_token_is_asked_for_once(browser, tmp_path):
    token = "a-token-of-the-tests-0123456789"
    secret = tmp_path / "token"
    secret.write_text(token)
    secret.chmod(0o600)
    with serving("--data", str(tmp_path / "data"), "--token-file", str(secret)) as url:
        body = {"learner": {"type": "UCB1"}, "actions": ["a"], "budget": {"initial": 5}}
        assert call("PUT", f"{url}/v1/agents/guarded", body)[0] == 401
        assert call("PUT", f"{url}/v1/agents/guarded", body, token)[0] == 201
        with visited(browser, url, "/#/agents/guarded", expected="status of 401") as page:
            dialog = page.get_by_role("dialog")
            expect(dialog).to_have_count(1)
            page.keyboard.press("Escape")
            expect(page.locator("#connection")).to_contain_text("needs a token")
            page.wait_for_timeout(3_000)  # it does not ask again by itself
            expect(dialog).to_have_count(0)
            page.evaluate("""async () => {
                const api = await import('/page/api.js');
                for (let k = 0; k < 3; k++) api.get('v1/agents').catch(() => 0);
            }""")
            expect(dialog).to_have_count(1)  # for three calls that were refused at the same time
            page.wait_for_timeout(300)
            assert dialog.count() == 1
            page.keyboard.press("Escape")
            page.get_by_role("button", name="Enter the token").click()
            dialog.get_by_label("Token").fill("a-wrong-one")
            page.keyboard.press("Enter")
            expect(dialog).to_contain_text("not accepted")
            dialog.get_by_label("Token").fill(token)
            page.keyboard.press("Enter")
            see(page, "No decisions yet")
            expect(dialog).to_have_count(0)
            assert token not in page.content()
            page.get_by_label("Grant more budget").fill("3")
            page.keyboard.press("Enter")
            see(page, "3 granted: 8 left of 8")
            page.reload()
            see(page, "No decisions yet")
            expect(dialog).to_have_count(0)


def test_a_hidden_page_asks_for_nothing(browser, url):
    agent = create(url, "hidden")
    with visited(browser, url, "/#/agents/hidden") as page:
        see(page, "No decisions yet")
        hide = """hidden => {
            Object.defineProperty(document, 'hidden', {value: hidden, configurable: true});
            document.dispatchEvent(new Event('visibilitychange'));
        }"""
        page.evaluate(hide, True)
        page.wait_for_timeout(1_000)
        asked: list[str] = []
        page.on("request", lambda request: asked.append(request.url))
        decide(agent, "unseen")
        page.wait_for_timeout(4_500)
        assert asked == []
        page.evaluate(hide, False)
        expect(counter(page, "decisions")).to_have_text("1")


# What it looks like


@pytest.fixture(scope="module")
def busy(url) -> str:
    """An agent with something in every chart: held asks, late decisions without a threshold, long names."""
    names = ["small", "a model whose name is so long that it cannot stand in one line on a telephone", "x" * 60]
    agent = create(url, "busy", actions=names, contexts=["code", "chat"], rewards={"low": 1, "high": 5},
                   budget={"initial": 6.0}, description="Was the reply helpful, for what it cost? " * 3)  # fmt: skip
    for k in range(60):
        made = decide(agent, f"b{k}", {"text": "words " * 30}, context=("code", "chat")[k % 2], defer=k % 5 == 4)
        if made["ask"] and k % 5 in (0, 1):
            answer(agent, made["event_id"], 1.0 + k % 4)
        if k in (10, 40):
            call("POST", f"{agent}/grants", {"grant_id": f"g{k}", "amount": 9.5})
    return agent


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [1280, 390])
def test_it_fits_and_is_legible(browser, url, busy, width, scheme):
    create(url, f"empty-{width}-{scheme}")
    places = {
        "": "busy", "new": "Create the agent", "agents/busy": "Recent decisions", "agents/busy/answer": "It chose",
        "agents/busy/decisions/b0": "decided", f"agents/empty-{width}-{scheme}": "No decisions yet",
        f"agents/empty-{width}-{scheme}/answer": "No open asks", "nowhere": "There is no such page",
    }  # fmt: skip
    with visited(browser, url, "/", width, scheme) as page:
        for place, words in places.items():
            go(page, place)
            see(page, words)
            page.wait_for_timeout(300)
            assert_fits(page)
            assert_legible(page)
            if place == "agents/busy":
                assert page.locator("svg.panel").count() == 4
                assert page.locator("svg.panel text").count() > 20
        assert page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches") == (scheme == "dark")


def test_charts_say_what_they_show(browser, url, busy):
    state = call("GET", busy)[1]
    with visited(browser, url, "/#/agents/busy") as page:
        expect(page.locator("svg.panel[role=img]")).to_have_count(3)
        labels = page.locator("svg.panel[role=img]").evaluate_all("all => all.map(e => e.getAttribute('aria-label'))")
        budget = state["budget"]
        assert any(f"{budget['held']:g} held, {budget['spent']:g} spent" in label for label in labels)
        assert any(f"{state['asks']} asks and {state['answers']} answers" in label for label in labels)
        widths = page.locator("figure", has_text="Widths against the threshold")
        events = call("GET", f"{busy}/decisions?limit=50")[1]["events"]
        expect(widths.locator("svg.panel .dot.asked")).to_have_count(sum(e["ask"] for e in events))
        expect(widths.locator("svg.panel .dot")).to_have_count(50)
        chart = page.locator("figure", has_text="Asks and answers")
        shown = chart.locator(".legend b").first
        expect(shown).to_have_text(str(state["asks"]))
        start = chart.locator("svg.panel line.axis").first.evaluate("line => line.x1.baseVal.value")
        chart.locator("svg.panel").hover(position={"x": start + 1, "y": 100})
        expect(chart).to_contain_text("at ")
        expect(shown).not_to_have_text(str(state["asks"]))  # the beginning, when less had been asked


def test_an_unknown_agent_or_decision_is_said(browser, url):
    with visited(browser, url, "/#/agents/nobody", expected="status of 404") as page:
        see(page, "there is no agent 'nobody'")
        page.goto(f"{url}/#/agents/%E0%A4%A")
        see(page, "There is no such page")


@pytest.mark.parametrize("path", sorted(FOLDER.iterdir()), ids=lambda path: path.name)
def test_the_files_keep_to_the_rules(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 500 and max(map(len, lines)) <= 120
    assert re.match(r"//|/\*|<!--|<!DOCTYPE", lines[0])
    text = "\n".join(lines)
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\b|new Function", text)
    assert not re.search(r"https?://(?!www\.w3\.org/2000/svg)", text)
    if path.suffix == ".html":
        assert not re.search(r"<style|\sstyle=|\son\w+=|<script(?![^>]*\ssrc=)", text)


def test_a_link_for_somebody_who_answers(browser, tmp_path):
    """It opens the answers, works without the token of the service, leaves the address, and leads nowhere else."""
    token = "a-token-of-the-tests-0123456789"
    secret = tmp_path / "token"
    secret.write_text(token)
    secret.chmod(0o600)
    with serving("--data", str(tmp_path / "data"), "--token-file", str(secret)) as url:
        body = {"learner": {"type": "UCB1"}, "actions": ["only"], "budget": {"initial": 20.0}}
        for name in ("labels", "other"):
            assert call("PUT", f"{url}/v1/agents/{name}", body, token)[0] == 201
        assert call("POST", f"{url}/v1/agents/labels/decisions", {"event_id": "q", "payload": "good?"}, token)[0] == 200
        wanted = {"name": "ada", "scopes": ["answer"], "agents": ["labels"]}
        status, made = call("POST", f"{url}/v1/tokens", wanted, token)
        assert status == 201 and len(made["links"]) == 1
        with visited(browser, url, made["links"][0], expected="403") as page:
            see(page, "good?")
            assert made["token"] not in page.url and made["token"] not in page.content()
            expect(page.get_by_role("navigation")).to_be_hidden()
            page.keyboard.press("y")
            page.keyboard.press("Enter")
            see(page, "No open asks")
            page.reload()  # the token is kept for as long as the tab is open
            see(page, "No open asks")
            go(page, "agents/other")
            expect(page.locator("#connection")).to_contain_text("is not for this agent")
        answered = call("GET", f"{url}/v1/agents/labels/decisions/q", token=token)[1]
        assert answered["reward"] == 1.0
