"""Election of one of several masters: the one whose node in ZooKeeper is the lowest leads.

Source: recordings ``09-master-failover-zk``, ``09-no-leader``. A master that leads and loses its session, or
finds another one's node before its own, ends; it comes back as a new one behind the others. It also ends, and
decides nothing more, when ZooKeeper has not confirmed its leading for most of a session's length. A real one
goes on for longer, and leaves it to its replicated log to shut it out.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, Protocol

from kazoo.client import KazooState

from minicluster.mesos.master.core.events import master_info
from minicluster.mesos.master.core.state import MasterConfig
from minicluster.mesos.master.leadership import Leadership
from minicluster.mesos.master.node_registry import NodeRegistry
from minicluster.mesos.master.registry import RegistryError
from peloton.clock import SystemClock
from peloton.errors import PelotonError
from peloton.membership.connection import Connection
from peloton.mesos.detector import INFO, Elected, ElectedMaster, ElectionPath, RetryLog, announced
from peloton.mesos.json import to_dict

RETRY_SECONDS = 0.2


class Deposed(Exception):
    """This master has lost leadership; the message says why."""


class Candidate(Protocol):
    """A master that contends for leadership."""

    leadership: Leadership

    def start(self, registry: bytes, save: Callable[[bytes], None], holds: Callable[[], bool]) -> None:
        """Lead with the registry of the previous master, while leadership ``holds``."""


class Election:
    """One master's part in the election. Belongs to the event loop."""

    def __init__(
        self,
        connection: Connection,
        where: ElectionPath,
        config: MasterConfig,
        session: float,
        candidate: Candidate,
    ) -> None:
        """``session``: seconds without ZooKeeper after which this master's session is over."""
        self._connection = connection
        self._where = where
        self._config = config
        self._session = session
        self._candidate = candidate
        self._registry = NodeRegistry(connection, f"{where.path}/registry", session)
        self._elected = asyncio.Event()
        self._deposed: asyncio.Future[NoReturn] = asyncio.get_running_loop().create_future()
        self._present = asyncio.Event()
        self._timer: asyncio.TimerHandle | None = None
        self._clock = SystemClock()

    async def run(self) -> NoReturn:
        """Contend for leadership, then lead.

        Raise Deposed and RegistryError, after which the master has to end.
        """
        self._connection.on_state.append(self._on_state)
        try:
            await self._connection.open()
            following = ElectedMaster(self._connection, self._where, self._looked)
            await _all(following.follow(), self._contend(), self._lead(), self._end())
        finally:
            await self._connection.close()
        raise AssertionError("each of them ends by raising only")

    # --- the node ---

    async def _contend(self) -> NoReturn:
        """Have a node in each session."""
        retries = RetryLog(f"announcing this master at {self._where}")
        while True:
            await self._present.wait()
            self._present.clear()
            try:
                await self._announce()
                retries.succeeded()
            except PelotonError as error:
                retries.failed(error)
                self._present.set()
                await asyncio.sleep(RETRY_SECONDS)
                await self._connection.connected()

    async def _announce(self) -> None:
        path = self._where.path
        await self._connection.make(path)
        for name in await self._connection.children(path):
            if name.startswith(INFO):
                node = await self._connection.get(f"{path}/{name}")
                mine = announced(node.value)
                if node.owner == self._connection.session and mine and mine.master_id == self._id:
                    return  # made by a try that was not answered
        info = json.dumps(to_dict(master_info(self._config)), sort_keys=True, separators=(",", ":"))
        await self._connection.create(f"{path}/{INFO}", info.encode(), ephemeral=True, sequence=True)

    # --- who leads ---

    @property
    def _id(self) -> str:
        return self._config.master_id

    def _looked(self, found: Elected | None) -> None:
        leads = found is not None and found.master_id == self._id
        if self._candidate.leadership.leads:
            if not leads:
                self._depose(f"the master at {found.address} leads" if found else "no master leads")
            return
        leader = f"{found.address.name}:{found.address.port}" if found else None
        self._candidate.leadership = Leadership(leads, leader)
        if leads:
            self._elected.set()

    def _on_state(self, state: str) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if state == KazooState.CONNECTED:
            self._present.set()
        elif state == KazooState.SUSPENDED:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._session, self._session_over)
        else:
            self._session_over()

    def _session_over(self) -> None:
        if self._candidate.leadership.leads:
            self._depose("the session with ZooKeeper is over")
        else:
            self._candidate.leadership = Leadership()

    def _depose(self, why: str) -> None:
        if not self._deposed.done():
            self._deposed.set_exception(Deposed(f"lost leadership: {why}"))

    async def _end(self) -> NoReturn:
        await self._deposed
        raise AssertionError("it ends by raising only")

    # --- leading ---

    async def _lead(self) -> NoReturn:
        await self._elected.wait()
        self._candidate.start(await self._recovered(), self._registry.write, self._registry.holds)
        print(f"master: leads, at {self._where}", flush=True)
        try:
            await _all(self._registry.run(), self._until_unproven())
        except RegistryError as error:
            raise Deposed(f"lost leadership: {error}") from None
        raise AssertionError("each of them ends by raising only")

    async def _recovered(self) -> bytes:
        retries = RetryLog(f"reading the registry at {self._where}")
        while True:
            try:
                return await self._registry.read()
            except PelotonError as error:
                retries.failed(error)
                await asyncio.sleep(RETRY_SECONDS)
                await self._connection.connected()

    async def _until_unproven(self) -> NoReturn:
        """Wait until ZooKeeper may let another master lead, then raise Deposed."""
        while (left := self._registry.until - self._clock.monotonic()) > 0:  # noqa: ASYNC110 - it moves on
            await asyncio.sleep(left)
        raise Deposed("lost leadership: ZooKeeper has not confirmed it in time")


async def _all(*work: Coroutine[Any, Any, None]) -> None:
    """Run all until one raises; raise that."""
    tasks = [asyncio.create_task(each) for each in work]
    try:
        await asyncio.gather(*tasks)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
