"""What people may rely on in every ledger: reviews, mutes, record, deletion, runs; for SQLite and PostgreSQL."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import sqlalchemy as sa

from alerting import LINKS, Remembering
from ledger_samples import ANSWER, PROMPT, TASK, conflicting, finding, ref, session, unit
from otel_drift import comparison, findings, labels
from otel_drift.alerts import AlertDuty, Channel, Findings, Pace
from otel_drift.errors import ConfigError
from otel_drift.grouping import grouped
from otel_drift.ledger import Ledger
from otel_drift.model import Annotation, Attempt, Message, Passage, Session, Unit, WriteReport
from otel_drift.policy import AlertRule, finding_item_id, unit_item_id

SINK = "jsonl:here"
SECRET = "The patient takes 40 mg of zolmarin"
EARLIER, LATER = "The patient takes 20 mg", SECRET


def told(key: str = "shop|s1", session_id: str | None = "s1", user: str | None = "mira") -> Session:
    """A session whose turns have texts, versions and a passage with an id of its own.

    The user's name has letters that are no hex digits: tests look for it among digests.
    """
    made = session(key, session_id)
    turns = tuple(
        replace(
            turn,
            user=f"How much in turn {turn.number}?",
            answer={1: EARLIER + ".", 3: LATER + "."}.get(turn.number, "Nothing."),
            model="gpt-x",
            app_version="1.4",
            passages=(Passage("leaflet", f"Leaflet: {EARLIER}.", 1, title="Leaflet of zolmarin"),),
        )
        for turn in made.turns
    )
    return replace(made, turns=turns, user=user)


def drifted(number: int = 1, **changes: Any) -> Unit:
    """A unit with one contradiction in turn 3 of session `number`, its words among what has to be erasable."""
    key = f"shop|s{number}"
    event = {
        "event_id": f"event-{number}",
        "status": "suspected",
        "earlier_claim": {"claim_id": "c1"},
        "later_claim": {"claim_id": "c2"},
    }
    claims = [{"claim_id": "c1", "evidence": [{"passage_id": "leaflet", "quote": EARLIER}]}, {"claim_id": "c2"}]
    messages = (Message("system", "Judge the data."), Message("user", f"<<<x>>> {SECRET} <<<end of x>>>"))
    attempts = (
        Attempt("session", 1, PROMPT, f"key-{number}", replace(ANSWER, text=f"no {SECRET}"), (f"not {SECRET}",)),
        Attempt("session", 2, PROMPT, f"key-{number}b", replace(ANSWER, text=SECRET), (), False, messages),
    )
    made = replace(
        unit(
            finding(
                3, event_id=f"event-{number}", quotes=(EARLIER, LATER), explanation=f"Possible contradiction: {SECRET}"
            )
        ),
        unit_id=f"unit-{number}",
        session=told(key, f"s{number}"),
        report={"drift_events": [event], "claims": claims, "note": SECRET},
        attempts=attempts,
        content_sha256=f"fingerprint-{number}",
    )
    return replace(made, **changes)


def commit(ledger: Ledger, one: Unit, run: int | None = None, **options: Any) -> Unit:
    return ledger.commit_unit(run, one, findings.annotations, (SINK,), **options)


def take(ledger: Ledger) -> dict[tuple[str, str], Annotation]:
    """What the sink is owed by target and name, settled as written."""
    taken = ledger.owed(SINK, 1000)
    ledger.settle(SINK, WriteReport(written=tuple(one.id for one in taken)))
    return {(one.target, one.name): one for one in taken}


def statuses(ledger: Ledger) -> dict[str | None, str]:
    items = ledger.review_items(("open", "triage", "confirmed", "rejected", "withdrawn"))
    return {one["event_id"]: one["status"] for one in items}


def contents(ledger: Ledger) -> str:
    """Everything in every table."""
    import otel_drift.inbox.tables  # noqa: F401  (they are among the ledger's)
    from otel_drift.ledger.schema import metadata

    with ledger._database.reading() as connection:
        rows = [list(connection.execute(sa.select(table))) for table in metadata.sorted_tables]
    return json.dumps([[[str(value) for value in row] for row in table] for table in rows])


def alert_bodies(ledger: Ledger) -> str:
    from otel_drift.ledger.schema import alert

    with ledger._database.reading() as connection:
        return "\n".join(connection.execute(sa.select(alert.c.body)).scalars())


class DeskContract:
    """Subclasses give the fixture `place`, a path or URL of an empty ledger."""

    @pytest.fixture
    def place(self) -> str:
        raise NotImplementedError

    @pytest.fixture
    def ledger(self, place: str) -> Iterator[Ledger]:
        with Ledger.open(place) as opened:
            yield opened

    # --- review items ---

    def test_items_are_made_with_the_unit_once_each(self, ledger: Ledger) -> None:
        sure, unsure, grave = (
            finding(2, confidence=0.9),
            finding(3, confidence=0.69),
            finding(4, severity="CRITICAL", confidence=0.5),
        )
        for _ in range(2):
            commit(ledger, unit(sure, unsure, grave))

        listed = ledger.review_items()

        assert statuses(ledger) == {"event-2": "open", "event-3": "triage", "event-4": "open"}
        assert [one["event_id"] for one in listed] == ["event-4", "event-2", "event-3"]
        assert listed[0]["reasons"] == ["critical", "low_confidence"]
        assert [one["item_id"] for one in ledger.review_items(("triage",))] == [finding_item_id(unsure)]
        assert len(ledger.review_item("event-3")["history"]) == 1

    def test_a_commit_that_fails_leaves_no_item(self, ledger: Ledger) -> None:
        def broken(_: Unit) -> list[Annotation]:
            raise RuntimeError("cut off")

        run = ledger.begin_run({})
        with pytest.raises(RuntimeError, match="cut off"):
            ledger.commit_unit(run, drifted(), broken, (SINK,))

        assert ledger.review_items() == []
        assert ledger.members(run) == []
        assert list(ledger.record()) == []

    def test_what_vanishes_undecided_is_withdrawn_and_opened_again_when_it_returns(self, ledger: Ledger) -> None:
        commit(ledger, drifted())
        commit(ledger, drifted(findings=(), outcome="clean", content_sha256="later"))
        gone = statuses(ledger)
        commit(ledger, drifted(content_sha256="later still"))

        history = [said["status"] for said in ledger.review_item("event-1")["history"]]

        assert gone == {"event-1": "withdrawn"}
        assert history == ["open", "withdrawn", "open"]

    def test_an_inconclusive_result_goes_to_review_and_closes_nothing(self, ledger: Ledger) -> None:
        commit(ledger, drifted())
        failed = {"findings": (), "outcome": "inconclusive", "reason": "answer_checks", "report": None}
        commit(ledger, drifted(**failed, content_sha256="b"))
        during = statuses(ledger)
        commit(ledger, drifted(content_sha256="c"))

        assert during == {"event-1": "open", None: "open"}
        assert statuses(ledger) == {"event-1": "open", None: "withdrawn"}

    def test_an_abstention_goes_to_review_where_the_stakes_are_high(self, ledger: Ledger) -> None:
        decision = {"findings": (), "outcome": "clean", "report": {"abstain": True}}
        commit(ledger, drifted(1, **decision))
        commit(ledger, drifted(2, **decision), domain="Clinical advice")

        (item,) = ledger.review_items()

        assert item["item_id"] == unit_item_id("unit-2")
        assert item["reasons"] == ["abstention"]
        assert ledger.review_item(item["item_id"])["packet"]["turns"][0]["passages"][0]["id"] == "leaflet"

    def test_a_reviewer_is_given_the_claims_the_quotes_and_the_passages(self, ledger: Ledger) -> None:
        commit(ledger, drifted())

        item = ledger.review_item(finding_item_id(drifted().findings[0])[:6])

        assert item["finding"]["quotes"] == [EARLIER, LATER]
        assert item["passages"] == [{"passage_id": "leaflet", "turn": 1, "title": "Leaflet of zolmarin"}]
        assert [turn["turn"] for turn in item["packet"]["turns"]] == [1, 2, 3]
        assert [turn["turn"] for turn in item["packet"]["turns"] if "passages" in turn] == [1, 3]
        assert item["packet"]["turns"][2]["answer_ref"] == ref(3)

    # --- decisions ---

    def test_a_rejection_sets_the_machines_values_to_none_and_is_said(self, ledger: Ledger) -> None:
        commit(ledger, drifted())
        take(ledger)

        item, owed_to = ledger.resolve("event-1", "rejected", by="Ada", why="another drug")
        written = take(ledger)

        assert (item["status"], owed_to) == ("rejected", [SINK])
        on_span = {
            name: (one.label, one.score, one.withdrawn) for (target, name), one in written.items() if target == "span"
        }
        assert on_span == {
            "factual_drift": ("NONE", 0.0, False),
            "factual_drift.contradiction": ("NONE", 0.0, False),
            "drift_severity": ("NONE", 0.0, False),
            "contradiction_type": ("NONE", None, False),
            "factual_drift.review": ("rejected", 0.0, False),
        }
        assert written["session", "drift_severity"].label == "NONE"
        assert written["trace", "drift_severity"].withdrawn
        assert written["span", "factual_drift.review"].explanation == "Rejected by Ada: another drug"

    def test_what_people_decide_is_said_in_the_environment_of_the_session(self, ledger: Ledger) -> None:
        unit = drifted()
        commit(ledger, replace(unit, session=replace(unit.session, environment="staging")))
        take(ledger)

        ledger.resolve("event-1", "rejected", by="Ada", why="another drug")

        assert {one.environment for one in take(ledger).values()} == {"staging"}

    def test_a_confirmation_is_said_beside_the_machine(self, ledger: Ledger) -> None:
        commit(ledger, drifted())
        take(ledger)

        ledger.resolve("event-1", "confirmed", by="Ada", why="so it is")
        written = take(ledger)

        assert written["span", "factual_drift.review"].label == "confirmed"
        assert written["span", "factual_drift.review"].score == 1.0
        changed = {name for (target, name), one in written.items() if target == "span" and one.label == "NONE"}
        assert changed == set()

    @pytest.mark.parametrize("decision", ["confirmed", "rejected"])
    def test_a_later_audit_keeps_the_decision(self, ledger: Ledger, decision: Any) -> None:
        commit(ledger, drifted())
        ledger.resolve("event-1", decision, by="Ada", why="known")
        take(ledger)

        worse = finding(3, event_id="event-1", severity="CRITICAL", explanation="In other words.", confidence=0.99)
        found_again = ledger.find_unit("unit-1", "fingerprint-1", told())
        again = commit(ledger, drifted(findings=(worse,), severity="CRITICAL", content_sha256="b"))

        assert found_again is not None
        assert [one.status for one in found_again.findings] == [decision]
        assert found_again.report is not None
        assert found_again.report["drift_events"][0]["status"] == decision
        assert [one.status for one in again.findings] == [decision]
        assert again.severity == ("NONE" if decision == "rejected" else "CRITICAL")
        assert statuses(ledger) == {"event-1": decision}
        labels_now = {one.label for (target, _), one in take(ledger).items() if target == "span"}
        assert labels_now == (set() if decision == "rejected" else {"CRITICAL", "CONTRADICTION"})

    def test_committing_a_decided_unit_found_again_changes_nothing(self, ledger: Ledger) -> None:
        commit(ledger, drifted())
        ledger.resolve("event-1", "rejected", by="Ada", why="known")
        take(ledger)
        found = ledger.find_unit("unit-1", "fingerprint-1", told())
        assert found is not None

        commit(ledger, found)

        assert len(list(ledger.record())) == 1
        assert take(ledger) == {}

    def test_a_decision_may_be_changed_and_the_record_keeps_both(self, ledger: Ledger) -> None:
        commit(ledger, drifted())
        ledger.resolve("event-1", "rejected", by="Ada", why="first thought")
        ledger.resolve("event-1", "confirmed", by="Bo", why="looked again")

        history = ledger.review_item("event-1")["history"]

        assert [(said["status"], said["said_by"], said["why"]) for said in history] == [
            ("open", None, None),
            ("rejected", "Ada", "first thought"),
            ("confirmed", "Bo", "looked again"),
        ]
        assert take(ledger)["span", "drift_severity"].label == "MAJOR"

    def test_rejecting_a_whole_unit_rejects_what_nobody_confirmed(self, ledger: Ledger) -> None:
        asks = {"review": {"needed": True, "reasons": ["adjudication"]}}
        two = unit(finding(2), finding(3), report=asks)
        commit(ledger, two)
        ledger.resolve("event-2", "confirmed", by="Ada", why="yes")
        ledger.resolve(unit_item_id("unit-1"), "rejected", by="Bo", why="no")

        found = ledger.find_unit("unit-1", "fingerprint-1", session())

        assert found is not None
        assert [one.status for one in found.findings] == ["confirmed", "rejected"]
        assert take(ledger)["session", "factual_drift.review"].label == "rejected"

    def test_a_decided_unit_is_opened_again_if_it_changes(self, ledger: Ledger) -> None:
        failed = {"findings": (), "outcome": "inconclusive", "reason": "answer_checks", "report": None}
        commit(ledger, drifted(**failed))
        ledger.resolve(unit_item_id("unit-1"), "confirmed", by="Ada", why="cannot be judged")
        commit(ledger, drifted(**failed))
        same = statuses(ledger)
        commit(ledger, drifted(**{**failed, "reason": "turn_exceeds_window"}, content_sha256="b"))

        assert (same, statuses(ledger)) == ({None: "confirmed"}, {None: "open"})

    def test_unknown_and_ambiguous_items_are_refused(self, ledger: Ledger) -> None:
        commit(ledger, drifted())
        for wrong in ("nothing", "", "%", "\0", "event"):
            with pytest.raises(ConfigError, match="no review item"):
                ledger.resolve(wrong, "rejected", by="Ada", why="x")

    # --- mutes ---

    def test_a_mute_holds_for_the_same_claims_on_the_same_passage_in_any_session(self, ledger: Ledger) -> None:
        commit(ledger, drifted(1))
        commit(ledger, drifted(2))
        take(ledger)

        mute = ledger.mute("event-1", why="old leaflet")
        silenced = take(ledger)
        third = commit(ledger, drifted(3))
        other = commit(ledger, replace(drifted(4), findings=(finding(3, quotes=("a b", "c d")),)))

        assert {one.label for (target, _), one in silenced.items() if target == "span"} == {"withdrawn"}
        assert ([one.muted for one in third.findings], third.severity) == (["old leaflet"], "NONE")
        assert third.report is not None
        assert third.report["drift_events"][0]["muted"] == "old leaflet"
        assert [one.muted for one in other.findings] == [None]
        (listed,) = ledger.mutes()
        assert (listed["mute_id"], listed["findings"], listed["in_force"]) == (mute["mute_id"], 3, True)
        assert ledger.find_unit("unit-3", "fingerprint-3", told("shop|s3", "s3")) == replace(
            third, calls=0, input_tokens=0, output_tokens=0, cost=0.0, attempts=(), session=told("shop|s3", "s3")
        )

    def test_a_mute_takes_its_passages_off_and_leaves_the_others_as_they_were(self, ledger: Ledger) -> None:
        """Said anew without the session's texts, the passages are still the same ones."""
        one = conflicting(("desk", "lab"), ("desk", "poster"))
        commit(ledger, one)
        take(ledger)

        mute = ledger.mute("conflict-0", why="known")
        left = findings.annotations(replace(one, findings=one.findings[1:]))[0]
        assert take(ledger)["span", "source_conflict"].passages == left.passages
        ledger.unmute(mute["mute_id"])
        assert take(ledger)["span", "source_conflict"].passages == findings.annotations(one)[0].passages

    def test_a_mute_ends_by_itself_or_when_taken_back(self, ledger: Ledger) -> None:
        commit(ledger, drifted())
        past = ledger.mute(finding_item_id(drifted().findings[0]), why="for a moment", until=time.time_ns() - 1)
        assert [one.muted for one in commit(ledger, drifted()).findings] == [None]
        assert ledger.mutes() == []
        assert [one["mute_id"] for one in ledger.mutes(everything=True)] == [past["mute_id"]]

        mute = ledger.mute("event-1", why="for good")
        take(ledger)
        ledger.unmute(mute["mute_id"])

        assert take(ledger)["span", "drift_severity"].label == "MAJOR"
        with pytest.raises(ConfigError, match="no mute"):
            ledger.unmute(mute["mute_id"])

    # --- record and deletion ---

    def test_the_record_has_every_result_ask_answer_delivery_and_review(self, ledger: Ledger) -> None:
        run = ledger.begin_run({"paths": []})
        ledger.remember("key-1b", TASK, ANSWER)
        commit(ledger, drifted(), run)
        commit(ledger, unit(unit_id="unit-9", session=told("shop|s9", "s9")), run)
        ledger.resolve("event-1", "confirmed", by="Ada", why="yes")
        take(ledger)

        first, second = ledger.record(since=0)

        refused, accepted = first["attempts"]
        assert refused["errors"] == [f"not {SECRET}"]
        assert accepted["messages"] == [
            {"role": "system", "content": "Judge the data."},
            {"role": "user", "content": f"<<<x>>> {SECRET} <<<end of x>>>"},
        ]
        assert accepted["prompt"] == {"id": PROMPT.id, "version": "v1", "sha256": PROMPT.sha256}
        assert (accepted["answer"], accepted["model"], accepted["parameters"]) == (SECRET, "model-2026", {"seed": 7})
        assert accepted["answered"] > first["committed"] - 10**12
        assert (first["runs"], first["outcome"], first["user"]) == ([run], "findings", "mira")
        assert first["findings"][0]["passage_ids"] == ["leaflet"]
        assert first["sources"]["turns"][2]["answer_ref"] == ref(3)
        assert "written" in {one["state"] for one in first["deliveries"]}
        assert [said["by"] for said in first["review"][0]["history"]] == [None, "Ada"]
        assert (second["outcome"], second["findings"]) == ("clean", [])
        assert [one["unit_id"] for one in ledger.record("s9")] == ["unit-9"]
        assert list(ledger.record("s8")) == []

    @pytest.mark.parametrize(
        "selector", [{"session": "s1"}, {"user": "mira"}, {"before": 2**62}, {"session": "shop|s1"}]
    )
    def test_forgetting_erases_every_text_and_leaves_hashes(self, ledger: Ledger, selector: dict[str, Any]) -> None:
        commit(ledger, unit(unit_id="unit-9", session=told("other|s9", "s9", user="bo")))
        ledger.remember("key-1b", TASK, replace(ANSWER, text=SECRET))
        commit(ledger, drifted(session=told("shop|mira|s1") if "session" not in selector else told()))
        take(ledger)
        ledger.resolve("event-1", "confirmed", by="Ada", why=f"because {SECRET}")
        ledger.mute("event-1", why=f"they asked about {SECRET}")
        before = {one["unit_id"]: one for one in ledger.record(since=0)}["unit-1"]
        assert SECRET in contents(ledger)

        counts = ledger.forget(**selector)

        everything = contents(ledger)
        assert SECRET not in everything
        assert EARLIER not in everything
        assert "zolmarin" not in everything
        assert "mira" not in everything
        after = {one["unit_id"]: one for one in ledger.record(since=0)}["unit-1"]
        assert (counts["attempts"], counts["findings"], counts["packets"]) == (2 + ("before" in selector), 1, 1)
        assert after["erased"] is not None
        for kept in ("result_id", "outcome", "severity", "judge", "prompts", "fingerprint", "result_sha256"):
            assert after[kept] == before[kept]
        for kept in ("answer_sha256", "messages_sha256", "cache_key", "number", "model"):
            assert [one[kept] for one in after["attempts"]] == [one[kept] for one in before["attempts"]]
        assert [one["status"] for one in after["review"]] == ["confirmed"]
        assert [(one["why"], one["in_force"]) for one in ledger.mutes()] == [("(reason erased)", True)]
        other = [one for one in ledger.record(since=0) if one["unit_id"] == "unit-9"]
        assert (other[0]["report"] is None) == ("before" in selector)

    def test_forgetting_erases_what_is_said_of_passages_and_leaves_where_it_was_said(self, ledger: Ledger) -> None:
        commit(ledger, conflicting(("desk", "lab")))
        said = next(one.passages for one in take(ledger).values() if one.passages)
        assert all(one.explanation in contents(ledger) for one in said)

        ledger.forget(session="s1")
        commit(ledger, unit(audit="source_conflict", content_sha256="fingerprint-2"))

        (gone,) = [one for one in take(ledger).values() if one.passages]
        assert gone.withdrawn
        assert gone.passages == tuple(replace(one, explanation="") for one in said)
        assert not any(one.explanation in contents(ledger) for one in said)

    def test_the_ledger_goes_on_after_a_deletion(self, ledger: Ledger) -> None:
        commit(ledger, drifted())
        ledger.resolve("event-1", "rejected", by="Ada", why="no")
        assert ledger.forget(session="s1")["results"] == 1
        assert ledger.forget(session="s1")["results"] == 0

        assert ledger.find_unit("unit-1", "fingerprint-1", told()) is None
        assert ledger.lookup("key-1b") is None
        assert ledger.resolve("event-1", "rejected", by="Bo", why="still no")[1] == []
        assert take(ledger)["session", "factual_drift"].explanation is None
        again = commit(ledger, drifted())
        assert [one.status for one in again.findings] == ["rejected"]
        assert [one["erased"] is None for one in ledger.record("s1")] == [False, True]
        assert len(list(ledger.record("shop|s1"))) == 2

    def test_a_deletion_withdraws_what_nobody_decided(self, ledger: Ledger) -> None:
        for number in (1, 2, 3):
            commit(ledger, drifted(number))
        ledger.resolve("event-2", "confirmed", by="Ada", why="yes")

        counts = [ledger.forget(session=f"s{number}")["reviews"] for number in (1, 2)]

        assert counts == [1, 1], "one withdrawn, one without its reason"
        assert {one["event_id"]: one["status"] for one in ledger.review_items()} == {
            "event-2": "confirmed",
            "event-3": "open",
        }
        (gone,) = ledger.review_items(("withdrawn",))
        shown = ledger.review_item(gone["item_id"])
        assert [one["status"] for one in shown["history"]] == ["open", "withdrawn"]
        assert (shown["event_id"], shown["finding"], shown["report"], shown["packet"]) == ("event-1", None, None, None)
        assert [one["quotes"] for one in ledger.current_findings()] == [[], [], [EARLIER, LATER]]
        commit(ledger, drifted(1, content_sha256="audited again"))
        assert ledger.review_item("event-1")["status"] == "open"

    @pytest.mark.parametrize("selector", [{"session": "s1"}, {"user": "mira"}, {"before": 2**62}])
    def test_a_deletion_ends_the_alert_and_leaves_no_name_in_it(self, ledger: Ledger, selector: dict[str, Any]) -> None:
        alerter = Remembering()
        channel = Channel(alerter.name, alerter, Findings(AlertRule("MINOR")))
        duty = AlertDuty(ledger, [channel], pace=Pace(group=0), links_for=lambda _trace: LINKS, quotes=True)
        commit(ledger, drifted())
        duty.step()
        ledger.forget(**selector)
        assert "traces.example" in alert_bodies(ledger), "receivers know it by its ids, and are not told yet"
        duty.step()
        duty.step()

        assert alerter.states == [[("s1", "firing")], [("s1", "resolved")]]
        (fired,), (ended,) = alerter.told
        assert (ended.key, ended.event_id, ended.link) == (fired.key, fired.event_id, fired.link)
        assert (fired.quotes != (), ended.quotes) == (True, ())
        assert json.loads(alert_bodies(ledger)) == {"type": "CONTRADICTION", "severity": "MAJOR"}

    def test_an_alert_that_ended_before_its_deletion_loses_its_names_with_it(self, ledger: Ledger) -> None:
        alerter = Remembering()
        channel = Channel(alerter.name, alerter, Findings(AlertRule("MINOR")))
        duty = AlertDuty(ledger, [channel], pace=Pace(group=0), links_for=lambda _trace: LINKS)
        commit(ledger, drifted())
        duty.step()
        commit(ledger, drifted(findings=(), outcome="clean", content_sha256="clean"))
        duty.step()
        assert alerter.states == [[("s1", "firing")], [("s1", "resolved")]]
        ledger.forget(session="s1")

        assert json.loads(alert_bodies(ledger)) == {"type": "CONTRADICTION", "severity": "MAJOR"}
        commit(ledger, drifted(content_sha256="audited again"))
        duty.step()
        assert alerter.states[2:] == [[("s1", "firing")]]
        assert alerter.told[2][0].session_link == "https://traces.example/sessions/s1"

    # --- runs, comparison, groups, labels ---

    def test_units_found_again_belong_to_the_run_that_found_them(self, ledger: Ledger) -> None:
        first, second = ledger.begin_run({"judge": "rules"}), ledger.begin_run({"judge": "rules"})
        commit(ledger, drifted(1), first)
        commit(ledger, drifted(2, findings=(), outcome="clean"), first)
        found = ledger.find_unit("unit-1", "fingerprint-1", told())
        assert found is not None
        commit(ledger, found, second)
        ledger.end_run(second, {"units": 1})

        compared = comparison.compare(ledger.members(first), ledger.members(second))

        assert [(one["run_id"], one["units"], bool(one["ended"])) for one in ledger.runs()] == [
            (first, 2, False),
            (second, 1, True),
        ]
        overall = compared["rows"][0]
        assert (overall["a"]["found"], overall["a"]["sessions"]) == (1, 2)
        assert (overall["b"]["found"], overall["b"]["sessions"]) == (1, 1)
        assert ("app_version", "1.4") in {(row["dimension"], row["value"]) for row in compared["rows"]}

    def test_rejected_and_muted_findings_are_in_no_rate(self, ledger: Ledger) -> None:
        run = ledger.begin_run({})
        for number in (1, 2, 3):
            commit(ledger, drifted(number, findings=(finding(3, event_id=f"e{number}", quotes=(f"q {number}",)),)), run)
        ledger.resolve("e1", "rejected", by="Ada", why="no")
        ledger.mute("e2", why="known")

        assert [len(one["findings"]) for one in ledger.members(run)] == [0, 0, 1]

    def test_one_document_in_many_sessions_is_one_group(self, ledger: Ledger) -> None:
        for number in range(1, 6):
            commit(ledger, drifted(number))
        ledger.resolve("event-5", "rejected", by="Ada", why="no")

        (group,) = grouped(ledger.current_findings(), "passage")

        assert (group["passage"], group["findings"], group["sessions"]) == ("leaflet", 5, 5)
        assert group["statuses"] == {"suspected": 4, "rejected": 1}
        assert grouped(ledger.current_findings(time.time_ns()), "passage") == []
        assert [one["sessions"] for one in grouped(ledger.current_findings(), "type")] == [5]

    def test_decisions_become_labels(self, ledger: Ledger) -> None:
        for number in (1, 2, 3):
            commit(ledger, drifted(number))
        ledger.resolve("event-1", "confirmed", by="Ada", why="yes")
        ledger.resolve("event-2", "rejected", by="Ada", why="no")

        made = [labels.of_item(one) for one in ledger.decided_items()]

        assert [(one["label"], one["text"], one["reference"]) for one in made if one] == [
            ("contradiction", LATER, EARLIER),
            ("no_contradiction", LATER, EARLIER),
        ]
