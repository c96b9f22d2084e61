"""Secrets of tasks on a real API server: the task reads them, and nobody else finds them."""

from __future__ import annotations

import asyncio
import json
import secrets
import subprocess
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.kubernetes.access import from_kubeconfig
from peloton.kubernetes.client import ApiClient, ApiError
from tests.cluster.conftest import Harness, wait_for
from tests.kubernetes.check_sandboxes import cli, stop

SECONDS = 60
STORE = "peloton.db"
"""Peloton's own store and its log, which have secrets as they are where no key is set to encrypt them by."""
SECRETS = "/api/v1/namespaces/peloton/secrets"


def ask(harness: Harness, path: str) -> dict[str, Any] | None:
    """Return an object of the API server; None where it is not there."""

    async def get() -> dict[str, Any] | None:
        async with ApiClient(from_kubeconfig(harness.cluster.layout.kubeconfig)) as client:
            try:
                return await client.call("GET", path)
            except ApiError as error:
                assert error.status == 404, error
                return None

    return asyncio.run(get())


def create(harness: Harness, content: str, command: str) -> str:
    """Create a service with a secret file."""
    config = harness.config(command, type=job_pb2.SERVICE)
    config.defaultConfig.container.type = mesos_pb2.ContainerInfo.MESOS
    job = str(uuid.uuid4())
    request = job_pb2.CreateRequest(id=peloton_pb2.JobID(value=job), config=config)
    request.secrets.add(path="/etc/secrets/key").value.data = content.encode()
    answer = harness.client.job_svc.Create(request, timeout=30)
    assert not answer.HasField("error"), answer.error
    return job


def own_processes(harness: Harness) -> Iterator[psutil.Process]:
    root = str(harness.cluster.directory)
    for process in psutil.process_iter():
        try:
            if root in " ".join(process.cmdline()):
                yield process
        except psutil.Error:
            continue


def files_of(harness: Harness) -> Iterator[Path]:
    """Yield what daemons, kubelets and servers have written, but for the store of the API server."""
    for path in harness.cluster.directory.rglob("*"):
        known = ("etcd", "secrets")
        if path.is_file() and not path.is_symlink() and not any(each in path.parts for each in known):
            yield path


def test_a_task_reads_its_secret_and_nobody_else(harness: Harness) -> None:
    content = secrets.token_hex(32)
    job = create(harness, content, 'sha256sum < "$MESOS_SANDBOX/etc/secrets/key"; sleep 1000')
    runtime = harness.running(job, 0)
    run = runtime.mesosTaskId.value
    summed = subprocess.run(["sha256sum"], input=content.encode(), capture_output=True, check=True).stdout
    wait_for(lambda: cli(harness, "task", "logs", job, "0").stdout == summed, SECONDS)
    pod, secret = (ask(harness, f"/api/v1/namespaces/peloton/{kind}/{run}") for kind in ("pods", "secrets"))
    assert pod is not None and secret is not None
    assert secret["metadata"]["ownerReferences"][0]["uid"] == pod["metadata"]["uid"]
    encoded = secret["data"]["file-0"]
    events = ask(harness, "/api/v1/namespaces/peloton/events")
    shown = cli(harness, "task", "get", job, "0").stdout + cli(harness, "job", "get", job).stdout
    shown += cli(harness, "task", "exec", job, "0", "env").stdout
    for each in (content, encoded):
        assert each not in json.dumps(pod) and each not in json.dumps(events)
        assert each.encode() not in shown
        for process in own_processes(harness):
            try:
                assert each not in " ".join([*process.cmdline(), str(process.environ())])
            except psutil.Error:
                continue
        holding = [path for path in files_of(harness) if each.encode() in path.read_bytes()]
        assert not [path for path in holding if not path.name.startswith(STORE)], holding
    stop(harness, job)
    wait_for(lambda: ask(harness, f"{SECRETS}/{run}") is None, SECONDS)


def test_the_example_runs(harness: Harness) -> None:
    example = Path(__file__).parents[2] / "examples" / "secret_job.yaml"
    words = [
        "job",
        "create",
        "/test",
        str(example),
        "--secret-path",
        "/etc/secrets/key",
        "--secret-data",
        "-",
    ]
    done = cli(harness, *words, given=b"secret")
    assert done.returncode == 0, done.stderr
    job = done.stdout.decode().split()[1]
    assert harness.ended(job).state == job_pb2.SUCCEEDED
    assert cli(harness, "task", "logs", job, "0").stdout.strip() == b"6"
    run = harness.tasks(job)[0].runtime.mesosTaskId.value
    assert ask(harness, f"{SECRETS}/{run}") is None  # its run has ended
