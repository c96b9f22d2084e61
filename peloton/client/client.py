"""The client object: one attribute per service, channels opened when they are first used."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from peloton.client.auth import Auth
from peloton.client.discovery import Discovery, InCluster, UrlDiscovery, ZooKeeperDiscovery
from peloton.client.services import SERVICES
from peloton.client.tls import Tls

if TYPE_CHECKING:
    from types import TracebackType

    import grpc

    from peloton.client.layer import Jobs

ROLES = ("jobmgr", "resmgr", "hostmgr")
DEFAULT_TIMEOUT = 20.0
"""Time-out of a call in seconds where it has none of its own."""


class PelotonClient:
    """Blocking stubs of a cluster's services, one attribute for each of `peloton.client.services.SERVICES`.

    Calls carry `rpc-caller` (the client's name), `rpc-service`, `rpc-encoding` and, where given,
    the user's name and password. `jobmgr_metadata`, `resmgr_metadata` and `hostmgr_metadata` hold the same
    for callers that pass metadata themselves. `timeout`, in seconds, is for calls without one of their own;
    streams have none. An address is looked up when a service is first used, which may raise DiscoveryError.
    Where leaders are looked up (`zk_servers`), calls follow them: a call that reaches no leader waits for the
    next one within its time-out, and is repeated there if that is safe (`peloton.client.following`).
    Threads may share a client, processes may not.

    `jobs` is the small layer for people (`peloton.client.layer`).
    """

    jobs: Jobs
    job_svc: Any
    task_svc: Any
    update_svc: Any
    volume_svc: Any
    stateless_svc: Any
    pod_svc: Any
    watch_svc: Any
    admin_svc: Any
    respool_svc: Any
    host_svc: Any
    jobmgr_private_svc: Any
    resmgr_svc: Any
    explain_svc: Any
    hostmgr_svc: Any

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
    ) -> None:
        self.name = name
        self.timeout = timeout
        self._auth = auth
        self._tls = tls
        self._discovery = discovery or _discovery(zk_servers, zk_root, jm_url, rm_url, hm_url)
        self._channels: dict[str, grpc.Channel] = {}
        self.jobmgr_metadata = self._metadata("jobmgr")
        self.resmgr_metadata = self._metadata("resmgr")
        self.hostmgr_metadata = self._metadata("hostmgr")

    @classmethod
    def from_environment(cls, name: str) -> PelotonClient:
        """Return a client of the cluster that the environment names (`peloton.client.environment`)."""
        from peloton.client.environment import settings_from_environment

        return cls(name, **settings_from_environment())

    def __getattr__(self, name: str) -> Any:
        if name == "jobs":
            from peloton.client.layer import Jobs

            self.jobs = Jobs(self)
            return self.jobs
        service = SERVICES.get(name)
        if service is None:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        stub = service.load()(self._channel(service.role))
        setattr(self, name, stub)
        return stub

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

    def in_cluster(self, cluster: str) -> PelotonClient:
        """Return a client whose host manager is that of one Mesos cluster. Close it before this one."""
        discovery = InCluster(self._discovery, cluster)
        return PelotonClient(
            self.name, timeout=self.timeout, auth=self._auth, discovery=discovery, tls=self._tls
        )

    def close(self) -> None:
        """Close every connection; a service that is used afterwards opens a new one."""
        for name in SERVICES:
            self.__dict__.pop(name, None)
        while self._channels:
            self._channels.popitem()[1].close()
        self._discovery.close()

    def _channel(self, role: str) -> grpc.Channel:
        if role not in self._channels:
            self._channels[role] = self._opened(role)
        return self._channels[role]

    def _opened(self, role: str) -> grpc.Channel:
        from peloton.client.channel import open_channel

        metadata = self._metadata(role)
        credentials = self._tls.credentials() if self._tls else None
        if not self._discovery.follows(role):
            return open_channel(self.address(role), metadata, self.timeout, credentials)
        from peloton.client.following import FollowingChannel

        return FollowingChannel(lambda: self.address(role), metadata, self.timeout, credentials)

    def _metadata(self, role: str) -> list[tuple[str, str]]:
        own = [("rpc-caller", self.name), ("rpc-service", f"peloton-{role}"), ("rpc-encoding", "proto")]
        return own + list(self._auth.metadata if self._auth else ())


def _discovery(
    zk_servers: str | None, zk_root: str, jm_url: str | None, rm_url: str | None, hm_url: str | None
) -> Discovery:
    urls = {role: url for role, url in zip(ROLES, (jm_url, rm_url, hm_url), strict=True) if url}
    return UrlDiscovery(urls, ZooKeeperDiscovery(zk_servers, zk_root) if zk_servers else None)
