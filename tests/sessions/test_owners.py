"""Whose a session is: two customers with one session id never merge; a span without the customer splits nothing."""

from __future__ import annotations

import json
from typing import Any

import pytest

from otel_drift.normalise import identify
from otel_drift.redaction import withhold
from otel_drift.sessions.owners import compatible, parted
from spans import TURNS, Trace, chat, one, said, sessions_of

ONE = {"session.id": "1"}
NAMES = [
    "tenant.id",
    "tenant_id",
    "tenantId",
    "app.tenant_id",
    "customer.id",
    "customer_id",
    "account.id",
    "org.id",
    "organization_id",
    "workspace_id",
    "user.id",
    "enduser.id",
    "metadata.customer_id",
    "traceloop.association.properties.customer_id",
    "langfuse.trace.metadata.tenant_id",
    "langsmith.metadata.organization_id",
    "ai.telemetry.metadata.customerId",
    "mlflow.trace.user",
]


def two(key: str, first: Any, second: Any, where: str) -> list[Trace]:
    """Two turns of one session id, each with its own customer on the spans or on the resource."""
    if where == "resource":
        return [chat(k, ids=ONE, resource={key: value}) for k, value in enumerate((first, second))]
    return [chat(k, ids={**ONE, key: value}) for k, value in enumerate((first, second))]


@pytest.mark.parametrize("where", ["ids", "resource"])
@pytest.mark.parametrize("key", NAMES)
def test_two_customers_of_one_session_id_are_two_sessions(key: str, where: str) -> None:
    sessions = sessions_of(*two(key, "alice", "bob", where))
    assert len(sessions) == 2
    assert len({s.key for s in sessions}) == 2
    assert {s.user or s.tenant for s in sessions} == {"alice", "bob"}
    assert all("alice" in s.key or "bob" in s.key for s in sessions)
    assert said(one(*two(key, "alice", "alice", where))) == TURNS[:2]


@pytest.mark.parametrize("key", ["metadata", "langfuse.trace.metadata"])
def test_a_customer_inside_metadata_as_json_counts(key: str) -> None:
    first, second = (json.dumps({"customer_id": who, "note": "x"}) for who in ("alice", "bob"))
    assert sorted(str(s.tenant) for s in sessions_of(*two(key, first, second, "ids"))) == ["alice", "bob"]


def test_a_span_that_names_no_customer_joins_and_keeps_the_session_whole() -> None:
    whole = one(chat(0, ids={**ONE, "tenant.id": "acme"}), chat(1, ids=ONE), chat(2, ids={**ONE, "user.id": "ada"}))
    assert (whole.tenant, whole.user, said(whole)) == ("acme", "ada", TURNS)
    assert whole.key == "bot/-/tenant:acme/ada/1"


def test_who_may_be_of_either_customer_is_put_to_neither() -> None:
    sessions = sessions_of(
        chat(0, ids={**ONE, "tenant.id": "acme"}), chat(1, ids={**ONE, "tenant.id": "zeta"}), chat(2, ids=ONE)
    )
    assert sorted((str(s.tenant), len(s.turns)) for s in sessions) == [("None", 1), ("acme", 1), ("zeta", 1)]


def test_two_names_for_one_user_split_nothing() -> None:
    mixed = one(
        chat(0, ids={**ONE, "user.id": "7"}),
        chat(1, ids={**ONE, "user.id": "7", "enduser.id": "ada"}),
        chat(2, ids={**ONE, "enduser.id": "ada"}),
    )
    assert (mixed.user, said(mixed)) == ("7", TURNS)


def test_the_records_that_a_tool_looked_up_are_no_owners() -> None:
    """A support agent looks up one customer in each turn: still one session."""
    traces = []
    for k, customer in enumerate(("17", "18")):
        trace = chat(k, ids=ONE)
        trace.add(
            "lookup",
            {"openinference.span.kind": "TOOL", "tool.name": "lookup", "customer_id": customer, **ONE},
            trace.spans[0].span_id,
        )
        traces.append(trace)
    assert one(*traces).tenant is None


def test_without_a_session_id_tenants_are_not_linked_by_history() -> None:
    a, b = {"tenant.id": "acme"}, {"tenant.id": "zeta"}
    assert len(sessions_of(chat(0, ids=a), chat(1, ids=b))) == 2
    assert len(sessions_of(chat(0, ids=a), chat(1, ids=a))) == 1


def test_customers_are_parted_whatever_the_order() -> None:
    acme, zeta, ada = ("tenant", "acme"), ("tenant", "zeta"), ("user", "ada")
    found = parted({(acme,), (acme, ada), (zeta,), (ada,), ()})
    assert found[(acme,)] == found[(acme, ada)] == found[(ada,)] == (acme, ada)
    assert found[(zeta,)] == (zeta,)
    assert found[()] == ()
    assert compatible((acme,), (ada,))
    assert not compatible((acme,), (zeta, ada))


def test_a_session_that_is_withheld_names_no_tenant() -> None:
    session = one(chat(0, ids={**ONE, "tenant.id": "acme"}))
    assert withhold(session).tenant is None
    assert "acme" not in withhold(session).key


def test_a_very_long_session_id_is_kept_apart_by_its_hash() -> None:
    """Over 512 characters an id is cut, not dropped, and two that differ at the end only stay two."""
    first, second = "s" * 5000 + "a", "s" * 5000 + "b"
    sessions = sessions_of(chat(0, ids={"session.id": first}), chat(1, ids={"session.id": second}))
    assert len({s.session_id for s in sessions}) == 2
    assert all(s.session_id is not None and 400 < len(s.session_id) <= 512 for s in sessions)
    assert said(one(chat(0, ids={"session.id": first}), chat(1, ids={"session.id": first}))) == TURNS[:2]
    trace = chat(0, ids={"session.id": "s" * 512})
    assert next(i.session for s in trace.spans if (i := identify(s)).session is not None)[1] == "s" * 512
