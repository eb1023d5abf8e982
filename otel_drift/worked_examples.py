"""Worked examples in prompts: the operator's own from a file, and checks on all of them.

A file of examples holds one JSON object a line: ``{"prompt": "factual_drift/session", "data": …, "answer": {…}}``,
``data`` being what the prompt's data blocks hold (a text, or a list of objects, one a line), optionally ``title``.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ValidationError

from otel_drift import prompting, text
from otel_drift.errors import ConfigError

_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_QUOTE_KEYS = ("quote", "excerpt", "quote_a", "quote_b", "supporting_source_excerpt")
MOST_EXAMPLES = 20
LONGEST_EXAMPLE = 20_000


def load_examples(path: str | Path) -> dict[str, tuple[str, ...]]:
    """The operator's examples by prompt id, written as our own prompts write theirs.

    Raises:
        ConfigError: the file is missing or an example is malformed; the message names the line.
    """
    found: dict[str, list[str]] = {}
    for number, line in enumerate(_lines(Path(path)), 1):
        if line.strip():
            prompt_id, example = _example(line, f"{path}, line {number}")
            found.setdefault(prompt_id, []).append(example)
    for prompt_id, examples in found.items():
        if len(examples) > MOST_EXAMPLES:
            raise ConfigError(f"{path}: {len(examples)} examples for {prompt_id}; at most {MOST_EXAMPLES} are used")
    return {prompt_id: tuple(examples) for prompt_id, examples in found.items()}


def problems(prompt_text: str, model: type[BaseModel] | None) -> list[str]:
    """What is wrong with the worked examples of a prompt, one sentence each.

    Each answer has to be a JSON object, of the form the audit expects if `model` is given, and each quote in it has to
    stand verbatim in the example's data (or in a text that the answer itself writes).
    """
    found: list[str] = []
    for number, (data, answer) in enumerate(examples_in(prompt_text), 1):
        found += [f"example {number}: {problem}" for problem in _problems(data, answer, model)]
    return found


def examples_in(prompt_text: str) -> Iterator[tuple[str, str]]:
    """Data and answer of each worked example: fenced blocks up to one that is called ``answer``."""
    data: list[str] = []
    for block in _BLOCK.finditer(prompt_text):
        if block[1] == "answer":
            yield "\n".join(data), block[2]
            data = []
        else:
            data.append(block[2])


def _problems(data: str, answer: str, model: type[BaseModel] | None) -> Iterator[str]:
    try:
        value = json.loads(answer)
    except ValueError as error:
        yield f"the answer is no JSON: {error}"
        return
    if not isinstance(value, dict):
        yield "the answer is no JSON object"
        return
    if model is not None:
        try:
            model.model_validate(value)
        except ValidationError as error:
            for detail in error.errors(include_url=False):
                yield f"{'.'.join(map(str, detail['loc'])) or 'the answer'}: {detail['msg']}"
    said = text.fold(" ".join([*_texts(data), *_strings(_without_quotes(value))]))
    for quote in _quotes(value):
        if text.fold(quote) not in said:
            yield f"the quote {quote[:80]!r} is not in its data"


def _without_quotes(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _without_quotes(inner) for key, inner in value.items() if key not in _QUOTE_KEYS}
    return [_without_quotes(inner) for inner in value] if isinstance(value, list) else value


def _texts(data: str) -> Iterator[str]:
    """The texts of data blocks: of JSON lines their strings, of other lines the lines themselves."""
    yield data
    for line in data.splitlines():
        try:
            yield from _strings(json.loads(line))
        except ValueError:
            continue


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for inner in value.values():
            yield from _strings(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _strings(inner)


def _quotes(value: Any) -> Iterator[str]:
    if isinstance(value, Mapping):
        for key, inner in value.items():
            if key in _QUOTE_KEYS and isinstance(inner, str):
                yield inner
            else:
                yield from _quotes(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _quotes(inner)


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: the file of examples cannot be read: {error}") from None


def _example(line: str, where: str) -> tuple[str, str]:
    try:
        one = json.loads(line)
    except ValueError as error:
        raise ConfigError(f"{where}: no JSON: {error}") from None
    if not isinstance(one, dict) or not isinstance(one.get("answer"), dict) or not one.get("data"):
        raise ConfigError(f'{where}: an example is {{"prompt": …, "data": …, "answer": {{…}}}}')
    prompt_id = str(one.get("prompt"))
    prompting.load(prompt_id)
    data = one["data"]
    if isinstance(data, list):
        data = "\n".join(json.dumps(part, ensure_ascii=False) for part in data)
    if not isinstance(data, str) or "```" in data:
        raise ConfigError(f"{where}: data is a text or a list of objects, without ```")
    answer = json.dumps(one["answer"], ensure_ascii=False)
    title = " ".join(str(one.get("title") or "from this deployment").split())
    example = f"## Example: {title}\n```data\n{data}\n```\n```answer\n{answer}\n```"
    if len(example) > LONGEST_EXAMPLE:
        raise ConfigError(f"{where}: longer than {LONGEST_EXAMPLE} characters")
    if wrong := problems(example, None):
        raise ConfigError(f"{where}: {wrong[0].partition(': ')[2]}")
    return prompt_id, example
