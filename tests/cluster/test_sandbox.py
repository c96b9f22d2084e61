"""A task's output is found and read: of the current run and of earlier ones, while it runs and afterwards."""

from __future__ import annotations

import os
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.__main__ import main

from .conftest import Harness, wait_for

SECONDS = 60.0
COMMAND = (
    'echo "try $(ls {0} | wc -l)"; touch {0}/$$; test $(ls {0} | wc -l) -gt 1 || exit 3; read line < {1}'
)
"""Fails the first time; the second time it waits for a write to the gate."""


def browse(harness: Harness, job_id: str, run: int = 0) -> task_pb2.BrowseSandboxResponse:
    request = task_pb2.BrowseSandboxRequest(
        jobId=peloton_pb2.JobID(value=job_id), taskId=f"{job_id}-0-{run}" if run else ""
    )
    answer: task_pb2.BrowseSandboxResponse = harness.client.task_svc.BrowseSandbox(request, timeout=SECONDS)
    return answer


def output(sandbox: task_pb2.BrowseSandboxResponse) -> str:
    (path,) = (path for path in sandbox.paths if path.endswith("/stdout"))
    query = urllib.parse.urlencode({"path": path})
    url = f"http://{sandbox.hostname}:{sandbox.port}/files/download?{query}"
    with urllib.request.urlopen(url, timeout=SECONDS) as answer:
        return str(answer.read().decode())


def test_output_of_each_run(harness: Harness, tmp_path: Path) -> None:
    tries, gate = tmp_path / "tries", tmp_path / "gate"
    tries.mkdir()
    os.mkfifo(gate)
    job_id = harness.create(harness.config(COMMAND.format(tries, gate)))

    def runs_again() -> bool:
        task = harness.tasks(job_id).get(0, task_pb2.TaskInfo()).runtime
        return task.state == task_pb2.RUNNING and task.mesosTaskId.value == f"{job_id}-0-2"

    wait_for(runs_again, SECONDS)
    wait_for(lambda: output(browse(harness, job_id)) == "try 1\n", SECONDS)
    assert output(browse(harness, job_id, run=1)) == "try 0\n"
    assert "run 3" in browse(harness, job_id, run=3).error.notRunning.message

    gate.write_text("go\n")
    assert harness.ended(job_id).state == job_pb2.SUCCEEDED
    assert output(browse(harness, job_id)) == "try 1\n"
    request = task_pb2.GetRequest(jobId=peloton_pb2.JobID(value=job_id))
    runs = harness.client.task_svc.Get(request, timeout=SECONDS).results
    assert [run.runtime.state for run in runs] == [task_pb2.SUCCEEDED, task_pb2.FAILED]
    assert runs[1].runtime.message == "Command exited with status 3"


def test_files_in_folders(
    harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    job_id = harness.create(harness.config("mkdir -p out/deep; echo inside > 'out/deep/a b.txt'"))
    assert harness.ended(job_id).state == job_pb2.SUCCEEDED
    for name, value in harness.cluster.urls().items():
        monkeypatch.setenv(name, value)
    capfd.readouterr()
    assert main(["task", "logs", job_id, "0", "-f", "out/deep/a b.txt"]) == 0
    assert capfd.readouterr().out == "inside\n"
    assert main(["task", "logs", job_id, "0", "-f", "out"]) == 1
    assert capfd.readouterr().err == "peloton: 'out' is a folder of the sandbox; in it: deep/\n"


def test_a_link_that_leads_out_is_said_not_to_be_followed(
    harness: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "secret").write_text("outside\n")
    links = (("inside", "good"), (tmp_path / "secret", "evil"), (tmp_path, "out"), ("no", "none"))
    made = ["echo x > inside", *(f"ln -s {target} {name}" for target, name in links)]
    job_id = harness.create(harness.config("; ".join(made)))
    assert harness.ended(job_id).state == job_pb2.SUCCEEDED
    for name, value in harness.cluster.urls().items():
        monkeypatch.setenv(name, value)
    assert main(["task", "logs", job_id, "0", "-f", "good"]) == 0
    assert capfd.readouterr().out == "x\n"
    not_followed = "is a link that leads out of the sandbox, or to nothing: it is not followed"
    for path, link in (("evil", "evil"), ("out/secret", "out"), ("none", "none")):
        assert main(["task", "logs", job_id, "0", "-f", path]) == 1
        assert capfd.readouterr() == ("", f"peloton: {link!r} {not_followed}\n")


def test_the_sandbox_of_a_run_on_a_lost_agent(harness: Harness) -> None:
    job_id = harness.create(harness.config("true"))
    harness.ended(job_id)
    host = harness.tasks(job_id)[0].runtime.host
    agent = host.removeprefix("peloton-")
    harness.cluster.kill([agent])
    wait_for(lambda: "cannot be reached" in browse(harness, job_id).error.failure.message, SECONDS)
    harness.cluster.start([agent])
