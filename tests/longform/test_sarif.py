"""SARIF 2.1.0: what code review reads, against the parts of its schema that we write."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from jsonschema import Draft7Validator

from otel_drift.audits.longform_drift import LongformDrift
from otel_drift.judges.rules import RulesJudge
from otel_drift.longform.files import Document, session_of
from otel_drift.model import Unit
from otel_drift.sarif import sarif_log
from otel_drift.validation import audit_session

SOURCE = "\n".join(f"Pump {n} was checked on {n} May 2026 and found to be in good working order." for n in range(1, 31))
GOOD = " ".join(line for line in SOURCE.splitlines()[:20])
BAD = "The mayor [has](http://evil.example) promised {0} new pumps\nfor 4,000,000 EUR to Velden \u202eby 2031."


def text(value: str = "string") -> dict[str, Any]:
    return {"type": value}


def closed(required: list[str], **properties: Any) -> dict[str, Any]:
    """An object of the schema: these properties and no others, as the schema closes all of them."""
    return {"type": "object", "required": required, "properties": properties, "additionalProperties": False}


MESSAGE = closed([], text=text())
ARTIFACT_LOCATION = closed([], uri={"type": "string", "pattern": r"^[A-Za-z0-9\-._~:/?#\[\]@!$&'()*+,;=%]+$"})
NUMBER = {"type": "integer", "minimum": 1}
REGION = closed(
    [], startLine=NUMBER, startColumn=NUMBER, endLine=NUMBER, endColumn=NUMBER,
    charOffset={"type": "integer", "minimum": -1}, charLength={"type": "integer", "minimum": 0}, snippet=MESSAGE,
)  # fmt: skip
LOCATION = closed(
    [], id={"type": "integer", "minimum": -1}, message=MESSAGE,
    physicalLocation=closed([], artifactLocation=ARTIFACT_LOCATION, region=REGION),
)  # fmt: skip
LEVEL = {"enum": ["none", "note", "warning", "error"]}
RULE = closed(["id"], id=text(), name=text(), shortDescription=MESSAGE, defaultConfiguration=closed([], level=LEVEL))
RESULT = closed(
    ["message"], ruleId=text(), ruleIndex={"type": "integer", "minimum": -1}, level=LEVEL, message=MESSAGE,
    locations={"type": "array", "items": LOCATION}, relatedLocations={"type": "array", "items": LOCATION},
    partialFingerprints={"type": "object", "additionalProperties": text()}, properties=text("object"),
)  # fmt: skip
RUN = closed(
    ["tool"],
    tool=closed(
        ["driver"],
        driver=closed(["name"], name=text(), version=text(), rules={"type": "array", "items": RULE}),
    ),
    columnKind={"enum": ["utf16CodeUnits", "unicodeCodePoints"]},
    invocations={
        "type": "array",
        "items": closed(
            ["executionSuccessful"],
            executionSuccessful=text("boolean"),
            toolExecutionNotifications={"type": "array", "items": closed(["message"], level=LEVEL, message=MESSAGE)},
        ),
    },
    artifacts={"type": "array", "items": closed([], location=ARTIFACT_LOCATION), "uniqueItems": True},
    results={"type": "array", "items": RESULT},
    properties=text("object"),
)  # fmt: skip
SCHEMA = closed(
    ["version", "runs"],
    version={"enum": ["2.1.0"]},
    runs={"type": "array", "items": RUN},
    **{"$schema": text()},
)


def audited(answer: str, name: str = "docs/über uns.md") -> Unit:
    return audit_session(
        LongformDrift(), session_of(Document(name, answer), [Document("source.txt", SOURCE)]), RulesJudge()
    )


def checked(unit: Unit) -> dict[str, Any]:
    log = sarif_log(unit)
    assert not [error.message for error in Draft7Validator(SCHEMA).iter_errors(log)]
    assert json.loads(json.dumps(log)) == log
    return log


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_each_weaker_sentence_is_a_result_at_its_place(end: str) -> None:
    answer = f"😀 # Pumps\n\n{GOOD}\n\n{BAD}\n".replace("\n", end)
    (result,) = checked(audited(answer))["runs"][0]["results"]
    (location,) = result["locations"]
    region = location["physicalLocation"]["region"]
    lines = answer.split(end)
    assert (region["startLine"], region["startColumn"]) == (5, 1)
    assert (region["endLine"], region["endColumn"]) == (6, len(lines[5]) + 1)
    shown = answer[region["charOffset"] : region["charOffset"] + region["charLength"]]
    assert shown == BAD.replace("\n", end)
    assert location["physicalLocation"]["artifactLocation"]["uri"] == "docs/%C3%BCber%20uns.md"
    assert result["ruleId"] == "longform_drift.ungrounded"
    assert result["message"]["text"].startswith("Drift starts here. Ungrounded: Possible drift")
    assert "\u202e" not in json.dumps(result, ensure_ascii=False)


def test_the_excerpt_of_the_source_is_a_related_place() -> None:
    answer = GOOD.replace(" 3 May 2026", " 3 July 2026")
    (result,) = checked(audited(answer))["runs"][0]["results"]
    (related,) = result["relatedLocations"]
    assert related["physicalLocation"]["artifactLocation"]["uri"] == "source.txt"
    assert related["physicalLocation"]["region"]["startLine"] == 3
    assert result["level"] == "note"


def test_no_text_of_strangers_becomes_a_link_or_a_placeholder() -> None:
    unit = audited(f"{GOOD} {BAD}")
    assert unit.report is not None
    weaker = [
        {**one, "drift_explanation": "see [here](http://evil.example) {0} \\"}
        for one in unit.report["sentence_by_sentence_analysis"]
    ]
    log = checked(replace(unit, report={**unit.report, "sentence_by_sentence_analysis": weaker}))
    said = log["runs"][0]["results"][0]["message"]["text"]
    assert r"see \[here\](http://evil.example) {{0}} \\" in said


def test_a_clean_text_has_no_results() -> None:
    run = checked(audited(GOOD))["runs"][0]
    assert (run["results"], run["invocations"]) == ([], [{"executionSuccessful": True}])
    assert run["properties"]["drift_severity"] == "none"


@pytest.mark.parametrize(
    ("outcome", "reason", "level", "successful"),
    [("inconclusive", "source_exceeds_window", "error", False), ("not_applicable", "short_form", "warning", True)],
)
def test_what_was_not_audited_is_a_notification(outcome: Any, reason: str, level: str, successful: bool) -> None:
    unit = replace(audited(GOOD), outcome=outcome, reason=reason, report=None, findings=())
    (invocation,) = checked(unit)["runs"][0]["invocations"]
    assert invocation["executionSuccessful"] is successful
    (told,) = invocation["toolExecutionNotifications"]
    assert told["level"] == level
    assert reason in told["message"]["text"]
