"""Arize Phoenix: read sessions from it, write findings back to it as annotations."""

from otel_drift_connectors.phoenix.sink import PhoenixSink
from otel_drift_connectors.phoenix.source import PhoenixSource

__all__ = ["PhoenixSink", "PhoenixSource"]
