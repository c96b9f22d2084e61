"""A task reads its secret, and nothing else of the cluster has it: files, database, processes, answers."""

from __future__ import annotations

import hashlib
import secrets as random_secrets
import sqlite3
import urllib.error
import urllib.parse
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from mesos.v1 import mesos_pb2
from minicluster.settings import DaemonSettings
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as jobs_pb
from peloton.api.v1alpha.pod import pod_pb2
from peloton.api.v1alpha.pod.apachemesos import apachemesos_pb2
from peloton.cli.__main__ import main

from .conftest import Harness, harness_of, wait_for
from .service_job import ServiceJob
from .test_sandbox import browse, output

PATH = "/etc/secrets/key"
COMMAND = 'sha256sum < "$MESOS_SANDBOX/etc/secrets/key"; until test -e {gate}; do sleep 0.1; done'


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    """All daemons log whatever they have to say."""
    debug = {"debug": True}
    settings = DaemonSettings(
        jobmgr={**debug, "enable_secrets": True}, resmgr=debug, hostmgr=debug, placement=debug
    )
    with harness_of(tmp_path_factory, settings=settings) as held:
        yield held


@pytest.fixture
def content() -> bytes:
    return random_secrets.token_hex(32).encode()


def create(harness: Harness, content: bytes, command: str, **changes: object) -> str:
    job_id = str(uuid.uuid4())
    config = harness.config(command)
    config.defaultConfig.container.type = mesos_pb2.ContainerInfo.MESOS
    config.MergeFrom(job_pb2.JobConfig(**changes))  # type: ignore[arg-type]
    request = job_pb2.CreateRequest(id=peloton_pb2.JobID(value=job_id), config=config)
    request.secrets.add(path=PATH).value.data = content
    answer = harness.client.job_svc.Create(request, timeout=30)
    assert not answer.HasField("error"), answer.error
    return job_id


def root(harness: Harness) -> Path:
    return harness.cluster.layout.database.parent.parent


def holding(folder: Path, content: bytes) -> list[Path]:
    """Files below a folder that have the content, in any of the forms that messages take."""
    found = []
    for path in folder.rglob("*"):
        try:
            if path.is_file() and not path.is_symlink() and content in path.read_bytes():
                found.append(path)
        except FileNotFoundError:
            continue
    return found


def shown_by_processes(content: bytes) -> list[int]:
    """Processes whose command line or environment has it."""
    found = []
    for pid in psutil.pids():
        for name in ("cmdline", "environ"):
            try:
                if content in Path(f"/proc/{pid}/{name}").read_bytes():
                    found.append(pid)
            except OSError:
                continue
    return found


def rows_with(database: Path, content: bytes) -> set[str]:
    """Tables of the database with the content in any column."""
    found = set()
    with sqlite3.connect(database) as db:
        tables = [name for (name,) in db.execute("SELECT name FROM sqlite_master WHERE type = 'table'")]
        for table in tables:
            for row in db.execute(f"SELECT * FROM {table}"):
                values = (each if isinstance(each, bytes) else str(each).encode() for each in row)
                if any(content in value for value in values):
                    found.add(table)
    return found


def test_the_task_reads_it_and_nothing_else_has_it(harness: Harness, content: bytes, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    job_id = create(harness, content, COMMAND.format(gate=gate))
    harness.running(job_id)
    expected = hashlib.sha256(content).hexdigest()
    wait_for(lambda: output(browse(harness, job_id)).startswith(expected), 60)

    layout = harness.cluster.layout
    database = {layout.database, *layout.database.parent.glob(f"{layout.database.name}-*")}
    held = [path for path in holding(root(harness), content) if path not in database]
    (file,) = held
    assert "/meta/secrets/" in str(file) and file.stat().st_mode & 0o077 == 0
    assert rows_with(layout.database, content) == {"secrets"}
    assert shown_by_processes(content) == []
    assert_not_served(harness, job_id, content)
    answer = harness.client.job_svc.Get(job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id)), timeout=30)
    assert [each.path for each in answer.secrets] == [PATH]
    assert content not in answer.SerializeToString()
    events = task_pb2.GetPodEventsRequest(jobId=peloton_pb2.JobID(value=job_id), instanceId=0)
    assert content not in harness.client.task_svc.GetPodEvents(events, timeout=30).SerializeToString()

    gate.touch()
    assert harness.ended(job_id).state == job_pb2.SUCCEEDED
    assert not file.exists()
    harness.client.job_svc.Delete(job_pb2.DeleteRequest(id=peloton_pb2.JobID(value=job_id)), timeout=30)
    assert rows_with(layout.database, content) == set()


def assert_not_served(harness: Harness, job_id: str, content: bytes) -> None:
    """Neither the master's and the agents' state nor the sandbox's files have it."""
    sandbox = browse(harness, job_id)
    (stdout,) = (path for path in sandbox.paths if path.endswith("/stdout"))
    at = urllib.parse.urlencode({"path": stdout.removesuffix("/stdout") + PATH})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"http://{sandbox.hostname}:{sandbox.port}/files/download?{at}", timeout=30)
    assert refused.value.code == 404
    for part in harness.cluster.components():
        if part.kind.startswith("mesos-"):
            with urllib.request.urlopen(f"http://{part.addresses['http']}/state", timeout=30) as answer:
                state = answer.read()
            assert content not in state
    with urllib.request.urlopen(f"http://{master(harness)}/state", timeout=30) as answer:
        assert PATH.encode() in answer.read(), "the container is shown, without the content"


def master(harness: Harness) -> str:
    return next(p.addresses["http"] for p in harness.cluster.components() if p.kind == "mesos-master")


def test_a_run_after_a_kill_of_the_agent_has_it_too(harness: Harness, content: bytes, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    command = f'until test -e {gate}; do sleep 0.1; done; sha256sum < "$MESOS_SANDBOX{PATH}"'
    job_id = create(harness, content, command)
    host = harness.running(job_id).host
    (agent,) = (
        p.name
        for p in harness.cluster.components()
        if p.kind == "mesos-agent" and f"--hostname={host}" in p.flags
    )
    harness.cluster.kill([agent])
    harness.cluster.start([agent])
    gate.touch()
    assert harness.ended(job_id).state == job_pb2.SUCCEEDED
    expected = hashlib.sha256(content).hexdigest()
    wait_for(lambda: bool(browse(harness, job_id).paths), 60)  # the agent has to register again
    assert output(browse(harness, job_id)).startswith(expected)


def test_a_lost_secret_kills_the_task(harness: Harness, content: bytes, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    once = f"test -e {gate} || {{ touch {gate}; sleep 1000; }}"
    job_id = create(harness, content, once)
    harness.running(job_id)
    with sqlite3.connect(harness.cluster.layout.database, timeout=30) as db:
        db.execute("DELETE FROM secrets WHERE job_id = ?", (job_id,))
    request = task_pb2.RestartRequest(jobId=peloton_pb2.JobID(value=job_id))
    harness.client.task_svc.Restart(request, timeout=30)
    assert harness.ended(job_id).state == job_pb2.KILLED
    runtime = harness.tasks(job_id)[0].runtime
    assert (runtime.state, runtime.reason) == (task_pb2.KILLED, "SECRET_NOT_FOUND")
    assert runtime.message.endswith(f"({PATH}) is not stored")


def test_an_update_of_a_service_brings_another_content(harness: Harness, content: bytes) -> None:
    def adjust(spec: stateless_pb2.JobSpec) -> None:
        spec.default_spec.mesos_spec.type = apachemesos_pb2.PodSpec.CONTAINER_TYPE_MESOS
        spec.default_spec.containers[0].entrypoint.value = f'sha256sum < "$MESOS_SANDBOX{PATH}"; sleep 600'

    secret = v1alpha.Secret(path=PATH)
    secret.value.data = content
    service = ServiceJob(harness, 1, adjust, [secret])

    def shows(run: int, expected: bytes) -> bool:
        if service.run(0) != run or service.list()[0].status.state != pod_pb2.POD_STATE_RUNNING:
            return False
        return output(browse(harness, service.id.value, run)).startswith(hashlib.sha256(expected).hexdigest())

    service.await_states(pod_pb2.POD_STATE_RUNNING)
    wait_for(lambda: shows(1, content), 60)
    (held,) = service.get().secrets
    held.value.data = b"another " + content
    version = service.get().job_info.status.version
    request = jobs_pb.ReplaceJobRequest(job_id=service.id, version=version, spec=service.spec, secrets=[held])
    service.jobs.ReplaceJob(request, timeout=30)
    wait_for(lambda: shows(2, b"another " + content), 60)


def test_the_example_of_the_user_guide(
    harness: Harness,
    content: bytes,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)
    file = tmp_path / "key.pem"
    file.write_bytes(content)
    spec = Path(__file__).resolve().parents[2] / "examples" / "secret_job.yaml"
    secret = ["--secret-path", PATH, "--secret-data", f"@{file}"]
    assert main(["job", "create", "/test", str(spec), *secret]) == 0
    job_id = next(word for word in capsys.readouterr().out.split() if len(word) == 36)
    assert harness.ended(job_id).state == job_pb2.SUCCEEDED
    assert output(browse(harness, job_id)).strip() == str(len(content))
