"""What stands in the log of requests that a sender will not send again."""

from __future__ import annotations

import logging

import pytest

from otel_drift.receiver.refusals import SAID_EVERY, Refusal, Refusals
from receiver_desk import CountedTelemetry


def test_what_makes_senders_drop_data_is_said_once_a_minute_with_how_often(caplog: pytest.LogCaptureFixture) -> None:
    seconds = [0.0]
    telemetry = CountedTelemetry()
    refusals = Refusals(telemetry, clock=lambda: seconds[0])
    wrong = Refusal("unauthorized", "send the token")
    with caplog.at_level(logging.INFO):
        for _ in range(3):
            refusals.tell("http", wrong)
        refusals.tell("grpc", wrong)
        refusals.tell("http", Refusal("too_large", "too much", 7))
        seconds[0] += SAID_EVERY
        refusals.tell("http", wrong)

    assert [record.getMessage() for record in caplog.records] == [
        "receiver: refused a request by http as unauthorized: send the token",
        "receiver: refused a request by grpc as unauthorized: send the token",
        "receiver: refused a request by http as too_large: too much",
        "receiver: refused 3 requests by http as unauthorized: send the token",
    ]
    assert len(telemetry.refusals) == 6


def test_a_sender_that_is_told_to_come_again_loses_nothing(caplog: pytest.LogCaptureFixture) -> None:
    Refusals(CountedTelemetry()).tell("http", Refusal("busy", "later"))

    assert not caplog.records
