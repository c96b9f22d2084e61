"""Under which address others find this host: the best of its interfaces (behaviour 1.2)."""

from __future__ import annotations

import fcntl
import ipaddress
import socket
import struct
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

_GET_FLAGS, _GET_ADDRESS = 0x8913, 0x8915  # SIOCGIFFLAGS, SIOCGIFADDR of Linux
_UP = 0x1
_IF_INET6 = Path("/proc/net/if_inet6")


@dataclass(frozen=True, slots=True)
class InterfaceAddress:
    ip: str
    up: bool

    @property
    def rank(self) -> tuple[bool, bool, bool, bool]:
        """Smaller is better. An address that nobody reaches is worse than one of the newer protocol."""
        parsed = ipaddress.ip_address(self.ip)
        return (not self.up, parsed.is_loopback, parsed.is_link_local, parsed.version == 6)


def advertised(listening: str, chosen: str = "") -> str:
    """The address to tell others: the chosen one, else the one listened on, else the host's best."""
    if chosen:
        return chosen
    try:
        anywhere = ipaddress.ip_address(listening).is_unspecified
    except ValueError:  # a name
        return listening
    return best(interfaces(), listening) if anywhere else listening


def hidden(ip: str, servers: str) -> bool:
    """Whether those who share the registry at `servers` (host:port,host:port…) with this host cannot reach
    `ip`, for it is this host's own while the registry is elsewhere."""
    hosts = [each.strip().rpartition(":")[0] for each in servers.partition("/")[0].split(",")]
    return _loopback(ip) and not all(_loopback(host) for host in hosts)


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


def best(found: Iterable[InterfaceAddress], listening: str = "::") -> str:
    """Up before down, not loopback before loopback, routed before link-local, IPv4 before IPv6.

    Who listens on 0.0.0.0 is not reached by IPv6.
    """
    versions = (4,) if ipaddress.ip_address(listening).version == 4 else (4, 6)
    usable = [each for each in found if ipaddress.ip_address(each.ip).version in versions]
    return min(usable, key=lambda each: each.rank).ip if usable else "127.0.0.1"


def interfaces() -> list[InterfaceAddress]:
    """This host's addresses; where the system does not tell (it is no Linux), those of its name."""
    try:
        return [*_ipv4(), *_ipv6()] or _by_name()
    except OSError:
        return _by_name()


def _ipv4() -> Iterator[InterfaceAddress]:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # an interface without an address, or one that went meanwhile
                held = fcntl.ioctl(asking, _GET_ADDRESS, struct.pack("256s", name.encode()))
                yield InterfaceAddress(socket.inet_ntoa(held[20:24]), _is_up(asking, name))


def _ipv6() -> Iterator[InterfaceAddress]:
    if not _IF_INET6.exists():
        return
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        for line in _IF_INET6.read_text().splitlines():
            digits, *_, name = line.split()
            with suppress(OSError):
                yield InterfaceAddress(str(ipaddress.IPv6Address(int(digits, 16))), _is_up(asking, name))


def _is_up(asking: socket.socket, name: str) -> bool:
    held = fcntl.ioctl(asking, _GET_FLAGS, struct.pack("256s", name.encode()))
    return bool(struct.unpack_from("H", held, 16)[0] & _UP)


def _by_name() -> list[InterfaceAddress]:
    with suppress(OSError):
        found = socket.getaddrinfo(socket.gethostname(), None, type=socket.SOCK_STREAM)
        return [InterfaceAddress(str(address[0]).split("%")[0], True) for *_, address in found]
    return []
