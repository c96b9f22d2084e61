"""What a task of a secure cluster tries against the cluster and against others' tasks, and does not reach."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.components import LOOPBACK
from minicluster.mesos.agent.isolation import Mode, detect
from minicluster.settings import ClusterSettings, Instances
from minicluster.temporary import temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2

from .conftest import Harness
from .test_secure import command_line

PYTHON = shutil.which("python3", path="/usr/local/bin:/usr/bin:/bin")
"""One that is everybody's."""
FOUND = detect(Mode.AUTO, [Path(__file__).parent])
pytestmark = [
    pytest.mark.skipif(not FOUND.encloses, reason=f"tasks cannot have {FOUND.lacks}"),
    pytest.mark.skipif(PYTHON is None, reason="there is no Python for all users here"),
]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    settings = ClusterSettings(ports="free", secure=True, isolation="require", instances=Instances(web=1))
    with temporary_cluster(settings) as found:
        yield found


@pytest.fixture(scope="module")
def harness(cluster: Cluster) -> Iterator[Harness]:
    held = Harness(cluster)
    yield held
    held.client.close()


@pytest.fixture(scope="module")
def victim(harness: Harness) -> Iterator[str]:
    """A running job with a secret in its sandbox and its environment."""
    config = harness.config(f"echo in a file > note; echo begun; sleep 3{os.getpid()} & wait")
    config.defaultConfig.command.environment.variables.add(name="TOKEN", value="in the environment")
    config.defaultConfig.workload.token = True
    job = harness.create(config)
    harness.running(job)
    yield job
    stop = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
    harness.client.task_svc.Stop(stop, timeout=60)
    harness.ended(job)


def process_of(mark: str) -> int:
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if mark.encode() in path.read_bytes().split(b"\0"):
                return int(path.parent.name)
        except OSError:
            continue
    raise AssertionError(f"no process has {mark}")


def agent_of(cluster: Cluster) -> str:
    return next(part.addresses["http"] for part in cluster.components() if part.kind == "mesos-agent")


def attempts(cluster: Cluster, victim: str) -> dict[str, str]:
    """Shell commands that succeed where something is reached."""
    folder, pid = cluster.directory, process_of(f"3{os.getpid()}")
    [sandbox] = {path.parent.resolve() for path in folder.glob(f"mesos/*/slaves/**/{victim}-*/runs/*/note")}
    daemon = next(each.pid for each in cluster.status() if each.name.startswith("jobmgr"))
    agent = next(each.pid for each in cluster.status() if each.name.startswith("mesos-agent"))
    files = {
        "password": cluster.layout.credentials_of("admin"),
        "users": cluster.layout.users,
        "secret-keys": cluster.layout.secret_keys,
        "authority": cluster.layout.certificates / "ca.key",
        "agent-secret": cluster.layout.agent_secret,
        "settings": cluster.layout.record,
        "note": sandbox / "note",
        "token": sandbox / ".peloton" / "token",
        "task-keys": cluster.layout.task_keys,
    }
    assert all(file.is_file() for file in files.values()), files
    readable = {name: f"cat {file}" for name, file in files.items()}
    return {
        **readable,
        **{f"{name}-by-init": f"cat /proc/1/root{file}" for name, file in files.items()},
        "tokens": f"cat {folder}/mesos/*/meta/secrets/*/* | grep peloton-task",
        "database": f"find {folder} -name '*.sqlite*' -o -name '*.db*' | grep .",
        "membership": f"ls {cluster.layout.membership}",
        "plant": f"touch {folder}/planted || touch {cluster.layout.membership}/planted",
        "other-cwd": f"cat /proc/{pid}/cwd/note",
        "other-environment": f"cat /proc/{pid}/environ",
        "any-environment": "cat /proc/[0-9]*/environ | grep -a 'in the environment'",
        "other-command": f"cat /proc/[0-9]*/cmdline | grep -a 'sleep.[3]{os.getpid()}'",
        "other-memory": f"true < /proc/{pid}/mem",
        "daemon-memory": f"cat /proc/{daemon}/maps /proc/{daemon}/environ",
        "kill": f"kill -9 {pid}",
        "kill-daemon": f"kill -9 {daemon} || kill -9 {agent}",
        "trace": f"{PYTHON} -c '{TRACE}' {pid}",
        "unmount": f"umount -l {folder}",
        "unmount-in-namespace": f"unshare -Urm sh -c 'umount -l {folder}; cat {files['password']}'",
    }


TRACE = "import ctypes, sys; sys.exit(ctypes.CDLL(None).ptrace(16, int(sys.argv[1]), 0, 0) != 0)"
"""Attaches to a process."""


def test_a_task_reaches_nothing_of_the_cluster_and_of_others(
    cluster: Cluster, harness: Harness, victim: str
) -> None:
    tried = attempts(cluster, victim)
    script = "; ".join(f"({attempt}) >/dev/null 2>&1 && echo {name}" for name, attempt in tried.items())
    job = harness.create(harness.config(f"{script}; echo done"))
    assert harness.ended(job).state == job_pb2.SUCCEEDED
    assert b"".join(harness.client.jobs.logs(job, 0)).decode().split() == ["done"]
    assert harness.tasks(victim)[0].runtime.state == task_pb2.RUNNING


def test_each_attempt_would_show_outside(cluster: Cluster, victim: str) -> None:
    """The attack list reaches something where nothing keeps it from it: here."""
    destructive = {"kill", "kill-daemon", "plant", "trace", "unmount", "unmount-in-namespace"}
    for name, attempt in attempts(cluster, victim).items():
        if name not in destructive and not name.endswith("-by-init"):  # another root, perhaps
            done = subprocess.run(["sh", "-c", attempt], capture_output=True, check=False, timeout=60)
            assert done.returncode == 0, (name, done.stderr)


def test_fetching_reaches_nothing_of_the_cluster(cluster: Cluster, harness: Harness) -> None:
    config = harness.config("cat admin.yaml")
    config.defaultConfig.command.uris.add(value=str(cluster.layout.credentials_of("admin")))
    config.defaultConfig.restartPolicy.maxFailures = 0
    job = harness.create(config)
    assert harness.ended(job).state == job_pb2.FAILED
    sandboxes = cluster.directory.glob(f"mesos/*/slaves/**/{job}-*/runs/latest/*")
    assert all("password" not in path.read_text() for path in sandboxes)


@pytest.mark.parametrize("user", ["root", ""])
def test_a_spec_does_not_choose_the_user_of_the_cluster(
    cluster: Cluster, harness: Harness, user: str
) -> None:
    config = harness.config(f"cat {cluster.layout.credentials_of('admin')} 2>/dev/null; id -u")
    config.defaultConfig.command.user = user
    job = harness.create(config)
    harness.ended(job)
    [uid] = b"".join(harness.client.jobs.logs(job, 0)).split()
    assert (int(uid) in (FOUND.users or ())) == (os.geteuid() == 0)


CALL = '{"type":"LAUNCH_NESTED_CONTAINER_SESSION"}'
"""Anything: who has no credentials is refused before it is read."""


def test_agents_let_nobody_in_without_credentials(cluster: Cluster, harness: Harness) -> None:
    host, port = agent_of(cluster).split(":")
    head = "POST /api/v1 HTTP/1.1\\r\\nHost: x\\r\\nContent-Type: application/json"
    head += f"\\r\\nContent-Length: {len(CALL)}"
    code = (
        "import socket, ssl, sys; c = ssl._create_unverified_context(); "
        f"s = socket.create_connection(('{host}', {port})); s = c.wrap_socket(s); "
        f"s.sendall(b'{head}\\r\\n\\r\\n{CALL}'); print(s.recv(100).split()[1].decode())"
    )
    job = harness.create(harness.config(f'{PYTHON} -c "{code.replace(chr(34), chr(92) + chr(34))}"'))
    assert harness.ended(job).state == job_pb2.SUCCEEDED
    assert b"".join(harness.client.jobs.logs(job, 0)) == b"401\n"
    with closing(socket.create_connection((LOOPBACK, int(port)), 60)) as plain:
        plain.sendall(b"GET /state HTTP/1.1\r\nHost: x\r\n\r\n")
        assert not plain.recv(100).startswith(b"HTTP/")


def test_logs_and_commands_beside_a_task_still_work(harness: Harness, cluster: Cluster, victim: str) -> None:
    assert command_line(cluster, "admin", "task", "logs", victim, "0") == (0, "begun\n")
    words = ("task", "exec", victim, "0", "cat note; exit 7")
    assert command_line(cluster, "admin", *words) == (7, "in a file\n")
    inside = f"ls {cluster.layout.certificates} 2>/dev/null; echo $TOKEN"
    assert command_line(cluster, "admin", "task", "exec", victim, "0", inside) == (0, "in the environment\n")
