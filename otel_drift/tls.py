"""A server's certificate, taken up anew when its files are replaced."""

from __future__ import annotations

import logging
import os
import ssl
import threading
from dataclasses import dataclass

from otel_drift.errors import ConfigError

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Tls:
    """PEM files of a server's certificate chain and its private key."""

    certificate: str
    key: str

    def check(self) -> None:
        """Raise ConfigError where they cannot be used."""
        try:
            ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(self.certificate, self.key, password=lambda: "")
        except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
            raise ConfigError(
                f"TLS: the certificate {self.certificate} with the key {self.key} cannot be used "
                f"({getattr(error, 'strerror', None) or error}); name PEM files, the key without a password"
            ) from None


class Renewal:
    """Notices, when a connection begins, that the files were replaced; safe to use from threads."""

    def __init__(self, tls: Tls) -> None:
        self._tls = tls
        self._lock = threading.Lock()
        self._seen = self._stamps()

    def is_due(self) -> bool:
        """Whether the files are others than when this was asked last, and a pair that can be used.

        Where they are none, as while only one of them is new, that is said, and the pair before is served.
        """
        now = self._stamps()
        with self._lock:
            if now == self._seen:
                return False
            self._seen = now
        try:
            self._tls.check()
        except ConfigError as error:
            log.warning("%s; the one before is served until the files change again", error)
            return False
        log.info("TLS: the certificate %s was replaced and is served from now on", self._tls.certificate)
        return True

    def _stamps(self) -> list[tuple[int, ...]]:
        stamps: list[tuple[int, ...]] = []
        for file in (self._tls.certificate, self._tls.key):
            try:
                said = os.stat(file)
            except OSError:
                stamps.append(())
            else:
                stamps.append((said.st_mtime_ns, said.st_ino, said.st_size))
        return stamps
