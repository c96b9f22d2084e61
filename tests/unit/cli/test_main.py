"""Exit codes, failures in one line, global flags."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import grpc
import pytest

from peloton.api.v0.job import job_pb2
from peloton.cli.__main__ import main
from peloton.cli.app import GROUPS, cli
from peloton.client import clusters
from peloton.client.discovery import DiscoveryError, ZooKeeperDiscovery

from .conftest import Run
from .fakes import FakeDaemons, serving

JOB_ID = "5b8f3e8e-0000-4000-8000-000000000001"

CLOSED = "127.0.0.1:1"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["jbo"], "No such command 'jbo'. Did you mean 'job'?"),
        (["job", "craete"], "No such command 'craete'. Did you mean 'create'?"),
        (["job", "query", "--limti", "3"], "Did you mean '--limit'?"),
        (["job", "query", "-s", "RUNING"], "did you mean RUNNING?"),
        (["job", "query", "-l", "a"], "is not labels, such as team=data,tier=1"),
        (["job", "get"], "Missing argument 'JOB'"),
        (["task", "list", "x", "-r", "5:2"], "'5:2' is empty"),
        (["task", "list", "x", "-r", "a"], "'a' is not a range of instances, such as 0:10"),
        (["task", "get", "x", "-1"], "No such option"),
        (["-t", "soon", "job", "get", "x"], "'soon' is not a duration, such as 20s or 5m"),
        (["-t", "0s", "job", "get", "x"], "'0s' is not longer than nothing"),
    ],
)
def test_usage_errors_exit_with_2(arguments: list[str], said: str, capfd: pytest.CaptureFixture[str]) -> None:
    assert main(arguments) == 2
    out, err = capfd.readouterr()
    assert said in err and not out


def test_an_interrupt_within_the_body_of_a_class_is_one(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def importing(*arguments: object, **more: object) -> None:
        raise RuntimeError("Error calling __set_name__ on 'Field'") from KeyboardInterrupt()

    monkeypatch.setattr(cli, "main", importing)
    assert main(["job", "query"]) == 130
    assert capfd.readouterr() == ("", "")


INTERRUPTED_IN_A_CALLBACK = """
import sys, time
from peloton.cli import __main__ as program
class Left:
    def __del__(self):
        raise KeyboardInterrupt
def command(arguments):
    Left()
    time.sleep(60)
program._run = command
sys.exit(program.main())
"""


def test_an_interrupt_in_a_callback_is_not_lost() -> None:
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IN_A_CALLBACK],
        capture_output=True,
        text=True,
        timeout=50,
        check=False,
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")


def test_little_is_imported_before_an_interrupt_is_handled() -> None:
    """What runs before `main` takes Ctrl-C shows a traceback where it comes at that time."""
    code = "import sys; old = set(sys.modules); import peloton.cli.__main__; print(*set(sys.modules) - old)"
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    ours = {each for each in shown.split() if not each.startswith("peloton")}
    assert "peloton.compiled" not in shown and len(ours) <= 2, ours


def test_unreachable_daemon(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["-m", CLOSED, "job", "get", "x"]) == 3
    out, err = capfd.readouterr()
    assert not out
    assert err == (
        f"peloton: cannot reach jobmgr at {CLOSED} (connection refused): start a cluster with `peloton "
        "minicluster up`, or give its address with -m/--jobmgr or JOBMGR_URL\n"
    )


@pytest.mark.parametrize(
    ("flag", "command"), [("-v", ["resmgr", "tasks", "orphan"]), ("-u", ["hostmgr", "offers"])]
)
def test_each_role_has_its_own_address(
    flag: str, command: list[str], capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([flag, CLOSED, *command]) == 3
    assert CLOSED in capfd.readouterr().err


@pytest.mark.parametrize(
    ("status", "details", "said"),
    [
        (
            grpc.StatusCode.UNAVAILABLE,
            "not the leader: it is 10.0.0.1:5392",
            "cannot answer now: not the leader",
        ),
        (grpc.StatusCode.NOT_FOUND, "job x\nnot found", "job x not found (NOT_FOUND)"),
        (grpc.StatusCode.UNAUTHENTICATED, "", "Get at jobmgr"),
    ],
)
def test_statuses(run: Run, daemons: FakeDaemons, status: grpc.StatusCode, details: str, said: str) -> None:
    daemons.answers["Get"] = (status, details)
    outcome = run("job", "get", JOB_ID)
    expected = 3 if status is grpc.StatusCode.UNAVAILABLE else 1
    assert outcome.code == expected and said in outcome.err and outcome.err.count("\n") == 1


def test_a_daemon_that_does_not_serve_it(run: Run, daemons: FakeDaemons) -> None:
    daemons._requests.clear()
    assert "does not serve Get\n" in run("job", "get", JOB_ID).err


def test_time_out(run: Run, daemons: FakeDaemons) -> None:
    def slow(request: object) -> job_pb2.GetResponse:
        time.sleep(0.3)
        return job_pb2.GetResponse()

    daemons.answers["Get"] = slow
    outcome = run("-t", "50ms", "job", "get", JOB_ID)
    assert outcome.code == 3 and "did not answer Get within 0.05 s" in outcome.err


def test_auth_metadata_is_sent_and_not_shown(run: Run, daemons: FakeDaemons, tmp_path: Path) -> None:
    daemons.answers["GetActiveJobs"] = job_pb2.GetActiveJobsResponse()
    file = tmp_path / "auth.yaml"
    file.write_text("username: ann\npassword: hush\n")
    file.chmod(0o640)
    shown = run("--basicAuthConfig", str(file), "job", "active-list")
    assert (shown.code, shown.err) == (
        0,
        f"warning: others on this machine can use {file}: `chmod 600 {file}`\n",
    )
    file.chmod(0o600)
    shown = run("--basicAuthConfig", str(file), "job", "active-list")
    assert (shown.code, shown.err) == (0, "")
    metadata = daemons.asked[0][2]
    assert (metadata["username"], metadata["password"]) == ("ann", "hush")
    file.write_text("username: ann\npassword: 12345\n")
    refused = run("--basicAuthConfig", str(file), "job", "active-list")
    assert refused.code == 1 and "basicAuthConfig.password" in refused.err and "12345" not in refused.err


def test_cluster_names(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, daemons: FakeDaemons
) -> None:
    file = tmp_path / "clusters.json"
    monkeypatch.setattr(clusters.zookeeper_of, "__defaults__", ((file,),))
    file.write_text(json.dumps({"clusters": [{"clusterName": "dca1", "zkURL": "zk1:2181"}]}))
    for name in ("JOBMGR_URL", "RESMGR_URL", "HOSTMGR_URL"):
        monkeypatch.delenv(name)
    assert "clusters known there: dca1" in run("-e", "nope", "job", "get", JOB_ID).err
    asked: list[tuple[str, str, str]] = []

    def address(self: ZooKeeperDiscovery, role: str, seconds: float | None = None) -> str:
        asked.append((self.servers, self.root, role))
        raise DiscoveryError("nobody there")

    monkeypatch.setattr(ZooKeeperDiscovery, "address_within", address)
    assert "nobody there" in run("-e", "dca1", "job", "get", JOB_ID).err
    assert "nobody there" in run("-z", "zk2:2181", "--zkroot", "/other", "job", "get", JOB_ID).err
    assert asked == [("zk1:2181", "/peloton", "jobmgr"), ("zk2:2181", "/other", "jobmgr")]
    file.write_text("[]")
    assert "is not {" in run("-e", "dca1", "job", "get", JOB_ID).err


def test_version_and_help(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert re.fullmatch(r"peloton, version 0\.[0-9.]+, (plain|compiled)\n", capfd.readouterr().out)
    assert main(["--help"]) == 0
    out = capfd.readouterr().out
    for name in GROUPS:
        assert name in out
        assert main([name, "--help"]) == 0, name
        assert "Usage: peloton" in capfd.readouterr().out


def test_debug_shows_the_traceback(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(Exception, match="cannot reach"):
        main(["--debug", "-m", CLOSED, "job", "get", "x"])


def _process(*arguments: str, address: str, **given: object) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "peloton.cli", *arguments]
    # Unbuffered, Python drops the rest of a write that was cut short: it does not learn of the end.
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"}
    environment["JOBMGR_URL"] = address
    return subprocess.Popen(  # type: ignore[call-overload, no-any-return]
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **given
    )


def test_interrupted_follow_exits_with_130(daemons: FakeDaemons) -> None:
    running = job_pb2.RuntimeInfo(state=job_pb2.RUNNING, taskStats={"RUNNING": 1})
    daemons.answers["Get"] = job_pb2.GetResponse(jobInfo=job_pb2.JobInfo(runtime=running))
    daemons.answers["Stop"] = _stopped()
    with serving(daemons) as address:
        process = _process("job", "stop", JOB_ID, "--progress", address=address)
        assert process.stdout is not None
        while b"RUNNING" not in process.stdout.readline():
            assert process.poll() is None
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert b"Traceback" not in err and err.strip() == b""


def _stopped() -> object:
    from peloton.api.v0.task import task_pb2

    return task_pb2.StopResponse()


def test_closed_output_is_silent(daemons: FakeDaemons) -> None:
    from peloton.api.v0 import peloton_pb2

    ids = [peloton_pb2.JobID(value=f"{number:036d}") for number in range(20000)]
    daemons.answers["GetActiveJobs"] = job_pb2.GetActiveJobsResponse(ids=ids)
    with serving(daemons) as address:
        process = _process("job", "active-list", address=address)
        assert process.stdout is not None and process.stderr is not None
        process.stdout.readline()
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        assert process.wait(60) == 1
    assert err == b""


def test_full_output_device_is_one_line() -> None:
    for arguments in (["--help"], ["--version"], ["minicluster", "up", "--help"]):
        with Path("/dev/full").open("w") as full:
            command = [sys.executable, "-m", "peloton.cli", *arguments]
            done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
        assert (done.returncode, done.stderr) == (
            1,
            "peloton: standard output: No space left on device\n",
        )


def test_help_imports_neither_grpc_nor_yaml() -> None:
    code = (
        "import sys\nfrom peloton.cli.__main__ import main\nmain(['job', '--help'])\n"
        "sys.exit(bool({'grpc', 'yaml', 'rich', 'google.protobuf'} & set(sys.modules)))"
    )
    assert (
        subprocess.run([sys.executable, "-c", code], stdout=subprocess.DEVNULL, check=False).returncode == 0
    )
