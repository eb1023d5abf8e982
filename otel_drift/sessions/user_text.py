"""Sessions: the user's own words, taken out of templates and stuffed prompts."""

from __future__ import annotations

import re
from collections.abc import Iterable

from otel_drift.normalise.remembered import per_session
from otel_drift.normalise.values import fold
from otel_drift.sessions.prompt import find_passages
from otel_drift.sessions.prompt_sections import goes_on

_MARK = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*)?(?:(?:the |new |current |latest |last |follow[- ]?up |original |standalone )?"
    r"(?:user(?:'s)?|customer(?:'s)?|human)?[ \t]*(?:question|query|message|input|request|frage|pregunta)"
    r"|user|human|customer|q)"
    r"(?:\*\*)?[ \t]*:(?:\*\*)?[ \t]*",
    re.IGNORECASE | re.MULTILINE,
)
_ANSWER = re.compile(
    r"\n[ \t]*(?:#{1,6}[ \t]*|\*\*)?(?:your |helpful |final )?(?:answer|response|assistant|ai|output|reply|antwort|"
    r"respuesta|a|search quer(?:y|ies)|standalone question)[^\n:]{0,40}:(?:\*\*)?[ \t]*\Z",
    re.IGNORECASE,
)
_TAGGED = re.compile(
    r"<(?P<tag>question|query|user_query|user_question|user_input|user_message|user)>(?P<body>.*?)</(?P=tag)>",
    re.DOTALL | re.IGNORECASE,
)
_DSPY = re.compile(r"\[\[ ## (?P<name>\w+) ## \]\][ \t]*\n?(?P<body>.*?)(?=\n\[\[ ## |\Z)", re.DOTALL)
_DSPY_END = re.compile(r"\n\s*Respond with the corresponding output fields.*\Z", re.DOTALL)
_NOT_QUESTION = frozenset({"context", "history", "passages", "documents", "completed", "chat_history", "trajectory"})


AROUND = 40
"""From how many characters on one line around a question is a template; in less, a search query is the user's words."""


def user_text(last: str | None, candidates: Iterable[tuple[str, bool]], root: str | None) -> str | None:
    """What the user wrote.

    Args:
        last: the last user message the model was given; it may be a template with the question in it.
        candidates: texts that may be the user's, best first, and whether they may stand alone: what a wrapper was
            called with may, a search query may not (it may be rewritten).
        root: the plain text the outermost wrapper was called with, where it was called with text.
    """
    if last is None or not last.strip():
        return root or next((text for text, alone in candidates if alone and text.strip()), None)
    folded = fold(last)
    if root and fold(root) and fold(root) in folded:
        return root
    options: list[str] = []
    called = None
    for text, alone in candidates:
        short = fold(text)
        if short == folded and not options:
            return last
        if short and short in folded:
            options.append(text)
            called = called or (text if alone else None)
    labelled = next((text for text in options if _below_label(fold(text), folded)), None)
    if labelled is not None:
        return labelled
    if called is not None and _on_own_lines(called, last):
        return called
    question = from_template(last)
    if question is not None:
        if called is not None and more_than_a_word(called):
            return called
        asked = fold(question)
        return next((text for text in options if fold(text) in asked or asked in fold(text)), question)
    written = last.strip()  # several lines, or a chain's inputs as JSON
    if options and fold(options[0]) != folded and more_than_a_word(options[0]):
        around = len(folded) - len(fold(options[0]))
        if "\n" in written or written[:1] == "{" or around >= AROUND:
            return options[0]
    if root is not None and find_passages(last) is not None:
        return root  # the message is a template whose end, with the question, was cut
    return last


def _below_label(short: str, folded: str) -> bool:
    """Whether the message is the candidate below a label ("New task:", "Current message:")."""
    head = folded[: -len(short)].rstrip()
    return folded.endswith(short) and head.endswith(":") and len(head) <= 40 and head.count(":") == 1


def _on_own_lines(text: str, message: str) -> bool:
    """Whether a text fills lines of a message that goes on before or after it, as a template's slot does."""
    return f"\n{text.strip()}\n" in f"\n{message}\n"


def more_than_a_word(short: str) -> bool:
    """Whether a candidate inside the message is more than a word that happens to be in it."""
    return len(short) >= 12 and " " in short


@per_session
def from_template(text: str) -> str | None:
    """The question inside a template, or None where `text` is no template."""
    fields = dspy_fields(text)
    if fields:
        texts = [body for name, body in fields if name not in _NOT_QUESTION and body]
        return texts[-1] if texts else None
    tagged = list(_TAGGED.finditer(text)) if "</" in text else []
    if tagged:
        return tagged[-1]["body"].strip()
    labels = ":" in text
    answer = _ANSWER.search("\n" + text.rstrip()) if labels else None
    marks = [m for m in _MARK.finditer(text) if answer is None or m.start() < answer.start()] if labels else []
    found = find_passages(text) if len(text) > 40 else None
    if found is None and answer is None:
        return None
    if marks:
        start = marks[-1].end()
        body = text[start:]
        if found is not None and found.start > start and found.form != "empty":
            body = text[start : found.start]
        closing = _ANSWER.search("\n" + body.rstrip())
        body = body.rstrip()[: closing.start() - 1 if closing and closing.start() > 0 else None] if closing else body
        body = _before_header(_QUOTED.sub(r"\g<body>", body.strip()))
        return body or None
    if found is None or not found.documents:
        return None
    after, before = text[found.end :].strip(), text[: found.start].strip()
    after = re.sub(r"\A[ \t]*(?:-{3,}|={3,}|`{3,}|\"{3}|</\w+>)\s*", "", after).strip()
    if after:
        paragraphs = [p.strip() for p in re.split(r"\n[ \t]*\n", after) if p.strip()]
        asked = [p for p in paragraphs if not goes_on(p)]
        if asked or not _before_header(before):
            return (asked or paragraphs)[-1]
    return _before_header(before) or None


_QUOTED = re.compile(r"\A(?P<quotes>\"{3}|'{3}|`{3})(?P<body>.*?)(?P=quotes)\Z", re.DOTALL)
_ANNOUNCES = re.compile(
    r"\b(?:context|documents|passages|sources|results|information|articles|excerpts|snippets|knowledge|material)\b.*(?::|\bbelow\b.*|\bfollowing\b.*)\s*$|^\s*[-=*`]{3,}\s*$",
    re.IGNORECASE,
)


def _before_header(body: str) -> str:
    """`body` without a trailing line that announces the context."""
    lines = body.splitlines()
    while lines and (not lines[-1].strip() or _ANNOUNCES.search(lines[-1])):
        lines.pop()
    return "\n".join(lines).strip()


def dspy_fields(text: str) -> list[tuple[str, str]]:
    """DSPy's ``[[ ## name ## ]]`` fields in order, empty where there are none."""
    if "[[ ## " not in text:
        return []
    return [(m["name"].lower(), m["body"].strip()) for m in _DSPY.finditer(_DSPY_END.sub("", text))]


_LABEL = re.compile(
    r"\b(?:question|query|message|input|request|prompt|user|human|customer|guest|visitor|q)[ \t]*:[ \t\n]*",
    re.IGNORECASE,
)
SHORTEST_SAID = 20
"""From how many characters on an answer in a prompt is that answer, and no word that happens to be there."""


def works_on(text: str, asked: str, said: str) -> bool:
    """Whether a prompt holds a turn's question and answer and asks nothing new (a check, suggestions, a title)."""
    asked, said = asked.strip(), said.strip()
    if len(said) < SHORTEST_SAID or said not in text or asked not in text:
        return False
    rest = text.replace(said, "\0").replace(asked, "\0") if asked else text.replace(said, "\0")
    return not any(rest[m.end() : m.end() + 1] not in ("", "\0") for m in _LABEL.finditer(rest))


_TURN = re.compile(
    r"\n[ \t]*(?=[UHCABNKuhcabnk])(?i:(?P<asks>user|human|customer|nutzer(?:in)?|benutzer(?:in)?|kund(?:e|in)|"
    r"utilisateur|client|usuario|cliente|utente)|assistant|assistente?|asistente|ai|bot|agente?)[ \t]*:[ \t]*"
)
"""It begins with the end of the line before, for which a text is looked through quickly."""


@per_session
def transcript(text: str, names: bool = False) -> list[tuple[str, str]]:
    """A conversation written into one text (``user: …`` / ``assistant: …`` lines), as (role, text) in order.

    With `names` two other names that take turns are read as user and assistant too (the text is known to be one).
    """
    lines = "\n" + text
    marks = list(_TURN.finditer(lines))
    if len(marks) < 2:
        return _named_transcript(text) if names else []
    said = []
    for index, mark in enumerate(marks):
        stop = marks[index + 1].start() if index + 1 < len(marks) else len(lines)
        body = lines[mark.end() : stop]
        if index + 1 == len(marks):
            body = re.split(r"\n[ \t]*\n", body, maxsplit=1)[0]
        role = "user" if mark["asks"] else "assistant"
        said.append((role, body.strip()))
    return said


_NAMED = re.compile(r"^[ \t]*(?P<name>[^\W\d_][\w ]{0,20}?)[ \t]*:[ \t]*", re.MULTILINE)


def _named_transcript(text: str) -> list[tuple[str, str]]:
    """A conversation of two names: the one that begins it asks, lines of other names belong to what is said."""
    marks = list(_NAMED.finditer(text))
    if len(marks) < 2 or marks[0].start() > 0:
        return []
    first = marks[0]["name"].lower()
    second = next((m["name"].lower() for m in marks if m["name"].lower() != first), None)
    marks = [m for m in marks if m["name"].lower() in (first, second)]
    stops = [*(m.start() for m in marks[1:]), len(text)]
    return [
        ("user" if mark["name"].lower() == first else "assistant", text[mark.end() : stop].strip())
        for mark, stop in zip(marks, stops, strict=True)
    ]
