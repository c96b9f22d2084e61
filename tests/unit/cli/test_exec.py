"""`peloton task exec`, with the sessions of the project's own agent, and with what a real one said."""

from __future__ import annotations

import asyncio
import contextlib
import datetime
import itertools
import json
import os
import re
import socket
import ssl
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
import uvloop

from minicluster.mesos.agent import sessions as agent_sessions
from peloton.api.v0.task import task_pb2
from peloton.client.agent_calls import command_info
from peloton.client.agent_session import AgentSession
from peloton.client.agents import agents_by
from peloton.client.sandbox import Agent, AgentUnreachable
from peloton.errors import NotFound, PelotonError
from peloton.identity.certs import LOOPBACK, authority_in, issue, make_authority
from peloton.private.jobmgr.exec import exec_pb2
from peloton.recordio import RECORDIO

from .conftest import Run
from .fakes import FakeDaemons
from .session_agent import CONTAINER, JOB, PATH, SECONDS, SessionAgent

RECORDING = Path(__file__).resolve().parents[4] / "shared" / "mesos" / "13-agent-sandbox" / "exchange.jsonl"


@pytest.fixture
def agent(tmp_path: Path) -> Iterator[SessionAgent]:
    made = SessionAgent(tmp_path)
    yield made
    made.stop()


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def either(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionAgent]:
    """On either event loop that an agent may run on."""
    made = SessionAgent(tmp_path, request.param)
    yield made
    made.stop()


@pytest.mark.parametrize("make_loop", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_command_runs_by_tls(tmp_path: Path, make_loop: Callable[[], asyncio.AbstractEventLoop]) -> None:
    now = datetime.datetime.now(datetime.UTC)
    make_authority(tmp_path, "test", now)
    made = issue(tmp_path, "agent", LOOPBACK, 1, now)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(made.certificate, made.key)
    served = SessionAgent(tmp_path, make_loop, context)
    output: list[bytes] = []
    pieces = iter([b"hello\n", b""])
    try:
        agent = Agent(*served.address, SECONDS, agents_by(str(authority_in(tmp_path).certificate), ""))
        session = AgentSession(agent, CONTAINER, None)
        command = command_info(("cat",))
        assert session.run(command, lambda _, data: output.append(data), lambda: next(pieces)) == 0
    finally:
        served.stop()
    assert b"".join(output) == b"hello\n"


@pytest.fixture(autouse=True)
def running(daemons: FakeDaemons, agent: SessionAgent) -> None:
    host, port = agent.address
    ids = itertools.count(1)
    daemons.answers["StartSession"] = lambda _: exec_pb2.StartSessionResponse(
        session=f"session-{next(ids)}", hostname=host, port=str(port), paths=[PATH]
    )
    daemons.answers["EndSession"] = exec_pb2.EndSessionResponse()


@pytest.fixture
def earlier(daemons: FakeDaemons, agent: SessionAgent) -> None:
    """A job manager of before there was ExecService."""
    daemons.answers["StartSession"] = (grpc.StatusCode.UNIMPLEMENTED, "no such service")
    info = task_pb2.TaskInfo(runtime=task_pb2.RuntimeInfo(state=task_pb2.RUNNING))
    daemons.answers["Get"] = task_pb2.GetResponse(result=info)
    host, port = agent.address
    daemons.answers["BrowseSandbox"] = task_pb2.BrowseSandboxResponse(
        hostname=host, port=str(port), paths=[PATH]
    )


def executed(session: AgentSession, *words: str, read: Callable[[], bytes] | None = None) -> Any:
    found: dict[str, bytes] = {"STDOUT": b"", "STDERR": b""}

    def write(stream: str, data: bytes) -> None:
        found[stream] += data

    return session.run(command_info(words), write, read), found["STDOUT"], found["STDERR"]


@pytest.mark.parametrize(
    ("words", "code", "out", "err"),
    [
        (["echo $COLOUR; echo no >&2; exit 4"], 4, "green\n", "no\n"),
        (["echo", "$COLOUR", "-n"], 0, "$COLOUR -n\n", ""),
        (["kill -9 $$"], 137, "", ""),
        (["--", "echo", "--", "-n"], 0, "-- -n\n", ""),
        (["nosuchcommand", "x"], 1, "", "Failed to execute 'nosuchcommand': No such file or directory\n"),
        (["sleep 600 & echo begun"], 0, "begun\n", ""),
    ],
)
def test_a_command_runs_beside_a_task(run: Run, words: list[str], code: int, out: str, err: str) -> None:
    assert run("task", "exec", JOB, "0", *words) == (code, out, err)


def test_the_job_manager_is_told_of_the_session(run: Run, daemons: FakeDaemons) -> None:
    assert run("task", "exec", JOB, "0", "exit 3").code == 3
    (begin,), (end,) = daemons.requests("StartSession"), daemons.requests("EndSession")
    assert (begin.job_id.value, begin.instance) == (end.job_id.value, end.instance) == (JOB, 0)
    assert end.session == "session-1"
    daemons.answers["EndSession"] = (grpc.StatusCode.UNAVAILABLE, "away")
    outcome = run("task", "exec", JOB, "0", "echo done; exit 4")
    assert (outcome.code, outcome.out) == (4, "done\n") and "was not told" in outcome.err


def test_who_may_not_is_refused_and_nothing_runs(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    daemons.answers["StartSession"] = (grpc.StatusCode.PERMISSION_DENIED, "user viewer may not call it")
    outcome = run("task", "exec", JOB, "0", "touch here")
    assert outcome.code == 1 and "user viewer may not call it" in outcome.err
    assert not (tmp_path / "here").exists() and not daemons.requests("EndSession")


@pytest.mark.usefixtures("earlier")
def test_a_job_manager_of_an_earlier_version(run: Run, daemons: FakeDaemons) -> None:
    assert run("task", "exec", JOB, "0", "echo $COLOUR; exit 4") == (4, "green\n", "")
    answer = daemons.answers["BrowseSandbox"]
    answer.error.notRunning.message = "it has no sandbox"
    assert run("task", "exec", JOB, "0", "true").err == "peloton: it has no sandbox\n"
    daemons.answers["Get"].result.runtime.state = task_pb2.SUCCEEDED
    outcome = run("task", "exec", JOB, "0", "true")
    assert (outcome.code, outcome.err) == (
        1,
        "peloton: instance 0 is SUCCEEDED: a command runs beside a task that is RUNNING\n",
    )


def test_it_runs_in_the_sandbox(run: Run, tmp_path: Path) -> None:
    assert run("task", "exec", JOB, "0", "pwd").out == f"{tmp_path.resolve()}\n"
    assert run("task", "exec", JOB, "0", "sh", "-c", 'printf %s "$1"', "-", "a b").out == "a b"


def test_standard_input_is_passed_on(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    source, target = os.pipe()
    text = b"line\n" * 60_000

    def type_it() -> None:
        with os.fdopen(target, "wb") as file:
            file.write(text)

    writer = threading.Thread(target=type_it)
    writer.start()
    with os.fdopen(source) as file:
        monkeypatch.setattr("sys.stdin", file)
        outcome = run("task", "exec", "-i", JOB, "0", "wc -c; echo end")
    writer.join()
    assert (outcome.code, outcome.out.split()) == (0, [str(len(text)), "end"])


def test_much_output_comes_whole(either: SessionAgent) -> None:
    code, out, _ = executed(either.session(), "head -c 3000000 /dev/zero")
    assert (code, len(out)) == (0, 3_000_000)


def test_a_shell_on_a_terminal(either: SessionAgent) -> None:
    lines = iter([b"stty size; tty >/dev/null && echo is a tty\n", b"exit 7\n"])
    code, out, err = executed(either.session((33, 99)), "sh", "-i", read=lambda: next(lines, b""))
    assert (code, err) == (7, b"")
    assert b"33 99" in out and b"is a tty\r\n" in out


def test_nothing_is_lost_at_the_end_of_a_terminal(either: SessionAgent) -> None:
    for _ in range(10):
        code, out, _ = executed(either.session((33, 99)), "printf '%05000d' 1", read=lambda: b"")
        assert (code, len(out)) == (0, 5000)


async def test_what_is_typed_late_goes_nowhere() -> None:
    """The number of a terminal that is closed may be that of another connection by then."""
    source, target = os.pipe()
    typed = agent_sessions.TerminalInput(target)
    typed.write(b"in time")
    typed.stop()
    typed.write(b"late")
    typed.close()
    os.close(target)
    with os.fdopen(source, "rb") as file:
        assert file.read() == b"in time"


def test_the_size_of_the_terminal_follows(either: SessionAgent) -> None:
    session, seen = either.session((33, 99)), threading.Event()

    def write(stream: str, data: bytes) -> None:
        if b"begun" in data:
            session.resize(44, 111)
        if b"44 111" in data:
            seen.set()

    loop = "echo begun; until [ \"$(stty size)\" = '44 111' ]; do sleep 0.02; done; stty size"
    assert session.run(command_info([loop]), write) == 0 and seen.is_set()


def test_it_ends_with_its_task_and_with_its_caller(either: SessionAgent, tmp_path: Path) -> None:
    def write(stream: str, data: bytes) -> None:
        either.call(lambda: either.sessions.end_of(CONTAINER))

    assert either.session().run(command_info(["echo begun; sleep 600"]), write) == 137

    class Gone(Exception):
        pass

    def leave(stream: str, data: bytes) -> None:
        raise Gone

    second = either.session()
    with contextlib.suppress(Gone):
        second.run(command_info(["echo begun; sleep 600"]), leave)
    found = either.sessions.get(CONTAINER, second.name)
    assert found is not None
    reached = asyncio.run_coroutine_threadsafe(asyncio.wait_for(found.ended.wait(), SECONDS), either._loop)
    assert reached.result() and found.killed


def test_refusals(
    run: Run, daemons: FakeDaemons, agent: SessionAgent, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(NotFound, match=r"Container nosuch\..* cannot be found"):
        AgentSession(agent.session().agent, "nosuch").run({}, print)
    monkeypatch.setattr(agent_sessions, "MOST", 0)
    assert "Too many sessions" in run("task", "exec", JOB, "0", "true").err
    daemons.answers["StartSession"] = exec_pb2.StartSessionResponse(
        session="s", paths=["/frameworks/F0/executors/x/runs/latest/stdout"]
    )
    assert "its container is not known" in run("task", "exec", JOB, "0", "true").err
    why = "instance 0 is SUCCEEDED: a command runs beside a task that is RUNNING"
    daemons.answers["StartSession"] = (grpc.StatusCode.FAILED_PRECONDITION, why)
    outcome = run("task", "exec", JOB, "0", "true")
    assert (outcome.code, outcome.err) == (1, f"peloton: {why} (FAILED_PRECONDITION)\n")
    assert run("task", "exec", JOB, "0").code == run("task", "exec", JOB, "x", "true").code == 2
    assert "the command is missing" in run("task", "exec", JOB, "0", "--").err
    assert run("task", "exec", "--nope", JOB, "0", "true").code == 2
    assert "it has no form as JSON" in run("task", "exec", "-j", JOB, "0", "true").err


def test_an_agent_that_is_away(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["StartSession"] = exec_pb2.StartSessionResponse(
        session="s", hostname="127.0.0.1", port="1", paths=[PATH]
    )
    outcome = run("task", "exec", JOB, "0", "true")
    assert outcome.code == 3 and "agent 127.0.0.1:1 cannot be reached" in outcome.err


JSON = {"Content-Type": "application/json"}
STREAM = {**JSON, "Accept": RECORDIO}
INPUT = {"Content-Type": RECORDIO, "Message-Content-Type": "application/json"}
WAIT = (
    b'{"type": "WAIT_NESTED_CONTAINER", "wait_nested_container": {"container_id": {"value": "x", '
    b'"parent": {"value": "y"}}}}'
)
BAD_CALLS: list[tuple[dict[str, str], bytes, int, str]] = [
    ({}, b"{}", 400, "Expecting 'Content-Type' to be present"),
    ({"Content-Type": "text/plain"}, b"{}", 415, "Expecting 'Content-Type' of application/json"),
    ({"Content-Type": "application/json; charset=utf-8"}, b"{}", 415, "Expecting 'Content-Type' of"),
    ({**JSON, "Accept": "text/html"}, b"{}", 406, "Expecting 'Accept' to allow application/json"),
    (
        {**JSON, "Message-Content-Type": "application/json"},
        b"{}",
        415,
        "'Message-Content-Type' to be not set",
    ),
    (
        {**JSON, "Accept": "application/json", "Message-Accept": "application/json"},
        WAIT,
        406,
        "Expecting 'Message-Accept' to be not set for non-streaming responses",
    ),
    ({**JSON, "Accept": "application/recordio"}, WAIT, 406, "Streaming response is not supported for WAIT_"),
    ({**STREAM, "Message-Accept": "text/html"}, b"{}", 406, "Expecting 'Message-Accept' to allow"),
    (
        JSON,
        b'{"type": "ATTACH_CONTAINER_INPUT", "attach_container_input": {"type": "CONTAINER_ID", '
        b'"container_id": {"value": "x"}}}',
        415,
        "Expecting 'Content-Type' to be application/recordio for",
    ),
    (JSON, b'{"type": "NOSUCH"}', 400, "Expecting 'type' to be present"),
    (JSON, b'{"type": 17}', 400, "Not expecting a JSON number for field 'type'"),
    (JSON, WAIT.replace(b'"x"', b"7"), 400, "Not expecting a JSON number for field 'value'"),
    (JSON, WAIT.replace(b'"value"', b'"name"'), 400, "Missing required fields: "),
    (JSON, WAIT.replace(b'"x"', b'"a.b"'), 400, "'ContainerID.value' 'a.b' contains invalid characters"),
    (JSON, WAIT.replace(b'"x"', b'""'), 400, "ID must not be empty"),
    (JSON, WAIT.replace(b'"x"', b'"x y"'), 400, "contains invalid characters"),
    (JSON, WAIT.replace(b'"x"', b'"x\\u0001"'), 400, "contains invalid characters"),
    (JSON, WAIT.replace(b"parent", b"other"), 400, "container_id.parent' to be present"),
    (JSON, WAIT.replace(b'"type"', b'"more": 1, "type"'), 404, "cannot be found"),
    ({"Content-Type": "application/x-protobuf"}, b"{", 400, "Failed to parse body into Call protobuf"),
    ({"Content-Type": "application/json"}, b"{", 400, "Failed to parse"),
    ({"Content-Type": "application/json"}, b"[]", 400, "Expecting a JSON object"),
    ({"Content-Type": "application/json"}, b'{"type": "GET_STATE"}', 501, "GET_STATE is not served"),
    (JSON, b'{"type": "WAIT_NESTED_CONTAINER"}', 400, "Expecting 'wait_nested_container' to be present"),
    ({"Content-Type": RECORDIO}, b"2\n{}", 400, "Expecting 'Message-Content-Type' to be set"),
    ({**INPUT, "Message-Content-Type": "text/plain"}, b"2\n{}", 415, "Expecting 'Message-Content-Type' of"),
    (INPUT, b"x\n", 400, "is not a decimal number"),
    (INPUT, b"2\n{}", 400, "Expecting 'type' to be present"),
    (INPUT, b"", 400, "Received EOF while reading request body"),
    (INPUT, b"%d\n%b" % (len(WAIT), WAIT), 415, "is not supported for WAIT_NESTED_CONTAINER call"),
]


@pytest.mark.parametrize(("headers", "body", "status", "text"), BAD_CALLS)
def test_calls_that_make_no_sense(
    agent: SessionAgent, headers: dict[str, str], body: bytes, status: int, text: str
) -> None:
    import httpx2

    url = "http://{}:{}/api/v1".format(*agent.address)
    with httpx2.Client(trust_env=False) as client:
        if "Accept" not in headers:
            del client.headers["Accept"]
        answer = client.post(url, content=body, headers=headers)
    assert answer.status_code == status and text in answer.text
    assert httpx2.get(url, trust_env=False).status_code == 405


def test_input_is_refused_before_it_ends(agent: SessionAgent) -> None:
    head = "".join(f"{name}: {value}\r\n" for name, value in {**INPUT, "Host": "x"}.items())
    with socket.create_connection(agent.address, timeout=SECONDS) as made:
        made.sendall(f"POST /api/v1 HTTP/1.1\r\n{head}Transfer-Encoding: chunked\r\n\r\n".encode())
        made.sendall(b"2\r\nx\n\r\n")
        answer = b""
        while piece := made.recv(4096):
            answer += piece
    assert answer.startswith(b"HTTP/1.1 400 ") and b"is not a decimal number" in answer


TYPES = ("accept", "content-type", "message-accept", "message-content-type")


class Replayed:
    """Answers as a real agent did, byte for byte."""

    def __init__(self, lines: list[dict[str, Any]]) -> None:
        self.bodies: list[bytes] = []
        self.asked: list[dict[str, Any]] = []
        self.headers: list[dict[str, str]] = []
        events = [line for line in lines if line["kind"] == "event" and line["conn"] == "call-65"]
        for event in events:
            record = json.dumps(event["body"], separators=(",", ":")).encode()
            assert len(record) == event["record_length"]
            self.bodies.append(b"%d\n%b" % (len(record), record))
        self.waited = next(line for line in lines if line["conn"] == "call-69" and line["kind"] == "reply")

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        assert length is not None
        call = json.loads(await reader.readexactly(int(length[1])))
        self.asked.append(call)
        fields = dict(line.lower().split(": ", 1) for line in head.decode().split("\r\n")[1:] if line)
        self.headers.append({name: fields[name] for name in TYPES if name in fields})
        if call["type"] == "WAIT_NESTED_CONTAINER":
            body = json.dumps(self.waited["body"]).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%b" % (len(body), body))
        else:
            writer.write(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
            for body in self.bodies:
                writer.write(b"%x\r\n%b\r\n" % (len(body), body))
            writer.write(b"0\r\n\r\n")
        writer.close()


@contextlib.asynccontextmanager
async def replaying(agent: Replayed) -> AsyncIterator[Agent]:
    server = await asyncio.start_server(agent.serve, "127.0.0.1", 0)
    async with server:
        yield Agent("127.0.0.1", server.sockets[0].getsockname()[1], timeout=SECONDS)


@pytest.fixture
def lines() -> list[dict[str, Any]]:
    if not RECORDING.is_file():
        pytest.skip("no recordings: ../shared/mesos is absent")
    return [json.loads(line) for line in RECORDING.read_text().splitlines()]


async def test_what_a_real_agent_said(lines: list[dict[str, Any]]) -> None:
    replayed = Replayed(lines)
    sent = next(line for line in lines if line["conn"] == "call-65" and line["kind"] == "request")
    async with replaying(replayed) as agent:
        session = AgentSession(agent, CONTAINER, name="s2")
        words = [sent["body"]["launch_nested_container_session"]["command"]["value"]]
        assert await asyncio.to_thread(executed, session, *words) == (4, b"hi\n", b"err\n")
    assert replayed.asked[0] == sent["body"]
    waited = next(line for line in lines if line["conn"] == "call-69" and line["kind"] == "request")
    for headers, recorded in zip(replayed.headers, (sent, waited), strict=True):
        lower = {name.lower(): value for name, value in recorded["headers"].items()}
        assert headers == {name: lower[name] for name in TYPES if name in lower}


async def test_output_of_an_unknown_form(lines: list[dict[str, Any]]) -> None:
    replayed = Replayed(lines)
    replayed.bodies = [b"2\n{}"]
    async with replaying(replayed) as agent:
        with pytest.raises(PelotonError, match="in an unknown form"):
            await asyncio.to_thread(executed, AgentSession(agent, CONTAINER), "true")
    with pytest.raises(AgentUnreachable):
        await asyncio.to_thread(executed, AgentSession(agent, CONTAINER), "true")
