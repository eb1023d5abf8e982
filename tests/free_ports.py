"""Ports of this machine that nobody listens on right now."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """So many different ones."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def free_address() -> str:
    """``HOST:PORT`` on loopback."""
    return f"127.0.0.1:{free_ports(1)[0]}"
