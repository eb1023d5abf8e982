"""Was an explicit qualifier lost between two wordings of the same statement?"""

from __future__ import annotations

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
    earlier: Reading, later: Reading, *, before: str = "", after: str = "", around: str = "", asked: str = ""
) -> LostQualifier | None:
    """The qualifier that `later` lost of what `earlier` says, or None.

    Args:
        earlier: the qualified wording.
        later: the restatement.
        before: unused unless the qualifier stands in the sentence before `earlier`.
        after: the sentence after `earlier`, which may qualify it ("This was the position as of April.").
        around: the sentences next to `later`; a qualifier of the class there counts as kept.
        asked: the user's message that `later` answers; a condition it already states need not be repeated.
    """
    del before
    if labels_differ(earlier, later) or years_differ(earlier, later):
        return None
    found = list(qualifiers(earlier.text))
    own = len(found)
    if after.split(" ", 1)[0] in ("This", "That", "It", "These", "They"):
        found.extend(q for q in qualifiers(after) if q.kind in ("frequency", "time_scope", "estimate"))
    for number, qualifier in enumerate(found):
        aligned = _aligned(earlier, later, qualifier if number < own else None)
        if aligned is None:
            continue
        clause, alike, with_figure = aligned
        if qualifier.kind == "approximation" and not with_figure:
            continue
        if keeps(clause, qualifier.kind):
            continue
        if any(q.kind == qualifier.kind for q in (*qualifiers(later.text), *qualifiers(around))):
            continue
        if qualifier.kind in ("likelihood", "estimate") and any(
            q.kind in ("likelihood", "estimate") for q in (*qualifiers(later.text), *qualifiers(around))
        ):
            continue
        if qualifier.kind in ("condition", "time_scope") and _already_asked(earlier, qualifier, asked):
            continue
        return LostQualifier(qualifier, alike, with_figure)
    return None


def _aligned(earlier: Reading, later: Reading, qualifier: Qualifier | None) -> tuple[str, float, bool] | None:
    """The clause of `later` that restates the qualified clause of `earlier`, the similarity, whether a figure agrees."""
    best: tuple[str, float, bool] | None = None
    for i, clause in enumerate(earlier.clauses):
        if qualifier is not None and qualifier.text.casefold() not in clause.casefold():
            continue
        marker = frozenset(content_stems(qualifier.text)) if qualifier else frozenset()
        context = earlier.contexts[i] - marker
        mine = [f for f in earlier.figures if f.clause == i]
        for j, restated in enumerate(later.clauses):
            theirs = [f for f in later.figures if f.clause == j]
            agreeing = _agree(mine, theirs) or bool(earlier.labels & later.labels)
            if (mine and theirs and not _agree(mine, theirs)) or names_differ(earlier, i, later, j):
                continue
            alike, shared = similarity(context, later.contexts[j])
            enough = (shared >= 2 and alike >= 0.5) if agreeing else (shared >= 4 and alike >= 0.7)
            if enough and (best is None or alike > best[1]):
                best = (restated, alike, _agree(mine, theirs))
    return best


def _agree(a: list[Figure], b: list[Figure]) -> bool:
    quantities_a = {(f.quantity.value, f.quantity.unit) for f in a if f.quantity}
    return any((f.quantity.value, f.quantity.unit) in quantities_a for f in b if f.quantity)


def _already_asked(earlier: Reading, qualifier: Qualifier, asked: str) -> bool:
    if not asked:
        return False
    tail = earlier.text[earlier.text.casefold().find(qualifier.text.casefold()) + len(qualifier.text) :][:80]
    wanted = set(content_stems(qualifier.text)) | set(content_stems(tail)[:4])
    known = set(content_stems(asked))
    return len(wanted & known) >= max(2, len(wanted) // 2)
