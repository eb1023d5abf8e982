"""What an audit says of one retrieved passage, for platforms that annotate the documents of a retrieval."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PassageMark:
    """A value about one passage, without its text.

    `span_ref` is the span the passage was read from, `passage_id` its id there (``tN.pM`` where it has none), and
    `text_sha256` tells by `text_sha256` which text it is. A redacted text is another text: then only the id tells.
    """

    span_ref: str
    passage_id: str
    text_sha256: str
    label: str
    explanation: str

    def place_among(self, documents: list[tuple[str | None, str | None]]) -> int | None:
        """The place of the passage in a list of documents (id and text each); None unless it is one for certain.

        Id and text must both speak for the same one document, or one of them where the other speaks for none.
        """
        by_id = {place for place, (own, _) in enumerate(documents) if own == self.passage_id}
        by_text = {place for place, (_, text) in enumerate(documents) if text and text_sha256(text) == self.text_sha256}
        found = by_id & by_text if by_id and by_text else by_id | by_text
        return found.pop() if len(found) == 1 else None


def text_sha256(text: str) -> str:
    """Hex digest of a text, equal for texts that differ in white space alone."""
    return hashlib.sha256(" ".join(text.split()).encode("utf-8", "backslashreplace")).hexdigest()
