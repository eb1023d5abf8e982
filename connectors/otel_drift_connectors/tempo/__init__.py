"""Grafana Tempo: read sessions from it, write audit spans into its traces."""

from otel_drift_connectors.tempo.source import TempoSink, TempoSource

__all__ = ["TempoSink", "TempoSource"]
