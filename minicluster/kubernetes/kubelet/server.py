"""The HTTP server of a kubelet, which an API server calls: logs of containers, and commands beside them.

Paths and answers are those of Kubernetes' kubelets (`pkg/kubelet/server`):
`/containerLogs/NAMESPACE/POD/CONTAINER` and `/exec/NAMESPACE/POD/CONTAINER`. Callers need a certificate of
the authority that the API server has one of.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable
from socket import socket
from urllib.parse import unquote

from minicluster.kubernetes.kubelet.commands import RemoteCommand, Wanted
from minicluster.kubernetes.kubelet.logs import CannotBeRead, WantedLog, send
from minicluster.kubernetes.kubelet.processes import Processes
from minicluster.mesos.common.http import Connection, Server
from minicluster.mesos.common.http_messages import NOT_FOUND, Request, Response, refuse

MOST_COMMANDS = 100
"""Commands that run beside pods at a time."""
UidOf = Callable[[str, str, str], str]
"""Returns the uid of the pod of a namespace, a name and a container; empty where there is none."""


class KubeletServer:
    """Answers an API server."""

    def __init__(self, processes: Processes, uid_of: UidOf) -> None:
        self._processes = processes
        self._uid_of = uid_of
        self._work: set[asyncio.Task[None]] = set()
        self._commands = 0
        self._server = Server(self._handle, lambda: None)

    async def serve(self, sock: socket, tls: ssl.SSLContext) -> None:
        """Accept connections on a socket that is bound and listens."""
        await self._server.serve(sock, tls)

    async def stop(self) -> None:
        """Stop listening, drop all connections, and end what runs for them."""
        await self._server.stop()
        for task in list(self._work):
            task.cancel()

    def _handle(self, request: Request, connection: Connection) -> Response | None:
        kind, *place = [unquote(part) for part in request.path.strip("/").split("/")]
        if len(place) != 3 or kind not in ("containerLogs", "exec"):
            return NOT_FOUND
        namespace, name, container = place
        uid = self._uid_of(namespace, name, container)
        if not uid:
            return refuse(404, f"pod {namespace}/{name} with a container {container} is not on this node")
        if kind == "exec":
            return self._execute(uid, request, connection)
        return self._log(uid, name, request, connection)

    def _log(self, uid: str, name: str, request: Request, connection: Connection) -> Response | None:
        path = self._processes.log_of(uid, name)
        if not path.exists():
            return refuse(400, f"container of pod {name} is waiting to start: ContainerCreating")
        try:
            wanted = WantedLog.of(request.query)
        except CannotBeRead as error:
            return refuse(400, str(error))
        over = lambda: not self._processes.live(uid)  # noqa: E731 - one condition
        task = asyncio.get_running_loop().create_task(send(connection, path, wanted, over))
        self._keep(task)

        def lost() -> None:
            task.cancel()

        connection.on_lost = lost
        return None

    def _execute(self, uid: str, request: Request, connection: Connection) -> Response | None:
        wanted = Wanted(request.query)
        if not wanted.command:
            return refuse(400, "you must specify at least 1 command for the container")
        if not request.headers.get("upgrade", "").startswith("SPDY/3.1"):
            return refuse(400, "a process kubelet runs commands over SPDY/3.1")
        process = self._processes.running(uid)
        if process is None:
            return refuse(500, "the container is not running")
        if self._commands >= MOST_COMMANDS:
            return refuse(503, f"{MOST_COMMANDS} commands run on this node already")
        self._commands += 1
        RemoteCommand(connection, wanted, process, self._processes.companions, self._ended).accept()
        return None

    def _ended(self) -> None:
        self._commands -= 1

    def _keep(self, task: asyncio.Task[None]) -> None:
        self._work.add(task)
        task.add_done_callback(self._work.discard)
