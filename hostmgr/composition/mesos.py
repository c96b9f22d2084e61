"""The backend for Mesos, with its access to the master."""

from __future__ import annotations

from dataclasses import dataclass, field

from hostmgr.config import HostmgrSettings, MesosSettings
from hostmgr.mesos.agents import AgentReader
from hostmgr.mesos.backend import MesosBackend
from hostmgr.mesos.host_names import HostNames
from hostmgr.mesos.maintenance import MaintenanceCalls
from peloton.config.errors import ConfigError
from peloton.config.private import require_private
from peloton.daemon.lifecycle import Daemon
from peloton.mesos.calls import Framework
from peloton.mesos.codec import codec
from peloton.mesos.connection import Handler, MesosDriver
from peloton.mesos.detector import MasterDetector
from peloton.mesos.http import basic
from peloton.mesos.operator import OperatorClient
from peloton.mesos.session import Session
from peloton.mesos.tls import Tls, contexts


@dataclass(frozen=True, slots=True)
class Access:
    """Authentication and TLS of connections to the Mesos master."""

    authorization: str = field(repr=False)
    tls: Tls | None


def access_of(settings: MesosSettings) -> Access:
    """Read the files that the settings name. Raises ConfigError where one cannot be used."""
    tls = settings.tls
    made = contexts(tls.ca_file, tls.certificate_file, tls.key_file) if tls.enabled else None
    return Access(_authorization(settings), made)


def _authorization(settings: MesosSettings) -> str:
    """Return the value of the header Authorization. Raises ConfigError where the secret cannot be read."""
    if settings.secret_file is None:
        return ""
    require_private(settings.secret_file, "mesos.secret_file")
    try:
        secret = settings.secret_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"mesos.secret_file: {settings.secret_file}: {error}") from None
    return basic(settings.principal, secret)


def mesos_backend(
    daemon: Daemon[HostmgrSettings], framework_id: str, detector: MasterDetector, access: Access
) -> MesosBackend:
    """Return the backend; without a framework id it subscribes as a new framework."""
    settings = daemon.settings
    wire, hosts = codec(settings.mesos.encoding), HostNames(settings.mesos.cluster)

    def connect(handler: Handler) -> MesosDriver:
        return MesosDriver(
            Session(framework_id or None), _framework(settings), wire, detector, handler,
            daemon.clock.monotonic, access.authorization, access.tls,
            max_record_bytes=settings.mesos.max_record_bytes, fence=daemon.fence,
        )  # fmt: skip

    operator = OperatorClient(
        detector, wire, settings.mesos.operator_timeout, access.authorization, access.tls
    )
    return MesosBackend(
        connect,
        AgentReader(operator, settings.mesos.role, hosts),
        MaintenanceCalls(operator, daemon.clock.wall, hosts),
        settings.mesos.principal,
        hosts,
        settings.mesos.longest_grace,
    )


def _framework(settings: HostmgrSettings) -> Framework:
    mesos = settings.mesos
    return Framework(
        user=mesos.user,
        name=mesos.name,
        role=mesos.role,
        principal=mesos.principal,
        failover_timeout=mesos.failover_timeout,
        gpus=mesos.gpu_resources,
        revocable=settings.revocable,
    )
