"""Commands beside pods: real ones of the project's own agent, and everything that is refused."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import pytest
from starlette.applications import Starlette
from starlette.testclient import TestClient, WebSocketDenialResponse, WebSocketTestSession
from starlette.websockets import WebSocketDisconnect

from peloton.calls import web
from peloton.errors import PermissionDenied
from peloton.private.access import access_pb2
from peloton.private.jobmgr.exec import exec_pb2
from peloton.web.config import TerminalSettings, WebSettings
from peloton.web.kube.core import channels
from peloton.web.kube.core.refusals import Refusal
from peloton.web.views.terminal import session
from tests.unit.cli.session_agent import PATH, SessionAgent
from tests.unit.kube.world import DEPLOYMENTS, PODS, World, deployment_manifest
from tests.unit.web.fake import ORIGIN, application, browser
from tests.unit.web.test_terminal import alive
from tests.waiting import wait_until

SOCKET = ORIGIN.replace("http:", "ws:")


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[SessionAgent]:
    made = SessionAgent(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def world(agent: SessionAgent) -> World:
    made = World()
    host, port = agent.address
    ids = itertools.count(1)
    made.cluster.answers[web.START_SESSION] = lambda _: exec_pb2.StartSessionResponse(
        session=f"session-{next(ids)}", hostname=host, port=str(port), paths=[PATH]
    )
    made.cluster.answers[web.END_SESSION] = exec_pb2.EndSessionResponse()
    made.cluster.answers[web.CHECK_METHODS["jobmgr"]] = access_pb2.CheckMethodsResponse(
        verdicts=[access_pb2.MethodVerdict(allowed=True)]
    )
    assert made.create(DEPLOYMENTS, deployment_manifest()).status_code == 201
    return made


def pod_of(world: World) -> str:
    return str(world.client.get(PODS).json()["items"][1]["metadata"]["name"])


@contextmanager
def opened(
    world: World, *command: str, client: TestClient | None = None, version: str = channels.V5, **query: Any
) -> Iterator[WebSocketTestSession]:
    client = client or world.client
    words = "&".join(f"command={word}" for word in command)
    rest = "".join(f"&{key}={value}" for key, value in query.items())
    url = f"{SOCKET}{PODS}/{pod_of(world)}/exec?{words}{rest}"
    terminals = cast(Starlette, client.app).state.terminals
    before = terminals.open
    with client.websocket_connect(url, subprotocols=[version]) as socket:
        assert socket.accepted_subprotocol == version
        yield socket
        socket.close()
        wait_until(lambda: terminals.open <= before, "the session to end")


def told(socket: WebSocketTestSession) -> tuple[bytes, bytes, dict[str, Any]]:
    """What a command prints on each stream, and how it has ended."""
    streams = {channels.STDOUT: b"", channels.STDERR: b""}
    while True:
        message = socket.receive_bytes()
        if message[0] == channels.ERROR:
            return streams[1], streams[2], json.loads(message[1:])
        streams[message[0]] += message[1:]


def test_a_command_has_two_streams_and_an_exit_code(world: World) -> None:
    with opened(world, "sh", "-c", "echo out; echo wrong >%262; exit 3", stdout="true") as socket:
        out, wrong, status = told(socket)
    assert (out, wrong) == (b"out\n", b"wrong\n")
    assert status["reason"] == "NonZeroExitCode"
    assert status["details"]["causes"] == [{"reason": "ExitCode", "message": "3"}]


def test_a_word_is_a_program_and_no_line_of_a_shell(world: World) -> None:
    with opened(world, "echo", "$HOME;", "a b") as socket:
        out, _, status = told(socket)
    assert out == b"$HOME; a b\n"
    assert status == {"metadata": {}, "status": "Success"}


def test_input_goes_to_the_command_until_it_is_closed(world: World) -> None:
    with opened(world, "cat", stdin="true") as socket:
        socket.send_bytes(b"\0one\n")
        socket.send_bytes(b"\0")  # nothing, and no end
        socket.send_bytes(b"\0two\n")
        socket.send_bytes(bytes([channels.CLOSE, channels.STDIN]))
        out, _, status = told(socket)
    assert out == b"one\ntwo\n"
    assert status["status"] == "Success"


def test_a_command_without_input_has_an_empty_one(world: World) -> None:
    with opened(world, "cat") as socket:
        assert told(socket)[2]["status"] == "Success"


def test_more_input_than_may_wait_arrives_whole(world: World) -> None:
    piece = b"\0" + b"x" * 60_000
    with opened(world, "wc", "-c", stdin="true") as socket:
        for _ in range(40):
            socket.send_bytes(piece)
        socket.send_bytes(bytes([channels.CLOSE, channels.STDIN]))
        out, _, _ = told(socket)
    assert out.strip() == b"2400000"


def test_a_terminal_has_the_size_that_is_told(world: World) -> None:
    with opened(world, "sh", "-c", "read line; stty size", stdin="true", tty="true") as socket:
        socket.send_bytes(b'\4{"Width": 101, "Height": 33}')
        socket.send_bytes(b"\0\n")
        out, _, status = told(socket)
    assert b"33 101" in out
    assert status["status"] == "Success"


def test_the_older_protocol_sends_texts(world: World) -> None:
    with opened(world, "head", "-n1", version=channels.V4, stdin="true") as socket:
        socket.send_text("\0hi\n")
        assert told(socket)[0] == b"hi\n"


def test_the_command_ends_with_the_client(world: World) -> None:
    with opened(world, "sh", "-c", "echo $$; exec sleep 600") as socket:
        pid = int(socket.receive_bytes()[1:])
        assert alive(pid)
    wait_until(lambda: not alive(pid), "the command to end")
    assert [name for _, name, _ in world.cluster.asked].count("EndSession") == 1


@pytest.mark.parametrize(
    "message",
    [b"\1x", b"\4", b"\4[]", b'\4{"Width": true, "Height": 1}', b'\4{"Width": -1, "Height": 1}', b"\x09"],
)
def test_a_message_that_cannot_be_read_ends_the_command(world: World, message: bytes) -> None:
    with opened(world, "sleep", "600", stdin="true") as socket:
        socket.send_bytes(message)
        _, _, status = told(socket)
    assert "cannot be read" in status["message"]


def test_a_command_that_says_nothing_for_long_ends(world: World) -> None:
    settings = WebSettings(poll_seconds=0.2, terminals=TerminalSettings(idle_seconds=0.3))
    client = browser(application(world.cluster, settings=settings))
    with opened(world, "sleep", "600", client=client) as socket:
        assert "nothing was typed or printed" in told(socket)[2]["message"]


def test_who_may_not_go_on_is_cut_off(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("peloton.web.kube.execs.CHECK_SECONDS", 0.05)
    denied = access_pb2.MethodVerdict(allowed=False, reason="no right")
    with opened(world, "sleep", "600") as socket:
        world.cluster.answers[web.CHECK_METHODS["jobmgr"]] = access_pb2.CheckMethodsResponse(
            verdicts=[denied]
        )
        assert "no right" in told(socket)[2]["message"]
    assert session.CHECK_SECONDS > 1


def test_who_may_not_run_commands_is_told_so(world: World) -> None:
    world.cluster.answers[web.START_SESSION] = PermissionDenied("viewer may not call StartSession")
    with opened(world, "id") as socket:
        _, _, status = told(socket)
    assert (status["code"], status["reason"]) == (403, "Forbidden")


def test_commands_count_as_terminals(world: World) -> None:
    settings = WebSettings(poll_seconds=0.2, terminals=TerminalSettings(per_user=1))
    client = browser(application(world.cluster, settings=settings))
    with opened(world, "sh", "-c", "echo go; sleep 600", client=client) as socket:
        assert socket.receive_bytes() == b"\1go\n"
        with opened(world, "id", client=client) as other:
            assert told(other)[2]["code"] == 429


@pytest.mark.parametrize(
    ("change", "code", "why"),
    [
        ({"name": "web-00000-0-1"}, 404, "not found"),
        ({"query": ""}, 400, "command"),
        ({"query": f"command={'x' * 40_000}"}, 400, "32,000 characters"),
        ({"query": "command=id&container=other"}, 400, "container other is not valid"),
        ({"protocols": ["channel.k8s.io"]}, 400, "channel.k8s.io is not v5"),
        ({"protocols": []}, 400, "none is not v5"),
        ({"last": "attach"}, 501, "pods/attach is not built: what a task prints is in its logs"),
        ({"last": "portforward"}, 501, "pods/portforward is not built: ports of a pod"),
        ({"last": "log"}, 400, "not served by WebSocket"),
        ({"origin": "http://elsewhere"}, 403, "another site"),
        ({"origin": "null"}, 403, "another site"),
    ],
)
def test_what_is_refused_before_it_begins(world: World, change: dict[str, Any], code: int, why: str) -> None:
    name, query = change.get("name", pod_of(world)), change.get("query", "command=id")
    url = f"{SOCKET}{PODS}/{name}/{change.get('last', 'exec')}?{query}"
    headers = {"origin": change["origin"]} if "origin" in change else {}
    offered = change.get("protocols", [channels.V5])
    with (
        pytest.raises((WebSocketDenialResponse, WebSocketDisconnect)) as caught,
        world.client.websocket_connect(url, subprotocols=offered, headers=headers),
    ):
        pass
    answer = cast(WebSocketDenialResponse, caught.value)
    assert answer.status_code == code
    assert why in answer.text
    assert "StartSession" not in [called for _, called, _ in world.cluster.asked]


def test_a_pod_that_has_ended_runs_no_commands(world: World) -> None:
    name = pod_of(world)
    world.end("SUCCEEDED")
    answer = world.client.post(f"{PODS}/{name}/exec", params={"command": "id"})
    assert answer.status_code == 400
    assert "does not run: it is Succeeded" in answer.json()["message"]


def test_who_knows_no_websockets_is_told_what_is_needed(world: World) -> None:
    answer = world.client.post(f"{PODS}/{pod_of(world)}/exec", params={"command": "id"})
    assert "use kubectl 1.31 or newer" in answer.json()["message"]
    assert world.client.post(f"{PODS}/none-00000-0-1/exec", params={"command": "id"}).status_code == 404


def test_only_the_newer_protocol_closes_input() -> None:
    close = bytes([channels.CLOSE, channels.STDIN])
    assert channels.given(close, channels.V5) == b""
    assert channels.given(bytes([channels.CLOSE, channels.STDOUT]), channels.V5) is None
    with pytest.raises(ValueError, match="255"):
        channels.given(close, channels.V4)
    assert channels.given(b'\4{"Width": 0, "Height": 0}', channels.V5) is None
    assert channels.given(b'\4{"Width": 5000, "Height": 2}', channels.V5) == (2, channels.LARGEST_SIZE)
    assert channels.given(b"", channels.V5) is None


def test_a_command_has_a_bounded_number_of_words() -> None:
    channels.check_command(["x"] * channels.MOST_WORDS)
    with pytest.raises(Refusal, match="1,000 words"):
        channels.check_command(["x"] * (channels.MOST_WORDS + 1))
