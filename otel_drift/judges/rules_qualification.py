"""Was an explicit qualifier lost between two wordings of the same statement?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from otel_drift.judges.rules_statements import Figure, Reading, labels_differ, names_differ, similarity, years_differ
from otel_drift.text import Qualifier, QualifierClass, content_stems, keeps, qualifiers

_PLAIN: dict[QualifierClass, str] = {
    "likelihood": "likelihood",
    "frequency": "how often it holds",
    "time_scope": "when it holds",
    "condition": "condition",
    "approximation": "approximation",
    "estimate": "estimate",
}


@dataclass(frozen=True, slots=True)
class LostQualifier:
    """A qualifier that the later wording has no marker of the same class for; `alike` is the overlap, 0..1."""

    qualifier: Qualifier
    alike: float
    with_figure: bool

    @property
    def what(self) -> str:
        """The class in plain words."""
        return _PLAIN[self.qualifier.kind]


def lost_qualifier(
    earlier: Reading, later: Reading, *, after: str = "", around: str = "", asked: str = ""
) -> LostQualifier | None:
    """The qualifier that `later` lost of what `earlier` says, or None.

    Args:
        earlier: the qualified wording.
        later: the restatement.
        after: the sentence after `earlier`, which may qualify it ("This was the position as of April.").
        around: the sentences next to `later`; a qualifier of the class there counts as kept.
        asked: the user's message that `later` answers; a condition it already states need not be repeated.
    """
    if labels_differ(earlier, later) or years_differ(earlier, later):
        return None
    kept = {q.kind for q in (*qualifiers(later.text), *qualifiers(around))}
    for qualifier in qualifiers(earlier.text):
        if not _is_kept(qualifier.kind, kept) and not _already_told(earlier, qualifier, asked, around):
            for i in _qualified_clauses(earlier, qualifier):
                found = _restated(earlier, i, later, qualifier)
                if found is not None:
                    return found
    if after.split(" ", 1)[0] in ("This", "That", "It", "These", "They"):
        for qualifier in qualifiers(after):
            if qualifier.kind in ("frequency", "time_scope", "estimate") and not _is_kept(qualifier.kind, kept):
                found = _restated(earlier, len(earlier.clauses) - 1, later, qualifier)
                if found is not None:
                    return found
    return None


def _is_kept(kind: QualifierClass, kept: set[QualifierClass]) -> bool:
    return kind in kept or (kind in _UNCERTAIN and bool(_UNCERTAIN & kept))


_UNCERTAIN: frozenset[QualifierClass] = frozenset({"likelihood", "estimate"})


def _qualified_clauses(reading: Reading, qualifier: Qualifier) -> Iterator[int]:
    """The clauses a qualifier speaks about: its own, or for a condition clause the one before it (else after it)."""
    marker = qualifier.text.casefold()
    for i, clause in enumerate(reading.clauses):
        folded = clause.casefold()
        if marker not in folded:
            continue
        if qualifier.kind == "condition" and folded.startswith(marker) and len(reading.clauses) > 1:
            yield i - 1 if i else 1
        else:
            yield i


def _restated(earlier: Reading, i: int, later: Reading, qualifier: Qualifier) -> LostQualifier | None:
    """The clause of `later` that says what clause `i` of `earlier` says, unless it keeps a marker of the class."""
    context = earlier.contexts[i] - frozenset(content_stems(qualifier.text))
    mine = [f for f in earlier.figures if f.clause == i]
    best: tuple[float, int, bool] | None = None
    for j in range(len(later.clauses)):
        if later.clauses[j].startswith(("**", "__")):
            continue  # a lead-in names the statement and does not make it
        theirs = [f for f in later.figures if f.clause == j]
        agreeing = _agree(mine, theirs)
        if (mine and theirs and not agreeing) or names_differ(earlier, i, later, j):
            continue
        alike, shared = similarity(context, later.contexts[j])
        if agreeing or earlier.labels & later.labels:
            enough = shared >= 2 and alike >= 0.5
        elif qualifier.kind == "condition":
            enough = (shared >= 4 and alike >= 0.8) or (shared >= 3 and alike >= 0.95)
        else:
            contained = later.contexts[j] <= context
            enough = (shared >= 4 and alike >= 0.7) or (shared >= 3 and alike >= (0.7 if contained else 0.9))
        if enough and (best is None or alike > best[0]):
            best = (alike, j, agreeing)
    if best is None or (qualifier.kind == "approximation" and not best[2]):
        return None
    where = later.text if qualifier.kind == "condition" else later.clauses[best[1]]
    if keeps(where, qualifier.kind):
        return None
    return LostQualifier(qualifier, best[0], best[2])


def _agree(a: list[Figure], b: list[Figure]) -> bool:
    quantities_a = {(f.quantity.value, f.quantity.unit) for f in a if f.quantity}
    return any((f.quantity.value, f.quantity.unit) in quantities_a for f in b if f.quantity)


def _already_told(earlier: Reading, qualifier: Qualifier, asked: str, around: str) -> bool:
    """Whether the question states the condition or time, or a sentence beside the restatement states the condition."""
    if qualifier.kind not in ("condition", "time_scope"):
        return False
    tail = earlier.text[earlier.text.casefold().find(qualifier.text.casefold()) + len(qualifier.text) :][:80]
    wanted = set(content_stems(qualifier.text)) | set(content_stems(tail)[:4])
    told = [asked, around] if qualifier.kind == "condition" else [asked]
    return any(len(wanted & set(content_stems(text))) >= max(2, len(wanted) // 2) for text in told)
