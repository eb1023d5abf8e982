"""The page as a file: one piece, nothing in it that runs but its own script, written whole or not at all."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import tracemalloc
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from otel_drift.errors import ConfigError
from otel_drift.links import Links
from otel_drift.model import Unit
from otel_drift.report.html import HtmlReport, data_block
from otel_drift.report.page_data import MAX_TEXT, detail, index_entry
from report import samples

RUN = {"judge": "rules", "judge_note": "Embedded judge.", "paths": ["a.json"]}


class Page(HTMLParser):
    """Elements of a page with their attributes and direct text, as a browser would tokenise them."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self._open = False
        self.elements: list[tuple[str, dict[str, str | None], list[str]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))
        self._open = True

    def handle_endtag(self, tag: str) -> None:
        self._open = False

    def handle_data(self, data: str) -> None:
        if self._open:
            self.elements[-1][2].append(data)

    def data(self, kind: str) -> list[dict[str, Any]]:
        found = [(attrs, "".join(text)) for tag, attrs, text in self.elements if tag == "script"]
        return [json.loads(text) for attrs, text in found if kind in (attrs.get("class"), attrs.get("id"))]


def written(path: Path, *units: Unit, **run: Any) -> Page:
    with HtmlReport(path, title=run.pop("title", "Audit of huts"), run={**RUN, **run}) as report:
        for unit in units:
            report.add(unit)
    return Page(path.read_text("utf-8"))


def test_the_page_holds_every_unit_and_the_run(tmp_path: Path) -> None:
    page = written(tmp_path / "r.html", samples.unit(), samples.clean(), samples.quiet("inconclusive", "timeout"))
    assert [entry["name"] for entry in page.data("unit-index")] == ["chat-7f31", "calm-2", "inconclusive-3"]
    assert len(page.data("unit")) == 3
    [run] = page.data("run")
    assert (run["judge"], run["judge_note"], run["title"]) == ("rules", "Embedded judge.", "Audit of huts")


def test_the_policy_admits_exactly_this_script_and_style_and_no_request(tmp_path: Path) -> None:
    page = written(tmp_path / "r.html", samples.unit())
    policies = [a["content"] for tag, a, _ in page.elements if tag == "meta" and "http-equiv" in a]
    styles = ["".join(text) for tag, _, text in page.elements if tag == "style"]
    scripts = ["".join(text) for tag, attrs, text in page.elements if tag == "script" and "type" not in attrs]

    def allowed(text: str) -> str:
        return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"

    assert policies == [
        f"default-src 'none'; script-src {allowed(scripts[0])}; style-src {allowed(styles[0])}; img-src data:; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    ]
    assert (len(styles), len(scripts)) == (1, 1)


def test_nothing_on_the_page_leads_elsewhere_or_runs_inline(tmp_path: Path) -> None:
    page = written(tmp_path / "r.html", samples.hostile(), title=samples.HOSTILE)
    for tag, attributes, _ in page.elements:
        assert tag not in {"img", "iframe", "object", "embed", "base", "video", "audio"}
        assert not [
            name for name in attributes if name.startswith("on") or name in {"src", "srcset", "style", "action"}
        ]
        assert (attributes.get("href") or "#").startswith(("#", "data:image/svg+xml,"))
    ours = "".join(
        "".join(text) for tag, attrs, text in page.elements if tag in {"style", "script"} and "type" not in attrs
    )
    assert not re.search(
        r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|eval\(|new Function|@import|url\(", ours
    )
    assert set(re.findall(r"https?://[^\s\"']+", ours)) == {"http://www.w3.org/2000/svg"}


def test_hostile_text_stays_data_and_reads_back_literally(tmp_path: Path) -> None:
    calm, hostile = written(tmp_path / "a.html", samples.unit()), written(tmp_path / "b.html", samples.hostile())
    assert [tag for tag, _, _ in calm.elements] == [tag for tag, _, _ in hostile.elements]
    [unit] = hostile.data("unit")
    assert samples.MARKUP in unit["turns"][0]["user"]
    assert not re.search(
        "[\x00-\x09\x0b-\x1f\x7f-\x9f\u200b-\u200f\u202a-\u202e\u2066-\u2069]", (tmp_path / "b.html").read_text()
    )


def test_a_hostile_title_stays_text(tmp_path: Path) -> None:
    written(tmp_path / "r.html", title="</title><script>alert(1)</script>")
    text = (tmp_path / "r.html").read_text()
    assert html.escape("</title><script>alert(1)</script>") in text
    assert "<script>alert" not in text


def test_data_blocks_hold_no_character_that_could_end_them() -> None:
    block = data_block(
        {"a": "</script><!--&\u2028\u2029\ud800", "</script>": [1, None, True, float("nan"), ("x",), {1}]}, "id='x'"
    )
    body = block.removeprefix("<script type=\"application/json\" id='x'>").removesuffix("</script>\n")
    assert not set("<>&\u2028\u2029") & set(body)
    assert json.loads(body)["a"] == "</script><!--&\\u2028\\u2029\\ud800"


def test_claims_are_marked_where_their_quotes_stand_in_utf16_units() -> None:
    shown = detail(samples.unit())
    for turn in shown["turns"]:
        for start, end, number in turn["marks"]:
            units = turn["answer"].encode("utf-16-le")[2 * start : 2 * end].decode("utf-16-le")
            assert " ".join(units.split()) == shown["claims"][number]["quote"]
    assert sum(len(turn["marks"]) for turn in shown["turns"]) == len(shown["claims"]) == 6
    assert shown["turns"][0]["marks"][0][0] == len("Hello 🏔! ") + 1


def test_evidence_points_into_the_passage_of_its_own_turn() -> None:
    shown = detail(samples.unit())
    [evidence] = shown["claims"][0]["evidence"]
    passage = shown["passages"][evidence["passage"]]
    start, end = evidence["at"]
    assert shown["texts"][passage["text"]][start:end] == evidence["quote"] == "A night at the hut costs 24 EUR."
    assert evidence["passage"] in shown["turns"][0]["passages"]


def test_spans_of_the_report_decide_where_a_repeated_quote_is_marked() -> None:
    """The second "yes" is meant, behind a line break of two characters, an astral and an invisible one."""
    answer = "yes \r\n🏔 \u200b yes"
    twin = samples.passage(7, "yes and yes", 1)
    turns = (samples.turn(1, "?", answer, replace(twin, text="other"), twin),)
    report = samples.report()
    at = answer.rindex("yes")
    evidence = [{"passage_id": "doc-7", "ref": "t1.p2", "quote": "yes", "span": [8, 11]}]
    claim = {**report["claims"][0], "quote": "yes", "span": [at, at + 3], "evidence": evidence}
    unit = samples.unit(session=replace(samples.session(), turns=turns), report={"claims": [claim], "drift_events": []})
    shown = detail(unit)

    [[start, end, _]] = shown["turns"][0]["marks"]
    before = shown["turns"][0]["answer"].encode("utf-16-le")[: 2 * start].decode("utf-16-le")
    assert before == "yes \n🏔 \\u200b "
    assert end == start + 3
    [cited] = shown["claims"][0]["evidence"]
    assert (cited["passage"], cited["at"]) == (1, [8, 11])


def test_a_passage_that_recurs_is_stored_once() -> None:
    unit = samples.unit()
    again = samples.turn(6, "again?", "yes", *unit.session.turns[0].passages)
    shown = detail(replace(unit, session=replace(unit.session, turns=(*unit.session.turns, again))))
    assert (len(shown["passages"]), len(shown["texts"])) == (3, 2)


def test_a_claim_only_an_event_names_is_shown_too() -> None:
    shown = detail(samples.unit(report=None, findings=(samples.finding(),)))
    [event] = shown["events"]
    assert shown["claims"][event["earlier"]]["quote"] == "24 EUR"
    assert [turn["number"] for turn in shown["turns"] if turn["marks"]] == [1, 3]


def test_the_index_has_what_filters_and_the_list_need() -> None:
    entry = index_entry(samples.unit())
    assert entry["strip"] == "..Cxm"
    assert entry["events"][0] == ["CONTRADICTION", "CRITICAL", "retrieval_gap"]
    assert entry["labels"]["UNSUPPORTED_NEW_CLAIM"] == "unsupported new claim"
    assert samples.TRACE in entry["words"]


def test_very_long_texts_are_cut_visibly() -> None:
    asked = samples.turn(1, "x" * (MAX_TEXT + 5), "yes")
    unit = samples.unit(session=replace(samples.session(), turns=(asked,)))
    assert detail(unit)["turns"][0]["user"].endswith("x […5 more characters]")


def test_a_run_that_fails_leaves_the_earlier_page_and_no_partial_file(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    path.write_text("earlier")
    broken = replace(samples.unit(), session=None)  # type: ignore[arg-type]
    with pytest.raises(AttributeError):
        written(path, samples.unit(), broken)
    assert path.read_text() == "earlier"
    assert [file.name for file in tmp_path.iterdir()] == ["r.html"]


def test_the_page_appears_only_when_it_is_whole(tmp_path: Path) -> None:
    path = tmp_path / "r.html"
    with HtmlReport(path, title="t", run=RUN) as report:
        report.add(samples.unit())
        assert not path.exists()
    assert path.read_text().endswith("</html>\n")


def test_a_place_that_cannot_be_written_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"missing/r\.html: cannot be written there"):
        HtmlReport(tmp_path / "missing" / "r.html", title="t", run=RUN).__enter__()


def test_memory_does_not_grow_with_the_number_of_sessions(tmp_path: Path) -> None:
    unit = samples.unit()
    with HtmlReport(tmp_path / "r.html", title="t", run=RUN) as report:
        report.add(unit)
        tracemalloc.start()
        try:
            for _ in range(300):
                report.add(unit)
            left, peak = tracemalloc.get_traced_memory()
        finally:
            tracemalloc.stop()
    assert (tmp_path / "r.html").stat().st_size > 1_500_000
    assert left < 300_000
    assert peak < 600_000


def test_where_the_platform_is_known_turns_and_session_link_to_it() -> None:
    links = Links("https://traces.example/{trace_id}?span={span_id}", "https://traces.example/s/{session_id}")
    unit = samples.unit()

    shown = detail(unit, links)

    assert shown["session"]["url"] == links.session(unit.session.session_id)
    assert [turn["url"] for turn in shown["turns"]] == [links.span(turn.answer_ref) for turn in unit.session.turns]
    assert detail(unit)["session"]["url"] is None
