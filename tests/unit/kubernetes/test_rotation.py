"""Credentials that rotate: tokens of files and programs, and certificates."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from peloton.errors import Unavailable
from peloton.kubernetes.access import Access, from_kubeconfig, in_cluster
from peloton.kubernetes.client import ApiClient
from peloton.kubernetes.programs import VERSIONS, Program, TokenProgram
from tests.contract.mesos_driver.certificates import Authority, Identity

START = 1_800_000_000.0


class Plugin:
    """A program for credentials, which counts how often it is run."""

    def __init__(self, folder: Path) -> None:
        self.now = START
        self._runs, self._answer = folder / "runs", folder / "answer"
        self._runs.write_text("")
        body = (
            "import os, pathlib, sys\n"
            "told = os.environ['KUBERNETES_EXEC_INFO'] + os.environ['REGION']\n"
            f"pathlib.Path({str(self._runs)!r}).open('a').write(told + '\\n')\n"
            f"text = pathlib.Path({str(self._answer)!r}).read_text()\n"
            "sys.exit(text) if text.startswith('error') else print(text)\n"
        )
        script = folder / "plugin.py"
        script.write_text(body)
        program = Program([sys.executable, str(script)], VERSIONS[0], {"REGION": "north"})
        self.program = TokenProgram(program, lambda: self.now)

    @property
    def runs(self) -> list[str]:
        return self._runs.read_text().splitlines()

    def gives(self, token: str, seconds: float | None = None) -> None:
        """Let it give a token from now on, which ends after some seconds."""
        status: dict[str, Any] = {"token": token}
        if seconds is not None:
            ends = datetime.fromtimestamp(self.now + seconds, UTC)
            status["expirationTimestamp"] = ends.strftime("%Y-%m-%dT%H:%M:%SZ")
        self.writes(json.dumps({"kind": "ExecCredential", "apiVersion": VERSIONS[0], "status": status}))

    def writes(self, text: str) -> None:
        self._answer.write_text(text)


@pytest.fixture
def plugin(tmp_path: Path) -> Plugin:
    return Plugin(tmp_path)


async def test_a_program_is_run_again_60_seconds_before_its_token_ends(plugin: Plugin) -> None:
    plugin.gives("first", 600)
    assert [await plugin.program.token() for _ in range(3)] == ["first"] * 3
    plugin.now += 539
    plugin.gives("second", 600)
    assert await plugin.program.token() == "first"
    plugin.now += 1
    assert await asyncio.gather(*(plugin.program.token() for _ in range(9))) == ["second"] * 9
    assert len(plugin.runs) == 2
    assert plugin.runs[0].endswith("}north") and '"interactive": false' in plugin.runs[0]


async def test_a_token_without_an_end_is_kept_until_it_is_refused(plugin: Plugin) -> None:
    plugin.gives("first")
    await plugin.program.token()
    plugin.now += 1e6
    assert await plugin.program.token() == "first"
    plugin.gives("second")
    plugin.program.reject("an older one")
    assert await plugin.program.token() == "first"
    plugin.program.reject("first")
    assert await plugin.program.token() == "second"


async def test_a_program_that_fails_leaves_the_token_until_its_end(plugin: Plugin) -> None:
    plugin.gives("first", 100)
    await plugin.program.token()
    plugin.writes("error: no network")
    plugin.now += 50
    assert [await plugin.program.token() for _ in range(3)] == ["first"] * 3
    assert len(plugin.runs) == 2, "it is left alone for a while"
    plugin.now += 50
    with pytest.raises(Unavailable, match="exit code 1: error: no network"):
        await plugin.program.token()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"status": {}}', '{"status": {"token": "x", "expirationTimestamp": "soon"}}']
)
async def test_what_is_no_credential(plugin: Plugin, text: str) -> None:
    plugin.writes(text)
    with pytest.raises(Unavailable, match="the program for credentials"):
        await plugin.program.token()


async def test_a_program_that_is_not_there() -> None:
    with pytest.raises(Unavailable, match="No such file"):
        await TokenProgram(Program(["/no/such/program"], VERSIONS[0])).token()


def test_a_kubeconfig_with_a_program(tmp_path: Path) -> None:
    given = {
        "apiVersion": VERSIONS[1], "command": "./get-token", "args": ["--cluster", "a"],
        "env": [{"name": "REGION", "value": "north"}], "interactiveMode": "IfAvailable",
    }  # fmt: skip
    tree = {
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "k", "cluster": {"server": "http://k"}}],
        "users": [{"name": "u", "user": {"exec": given}}],
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
    }
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(tree))
    access = from_kubeconfig(file)
    assert access.renews and access.program is not None


# Calls.


@asynccontextmanager
async def serving(taken: set[str], calls: list[str], identity: Identity | None = None) -> AsyncIterator[int]:
    """A server that takes some tokens, and answers any call; yield its port."""

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        text = (await reader.readuntil(b"\r\n\r\n")).decode()
        token = next(
            (line[22:] for line in text.splitlines() if line.lower().startswith("authorization")), ""
        )
        calls.append(token)
        status = "200 OK" if token in taken else "401 Unauthorized"
        writer.write(f"HTTP/1.1 {status}\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{{}}".encode())
        await writer.drain()
        writer.close()

    context = None
    if identity is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(identity.certificate, identity.key)
    async with await asyncio.start_server(answer, "127.0.0.1", 0, ssl=context) as server:
        yield server.sockets[0].getsockname()[1]


async def test_a_call_that_is_refused_is_made_again_with_another_token(plugin: Plugin) -> None:
    plugin.gives("first")
    calls: list[str] = []
    async with (
        serving({"second"}, calls) as port,
        ApiClient(Access(f"http://127.0.0.1:{port}", program=plugin.program)) as client,
    ):
        await plugin.program.token()
        plugin.gives("second")
        assert await client.call("GET", "/x") == {}
        assert calls == ["first", "second"]
        plugin.program.reject("second")
        plugin.gives("third")
        with pytest.raises(Unavailable, match="HTTP status 401"):
            await client.call("GET", "/x")
        assert calls[2:] == ["third", "third"], "once more, and no more"


async def test_a_token_of_its_own_that_is_refused_is_no_refusal_of_the_call() -> None:
    calls: list[str] = []
    async with (
        serving(set(), calls) as port,
        ApiClient(Access(f"http://127.0.0.1:{port}", token="old")) as client,
    ):
        with pytest.raises(Unavailable, match="HTTP status 401"):
            await client.call("GET", "/x")
        with pytest.raises(Unavailable, match="HTTP status 401"):
            async for _ in client.watch("/x"):
                pass
    assert calls == ["old", "old"]


async def test_a_rotated_authority_counts_for_new_connections(tmp_path: Path) -> None:
    first, second = Authority(tmp_path, "first"), Authority(tmp_path, "second")
    for name, content in (("namespace", "n"), ("token", "t")):
        (tmp_path / name).write_text(content)
    shutil.copy(first.file, tmp_path / "ca.crt")
    old = first.identity("old", "IP:127.0.0.1")
    new = second.identity("new", "IP:127.0.0.1")
    calls: list[str] = []
    async with serving({"t"}, calls, old) as before, serving({"t"}, calls, new) as after:

        def client(port: int) -> ApiClient:
            variables = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(port)}
            return ApiClient(in_cluster(tmp_path, variables))

        async with client(before) as to_old, client(after) as to_new:
            assert await to_old.call("GET", "/x") == {}
            with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await to_new.call("GET", "/x")
            shutil.copy(second.file, tmp_path / "ca.crt")
            assert await to_new.call("GET", "/x") == {}
            with pytest.raises(Unavailable, match="CERTIFICATE_VERIFY_FAILED"):
                await to_old.call("GET", "/x")
            (tmp_path / "ca.crt").write_text("is being written")
            assert await to_new.call("GET", "/x") == {}
