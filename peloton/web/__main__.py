"""Main program of the web UI."""

from __future__ import annotations

import asyncio
import logging
import signal
import sys
from collections.abc import Sequence

from peloton.config.arguments import parse_arguments
from peloton.config.private import keep_private
from peloton.daemon import log as logs
from peloton.daemon.descriptors import raise_descriptor_limit
from peloton.daemon.http import bound_socket
from peloton.daemon.http_server import BoundedServer
from peloton.daemon.http_websocket import WebSocket
from peloton.daemon.supervise import Supervisor
from peloton.errors import PelotonError
from peloton.identity.agents import agent_access
from peloton.membership.factory import membership
from peloton.rpc.tls import tls_of
from peloton.web.api.caller import LeaderCaller
from peloton.web.app import make_app
from peloton.web.cluster import Cluster, MembershipDiscovery
from peloton.web.config import WebSettings
from peloton.web.live import Hub
from peloton.web.pages import Reader
from peloton.web.requests import Parts
from peloton.web.templating import Templates
from peloton.web.views import PAGES

PROGRAM = "peloton-web"


async def serve(settings: WebSettings) -> str:
    """Serve until told to stop; return why it ended, empty for an orderly end."""
    stop = asyncio.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    listener = bound_socket(settings.host, settings.http_port)
    tls = tls_of(settings.tls)
    cluster = Cluster(membership(settings.membership), settings.call_seconds, settings.cache_seconds, tls)
    cluster.agents = agent_access(settings.agents)
    templates = Templates(settings.cluster)
    hub = Hub(Reader(PAGES, templates, cluster), settings.poll_seconds, settings.max_watchers)
    caller = LeaderCaller(MembershipDiscovery(cluster.membership), tls=tls)
    app = make_app(Parts(settings, cluster, templates, hub, caller))
    encrypted = tls is not None and settings.tls.certificate_file is not None
    https = tls.http() if tls is not None and encrypted else None
    server = BoundedServer(app, listener, settings.http_limits, https, WebSocket)
    scope = Supervisor()
    scope.spawn("cluster", cluster.run())
    scope.spawn("http", server.run())
    host, port = listener.getsockname()[:2]
    scheme = "https" if encrypted else "http"
    print(f"{PROGRAM}: {scheme}://{f'[{host}]' if ':' in host else host}:{port}/", flush=True)
    try:
        return await _first(stop, scope)
    finally:
        await hub.close()
        server.stop()
        await app.state.kubernetes.close()
        await scope.close()
        await caller.close()
        await cluster.close()


async def _first(stop: asyncio.Event, scope: Supervisor) -> str:
    """Wait for the order to stop or for a failure, whose description is returned."""
    stopped, failed = asyncio.create_task(stop.wait()), asyncio.create_task(scope.failed())
    await asyncio.wait({stopped, failed}, return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    return "" if not failed.done() else failed.result()


def main(argv: Sequence[str] | None = None) -> int:
    """Run the web UI; return the exit code, 0 after an orderly end, else 1 with one clear line on stderr."""
    import uvloop

    try:
        settings, only_check = parse_arguments(WebSettings, PROGRAM, argv)
        if only_check:
            print("ok")
            return 0
        logs.set_up(settings.debug)
        keep_private()
        raise_descriptor_limit()
        logging.getLogger("httpx2").setLevel(logging.WARNING)  # a line for each health check otherwise
        why = uvloop.run(serve(settings))
    except PelotonError as error:
        why = str(error)
    if why:
        print(f"{PROGRAM}: {why}", file=sys.stderr)
    return 1 if why else 0


if __name__ == "__main__":
    sys.exit(main())
