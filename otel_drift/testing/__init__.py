"""For people who write connectors: sample conversations, fakes, and checks that any source, sink and alerter must pass.

The checks raise AssertionError with a sentence that says what a user would see. See ``examples/custom_connector``.
"""

from otel_drift.testing.alerters import AlerterCase, check_alerter, sample_alert
from otel_drift.testing.fakes import MemorySink, MemorySource
from otel_drift.testing.samples import conversation, sample_annotations, sample_spans
from otel_drift.testing.sinks import SinkCase, check_sink
from otel_drift.testing.sources import SourceCase, check_source

__all__ = [
    "AlerterCase",
    "MemorySink",
    "MemorySource",
    "SinkCase",
    "SourceCase",
    "check_alerter",
    "check_sink",
    "check_source",
    "conversation",
    "sample_alert",
    "sample_annotations",
    "sample_spans",
]
