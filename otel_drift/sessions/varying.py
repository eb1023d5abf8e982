"""Sessions: the part of a session's prompts that differs from turn to turn, where no form of list is recognised."""

from __future__ import annotations

from collections.abc import Sequence

from otel_drift.normalise.step import Document
from otel_drift.normalise.values import fold
from otel_drift.sessions.branches import Draft
from otel_drift.sessions.contained import Texts
from otel_drift.sessions.evidence import Evidence
from otel_drift.sessions.prompt import MAX_PROMPT, find_passages
from otel_drift.sessions.prompt_found import says_nothing
from otel_drift.sessions.prompt_sections import names_material

SHORTEST = 80
"""From how many characters on the varying part may be retrieved material, and no date or name in a greeting."""
CERTAIN = 3
"""How many different prompts tell the template for certain; of two, the material's own beginning may be common."""


def fill_from_varying(drafts: Sequence[Draft], evidence: Sequence[Evidence]) -> None:
    """Give turns without passages what varies in their prompts: a template's common beginning and end surround it.

    Only where no turn has passages, the template speaks of material, and the varying part is no resent conversation.
    """
    lacking = [i for i, e in enumerate(evidence) if e.state in ("no_retrieval", "not_captured") and not e.found]
    if not lacking or len(drafts) < 2 or any(e.found or e.form for e in evidence):
        return
    for texts in (_systems(drafts), _stuffed(drafts)):
        parts = _varying(texts)
        if parts is not None and not _holds_conversation(parts, drafts):
            certain = len(set(texts)) >= CERTAIN
            for index in lacking:
                _fill(drafts[index], evidence[index], parts[index], certain)
            return


def _systems(drafts: Sequence[Draft]) -> list[str]:
    return ["\n\n".join(m.text for m in d.unit.given if m.role == "system" and m.text) for d in drafts]


def _stuffed(drafts: Sequence[Draft]) -> list[str]:
    """Last user messages without the user's own words; empty where nothing else is in them."""
    texts = []
    for draft in drafts:
        last, user = draft.unit.last_message or "", draft.unit.user or ""
        texts.append(last.replace(user, "") if user and user in last and len(last) > len(user) else "")
    return texts


def _varying(texts: Sequence[str]) -> list[str] | None:
    distinct = sorted(set(texts))
    if len(distinct) < 2 or not all(distinct) or max(map(len, distinct)) > MAX_PROMPT:
        return None
    before = _common(distinct)
    before = before[: max(before.rfind("\n") + 1, before.rfind(": ") + 2 if ": " in before else 0)]
    after = _common([text[len(before) :][::-1] for text in distinct])[::-1]
    cut = after.find("\n")
    after = after[cut:] if cut >= 0 else ""
    if not names_material(before + after):
        return None
    parts = [text[len(before) : len(text) - len(after)] for text in texts]
    if sum(len(part.strip()) >= SHORTEST for part in parts) * 2 < len(parts):
        return None
    return parts


def _common(texts: Sequence[str]) -> str:
    """What all `texts` begin with."""
    first, last = min(texts), max(texts)
    low, high = 0, min(len(first), len(last))
    while low < high:
        middle = (low + high + 1) // 2
        if first[:middle] == last[:middle]:
            low = middle
        else:
            high = middle - 1
    return first[:low]


def _holds_conversation(parts: Sequence[str], drafts: Sequence[Draft]) -> bool:
    """Whether the varying part repeats what was said before: a history written into the prompt."""
    before = Texts()
    for part, draft in zip(parts, drafts, strict=True):
        if any(before.within(fold(part))):
            return True
        for said in (draft.unit.answer, draft.unit.user):
            if said and len(said) >= 20 and fold(said):
                before.add(fold(said))
    return False


def _fill(draft: Draft, evidence: Evidence, part: str, certain: bool) -> None:
    text = part.strip()
    call = draft.unit.call
    if call is None:
        return
    if says_nothing(text):
        evidence.state = "none"
        return
    found = find_passages(text, whole=True)
    documents = found.documents if found is not None and found.documents else (Document(None, text),)
    evidence.found = [(d, "prompt", call.span.ref) for d in documents]
    evidence.form = "varying"
    evidence.state = "captured" if certain and not call.truncated else "partial"
