"""The address under which others find this host: the best of its interfaces.

See docs/behaviour/system.md.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable
from dataclasses import dataclass

import psutil


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    """An address of an interface."""

    ip: str
    up: bool

    @property
    def rank(self) -> tuple[bool, bool, bool, bool]:
        """Rank of the address, smaller is better.

        An unreachable address is worse than one of the newer protocol.
        """
        parsed = ipaddress.ip_address(self.ip)
        return (not self.up, parsed.is_loopback, parsed.is_link_local, parsed.version == 6)


def advertised(listening: str, chosen: str = "") -> str:
    """Return the address to announce: the configured one, else the one listened on, else the best of all."""
    if chosen:
        return chosen
    try:
        listens_on_all = ipaddress.ip_address(listening).is_unspecified
    except ValueError:  # a name
        return listening
    return best(interfaces(), listening) if listens_on_all else listening


def unreachable(ip: str, servers: str) -> bool:
    """Return whether hosts that share the registry at `servers` cannot reach `ip`.

    That is the case where it is a loopback address while the registry (host:port,host:port…) is elsewhere.
    """
    hosts = [each.strip().rpartition(":")[0] for each in servers.partition("/")[0].split(",")]
    return _loopback(ip) and not all(_loopback(host) for host in hosts)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def best(found: Iterable[InterfaceAddress], listening: str = "::") -> str:
    """Return the best address.

    Up is preferred to down, other to loopback, routed to link-local, IPv4 to IPv6. A server that listens on
    0.0.0.0 cannot be reached by IPv6.
    """
    versions = (4,) if ipaddress.ip_address(listening).version == 4 else (4, 6)
    usable = [each for each in found if ipaddress.ip_address(each.ip).version in versions]
    return min(usable, key=lambda each: each.rank).ip if usable else "127.0.0.1"


def interfaces() -> list[InterfaceAddress]:
    """Return this host's addresses."""
    up = {name: state.isup for name, state in psutil.net_if_stats().items()}
    return [
        InterfaceAddress(each.address.split("%")[0], up.get(name, False))
        for name, addresses in psutil.net_if_addrs().items()
        for each in addresses
        if each.family in (socket.AF_INET, socket.AF_INET6)
    ]
