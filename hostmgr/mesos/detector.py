"""Where the Mesos master is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from peloton.errors import InvalidArgument


@dataclass(frozen=True, slots=True)
class MasterAddress:
    host: str
    port: int

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"

    @classmethod
    def parse(cls, text: str) -> MasterAddress:
        """Raises InvalidArgument for what is no HOST:PORT."""
        host, colon, port = text.rpartition(":")
        if colon and host and port.isascii() and port.isdigit() and 0 < int(port) < 65536:
            return cls(host.strip("[]"), int(port))
        raise InvalidArgument("Mesos master", text, "HOST:PORT")


class MasterDetector(Protocol):
    async def master(self) -> MasterAddress:
        """The leading master as far as known now. Raises Unavailable where there is none."""
        ...


class StaticMaster:
    """The master that the settings name."""

    def __init__(self, address: MasterAddress) -> None:
        self._address = address

    async def master(self) -> MasterAddress:
        return self._address
