"""Sessions: turns and sessions rebuilt from normalised steps."""

from otel_drift.sessions.options import ReconstructOptions
from otel_drift.sessions.reconstruct import reconstruct, stream
from otel_drift.sessions.render import session_json

__all__ = ["ReconstructOptions", "reconstruct", "session_json", "stream"]
