"""The client of the web UI: calls that follow leaders, answers shared for a short time."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, TypeVar

from google.protobuf.message import Message

from peloton.calls.rpc import Caller
from peloton.calls.web import RoleRpc, Server
from peloton.client.auth import Auth
from peloton.client.finding import NoLeader, Tell
from peloton.config.agents import PLAIN
from peloton.errors import PelotonError
from peloton.leaders import repeatable
from peloton.membership.interface import Address, Group, Member, Membership, Role
from peloton.model.cluster import UNNAMED
from peloton.present.failures import failure_text
from peloton.present.refusals import check
from peloton.rpc.caller import Metadata
from peloton.rpc.client import Channels, LeaderClient
from peloton.rpc.cluster_rules import RULES
from peloton.rpc.clusters import ClusterClient, Clusters
from peloton.rpc.tls import Tls

log = logging.getLogger(__name__)
CALLER = "peloton-web"
MOST_CACHED = 2000
"""Answers that are kept; the oldest go first."""
T = TypeVar("T")
Q = TypeVar("Q", bound=Message)
A = TypeVar("A", bound=Message)


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
    """Finds leaders by the membership, in its loop."""

    membership: Membership
    _watches: set[asyncio.Task[None]] = field(default_factory=set, repr=False, compare=False)

    def address(self, role: str) -> str:
        """Return where the leader of a role answers. Raises NoLeader."""
        if target := self._target(role):
            return target
        raise NoLeader(f"no leader of {role} is known")

    def _target(self, role: str) -> str:
        leader = self.membership.leader(*Group.parse(role))
        return "" if leader is None else leader.target

    def watch(self, role: str, tell: Tell) -> None:
        """Tell each new leader from now on."""
        watch = asyncio.get_running_loop().create_task(self._tell(role, tell), name=f"leader of {role}")
        self._watches.add(watch)
        watch.add_done_callback(self._watches.discard)

    async def _tell(self, role: str, tell: Tell) -> None:
        told = None
        with suppress(PelotonError):  # of the membership, which the cluster watches, too
            while True:
                if (target := self._target(role)) != told:
                    told = target
                    tell(target)
                await self.membership.changed()

    def clusters(self) -> tuple[str, ...]:
        """Return the names of the Mesos clusters."""
        return Clusters(self.membership).names()

    def follows(self, role: str) -> bool:
        """Return whether another leader may be found later on: always."""
        return True

    def close(self) -> None:
        """Tell nothing any more. The membership stays open: it is another's."""
        for watch in self._watches:
            watch.cancel()


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

    def caller(self, role: Role, metadata: Metadata) -> Caller:
        """Return what calls the leader of a role; of host managers, those of all Mesos clusters."""
        if role is not Role.HOSTMGR:
            return LeaderClient(self.membership, self._channels, role, metadata)
        return ClusterClient(self.clusters, lambda name: self.of_cluster(name, metadata), RULES)

    def of_cluster(self, cluster: str, metadata: Metadata) -> Caller:
        """Return what calls the host manager of one Mesos cluster."""
        return LeaderClient(self.membership, self._channels, Role.HOSTMGR, metadata, cluster=cluster)


class Calls:
    """Calls to the daemons' services in the name of one user. Failures are PelotonErrors."""

    def __init__(self, cluster: Cluster, auth: Auth | None = None) -> None:
        self.cluster = cluster
        self.auth = auth
        self._callers: dict[Server, Caller] = {}

    @property
    def user(self) -> str:
        """The user's name; empty where nobody is logged in."""
        return self.auth.username if self.auth is not None else ""

    async def call(self, called: RoleRpc[Q, A], request: Q, timeout: float | None = None) -> A:
        """Call a method of `peloton.calls.web` and return the answer.

        Without `timeout` (seconds) the setting call_seconds counts. Raises Refused for a refusal that the
        answer holds.
        """
        answer = await self.call_unchecked(called, request, timeout)
        check(answer)
        return answer

    async def call_unchecked(self, called: RoleRpc[Q, A], request: Q, timeout: float | None = None) -> A:
        """Call a method as `call` does, but return an answer that holds a refusal too.

        The texts of failures are for users: the log has those of the calls.
        """
        seconds = timeout or self.cluster.call_seconds
        again = repeatable(called.rpc.name, request)
        try:
            return await self._caller(called.role).call(called.rpc, request, seconds, again)
        except PelotonError as error:
            log.debug("%s", error)
            error.args = (failure_text(error, called.role),)
            raise

    async def read(self, called: RoleRpc[Q, A], request: Q, age: float | None = None) -> A:
        """Call a method that reads; take an answer that is at most `age` seconds old, and share it.

        The answer is shared with others: do not change it.
        """
        key = (self.auth, called, request.SerializeToString(deterministic=True))
        seconds = self.cluster.cache_seconds if age is None else age
        return await self.cluster.shared.get(key, seconds, lambda: self.call(called, request))

    def _caller(self, role: Server) -> Caller:
        if role not in self._callers:
            self._callers[role] = self.cluster.caller(Role(role), self._metadata(role))
        return self._callers[role]

    def _metadata(self, role: Server) -> Metadata:
        own = (("rpc-caller", CALLER), ("rpc-service", f"peloton-{role}"), ("rpc-encoding", "proto"))
        return own + (self.auth.metadata if self.auth is not None else ())
