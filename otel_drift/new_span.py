"""Makes a `Span` in a quarter of the time that its own constructor takes; for where millions are made.

A frozen dataclass sets each field through ``object.__setattr__``. Here a class with the same slots is filled and then
becomes a `Span`.
"""

from __future__ import annotations

from typing import Any, cast

from otel_drift.model import Span


class _OpenSpan:
    __slots__ = Span.__slots__

    def __init__(
        self, trace_id: Any, span_id: Any, parent_id: Any, name: Any, start: Any, end: Any, attributes: Any,
        resource: Any, scope: Any, kind: Any, status: Any, status_message: Any, events: Any = (), logs: Any = (),
    ) -> None:  # fmt: skip
        self.trace_id = trace_id
        self.span_id = span_id
        self.parent_id = parent_id
        self.name = name
        self.start = start
        self.end = end
        self.attributes = attributes
        self.resource = resource
        self.scope = scope
        self.kind = kind
        self.status = status
        self.status_message = status_message
        self.events = events
        self.logs = logs
        self.__class__ = Span  # type: ignore[assignment]


new_span = cast(type[Span], _OpenSpan)
"""Called as `Span` is, with every field up to `status_message`."""
