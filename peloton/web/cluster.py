"""The client of the web UI: calls that follow leaders, answers shared for a short time."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, TypeVar

import grpc

from peloton.client import tls as client_tls
from peloton.client.auth import Auth
from peloton.client.client import PelotonClient
from peloton.client.discovery import NoLeader
from peloton.client.following import repeatable
from peloton.client.refusals import check
from peloton.client.services import SERVICES
from peloton.config.agents import PLAIN
from peloton.errors import PelotonError, Unauthenticated, Unavailable
from peloton.membership.interface import Address, Group, Member, Membership, Role
from peloton.model.cluster import UNNAMED
from peloton.rpc.caller import Metadata
from peloton.rpc.client import Caller, Channels, LeaderClient
from peloton.rpc.cluster_rules import RULES
from peloton.rpc.clusters import ClusterClient, Clusters
from peloton.rpc.errors import error_of
from peloton.rpc.tls import Tls

CALLER = "peloton-web"
MOST_CACHED = 2000
"""Answers that are kept; the oldest go first."""
T = TypeVar("T")


class Shared:
    """Results that are kept for a short time. What several want at once is computed once."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._held: dict[Any, tuple[float, asyncio.Task[Any]]] = {}

    async def get(self, key: Any, seconds: float, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Return a result that is at most so old, or make one. Failures are shared, and not kept."""
        now = self._clock()
        held = self._held.get(key)
        if held is None or (held[1].done() and (now - held[0] > seconds or held[1].exception())):
            self._trim()
            held = self._held[key] = (now, asyncio.create_task(make()))
        # One waiter that goes away does not end the work for the others.
        result: T = await asyncio.shield(held[1])
        return result

    def last(self, key: Any) -> Any:
        """Return the last result however old, to make the next one of; None where there is none."""
        held = self._held.get(key)
        known = held is not None and held[1].done() and not held[1].cancelled() and not held[1].exception()
        return held[1].result() if held is not None and known else None

    def forget(self) -> None:
        """Forget every result: something was changed, and whoever changed it wants to see that."""
        self._held.clear()

    def _trim(self) -> None:
        while len(self._held) >= MOST_CACHED:
            del self._held[next(iter(self._held))]


@dataclass(frozen=True, slots=True)
class MembershipDiscovery:
    """Finds leaders by the membership."""

    membership: Membership

    def address(self, role: str) -> str:
        """Return where the leader of a role answers. Raises NoLeader."""
        leader = self.membership.leader(*Group.parse(role))
        if leader is None:
            raise NoLeader(f"no leader of {role} is known")
        return leader.target

    def clusters(self) -> tuple[str, ...]:
        """Return the names of the Mesos clusters."""
        return Clusters(self.membership).names()

    def follows(self, role: str) -> bool:
        """Return whether another leader may be found later on: always."""
        return True

    def close(self) -> None:
        """Leave the membership open: it is another's."""


class Cluster:
    """The cluster that the pages are about."""

    def __init__(
        self, membership: Membership, call_seconds: float, cache_seconds: float, tls: Tls | None = None
    ) -> None:
        """Without `tls`, calls are not encrypted."""
        self.membership = membership
        self.clusters = Clusters(membership)
        self.call_seconds = call_seconds
        self.cache_seconds = cache_seconds
        self.shared = Shared()
        self.tls = tls
        self.agents = PLAIN
        """How Mesos agents are called."""
        self._channels = Channels(tls)
        self._joined = False

    async def run(self) -> None:
        """Watch the membership until cancelled. Raises Refused where it rejects us."""
        await self.membership.start()
        self._joined = True
        await self._channels.follow(self.membership)

    async def close(self) -> None:
        """Close all connections."""
        await self._channels.close()
        await self.membership.close()

    def trouble(self) -> str:
        """Return why the membership cannot be read, empty where it can."""
        return self.membership.trouble() or ("" if self._joined else "about to read the membership")

    def calls(self, auth: Auth | None = None) -> Calls:
        """Return the calls of a user; of nobody in particular where none is given."""
        return Calls(self, auth)

    def leader(self, role: Role, cluster: str = UNNAMED) -> Address | None:
        """Return the leader of a role as last seen."""
        return self.membership.leader(role, cluster)

    def leaderships(self) -> dict[str, bool]:
        """Return for each daemon that is needed whether one leads, by its name for people."""
        found = {role.value: self.leader(role) is not None for role in (Role.JOBMGR, Role.RESMGR)}
        for name in self.clusters.names():
            found[f"hostmgr of {name}" if name else "hostmgr"] = self.leader(Role.HOSTMGR, name) is not None
        return found

    def members(self, role: Role, cluster: str = UNNAMED) -> Mapping[str, Member]:
        """Return the processes of a role, by their ids, as last seen."""
        return self.membership.members(role, cluster)

    def caller(self, role: Role, stub: type, metadata: Metadata) -> Caller:
        """Return what calls the leader of a role; of host managers, those of all Mesos clusters."""
        if role is not Role.HOSTMGR:
            return LeaderClient(self.membership, self._channels, role, stub, metadata)
        return ClusterClient(self.clusters, lambda name: self.of_cluster(name, stub, metadata), RULES)

    def of_cluster(self, cluster: str, stub: type, metadata: Metadata) -> Caller:
        """Return what calls the host manager of one Mesos cluster."""
        return LeaderClient(self.membership, self._channels, Role.HOSTMGR, stub, metadata, cluster=cluster)

    def channel(self, role: Role, cluster: str = UNNAMED) -> tuple[str, Any]:
        """Return address and channel of a leader. Raises Unavailable."""
        leader = self.leader(role, cluster)
        if leader is None:
            raise Unavailable(f"no leader of {role.value} is known")
        return leader.target, self._channels.to(leader.target)


class Calls:
    """Calls to the daemons' services in the name of one user. Failures are PelotonErrors."""

    def __init__(self, cluster: Cluster, auth: Auth | None = None) -> None:
        self.cluster = cluster
        self.auth = auth
        self._callers: dict[str, Caller] = {}

    @property
    def user(self) -> str:
        """The user's name; empty where nobody is logged in."""
        return self.auth.username if self.auth is not None else ""

    async def call(self, service: str, method: str, request: Any, timeout: float | None = None) -> Any:
        """Call a service by its name in `peloton.client.services`, such as `job_svc`; return the answer.

        Raises Refused for a refusal that the answer holds.
        """
        answer = await self.call_unchecked(service, method, request, timeout)
        check(answer)
        return answer

    async def call_unchecked(
        self, service: str, method: str, request: Any, timeout: float | None = None
    ) -> Any:
        """Call a service as `call` does, but return an answer that holds a refusal too."""
        seconds = timeout or self.cluster.call_seconds
        return await self._caller(service).call(method, request, seconds, repeatable(method, request))

    async def read(self, service: str, method: str, request: Any, age: float | None = None) -> Any:
        """Call a method that reads; take an answer that is at most `age` seconds old, and share it.

        The answer is shared with others: do not change it.
        """
        key = (self.auth, service, method, request.SerializeToString(deterministic=True))
        seconds = self.cluster.cache_seconds if age is None else age
        return await self.cluster.shared.get(key, seconds, lambda: self.call(service, method, request))

    async def each(self, service: str, method: str, request: Any) -> dict[str, Any]:
        """Call the host managers of all Mesos clusters; return answers or PelotonErrors by cluster."""
        described, metadata = SERVICES[service], self._metadata("hostmgr")
        stub = described.load()

        async def one(cluster: str) -> Any:
            caller = self.cluster.of_cluster(cluster, stub, metadata)
            try:
                return await caller.call(method, request, self.cluster.call_seconds)
            except PelotonError as error:
                return error

        names = self.cluster.clusters.names()
        return dict(zip(names, await asyncio.gather(*map(one, names)), strict=True))

    async def stream(
        self, service: str, method: str, request: Any, cluster: str = UNNAMED
    ) -> AsyncIterator[Any]:
        """Call a service that answers with a stream, at the leader of that moment; yield its messages."""
        described = SERVICES[service]
        target, channel = self.cluster.channel(Role(described.role), cluster)
        stub = described.load()(channel)
        call = getattr(stub, method)(request, metadata=self._metadata(described.role))
        try:
            async for message in call:
                yield message
        except grpc.RpcError as error:
            raise error_of(error, f"{described.role} {target} {method}") from None
        finally:
            call.cancel()

    async def in_thread(self, work: Callable[[PelotonClient], T]) -> T:
        """Run code that uses the blocking client in a thread."""
        return await asyncio.to_thread(work, self.blocking)

    @cached_property
    def blocking(self) -> PelotonClient:
        """The same calls for code that blocks. Use it in threads, and close it."""
        discovery = MembershipDiscovery(self.cluster.membership)
        return PelotonClient(
            CALLER,
            discovery=discovery,
            timeout=self.cluster.call_seconds,
            auth=self.auth,
            tls=None if self.cluster.tls is None else client_tls.Tls(*self.cluster.tls.paths),
        )

    def _caller(self, service: str) -> Caller:
        if service not in self._callers:
            described = SERVICES[service]
            self._callers[service] = self.cluster.caller(
                Role(described.role), described.load(), self._metadata(described.role)
            )
        return self._callers[service]

    def _metadata(self, role: str) -> Metadata:
        own = (("rpc-caller", CALLER), ("rpc-service", f"peloton-{role}"), ("rpc-encoding", "proto"))
        return own + (self.auth.metadata if self.auth is not None else ())


async def gather_named(work: Mapping[str, Awaitable[T]]) -> dict[str, T | PelotonError]:
    """Await all at a time; return results or the PelotonErrors that they ended with, by name.

    Raises Unauthenticated: no part of a page is for who has to log in first.
    """

    async def one(item: Awaitable[T]) -> T | PelotonError:
        try:
            return await item
        except Unauthenticated:
            raise
        except PelotonError as error:
            return error

    results = await asyncio.gather(*map(one, work.values()))
    return dict(zip(work, results, strict=True))
