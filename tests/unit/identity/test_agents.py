"""Files of tasks from Mesos agents that speak TLS and ask for credentials: each reader of ours."""

from __future__ import annotations

import asyncio
import base64
import datetime
import json
import ssl
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from jobmgr.services.common.agent_http import AgentHttp
from peloton.client.agent_files import AgentFile
from peloton.client.agents import agents_by
from peloton.client.failures import CallError
from peloton.client.sandbox import Agent, SandboxFile
from peloton.client.sync_async import Asyncio
from peloton.config.agents import PLAIN, AgentAccess
from peloton.config.encryption import AgentSettings
from peloton.config.errors import ConfigError
from peloton.config.loading import validated
from peloton.errors import PelotonError
from peloton.identity.agents import agent_access
from peloton.identity.certs import LOOPBACK, authority_in, issue, make_authority
from peloton.web.sandbox import Sandbox

NOW = datetime.datetime.now(datetime.UTC)
SECRET = "secret-of-agents"
RIGHT = "Basic " + base64.b64encode(f"peloton:{SECRET}".encode()).decode()


class _Agent(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        right = self.headers.get("authorization") == RIGHT
        body = json.dumps({"data": "hello", "offset": 5}).encode() if right else b"401 Unauthorized."
        self.send_response(200 if right else 401)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    for name in ("ca", "other"):
        make_authority(tmp_path / name, name, NOW)
    made = issue(tmp_path / "ca", "agent", LOOPBACK, 1, NOW)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Agent)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield int(server.server_address[1])
    server.shutdown()
    thread.join()
    server.server_close()


def private(file: Path, text: str) -> Path:
    file.touch(0o600)
    file.write_text(text)
    return file


def access(folder: Path, ca: str = "ca", secret: str = SECRET) -> AgentAccess:
    """As the daemons and the web UI have it, by settings."""
    file = private(folder / "secret", secret + "\n")
    tls = {"tls": True, "ca_file": authority_in(folder / ca).certificate}
    return agent_access(AgentSettings(**tls, principal="peloton", secret_file=file))


def by_jobmgr(port: int, given: AgentAccess) -> str:
    found: Any = asyncio.run(AgentHttp(timeout=60, access=given).get(f"127.0.0.1:{port}", "/state"))
    return str(found["data"])


def by_web(port: int, given: AgentAccess) -> str:
    return asyncio.run(Sandbox("127.0.0.1", port, "/run", 60, given).read("stdout", 0)).decode()


def by_client(port: int, given: AgentAccess) -> str:
    return SandboxFile(Agent("127.0.0.1", port, 60, given), "/run/stdout").read(0).decode()


def by_layer(port: int, given: AgentAccess) -> str:
    return asyncio.run(_by_layer(AgentFile("127.0.0.1", port, "/run/stdout", given))).decode()


async def _by_layer(file: AgentFile) -> bytes:
    whole = b"".join([piece async for piece in file.download(Asyncio())])
    assert b"hello" in whole
    return await file.read(Asyncio(), 0)


READERS: list[Callable[[int, AgentAccess], str]] = [by_jobmgr, by_web, by_client, by_layer]


@pytest.mark.parametrize("reader", READERS)
def test_agents_are_read_by_tls_with_credentials(
    port: int, tmp_path: Path, reader: Callable[[int, AgentAccess], str]
) -> None:
    assert reader(port, access(tmp_path)) == "hello"
    for refused in (access(tmp_path, "other"), access(tmp_path, secret="wrong"), PLAIN):
        with pytest.raises((PelotonError, CallError)) as caught:
            reader(port, refused)
        assert SECRET not in str(caught.value)


def test_a_client_is_given_files(port: int, tmp_path: Path) -> None:
    auth = private(tmp_path / "auth.yaml", f"{{username: peloton, password: {SECRET}}}")
    assert by_client(port, agents_by(str(authority_in(tmp_path / "ca").certificate), str(auth))) == "hello"
    assert agents_by("", None) is PLAIN
    with pytest.raises(PelotonError, match="asks for credentials: give --agentAuth FILE"):
        by_client(port, agents_by(str(authority_in(tmp_path / "ca").certificate), None))


@pytest.mark.parametrize(
    ("tree", "said"),
    [
        ({"ca_file": "/a"}, "ca_file is given, but tls is not true"),
        ({"principal": "a"}, "principal and secret_file must be given together"),
    ],
)
def test_half_of_the_settings_are_refused(tree: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        validated(AgentSettings, tree, "test")


def test_files_that_are_wrong_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"agents\.ca_file: .*No such file"):
        agent_access(AgentSettings(tls=True, ca_file=tmp_path / "none"))
    file = private(tmp_path / "secret", "one\ntwo")
    with pytest.raises(ConfigError, match="is not one line with a secret"):
        agent_access(AgentSettings(principal="a", secret_file=file))
    file.chmod(0o644)
    with pytest.raises(ConfigError, match="its mode 0644 lets others use it"):
        agent_access(AgentSettings(principal="a", secret_file=file))
