"""Sessions: one session built from the spans of its traces."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from otel_drift.hints import hints_for
from otel_drift.model import Session
from otel_drift.normalise import Step
from otel_drift.normalise.lazy import lazy
from otel_drift.normalise.values import fold
from otel_drift.sessions.assemble import assemble
from otel_drift.sessions.branches import Draft
from otel_drift.sessions.evidence import WEAK_FORMS, Evidence, gather
from otel_drift.sessions.facts import units_of
from otel_drift.sessions.linking import Group
from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.quick import quick
from otel_drift.sessions.turns import turn_of
from otel_drift.sessions.unit import Unit
from otel_drift.sessions.varying import fill_from_varying

_session = quick(Session)
RETRY_SECONDS = 3600.0
MIN_LIMIT = 40
"""Shortest attribute length limit (characters) that is looked for."""


class Trace:
    """The steps of one trace in their `order`, cut into units when first asked for."""

    def __init__(self, steps: Sequence[Step]) -> None:
        self.steps = steps

    @lazy
    def units(self) -> list[Unit]:
        """The units of the trace."""
        return units_of(self.steps)


def build(group: Group, traces: Mapping[str, Trace], options: ReconstructOptions) -> Session | None:
    """The session of `group`, or None where its traces hold no turn."""
    units: list[Unit] = []
    steps: list[Step] = []
    for trace, whose in group.traces.items():
        if trace not in traces:
            continue
        own = traces[trace]
        if len(whose.sessions) > 1 and group.session_id is not None:
            own = Trace(_of_session(own.steps, group.session_id, whose.rank))
        steps.extend(own.steps)
        units.extend(own.units)
    drafts = assemble(units, min(RETRY_SECONDS, options.gap_seconds))
    if not drafts:
        return None
    evidence = [gather(d.unit, options) for d in drafts]
    if _mark_cut(drafts, evidence, steps):
        for draft in drafts:
            draft.unit.evidence = None
        evidence = [gather(d.unit, options) for d in drafts]
    options = _with_known_tools(drafts, evidence, options)
    _settle_empty_slots(drafts, evidence, group.session_id is not None)
    fill_from_varying(drafts, evidence)
    _drop_instructions(evidence)
    turns = []
    for number, (draft, found) in enumerate(zip(drafts, evidence, strict=True), 1):
        others = tuple([turn_of(u, number, gather(u, options), options, ()) for u in draft.alternatives])
        turns.append(turn_of(draft.unit, number, found, options, others))
    used = _traces(drafts)
    shapes = {s.shape for s in steps if s.kind != "other"}
    names = sorted({r.name for shape in shapes for r in shape.readers if r.name != "app"})
    return _session(
        key=group.key,
        session_id=group.session_id,
        turns=tuple(turns),
        trace_ids=tuple([t for t in group.trace_ids if t in used]),
        project=group.project,
        environment=group.environment,
        user=group.user,
        tenant=group.tenant,
        conventions=tuple(names),
        hints=hints_for(turns, steps, named=group.session_id is not None),
    )


def _traces(drafts: Sequence[Draft]) -> set[str]:
    return {t for d in drafts for u in (d.unit, *d.alternatives) for t in u.traces}


def _of_session(steps: Sequence[Step], session: str, rank: int) -> list[Step]:
    """The steps of one session in a trace that several share: by the nearest ancestor that names a session."""
    by_id = {s.span.span_id: s for s in steps}
    kept = []
    for step in steps:
        current: Step | None = step
        seen = 0
        while current is not None and seen < 1000:
            if current.session is not None and current.session[0] == rank:
                if current.session[1] == session:
                    kept.append(step)
                break
            current = by_id.get(current.span.parent_id or "")
            seen += 1
    return kept


def _mark_cut(drafts: Sequence[Draft], evidence: Sequence[Evidence], steps: Sequence[Step]) -> bool:
    """Find an attribute length limit that no broken JSON shows: several texts of just the greatest length there is."""
    texts = [item[0].text for e in evidence for item in e.found if item[0].text]
    for draft in drafts:
        texts.extend([m.text for m in draft.unit.given if m.role in {"system", "user"}])
    limit = max(map(len, texts), default=0)
    longest_texts = {text for text in texts if len(text) == limit}
    if limit < MIN_LIMIT or len(longest_texts) < 2 or _same_length_by_nature(longest_texts):
        return False
    cut: list[Step] = []
    for step in steps:
        longest = step.longest
        if longest > limit:
            return False
        if longest == limit:
            cut.append(step)
    for step in cut:
        step.truncated, step.cut_length = True, limit
    return bool(cut)


def _same_length_by_nature(texts: Collection[str]) -> bool:
    """Whether texts end alike (a template's end), or are the same passages in another order: no cut."""
    return len({text[-8:] for text in texts}) == 1 or len({tuple(sorted(text.split())) for text in texts}) == 1


def _settle_empty_slots(drafts: Sequence[Draft], evidence: Sequence[Evidence], named: bool) -> None:
    """A turn whose template had an empty slot had no retrieval where other turns' retrievers left spans.

    Not where only their texts joined searches in traces of their own to turns: one that found nothing has none.
    """
    if any(e.ran and (named or not d.unit.extra) for d, e in zip(drafts, evidence, strict=True)):
        for e in evidence:
            if e.form == "empty" and not e.ran and e.state == "none":
                e.state = "no_retrieval"


def _with_known_tools(
    drafts: Sequence[Draft], evidence: list[Evidence], options: ReconstructOptions
) -> ReconstructOptions:
    """Read turns again whose tools are told as retrieval only by what they returned in another turn."""
    if options.retrieval_tools:
        return options
    known = frozenset(t.name for e in evidence for t in e.tools if t.is_retrieval)
    if not known:
        return options
    again = [i for i, e in enumerate(evidence) if any(t.name in known and not t.is_retrieval for t in e.tools)]
    if again:
        options = replace(options, known_tools=known)
        for index in again:
            drafts[index].unit.evidence = None
            evidence[index] = gather(drafts[index].unit, options)
    return options


def _drop_instructions(evidence: Sequence[Evidence]) -> None:
    """A plain list that stands in every prompt unchanged, with no retrieval anywhere, is instructions, not passages."""
    listed = [e for e in evidence if e.form in WEAK_FORMS and not e.ran]
    if len(listed) < 2:
        return
    seen: dict[tuple[str, ...], int] = {}
    for e in listed:
        key = tuple(fold(d.text or "") for d, *_ in e.found)
        seen[key] = seen.get(key, 0) + 1
    for e in listed:
        if seen[tuple(fold(d.text or "") for d, *_ in e.found)] >= 2 and len(seen) == 1:
            e.found, e.state = [], "no_retrieval"
