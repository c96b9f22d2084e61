"""Serving sandboxes while this process leads."""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from hostmgr.kubernetes.core.cluster import KubernetesCluster
from hostmgr.kubernetes.sandboxes.files import MOST_READS, Files
from hostmgr.kubernetes.sandboxes.logs import Logs
from hostmgr.kubernetes.sandboxes.server import SandboxServer
from hostmgr.kubernetes.sandboxes.sessions import MOST_SESSIONS, Sessions
from peloton.config.agents import PLAIN, AgentAccess
from peloton.config.limits import HttpLimitSettings
from peloton.errors import Unavailable
from peloton.kubernetes.access import Access
from peloton.kubernetes.client import ApiClient
from peloton.model.pod_template import CONTAINER

CONNECTIONS = MOST_SESSIONS + MOST_READS + 100
"""Connections to the API server: one for each session, each file and each log that is followed."""
SESSION_SECONDS = 7 * 86_400.0
"""How long the input of a session may last: a terminal may be silent for long."""
RETRY_SECONDS = 1.0
log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class SandboxRules:
    """Where sandboxes are served, and to whom."""

    host: str
    port: int
    """0: they are not served."""
    advertised: str
    """The host that callers are told."""
    access: AgentAccess = PLAIN
    tls: ssl.SSLContext | None = None

    @property
    def pid(self) -> str:
        """Where callers find them, as Mesos tells of an agent; empty where they are not served."""
        return f"kubernetes@{self.advertised}:{self.port}" if self.port else ""


NOT_SERVED = SandboxRules("", 0, "")


class Sandboxes:
    """The server of one term."""

    def __init__(
        self,
        rules: SandboxRules,
        access: Access,
        namespace: str,
        core: KubernetesCluster,
        framework: Callable[[], str],
        now: Callable[[], float],
    ) -> None:
        self._rules = rules
        self._client = ApiClient(access, CONNECTIONS)
        self._logs = Logs(self._client, namespace, CONTAINER, core.over, now)
        files = Files(self._client, namespace, CONTAINER, core.over)
        self._sessions = Sessions(self._client, namespace, CONTAINER, lambda pod: core.over(pod) is False)
        self._server = SandboxServer(self._logs, files, self._sessions, framework, rules.access)

    async def serve(self) -> NoReturn:
        """Serve, as soon as the port is free: another leader on this host may have it for a moment."""
        from peloton.daemon.http import bound_socket
        from peloton.daemon.http_server import BoundedServer

        limits = HttpLimitSettings(
            connections=2 * CONNECTIONS, address_connections=2 * CONNECTIONS, body_seconds=SESSION_SECONDS
        )
        async with self._client:
            try:
                while True:
                    try:
                        listener = bound_socket(self._rules.host, self._rules.port)
                    except Unavailable as error:
                        log.warning("logs of tasks are not served: %s", error)
                    else:
                        await BoundedServer(self._server.app, listener, limits, self._rules.tls).run()
                    await asyncio.sleep(RETRY_SECONDS)
            finally:
                self._sessions.close()
                self._logs.close()
