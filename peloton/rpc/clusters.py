"""The Mesos clusters whose host managers a daemon calls, and calls to one or to all of them.

Each cluster has a host manager of its own. A request that names a host goes to the host's cluster; others go
to all clusters, whose answers are merged. A cluster that does not answer is left out, and is not asked again
for a while, so that it delays the others by little. With the unnamed cluster alone all calls go there as they
are.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any, Generic, TypeVar

from peloton.backoff import Backoff
from peloton.calls.rpc import Answer, Caller, Request, Rpc
from peloton.errors import PelotonError, Unavailable
from peloton.membership.interface import Membership, Role
from peloton.model.cluster import UNNAMED

ALONE = (UNNAMED,)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0
"""Seconds for which a cluster that did not answer is left out of calls to all."""
LONGEST_CALL = 3.0
"""Longest time that a call to all clusters waits for one of them, in seconds."""
log = logging.getLogger(__name__)
T = TypeVar("T")
U = TypeVar("U")


class Clusters:
    """The clusters as the membership shows them."""

    def __init__(self, membership: Membership) -> None:
        self._membership = membership
        self._unnamed = False

    def names(self) -> tuple[str, ...]:
        """Return the names of the clusters, the unnamed one first.

        That one counts from its first sign of life on, or where there is no named one.
        """
        named = self._membership.clusters()
        if not self._unnamed:
            role = Role.HOSTMGR
            self._unnamed = bool(self._membership.leader(role) or self._membership.members(role))
        return (UNNAMED, *named) if self._unnamed or not named else tuple(named)

    def has_leader(self, cluster: str) -> bool:
        """Return whether a host manager leads there."""
        return self._membership.leader(Role.HOSTMGR, cluster) is not None

    async def follow(self, work: Callable[[str], Coroutine[Any, Any, None]]) -> None:
        """Run work for each cluster, as long as it is known; run for ever."""
        running: dict[str, asyncio.Task[None]] = {}
        async with asyncio.TaskGroup() as group:
            while True:
                names = self.names()
                for name in running.keys() - set(names):
                    log.warning("the Mesos cluster %s is gone from the membership", described(name))
                    running.pop(name).cancel()
                for name in names:
                    if name not in running:
                        running[name] = group.create_task(work(name), name=f"cluster {name}")
                await self._membership.changed()


class Reach:
    """Which clusters answer: one that did not is left out for growing times."""

    def __init__(self) -> None:
        self._backoffs: dict[str, Backoff] = {}
        self._until: dict[str, float] = {}

    def left_out(self, cluster: str, now: float) -> bool:
        """Return whether the cluster is left out now."""
        return now < self._until.get(cluster, now)

    def note_failure(self, cluster: str, now: float) -> None:
        """Leave the cluster out."""
        backoff = self._backoffs.setdefault(cluster, Backoff(FIRST_PAUSE, LONGEST_PAUSE))
        self._until[cluster] = now + backoff.next()

    def note_answer(self, cluster: str) -> None:
        """Ask the cluster again."""
        if self._until.pop(cluster, None) is not None:
            self._backoffs.pop(cluster, None)


class FanOut(Generic[Request, Answer]):
    """One call to several clusters."""

    def __init__(
        self,
        clients: Mapping[str, Caller],
        clusters: Clusters,
        reach: Reach,
        rpc: Rpc[Request, Answer],
        timeout: float,
    ) -> None:
        self._clients = clients
        self._clusters = clusters
        self._reach = reach
        self._rpc = rpc
        self._timeout = min(timeout, LONGEST_CALL)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the clusters, in the order in which they are asked."""
        return tuple(self._clients)

    async def one(self, cluster: str, request: Request) -> Answer | None:
        """Return the answer of a cluster; None where it does not answer. Raises other errors."""
        return await self.other(self._rpc, cluster, request)

    async def other(self, rpc: Rpc[T, U], cluster: str, request: T) -> U | None:
        """Make another call to a cluster, as `one` does."""
        now = asyncio.get_running_loop().time
        if not self._clusters.has_leader(cluster) or self._reach.left_out(cluster, now()):
            return None
        try:
            call = self._clients[cluster].call
            answer = await call(rpc, request, timeout=self._timeout, retry=False)
        except Unavailable as error:
            log.warning("Mesos cluster %s is left out: %s", described(cluster), error)
            self._reach.note_failure(cluster, now())
            return None
        self._reach.note_answer(cluster)
        return answer

    async def all(self, requests: Mapping[str, Request]) -> dict[str, Answer]:
        """Return the answers of the clusters that answer. Raises Unavailable where none does."""
        answers = await gathered({name: self.one(name, each) for name, each in requests.items()})
        found = {name: answer for name, answer in answers.items() if answer is not None}
        if requests and not found:
            raise self.none_answers(requests)
        return found

    def none_answers(self, clusters: Iterable[str]) -> Unavailable:
        """Return the error for a call that no cluster answered."""
        names = ", ".join(map(described, clusters))
        return Unavailable(f"{self._rpc.name}: no hostmgr answers, of the Mesos clusters {names}")


Rule = Callable[[FanOut[Request, Answer], Request], Awaitable[Answer]]
"""Makes the calls to several clusters for one request, and merges their answers."""


class Rules:
    """How each call is made to several clusters."""

    def __init__(self) -> None:
        self._rules: dict[str, Any] = {}

    def add(self, rpc: Rpc[Request, Answer], rule: Rule[Request, Answer]) -> None:
        """Make a call by a rule."""
        self._rules[rpc.path] = rule

    def of(self, rpc: Rpc[Request, Answer]) -> Rule[Request, Answer] | None:
        """Return the rule of a call; None where it is made to one cluster only."""
        rule: Rule[Request, Answer] | None = self._rules.get(rpc.path)
        return rule


class ClusterClient:
    """Calls to the host managers of all clusters, as if there were one."""

    def __init__(self, clusters: Clusters, connect: Callable[[str], Caller], rules: Rules) -> None:
        """Make the caller of a cluster by `connect`."""
        self.clusters = clusters
        self._connect = connect
        self._rules = rules
        self._clients: dict[str, Caller] = {}
        self._reach = Reach()
        self._turn = 0

    def of(self, cluster: str) -> Caller:
        """Return the caller of one cluster."""
        client = self._clients.get(cluster)
        if client is None:
            client = self._clients[cluster] = self._connect(cluster)
        return client

    async def call(
        self,
        rpc: Rpc[Request, Answer],
        request: Request,
        timeout: float = 10.0,
        retry: bool = True,
        waits: float = 0.0,
    ) -> Answer:
        """Make a call and return the merged answer. Raises PelotonError, Unavailable where none answers."""
        names = self.clusters.names()
        if names == ALONE:
            return await self.of(UNNAMED).call(rpc, request, timeout, retry, waits)
        rule = self._rules.of(rpc)
        if rule is None:
            raise PelotonError(f"{rpc.name} cannot be called with several Mesos clusters")
        self._turn += 1
        first = self._turn % len(names)
        clients = {name: self.of(name) for name in (*names[first:], *names[:first])}
        return await rule(FanOut(clients, self.clusters, self._reach, rpc, timeout + waits), request)


async def gathered(work: Mapping[str, Awaitable[T]]) -> dict[str, T]:
    """Await all at a time, and return the results by name."""
    results = await asyncio.gather(*work.values())
    return dict(zip(work, results, strict=True))


def described(cluster: str) -> str:
    """Return the name of a cluster for messages."""
    return cluster or "without a name"
