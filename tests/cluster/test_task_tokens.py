"""A task of a secure cluster acts on its own job by its token, and on nothing else."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import httpx2
import pytest

from minicluster.cluster import Cluster
from minicluster.credentials import CLIENT, PRINCIPAL, TASK, https_context
from minicluster.settings import ClusterSettings
from minicluster.temporary import temporary_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.client.auth import BearerAuth
from peloton.client.failures import CallError
from peloton.client.tls import Tls

from .conftest import Harness, wait_for
from .leaks import Secret, files, processes, rows, search
from .test_secure import command_line

ROOT = Path(__file__).resolve().parents[2]
DRIVER = """
import json, os, subprocess, sys
import grpc
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.client import PelotonClient
from peloton.client.failures import CallError

own, other = os.environ["PELOTON_JOB_ID"], sys.argv[1]
found = {}

def code(what, call):
    try:
        call()
        found[what] = "OK"
    except (CallError, grpc.RpcError) as error:
        found[what] = error.code().name if callable(error.code) else error.code.name

def stop(client, job):
    client.job_svc.Stop(job_pb2.StopRequest(id=peloton_pb2.JobID(value=job)))

with PelotonClient.from_environment("driver") as client:
    config = client.jobs.get(own).config
    config.instanceCount = 2
    config.instanceConfig[1].command.CopyFrom(config.defaultConfig.command)
    config.instanceConfig[1].command.value = "echo from the executor"
    request = job_pb2.UpdateRequest(id=peloton_pb2.JobID(value=own), config=config)
    found["update"] = str(client.job_svc.Update(request).error)
    found["log"] = b"".join(client.jobs.logs(own, 1, follow=True)).decode()
    pods = client.jobs.watch_pods(own)
    found["watched"] = next(pods).subject.pod_name.value.startswith(own)
    pods.close()
    for job in (other, own.translate(str.maketrans("0123456789", "1234567890"))):
        code(f"get {job == other}", lambda: client.jobs.get(job))
        code(f"stop {job == other}", lambda: stop(client, job))
        code(f"logs {job == other}", lambda: b"".join(client.jobs.logs(job, 0)))
    code("create", lambda: client.job_svc.Create(job_pb2.CreateRequest(config=config)))
    code("delete", lambda: client.job_svc.Delete(job_pb2.DeleteRequest(id=peloton_pb2.JobID(value=own))))

def command(*arguments):
    done = subprocess.run(
        [sys.executable, "-m", "peloton.cli", *arguments], capture_output=True, text=True, timeout=120
    )
    found[" ".join(arguments).replace(own, "OWN").replace(other, "OTHER")] = [done.returncode, done.stdout]

command("task", "logs", own, "1")
command("task", "logs", own, "1", "--follow")
command("auth", "whoami")
command("job", "get", other)
command("job", "stop", other)
print(json.dumps(found), flush=True)
sys.stdin.close()
import time
time.sleep(600)
"""


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    """Tasks are not isolated: they run this Python, which other users may not reach."""
    settings = ClusterSettings(ports="free", secure=True, isolation="none")
    with temporary_cluster(settings) as found:
        yield found


@pytest.fixture(scope="module")
def harness(cluster: Cluster) -> Iterator[Harness]:
    held = Harness(cluster)
    yield held
    held.client.close()


def with_token(harness: Harness, command: str) -> str:
    config = harness.config(command)
    config.defaultConfig.workload.token = True
    config.defaultConfig.resource.memLimitMb = 256
    return harness.create(config)


def stop(harness: Harness, job: str) -> None:
    harness.client.task_svc.Stop(task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job)), timeout=60)
    harness.ended(job)


def token_of(cluster: Cluster, job: str) -> str:
    """Return the token that a running task of the job has."""
    found = [
        path.read_text()
        for path in cluster.directory.glob("mesos/*/meta/secrets/*/*")
        if path.read_bytes().startswith(f"peloton-task.{job}-".encode())
    ]
    [token] = found
    return token


def client_of(cluster: Cluster, token: str) -> PelotonClient:
    """Return a client that shows the token of a task, as the task would."""
    certificate, key = cluster.layout.certificate_of(TASK)
    tls = Tls(str(cluster.layout.authority), str(certificate), str(key))
    return PelotonClient("task", jm_url=cluster.urls()["JOBMGR_URL"], tls=tls, auth=BearerAuth(token))


@pytest.fixture(scope="module")
def other(harness: Harness) -> Iterator[str]:
    job = harness.create(harness.config("sleep 600"))
    harness.running(job)
    yield job
    stop(harness, job)


@pytest.fixture(scope="module")
def driver(harness: Harness, other: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    script = tmp_path_factory.mktemp("driver") / "driver.py"
    script.write_text(DRIVER)
    job = with_token(harness, f"PYTHONPATH={ROOT} exec {sys.executable} {script} {other}")
    yield job
    stop(harness, job)


@pytest.fixture(scope="module")
def told(harness: Harness, driver: str) -> dict[str, Any]:
    """What the driver has found."""

    def text() -> str:
        try:
            return b"".join(harness.client.jobs.logs(driver, 0)).decode()
        except CallError:  # it has not begun
            return ""

    def story() -> str:
        return b"".join(harness.client.jobs.logs(driver, 0, "stderr")).decode()

    wait_for(lambda: text().endswith("\n"), 120, story)
    found: dict[str, Any] = json.loads(text())
    return found


def test_a_driver_adds_an_executor_and_reads_its_log(told: dict[str, Any]) -> None:
    assert told["update"] == ""
    assert told["log"] == "from the executor\n"
    assert told["watched"]
    assert told["task logs OWN 1"] == told["task logs OWN 1 --follow"] == [0, "from the executor\n"]


def test_it_reaches_no_other_job(told: dict[str, Any], harness: Harness, other: str) -> None:
    attempts = {name: told[name] for name in told if name.endswith((" True", " False"))}
    assert len(attempts) == 6 and set(attempts.values()) == {"PERMISSION_DENIED"}
    assert {told["create"], told["delete"]} == {"PERMISSION_DENIED"}
    assert [told["job get OTHER"][0], told["job stop OTHER"][0]] == [1, 1]
    assert harness.tasks(other)[0].runtime.state == task_pb2.RUNNING


def test_the_command_line_of_a_task_knows_who_it_is(told: dict[str, Any], driver: str) -> None:
    assert told["auth whoami"] == [0, f"task {driver}-0-1, for its own job\n"]


def test_nothing_shows_the_token(cluster: Cluster, harness: Harness, driver: str, told: object) -> None:
    """Neither logs, nor the store, nor what agents and the master answer, nor another task's sandbox."""
    signature = token_of(cluster, driver).rpartition(".")[2]
    assert command_line(cluster, "admin", "-o", "json", "task", "get", driver, "0")[0] == 0
    places = [*files(cluster.directory), *rows(cluster.layout.database), *processes(), *http(cluster)]
    found = {find.place for find in search(places, [Secret("token", signature.encode())])}
    assert found and all("/meta/secrets/" in place for place in found), found
    seen = {find.place for find in search(places, [Secret("job", driver.encode())])}
    assert any(place.endswith("/state") for place in seen) and any("log/" in place for place in seen)


def http(cluster: Cluster) -> Iterator[tuple[str, bytes]]:
    verify = https_context(cluster.layout)
    assert verify is not None
    verify.load_cert_chain(*cluster.layout.certificate_of(CLIENT))
    secret = cluster.layout.agent_secret.read_text().strip()
    for part in cluster.components():
        if part.kind in ("mesos-agent", "mesos-master"):
            auth = (PRINCIPAL, secret) if part.kind == "mesos-agent" else None
            for page in ("state", "tasks"):
                url = f"https://{part.addresses['http']}/{page}"
                answer = httpx2.get(url, timeout=30, verify=verify, auth=auth)
                assert answer.status_code in (200, 404), (url, answer)
                yield url, answer.content


def test_the_token_ends_with_the_run(cluster: Cluster, harness: Harness) -> None:
    job = with_token(harness, "sleep 600")
    harness.running(job)
    token = token_of(cluster, job)
    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job))
    with client_of(cluster, token) as client:
        assert client.job_svc.Get(request).jobInfo.id.value == job
        restart = task_pb2.RestartRequest(jobId=peloton_pb2.JobID(value=job))
        harness.client.task_svc.Restart(restart, timeout=60)
        wait_for(lambda: harness.running(job).mesosTaskId.value.endswith("-2"), 60)
        with pytest.raises(grpc.RpcError) as raised:
            client.job_svc.Get(request)
        assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
        assert raised.value.details() == f"the run {job}-0-1 has ended, and its token with it"
    with client_of(cluster, token_of(cluster, job)) as client:
        assert client.job_svc.Get(request).jobInfo.id.value == job
        stop(harness, job)
        with pytest.raises(grpc.RpcError) as raised:
            client.job_svc.Get(request)
        assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert not list(cluster.directory.glob(f"mesos/*/slaves/**/{job}-*/.peloton/token/*"))


def test_resmgr_and_hostmgr_take_no_tokens_of_tasks(cluster: Cluster, driver: str, told: object) -> None:
    certificate, key = cluster.layout.certificate_of(TASK)
    urls = cluster.urls()
    variables = {
        **{name: value for name, value in os.environ.items() if not name.startswith("PELOTON")},
        **{name: urls[name] for name in ("JOBMGR_URL", "RESMGR_URL", "HOSTMGR_URL")},
        "PELOTON_TOKEN": token_of(cluster, driver),
        "PELOTON_CA_FILE": str(cluster.layout.authority),
        "PELOTON_CERT_FILE": str(certificate),
        "PELOTON_KEY_FILE": str(key),
    }
    program = (
        "from peloton.client import PelotonClient\n"
        "from peloton.api.v0.respool import respool_pb2\n"
        "import grpc\n"
        "with PelotonClient.from_environment('x') as client:\n"
        "    try: client.respool_svc.Query(respool_pb2.QueryRequest())\n"
        "    except grpc.RpcError as error: print(error.code().name, error.details())\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], env=variables, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout == "UNAUTHENTICATED the token is a task's: it counts for the job manager only\n"
