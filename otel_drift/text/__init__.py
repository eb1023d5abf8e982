"""What can be read off a text without understanding it: sentences, words, numbers, dates, qualifiers, quotes."""

from otel_drift.text.dates import Date, dates
from otel_drift.text.folding import fold, holds, locate
from otel_drift.text.qualifiers import Qualifier, QualifierClass, keeps, qualifiers
from otel_drift.text.quantities import Quantity, number_values, quantities
from otel_drift.text.sentences import Sentence, clauses, sentences, statements
from otel_drift.text.tokens import content_stems, content_words, is_english, names, stem, stems, words

__all__ = [
    "Date",
    "Qualifier",
    "QualifierClass",
    "Quantity",
    "Sentence",
    "clauses",
    "content_stems",
    "content_words",
    "dates",
    "fold",
    "holds",
    "is_english",
    "keeps",
    "locate",
    "names",
    "number_values",
    "qualifiers",
    "quantities",
    "sentences",
    "statements",
    "stem",
    "stems",
    "words",
]
