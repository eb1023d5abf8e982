"""Ports of this machine that nobody listens on, nor will before the one that asked for them."""

from __future__ import annotations

import random
import socket

_BELOW_THE_HANDED_OUT = range(20_000, 32_000)
"""Systems give outgoing connections, and servers that ask for any port, higher ones: from 32,768 (Linux), 49,152."""
_chance = random.SystemRandom()


def free_ports(count: int) -> list[int]:
    """So many different ones, each the caller's until this process ends."""
    found: list[int] = []
    while len(found) < count:
        port = _chance.choice(_BELOW_THE_HANDED_OUT)
        if _is_free(port) and _is_reserved(port):
            found.append(port)
    return found


def free_address() -> str:
    """``HOST:PORT`` on loopback."""
    return f"127.0.0.1:{free_ports(1)[0]}"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        return _is_bound(probe, port)


def _is_reserved(port: int) -> bool:
    """Whether no other call has it, in whichever process: each keeps the UDP port of the same number."""
    with socket.socket(type=socket.SOCK_DGRAM) as mark:
        bound = _is_bound(mark, port)
        if bound:
            mark.detach()
        return bound


def _is_bound(one: socket.socket, port: int) -> bool:
    try:
        one.bind(("127.0.0.1", port))
    except OSError:
        return False
    return True
