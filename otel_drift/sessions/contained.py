"""Sessions: many texts looked for within others at once, by how they begin."""

from __future__ import annotations

from collections.abc import Collection, Iterator

LONGEST_BEGINNING = 4
"""The power of two of how many characters are looked up at each place of a text; the rest is compared."""


class Texts:
    """Texts that are found again where they stand within others."""

    def __init__(self) -> None:
        self._known: dict[int, dict[str, dict[int, set[str]]]] = {}

    def add(self, text: str) -> None:
        """Look for a text, not empty, from now on."""
        size = 1 << min(len(text).bit_length() - 1, LONGEST_BEGINNING)
        lengths = self._known.setdefault(size, {}).setdefault(text[:size], {})
        lengths.setdefault(len(text), set()).add(text)

    def within(self, text: str) -> Iterator[str]:
        """The known texts that `text` holds; one that it holds several times may come several times."""
        for size, beginnings in self._known.items():
            for place in range(len(text) - size + 1):
                lengths = beginnings.get(text[place : place + size])
                if lengths:
                    for length, texts in lengths.items():
                        part = text[place : place + length]
                        if part in texts:
                            yield part


def related(texts: Collection[str]) -> dict[str, set[str]]:
    """For each of `texts` those that it holds or that hold it, itself among them; the empty one is in all."""
    found = {text: {text} for text in texts}
    known = Texts()
    if len(texts) > 1:
        for text in filter(None, texts):
            known.add(text)
    for text in texts:
        for part in known.within(text):
            found[text].add(part)
            found[part].add(text)
        if "" in found:
            found[text].add("")
            found[""].add(text)
    return found
