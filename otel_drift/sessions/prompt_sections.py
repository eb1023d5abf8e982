"""Sessions: where in a prompt the retrieved material stands: what announces it, and where the template goes on."""

from __future__ import annotations

import re
from collections.abc import Iterator

from otel_drift.normalise.values import lowered

_WORDS = (
    r"contexts?|passages?|documents?|docs|sources?|excerpts?|extracts?|snippets?|results|search results|chunks?|"
    r"knowledge(?: base)?|references?|information|articles?|evidence|material|sections?|paragraphs?|facts|"
    r"kontext\w*|quellen?|dokumenten?|auszugn?|auszügen?|textstellen?|abschnitten?|informationen|belege|"
    r"contextes?|extraits?|contextos?|fragmentos|documentos|fuentes|información|contesto|documenti|fonti|estratti|"
    r"trechos|fontes|informações"
)
_INITIALS = "".join(sorted({word[0] for word in _WORDS.split("|")}))
_NOUNS = "|".join(
    f"{initial}(?:{'|'.join(word[1:] for word in _WORDS.split('|') if word[0] == initial)})" for initial in _INITIALS
)
"""By their first letter, so that of fifty words a few are tried at each place of a prompt."""
_NOUN = re.compile(rf"(?=[{_INITIALS}])\b(?:{_NOUNS})\b")
"""Looked for in lower case."""
_POINTS = (
    r"following|below|folgend\w*|untenstehend\w*|unten|suivante?s?|ci-dessous|siguientes?|a continuación|seguenti?|"
    r"abaixo|a seguir"
)
_POINTED = re.compile(
    rf"\b(?:{_POINTS})\b(?:[ \t]+\S+){{0,5}}?[ \t]+(?:{_NOUNS})\b|\b"
    rf"(?:{_NOUNS})\b(?:[ \t]+\S+){{0,5}}?[ \t]+(?:{_POINTS})\b",
    re.IGNORECASE,
)
_POINTS_DOWN = re.compile(rf"\b(?:{_POINTS})\b.{{0,80}}(?:\*\*)?\Z")
"""Looked for in lower case."""
_LABEL = re.compile(
    r"[ \t]*(?:#{1,6}[ \t]*|\*\*|<)?(?:(?:the|retrieved|relevant|given|provided|additional|background|"
    rf"reference|supporting|search|your|available|source|known|useful|knowledge|base|company|internal)[ \t]+)"
    rf"{{0,3}}(?:{_NOUNS}|background)"
    r"(?:[ \t]+(?:information|documents?|passages?|data|base|results|items|list))?(?:\*\*|>)?",
    re.IGNORECASE,
)
_INLINE = re.compile(rf"{_LABEL.pattern}[ \t]*:(?:\*\*)?[ \t]*(?=\S)", re.IGNORECASE)
_HEADING = re.compile(r"[ \t]*(?:(?P<marks>#{1,6})[ \t]+[^\n]{1,100}|\*\*[^*\n]{1,100}\*\*:?)[ \t]*")
_ITEM = re.compile(rf"\W{{0,6}}(?:{_NOUNS})[ \t]*(?:no\.?|nr\.?|#|id)?[ \t]*[\[(#]?\d{{1,4}}\b", re.IGNORECASE)
"""One passage's own label (``Document 1``) announces no list."""
_QUESTION = re.compile(
    r"^[ \t]*(?:#{1,6}[ \t]*|\*\*|<)?(?:user(?:'s)?[ \t]+|customer[ \t]+)?(?:question|query|frage|pregunta|domanda|"
    r"pergunta|(?:helpful )?answer|antwort|réponse|respuesta)\b",
    re.IGNORECASE | re.MULTILINE,
)
RULE = re.compile(r"^[ \t]*(?:-{3,}|={3,}|\*{3,}|_{3,}|#{5,}|`{3,}\w*|\"{3})[ \t]*$", re.MULTILINE)
_RULES = ("---", "===", "***", "___", "#####", "```", '"""')


def may_hold_rules(text: str) -> bool:
    """Whether `text` need be looked through for rules."""
    return any(rule in text for rule in _RULES)


_LABELS = (
    r"question|query|human|answer|helpful answer|final answer|user(?:'s)?(?: question| query| message| input)?|"
    r"response|assistant|chat history|history|(?:previous |current )?conversation(?: history| so far)?|"
    r"last user message|follow[- ]?up(?: question| input)?|standalone question|frage|antwort|question de l'utilisateur|"
    r"réponse|pregunta|respuesta|domanda|risposta|pergunta|resposta|verlauf|bisheriges gespräch"
)
_SETTLED = (
    r"instructions?|rules|task|guidelines?|requirements?|constraints|output format|format|examples?|anweisungen|"
    r"hinweise?|aufgabe|regeln|consignes|instrucciones"
)
END = re.compile(
    r"^(?:"  # one test for all of them: each begins a line
    rf"[ \t]*(?:#{{1,6}}[ \t]*|\*\*)?(?:{_LABELS})(?:\*\*)?[ \t]*:"
    rf"|(?<=\n\n)[ \t]*(?:#{{1,6}}[ \t]*|\*\*)?(?:{_SETTLED})(?:\*\*)?[ \t]*:"
    rf"|[ \t]*#{{1,6}}[ \t]+(?:{_LABELS}|{_SETTLED}|(?:your|the) \w+|how to \w+)[^\n]{{0,40}}$"
    r"|(?:(?<=\n\n)|(?<=[-=*`\"]{3}\n))[ \t]*(?:given (?:the|this)|based on (?:the|this)|using (?:the|this)|answer the|"
    r"please answer|respond |now answer|(?:with|from) the (?:above|context))[^\n]*"
    r"|(?<=\n\n)[ \t]*(?:please |always |never |only |do not |don't |when |include |answer|cite|use |if you |if the |"
    r"if no |be |keep |reply |respond|provide |return |write |remember |(?:\*\*)?note(?:\*\*)?:)"
    r"(?=[^\n]{0,200}\b(?:answers?|answering|question|context|cite|citations?|sources?|users?|"
    r"concise|politely|the (?:documents|passages|excerpts)|(?:don't|do not) know)\b)"
    r"[^\n]{0,300}$(?!\n*[^\n]{400})"
    r"|[ \t]*(?:-{3,}|={3,}|\*{3,}|_{3,}|`{3,}|\"{3})[ \t]*$"
    r"|[ \t]*</[a-z_]+>)",
    re.MULTILINE | re.IGNORECASE,
)
"""Where the template goes on after the material."""
_PARAGRAPH_END = re.compile(r"\n[ \t]*\n|\n(?=[ \t]*(?:-{3,}|={3,}|\*{3,}|`{3,}|\"{3})[ \t]*(?:\n|$))")
_QUOTES = re.compile(r"[ \t]*(\"{3}|'{3}|`{3})")
_NEXT_LINE = re.compile(r"[ \t]*\n?[ \t]*([^\n]*)")
MAX_CANDIDATES = 12

Section = tuple[int, int]


def names_material(text: str) -> bool:
    """Whether a text speaks of documents, passages, context or the like."""
    return _NOUN.search(lowered(text)) is not None


def sections(text: str) -> list[Section]:
    """The parts of `text` that something in it announces as retrieved material, likeliest first."""
    labels: list[Section] = []
    others: list[Section] = []
    for start, end, label in _headers(text):
        part = _part(text, start)
        (labels if label else others).append((part[0], part[1]) if part is not None else (end, end))
        if len(labels) + len(others) >= MAX_CANDIDATES:
            break
    return [*labels, *others]


def _headers(text: str) -> Iterator[tuple[int, int, bool]]:
    """Where material may begin, the end of the line that says so, and whether that line is a mere label."""
    low = lowered(text)
    asks: bool | None = None
    stop = 0
    while (noun := _NOUN.search(low, stop)) is not None:
        begin = text.rfind("\n", 0, noun.start()) + 1
        stop = text.find("\n", noun.end())
        stop = len(text) if stop < 0 else stop
        line = text[begin : min(stop, begin + 2_000)]
        stripped = line.strip()
        if _ITEM.match(line):
            continue
        if _opens(low[begin : begin + len(line)].strip()):
            yield stop, stop, _LABEL.match(line.rstrip(" \t:")) is not None and len(stripped) <= 80
            continue
        inline = _INLINE.match(line)
        if inline is not None and asks is None:
            asks = _QUESTION.search(text) is not None
        # material on the label's own line: in quotes, or beside a question
        if inline is not None and (asks or text.startswith(('"""', "```", "'''"), begin + inline.end())):
            yield begin + inline.end(), stop, True
        elif _is_heading(text, begin, stop, stripped):
            yield stop, stop, True
        elif len(line) <= 1_500 and _POINTED.search(line):
            after = _PARAGRAPH_END.search(text, stop)
            if after is not None and after.start() - stop <= 1_500:
                yield after.end() - (0 if after[0].strip() else 1), after.end(), False


def _opens(line: str) -> bool:
    """Whether a line, in lower case, announces what stands below it: it ends with a colon, or points downwards."""
    if line.endswith((":", ":**")) and len(line.removesuffix("**")) <= 401:
        return True
    pointing = _POINTS_DOWN.search(line) if len(line) <= 500 else None
    return pointing is not None and pointing.start() <= 400


def _is_heading(text: str, begin: int, stop: int, line: str) -> bool:
    """Whether a line is a heading over material: Markdown, bold, in capitals, or a few words alone."""
    if not line or len(line) > 100 or line[-1] in ".,;!?":
        return False
    if _HEADING.fullmatch(line):
        return True
    letters = [c for c in line if c.isalpha()]
    if letters and all(c.isupper() for c in letters):
        return True
    below = text[stop + 1 : stop + 2]
    alone = begin == 0 or text[begin - 2 : begin] == "\n\n"
    return alone and len(line.split()) <= 4 and below not in ("", "\n") and _LABEL.fullmatch(line) is not None


def _part(text: str, start: int) -> Section | None:
    """The material that begins at `start`: without the rule or quotes around it, up to where the template goes on."""
    opening = _QUOTES.match(text, start)
    if opening is not None:
        close = text.find(opening[1], opening.end())
        if close >= 0:
            return opening.end(), close
    begin = start
    while True:  # blank lines, and further lines that announce the same
        line = _NEXT_LINE.match(text, begin)
        if line is None or line.end() >= len(text):
            break
        content = line[1].strip()
        if content and not (len(content) <= 100 and _NOUN.search(lowered(content)) and _bare_label(content)):
            break
        if line.end() == begin:
            break
        begin = line.end()
    begin = _past_instructions(text, begin)
    fence = RULE.match(text, begin + 1) if begin + 1 < len(text) else None
    if fence is None and RULE.match(text, begin):
        fence = RULE.match(text, begin)
    if fence is not None:
        begin = fence.end()
    level = _level(text, start)
    for end in END.finditer(text, begin):
        if RULE.match(text, end.start()):
            if fence is not None and fence[0].strip() != end[0].strip():
                continue
            rest = text[end.end() :].lstrip()
            if fence is None and rest and not goes_on(rest):
                continue  # a rule between two passages
            if fence is not None and rest and _more_follow(text, end, fence[0].strip()):
                continue
        if end.start() <= begin and not text[begin : end.start()].strip() and RULE.match(text, end.start()):
            continue
        return begin, _before_heading(text, begin, end.start(), level)
    return begin, _before_heading(text, begin, len(text), level)


def _past_instructions(text: str, begin: int) -> int:
    """`begin`, or the rule below it where only lines of the same paragraph, instructions, stand between."""
    rule = RULE.search(text, begin, begin + 1_500)
    if rule is None or rule.start() <= begin + 1:
        return begin
    between = text[begin : rule.start()].strip("\n")
    if "\n\n" in between or not _ORDERS.match(between):
        return begin
    return rule.start() - 1


_ORDERS = re.compile(
    r"[ \t]*(?:if (?:you|the|no)|do not|don't|use|keep|answer|always|never|only|please|be|cite|just say|respond|"
    r"reply)\b",
    re.IGNORECASE,
)


def _bare_label(line: str) -> bool:
    return line.endswith(":") and _LABEL.fullmatch(line[:-1].rstrip("* ")) is not None


def goes_on(paragraph: str) -> bool:
    """Whether the template goes on with this paragraph: an instruction, or the label of a question or answer."""
    return END.match("\n\n" + paragraph, 2) is not None


def _more_follow(text: str, end: re.Match[str], fence: str) -> bool:
    """Whether a rule like the opening one stands between passages: the same comes again, and no question before it."""
    again = re.compile(r"^[ \t]*" + re.escape(fence) + r"[ \t]*$", re.MULTILINE).search(text, end.end() + 1)
    return (
        again is not None
        and _QUESTION.search(text, end.end(), again.start()) is None
        and not goes_on(text[end.end() :].lstrip())
    )


def _level(text: str, start: int) -> int:
    """The level of the Markdown heading that ends at `start`, 0 where the line is none."""
    begin = text.rfind("\n", 0, start) + 1
    match = _HEADING.match(text, begin)
    return len(match["marks"] or "") if match is not None else 0


def _before_heading(text: str, begin: int, end: int, level: int) -> int:
    """`end`, or the next heading of the level that the material itself stands under."""
    if not level:
        return end
    again = _OF_LEVEL[level].search(text, begin, end)
    return again.start() if again is not None else end


_OF_LEVEL = {level: re.compile(rf"^#{{1,{level}}}[ \t]+\S", re.MULTILINE) for level in range(1, 7)}
