"""The page with a terminal in a task, and its WebSocket."""

from __future__ import annotations

import asyncio
import secrets
from dataclasses import dataclass

from starlette.datastructures import Headers
from starlette.requests import HTTPConnection, Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.websockets import WebSocket, WebSocketDisconnect

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.calls.web import GET_JOB, GET_TASK, START_SESSION
from peloton.client.auth import BasicAuth
from peloton.errors import PelotonError, PermissionDenied, Refused
from peloton.web.cluster import Calls
from peloton.web.permissions import refusals
from peloton.web.requests import auth_of, calls, parts, render
from peloton.web.sandbox import known_instance
from peloton.web.security import SUBPROTOCOL_PREFIX, cookie, csp_of_terminal
from peloton.web.sessions import COOKIE, Sessions
from peloton.web.views.instances.rows import instance_of
from peloton.web.views.jobs.pages import pool_of
from peloton.web.views.terminal.bridge import Bridge, Terminals
from peloton.web.views.terminal.session import CHECK_SECONDS, begun, first, may_not_go_on

PATH = "/jobs/{job_id}/instances/{instance:int}/terminal"
RIGHT = {"terminal": START_SESSION}


@dataclass(frozen=True, slots=True)
class Task:
    """The instance that a terminal is in."""

    job_id: str
    instance: int


async def show(request: Request) -> Response:
    """Show the page. Raises PermissionDenied for who may not run commands, Refused where none may run."""
    client, task = calls(request), _task(request)
    job = peloton_pb2.JobID(value=task.job_id)
    got, about = await asyncio.gather(
        client.read(GET_TASK, task_pb2.GetRequest(jobId=job, instanceId=task.instance)),
        client.read(GET_JOB, job_pb2.GetRequest(id=job)),
    )
    if why := (await refusals(client, RIGHT, await pool_of(client, about))).get("terminal"):
        raise PermissionDenied(f"you may not run commands in this task: {why}")
    if not parts(request).settings.terminals.total:
        raise Refused("this web UI gives no terminals: terminals.total is 0 in its settings")
    nonce = secrets.token_urlsafe(16)
    found = {
        "task": instance_of(task.job_id, got),
        "job_name": about.jobInfo.config.name or "(no name)",
        "nonce": nonce,
        "protocol": SUBPROTOCOL_PREFIX,
    }
    answer = render(request, "terminal.html", found)
    answer.headers["content-security-policy"] = csp_of_terminal(nonce)
    return answer


async def connect(socket: WebSocket) -> None:
    """Run a shell for the browser at the other end. What it refuses, it tells and closes."""
    await socket.accept(subprotocol=next(iter(socket.scope["subprotocols"]), None))
    bridge, client = Bridge(socket), calls(socket)
    user = client.user or (socket.client.host if socket.client is not None else "")
    terminals: Terminals = socket.app.state.terminals
    try:
        terminals.take(user)
    except PelotonError as error:
        await bridge.over(str(error))
        return
    try:
        text = await _served(socket, bridge, client)
    except PelotonError as error:
        text = str(error)
    except WebSocketDisconnect:
        return
    finally:
        terminals.leave(user)
    await bridge.over(text)


async def _served(socket: WebSocket, bridge: Bridge, client: Calls) -> str:
    """Begin a session, run it to its end, and say why it has ended. Raises PelotonError."""
    task = _task(socket)
    about = await client.read(GET_JOB, job_pb2.GetRequest(id=peloton_pb2.JobID(value=task.job_id)))
    pool = await pool_of(client, about)
    size = await bridge.size()
    async with begun(client, task.job_id, task.instance) as terminal:

        async def run() -> str:
            code = await terminal.run(size, bridge.records(), lambda _, data: bridge.write(data))
            return f"the shell has ended with exit code {code}"

        async def check() -> str:
            return await _may_not_go_on(socket, client, pool)

        idle = parts(socket).settings.terminals.idle_seconds
        return await first(run(), bridge.receive(), bridge.watch(idle, check, CHECK_SECONDS))


async def _may_not_go_on(socket: WebSocket, client: Calls, pool: str) -> str:
    """Return why a session is to end: its user has logged out, or may not run commands any more."""
    sessions: Sessions = socket.app.state.sessions
    held = cookie(Headers(scope=socket.scope), COOKIE)
    auth = auth_of(socket)
    if isinstance(auth, BasicAuth) and sessions.find(held) != auth:
        return "you are not logged in any more"
    return await may_not_go_on(client, pool)


def _task(connection: HTTPConnection) -> Task:
    found = connection.path_params
    return Task(found["job_id"], known_instance(found["instance"]))


ROUTES = (Route(PATH, show), WebSocketRoute(f"{PATH}/session", connect))
