"""What otel-drift itself takes for a session when the judge answers at once.

The budgets are in processor time, which holds on a busy machine too: on the harness (layout, prompt, schema, checks,
report), and on the whole line over replicated captures (rebuilding a session, fingerprint, harness, stored answer,
annotations, commit; not the reading before it). For information, by the clock: the harness over sessions of 40 turns,
with the ledger's commits, and with the judge behind HTTP on loopback, where the client library costs most. Medians over
sessions of 2 to 10 turns with three passages and five claims each. The last line is JSON.
"""

from __future__ import annotations

import json
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from synthetic import write_synthetic

from model_server import ModelServer, Reply
from otel_drift import findings, fingerprints, pipeline, sessions, validation
from otel_drift.audits.factual_drift import FactualDrift
from otel_drift.findings import unit_record
from otel_drift.judges import litellm_library
from otel_drift.judges.litellm import LiteLLMJudge
from otel_drift.ledger import Ledger
from otel_drift.model import JudgeAnswer, JudgeLimits, JudgeTask, Passage, Session, Turn
from otel_drift.pipeline import Line
from otel_drift.protocols import AuditSettings
from otel_drift.spool import SpanSpool
from otel_drift.text.sentences import sentences
from otel_drift_connectors.otlp_file import OtlpFileSource

SESSIONS = 150
OVER_HTTP = 30
BUDGET_MS = 10.0
NOUNS = ("plan", "refund", "invoice", "support", "hour", "customer", "account", "region", "server", "backup", "policy")
VERBS = ("covers", "includes", "requires", "limits", "extends", "replaces", "ends", "starts")


class InstantJudge:
    """Answers at once with the right answer; counts tokens as the real one does."""

    name = "openai/instant"
    note = ""
    embedded = False
    endpoint = "this process"

    def __init__(self, answers: Mapping[str, str]) -> None:
        self._answers = answers

    def parameters(self) -> Mapping[str, Any]:
        return {}

    def limits(self) -> JudgeLimits:
        return JudgeLimits(input_tokens=400_000, output_tokens=100_000)

    def count_tokens(self, text: str) -> int:
        return litellm_library.count_tokens(text)

    def ask(self, task: JudgeTask) -> JudgeAnswer:
        return JudgeAnswer(self._answers[task.material.key], "instant", 1000, 100, 0.0, 0.0, "stop")


def main() -> None:
    """Measure and print."""
    invented = [made(number) for number in range(SESSIONS)]
    answers = {session.key: json.dumps(answer_to(session)) for session in invented}
    judge = InstantJudge(answers)
    judge.count_tokens("load the tokenizer")
    audit, settings = FactualDrift(), AuditSettings(limits=judge.limits())
    outcomes = {validation.audit_session(audit, session, judge).outcome for session in invented[:5]}
    assert outcomes == {"findings"}, outcomes

    harness = timed(invented[5:], lambda session: validation.audit_session(audit, session, judge), time.thread_time)
    long = [made(1000 + number, turns=40) for number in range(20)]
    judge = InstantJudge(answers | {session.key: json.dumps(answer_to(session)) for session in long})
    at_length = timed(long, lambda session: validation.audit_session(audit, session, judge))
    with tempfile.TemporaryDirectory() as folder, Ledger.open(str(Path(folder, "ledger.db"))) as ledger:
        run_id = ledger.begin_run({})

        def whole_line(session: Session) -> None:
            fingerprint = fingerprints.unit_fingerprint(audit, session, judge, settings)
            assert ledger.find_unit(fingerprints.unit_id(audit.name, session), fingerprint, session) is None
            unit = validation.audit_session(audit, session, judge, cache=ledger, settings=settings)
            unit = replace(unit, content_sha256=fingerprint)
            json.dumps(unit_record(ledger.commit_unit(run_id, unit, findings.annotations, ("jsonl:out",))))

        line = timed(invented, whole_line)
    with ModelServer(
        lambda request: Reply(next(body for key, body in answers.items() if key in request.text))
    ) as server:
        remote = LiteLLMJudge("openai/instant", api_base=server.url, input_window=400_000, output_limit=100_000)
        remote.count_tokens("load the library")
        over_http = timed(invented[:OVER_HTTP], lambda session: validation.audit_session(audit, session, remote))
        remote.close()

    whole = whole_line_over_captures()
    turns = statistics.median(len(session.turns) for session in invented)
    figures = {
        "harness (processor)": harness,
        "with ledger": line,
        "harness, 40 turns": at_length,
        "over HTTP": over_http,
        "line, captures (proc.)": whole,
    }
    print(f"overhead a session, judge answering at once; {SESSIONS} sessions, median {turns:.0f} turns")
    for name, times in figures.items():
        print(
            f"  {name:24} median {statistics.median(times):6.2f} ms   p90 {sorted(times)[len(times) * 9 // 10]:6.2f} ms"
        )
    medians = {f"{name}, median ms": round(statistics.median(times), 3) for name, times in figures.items()}
    budget = {
        "overhead a session, median ms": [statistics.median(harness), "<=", BUDGET_MS],
        "whole line a session, median ms": [statistics.median(whole), "<=", BUDGET_MS],
    }
    print(json.dumps({**medians, "budgets": budget}))


def whole_line_over_captures(spans: int = 10_000) -> list[float]:
    """Processor milliseconds a unit of `pipeline.audit` over replicated captures; the first holds the reading."""
    with tempfile.TemporaryDirectory() as folder, Ledger.open(str(Path(folder, "ledger.db"))) as ledger:
        path = Path(folder, "captures.json")
        write_synthetic(path, spans)
        with SpanSpool() as spool:
            records = (record for page, _ in OtlpFileSource([path]).read() for record in page)
            answers = {one.key: json.dumps(claims_of(one)) for one in sessions.stream(records, spool)}
        judge = InstantJudge(answers)
        line = Line([FactualDrift()], judge, AuditSettings(limits=judge.limits()), ledger, sinks=("jsonl:out",))
        line.run_id = ledger.begin_run({})
        times, outcomes = [], set()
        before = time.process_time()
        for unit in pipeline.audit(OtlpFileSource([path]), line):
            now = time.process_time()
            times.append((now - before) * 1000)
            outcomes.add(unit.outcome)
            before = now
    assert "findings" in outcomes, outcomes
    return times[1:]


def claims_of(session: Session) -> dict[str, Any]:
    """A well-formed answer for any session: the first five sentences of each answer, unsupported."""
    claims: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    for turn in session.turns:
        for sentence in sentences(turn.answer or "")[:5]:
            claims.append(
                {"id": f"c{len(claims) + 1}", "turn": turn.ref, "claim_text": sentence.text, "quote": sentence.text,
                 "grounding_status": "UNSUPPORTED", "evidence": [], "qualifiers": [], "missing_qualifier": None}
            )  # fmt: skip
        if turn.number % 3 and claims and claims[-1]["turn"] == turn.ref:
            events.append(_new_claim(turn, claims[-1]["id"]))
    return {"claims": claims, "drift_events": events, "overall_assessment": "Unsupported claims."}


def _new_claim(turn: Turn, claim: str) -> dict[str, Any]:
    return {
        "turn": turn.ref, "drift_type": "UNSUPPORTED_NEW_CLAIM", "earlier_claim": None, "later_claim": claim,
        "description": "New.", "severity": "MINOR", "detection_confidence": 0.8, "acknowledged_correction": False,
    }  # fmt: skip


def timed(
    over: Iterable[Session], run: Callable[[Session], Any], clock: Callable[[], float] = time.perf_counter
) -> list[float]:
    """Milliseconds of `run` for each session."""
    times = []
    for session in over:
        started = clock()
        run(session)
        times.append((clock() - started) * 1000)
    return times


def made(number: int, turns: int | None = None) -> Session:
    """A session of invented sentences; passages of about 100 words, answers of about 60."""
    rng = random.Random(number)
    made_turns = tuple(_turn(rng, number, n) for n in range(1, (turns or rng.randint(2, 10)) + 1))
    return Session(f"session-{number:04}", f"s{number}", made_turns, tuple(turn.trace_ids[0] for turn in made_turns))


def _turn(rng: random.Random, session: int, number: int) -> Turn:
    trace = f"{session:016x}{number:016x}"
    passages = [" ".join(_sentence(rng) for _ in range(7)) for _ in range(3)]
    said = [passage.split(". ")[0] + "." for passage in passages] + [_sentence(rng) for _ in range(2)]
    return Turn(
        turn_id=f"{trace}:t",
        number=number,
        started=number * 10**9,
        ended=number * 10**9 + 10**8,
        user=f"Asked in session-{session:04}: what about {_sentence(rng).lower()[:-1]}?",
        answer=" ".join(said),
        answer_state="captured",
        retrieval="captured",
        passages=tuple(Passage(f"doc-{number}-{rank}", text, rank) for rank, text in enumerate(passages, 1)),
        answer_ref=f"{trace}:{number:016x}",
        root_ref=f"{trace}:{number + 100:016x}",
        trace_ids=(trace,),
    )


def _sentence(rng: random.Random) -> str:
    first, *others = rng.choices(NOUNS, k=4)
    name = f"{rng.choice(NOUNS).capitalize()}{rng.randint(10, 999)}"
    what = f"{' and '.join(others)} for every {first} within {rng.randint(2, 90)} days"
    return f"The {first} {name} {rng.choice(VERBS)} {what}."


def answer_to(session: Session) -> dict[str, Any]:
    """A right answer: a claim a sentence, the first three of a turn grounded; in two turns of three one is an event."""
    claims: list[dict[str, Any]] = []
    events: list[dict[str, Any]] = []
    for turn in session.turns:
        for index, sentence in enumerate((turn.answer or "")[:-1].split(". ")):
            quote, grounded = f"{sentence}.", index < 3
            ref = f"c{len(claims) + 1}"
            evidence = [{"passage": turn.passage_ref(index), "quote": quote}] if grounded else []
            status = "GROUNDED" if grounded else "UNSUPPORTED"
            claims.append(
                {"id": ref, "turn": turn.ref, "claim_text": quote, "quote": quote, "grounding_status": status,
                 "evidence": evidence, "qualifiers": [], "missing_qualifier": None}
            )  # fmt: skip
        if turn.number % 3 == 0:
            continue
        events.append(_new_claim(turn, claims[-1]["id"]))
    return {"claims": claims, "drift_events": events, "overall_assessment": "Unsupported claims."}


if __name__ == "__main__":
    main()
