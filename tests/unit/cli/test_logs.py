"""`peloton logs`: several instances in one stream."""

from __future__ import annotations

import io
import threading
from typing import Any

import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli import logs, merged_logs
from peloton.cli.merged_logs import LinePrinter

from .conftest import Run
from .fakes import FakeAgent, FakeDaemons

A, B = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0", "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a1"
NAMES = {A: "web", B: "db"}


@pytest.fixture(autouse=True)
def cluster(
    daemons: FakeDaemons, agent: FakeAgent, agent_address: tuple[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two jobs of two instances, each with a file."""
    monkeypatch.setattr(logs, "INTERVAL", 0.01)
    monkeypatch.setattr(merged_logs, "INTERVAL", 0.01)
    monkeypatch.setattr(merged_logs, "CALLS_A_SECOND", 10000)
    host, port = agent_address

    def get(request: Any) -> Any:
        if isinstance(request, task_pb2.GetRequest):
            runtime = task_pb2.RuntimeInfo(state=task_pb2.SUCCEEDED)
            return task_pb2.GetResponse(result=task_pb2.TaskInfo(runtime=runtime))
        config = job_pb2.JobConfig(name=NAMES[request.id.value], instanceCount=2)
        return job_pb2.GetResponse(jobInfo=job_pb2.JobInfo(id=request.id, config=config))

    def browse(request: task_pb2.BrowseSandboxRequest) -> task_pb2.BrowseSandboxResponse:
        path = f"/{request.jobId.value}/{request.instanceId}/stdout"
        return task_pb2.BrowseSandboxResponse(hostname=host, port=str(port), paths=[path])

    for job in NAMES:
        for instance in range(2):
            agent.files[f"/{job}/{instance}/stdout"] = f"{NAMES[job]} {instance}\nend".encode()
    daemons.answers["Get"] = get
    daemons.answers["BrowseSandbox"] = browse
    found = [
        job_pb2.JobSummary(id=peloton_pb2.JobID(value=job), name=name, instanceCount=2)
        for job, name in NAMES.items()
    ]
    daemons.answers["Query"] = job_pb2.QueryResponse(results=found)


@pytest.mark.parametrize("follow", [(), ("-f",)])
@pytest.mark.parametrize(
    ("arguments", "lines"),
    [
        ((f"{A}-1",), ["web 1", "end"]),
        ((A,), ["0 | web 0", "0 | end", "1 | web 1", "1 | end"]),
        ((A, "-r", "1:"), ["web 1", "end"]),
        ((f"{A}-1", f"{B}-0"), ["web-1 | web 1", "web-1 | end", "db-0  | db 0", "db-0  | end"]),
        (
            ("-l", "team=data", "-r", "0"),
            ["web-0 | web 0", "web-0 | end", "db-0  | db 0", "db-0  | end"],
        ),
    ],
)
def test_lines_are_merged(
    run: Run, follow: tuple[str, ...], arguments: tuple[str, ...], lines: list[str]
) -> None:
    outcome = run("logs", *arguments, *follow)
    assert (outcome.code, outcome.err) == (0, "")
    shown = outcome.out.splitlines()
    assert sorted(shown) == sorted(lines) if follow else shown == lines


@pytest.mark.parametrize("follow", [(), ("-f",)])
def test_standard_error_is_shown_on_standard_error(
    run: Run, agent: FakeAgent, daemons: FakeDaemons, follow: tuple[str, ...]
) -> None:
    agent.files[f"/{A}/0/stderr"] = b"oh\n"
    browse = daemons.answers["BrowseSandbox"]
    assert callable(browse)

    def with_both(request: task_pb2.BrowseSandboxRequest) -> task_pb2.BrowseSandboxResponse:
        answer: task_pb2.BrowseSandboxResponse = browse(request)
        answer.paths.append(answer.paths[0].replace("stdout", "stderr"))
        return answer

    daemons.answers["BrowseSandbox"] = with_both
    assert run("logs", f"{A}-0", *follow) == (0, "web 0\nend\n", "oh\n")
    assert run("logs", f"{A}-0", *follow, "--filename", "stderr") == (0, "oh\n", "")
    assert run("logs", f"{A}-0", *follow, "--filename", "stdout") == (0, "web 0\nend\n", "")


def test_one_that_cannot_be_read_does_not_hide_the_others(run: Run, agent: FakeAgent) -> None:
    del agent.files[f"/{A}/0/stdout"]
    agent.files[f"/{A}/0/other"] = b""
    outcome = run("logs", A)
    assert (outcome.code, outcome.out) == (1, "1 | web 1\n1 | end\n")
    assert outcome.err.startswith("0: ") and "stdout" in outcome.err


def test_wrong_calls(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "give jobs, or instances as JOB-INSTANCE, or --labels" in run("logs").err
    assert run("logs", A, "-r", "x").code == 2 and run("logs", "-l", "team").code == 2
    assert "`task logs -j` prints one as JSON" in run("logs", A, "-j").err
    assert run("logs", A, "-r", "7:9").err == "peloton: there is no such instance\n"
    monkeypatch.setattr(merged_logs, "MOST", 1)
    assert "these are 2 instances, more than 1: say which by -r FROM:TO" in run("logs", A).err
    outcome = run("logs", A, "--filename", "../../etc/passwd", "-r", "0")
    assert outcome.code == 1 and "is no path inside of the sandbox" in outcome.err


def test_lines_are_whole_and_prefixed() -> None:
    out = io.BytesIO()
    printer = LinePrinter("a | ", out, threading.Lock())
    for piece in (b"on", b"e\ntwo\nth", b"ree", b"\n\nla"):
        printer.write(piece)
    assert out.getvalue() == b"a | one\na | two\na | three\na | \n"
    printer.close()
    assert out.getvalue().endswith(b"a | la\n")
