"""Raises the alarm: what is to be told comes from the ledger, is told at least once, and is told again when it ends."""

from otel_drift.alerts.duty import AlertDuty, Channel, Pace
from otel_drift.alerts.opening import alert_duty
from otel_drift.alerts.reconciling import Actions, Findings

__all__ = ["Actions", "AlertDuty", "Channel", "Findings", "Pace", "alert_duty"]
