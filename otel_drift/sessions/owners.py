"""Sessions: which traces of one session id may be of one customer, and what of that is in the session's key."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TypeAlias

from otel_drift.normalise.owners import TENANTS, USERS, Owner

Owners: TypeAlias = tuple[Owner, ...]
"""What a trace says of its user and tenant, sorted; empty where it says nothing."""


def compatible(one: Owners, other: Owners) -> bool:
    """Whether two traces may be of one customer: no kind of id that both name has only different values."""
    if not one or not other or one == other:
        return True
    first, second = _by_kind(one), _by_kind(other)
    return all(first[kind] & second[kind] for kind in first.keys() & second.keys())


def parted(all_owners: Collection[Owners]) -> dict[Owners, Owners]:
    """Part what the traces of one session id say of their owners into customers.

    Who says nothing, or too little, joins where there is one customer only it can belong to; where it might be of
    several, it stays apart.

    Returns:
        For each of `all_owners` everything that is known of its customer.
    """
    telling = _telling(all_owners)
    customers: list[dict[str, set[str]]] = []
    members: list[list[Owners]] = []
    for owners in sorted(all_owners, key=lambda o: (-len({k for k, _ in o} & telling), -len(o), o)):
        own = _by_kind(owners)
        fitting = [i for i, c in enumerate(customers) if all(c[k] & own[k] for k in c.keys() & own.keys())]
        if len(fitting) > 1:
            sharing = [i for i in fitting if any(customers[i].get(k, set()) & own[k] for k in own)]
            fitting = sharing if len(sharing) == 1 else []
        if fitting:
            for kind, values in own.items():
                customers[fitting[0]].setdefault(kind, set()).update(values)
            members[fitting[0]].append(owners)
        else:
            customers.append(own)
            members.append([owners])
    found: dict[Owners, Owners] = {}
    for customer, own_members in zip(customers, members, strict=True):
        whole = tuple(sorted((kind, value) for kind, values in customer.items() for value in values))
        found.update(dict.fromkeys(own_members, whole))
    return found


def _telling(all_owners: Collection[Owners]) -> set[str]:
    """The kinds of id in which the traces differ."""
    values: dict[str, set[frozenset[str]]] = {}
    for owners in all_owners:
        for kind, own in _by_kind(owners).items():
            values.setdefault(kind, set()).add(frozenset(own))
    return {kind for kind, seen in values.items() if len(seen) > 1}


def user_of(owners: Owners) -> str | None:
    """The user's id, where there is one."""
    return _single(owners, USERS)


def tenant_of(owners: Owners) -> str | None:
    """The tenant's (or customer's, account's) id, where there is one."""
    return _single(owners, TENANTS)


def key_parts(owners: Owners) -> list[str]:
    """The parts of a session's key: tenant where one is known, and user."""
    tenants = [f"{kind}:{value}" for kind in TENANTS for k, value in owners if k == kind]
    users = [value if kind == "user" else f"{kind}:{value}" for kind in USERS for k, value in owners if k == kind]
    only = user_of(owners)
    user = only if only is not None and len(users) == 1 else ",".join(users)
    return [",".join(tenants), user] if tenants else [user]


def _single(owners: Owners, kinds: tuple[str, ...]) -> str | None:
    for kind in kinds:
        values = [value for k, value in owners if k == kind]
        if values:
            return values[0] if len(values) == 1 else None
    return None


def _by_kind(owners: Iterable[Owner]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for kind, value in owners:
        found.setdefault(kind, set()).add(value)
    return found
