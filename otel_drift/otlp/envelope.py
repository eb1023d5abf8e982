"""The resource and scope around the records of a streamed document, in whatever order they come."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from otel_drift.model import Record, Span
from otel_drift.otlp.values import Decoding


class Envelope:
    """Gives streamed records the resource and scope of the entry they are in.

    Nothing demands that a document names the resource before its spans. Records that come first are held, up to
    `ReadLimits.max_held_bytes`; beyond that they go on without, and a resource that still comes is a problem.
    """

    __slots__ = (
        "_decoding",
        "_held",
        "_held_bytes",
        "_let_go",
        "_scope_begins",
        "_waiting",
        "ready",
        "resource",
        "scope",
    )

    def __init__(self, decoding: Decoding) -> None:
        self.ready: list[Record] = []
        self.resource: Mapping[str, Any] = {}
        self.scope = ""
        self._decoding = decoding
        self._held: list[Record] = []
        self._held_bytes = 0
        self._let_go: set[str] = set()
        self._scope_begins = 0
        self._waiting: set[str] = set()

    def open_resource(self) -> None:
        """A new resource entry begins."""
        self.close_resource()
        self.resource = {}
        self._waiting.add("resource")

    def open_scope(self) -> None:
        """A new scope entry begins."""
        self.close_scope()
        self.scope = ""
        self._scope_begins = len(self._held)
        self._waiting.add("scope")

    def set_resource(self, resource: Mapping[str, Any]) -> None:
        """The entry's resource is known."""
        self._arrived("resource")
        self.resource = resource
        self._held = [
            dataclasses.replace(record, resource=resource) if isinstance(record, Span) else record
            for record in self._held
        ]
        self._release_if_complete()

    def set_scope(self, scope: str) -> None:
        """The entry's scope is known."""
        self._arrived("scope")
        self.scope = scope
        for index in range(self._scope_begins, len(self._held)):
            self._held[index] = dataclasses.replace(self._held[index], scope=scope)
        self._release_if_complete()

    def add(self, record: Record, size: int) -> None:
        """Take a record that is `size` bytes long."""
        if not self._waiting:
            self.ready.append(record)
            return
        self._held.append(record)
        self._held_bytes += size
        if self._held_bytes > self._decoding.limits.max_held_bytes:
            self._let_go |= self._waiting
            self._waiting.clear()
            self._release_if_complete()

    def close_scope(self) -> None:
        """The scope entry ends."""
        self._waiting.discard("scope")
        self._let_go.discard("scope")
        self._release_if_complete()

    def close_resource(self) -> None:
        """The resource entry ends."""
        self._waiting.clear()
        self._let_go.clear()
        self._release_if_complete()

    def take(self) -> list[Record]:
        """Return the records that are complete, and forget them."""
        ready, self.ready = self.ready, []
        return ready

    def _arrived(self, what: str) -> None:
        if what in self._let_go:
            self._decoding.report(
                f"the {what} comes after more than {self._decoding.limits.max_held_bytes} bytes of its records; "
                "they were read without it"
            )
        self._waiting.discard(what)

    def _release_if_complete(self) -> None:
        if self._held and not self._waiting:
            self.ready += self._held
            self._held = []
            self._held_bytes = 0
            self._scope_begins = 0
