"""Sessions: which traces of one session id may be of one customer, and what of that is in the session's key."""

from __future__ import annotations

from collections import Counter
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
    if len(all_owners) == 1:
        return {owners: owners for owners in all_owners}
    telling = _telling(all_owners)
    customers = _Customers()
    homes = {
        owners: customers.join(_by_kind(owners))
        for owners in sorted(all_owners, key=lambda o: (-len({k for k, _ in o} & telling), -len(o), o))
    }
    whole = [tuple(sorted((k, v) for k, values in c.items() for v in values)) for c in customers.known]
    return {owners: whole[home] for owners, home in homes.items()}


class _Customers:
    """What is known of each customer; grouped by kinds of id, and in a group found by id."""

    def __init__(self) -> None:
        self.known: list[dict[str, set[str]]] = []
        self._groups: dict[frozenset[str], dict[Owner, set[int]]] = {}
        self._sizes: Counter[frozenset[str]] = Counter()

    def join(self, own: dict[str, set[str]]) -> int:
        """Add what a trace says to the only customer it can belong to, else to a new one; the customer's number."""
        sharing: set[int] = set()
        apart: list[frozenset[str]] = []
        for kinds, group in self._groups.items():
            if shared := kinds & own.keys():
                likely = min((_with(group, kind, own[kind]) for kind in sorted(shared)), key=len)
                sharing.update(i for i in likely if all(self.known[i][k] & own[k] for k in shared))
            elif self._sizes[kinds]:
                apart.append(kinds)
        if not sharing and len(apart) == 1 and self._sizes[apart[0]] == 1:
            sharing = {i for i, customer in enumerate(self.known) if customer.keys() == apart[0]}
        number = sharing.pop() if len(sharing) == 1 else len(self.known)
        if number == len(self.known):
            self.known.append({})
        else:
            self._move(number, -1)
        for kind, values in own.items():
            self.known[number].setdefault(kind, set()).update(values)
        self._move(number, 1)
        return number

    def _move(self, number: int, by: int) -> None:
        """Into (1) or out of (-1) the group of a customer's kinds."""
        customer = self.known[number]
        kinds = frozenset(customer)
        self._sizes[kinds] += by
        group = self._groups.setdefault(kinds, {})
        for kind, values in customer.items():
            for value in values:
                members = group.setdefault((kind, value), set())
                if by > 0:
                    members.add(number)
                else:
                    members.discard(number)


def _with(group: dict[Owner, set[int]], kind: str, values: set[str]) -> set[int]:
    if len(values) == 1:
        return group.get((kind, next(iter(values))), set())
    return set().union(*(group.get((kind, value), ()) for value in values))


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
