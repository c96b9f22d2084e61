"""The client objects: one attribute per service, channels opened when they are first used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from peloton.client.auth import Auth, BearerAuth
from peloton.client.channel import MAX_MESSAGE_BYTES
from peloton.client.discovery import Discovery, InCluster, UrlDiscovery, ZooKeeperDiscovery
from peloton.client.services import SERVICES
from peloton.client.tls import Tls
from peloton.client.typed import AsyncServices, Services
from peloton.config.agents import PLAIN, AgentAccess
from peloton.model.versions import OWN

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from peloton.client.async_layer import AsyncJobs
    from peloton.client.following import Leader
    from peloton.client.layer import Jobs
    from peloton.client.sync_async import Driver

ROLES = ("jobmgr", "resmgr", "hostmgr")
DEFAULT_TIMEOUT = 20.0
"""Time-out of a call in seconds where it has none of its own."""


class BaseClient:
    """What the blocking client and that for asyncio have in common."""

    def __init__(
        self,
        name: str,
        zk_servers: str | None = None,
        jm_url: str | None = None,
        rm_url: str | None = None,
        hm_url: str | None = None,
        *,
        zk_root: str = "/peloton",
        timeout: float | None = DEFAULT_TIMEOUT,
        auth: Auth | None = None,
        discovery: Discovery | None = None,
        tls: Tls | None = None,
        agents: AgentAccess = PLAIN,
    ) -> None:
        """Call Mesos agents, for the output of tasks, as `agents` says."""
        self.agents = agents
        self.name = name
        self.timeout = timeout
        self._auth = auth
        self.of_task = isinstance(auth, BearerAuth) and auth.of_task
        """Whether the calls are those of a task, by its own token."""
        self._tls = tls
        self._discovery = discovery or _discovery(zk_servers, zk_root, jm_url, rm_url, hm_url)
        self._channels: dict[str, Any] = {}

    @classmethod
    def from_environment(cls, name: str) -> Self:
        """Return a client of the cluster that the environment names (`peloton.client.environment`)."""
        from peloton.client.environment import settings_from_environment

        return cls(name, **settings_from_environment())

    @property
    def jobmgr_metadata(self) -> Any:  # a list of pairs, which gRPC takes, and its types do not
        """The metadata of a call of the job manager."""
        return self._metadata("jobmgr")

    @property
    def resmgr_metadata(self) -> Any:
        """The metadata of a call of the resource manager."""
        return self._metadata("resmgr")

    @property
    def hostmgr_metadata(self) -> Any:
        """The metadata of a call of the host manager."""
        return self._metadata("hostmgr")

    if not TYPE_CHECKING:  # for a type checker there are the attributes that are declared, and no others

        def __getattr__(self, name: str) -> Any:
            return self._attribute(name)

    def _attribute(self, name: str) -> Any:
        """Make what an attribute holds when it is first used."""
        service = SERVICES.get(name)
        if service is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        if service.role not in self._channels:
            self._channels[service.role] = self._opened(service.role)
        stub = service.load()(self._channels[service.role])
        setattr(self, name, stub)
        return stub

    def in_cluster(self, cluster: str) -> Self:
        """Return a client whose host manager is that of one Mesos cluster. Close it before this one."""
        discovery = InCluster(self._discovery, cluster)
        shared: dict[str, Any] = {"auth": self._auth, "tls": self._tls, "agents": self.agents}
        return type(self)(self.name, timeout=self.timeout, discovery=discovery, **shared)

    def ailing(self, role: str) -> list[str]:
        """Return what the processes of a role say is wrong with them. Raises DiscoveryError."""
        from peloton.client.member_health import ailing

        return ailing(self._discovery, role, self._tls)

    def _opened(self, role: str) -> Any:
        raise NotImplementedError

    def _leader(self, role: str, driver: Driver, open_channel: Any) -> Leader:
        from peloton.client.role_channel import follow

        metadata = self._metadata_of(role)
        return follow(self._discovery, role, driver, open_channel, metadata, self.timeout, self._tls)

    def _metadata_of(self, role: str) -> Any:
        """Return what tells the metadata of a call, which may change where a token is asked for."""
        if self._auth is not None and self._auth.changes:
            return lambda: self._metadata(role)
        fixed = tuple(self._metadata(role))
        return lambda: fixed

    def _metadata(self, role: str) -> list[tuple[str, str]]:
        own = [
            ("rpc-caller", self.name),
            ("rpc-service", f"peloton-{role}"),
            ("rpc-encoding", "proto"),
            ("peloton-version", OWN),
            ("peloton-answer-bytes", str(MAX_MESSAGE_BYTES)),
        ]
        return own + list(self._auth.metadata if self._auth else ())

    def _forget(self) -> list[Any]:
        """Forget the stubs and the channels; return the latter, for the caller to close them."""
        for name in (*SERVICES, "jobs"):
            self.__dict__.pop(name, None)
        channels, self._channels = list(self._channels.values()), {}
        return channels


class PelotonClient(BaseClient, Services):
    """Blocking stubs of a cluster's services, one attribute for each of `peloton.client.services.SERVICES`.

    Calls carry `rpc-caller` (the client's name), `rpc-service`, `rpc-encoding`, `peloton-version` and, where
    given, the user's name and password. `jobmgr_metadata`, `resmgr_metadata` and `hostmgr_metadata` hold the
    same for callers that pass metadata themselves. `timeout`, in seconds, is for calls without one of their
    own; streams have none. Failures are of type grpc.RpcError; where no leader is found in time UNAVAILABLE,
    which is also a DiscoveryError.
    `jm_url`, `rm_url` and `hm_url` are each one address or several, with commas between them, which are tried
    in turn; `zk_servers` is for leaders that are looked up in ZooKeeper. A call that reaches no server waits
    for the next one within its time-out, and is repeated there if that is safe (`peloton.client.following`).
    A certificate that one side refuses is UNAUTHENTICATED at once.
    Threads may share a client, processes may not.

    `jobs` is the small layer for people (`peloton.client.layer`).
    """

    jobs: Jobs

    def _attribute(self, name: str) -> Any:
        if name == "jobs":
            from peloton.client.layer import Jobs

            self.jobs = Jobs(self)
            return self.jobs
        return super()._attribute(name)

    def __enter__(self) -> PelotonClient:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def address(self, role: str) -> str:
        """Return `host:port` at which `jobmgr`, `resmgr` or `hostmgr` is called."""
        return self._discovery.address(role)

    def clusters(self) -> Sequence[str]:
        """Return the Mesos clusters that there are; an empty name is the unnamed one."""
        return self._discovery.clusters()

    @property
    def own_cluster(self) -> str:
        """The name of the Mesos cluster whose host manager is called; empty for the unnamed one."""
        return str(getattr(self._discovery, "own", ""))

    def close(self) -> None:
        """Close every connection; a service that is used afterwards opens a new one."""
        for channel in self._forget():
            channel.close()
        self._discovery.close()

    def _opened(self, role: str) -> Any:
        from peloton.client.channel import open_channel
        from peloton.client.stubs import BlockingChannel
        from peloton.client.sync_async import Blocking

        return BlockingChannel(self._leader(role, Blocking(), open_channel))


class AsyncPelotonClient(BaseClient, AsyncServices):
    """The same for asyncio: calls are awaited, streams are for `async for`; all of it in one loop.

    A task that is cancelled ends its call. `async with`, or `close`, ends the connections and threads (those
    that ask ZooKeeper and read from Mesos agents).
    """

    jobs: AsyncJobs

    def __init__(self, *arguments: Any, **named: Any) -> None:
        from peloton.client.sync_async import Asyncio

        super().__init__(*arguments, **named)
        self._driver = Asyncio()

    def _attribute(self, name: str) -> Any:
        if name == "jobs":
            from peloton.client.async_layer import AsyncJobs

            self.jobs = AsyncJobs(self, self._driver)
            return self.jobs
        return super()._attribute(name)

    async def __aenter__(self) -> AsyncPelotonClient:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def address(self, role: str) -> str:
        """Return `host:port` at which `jobmgr`, `resmgr` or `hostmgr` is called."""
        return await self._driver.blocking(lambda: self._discovery.address(role))

    async def clusters(self) -> Sequence[str]:
        """Return the Mesos clusters that there are; an empty name is the unnamed one."""
        return await self._driver.blocking(self._discovery.clusters)

    async def close(self) -> None:
        """Close every connection; a service that is used afterwards opens a new one."""
        for channel in self._forget():
            await channel.close()
        await self._driver.blocking(self._discovery.close)
        await self._driver.close()

    def _opened(self, role: str) -> Any:
        from peloton.client.channel import open_aio_channel
        from peloton.client.stubs import AsyncChannel

        return AsyncChannel(self._leader(role, self._driver, open_aio_channel))


def _discovery(
    zk_servers: str | None, zk_root: str, jm_url: str | None, rm_url: str | None, hm_url: str | None
) -> Discovery:
    urls = {role: url for role, url in zip(ROLES, (jm_url, rm_url, hm_url), strict=True) if url}
    other = ZooKeeperDiscovery(zk_servers, zk_root) if zk_servers else None
    return UrlDiscovery(urls, other, patient=True)
