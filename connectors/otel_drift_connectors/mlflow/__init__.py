"""MLflow: sessions from a tracking server's traces, findings back as assessments and a searchable tag."""

from otel_drift_connectors.mlflow.sink import MlflowSink
from otel_drift_connectors.mlflow.source import MlflowSource

__all__ = ["MlflowSink", "MlflowSource"]
