"""The terminal in a task: a real shell of the project's own agent, and everything that is refused."""

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

from peloton.api.v0.task import task_pb2
from peloton.calls import web
from peloton.errors import PermissionDenied, Refused, Unauthenticated
from peloton.private.access import access_pb2
from peloton.private.jobmgr.exec import exec_pb2
from peloton.web.config import TerminalSettings, WebSettings
from peloton.web.views.terminal import bridge, pages
from tests.unit.cli.session_agent import PATH, SessionAgent
from tests.unit.web.fake import ORIGIN, FakeCluster, application, browser, token
from tests.unit.web.jobs_cluster import JOB, cluster, task_info
from tests.waiting import wait_until

PAGE = f"/jobs/{JOB}/instances/1/terminal"
SOCKET = ORIGIN.replace("http:", "ws:")
SIZE = {"rows": 33, "columns": 101}
WHY = "user viewer may not call it"
PROMPT = "what now? "


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[SessionAgent]:
    (tmp_path / ".bashrc").write_text(f"PS1='{PROMPT}'\n")
    made = SessionAgent(tmp_path)
    yield made
    made.stop()


@pytest.fixture
def found(agent: SessionAgent) -> FakeCluster:
    made = cluster()
    host, port = agent.address
    ids = itertools.count(1)
    made.answers[web.START_SESSION] = lambda _: exec_pb2.StartSessionResponse(
        session=f"session-{next(ids)}", hostname=host, port=str(port), paths=[PATH]
    )
    made.answers[web.END_SESSION] = exec_pb2.EndSessionResponse()
    made.answers[web.CHECK_METHODS["jobmgr"]] = verdicts
    return made


def verdicts(request: access_pb2.CheckMethodsRequest) -> access_pb2.CheckMethodsResponse:
    return access_pb2.CheckMethodsResponse(
        verdicts=[access_pb2.MethodVerdict(allowed=True) for _ in request.methods]
    )


def denials(request: access_pb2.CheckMethodsRequest) -> access_pb2.CheckMethodsResponse:
    return access_pb2.CheckMethodsResponse(
        verdicts=[
            access_pb2.MethodVerdict(allowed="StartSession" not in method, reason=WHY)
            for method in request.methods
        ]
    )


def client_of(made: FakeCluster, **terminals: Any) -> TestClient:
    settings = WebSettings(poll_seconds=0.2, terminals=TerminalSettings(**terminals))
    return browser(application(made, settings=settings))


@contextmanager
def opened(client: TestClient, size: Any = SIZE) -> Iterator[WebSocketTestSession]:
    protocol = f"peloton.csrf.{token(client)}"
    before = cast(Starlette, client.app).state.terminals.open
    with client.websocket_connect(
        f"{SOCKET}{PAGE}/session", subprotocols=[protocol], headers={"origin": ORIGIN}
    ) as socket:
        assert socket.accepted_subprotocol == protocol
        socket.send_text(json.dumps(size))
        yield socket
        socket.close()
        # Else the client of tests cancels the handler before it has ended the session, as no server does.
        terminals = cast(Starlette, client.app).state.terminals
        wait_until(lambda: terminals.open <= before, "the session to end")


def told(socket: WebSocketTestSession, until: bytes = b"\0 never") -> tuple[bytes, str]:
    """Return what is shown up to some text, or to the end, and why it has ended."""
    shown = b""
    while until not in shown:
        message = socket.receive()
        if message["type"] == "websocket.close":
            return shown, ""
        if message.get("text"):
            return shown, json.loads(message["text"])["over"]
        shown += message["bytes"]
    return shown, ""


def typed(socket: WebSocketTestSession, line: str) -> None:
    """Type a line at the prompt: of what is typed before a shell has begun, it may lose some."""
    told(socket, PROMPT.encode())
    socket.send_bytes(f"{line}\r".encode())


def alive(pid: int) -> bool:
    """Return whether a process is there, and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def requests(made: FakeCluster, name: str) -> list[Any]:
    return [request for _, called, request in made.asked if called == name]


def test_a_shell_answers_and_has_the_size_of_the_window(found: FakeCluster) -> None:
    with opened(client_of(found)) as socket:
        typed(socket, "stty size; echo $((6*7)) $COLOUR")
        shown, _ = told(socket, b"42 green")
        assert b"33 101" in shown
        socket.send_text('{"rows": 20, "columns": 70}')
        socket.send_bytes(b"while [ \"$(stty size)\" != '20 70' ]; do sleep 0.05; done; echo re''sized\r")
        told(socket, b"resized")
        socket.send_bytes(b"exit 5\r")
        assert told(socket)[1] == "the shell has ended with exit code 5"
    (begin,), (end,) = requests(found, "StartSession"), requests(found, "EndSession")
    assert (begin.job_id.value, begin.instance) == (end.job_id.value, end.instance) == (JOB, 1)
    assert end.session == "session-1"


def test_a_shell_ends_with_its_browser(found: FakeCluster, tmp_path: Path) -> None:
    with opened(client_of(found)) as socket:
        typed(socket, "echo $$ > pid; echo rea''dy; sleep 1000")
        told(socket, b"ready")
        pid = int((tmp_path / "pid").read_text())
        assert alive(pid)
    assert len(requests(found, "EndSession")) == 1
    wait_until(lambda: not alive(pid), "the shell to end")


def test_output_waits_for_the_browser_to_show_it(
    found: FakeCluster, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(bridge, "AHEAD_BYTES", 1000)
    with opened(client_of(found)) as socket:
        typed(socket, "head -c 300000 /dev/zero | tr '\\0' x; echo; echo en''d")
        shown = 0
        while True:
            message = socket.receive()
            assert "bytes" in message, message
            shown += len(message["bytes"])
            socket.send_text(json.dumps({"shown": shown}))
            if b"end" in message["bytes"]:
                break
        assert shown > 300_000
        socket.send_text('{"shown": 1}')
        assert "shown: 1 is not a number from" in told(socket)[1]


@pytest.mark.parametrize(
    ("size", "why"),
    [
        ({"rows": 0, "columns": 80}, "rows: 0 is not a number from 1 to 1000"),
        ({"rows": 24, "columns": "80"}, "columns: '80' is not a number from 1 to 1000"),
        ({"rows": 24}, "columns: is missing"),
        ({"shown": 0}, "first message"),
        ([1], "is not an object"),
    ],
)
def test_what_is_no_size_is_refused(found: FakeCluster, size: Any, why: str) -> None:
    with opened(client_of(found), size) as socket:
        assert why in told(socket)[1]
    assert not requests(found, "StartSession")


def test_who_may_not_run_commands_is_refused(found: FakeCluster) -> None:
    found.answers[web.START_SESSION] = PermissionDenied(WHY)
    found.answers[web.CHECK_METHODS["jobmgr"]] = denials
    client = client_of(found)
    with opened(client) as socket:
        assert told(socket) == (b"", WHY)
    assert not requests(found, "EndSession")
    answer = client.get(PAGE)
    assert answer.status_code == 403 and f"you may not run commands in this task: {WHY}" in answer.text
    page = client.get(PAGE.removesuffix("/terminal")).text
    assert "/terminal" not in page and f"A terminal: not allowed. {WHY.capitalize()}" in page


def test_an_instance_that_does_not_run_has_no_terminal(found: FakeCluster) -> None:
    found.answers[web.START_SESSION] = Refused("instance 1 is PENDING")
    found.answers[web.GET_TASK] = task_pb2.GetResponse(result=task_info(1, "PENDING"))
    client = client_of(found)
    with opened(client) as socket:
        assert told(socket)[1] == "instance 1 is PENDING"
    page = client.get(PAGE).text
    assert "there is a terminal while it is RUNNING" in page and "terminal.js" not in page
    assert "/terminal" not in client.get(PAGE.removesuffix("/terminal")).text


def test_the_page_of_one_that_runs_leads_to_its_terminal(found: FakeCluster) -> None:
    found.answers[web.GET_TASK] = task_pb2.GetResponse(result=task_info(1, "RUNNING"))
    client = client_of(found)
    assert f'href="{PAGE}"' in client.get(PAGE.removesuffix("/terminal")).text
    answer = client.get(PAGE)
    policy = answer.headers["content-security-policy"]
    nonce = policy.partition("'nonce-")[2].partition("'")[0]
    assert f'data-nonce="{nonce}"' in answer.text and len(nonce) > 20
    assert "script-src 'self';" in policy and "style-src 'self' 'nonce-" in policy
    assert nonce not in client.get(PAGE).text


@pytest.mark.parametrize(
    ("headers", "protocols", "status"),
    [
        ({"origin": "http://evil.example"}, None, 403),
        ({"origin": "null"}, None, 403),
        ({}, None, 403),
        ({"origin": ORIGIN}, [], 403),
        ({"origin": ORIGIN}, ["peloton.csrf."], 403),
        ({"origin": ORIGIN}, ["peloton.csrf.another"], 403),
        ({"origin": "http://evil.example", "host": "evil.example"}, None, 421),
    ],
)
def test_another_site_opens_no_terminal(
    found: FakeCluster, headers: dict[str, str], protocols: list[str] | None, status: int
) -> None:
    client = client_of(found)
    own = [f"peloton.csrf.{token(client)}"]
    with (
        pytest.raises(WebSocketDenialResponse) as caught,
        client.websocket_connect(
            f"{SOCKET}{PAGE}/session", subprotocols=own if protocols is None else protocols, headers=headers
        ),
    ):
        pass
    assert caught.value.status_code == status
    assert not requests(found, "StartSession")


def test_a_user_has_few_terminals_and_all_have_a_bound(found: FakeCluster) -> None:
    client = client_of(found, per_user=1)
    with opened(client) as socket:
        typed(socket, "echo $((6*7))")
        told(socket, b"42")
        with opened(client) as second:
            assert "you have 1 terminals open" in told(second)[1]
    with opened(client) as socket:
        typed(socket, "echo $((6*7))")
        told(socket, b"42")
    none = client_of(found, total=0)
    with opened(none) as socket:
        assert "0 terminals are open" in told(socket)[1]
    assert none.get(PAGE).status_code == 409


def test_one_into_which_nothing_is_typed_ends(found: FakeCluster) -> None:
    with opened(client_of(found, idle_seconds=0.3)) as socket:
        assert told(socket)[1] == "nothing was typed for 0.3 s: the session is over"
    assert len(requests(found, "EndSession")) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (denials, f"you may not run commands in this task any more: {WHY}"),
        (Unauthenticated("no such user"), "you are not logged in any more: no such user"),
    ],
)
def test_one_whose_user_loses_the_right_ends(
    found: FakeCluster, monkeypatch: pytest.MonkeyPatch, answer: Any, why: str
) -> None:
    monkeypatch.setattr(pages, "CHECK_SECONDS", 0.1)
    with opened(client_of(found)) as socket:
        typed(socket, "echo $((6*7))")
        told(socket, b"42")
        found.answers[web.CHECK_METHODS["jobmgr"]] = answer
        assert told(socket)[1] == why


def test_what_no_program_reads_is_bounded(found: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bridge, "MOST_TYPED_BYTES", 100)
    with opened(client_of(found)) as socket:
        socket.send_bytes(b"x" * 1000)
        assert "were typed that no program reads" in told(socket)[1]


def test_an_agent_that_is_away(found: FakeCluster) -> None:
    found.answers[web.START_SESSION] = exec_pb2.StartSessionResponse(
        session="s", hostname="127.0.0.1", port="1", paths=[PATH]
    )
    with opened(client_of(found)) as socket:
        assert told(socket)[1] == "the agent at 127.0.0.1:1 cannot be reached: ConnectError"
    assert len(requests(found, "EndSession")) == 1


def test_there_is_no_other_websocket(found: FakeCluster) -> None:
    client = client_of(found)
    with (
        pytest.raises(WebSocketDisconnect),
        client.websocket_connect(
            f"{SOCKET}/live", subprotocols=[f"peloton.csrf.{token(client)}"], headers={"origin": ORIGIN}
        ),
    ):
        pass
