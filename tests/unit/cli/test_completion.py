"""Completion by the shell: commands, flags, and names of the cluster."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli import live_names
from peloton.cli.__main__ import main

from .conftest import Run
from .fakes import FakeDaemons

JOB = "91b1ee88-43fc-4a51-8cb4-d1e1b7e4b5a0"
Complete = Callable[[str], list[str]]


@pytest.fixture
def complete(run: Run, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Complete:
    """Completes the last word of a line as bash would; nothing may be said."""

    def words(line: str) -> list[str]:
        monkeypatch.setenv("_PELOTON_COMPLETE", "bash_complete")
        monkeypatch.setenv("COMP_WORDS", line)
        monkeypatch.setenv(
            "COMP_CWORD", str(len(line.split()) if line.endswith(" ") else len(line.split()) - 1)
        )
        capfd.readouterr()
        with pytest.raises(SystemExit) as ended:
            main([])
        out, err = capfd.readouterr()
        assert (ended.value.code, err) == (0, "")
        return [each.partition(",")[2] for each in out.splitlines() if each]

    return words


@pytest.fixture(autouse=True)
def cluster(daemons: FakeDaemons) -> None:
    job = job_pb2.JobSummary(id=peloton_pb2.JobID(value=JOB), name="web")
    daemons.answers["Query"] = lambda request: (
        job_pb2.QueryResponse(results=[job])
        if isinstance(request, job_pb2.QueryRequest)
        else task_pb2.QueryResponse(records=[task_pb2.TaskInfo(instanceId=12)])
        if isinstance(request, task_pb2.QueryRequest)
        else respool_pb2.QueryResponse(
            resourcePools=[
                respool_pb2.ResourcePoolInfo(path=respool_pb2.ResourcePoolPath(value=path))
                for path in ("/a", "/b")
            ]
        )
    )
    daemons.answers["QueryHosts"] = host_svc_pb2.QueryHostsResponse(
        host_infos=[host_pb2.HostInfo(hostname=name) for name in ("host1", "host2", "other")]
    )
    pools = [host_pb2.HostPoolInfo(name=name) for name in ("shared", "stateless")]
    daemons.answers["ListHostPools"] = host_svc_pb2.ListHostPoolsResponse(pools=pools)


@pytest.mark.parametrize(
    ("line", "names"),
    [
        ("peloton jo", ["job", "jobmgr"]),
        ("peloton job sta", ["stateless", "status"]),
        ("peloton job query --lim", ["--limit"]),
        ("peloton -o ", ["table", "wide", "json", "yaml", "name", "csv"]),
        ("peloton job get 91b", [JOB]),
        ("peloton job get we", [JOB]),
        ("peloton job get x", []),
        ("peloton job create /", ["/a", "/b"]),
        ("peloton job query -r /b", ["/b"]),
        ("peloton job stateless stop ", [JOB]),
        ("peloton host maintenance start host", ["host1", "host2"]),
        ("peloton hostpool change host1 s", ["shared", "stateless"]),
        (f"peloton pod get {JOB}-1", [f"{JOB}-12"]),
        ("peloton pod get we", [f"{JOB}-"]),
        ("peloton logs 91", [f"{JOB}-"]),
        ("peloton job query -s R", ["RUNNING"]),
        ("peloton job query -s RUNNING,fai", ["RUNNING,FAILED"]),
        ("peloton host query -s UP,lo", ["UP,LOST"]),
        ("peloton host query -s DR", ["DRAINING", "DRAINED"]),
        ("peloton job stateless query -s PAU", []),
        ("peloton nope x", []),
    ],
)
def test_words(complete: Complete, line: str, names: list[str]) -> None:
    assert sorted(complete(line)) == sorted(names)


def test_files_are_left_to_the_shell(complete: Complete) -> None:
    assert complete("peloton job validate spec") == ["spec"]


@pytest.mark.parametrize(
    "line", ["peloton job get ", "peloton job create /", "peloton host maintenance start h"]
)
def test_failures_are_silent_and_soon(
    complete: Complete, daemons: FakeDaemons, monkeypatch: pytest.MonkeyPatch, line: str
) -> None:
    for method in ("Query", "QueryHosts"):
        daemons.answers[method] = (grpc.StatusCode.INTERNAL, "broken")
    assert complete(line) == []
    monkeypatch.setattr(live_names, "TIMEOUT_SECONDS", 0.05)
    for method in ("Query", "QueryHosts"):
        daemons.answers[method] = lambda request: time.sleep(0.3)
    assert complete(line) == []
    for name in ("JOBMGR_URL", "RESMGR_URL", "HOSTMGR_URL"):
        monkeypatch.setenv(name, "not an address")
    assert complete(line) == []


def test_bash_completes(run: Run) -> None:
    line = (
        'eval "$(peloton completion bash)"; COMP_WORDS=(peloton job get we); COMP_CWORD=3; '
        '_peloton_completion peloton; echo "${COMPREPLY[@]}"; complete -p peloton'
    )
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(["bash", "-c", line], capture_output=True, text=True, env=environment, timeout=60)
    names, registered = done.stdout.splitlines()
    assert (names, done.stderr, done.returncode) == (JOB, "", 0)
    assert "_peloton_completion" in registered


def test_descriptions_for_fish_may_hold_commas(run: Run) -> None:
    assert 'string split --max 1 "," $completion' in run("completion", "fish").out


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_scripts(run: Run, shell: str) -> None:
    outcome = run("completion", shell)
    assert outcome.code == 0 and f"_PELOTON_COMPLETE={shell}_complete" in outcome.out
    assert run("completion", "tcsh").code == 2
