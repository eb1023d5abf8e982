"""Where a person sees a span, a trace or a session on the platform it came from."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import quote


@dataclass(frozen=True, slots=True)
class Links:
    """Addresses with ``{trace_id}`` and ``{span_id}``, or ``{session_id}``; empty = there are none."""

    trace_url: str = ""
    session_url: str = ""

    def span(self, ref: str | None) -> str | None:
        """The address of a span (``trace_id:span_id``), or of its trace."""
        trace_id, _, span_id = (ref or "").partition(":")
        return _filled(self.trace_url, trace_id=trace_id, span_id=span_id) if trace_id else None

    def session(self, session_id: str | None) -> str | None:
        """The address of a session."""
        return _filled(self.session_url, session_id=session_id) if session_id else None


def _filled(template: str, **ids: str) -> str | None:
    # Ids of hostile traces may be any text: quoted, they stay one part of the address.
    for name, value in ids.items():
        template = template.replace(f"{{{name}}}", quote(value, safe=""))
    return template or None
