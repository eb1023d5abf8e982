"""Langfuse: read sessions from it, write findings back to it."""

from otel_drift_connectors.langfuse.source import LangfuseSource

__all__ = ["LangfuseSource"]
