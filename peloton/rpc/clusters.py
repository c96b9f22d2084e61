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
from typing import Any, TypeVar

from peloton.backoff import Backoff
from peloton.errors import PelotonError, Unavailable
from peloton.membership.interface import Membership, Role
from peloton.model.cluster import UNNAMED
from peloton.rpc.client import Caller

ALONE = (UNNAMED,)
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 15.0
"""Seconds for which a cluster that did not answer is left out of calls to all."""
LONGEST_CALL = 3.0
"""Longest time that a call to all clusters waits for one of them, in seconds."""
log = logging.getLogger(__name__)
T = TypeVar("T")


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


class FanOut:
    """One call to several clusters."""

    def __init__(
        self, clients: Mapping[str, Caller], clusters: Clusters, reach: Reach, method: str, timeout: float
    ) -> None:
        self._clients = clients
        self._clusters = clusters
        self._reach = reach
        self._method = method
        self._timeout = min(timeout, LONGEST_CALL)

    @property
    def names(self) -> tuple[str, ...]:
        """Return the clusters, in the order in which they are asked."""
        return tuple(self._clients)

    async def one(self, cluster: str, request: Any, method: str = "") -> Any | None:
        """Return the answer of a cluster; None where it does not answer. Raises other errors.

        `method` is another one of the same service.
        """
        now = asyncio.get_running_loop().time
        if not self._clusters.has_leader(cluster) or self._reach.left_out(cluster, now()):
            return None
        try:
            call = self._clients[cluster].call
            answer = await call(method or self._method, request, timeout=self._timeout, retry=False)
        except Unavailable as error:
            log.warning("Mesos cluster %s is left out: %s", described(cluster), error)
            self._reach.note_failure(cluster, now())
            return None
        self._reach.note_answer(cluster)
        return answer

    async def all(self, requests: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answers of the clusters that answer. Raises Unavailable where none does."""
        answers = await gathered({name: self.one(name, each) for name, each in requests.items()})
        found = {name: answer for name, answer in answers.items() if answer is not None}
        if requests and not found:
            raise self.none_answers(requests)
        return found

    def none_answers(self, clusters: Iterable[str]) -> Unavailable:
        """Return the error for a call that no cluster answered."""
        names = ", ".join(map(described, clusters))
        return Unavailable(f"{self._method}: no hostmgr answers, of the Mesos clusters {names}")


Rule = Callable[[FanOut, Any], Awaitable[Any]]
"""Makes the calls to several clusters for one request, and merges their answers."""


class ClusterClient:
    """Calls to the host managers of all clusters, as if there were one."""

    def __init__(
        self, clusters: Clusters, connect: Callable[[str], Caller], rules: Mapping[str, Rule]
    ) -> None:
        """Make the caller of a cluster by `connect`. `rules` has how each method is called in several."""
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

    async def call(self, method: str, request: Any, timeout: float = 10.0, retry: bool = True) -> Any:
        """Call a method and return the merged answer. Raises PelotonError, Unavailable where none answers."""
        names = self.clusters.names()
        if names == ALONE:
            return await self.of(UNNAMED).call(method, request, timeout, retry)
        rule = self._rules.get(method)
        if rule is None:
            raise PelotonError(f"{method} cannot be called with several Mesos clusters")
        self._turn += 1
        first = self._turn % len(names)
        clients = {name: self.of(name) for name in (*names[first:], *names[:first])}
        return await rule(FanOut(clients, self.clusters, self._reach, method, timeout), request)


async def gathered(work: Mapping[str, Awaitable[T]]) -> dict[str, T]:
    """Await all at a time, and return the results by name."""
    results = await asyncio.gather(*work.values())
    return dict(zip(work, results, strict=True))


def described(cluster: str) -> str:
    """Return the name of a cluster for messages."""
    return cluster or "without a name"
