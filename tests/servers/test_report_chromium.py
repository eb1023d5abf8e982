"""The page in a real browser: hostile content stays text, nothing leaves the page, and people can work with it."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from otel_drift.links import Links
from otel_drift.model import Unit
from otel_drift.report.html import HtmlReport
from report import samples

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

Require = Callable[[object, str], Any]
Open = Callable[..., "Page"]

FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage",
]  # fmt: skip
RUN = {"judge": "rules", "judge_note": "Embedded judge: sees words, not meaning.", "paths": ["a.json"]}

pytestmark = pytest.mark.server("chromium")


@pytest.fixture(scope="module")
def browser(require: Require) -> Iterator[Browser]:
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    chromium = require(found, "Chromium is not installed (apt-get install chromium)")
    require(find_spec("playwright"), "playwright is not installed (pip install playwright)")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        yield browser
        browser.close()


@pytest.fixture
def page_of(browser: Browser, tmp_path: Path) -> Iterator[Open]:
    """Opens a page of the given units with all network cut off; afterwards nothing untoward may have happened."""
    untoward: list[str] = []
    context = browser.new_context(viewport={"width": 1400, "height": 900}, reduced_motion="reduce")
    page = context.new_page()
    page.set_default_timeout(10_000)
    target = tmp_path / "report.html"

    def on_request(route: object, request: object) -> None:
        if request.url.split("#")[0] != target.as_uri():  # type: ignore[attr-defined]
            untoward.append(f"request to {request.url}")  # type: ignore[attr-defined]
            route.abort()  # type: ignore[attr-defined]
        else:
            route.continue_()  # type: ignore[attr-defined]

    context.route(lambda url: not url.startswith("data:"), on_request)
    context.on("page", lambda other: untoward.append(f"new window {other.url}"))
    page.on("dialog", lambda dialog: (untoward.append(f"dialog {dialog.message}"), dialog.dismiss()))
    page.on("console", lambda said: untoward.append(f"console {said.type}: {said.text}"))
    page.on("pageerror", lambda error: untoward.append(f"error {error}"))

    def open_page(*units: Unit, fragment: str = "", width: int = 1400, links: Links | None = None, **run: str) -> Page:
        title = run.pop("title", "Audit of huts")
        with HtmlReport(target, title=title, run={**RUN, **run}, links=links) as report:
            for unit in units:
                report.add(unit)
        page.set_viewport_size({"width": width, "height": 900})
        page.goto(target.as_uri() + fragment)
        page.wait_for_selector("#list a, #main .notice", state="attached")
        return page

    open_page.untoward = untoward  # type: ignore[attr-defined]
    yield open_page
    page.evaluate("() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
    context.close()
    assert untoward == []


def test_hostile_text_shows_literally_and_does_nothing(page_of: Open) -> None:
    """Scripts, closing tags, handlers, links, templates, styles, escapes and bidi controls in every text there is."""
    page = page_of(samples.hostile(), title=samples.HOSTILE, judge=samples.HOSTILE, judge_note=samples.HOSTILE)

    assert page.evaluate("window.hacked") is None
    assert samples.MARKUP in page.locator(".user").first.inner_text()
    assert "\\u202e" in page.locator(".user").first.inner_text()
    page.locator("mark.claim").first.click()
    assert samples.MARKUP in page.locator("#evidence .passage-text").first.inner_text()
    assert page.locator("#main img, #main style, #main script, #main a:not([href^='#']), #evidence img").count() == 0
    assert page.locator("body").evaluate("body => getComputedStyle(body).display") == "block"
    assert page.locator("[onerror], [onfocus], [autofocus], [style]").count() == 0


@pytest.mark.parametrize("unit", [samples.unit(), samples.hostile()], ids=["ordinary", "hostile"])
def test_links_to_the_platform_stay_addresses_of_it_whatever_the_ids_are(page_of: Open, unit: Unit) -> None:
    """They open in a tab of their own that learns nothing of the page."""
    links = Links("https://traces.example/t/{trace_id}?s={span_id}", "https://traces.example/s/{session_id}")

    page = page_of(unit, fragment=f"#/s/{unit.unit_id}", links=links)

    outside = page.locator("#main a:not([href^='#'])")
    assert outside.count() == 1 + sum(bool(turn.answer_ref or turn.root_ref) for turn in unit.session.turns)
    for number in range(outside.count()):
        link = outside.nth(number)
        assert (link.get_attribute("href") or "").startswith("https://traces.example/")
        assert (link.get_attribute("target"), link.get_attribute("rel")) == ("_blank", "noopener noreferrer")


def test_the_policy_is_in_force(page_of: Open) -> None:
    """What slipped in all the same could not run: an inline script and markup made from a string are refused."""
    page = page_of(samples.unit())
    assert "default-src 'none'" in (page.locator("meta[http-equiv]").get_attribute("content") or "")
    refused = page.evaluate(
        """() => {
            try { document.getElementById("main").innerHTML = "<b>x</b>"; return false; }
            catch (error) { return error instanceof TypeError; }
        }"""
    )
    assert refused
    assert all("TrustedHTML" in said for said in page_of.untoward)  # type: ignore[attr-defined]
    page_of.untoward.clear()  # type: ignore[attr-defined]


def test_long_and_long_worded_texts_stay_inside_the_page(page_of: Open) -> None:
    unit = samples.hostile("W" * 3_000 + " " + "long " * 3_000)
    page = page_of(unit)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 380, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


@pytest.mark.parametrize("width", [360, 800, 1400])
def test_nothing_overflows_at_any_width(page_of: Open, width: int) -> None:
    page = page_of(samples.unit(), samples.clean(), fragment="#/s/unit-1", width=width)
    page.locator("mark.claim").first.click()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    assert page.locator("#evidence").is_visible()


def test_claims_are_marked_by_grounding_with_a_sign_and_a_pattern(page_of: Open) -> None:
    page = page_of(samples.unit())
    marks = {name: page.locator(f"article mark.claim.{name}").first for name in ("grounded", "partial", "unsupported")}
    patterns = {
        name: mark.evaluate("mark => getComputedStyle(mark).textDecorationStyle") for name, mark in marks.items()
    }
    assert patterns == {"grounded": "solid", "partial": "dashed", "unsupported": "wavy"}
    assert {name: mark.locator("sup").inner_text() for name, mark in marks.items()} == {
        "grounded": "✓", "partial": "◐", "unsupported": "✕",
    }  # fmt: skip
    assert marks["grounded"].inner_text() == "✓A night at the hut costs 24 EUR"


def test_choosing_a_claim_shows_the_passage_with_the_quote_marked_and_escape_goes_back(page_of: Open) -> None:
    page = page_of(samples.unit())
    claim = page.locator("article mark.claim.grounded").first
    claim.focus()
    page.keyboard.press("Enter")

    panel = page.locator("#evidence")
    assert panel.locator("mark.quoted").inner_text() == "A night at the hut costs 24 EUR."
    assert "usually pay half" in panel.locator(".passage-text").first.inner_text()
    for text in ("doc-1", "Guide 1 (guide/1.md)", f"{samples.TRACE}:{1:016x}", "score 0.870", "from retriever span"):
        assert text in panel.inner_text()
    page.keyboard.press("Escape")
    assert panel.is_hidden()
    assert claim.evaluate("claim => claim === document.activeElement")


def test_an_event_shows_the_evidence_of_both_sides_and_says_when_there_is_none(page_of: Open) -> None:
    page = page_of(samples.unit())
    page.locator(".event").first.get_by_role("button", name="Show evidence").click()
    text = page.locator("#evidence").inner_text()
    assert "A night at the hut costs 24 EUR" in text
    assert "The night costs 30 EUR each" in text
    assert "Nothing to support this: the retriever returned nothing." in text


def test_arcs_join_the_two_claims(page_of: Open) -> None:
    page = page_of(samples.unit())
    page.wait_for_selector("svg.arcs g.arc")
    kinds = page.locator("svg.arcs g.arc").evaluate_all("arcs => arcs.map((arc) => arc.classList[1]).sort()")
    assert kinds == ["contradiction", "dropped"]
    ends = page.locator("svg.arcs g.contradiction").evaluate(
        """(arc) => {
            const box = (element) => element.getClientRects()[0];
            const middle = (box) => box.top + box.height / 2;
            const near = (end, claim) => Math.abs(middle(end) - middle(claim)) < 8;
            const [from, to] = ["0", "3"].map((n) => box(document.querySelector(`[data-claims~="${n}"]`)));
            return [near(box(arc.querySelector("circle")), from), near(box(arc.querySelector(".head")), to)];
        }"""
    )
    assert ends == [True, True]
    page.locator("svg.arcs g.contradiction .hit").dispatch_event("click")
    page.locator("#event-0:focus").wait_for()


def test_filters_by_severity_type_and_cause_narrow_sessions_and_dim_events(page_of: Open) -> None:
    minor = samples.unit(unit_id="unit-9", session=samples.session("minor-only"), severity="MINOR")
    only_minor = {**samples.report(), "drift_events": samples.report()["drift_events"][2:]}
    page = page_of(samples.unit(), replace(minor, report=only_minor), samples.clean())
    names = page.locator("#list .entry .name")
    assert names.all_inner_texts() == ["chat-7f31", "minor-only", "calm-2"]

    page.wait_for_selector("svg.arcs g.arc")
    page.get_by_label("critical").check()
    assert names.all_inner_texts() == ["chat-7f31"]
    assert page.locator(".event.filtered").count() == 2
    page.locator("svg.arcs g.filtered").wait_for(state="attached")  # drawn with the next frame
    assert page.locator("svg.arcs g.filtered").count() == 1
    page.get_by_label("critical").uncheck()
    page.get_by_label("unsupported new claim").check()
    assert names.all_inner_texts() == ["chat-7f31", "minor-only"]
    page.get_by_label("retrieval gap").check()
    assert names.all_inner_texts() == []
    assert page.locator("#shown").inner_text() == "0 of 3 sessions"
    page.get_by_label("unsupported new claim").uncheck()
    assert names.all_inner_texts() == ["chat-7f31"]


def test_a_filter_is_chosen_by_clicking_its_words(page_of: Open) -> None:
    """The checkbox stands beside them and covers nothing."""
    page = page_of(samples.unit(), samples.clean())
    words = page.locator("#filters .chip span:not(.count)").first
    words.click()
    box = page.locator("#filters .chip input").first
    assert box.is_checked()
    words.click()
    assert not box.is_checked()


def test_two_audits_of_one_session_are_one_session_in_two_checks(page_of: Open) -> None:
    page = page_of(samples.unit(), samples.unit(unit_id="another", audit="source_conflict"))
    assert page.locator(".tile .number").first.inner_text() == "1"
    assert page.locator("#shown").inner_text() == "2 checks"


def test_the_buttons_stay_one_line_on_a_narrow_screen(page_of: Open) -> None:
    page = page_of(samples.unit(), width=400, title="otel-drift audit of a service with quite a long name")
    for name in ("#print", "#theme"):
        box = page.locator(name).bounding_box()
        assert box is not None
        assert box["width"] > box["height"]
        assert box["height"] < 45
        assert box["x"] + box["width"] <= 400


def test_the_search_finds_sessions_by_name_user_and_trace(page_of: Open) -> None:
    other = samples.unit(unit_id="u2", session=replace(samples.session("other"), user="bobby", trace_ids=("ab" * 16,)))
    page = page_of(samples.unit(), other)
    for text, found in (("7F31", "chat-7f31"), ("Bobby", "other"), ("abab", "other")):
        page.get_by_label("Search sessions").fill(text)
        assert page.locator("#list .entry .name").all_inner_texts() == [found]


def test_the_worst_session_comes_first_and_quiet_ones_are_one_line(page_of: Open) -> None:
    minor = samples.unit(unit_id="m", session=samples.session("minor"), severity="MINOR")
    page = page_of(samples.clean(), samples.quiet("inconclusive", "timeout"), minor, samples.unit())
    assert page.locator("#list .entry .name").all_inner_texts() == ["chat-7f31", "minor", "inconclusive-3", "calm-2"]
    assert page.locator("#list .entry.compact").count() == 2
    assert page.locator("#main h2 .name").inner_text() == "chat-7f31"
    page.get_by_role("link", name="inconclusive-3").click()
    page.locator("#main .notice", has_text="the judge took longer than judge.timeout").wait_for()
    for name in ("calm-2", "inconclusive-3", "minor"):
        page.get_by_role("link", name=name).click()
        page.locator("#main h2 .name", has_text=name).wait_for()
        assert not re.search("null|undefined|NaN|\\[object", page.locator("body").inner_text())


def test_a_link_leads_to_its_session_and_event(page_of: Open) -> None:
    page = page_of(samples.clean(), samples.unit(), fragment="#/s/unit-1/e/event-6")
    assert page.locator("#main h2 .name").inner_text() == "chat-7f31"
    page.locator("#event-2:focus").wait_for()
    assert page.locator("#event-2 .actions a").get_attribute("href") == "#/s/unit-1/e/event-6"


def test_links_that_lead_nowhere_show_the_first_session(page_of: Open) -> None:
    for fragment in ("#/s/none", "#/s/%E0%A4%A", "#<img src=x onerror=alert(1)>", "#/s/unit-1/e/none"):
        assert page_of(samples.unit(), fragment=fragment).locator("#main h2 .name").inner_text() == "chat-7f31"


def test_the_judge_says_what_it_is(page_of: Open) -> None:
    page = page_of(samples.unit())
    assert "Judge rules: Embedded judge: sees words, not meaning." in page.locator("#summary").inner_text()
    assert "for a person to confirm" in page.locator("#summary").inner_text()


def test_a_run_without_sessions_says_so(page_of: Open) -> None:
    assert "No session was audited" in page_of().locator("#main").inner_text()


def test_dark_and_light(page_of: Open) -> None:
    page = page_of(samples.unit())
    light = page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor")
    page.get_by_role("button", name="Dark").click()
    assert page.locator("body").evaluate("body => getComputedStyle(body).backgroundColor") != light


def test_it_prints_the_session_without_the_controls(page_of: Open) -> None:
    page = page_of(samples.unit())
    page.emulate_media(media="print")
    assert page.locator("nav.sessions").is_hidden()
    assert page.locator("#print").is_hidden()
    assert page.locator(".event").first.is_visible()
    assert "A night at the hut costs 24 EUR." in page.locator(".event").first.inner_text()


def test_a_long_list_of_sessions_comes_in_pages(page_of: Open) -> None:
    units = [samples.clean(number) for number in range(2, 502)]
    page = page_of(*units, samples.unit())
    assert page.locator("#shown").inner_text() == "501 sessions"
    assert page.locator("#list .entry").count() == 200
    page.get_by_role("button", name="Show more").click()
    assert page.locator("#list .entry").count() == 400


def test_narrow_screens_show_the_list_first_and_lead_back_to_it(page_of: Open) -> None:
    page = page_of(samples.unit(), samples.clean(), width=390)
    assert page.locator("#main").is_hidden()
    page.get_by_role("link", name="calm-2").click()
    page.locator("#main h2 .name", has_text="calm-2").wait_for()
    assert page.locator("nav.sessions").is_hidden()
    page.get_by_role("link", name="All sessions").click()
    page.locator("nav.sessions").wait_for()


def test_the_pictures_of_the_readme_can_be_made_anew(browser: Browser, tmp_path: Path) -> None:
    """The committed script draws them from a real run; the one of the terminal fetches no font."""
    script = Path(__file__).parents[2] / "examples" / "guides" / "img" / "make_pictures.py"
    run = subprocess.run([sys.executable, script, tmp_path], capture_output=True, text=True, timeout=120, check=False)
    assert run.returncode == 0, run.stderr
    assert (tmp_path / "timeline.png").read_bytes().startswith(b"\x89PNG")
    terminal = (tmp_path / "terminal.svg").read_text("utf-8")
    assert "sess-pension" in terminal
    assert not re.search(r"url\(.?http|@font-face|<image|<script", terminal)
