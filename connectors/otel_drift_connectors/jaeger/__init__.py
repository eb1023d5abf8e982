"""Jaeger: read sessions from it, write audit spans into its traces."""

from otel_drift_connectors.jaeger.source import JaegerSink, JaegerSource

__all__ = ["JaegerSink", "JaegerSource"]
