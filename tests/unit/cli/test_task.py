from __future__ import annotations

import json
from typing import Any

import grpc
import pytest
import yaml

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.errors import errors_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli import logs
from peloton.cli.rows import task_table

from .conftest import Run
from .fakes import FakeAgent, FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
SANDBOX = f"/var/lib/mesos/slaves/a/frameworks/f/executors/{JOB}-0-1/runs/latest"


def instance(number: int, state: str, **runtime: Any) -> task_pb2.TaskInfo:
    return task_pb2.TaskInfo(
        instanceId=number,
        config=task_pb2.TaskConfig(name="hello"),
        runtime=task_pb2.RuntimeInfo(state=task_pb2.TaskState.Value(state), **runtime),
    )


def current(state: str, run: int = 1) -> task_pb2.GetResponse:
    mesos = mesos_pb2.TaskID(value=f"{JOB}-0-{run}")
    return task_pb2.GetResponse(result=instance(0, state, mesosTaskId=mesos, reason="no host fits"))


RUNNING = instance(
    1,
    "RUNNING",
    host="agent1",
    healthy=task_pb2.DISABLED,
    startTime="2026-01-31T12:00:00.123456789Z",
    message="a\nb \x1b[3m",
)
DONE = instance(
    0,
    "SUCCEEDED",
    host="agent0",
    startTime="2026-01-31T12:00:00Z",
    completionTime="2026-01-31T13:02:03.9Z",
    reason="REASON",
)


def test_list_is_in_order_of_the_instances(run: Run, daemons: FakeDaemons) -> None:
    result = task_pb2.ListResponse.Result(
        value={1: RUNNING, 0: DONE, 2: instance(2, "PENDING", reason="waits")}
    )
    daemons.answers["List"] = task_pb2.ListResponse(result=result)
    lines = run("task", "list", JOB, "-r", "0:3").out.splitlines()
    assert [line.split()[0] for line in lines] == ["Instance", "0", "1", "2"]
    request = daemons.requests("List")[0]
    assert (getattr(request.range, "from"), request.range.to) == (0, 3)
    shown = json.loads(run("task", "list", JOB, "-j").out)
    assert shown["result"]["value"]["1"]["runtime"]["state"] == "RUNNING"
    assert not daemons.requests("List")[1].HasField("range")


def test_the_table_is_aligned_and_clean() -> None:
    assert str(task_table([DONE, RUNNING], now=1769860805.0)) == (
        "Instance  Name   State      Healthy   Start Time            Run Time  Host    Message   Reason\n"
        "0         hello  SUCCEEDED            2026-01-31T12:00:00Z  01:02:03  agent0            REASON\n"
        "1         hello  RUNNING    DISABLED  2026-01-31T12:00:00Z  00:00:04  agent1  a b  [3m"
    )


def test_query(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Query"] = task_pb2.QueryResponse(records=[DONE])
    outcome = run(
        "task", "query", JOB, "-s", "succeeded", "--names", "hello", "--hosts", "agent0,agent1", "-n", "7"
    )
    assert outcome.out.splitlines()[1].startswith("0         hello  SUCCEEDED")
    spec = daemons.requests("Query")[0].spec
    assert list(spec.taskStates) == [task_pb2.SUCCEEDED] and list(spec.hosts) == ["agent0", "agent1"]
    assert (list(spec.names), spec.pagination.limit) == (["hello"], 7)
    assert spec.pagination.orderBy[0].property.value == "instance_id"


def test_get_and_its_refusals(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Get"] = task_pb2.GetResponse(result=DONE)
    assert yaml.safe_load(run("task", "get", JOB, "0").out)["runtime"]["host"] == "agent0"
    assert json.loads(run("task", "get", JOB, "0", "-j").out)["instanceId"] == 0
    daemons.answers["Get"] = task_pb2.GetResponse(outOfRange=task_pb2.InstanceIdOutOfRange(instanceCount=3))
    assert run("task", "get", JOB, "9").err == "peloton: no such instance: the job has 3 instances, 0 to 2\n"
    daemons.answers["Get"] = task_pb2.GetResponse(notFound=errors_pb2.JobNotFound(message="job x not found"))
    assert run("task", "get", JOB, "0") == (1, "", "peloton: job x not found\n")


@pytest.mark.parametrize(
    ("command", "method", "answer", "said"),
    [
        ("start", "Start", task_pb2.StartResponse(startedInstanceIds=[2, 0, 1, 5]), "started: 0-2, 5\n"),
        (
            "stop",
            "Stop",
            task_pb2.StopResponse(stoppedInstanceIds=[3], invalidInstanceIds=[4]),
            "being stopped: 3\nnot being stopped: 4\n",
        ),
        ("stop", "Stop", task_pb2.StopResponse(), "being stopped: none\n"),
        ("restart", "Restart", task_pb2.RestartResponse(), f"Instances of job {JOB} are being restarted\n"),
    ],
)
def test_start_stop_and_restart(
    run: Run, daemons: FakeDaemons, command: str, method: str, answer: Any, said: str
) -> None:
    daemons.answers[method] = answer
    assert run("task", command, JOB, "-r", "0:3", "-r", "5") == (0, said, "")
    ranges = [(getattr(one, "from"), one.to) for one in daemons.requests(method)[0].ranges]
    assert ranges == [(0, 3), (5, 6)]


def test_start_in_a_terminated_job(run: Run, daemons: FakeDaemons) -> None:
    text = "cannot start tasks in a terminated job"
    daemons.answers["Start"] = (grpc.StatusCode.INVALID_ARGUMENT, text)
    assert run("task", "start", JOB).err == f"peloton: {text} (INVALID_ARGUMENT)\n"


@pytest.mark.parametrize("command", [("task", "events"), ("pod", "events")])
def test_events(run: Run, daemons: FakeDaemons, command: tuple[str, str]) -> None:
    event = task_pb2.PodEvent(
        taskId=mesos_pb2.TaskID(value=f"{JOB}-0-2"),
        actualState="RUNNING",
        goalState="SUCCEEDED",
        timestamp="2026-01-31T12:00:00.9Z",
        hostname="agent0",
    )
    daemons.answers["GetPodEvents"] = task_pb2.GetPodEventsResponse(result=[event])
    lines = run(*command, JOB, "0", "-r", "2", "-l", "3").out.splitlines()
    assert lines[1].split() == ["2", "2026-01-31T12:00:00Z", "RUNNING", "SUCCEEDED", "0", "agent0"]
    request = daemons.requests("GetPodEvents")[0]
    assert (request.runId, request.limit) == (f"{JOB}-0-2", 3)
    error = task_pb2.GetPodEventsResponse.Error(message="the store does not answer")
    daemons.answers["GetPodEvents"] = task_pb2.GetPodEventsResponse(error=error)
    assert run(*command, JOB, "0") == (1, "", "peloton: the store does not answer\n")


def test_refresh_and_cache(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["Refresh"] = task_pb2.RefreshResponse()
    assert run("task", "refresh", JOB, "-r", "1:2").code == 0
    assert daemons.requests("Refresh")[0].range.to == 2
    cached = task_pb2.GetCacheResponse(runtime=task_pb2.RuntimeInfo(state=task_pb2.RUNNING))
    daemons.answers["GetCache"] = cached
    assert run("task", "cache", JOB, "1").out == "runtime:\n  state: RUNNING\n"


@pytest.fixture
def sandbox(
    daemons: FakeDaemons, agent_address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> task_pb2.BrowseSandboxResponse:
    monkeypatch.setattr(logs, "INTERVAL", 0.0)
    host, port = agent_address
    answer = task_pb2.BrowseSandboxResponse(
        hostname=host,
        port=str(port),
        paths=[f"{SANDBOX}/stderr", f"{SANDBOX}/stdout", f"{SANDBOX}/old/stdout"],
    )
    daemons.answers["BrowseSandbox"] = answer
    return answer


@pytest.mark.usefixtures("sandbox")
def test_logs_writes_the_file_byte_for_byte(run: Run, daemons: FakeDaemons, agent: FakeAgent) -> None:
    agent.files = {f"{SANDBOX}/stdout": b"hello\n" * 50000, f"{SANDBOX}/stderr": b"oh\n"}
    assert run("task", "logs", JOB, "0", "3") == (0, "hello\n" * 50000, "")
    assert daemons.requests("BrowseSandbox")[0].taskId == f"{JOB}-0-3"
    assert run("task", "logs", JOB, "0", "-f", "stderr").out == "oh\n"
    assert json.loads(run("-j", "task", "logs", JOB, "0", "-f", "stderr").out)["text"] == "oh\n"


@pytest.mark.usefixtures("sandbox")
def test_logs_of_a_missing_file(run: Run, agent: FakeAgent) -> None:
    agent.files = {f"{SANDBOX}/stderr": b"", f"{SANDBOX}/old/stdout": b""}
    outcome = run("task", "logs", JOB, "0", "-f", "core")
    assert outcome.err == "peloton: no file 'core' in the sandbox; there: old/, stderr\n"
    outcome = run("task", "logs", JOB, "0")
    assert outcome.code == 1 and outcome.err.endswith(f"has no file {SANDBOX}/stdout\n")


@pytest.mark.usefixtures("sandbox")
def test_logs_of_a_file_in_a_folder(run: Run, agent: FakeAgent) -> None:
    agent.files = {
        f"{SANDBOX}/stdout": b"",
        f"{SANDBOX}/out/deep/a b.txt": b"found\n",
        f"{SANDBOX}/out/x": b"",
    }
    for name in ("out/deep/a b.txt", "/out//deep/a b.txt", "./out/deep/a b.txt"):
        assert run("task", "logs", JOB, "0", "-f", name) == (0, "found\n", "")
    for name, said in (
        ("out", "'out' is a folder of the sandbox; in it: deep/, x"),
        ("out/deep", "'out/deep' is a folder of the sandbox; in it: a b.txt"),
        ("out/y", "no file 'out/y' in the sandbox; in out: deep/, x"),
        ("nowhere/y", "no folder 'nowhere' in the sandbox; there: out/, stdout"),
        ("stdoutt", "no file 'stdoutt' in the sandbox; there: out/, stdout"),
        ("out/../../x", "'out/../../x' is no path inside of the sandbox"),
        ("", "'' is no path inside of the sandbox"),
    ):
        assert run("task", "logs", JOB, "0", "-f", name) == (1, "", f"peloton: {said}\n")


@pytest.mark.usefixtures("sandbox")
def test_a_file_that_is_not_shown_is_refused_with_the_reason(run: Run, agent: FakeAgent) -> None:
    agent.files = {f"{SANDBOX}/stdout": b"out\n", f"{SANDBOX}/stderr": b""}
    agent.withheld = "its container has ended"
    for name in ("results.csv", "out/results.csv"):
        outcome = run("task", "logs", JOB, "0", "-f", name)
        assert outcome == (1, "", "peloton: its container has ended\n")
    assert run("task", "logs", JOB, "0") == (0, "out\n", "")


@pytest.mark.usefixtures("sandbox")
def test_follow_of_a_file_in_a_folder(run: Run, daemons: FakeDaemons, agent: FakeAgent) -> None:
    agent.files = {f"{SANDBOX}/stdout": b"", f"{SANDBOX}/out/x": b"deep\n"}
    daemons.answers["Get"] = current("SUCCEEDED")
    assert run("task", "logs", JOB, "0", "-F", "-f", "out/x") == (0, "deep\n", "")


def test_logs_of_a_run_that_was_not_launched(run: Run, daemons: FakeDaemons) -> None:
    away = task_pb2.BrowseSandboxResponse.Error(
        notRunning=task_pb2.TaskNotRunning(message="waits in its pool")
    )
    daemons.answers["BrowseSandbox"] = task_pb2.BrowseSandboxResponse(error=away)
    assert run("task", "logs", JOB, "0") == (1, "", "peloton: waits in its pool\n")


def test_follow_waits_for_the_run_and_reads_until_its_end(
    run: Run, daemons: FakeDaemons, agent: FakeAgent, sandbox: task_pb2.BrowseSandboxResponse
) -> None:
    away = task_pb2.BrowseSandboxResponse.Error(notRunning=task_pb2.TaskNotRunning(message="not launched"))
    daemons.answers["BrowseSandbox"] = [task_pb2.BrowseSandboxResponse(error=away), sandbox]
    states = iter(["PENDING", "PENDING", "RUNNING", "RUNNING", "gone", "RUNNING", "SUCCEEDED"])
    output = f"{SANDBOX}/stdout"
    agent.files[output] = b""

    def get(request: object) -> Any:
        state = next(states)
        agent.files[output] += f"{state} é\n".encode() + b"\xff"
        if state == "gone":
            return grpc.StatusCode.UNAVAILABLE, "starting"
        return current(state)

    daemons.answers["Get"] = get
    written: list[bytes] = []
    from peloton.cli.session import Session
    from peloton.cli.targets import Targets, TargetSource

    session = Session(targets=Targets(TargetSource(addresses={"jobmgr": _address(daemons, run)})))
    reader = logs.Logs(session, JOB, 0, "", "stdout", written.append, print, sleep=lambda _: None)
    reader.follow()
    session.close()
    assert b"".join(written) == agent.files[output]
    assert agent.files[output].endswith("SUCCEEDED é\n".encode() + b"\xff") and next(states, None) is None


def _address(daemons: FakeDaemons, run: Run) -> str:
    import os

    return os.environ["JOBMGR_URL"]


@pytest.mark.usefixtures("sandbox")
def test_follow_ends_when_the_next_run_begins(run: Run, daemons: FakeDaemons, agent: FakeAgent) -> None:
    agent.files[f"{SANDBOX}/stdout"] = b"first run\n"
    daemons.answers["Get"] = [current("RUNNING", 1), current("PENDING", 2)]
    assert run("task", "logs", JOB, "0", "-F") == (0, "first run\n", "")


def test_follow_of_an_instance_that_ended_without_a_sandbox(run: Run, daemons: FakeDaemons) -> None:
    away = task_pb2.BrowseSandboxResponse.Error(notRunning=task_pb2.TaskNotRunning(message="never launched"))
    daemons.answers["BrowseSandbox"] = task_pb2.BrowseSandboxResponse(error=away)
    daemons.answers["Get"] = current("KILLED")
    assert run("task", "logs", JOB, "0", "-F") == (1, "", "peloton: never launched\n")


def test_unknown_job(run: Run, daemons: FakeDaemons) -> None:
    missing = errors_pb2.JobNotFound(id=peloton_pb2.JobID(value=JOB))
    daemons.answers["BrowseSandbox"] = task_pb2.BrowseSandboxResponse(
        error=task_pb2.BrowseSandboxResponse.Error(notFound=missing)
    )
    daemons.answers["Get"] = task_pb2.GetResponse(notFound=missing)
    for flags in ((), ("-F",)):
        assert run("task", "logs", JOB, "0", *flags) == (1, "", f"peloton: job not found: {JOB}\n")
