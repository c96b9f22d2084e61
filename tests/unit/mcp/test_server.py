"""What the server promises its clients: schemas, bounds, in whose name calls are made, transports."""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import anyio
import click.testing
import httpx2
import pytest
from mcp import Client
from mcp.server.mcpserver import MCPServer
from mcp_types import TextContent

from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.cli.app import cli
from peloton.cli.session import Session
from peloton.cli.targets import Targets, TargetSource
from peloton.client.auth import BasicAuth, BearerAuth
from peloton.errors import Unauthenticated
from peloton.mcp.bounds import MOST_SPEC_CHARACTERS
from peloton.mcp.server import MOST_USERS, Users, auth_of, make_server
from peloton.mcp.serving import MOST_MESSAGE_BYTES, PATH, BoundedLines, http_app
from peloton.private.access import access_pb2
from tests.unit.cli.fakes import FakeDaemons, serving

BASIC = "Basic " + base64.b64encode(b"ana:geheim").decode()


@pytest.fixture
def daemons() -> Iterator[tuple[FakeDaemons, Session]]:
    fake = FakeDaemons()
    fake.answers["GetCaller"] = access_pb2.GetCallerResponse(name="ana", kind="user")
    with serving(fake) as address:
        source = TargetSource(addresses=dict.fromkeys(("jobmgr", "resmgr", "hostmgr"), address))
        yield fake, Session(targets=Targets(source), timeout=10.0, quiet=True)


@pytest.fixture
def server(daemons: tuple[FakeDaemons, Session]) -> Iterator[MCPServer[Any]]:
    users = Users(daemons[1])
    yield make_server(users)
    users.close()


async def said(server: MCPServer[Any], tool: str, **arguments: Any) -> str:
    async with Client(server) as client:
        result = await client.call_tool(tool, arguments)
        text = "".join(part.text for part in result.content if isinstance(part, TextContent))
        assert result.is_error, text
        return text


async def test_every_tool_says_what_it_does_and_what_it_takes_and_answers(server: MCPServer[Any]) -> None:
    async with Client(server) as client:
        tools = (await client.list_tools()).tools
    assert len(tools) == 21
    for tool in tools:
        assert tool.description and tool.description.endswith("."), tool.name
        assert tool.output_schema and tool.output_schema["type"] == "object", tool.name
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint == (tool.name != "apply_plan"), tool.name
        for name, schema in tool.input_schema["properties"].items():
            kinds = schema.get("anyOf", [schema])
            bounded = {"maxLength", "maximum", "enum", "maxItems", "maxProperties"}
            assert any(bounded & kind.keys() or kind.get("type") in ("boolean", "null") for kind in kinds), (
                tool.name,
                name,
            )
            assert all(
                bounded & kind.keys() for kind in kinds if kind.get("type") in ("string", "integer")
            ), name


async def test_what_is_too_large_is_refused_before_anything_is_called(
    server: MCPServer[Any], daemons: tuple[FakeDaemons, Session]
) -> None:
    assert "at most" in await said(server, "plan_run", spec="x" * (MOST_SPEC_CHARACTERS + 1))
    assert "less than or equal to 100" in await said(server, "find_jobs", limit=101)
    assert "one of" in await said(server, "find_jobs", states=["SLEEPING"])
    assert daemons[0].asked == []


async def test_all_that_is_wrong_with_a_spec_is_told(server: MCPServer[Any]) -> None:
    text = await said(
        server, "plan_run", spec="name: web\ninstanceCuont: 3\ndefaultConfig: {resource: {cpuLimit: x}}"
    )
    assert "instanceCuont" in text and "cpuLimit" in text


async def test_several_jobs_of_a_name_are_listed(
    server: MCPServer[Any], daemons: tuple[FakeDaemons, Session]
) -> None:
    ids = [f"{digit * 8}-0000-4000-8000-000000000000" for digit in "ab"]
    jobs = [job_pb2.JobSummary(name="web", id={"value": each}) for each in ids]  # type: ignore[arg-type]
    daemons[0].answers["Query"] = job_pb2.QueryResponse(
        results=jobs, pagination=query_pb2.Pagination(total=2)
    )
    text = await said(server, "why_job", job="web")
    assert "may be 2 jobs" in text and all(each in text for each in ids)


async def test_a_token_that_was_not_shown_is_refused(server: MCPServer[Any]) -> None:
    assert "no plan has this token" in await said(server, "apply_plan", token="x" * 32)


@pytest.mark.parametrize(
    ("header", "auth"),
    [
        (None, None),
        (BASIC, BasicAuth("ana", "geheim")),
        ("Bearer abc.def", BearerAuth("abc.def")),
    ],
)
def test_who_calls_is_told_by_the_header(header: str | None, auth: object) -> None:
    assert auth_of(header) == auth


@pytest.mark.parametrize("header", ["Basic x", "Digest a", "Bearer", "Bearer a b"])
def test_a_header_that_says_nobody_is_refused(header: str) -> None:
    with pytest.raises(Unauthenticated):
        auth_of(header)


def test_connections_of_the_users_of_long_ago_are_closed(daemons: tuple[FakeDaemons, Session]) -> None:
    users = Users(daemons[1], by_header=True)
    first = users.session("Bearer user-0")
    assert users.session("Bearer user-0") is first
    for number in range(1, MOST_USERS + 1):
        users.session(f"Bearer user-{number}")
    assert users.session("Bearer user-0") is not first
    users.close()


async def http(server: MCPServer[Any], headers: dict[str, str], **body: Any) -> httpx2.Response:
    app = http_app(server, ["localhost"])
    transport = httpx2.ASGITransport(app)
    async with (
        server.session_manager.run(),
        httpx2.AsyncClient(transport=transport, base_url="http://localhost:5299") as client,
    ):
        accept = {"accept": "application/json, text/event-stream"}
        return await client.post(PATH, headers={**accept, **headers}, **body)


CALL = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}
INITIALIZED = {"mcp-protocol-version": "2025-06-18"}


async def test_a_request_by_http_is_made_in_the_name_of_its_header(
    daemons: tuple[FakeDaemons, Session],
) -> None:
    fake, own = daemons
    own.basic_auth = "/nonexistent"  # ours is never used
    users = Users(own, by_header=True)
    answer = await http(make_server(users), {**INITIALIZED, "authorization": BASIC}, json=CALL)
    assert answer.status_code == 200 and answer.json()["result"]["structuredContent"]["name"] == "ana", (
        answer.text
    )
    ((_, _, metadata),) = fake.asked
    assert (metadata["username"], metadata["password"]) == ("ana", "geheim")
    fake.asked.clear()
    answer = await http(make_server(users), INITIALIZED, json=CALL)
    ((_, _, metadata),) = fake.asked
    assert not {"username", "password", "authorization"} & metadata.keys()
    answer = await http(make_server(users), {**INITIALIZED, "authorization": "Basic x"}, json=CALL)
    assert answer.json()["result"]["isError"] and "NAME:PASSWORD" in answer.text
    users.close()


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"host": "evil.example:5299"}, 421), ({"origin": "https://evil.example"}, 403)],
)
async def test_other_sites_cannot_make_a_browser_call(
    server: MCPServer[Any], headers: dict[str, str], status: int
) -> None:
    assert (await http(server, headers, json=CALL)).status_code == status


async def test_a_body_that_is_too_long_is_refused(server: MCPServer[Any]) -> None:
    answer = await http(server, {"content-type": "application/json"}, content=b" " * (MOST_MESSAGE_BYTES + 1))
    assert answer.status_code == 413


def test_a_line_that_is_too_long_is_read_over() -> None:
    lines = BoundedLines(io.BytesIO(b"first\n" + b"x" * 1000 + b"\nlast\n"), most=100)

    async def read() -> list[str]:
        return [line async for line in lines]

    assert anyio.run(read) == ["first\n", "{}\n", "last\n"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--http", "--host", "0.0.0.0"], "in plain"),
        (["--http", "--host", "0.0.0.0", "--certificate", "c", "--key", "k"], "--host-name"),
        (["--http", "--certificate", "c"], "belong together"),
        (["--host-name", "a"], "are for --http"),
    ],
)
def test_what_would_not_be_safe_is_refused(arguments: list[str], says: str) -> None:
    result = click.testing.CliRunner().invoke(cli, ["mcp", *arguments])
    assert result.exit_code and says in f"{result.output}{result.exception}"


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.split(".")[0] in ("mcp", "mcp_types")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("peloton.mcp.server", "peloton.mcp.serving"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "mcp", None)
    result = click.testing.CliRunner().invoke(cli, ["mcp"])
    assert "pip install 'peloton[mcp]'" in str(result.exception)


async def test_the_page_names_each_tool(server: MCPServer[Any]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "mcp.md").read_text()
    async with Client(server) as client:
        names = {tool.name for tool in (await client.list_tools()).tools}
    assert names <= set(re.findall(r"`([a-z_]+)`", page))


def test_other_commands_do_not_import_the_sdk() -> None:
    code = "import sys; from peloton.cli.__main__ import main; main(['--help']); main(['mcp', '--help'])"
    code += "; assert not {'mcp', 'pydantic', 'starlette'} & sys.modules.keys(), 'imported'"
    subprocess.run([sys.executable, "-c", code], check=True, stdout=subprocess.DEVNULL)
