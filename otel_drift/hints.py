"""What a session lacks, and which setting of which instrumentation would capture it."""

from __future__ import annotations

from collections.abc import Sequence

from otel_drift.model import Hint, Session
from otel_drift.normalise import Step


def hints_for(session: Session, steps: Sequence[Step]) -> tuple[Hint, ...]:
    """Hints for one session."""
    return ()
