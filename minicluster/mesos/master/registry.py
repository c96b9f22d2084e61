"""The registry: which agents were admitted, kept across restarts and changes of the master.

A real master keeps it in a replicated log. Here it is one JSON document: in the work directory of a master
that is alone, in a ZooKeeper node where several elect one among them.
"""

from __future__ import annotations

import asyncio
import base64
import json
import math
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from google.protobuf.message import DecodeError

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.master.core.agents import expect_recovered
from minicluster.mesos.master.core.maintenance import restore
from minicluster.mesos.master.core.state import Master
from peloton.clock import SystemClock
from peloton.errors import Conflict, NotFound, PelotonError
from peloton.membership.connection import Connection, check, put
from peloton.membership.kept_lease import RENEWALS
from peloton.membership.lease import Lease
from peloton.mesos.detector import RetryLog

RETRY_SECONDS = 0.2


class RegistryError(Exception):
    """The registry cannot be read or written."""


def recover(cluster: Master, registry: bytes, now: float) -> None:
    """Expect the agents of the earlier master back.

    Raise RegistryError when these bytes, if there are any, are no registry.
    """
    if not registry:
        return
    try:
        content = json.loads(registry)
        infos = [mesos.AgentInfo.FromString(base64.b64decode(item)) for item in content["agents"]]
        cluster.unreachable.update(content["unreachable"])
        cluster.gone.update(content["gone"])
        down = [(str(host), str(ip)) for host, ip in content["down"]]
        restore(cluster, base64.b64decode(content["schedule"]), down)
        for role, quota in content.get("quotas", {}).items():  # registries of before have none
            cluster.quotas[str(role)] = base64.b64decode(quota)
    except (ValueError, KeyError, TypeError, AttributeError, DecodeError) as error:
        raise RegistryError(f"no registry: {error!r}") from error
    expect_recovered(cluster, infos, now)


def snapshot(cluster: Master) -> bytes:
    """Return what ``recover`` reads; simulated agents are not in it, they end with their master."""
    infos = [item.info for item in cluster.agents.values() if not item.simulated]
    infos += cluster.recovered.values()
    content = {
        "agents": [base64.b64encode(info.SerializeToString()).decode("ascii") for info in infos],
        "unreachable": cluster.unreachable,
        "gone": cluster.gone,
        "quotas": {role: base64.b64encode(quota).decode("ascii") for role, quota in cluster.quotas.items()},
        "schedule": base64.b64encode(cluster.schedule).decode("ascii"),
        "down": [key for key, machine in cluster.machines.items() if machine.down],
    }
    return json.dumps(content).encode()


class FileRegistry:
    """The registry of a master that is alone."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def read(self) -> bytes:
        """Return what was written last, nothing where nothing was.

        Raise RegistryError when the file is there and cannot be read.
        """
        try:
            return self.path.read_bytes() if self.path.exists() else b""
        except OSError as error:
            raise RegistryError(str(error)) from error

    def write(self, registry: bytes) -> None:
        """Replace the file as a whole."""
        temporary = self.path.with_suffix(".new")
        temporary.write_bytes(registry)
        temporary.replace(self.path)


class NodeRegistry:
    """The registry in a ZooKeeper node, which only the newest of its readers can write to.

    ``write`` is heard at once and carried out by ``run``: what was changed in the last moments of a master
    that was killed may be missing, and such an agent comes back to the next as one that was not known.

    Whoever reads takes it over, and each of its writes proves that nobody has since. With nothing to write
    that is asked for by itself, some times in a session's length: see ``holds``.
    """

    def __init__(self, connection: Connection, path: str, session: float) -> None:
        """``session``.

        Seconds after which a ZooKeeper without a sign of this one lets another master lead.
        """
        self._connection = connection
        self._path = path
        self._session = session
        self._clock = SystemClock()
        self._lease: Lease | None = None
        self._version = 0
        self._saved = b""
        self._content = b""
        self._wanted = asyncio.Event()
        self._retries = RetryLog(f"writing the registry {path}")

    @property
    def until(self) -> float:
        """When ``holds`` ends unless it is proven anew, on the monotonic clock."""
        return self._lease.until if self._lease is not None else -math.inf

    def holds(self) -> bool:
        """Return whether no other master can lead yet: only then may anything be admitted or decided."""
        return self._clock.monotonic() < self.until

    async def read(self) -> bytes:
        """Return what was written last, nothing where nothing was.

        Raise PelotonError where ZooKeeper cannot tell.
        """
        await self._connection.make(self._path)
        node = await self._connection.get(self._path)
        lease = Lease(self._session, self._clock.monotonic())
        # Whoever read before and still believes to lead is shut out by the new version.
        await self._connection.commit(put(self._path, node.value, node.version))
        self._version, self._lease = node.version + 1, lease
        self._content = self._saved = node.value
        return node.value

    def write(self, registry: bytes) -> None:
        """Have this written; what is not yet, when the next comes, is passed over."""
        self._content = registry
        self._wanted.set()

    async def run(self) -> NoReturn:
        """Write what is to be written, for ever.

        Raise RegistryError when another master has taken the registry over.
        """
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(self._session / RENEWALS):
                    await self._wanted.wait()
            self._wanted.clear()
            content = self._content
            while not await self._written(content):
                await asyncio.sleep(RETRY_SECONDS)
                await self._connection.connected()
            self._retries.succeeded()

    async def _written(self, content: bytes) -> bool:
        """Return whether it is written now.

        False where ZooKeeper did not answer, and the next try will tell.
        """
        begun = self._clock.monotonic()
        try:
            if content == self._saved:
                await self._still_held()
            else:
                await self._connection.commit(put(self._path, content, self._version))
                self._version += 1
        except (Conflict, NotFound):
            return await self._was_written(content)
        except PelotonError as error:
            self._retries.failed(error)
            return False
        self._saved = content
        if self._lease is not None:
            self._lease.renew(begun, self._clock.monotonic())
        return True

    async def _still_held(self) -> None:
        """By a transaction: a read might be answered by a server that is cut off from the others."""
        try:
            await self._connection.commit(check(self._path, self._version))
        except (Conflict, NotFound):
            raise self._taken_over() from None

    async def _was_written(self, content: bytes) -> bool:
        """Return whether the version is another one only because an unanswered write of ours took effect.

        Taking it over leaves what was written before, which is not ``content``.
        """
        try:
            node = await self._connection.get(self._path)
        except PelotonError as error:
            self._retries.failed(error)
            return False
        if node.value != content or node.version != self._version + 1:
            raise self._taken_over()
        self._version, self._saved = node.version, content
        return True

    def _taken_over(self) -> RegistryError:
        return RegistryError(f"another master has taken the registry {self._path} over")
