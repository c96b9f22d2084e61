"""BrowseSandbox: which agent, which directory, which files; and the errors."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from jobmgr.ports.hostmgr import AgentAddress
from jobmgr.services.common.agent_http import AgentHttp
from jobmgr.services.common.agent_listings import directories, files
from jobmgr.services.common.sandbox import address_of
from peloton.api.v0.task import task_pb2
from peloton.errors import NotFound, Refused, Unavailable
from peloton.model.states import TaskState
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.withheld import LONGEST_REASON
from tests.unit.jobmgr_services.conftest import JOB, Served, job_id
from tests.unit.jobmgr_services.fakes import task
from tests.unit.jobmgr_services.test_tasks import event

RUN1, RUN2 = f"{JOB}-0-1", f"{JOB}-0-2"
WORK = "/var/lib/mesos/slaves/S1/frameworks/F/executors"


def executor(run: str) -> dict[str, Any]:
    return {"id": run, "directory": f"{WORK}/{run}/runs/c1"}


STATE = {
    "frameworks": [
        {"id": "E", "executors": [{"id": "other", "directory": "/x"}], "completed_executors": []},
        {"id": "F", "executors": [executor(RUN2)], "completed_executors": [executor(RUN1)]},
    ],
    "completed_frameworks": [],
}


class Agent:
    """Just enough of an agent's HTTP server; `answers` by path, or by path and queried path."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {"/state": (200, json.dumps(STATE).encode())}
        self.requests: list[str] = []

    def hold(self, directory: str, *names: str) -> None:
        listing = [{"path": f"{directory}/{name}", "mode": "-rw-r--r--", "size": 1} for name in names]
        listing.append({"path": f"{directory}/sub", "mode": "drwxr-xr-x", "size": 1})
        self.answers[f"/files/browse {directory}"] = (200, json.dumps(listing).encode())

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        url = urlsplit(head.split()[1].decode())
        key = " ".join([url.path, *parse_qs(url.query).get("path", [])])
        self.requests.append(key)
        status, body = self.answers.get(key, (404, b""))
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
        await writer.drain()
        writer.close()


@pytest.fixture
async def agent() -> AsyncIterator[tuple[Agent, int]]:
    held = Agent()
    server = await asyncio.start_server(held.serve, "127.0.0.1", 0)
    async with server:
        yield held, server.sockets[0].getsockname()[1]


def known(served: Served, port: int, agent_id: str = "S1") -> None:
    """hostmgr knows one agent, and the master."""
    info = hostsvc_pb2.GetMesosAgentInfoResponse()
    one = info.agents.add(active=True, version="1", pid=f"slave(1)@127.0.0.1:{port}")
    one.agent_info.hostname, one.agent_info.id.value = "no-such-name", agent_id
    served.hostmgr.answers = {
        "GetMesosAgentInfo": info,
        "GetMesosMasterHostPort": hostsvc_pb2.MesosMasterHostPortResponse(hostname="10.0.0.1", port="5050"),
    }


@pytest.fixture
async def ran_twice(with_job: Served) -> Served:
    """Instance 0 runs for the second time, both on agent S1; instance 1 waits."""
    now = task(run=2, desired_run=2, state=TaskState.RUNNING, host="h1", agent_id="S1")
    await with_job.engine.put(JOB, {0: now, 1: task()})
    failed = event(1, TaskState.FAILED, 2, hostname="h1", agent_id="S1")
    await with_job.engine.store.write_all(JOB, {}, [failed])
    return with_job


async def browse(served: Served, instance: int = 0, run: str = "") -> task_pb2.BrowseSandboxResponse:
    request = task_pb2.BrowseSandboxRequest(jobId=job_id(), instanceId=instance, taskId=run)
    answer: task_pb2.BrowseSandboxResponse = await served.tasks.BrowseSandbox(request)
    return answer


async def test_current_and_earlier_run(ran_twice: Served, agent: tuple[Agent, int]) -> None:
    held, port = agent
    known(ran_twice, port)
    held.hold(f"{WORK}/{RUN2}/runs/c1", "stdout", "stderr")
    held.hold(f"{WORK}/{RUN1}/runs/c1", "stdout")
    answer = await browse(ran_twice)
    assert not answer.HasField("error"), answer
    assert (answer.hostname, answer.port) == ("127.0.0.1", str(port))
    assert (answer.mesosMasterHostname, answer.mesosMasterPort) == ("10.0.0.1", "5050")
    assert list(answer.paths) == [f"{WORK}/{RUN2}/runs/c1/{name}" for name in ("stdout", "stderr")]
    assert list((await browse(ran_twice, run=RUN1)).paths) == [f"{WORK}/{RUN1}/runs/c1/stdout"]


async def test_a_run_that_the_agent_no_longer_lists(ran_twice: Served, agent: tuple[Agent, int]) -> None:
    held, port = agent
    known(ran_twice, port)
    held.answers["/state"] = (200, json.dumps({"frameworks": [{"id": "F"}]}).encode())
    virtual = f"/frameworks/F/executors/{RUN2}/runs/latest"
    held.hold(virtual, "stdout")
    assert list((await browse(ran_twice)).paths) == [f"{virtual}/stdout"]


async def test_a_run_by_its_real_path(ran_twice: Served, agent: tuple[Agent, int]) -> None:
    held, port = agent
    known(ran_twice, port)
    state = {"flags": {"work_dir": "/var/lib/mesos"}, "completed_frameworks": [{"id": "F"}]}
    held.answers["/state"] = (200, json.dumps(state).encode())
    held.hold(f"{WORK}/{RUN2}/runs/latest", "stdout")
    assert list((await browse(ran_twice)).paths) == [f"{WORK}/{RUN2}/runs/latest/stdout"]


@pytest.mark.parametrize(
    ("instance", "run", "part"),
    [
        (1, "", "run 1 of instance 1 has not been launched"),
        (2, "", "not been created"),
        (0, f"{JOB}-0-7", "run 7"),
        (0, f"{JOB}-1-1", "a run of this instance"),
        (0, "x", "a run of this instance"),
    ],
)
async def test_never_ran(ran_twice: Served, instance: int, run: str, part: str) -> None:
    answer = await browse(ran_twice, instance, run)
    assert part in answer.error.notRunning.message


async def test_out_of_range(ran_twice: Served) -> None:
    assert (await browse(ran_twice, 3)).error.outOfRange.instanceCount == 3


async def test_failures_have_a_reason(ran_twice: Served, agent: tuple[Agent, int]) -> None:
    held, port = agent

    async def failure() -> str:
        return str((await browse(ran_twice)).error.failure.message)

    known(ran_twice, port, "S9")
    assert "agent S1 of host h1 is gone" in await failure()
    known(ran_twice, port)
    assert f"no sandbox of {RUN2}" in await failure()
    held.answers["/state"] = (500, b"")
    assert "answered 500" in await failure()
    held.answers["/state"] = (200, b"{")
    assert "not JSON" in await failure()
    held.answers["/state"] = (200, b'{"frameworks": [5]}')
    assert "unknown form" in await failure()
    known(ran_twice, 1)
    assert "cannot be reached" in await failure()
    ran_twice.hostmgr.answers["GetMesosAgentInfo"] = Unavailable("no leader of hostmgr is known")
    assert await failure() == "no leader of hostmgr is known"
    lost = hostsvc_pb2.GetMesosAgentInfoResponse()
    lost.error.hostNotFound.message = "not registered"
    ran_twice.hostmgr.answers["GetMesosAgentInfo"] = lost
    assert "h1: not registered" in await failure()


async def test_answers_are_bounded(agent: tuple[Agent, int]) -> None:
    held, port = agent
    held.answers["/state"] = (200, b"[" + b"1," * 1000 + b"1]")
    address = f"127.0.0.1:{port}"
    assert await AgentHttp().get(address, "/state") == [1] * 1001
    with pytest.raises(Unavailable, match="more than 100 bytes"):
        await AgentHttp(max_answer_bytes=100).get(address, "/state")
    with pytest.raises(NotFound):
        await AgentHttp().get(address, "/nosuch")


async def test_why_a_file_is_not_shown_is_told(agent: tuple[Agent, int]) -> None:
    held, port = agent
    held.answers["/files/read /x"] = (409, b"its container\nhas ended" + b"!" * 10_000)
    with pytest.raises(Refused, match=r"^its container has ended!") as told:
        await AgentHttp().read(f"127.0.0.1:{port}", "/files/read", {"path": "/x"})
    assert len(str(told.value)) == LONGEST_REASON


async def test_unanswered_calls_are_bounded() -> None:
    async def silent(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    server = await asyncio.start_server(silent, "127.0.0.1", 0)
    async with server:
        port = server.sockets[0].getsockname()[1]
        with pytest.raises(Unavailable, match=r"did not end its answer within 0\.1 s"):
            await AgentHttp(timeout=0.1).get(f"127.0.0.1:{port}", "/state")


def test_address_is_the_pid_else_the_name() -> None:
    agent = AgentAddress("S1", "slave(1)@10.0.0.7:5052", "h", 5051)
    assert address_of(agent) == ("10.0.0.7", "5052")
    assert address_of(agent._replace(pid="")) == ("h", "5051")


def test_a_node_of_kubernetes_serves_no_files() -> None:
    with pytest.raises(
        Refused, match=r"host n1 is a node of Kubernetes, .*sandboxes.port is 0; `kubectl logs`"
    ):
        address_of(AgentAddress("n1", "", "n1", 0))


def test_custom_executors_have_ids_of_their_own() -> None:
    state = {"frameworks": [{"id": "F", "executors": [{"id": f"thermos-{RUN1}", "directory": "/d"}]}]}
    assert directories(state, RUN1, "S1", "a")[0] == "/d"


@pytest.mark.parametrize("listing", [None, 5, [5], [{"path": "x"}], {"a": 1}])
def test_listings_of_unknown_form(listing: object) -> None:
    with pytest.raises(Unavailable, match="unknown form"):
        files(listing, "a")
