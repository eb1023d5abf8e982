"""How good and how fast the embedded judge is, on the dev halves and the labelled conversations.

Times are CPU time of this process. Grounding figures are of models that never saw the set they are measured on; the
shipped weights are fitted on all sets.
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from benchmarks import (
    BAD,
    GROUNDING_SETS,
    auroc,
    balanced_accuracy,
    is_scored,
    items,
    labelled_conversations,
    question,
    session_of_labels,
    shared_dir,
)
from fit_rules import THRESHOLD, feature_rows, left_out

from otel_drift.calibration.embedded import embedded_score
from otel_drift.calibration.labels import Case
from otel_drift.judges.rules import grounding
from otel_drift.judges.rules_drift import audit_session
from otel_drift.judges.rules_qualification import lost_qualifier
from otel_drift.judges.rules_statements import read
from otel_drift.model import Passage, Session, Turn


def main() -> None:
    """Print figures, then one JSON line."""
    if shared_dir() is None:
        print("the benchmarks are not beside this checkout (set OTEL_DRIFT_SHARED): nothing measured")
        print(json.dumps({"skipped": "benchmarks absent"}))
        return
    figures: dict[str, Any] = {}
    figures["grounding"] = grounding_figures()
    figures["abstaining"], figures["answer_ms"] = abstaining_figures()
    figures["sessions"] = session_figures()
    figures["pairs"] = pair_figures()
    figures["labelled"] = labelled_figures()
    for part, values in figures.items():
        print(part)
        for name, value in values.items():
            print(f"  {name:24} {value}")
    suites = figures["grounding"]
    figures["budgets"] = {
        "mean AUROC": [statistics.mean(s["auroc"] for s in suites.values()), ">=", 0.86],
        "mean balanced accuracy": [statistics.mean(s["balanced_accuracy"] for s in suites.values()), ">=", 0.78],
        "flag precision on mtrag": [figures["abstaining"]["mtrag_human"]["flag_precision"], ">=", 0.85],
        "no_claim items flagged": [sum(s["no_claim_flagged"] for s in figures["abstaining"].values()), "<=", 0],
        "contradictions a conversation": [figures["sessions"]["contradictions_per_reference"], "<=", 0.2],
        "p50 ms an answer, grounding": [figures["answer_ms"]["mtrag_p50"], "<=", 25],
        "p50 ms an answer, whole audit": [figures["sessions"]["p50_ms_a_turn"], "<=", 25],
        "false events, labelled": [len(figures["labelled"]["false"]), "<=", 0],
    }
    print(json.dumps(figures))


def grounding_figures() -> dict[str, dict[str, float]]:
    """AUROC and balanced accuracy at one threshold, each set held out from its fit. Refusal-only answers left out."""
    held = left_out({suite: feature_rows(suite) for suite in GROUNDING_SETS})
    return {
        suite: {
            "auroc": round(auroc(scored), 3),
            "balanced_accuracy": round(balanced_accuracy(scored, THRESHOLD), 3),
            "items": len(scored),
        }
        for suite, scored in held.items()
    }


def abstaining_figures() -> tuple[dict[str, dict[str, float]], dict[str, float]]:
    """Precision of the three outcomes of the shipped judge, and milliseconds an mtrag answer."""
    found, times = {}, []
    for suite in GROUNDING_SETS:
        verdicts: dict[tuple[str, bool], int] = defaultdict(int)
        no_claim = flagged = 0
        for item in items(suite):
            started = time.process_time()
            verdict = grounding(item["text"], [p["text"] for p in item["passages"]], question(item)).verdict
            if suite == "mtrag_human":
                times.append(1000 * (time.process_time() - started))
            if item["label"] == "no_claim":
                no_claim += 1
                flagged += verdict == "unsupported"
            elif is_scored(item):
                verdicts[verdict, item["label"] in BAD] += 1
        total = sum(verdicts.values())
        flags = verdicts["unsupported", True] + verdicts["unsupported", False]
        passes = verdicts["supported", True] + verdicts["supported", False]
        found[suite] = {
            "decided": round((flags + passes) / total, 3),
            "flags": flags,
            "flag_precision": round(verdicts["unsupported", True] / max(1, flags), 3),
            "pass_precision": round(verdicts["supported", False] / max(1, passes), 3),
            "no_claim": no_claim,
            "no_claim_flagged": flagged,
        }
    times.sort()
    return found, {"mtrag_p50": round(times[len(times) // 2], 2), "mtrag_p90": round(times[len(times) * 9 // 10], 2)}


def session_figures() -> dict[str, Any]:
    """Events in real multi-turn conversations (mtrag), by answerer and by the human label of the turn."""
    by_type: dict[str, int] = defaultdict(int)
    unsupported_by_label: dict[str, int] = defaultdict(int)
    times, references, contradictions = [], 0, 0
    for trace in _mtrag_traces():
        model = trace[0]["meta"]["model"]
        labels = {f"t{item['turn']}": item["label"] for item in trace}
        started = time.process_time()
        answer = audit_session(_mtrag_session(trace))
        times.append(1000 * (time.process_time() - started) / len(trace))
        references += model == "reference"
        for event in answer["drift_events"]:
            by_type[f"{model}: {event['drift_type']}"] += 1
            contradictions += model == "reference" and event["drift_type"] == "CONTRADICTION"
            if event["drift_type"] == "UNSUPPORTED_NEW_CLAIM":
                unsupported_by_label[labels[event["turn"]]] += 1
    times.sort()
    return {
        "events": dict(by_type),
        "unsupported_by_label": dict(unsupported_by_label),
        "contradictions_per_reference": contradictions / references,
        "p50_ms_a_turn": round(times[len(times) // 2], 2),
        "p90_ms_a_turn": round(times[len(times) * 9 // 10], 2),
    }


def _mtrag_traces() -> Iterable[list[dict[str, Any]]]:
    traces: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in items("mtrag_human"):
        traces[item["meta"]["trace"]].append(item)
    return [sorted(trace, key=lambda item: int(item["turn"])) for _, trace in sorted(traces.items())]


def _mtrag_session(trace: list[dict[str, Any]]) -> Session:
    turns = tuple(
        Turn(
            turn_id=item["id"],
            number=item["turn"],
            started=0,
            ended=0,
            user=question(item),
            answer=item["text"],
            answer_state="captured",
            retrieval="captured" if item["passages"] else "no_retrieval",
            passages=tuple(Passage(p["id"], p["text"], rank) for rank, p in enumerate(item["passages"], 1)),
        )
        for item in trace
    )
    return Session(trace[0]["meta"]["trace"], None, turns, ())


def pair_figures() -> dict[str, Any]:
    """Contradiction and lost qualifier on pairs of sentences: precision, recall, false alarms."""

    def contradicts(item: dict[str, Any]) -> bool:
        return embedded_score(Case(item["id"], "contradiction", item["text"], item["reference"])).score > 0

    return {
        "chatprotect": _pairs("chatprotect", contradicts),
        "qualifier_pairs": _pairs(
            "qualifier_pairs", lambda i: lost_qualifier(read(i["reference"]), read(i["text"])) is not None
        ),
    }


def _pairs(suite: str, fires: Any) -> dict[str, float]:
    outcomes = [(fires(item), item["label"] in BAD) for item in items(suite)]
    hits = sum(fired and bad for fired, bad in outcomes)
    fired = sum(fired for fired, _ in outcomes)
    bad = sum(bad for _, bad in outcomes)
    return {
        "fired": fired,
        "precision": round(hits / max(1, fired), 3),
        "recall": round(hits / bad, 3),
        "false_alarm_rate": round((fired - hits) / (len(outcomes) - bad), 3),
    }


TYPES = {
    "contradiction": "CONTRADICTION",
    "dropped_qualification": "DROPPED_QUALIFICATION",
    "unsupported_claim": "UNSUPPORTED_NEW_CLAIM",
}


def labelled_figures() -> dict[str, Any]:
    """Planted events found, and events on sentences where nothing is planted, over the labelled conversations.

    A claim that is planted as unsupported and as contradicting an earlier one is one event, the contradiction.
    """
    planted, missed, false = 0, [], []
    for name, label in labelled_conversations().items():
        answer = audit_session(session_of_labels(label))
        quotes = {claim["id"]: claim["quote"] for claim in answer["claims"]}
        events = [(e["turn"], e["drift_type"], quotes[e["later_claim"]]) for e in answer["drift_events"]]
        real = [(f"t{e['turn']}", TYPES[e["type"]], e["answer_span"]) for e in planted_events(label)]
        planted += len(real)
        for turn, kind, span in real:
            kinds = {found for where, found, quote in events if where == turn and span in quote}
            if kind not in kinds and not (kind == "UNSUPPORTED_NEW_CLAIM" and "CONTRADICTION" in kinds):
                missed.append(f"{name} {turn} {kind}")
        wrong = [(turn, text) for turn, _, text in real] + [
            (f"t{part['turn']}", sentence["text"])
            for part in label.get("long_form", [])
            for sentence in part["sentences"]
            if sentence["status"] != "fully_grounded"
        ]
        false += [
            f"{name} {turn} {kind}: {quote}"
            for turn, kind, quote in events
            if not any(where == turn and span in quote for where, span in wrong)
        ]
    return {"planted": planted, "found": planted - len(missed), "missed": missed, "false": false}


def planted_events(label: dict[str, Any]) -> list[dict[str, Any]]:
    """The planted events that the audit is about."""
    return [e for e in label["planted_events"] if e["event"] and e["type"] in TYPES]


if __name__ == "__main__":
    main()
