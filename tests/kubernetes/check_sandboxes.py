"""Logs and files of tasks, and commands beside them, by a real API server and the kubelet that it calls."""

from __future__ import annotations

import os
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
import uuid
from pathlib import Path

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from tests.cluster.conftest import Harness, wait_for

SECONDS = 60


def cli(harness: Harness, *words: str, given: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    environment = {**os.environ, **harness.cluster.urls()}
    command = [sys.executable, "-m", "peloton.cli", *words]
    return subprocess.run(command, env=environment, input=given, capture_output=True, timeout=60, check=False)


def stop(harness: Harness, job: str) -> None:
    request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
    assert not harness.client.task_svc.Stop(request, timeout=30).HasField("error")


def test_the_log_of_an_ended_task_is_read(harness: Harness) -> None:
    job = harness.create(harness.config("echo out; echo err >&2; printf 'raw \\377 end'"))
    harness.ended(job)
    done = cli(harness, "task", "logs", job, "0")
    assert (done.returncode, done.stdout) == (0, b"out\nerr\nraw \xff end"), done.stderr


def test_a_long_log_comes_whole(harness: Harness) -> None:
    job = harness.create(harness.config("seq 1 60000"))
    harness.ended(job)
    whole = b"".join(b"%d\n" % number for number in range(1, 60001))
    assert cli(harness, "task", "logs", job, "0").stdout == whole


def test_a_log_is_followed_to_the_end_of_its_task(harness: Harness, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = harness.create(harness.config(f"echo one; read line < {gate}; echo $line"))
    harness.running(job, 0)
    environment = {**os.environ, **harness.cluster.urls()}
    command = [sys.executable, "-m", "peloton.cli", "logs", "--follow", job]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE) as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline().endswith(b"one\n")
        gate.write_text("two\n")
        assert follower.stdout.readline().endswith(b"two\n")
        assert follower.stdout.read() == b""
        assert follower.wait(SECONDS) == 0


def test_what_is_added_to_a_log_is_seen_by_the_next_reader(harness: Harness, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    job = harness.create(harness.config(f"echo one; read line < {gate}; echo $line; sleep 1000"))
    harness.running(job, 0)
    wait_for(lambda: cli(harness, "task", "logs", job, "0").stdout == b"one\n", SECONDS)
    gate.write_text("two\n")
    wait_for(lambda: cli(harness, "task", "logs", job, "0").stdout == b"one\ntwo\n", SECONDS)
    stop(harness, job)


FILES = """
cd "$MESOS_SANDBOX" && mkdir -p out/deep && ln -s report.txt out/near && ln -s /etc out/far && mkfifo pipe
seq 1 30000 > out/report.txt
printf 'raw \\377 end' > 'a b'
test -s etc/key && echo ready
sleep 1000
"""


def logs(harness: Harness, job: str, file: str) -> tuple[int, bytes, str]:
    done = cli(harness, "task", "logs", job, "0", "-f", file)
    return done.returncode, done.stdout, done.stderr.decode()


def test_files_of_a_task_that_runs_are_listed_and_read(harness: Harness) -> None:
    job = create_with_secret(harness)
    harness.running(job, 0)
    wait_for(lambda: cli(harness, "task", "logs", job, "0").stdout == b"ready\n", SECONDS)
    request = task_pb2.BrowseSandboxRequest(jobId=peloton_pb2.JobID(value=job), instanceId=0)
    answer = harness.client.task_svc.BrowseSandbox(request, timeout=30)
    names = sorted(path.rpartition("/")[2] for path in answer.paths)
    assert names == ["a b", "pipe", "stderr", "stdout"], answer
    whole = b"".join(b"%d\n" % number for number in range(1, 30001))
    assert logs(harness, job, "out/report.txt") == (0, whole, "")
    assert logs(harness, job, "out/near") == (0, whole, "")
    assert logs(harness, job, "a b") == (0, b"raw \xff end", "")
    for file, text in (
        ("results.csv", "no file 'results.csv' in the sandbox; there: a b, etc/, out/, pipe, stderr, stdout"),
        ("out", "'out' is a folder of the sandbox; in it: deep/, far, near, report.txt"),
        ("out/far/passwd", "no folder 'out/far' in the sandbox"),
        ("out/far", "is a link that leads out of the sandbox"),
        ("../x", "is no path inside of the sandbox"),
    ):
        code, output, error = logs(harness, job, file)
        assert (code, output, text in error) == (1, b"", True), (file, error)
    for path, status in (("/out/far/passwd", 404), ("/../../x", 400), ("/pipe", 400), ("/etc/key", 404)):
        assert ask(answer, path) == (status, False), path
    stop(harness, job)


def create_with_secret(harness: Harness) -> str:
    config = harness.config(FILES, type=job_pb2.SERVICE)
    config.defaultConfig.container.type = mesos_pb2.ContainerInfo.MESOS
    job = str(uuid.uuid4())
    request = job_pb2.CreateRequest(id=peloton_pb2.JobID(value=job), config=config)
    request.secrets.add(path="/mnt/mesos/sandbox/etc/key").value.data = b"content of the secret"
    answer = harness.client.job_svc.Create(request, timeout=30)
    assert not answer.HasField("error"), answer.error
    return job


def ask(sandbox: task_pb2.BrowseSandboxResponse, path: str) -> tuple[int, bool]:
    """Ask the server of sandboxes itself; return the status, and whether the secret comes."""
    root = min(sandbox.paths, key=len).rpartition("/")[0]
    query = urllib.parse.urlencode({"path": f"{root}{path}"})
    url = f"http://{sandbox.hostname}:{sandbox.port}/files/download?{query}"
    try:
        with urllib.request.urlopen(url, timeout=30) as answer:
            return answer.status, b"secret" in answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b"content of the secret" in error.read()


def test_the_log_of_a_task_that_has_ended_is_there_alone(harness: Harness) -> None:
    job = harness.create(harness.config('echo x > "$MESOS_SANDBOX/results.csv"; echo out'))
    harness.ended(job)
    code, output, error = logs(harness, job, "results.csv")
    assert (code, output, "its container has ended, and its files with it" in error) == (1, b"", True), error
    assert logs(harness, job, "stdout") == (0, b"out\n", "")


def test_commands_run_beside_a_task(harness: Harness) -> None:
    job = harness.create(harness.config("export IN_SHELL=1; sleep 1000", type=job_pb2.SERVICE))
    harness.running(job, 0)
    done = cli(harness, "task", "exec", job, "0", "echo $PELOTON_INSTANCE_ID; echo wrong >&2; exit 7")
    assert (done.returncode, done.stdout, done.stderr) == (7, b"0\n", b"wrong\n")
    done = cli(harness, "task", "exec", job, "0", "printf", "%s|", "a b", "c")
    assert (done.returncode, done.stdout) == (0, b"a b|c|")
    done = cli(harness, "task", "exec", job, "0", "kill -9 $$")
    assert done.returncode == 137
    given = os.urandom(300_000)
    done = cli(harness, "task", "exec", "-i", job, "0", "cat", given=given)
    assert (done.returncode, done.stdout == given) == (0, True), done.stderr
    done = cli(harness, "task", "exec", "-t", job, "0", "test -t 1 && stty size")
    assert done.returncode == 0 and done.stdout.split()[0].isdigit(), done
    stop(harness, job)
    wait_for(lambda: cli(harness, "task", "exec", job, "0", "true").returncode != 0, SECONDS)
    done = cli(harness, "task", "exec", job, "0", "true")
    assert b"a command runs beside a task that is RUNNING" in done.stderr


def test_the_input_of_a_command_ends_with_its_caller(harness: Harness, tmp_path: Path) -> None:
    """Kubernetes tells a command nothing else of a caller that has gone."""
    pid_file = tmp_path / "pid"
    job = harness.create(harness.config("sleep 1000", type=job_pb2.SERVICE))
    harness.running(job, 0)
    environment = {**os.environ, **harness.cluster.urls()}
    line = f"echo $$ > {pid_file}.draft; mv {pid_file}.draft {pid_file}; exec cat"
    words = [sys.executable, "-m", "peloton.cli", "task", "exec", "-i", job, "0", line]
    with subprocess.Popen(words, env=environment, stdin=subprocess.PIPE) as caller:
        wait_for(pid_file.exists, SECONDS)
        pid = int(pid_file.read_text())
        assert _state(pid) != "Z"
        caller.kill()
    wait_for(lambda: _state(pid) == "Z", SECONDS)
    stop(harness, job)


def _state(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"
