"""The semantic checks of ``citation_conflict``: does a well-formed answer hold against the turn?

Each check returns sentences that tell the judge exactly what to mend; none repairs anything. Written answers
(`otel_drift.cite`) pass the same checks over the answer the judge wrote.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from otel_drift import text
from otel_drift.audits.citation_conflict_answer import ClaimAnswer, ConflictAnswer, SupportAnswer
from otel_drift.audits.factual_drift_quotes import (
    LEAST_CLAIM_WORDS,
    LEAST_EVIDENCE_WORDS,
    find_quote,
    is_long_enough,
    stem_set,
    stems,
)
from otel_drift.faults import Fault
from otel_drift.model import Passage
from otel_drift.text import dates


def check_answer(
    answer: ConflictAnswer, shown: str, sources: Mapping[str, Passage], origin: Mapping[str, str]
) -> list[Fault]:
    """What is wrong with a judge's answer about the answer `shown`, one sentence each.

    Args:
        answer: the parsed answer.
        shown: the answer that is judged, as the judge was shown it.
        sources: the passages by the reference the judge was shown.
        origin: each reference's first copy (see `citation.origins`).
    """
    errors = check_claims(answer.claims, shown, sources, origin)
    conflicts = [claim for claim in answer.claims if claim.contradicting_sources]
    if answer.abstention_notes and answer.claims:
        errors.append(
            Fault("status", "abstention_notes is only for an answer that makes no claim: empty claims, or null notes.")
        )
    if conflicts and not answer.conflict_summary:
        errors.append(
            Fault(
                "missing_text",
                "There are contradicting_sources, so conflict_summary must say in plain words what they are.",
            )
        )
    if answer.voiced_in is not None:
        if not conflicts:
            errors.append(
                Fault(
                    "disclosure",
                    "voiced_in is only for answers whose claims have contradicting_sources; otherwise null.",
                )
            )
        elif find_quote(shown, answer.voiced_in) is None:
            errors.append(
                Fault("quote", f"voiced_in {_shown(answer.voiced_in)} does not stand verbatim in the answer.")
            )
        elif not is_long_enough(shown, answer.voiced_in, LEAST_CLAIM_WORDS):
            errors.append(
                Fault("quote_length", f"voiced_in {_shown(answer.voiced_in)} is too short: quote the whole sentence.")
            )
    return errors


def check_claims(
    claims: Sequence[ClaimAnswer], shown: str, sources: Mapping[str, Passage], origin: Mapping[str, str]
) -> list[Fault]:
    """What is wrong with the claims, one sentence each."""
    errors: list[Fault] = []
    seen: set[str] = set()
    for claim in claims:
        if claim.claim_id in seen:
            errors.append(
                Fault("duplicate", f"claim_id {_shown(claim.claim_id)} is used twice; every claim needs its own.")
            )
        seen.add(claim.claim_id)
        errors += [
            error.at(f"Claim {_shown(claim.claim_id)}") for error in _claim_errors(claim, shown, sources, origin)
        ]
    return errors


def _claim_errors(
    claim: ClaimAnswer, shown: str, sources: Mapping[str, Passage], origin: Mapping[str, str]
) -> Iterator[Fault]:
    if find_quote(shown, claim.quote) is None:
        yield Fault("quote", f"its quote {_shown(claim.quote)} does not stand verbatim in the answer.")
    elif not is_long_enough(shown, claim.quote, LEAST_CLAIM_WORDS):
        yield Fault(
            "quote_length",
            f"its quote {_shown(claim.quote)} is too short: quote at least four content words or a whole sentence.",
        )
    for piece in (*claim.supporting_sources, *claim.contradicting_sources):
        yield from source_errors(piece, sources)
    supporting = {origin.get(piece.source_id, piece.source_id): piece.source_id for piece in claim.supporting_sources}
    for piece in claim.contradicting_sources:
        copied = supporting.get(origin.get(piece.source_id, piece.source_id))
        if copied == piece.source_id:
            yield Fault("status", f"{_shown(copied)} both supports and contradicts it; decide, or split the claim.")
        elif copied is not None:
            yield Fault(
                "status", f"{_shown(piece.source_id)} contradicts it, yet its copy {_shown(copied)} supports it."
            )
    yield from conflict_errors(claim, sources, origin)


def source_errors(piece: SupportAnswer, sources: Mapping[str, Passage]) -> Iterator[Fault]:
    """An unknown source, or a quote that does not stand in the source it names or says nothing."""
    passage = sources.get(piece.source_id)
    if passage is None:
        yield Fault(
            "reference", f"there is no passage {_shown(piece.source_id)}; use the references given, such as p1."
        )
        return
    source = passage.text or ""
    if find_quote(source, piece.quote) is None:
        elsewhere = next((ref for ref, one in sources.items() if find_quote(one.text or "", piece.quote)), None)
        hint = f" (it stands in {elsewhere})" if elsewhere else ""
        yield Fault("quote", f"quote {_shown(piece.quote)} does not stand verbatim in passage {piece.source_id}{hint}.")
    elif not is_long_enough(source, piece.quote, LEAST_EVIDENCE_WORDS):
        yield Fault(
            "quote_length",
            f"quote {_shown(piece.quote)} is too short: quote at least four content words or a whole sentence.",
        )


def conflict_errors(claim: ClaimAnswer, sources: Mapping[str, Passage], origin: Mapping[str, str]) -> Iterator[Fault]:
    """Whether a conflict is open or resolved as the lists allow, and resolved for a reason that holds."""
    both = bool(claim.supporting_sources and claim.contradicting_sources)
    if claim.unresolved and not both:
        yield Fault("resolution", "unresolved is only for claims with supporting_sources and contradicting_sources.")
    if claim.unresolved and claim.resolved_by:
        yield Fault("resolution", "it is unresolved, so resolved_by must be null.")
    if claim.resolved_by and not both:
        yield Fault("resolution", "resolved_by is only for claims with supporting_sources and contradicting_sources.")
    if not both or claim.unresolved:
        return
    if claim.resolved_by is None:
        yield (
            Fault(
                "resolution",
                "sources contradict it, so either unresolved is true or resolved_by says why the supporting side wins: "
                "recency, authority, methodology or corroboration.",
            )
        )
        return
    if not any(piece.rationale.strip() for piece in claim.contradicting_sources):
        yield Fault(
            "resolution",
            f"it is resolved by {claim.resolved_by}, so the rationale of its contradicting_sources must say how.",
        )
    if claim.resolved_by == "recency":
        yield from _recency_errors(claim, sources)
    if claim.resolved_by == "corroboration":
        sides = [{origin.get(p.source_id, p.source_id) for p in side} for side in
                 (claim.supporting_sources, claim.contradicting_sources)]  # fmt: skip
        if len(sides[0]) < 2 or len(sides[0]) <= len(sides[1]):
            yield (
                Fault(
                    "resolution",
                    "corroboration needs at least two independent supporting sources, and more than contradict; "
                    "near-identical passages are one source.",
                )
            )


def _recency_errors(claim: ClaimAnswer, sources: Mapping[str, Passage]) -> Iterator[Fault]:
    mine, theirs = (
        [written_on(sources[piece.source_id]) for piece in side if piece.source_id in sources]
        for side in (claim.supporting_sources, claim.contradicting_sources)
    )
    dated, against = [date for date in mine if date], [date for date in theirs if date]
    if dated and against and len(against) == len(theirs) and max(dated) <= max(against):
        yield (
            Fault(
                "resolution",
                f"recency does not speak for it: its newest support is of {max(dated)}, "
                f"the newest contradicting passage of {max(against)}.",
            )
        )


def written_on(passage: Passage) -> str | None:
    """The date of a passage as far as its metadata give it, ``2026-01-20`` or ``2026``; None where they do not."""
    given = (passage.date or "").strip()
    if re.match(r"(?:1[5-9]|20|21)\d\d(?:-\d\d(?:-\d\d)?)?(?![\d])", given):
        return re.match(r"\d{4}(?:-\d\d(?:-\d\d)?)?", given)[0]  # type: ignore[index]
    found = [date for date in dates(given) if date.year]
    if not found:
        return None
    one = found[0]
    parts = [f"{one.year:04d}", *([f"{one.month:02d}"] if one.month else []), *([f"{one.day:02d}"] if one.day else [])]
    return "-".join(parts)


def check_coverage(claims: Sequence[ClaimAnswer], shown: str, sources: Mapping[str, Passage]) -> list[Fault]:
    """Refuse an answer that lists no claim for a sentence which plainly restates a passage.

    "Nothing is claimed, so nothing is wrongly cited" is what an instruction hidden in a passage would have a judge say.
    """
    spans = [span for claim in claims if (span := find_quote(shown, claim.quote))]
    missing = [
        sentence.text
        for sentence in text.statements(shown)
        if not any(start < sentence.end and sentence.start < end for start, end in spans)
        and restates(sentence.text, sources)
    ]
    return [
        Fault("coverage", f"The sentence {_shown(sentence)} states a fact, but no claim quotes it: list it.")
        for sentence in missing
    ]


def restates(sentence: str, sources: Mapping[str, Passage]) -> bool:
    """Whether a sentence is made of the words of one passage."""
    said = stems(sentence)
    if len(said) < LEAST_EVIDENCE_WORDS or sentence.rstrip().endswith("?"):
        return False
    return any(
        sum(stem in stem_set(passage.text or "") for stem in said) >= 0.8 * len(said) for passage in sources.values()
    )


def _shown(value: str) -> str:
    folded = " ".join(value.split())
    return f"“{folded if len(folded) <= 160 else folded[:159] + '…'}”"
