"""Hosts that hostmgr has seen: one partition for each framework."""

from __future__ import annotations

from collections.abc import Sequence

from peloton.model.known_host import KnownHost
from storage.cassandra.batch_encoder import Bound
from storage.cassandra.session import Session
from storage.cassandra.terms import Gate
from storage.codec import KNOWN_HOST

_ROWS = 100
"""Rows in one mutation."""


class CassandraKnownHosts:
    """Known hosts in the Cassandra store."""

    def __init__(self, session: Session, gate: Gate) -> None:
        self._session = session
        self._gate = gate

    async def write(self, framework: str, hosts: Sequence[KnownHost], forgotten: Sequence[str] = ()) -> None:
        """Write and delete hosts."""
        async with self._gate() as when:
            parts: list[Bound] = [
                *(
                    ("put_known_host", (framework, host.hostname, KNOWN_HOST.encode(host), when))
                    for host in hosts
                ),
                *(("delete_known_host", (when, framework, hostname)) for hostname in forgotten),
            ]
            for at in range(0, len(parts), _ROWS):
                await self._session.write_together(parts[at : at + _ROWS])

    async def all(self, framework: str) -> Sequence[KnownHost]:
        """Return all hosts of a framework, by name."""
        async with self._session.use():
            rows = await self._session.rows("read_known_hosts", framework)
        return tuple(KNOWN_HOST.decode(host) for (host,) in rows)
