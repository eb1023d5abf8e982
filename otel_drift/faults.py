"""What is wrong with a judge's answer: a sentence for the judge, and for statistics the rule that it breaks."""

from __future__ import annotations

OTHER = "other"


class Fault(str):
    """A sentence that tells the judge what to mend. `rule` is a short code of the check that said it."""

    __slots__ = ("rule",)

    rule: str

    def __new__(cls, rule: str, sentence: str) -> Fault:  # noqa: D102
        made = super().__new__(cls, sentence)
        made.rule = rule
        return made

    @classmethod
    def of(cls, sentence: str) -> Fault:
        """The fault as it is; a mere sentence, such as another's audit may return, is of the rule ``other``."""
        return sentence if isinstance(sentence, Fault) else cls(OTHER, sentence)

    def at(self, place: str) -> Fault:
        """The same fault, said of a place."""
        return Fault(self.rule, f"{place}: {self}")
