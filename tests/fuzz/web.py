"""HTTP: the pages and forms of peloton-web, its JSON door, and the ports of the daemons.

The application is called as its server would call it, without connections.
"""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Callable
from functools import cache
from typing import Any
from urllib.parse import quote, urlencode

from google.protobuf.json_format import MessageToDict, SerializeToJsonError
from starlette.applications import Starlette

from peloton.daemon.http import HttpServer
from peloton.web.api.methods import public_methods
from peloton.web.views import PAGES, ROUTES
from tests.fuzz import texts, values
from tests.fuzz.messages import Corpus, Maker
from tests.unit.web.fake import FakeCluster, application
from tests.unit.web.jobs_cluster import JOB, POOL, cluster
from tests.unit.web_api.fakes import FakeCaller

TOKEN = "t" * 32
HEADERS = ((b"host", b"localhost"), (b"cookie", b"peloton_csrf=" + TOKEN.encode()))
SECONDS = 30.0
STEPS = ("draft", "preview", "edit", "create", "apply")
"""Steps of forms: a text that is none leads no further."""
PARAMETERS = (
    *(
        "by",
        "at",
        "before",
        "command",
        "memory",
        "cpu",
        "disk",
        "preemptible",
        "job_id",
        "description",
        "team",
    ),
    *("reservation-cpu", "limit-memory", "share-disk", "type-gpu", "controller_limit", "slack_limit"),
    *("page", "sort", "order", "state", "states", "q", "search", "name", "pool", "respool", "owner", "limit"),
    *("version", "old", "new", "run", "file", "path", "offset", "from", "to", "url", "instances", "level"),
    *("duration", "hostname", "source", "destination", "count", "spec", "batch_size", "next", "username"),
    *(
        "label",
        "kind",
        "group",
        "host",
        "tab",
        "task",
        "window",
        "range",
        "since",
        "csrf",
        "confirm",
        "reason",
    ),
)
KNOWN = (
    JOB,
    POOL,
    f"{JOB}-1",
    f"{JOB}-1-2",
    "3-2-1",
    "host-1",
    "default",
    "stdout",
    "RUNNING",
    "update",
    "stop",
)
Attempt = tuple[str, Callable[[], str]]


@cache
def _loop() -> asyncio.AbstractEventLoop:
    return asyncio.new_event_loop()


async def asked(app: Starlette, method: str, target: str, body: bytes, *headers: tuple[bytes, bytes]) -> int:
    """Send a request; of what is streamed, take the first piece. Return the status, 0 for none."""
    path, _, query = target.partition("?")
    sent, status, gone = False, 0, asyncio.Event()

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        await gone.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        nonlocal status
        if message["type"] == "http.response.start":
            status = message["status"]
        elif message.get("body"):
            gone.set()  # the browser leaves

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": method,
        "scheme": "http",
        "path": path,
        "raw_path": path.encode("utf-8", "replace"),
        "root_path": "",
        "query_string": query.encode("latin-1", "replace"),
        "headers": [*HEADERS, *headers],
        "client": ("127.0.0.1", 40000),
        "server": ("localhost", 80),
    }
    leaving = asyncio.get_running_loop().call_later(0.2, gone.set)
    try:
        async with asyncio.timeout(SECONDS):
            await app(scope, receive, send)
    finally:
        leaving.cancel()
    return status


def _status(app: Starlette, method: str, target: str, body: bytes, *headers: tuple[bytes, bytes]) -> str:
    status = _loop().run_until_complete(asked(app, method, target, body, *headers))
    assert status and status != 500, f"answered {status}"
    return f"{status // 100}xx"


@cache
def _app(kind: str) -> Starlette:
    found = cluster() if kind == "job" else FakeCluster()
    return application(found, caller=FakeCaller(answers=[]))


def _value(rng: random.Random) -> str:
    kind = rng.random()
    if kind < 0.4:
        return rng.choice(KNOWN)
    if kind < 0.6:
        return str(rng.choice((0, 1, 2, -1, 10**9, 2**31, 2**63, 10**30, "1e9", "nan", "inf", "٣", "²")))
    return rng.choice(values.TEXTS) if kind < 0.98 else "x" * rng.choice(values.LONG)


def _filled(rng: random.Random, template: str) -> str:
    parts = []
    for part in template.split("/"):
        parts.append(quote(_value(rng), safe="") if part.startswith("{") else part)
    return "/".join(parts)


def _parameters(rng: random.Random, most: int) -> list[tuple[str, str]]:
    return [(rng.choice(PARAMETERS), _value(rng)) for _ in range(rng.randrange(most))]


def page(rng: random.Random) -> Attempt:
    """A page, a form, or a path that is none."""
    template = rng.choice(
        [*(each.path for each in PAGES), *(getattr(each, "path", "/") for each in ROUTES), "/live"]
    )
    path = _filled(rng, template)
    if rng.random() < 0.03:
        path += rng.choice(("/", "/..", "%00", "//", "/%2e%2e/x", ";x"))
    query = urlencode([*_parameters(rng, 4), *([("url", path)] if template == "/live" else [])])
    method, body, headers = "GET", b"", []
    if rng.random() < 0.4:
        method = rng.choice(("POST", "POST", "POST", "PUT", "DELETE", "HEAD", "OPTIONS"))
        step = [("step", rng.choice(STEPS))] if rng.random() < 0.5 else []
        body = urlencode([("csrf", TOKEN), *step, *_parameters(rng, 8)]).encode()
        body = values.mutated(rng, body) if rng.random() < 0.1 else body
        headers = [(b"content-type", b"application/x-www-form-urlencoded"), (b"origin", b"http://localhost")]
    target = f"{path}?{query}" if query else path
    kind = rng.choice(("job", "job", "none"))
    return f"{kind}: {method} {target} {body!r}", lambda: _status(_app(kind), method, target, body, *headers)


@cache
def _door() -> tuple[Starlette, FakeCaller]:
    caller = FakeCaller()
    return application(FakeCluster(), caller=caller), caller


@cache
def _methods() -> list[tuple[str, Any]]:
    return [(f"/api/{service}/{name}", method) for (service, name), method in public_methods().items()]


def door(rng: random.Random) -> Attempt:
    """A call of the JSON door."""
    path, method = rng.choice(_methods())
    message = Maker(rng, Corpus()).made(method.request.DESCRIPTOR, "", 0)
    try:
        document = MessageToDict(message)
    except (ValueError, SerializeToJsonError):  # a time that is none
        document = {}
    if rng.random() < 0.7:
        document = texts.changed(rng, document or {"id": {"value": "x"}})
    body = json.dumps(document).encode()
    body = values.mutated(rng, body) if rng.random() < 0.3 else body
    path = path if rng.random() < 0.97 else path + rng.choice(values.TEXTS)
    headers = (
        (b"content-type", b"application/json"),
        (b"accept", rng.choice((b"*/*", b"text/event-stream", b"x"))),
    )

    def attempt() -> str:
        app, caller = _door()
        caller.answers, caller.calls = [method.response()], []
        return _status(app, "POST", path, body, *headers)

    return f"POST {path} {body!r}", attempt


@cache
def _daemon() -> Starlette:
    return Starlette(routes=HttpServer(lambda: "").routes())


def port(rng: random.Random) -> Attempt:
    """A request to a daemon's port."""
    path = rng.choice(("/health", "/metrics", "/version", "/logging-level", "/logging-level", "/x", "/"))
    query = urlencode([("level", _value(rng)), ("duration", _value(rng)), *_parameters(rng, 3)])
    method = rng.choice(("GET", "GET", "POST", "HEAD", "PUT"))
    target = f"{path}?{query}" if path != "/metrics" or rng.random() < 0.1 else "/version"
    return f"{method} {target}", lambda: _status(_daemon(), method, target, b"")


SURFACES = {"web pages": page, "JSON door": door, "daemons' HTTP": port}
