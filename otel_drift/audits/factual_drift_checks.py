"""The semantic checks of ``factual_drift``: does a well-formed answer hold against the session?

Each check returns sentences that tell the judge exactly what to mend. They never repair: what code may correct
silently (order, counts, pairs of unsupported claims) happens in the report.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from otel_drift import text
from otel_drift.audits.factual_drift_answer import (
    CONTRADICTION,
    DROPPED_QUALIFICATION,
    UNSUPPORTED_NEW_CLAIM,
    ClaimAnswer,
    EventAnswer,
)
from otel_drift.audits.factual_drift_layout import NOT_GROUNDABLE_STATES
from otel_drift.audits.factual_drift_quotes import (
    LEAST_CLAIM_WORDS,
    LEAST_EVIDENCE_WORDS,
    covering_sentences,
    find_quote,
    holds_any_case,
    is_long_enough,
    is_restatement,
    qualifier_classes,
    sentence_spans,
    stems,
)
from otel_drift.faults import Fault
from otel_drift.model import Passage, Session, Turn

SUPPORTED = frozenset({"GROUNDED", "PARTIALLY_GROUNDED"})

_CORRECTION = re.compile(
    r"\b(?:correct(?:ion|ed|ing)?|apolog\w+|sorry|mistak\w+|misspoke|wrong|incorrect\w*|inaccura\w+|in error|an error"
    r"|earlier|previous\w*|actually|clarif\w+|retract\w*|revis\w+|updat\w+|should have|I said|I told|I stated)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Refs:
    """A session by the short references a judge sees."""

    turns: Mapping[str, Turn]
    passages: Mapping[str, tuple[Turn, Passage]]


def refs(session: Session) -> Refs:
    """Index `session`; passages only of turns whose passages a judge is shown."""
    passages = {
        turn.passage_ref(index): (turn, passage)
        for turn in session.turns
        if turn.retrieval == "captured"
        for index, passage in enumerate(turn.passages)
    }
    return Refs({turn.ref: turn for turn in session.turns}, passages)


def check_claims(claims: Sequence[ClaimAnswer], known: Refs) -> list[Fault]:
    """What is wrong with claims, one sentence each."""
    errors: list[Fault] = []
    seen: set[str] = set()
    for claim in claims:
        if claim.id in seen:
            errors.append(
                Fault("duplicate", f"Claim id {_shown(claim.id)} is used twice; every claim needs its own id.")
            )
        seen.add(claim.id)
        errors += [error.at(f"Claim {_shown(claim.id)}") for error in _claim_errors(claim, known)]
    return errors


def check_events(events: Sequence[EventAnswer], claims: Mapping[str, ClaimAnswer], known: Refs) -> list[Fault]:
    """What is wrong with drift events over `claims` (by id, already checked), one sentence each."""
    return [
        error.at(f"drift_events[{index}] ({event.drift_type})")
        for index, event in enumerate(events)
        for error in _event_errors(event, claims, known)
    ]


def check_coverage(claims: Sequence[ClaimAnswer], known: Refs) -> list[Fault]:
    """Refuse an answer without any claim where answers plainly restate their passages.

    "Nothing claimed, so nothing drifts" is what an instruction hidden in a trace would have a judge say.
    """
    if claims:
        return []
    restating = [turn.ref for turn in known.turns.values() if _restates_passages(turn)]
    if not restating:
        return []
    said = f"No claim is listed, but the answers of {', '.join(restating)} state facts. List the claims of every turn."
    return [Fault("coverage", said)]


def _claim_errors(claim: ClaimAnswer, known: Refs) -> Iterator[Fault]:
    turn = known.turns.get(claim.turn)
    if turn is None:
        yield Fault("reference", f"there is no turn {_shown(claim.turn)}; use the references given, such as t1.")
        return
    if not turn.answered or turn.answer is None:
        yield Fault("reference", f"turn {turn.ref} has no answer, so it makes no claim.")
        return
    if find_quote(turn.answer, claim.quote) is None:
        yield Fault("quote", f"its quote {_shown(claim.quote)} does not stand verbatim in the answer of {turn.ref}.")
    elif not is_long_enough(turn.answer, claim.quote, LEAST_CLAIM_WORDS):
        yield Fault(
            "quote_length",
            f"its quote {_shown(claim.quote)} is too short: quote at least four content words or a whole sentence.",
        )
    yield from _status_errors(claim, turn)
    for evidence in claim.evidence:
        yield from _evidence_errors(evidence.passage, evidence.quote, turn, known)
    for qualifier in claim.qualifiers:
        if not holds_any_case(turn.answer, qualifier):
            yield Fault("quote", f"qualifier {_shown(qualifier)} does not stand in the answer of {turn.ref}.")
    if claim.missing_qualifier is not None:
        if claim.grounding_status != "PARTIALLY_GROUNDED":
            yield Fault("qualification", "missing_qualifier is only for PARTIALLY_GROUNDED claims.")
        shown = [passage.text or "" for owner, passage in known.passages.values() if owner is turn]
        if not any(holds_any_case(passage, claim.missing_qualifier) for passage in shown):
            yield Fault(
                "quote",
                f"missing_qualifier {_shown(claim.missing_qualifier)} stands in no passage of {turn.ref}; copy it.",
            )


def _status_errors(claim: ClaimAnswer, turn: Turn) -> Iterator[Fault]:
    status = claim.grounding_status
    if turn.retrieval in NOT_GROUNDABLE_STATES and status != "NOT_GROUNDABLE":
        yield Fault(
            "status",
            f"the passages of {turn.ref} were not recorded (fully), so its grounding_status must be NOT_GROUNDABLE.",
        )
    if turn.retrieval not in NOT_GROUNDABLE_STATES and status == "NOT_GROUNDABLE":
        yield Fault(
            "status",
            f"NOT_GROUNDABLE is only for turns whose passages were not recorded; those of {turn.ref} are known.",
        )
    if status in SUPPORTED and not claim.evidence:
        yield Fault("status", f"{status} needs evidence: a verbatim quote from a passage of {turn.ref}.")
    if status not in SUPPORTED and claim.evidence:
        yield Fault("status", f"{status} must have no evidence.")


def _evidence_errors(ref: str, quote: str, turn: Turn, known: Refs) -> Iterator[Fault]:
    found = known.passages.get(ref)
    if found is None:
        yield Fault("reference", f"there is no passage {_shown(ref)}; use the references given, such as t1.p2.")
        return
    owner, passage = found
    if owner is not turn:
        twin = next((own for own, (at, one) in known.passages.items() if at is turn and one.text == passage.text), None)
        hint = f" (there the same text is {twin})" if twin else ""
        yield Fault(
            "reference",
            f"passage {ref} belongs to {owner.ref}; evidence must come from the passages of {turn.ref}{hint}.",
        )
        return
    if find_quote(passage.text or "", quote) is None:
        yield Fault("quote", f"evidence {_shown(quote)} does not stand verbatim in passage {ref}.")
    elif not is_long_enough(passage.text or "", quote, LEAST_EVIDENCE_WORDS):
        yield Fault(
            "quote_length",
            f"evidence {_shown(quote)} is too short: quote at least four content words or a whole sentence.",
        )


def _event_errors(event: EventAnswer, claims: Mapping[str, ClaimAnswer], known: Refs) -> Iterator[Fault]:
    later = claims.get(event.later_claim)
    if later is None:
        yield Fault("reference", f"there is no claim {_shown(event.later_claim)}.")
        return
    if event.turn != later.turn:
        yield Fault(
            "pair",
            f"turn is {_shown(event.turn)}, but its later claim {_shown(later.id)} belongs to {_shown(later.turn)}.",
        )
    if event.earlier_claim is None:
        if event.drift_type in (CONTRADICTION, DROPPED_QUALIFICATION):
            yield Fault("pair", "earlier_claim must name the earlier claim it is about.")
        if event.drift_type == UNSUPPORTED_NEW_CLAIM:
            yield from _unsupported_errors(later, claims, known)
    elif event.drift_type == UNSUPPORTED_NEW_CLAIM:
        yield Fault("pair", "earlier_claim must be null: an unsupported new claim is about one claim only.")
    else:
        yield from _pair_errors(event, later, claims, known)
    if event.acknowledged_correction:
        yield from _correction_errors(event, known)


def _pair_errors(
    event: EventAnswer, later: ClaimAnswer, claims: Mapping[str, ClaimAnswer], known: Refs
) -> Iterator[Fault]:
    earlier = claims.get(event.earlier_claim or "")
    if earlier is None:
        yield Fault("reference", f"there is no claim {_shown(event.earlier_claim or '')}.")
        return
    earlier_turn, later_turn = known.turns.get(earlier.turn), known.turns.get(later.turn)
    if earlier_turn is None or later_turn is None:
        return  # said about the claims already
    if earlier_turn.number >= later_turn.number:
        yield Fault(
            "pair", f"the earlier claim belongs to {earlier_turn.ref}, which does not come before {later_turn.ref}."
        )
    if event.drift_type == CONTRADICTION and not _may_contradict(earlier, later):
        yield (
            Fault(
                "status",
                f"the earlier claim {_shown(earlier.id)} is {earlier.grounding_status}; a contradiction needs an "
                "earlier claim that is GROUNDED or PARTIALLY_GROUNDED.",
            )
        )
    if event.drift_type == CONTRADICTION and is_restatement(later.quote, earlier.quote):
        yield Fault("restatement", f"claim {_shown(later.id)} says the same as {_shown(earlier.id)}: no contradiction.")
    if event.drift_type == DROPPED_QUALIFICATION:
        yield from _qualification_errors(earlier, later, earlier_turn, later_turn)


def _may_contradict(earlier: ClaimAnswer, later: ClaimAnswer) -> bool:
    """Two unsupported claims pass too: code makes two unsupported new claims of them."""
    both_unsupported = earlier.grounding_status == later.grounding_status == "UNSUPPORTED"
    return earlier.grounding_status in SUPPORTED or both_unsupported


def _qualification_errors(
    earlier: ClaimAnswer, later: ClaimAnswer, earlier_turn: Turn, later_turn: Turn
) -> Iterator[Fault]:
    before = covering_sentences(earlier_turn.answer or "", earlier.quote)
    around = covering_sentences(earlier_turn.answer or "", earlier.quote, neighbours=1)
    after = covering_sentences(later_turn.answer or "", later.quote)
    if not (text.is_english(before) and text.is_english(after)):
        if not earlier.qualifiers:
            yield Fault("qualification", f"claim {_shown(earlier.id)} lists no qualifiers, so none was dropped.")
        return
    had = qualifier_classes(before) | {qualifier.kind for qualifier in text.qualifiers(around)}
    has = qualifier_classes(after)
    if not had:
        yield Fault(
            "qualification",
            f"the quote of claim {_shown(earlier.id)} holds no explicit qualifier, so none was dropped.",
        )
    elif not had - has:
        yield Fault(
            "qualification",
            f"the quote of claim {_shown(later.id)} still holds a qualifier of the same kind, so none was dropped.",
        )


def _unsupported_errors(later: ClaimAnswer, claims: Mapping[str, ClaimAnswer], known: Refs) -> Iterator[Fault]:
    if later.grounding_status != "UNSUPPORTED":
        yield Fault(
            "status",
            f"claim {_shown(later.id)} is {later.grounding_status}; an unsupported new claim must be UNSUPPORTED.",
        )
        return
    turn = known.turns.get(later.turn)
    if turn is None:
        return
    source = restated_from(later, turn, claims, known)
    if source:
        yield Fault("restatement", f"claim {_shown(later.id)} only restates {source}, so it is not new.")


def restated_from(later: ClaimAnswer, turn: Turn, claims: Mapping[str, ClaimAnswer], known: Refs) -> str | None:
    """What `later` restates, in words for the judge: an earlier grounded claim or something the user stated."""
    for earlier in claims.values():
        owner = known.turns.get(earlier.turn)
        if owner is None or owner.number >= turn.number or earlier.grounding_status not in SUPPORTED:
            continue
        if is_restatement(later.quote, covering_sentences(owner.answer or "", earlier.quote)):
            return f"the earlier grounded claim {_shown(earlier.id)}"
    for one in known.turns.values():
        if one.number > turn.number:
            continue
        user = one.user or ""
        for start, end in sentence_spans(user):
            if user[end - 1] != "?" and is_restatement(later.quote, user[start:end]):
                return f"what the user stated in {one.ref}"
    return None


def _correction_errors(event: EventAnswer, known: Refs) -> Iterator[Fault]:
    turn = known.turns.get(event.turn)
    if turn is None or not turn.answer:
        return
    if text.is_english(turn.answer) and not _CORRECTION.search(turn.answer):
        yield Fault(
            "correction",
            f"the answer of {turn.ref} does not say that it corrects anything: acknowledged_correction must be false.",
        )


def _restates_passages(turn: Turn) -> bool:
    if not turn.answered or turn.retrieval != "captured":
        return False
    offered = {stem for passage in turn.passages for stem in stems(passage.text or "")}
    for sentence in text.statements(turn.answer or ""):
        said = stems(sentence.text)
        if len(said) >= LEAST_EVIDENCE_WORDS and not sentence.text.rstrip().endswith("?"):
            shared = sum(stem in offered for stem in said)
            if shared >= 0.75 * len(said):
                return True
    return False


def _shown(value: str) -> str:
    folded = " ".join(value.split())
    return f"“{folded if len(folded) <= 160 else folded[:159] + '…'}”"
