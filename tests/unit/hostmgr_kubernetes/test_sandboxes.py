"""Logs by offset, and calls as of an agent, with an API server of the test's own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from pydantic import ValidationError

from hostmgr.config import HostmgrSettings
from hostmgr.kubernetes.sandboxes.files import Files
from hostmgr.kubernetes.sandboxes.logs import KEEP_SECONDS, MOST_BYTES, MOST_COPIES, Logs
from hostmgr.kubernetes.sandboxes.server import SandboxServer
from hostmgr.kubernetes.sandboxes.sessions import Sessions
from peloton.config.agents import PLAIN, AgentAccess
from peloton.errors import NotFound, Refused, Unavailable
from peloton.kubernetes.client import ApiError

RUN = "job-0-1"


class Api:
    """Has one log, which grows when the test says so."""

    def __init__(self) -> None:
        self.content = b""
        self.over: bool | None = False
        self.failure: Exception | None = None
        self.reads: list[bool] = []
        self.grown = asyncio.Event()
        self.time = 0.0
        self.logs = Logs(self, "peloton", "task", lambda pod: self.over, lambda: self.time)  # type: ignore[arg-type]

    async def call(self, method: str, path: str) -> dict[str, Any]:
        raise Unavailable("pods are not told")

    async def stream(self, path: str, *, follow: bool, **params: Any) -> AsyncIterator[bytes]:
        assert path.endswith("/log") and params["container"] == "task"
        self.reads.append(follow)
        if self.failure is not None:
            raise self.failure
        at = 0
        while True:
            for begin in range(at, len(self.content), 3):
                yield self.content[begin : begin + 3]
            at = len(self.content)
            if not follow or self.over is not False:
                return
            self.grown.clear()
            await self.grown.wait()

    def grow(self, data: bytes) -> None:
        self.content += data
        self.grown.set()


async def until(holds: Any) -> None:
    async with asyncio.timeout(60):
        while not await holds():  # noqa: ASYNC110 - reads make it hold
            await asyncio.sleep(0)


async def test_a_log_is_read_by_offset() -> None:
    api = Api()
    api.content = b"0123456789"
    assert await api.logs.size(RUN) == 10
    assert await api.logs.read(RUN, 4, 3) == b"456"
    assert await api.logs.read(RUN, 0, 100) == b"0123456789"
    assert b"".join([piece async for piece in api.logs.download(RUN, 7)]) == b"0123456"


async def test_who_reads_at_the_end_gets_what_is_added() -> None:
    api = Api()
    api.content = b"0123"
    assert await api.logs.read(RUN, 0, 100) == b"0123"
    assert await api.logs.read(RUN, 4, 100) == b""
    api.grow(b"45")

    async def grown() -> bool:
        return await api.logs.read(RUN, 4, 100) == b"45"

    await until(grown)
    assert api.reads.count(True) == 1  # one that follows, however often it is looked at


async def test_what_was_written_before_the_end_is_there_after_it() -> None:
    api = Api()
    api.content = b"01"
    assert await api.logs.read(RUN, 0, 100) == b"01"
    api.content, api.over = b"0123", True
    assert await api.logs.read(RUN, 2, 100) == b"23"
    assert await api.logs.read(RUN, 4, 100) == b""
    before = len(api.reads)
    assert await api.logs.read(RUN, 0, 100) == b"0123" and len(api.reads) == before  # it is whole


async def test_a_copy_outlives_its_pod_for_who_reads_it() -> None:
    api = Api()
    api.content = b"0123"
    assert await api.logs.read(RUN, 0, 2) == b"01"
    api.over = None
    assert await api.logs.read(RUN, 2, 100) == b"23"
    api.time += KEEP_SECONDS + 1
    with pytest.raises(NotFound, match="there is no pod"):
        await api.logs.read(RUN, 2, 100)


async def test_failures_are_told() -> None:
    api = Api()
    api.failure = ApiError(
        400, "BadRequest", 'container "task" in pod is waiting to start: ContainerCreating'
    )
    assert await api.logs.size(RUN) == 0
    api.failure = ApiError(404, "NotFound", "no such pod")
    with pytest.raises(NotFound):
        await api.logs.size(RUN)
    api.failure = ApiError(403, "Forbidden", "may not read")
    with pytest.raises(Refused, match="may not read"):
        await api.logs.size(RUN)
    api.failure = Unavailable("gone")
    with pytest.raises(Unavailable):
        await api.logs.size(RUN)


async def test_a_log_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hostmgr.kubernetes.sandboxes.logs.MOST_BYTES", 10)
    api = Api()
    api.content = b"0123456789a"
    with pytest.raises(Refused, match="the log is over 10 bytes"):
        await api.logs.size(RUN)
    assert MOST_BYTES > 10_000_000


async def test_copies_are_bounded() -> None:
    api = Api()
    for number in range(MOST_COPIES + 5):
        await api.logs.size(f"run-{number}")
    assert len(api.logs._copies) == MOST_COPIES
    api.logs.close()


# The calls.


def server(api: Api, access: AgentAccess = PLAIN) -> httpx2.AsyncClient:
    sessions = Sessions(api, "peloton", "task", lambda pod: False)  # type: ignore[arg-type]
    files = Files(api, "peloton", "task", lambda pod: api.over)  # type: ignore[arg-type]
    app = SandboxServer(api.logs, files, sessions, lambda: "F", access).app
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://s")


async def test_it_answers_as_an_agent() -> None:
    api = Api()
    api.content = b"a\xffb"
    async with server(api) as client:
        assert (await client.get("/state")).json()["frameworks"] == [{"id": "F", "executors": []}]
        folder = f"/frameworks/F/executors/{RUN}/runs/latest"
        listed = (await client.get("/files/browse", params={"path": folder})).json()
        paths = {each["path"]: each["size"] for each in listed}
        inner = f"/frameworks/F/executors/{RUN}/runs/{RUN}"
        assert paths == {f"{inner}/stderr": 0, f"{inner}/stdout": 3}
        read = {"path": f"{inner}/stdout", "offset": "0"}
        assert (await client.get("/files/read", params=read)).content == b'{"data": "a\xffb", "offset": 0}'
        size = (await client.get("/files/read", params={"path": f"{inner}/stdout"})).json()
        assert size == {"data": "", "offset": 3}
        assert (await client.get("/files/download", params={"path": f"{inner}/stdout"})).content == b"a\xffb"
        assert (await client.get("/files/download", params={"path": f"{inner}/stderr"})).content == b""


@pytest.mark.parametrize(
    ("path", "query", "status"),
    [
        ("/files/read", {}, 404),
        ("/files/read", {"path": "/etc/passwd", "offset": "0"}, 404),
        ("/files/read", {"path": f"/frameworks/F/executors/{RUN}/runs/latest/other"}, 503),
        ("/files/browse", {"path": f"/frameworks/F/executors/{RUN}/runs/latest/../.."}, 400),
        ("/files/read", {"path": f"/frameworks/F/executors/{RUN}/runs/x/stdout", "offset": "x"}, 400),
    ],
)
async def test_wrong_reads(path: str, query: dict[str, str], status: int) -> None:
    async with server(Api()) as client:
        assert (await client.get(path, params=query)).status_code == status


@pytest.mark.parametrize(
    ("call", "status"),
    [
        (b"no json", 400),
        (b"[]", 400),
        (b'{"type":"GET_HEALTH"}', 501),
        (b'{"type":"LAUNCH_NESTED_CONTAINER_SESSION"}', 400),
        (b"x" * 300_000, 400),
        (
            json.dumps(
                {
                    "type": "LAUNCH_NESTED_CONTAINER_SESSION",
                    "launch_nested_container_session": {
                        "container_id": {"value": "s", "parent": {"value": RUN}},
                        "command": {"value": "true"},
                    },
                }
            ).encode(),
            404,  # its container does not run
        ),
    ],
)
async def test_wrong_calls(call: bytes, status: int) -> None:
    async with server(Api()) as client:
        headers = {"content-type": "application/json"}
        assert (await client.post("/api/v1", content=call, headers=headers)).status_code == status


async def test_callers_are_asked_who_they_are(tmp_path: Path) -> None:
    access = AgentAccess(principal="p", secret="s")
    async with server(Api(), access) as client:
        for path in ("/state", "/files/browse", "/files/read", "/files/download"):
            assert (await client.get(path)).status_code == 401
        assert (await client.post("/api/v1", content=b"{}")).status_code == 401
        assert (await client.get("/state", auth=("p", "wrong"))).status_code == 401
        assert (await client.get("/state", headers=dict(access.headers))).status_code == 200


# The settings.


def settings(**changes: Any) -> HostmgrSettings:
    tree = {"storage": {"kind": "sqlite", "path": "x.db"}, **changes}
    return HostmgrSettings.model_validate(tree)


def test_nobody_is_let_in_from_other_hosts_without_credentials(tmp_path: Path) -> None:
    beyond = {"sandboxes": {"port": 5056, "host": "10.0.0.5"}}
    with pytest.raises(ValidationError, match=r"beyond loopback: give agents\.principal"):
        settings(kubernetes=beyond)
    settings(kubernetes=beyond, agents={"principal": "p", "secret_file": tmp_path / "s"})
    settings(kubernetes=beyond, insecure=True)
    settings(kubernetes={"sandboxes": {"port": 5056}})


def test_an_address_that_nobody_finds_is_refused() -> None:
    with pytest.raises(ValidationError, match=r"host 0\.0\.0\.0 is no address"):
        settings(kubernetes={"sandboxes": {"port": 5056, "host": "0.0.0.0"}}, insecure=True)
