"""Sessions: passages that each stand behind a mark: ``[id] text``, ``Document n: text``."""

from __future__ import annotations

import itertools
import re

from otel_drift.normalise.step import Document
from otel_drift.normalise.values import number
from otel_drift.sessions.prompt_found import Found, described, is_about, own_id
from otel_drift.sessions.prompt_paragraphs import HEADING, first_text, outside_code, without_outer_rules
from otel_drift.sessions.prompt_sections import END, may_hold_rules

_BRACKET = re.compile(
    r"^[ \t]*(?:[-*•][ \t]+|#?\d{1,3}[.)]?[ \t]+(?=\[[^\]\n]*\d))?(?:\*\*)?"
    r"(?:\[|【(?=[^】\n]*\d))(?P<label>[^\[\]【】\n]{1,160})[\]】](?!\()(?:\*\*)?[ \t]*:?[ \t]*(?:\n)?",
    re.MULTILINE,
)


_NAMED = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*|[-=]{2,}[ \t]*)?\[?(?P<label>(?:document|doc|passage|source|chunk|excerpt|snippet|"
    r"context|result|article|reference|extract|section|dokument|quelle|auszug|abschnitt|textstelle|extrait|fragmento|"
    r"documento|fuente|fonte|estratto|trecho)[ \t]*(?:no\.?|nr\.?|#|id)?[ \t]*[\[(#]?(?P<number>[\w./#-]{1,80})[\])]?)"
    r"[ \t]*(?:\((?P<note>[^()\n]{0,200})\))?\]?(?:\*\*)?[ \t]*(?:(?:[-=]{2,}|:)(?:\*\*)?|(?<=\)))[ \t]*\n?",
    re.MULTILINE | re.IGNORECASE,
)


_LABEL_ID = re.compile(r"\((?:id|doc_id|source|ref)[ \t]*[:=][ \t]*([^()]{1,120})\)", re.IGNORECASE)


_SCORED = re.compile(
    r"\((?=[^()\n]{0,20}(?:score|similarity|relevance|distance))[^()\n]{0,60}?(?P<score>\d*\.?\d+)"
    r"[^()\n]{0,20}\)[ \t]*:?[ \t]*",
    re.I,
)


_CLOSING = re.compile(r"\n?[ \t]*\[(?:/|END[ \t])[^\[\]\n]{1,80}\][ \t]*\Z", re.IGNORECASE)


_GUILLEMETS = ("«", "»")


def brackets(text: str, whole: bool = False) -> Found | None:
    """``[id] text``, ``[n] text`` at the start of lines."""
    if "[" not in text and "【" not in text:
        return None
    marks = [m for m in _BRACKET.finditer(text) if _is_label(m["label"])]
    return between(text, marks, "brackets", whole)


def _is_label(label: str) -> bool:
    label = label.strip()
    if label in ("", "x", "X") or "##" in label or label[:1] in "/\"'" or label[:4].upper() == "END ":
        return False  # boxes, DSPy's field names, closing marks, lists of texts
    return len(label.split()) <= 2 or ":" in label or _KIND.match(label) is not None


_KIND = re.compile(r"(?:document|source|passage|doc|chunk|excerpt)\b", re.IGNORECASE)


def named(text: str, whole: bool = False) -> Found | None:
    """``Document n: text``, ``Source id: text``, ``[Passage n (id: …)]: text``."""
    if not any(closing in text for closing in ":-=)"):
        return None
    marks = [
        m
        for m in _NAMED.finditer(text)
        if any(c.isdigit() for c in m["number"]) and (not m[0].rstrip().endswith(")") or ":" in (m["note"] or ""))
    ]
    if not marks:
        return None
    return between(text, marks, "named", whole)


def between(text: str, marks: list[re.Match[str]], form: str, whole: bool = False) -> Found | None:
    """The passages that stand between `marks` and behind the last one; if `whole`, nothing else follows them."""
    if not marks:
        return None
    documents = []
    last_end = marks[-1].end()
    ruled = may_hold_rules(text)
    inner_blank = any("\n\n" in text[a.end() : b.start()].strip() for a, b in itertools.pairwise(marks))
    for index, mark in enumerate(marks):
        stop = marks[index + 1].start() if index + 1 < len(marks) else len(text)
        body = text[mark.end() : stop]
        if index + 1 == len(marks):
            body = body if whole else until_end(body, inner_blank or len(marks) == 1)
            last_end = mark.end() + len(body)
        body = (without_outer_rules(body) if ruled else body).strip()
        if body.endswith("]"):
            body = _CLOSING.sub("", body).strip()
        if body[:1] == _GUILLEMETS[0] and body[-1:] == _GUILLEMETS[1]:
            body = body[1:-1].strip()
        label = mark["label"]
        title, source, score = None, None, None
        scored = _SCORED.match(body) if body[:1] == "(" else None
        if scored is not None:
            body, score = body[scored.end() :].strip(), number(scored["score"])
        if form == "named":
            label = mark["number"]
            note = mark["note"]
            if note:
                key, _, value = note.partition(":")
                if key.strip().lower() == "source":
                    source = value.strip()
                elif key.strip().lower() == "id":
                    label = value.strip()
                else:
                    title = value.strip() or note
        elif "(" in label and (inner := _LABEL_ID.search(label)) is not None:
            label = inner[1].strip()
        elif ":" in label and label.split(":")[0].strip().lower() in ("id", "source", "doc", "document", "doc_id"):
            label = label.split(":", 1)[1].strip()
        if body:
            documents.append(Document(own_id(label), body, score, title, source))
    if form == "named":
        documents = _with_key_lines(_without_titles(documents, marks))
    documents = _without_notes(documents)
    return Found(tuple(documents), marks[0].start(), last_end, form) if documents else None


_TITLE = re.compile(r"(?P<title>[^\s#|>*`-][^\n]{0,99}?[^\s.!?…:;,])[ \t]*(?P<rule>[-=]{2,})?[ \t]*\n+(?=\S)")
_FULL_STOP = re.compile(r"[.!?…。]\s")


def _without_titles(documents: list[Document], marks: list[re.Match[str]]) -> list[Document]:
    """Where behind every mark a title stands on its own line (``Document 1: Title``), it is no part of the text."""
    found = [_TITLE.match(d.text or "") for d in documents]
    if len(documents) != len(marks) or not all(found):
        return documents
    if len(marks) == 1 and marks[0][0].lstrip()[:1] not in "-=":
        return documents  # it may be the passage's own
    ruled = [mark[0].lstrip()[:1] in "-=" for mark in marks]
    if not all(
        (mark["rule"] is not None) if rule else _is_title(mark) for mark, rule in zip(found, ruled, strict=True) if mark
    ):
        return documents
    return [
        d._replace(text=(d.text or "")[m.end() :].strip(), title=d.title or m["title"])
        for d, m in zip(documents, found, strict=True)
        if m
    ]


def _is_title(mark: re.Match[str]) -> bool:
    """Whether a first line is a title, not the beginning of a sentence whose lines were broken."""
    goes_on = mark.string[mark.end()].islower()
    return len(mark["title"]) <= HEADING and not goes_on and not _FULL_STOP.search(mark["title"])


def _with_key_lines(documents: list[Document]) -> list[Document]:
    """Where every text begins with a line such as ``URL: …``, these lines describe the passages."""
    if not documents or not all(is_about((d.text or "").partition("\n")[0]) for d in documents):
        return documents
    found = [(d, described(d.text or "", headed=False)) for d in documents]
    return [
        d if about is None else about._replace(id=d.id or about.id, title=d.title or about.title) for d, about in found
    ]


_NOTE = re.compile(r"\((?P<note>[^()\n]{2,80})\):?[ \t]+(?=\S)")


def _without_notes(documents: list[Document]) -> list[Document]:
    """Where every text begins with a note in parentheses (``[1] (file.md) text``), the notes are the sources."""
    if not all((d.text or "")[:1] == "(" for d in documents):
        return documents
    notes = [_NOTE.match(d.text or "") for d in documents]
    if not all(notes):
        return documents
    return [
        d._replace(text=(d.text or "")[m.end() :].strip(), source=d.source or m["note"])
        for d, m in zip(documents, notes, strict=True)
        if m
    ]


def until_end(body: str, may_have_blank: bool) -> str:
    """`body` up to where the prompt's template goes on."""
    stop = outside_code(body, (end.start() for end in END.finditer(body) if end.start() > 0))
    body = body if stop is None else body[:stop]
    return body if may_have_blank else first_text(body)
