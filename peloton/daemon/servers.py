"""What of a daemon others reach: its gRPC and HTTP servers, and who may call them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial

from peloton.clock import Clock
from peloton.compiled import remark
from peloton.config.addresses import is_loopback
from peloton.config.membership import ZooKeeperMembershipSettings
from peloton.config.settings import DaemonSettings
from peloton.daemon.descriptors import few_descriptors
from peloton.daemon.http import HttpServer
from peloton.daemon.level import by_door
from peloton.daemon.problems import Problems, Source, problem_service
from peloton.identity.door import Door
from peloton.membership.addresses import unreachable
from peloton.model.problems import Problem
from peloton.rpc.access import access
from peloton.rpc.audit import audit_log
from peloton.rpc.fairness import Fairness
from peloton.rpc.gate import Gate
from peloton.rpc.limits import PrincipalRates, RateLimits
from peloton.rpc.server import RpcServer
from peloton.rpc.standard import health, reflection
from peloton.rpc.tls import Tls, tls_of

EXPOSED = "listens at %s and asks nobody who they are (auth.type is NOOP, insecure is true)"
log = logging.getLogger(__name__)


class Servers:
    """The servers of a daemon, as its settings describe them."""

    def __init__(
        self,
        settings: DaemonSettings,
        clock: Clock,
        unhealthy: Callable[[], str],
        leader: Callable[[], str],
        remark: Callable[[], str],
    ) -> None:
        """Use `unhealthy` for what is wrong, empty if nothing, and `leader` to tell who leads instead.

        /health adds `remark` to its OK.
        """
        self._settings = settings
        self._unhealthy = unhealthy
        self._remark = remark
        auth, limits = settings.auth, settings.rate_limit
        self.door = None if auth.type == "NOOP" else Door(auth, settings.tls.client_certificates)
        """What asks callers who they are; None where nobody is asked."""
        self.audit = audit_log(settings.audit, clock.wall)
        """What users have changed; None where it is not written."""
        rates = PrincipalRates(limits) if PrincipalRates.needed(limits) else None
        fairness = Fairness(settings.call_limits, rates, self.door is not None, self.audit)
        self.intake = fairness.intake
        shared = RateLimits(limits) if RateLimits.needed(limits) else None
        gate = Gate(self.door, shared, self.audit, fairness.pacer)
        self.rpc = RpcServer(
            leader,
            [gate] if gate.needed else [],
            self.audit,
            fairness,
            settings.call_limits.connection_streams,
        )
        self.tls = tls_of(settings.tls)
        """What encrypts calls; None where nothing does."""
        self.problems = Problems()
        """What tells what is wrong though this daemon works."""
        if self.tls is not None:
            self.problems.add("whether certificates end soon", partial(_ending, self.tls, clock))
        found_by = settings.membership
        if isinstance(found_by, ZooKeeperMembershipSettings) and found_by.tls.enabled:
            self.problems.add("whether certificates of ZooKeeper end soon", of_zookeeper(found_by, clock))
        https = None if self.tls is None else self.tls.http()
        administers = None if self.door is None else by_door(self.door, self.audit)
        self.http = HttpServer(unhealthy, self._remarks, administers, tls=https, limits=settings.http_limits)

    async def listen(self) -> tuple[int, int]:
        """Open the ports; return that of HTTP and that of gRPC. Raises Unavailable where one is taken."""
        settings = self._settings
        self._warn_of_exposure()
        http_port = self.http.bind(settings.host, settings.http_port)
        self.activate_standard()
        further = reflection(self.rpc.names) if settings.grpc_reflection else ()
        credentials = None if self.tls is None else self.tls.server(settings.tls.client_certificates)
        return http_port, await self.rpc.start(settings.host, settings.grpc_port, further, credentials)

    def activate_standard(self) -> None:
        """Serve what every daemon serves, whether it leads or not."""
        self.rpc.activate([access(self.door), problem_service(self.problems)])
        if self._settings.grpc_health:
            self.rpc.activate([health(self._unhealthy, self.rpc.serves)])

    def warn_if_unreachable(self, ip: str) -> None:
        """Log where others cannot reach the address at which this daemon is announced."""
        shared = self._settings.membership
        if isinstance(shared, ZooKeeperMembershipSettings) and unreachable(ip, shared.servers):
            log.warning(
                "this daemon is announced at %s, which other hosts cannot reach: set host or advertise",
                ip,
            )

    def _warn_of_exposure(self) -> None:
        settings = self._settings
        if settings.exposed:
            log.warning("INSECURE: %s", EXPOSED % settings.host)
        elif self.tls is None and not is_loopback(settings.host):
            log.warning(
                "%s is beyond loopback, and there is no TLS: passwords, tokens and answers are not encrypted",
                settings.host,
            )

    def _remarks(self) -> str:
        """Return what /health adds to its OK."""
        exposed = f"INSECURE: {EXPOSED % self._settings.host}" if self._settings.exposed else ""
        users = self.door.trouble if self.door is not None else ""
        certificates = self.tls.trouble if self.tls is not None else ""
        told = self._remark(), exposed, users, certificates, few_descriptors(), remark()
        return "\n".join(filter(None, told))


def of_zookeeper(settings: ZooKeeperMembershipSettings, clock: Clock) -> Source:
    """Return what tells of certificates between ZooKeeper and this daemon. Raises ConfigError."""
    # Only for these, they are large.
    from peloton.membership.zookeeper import tls_of
    from peloton.rpc.expiry import ServerCertificates

    context = tls_of(settings.tls)
    assert context is not None
    places = [each.strip().rpartition(":") for each in settings.servers.partition("/")[0].split(",")]
    found = [(host.strip("[]"), int(port)) for host, _, port in places]
    return ServerCertificates("ZooKeeper", found, settings.tls, context, clock).problems


async def _ending(tls: Tls, clock: Clock) -> Iterable[Problem]:
    """Return the certificates that end soon."""
    # Only for this, it is large.
    from peloton.rpc.expiry import expiring, now_of

    authorities, certificate, _ = tls.paths
    files = [each for each in (certificate, authorities) if each]
    return list(expiring(files, now_of(clock)))
