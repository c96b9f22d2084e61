"""The Python client against the cluster, and its wheel in an environment of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing
from pathlib import Path
from typing import Any

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.pod import pod_pb2
from peloton.client import AsyncPelotonClient, CallError, PelotonClient
from peloton.client.watching import Event, EventKind
from tools.clients import OUTPUT

from .conftest import POOL, ROOT, Shared, run
from .losing import BEGUN, CALLERS, CALLS_PER_CALLER, HELD, Once

SECONDS = 180.0


def spec(shared: Shared, command: str, instances: int) -> job_pb2.JobConfig:
    config = shared.harness.config(command, instances)
    config.defaultConfig.resource.memLimitMb = 16
    return config


def test_a_job_with_progress_instances_and_logs(shared: Shared, client: PelotonClient) -> None:
    job = client.jobs.create(POOL, spec(shared, "echo one; sleep 1; echo two", 3))
    assert b"".join(client.jobs.logs(job, 1, follow=True)) == b"one\ntwo\n"
    steps: list[int] = []
    end = client.jobs.wait(job, SECONDS, lambda runtime: steps.append(runtime.state))
    assert end.state == job_pb2.SUCCEEDED
    assert steps[-1] == job_pb2.SUCCEEDED
    assert [task.instanceId for task in client.jobs.instances(job)] == [0, 1, 2]
    assert b"".join(client.jobs.logs(job, 2)) == b"one\ntwo\n"


def test_errors_are_typed(shared: Shared, client: PelotonClient) -> None:
    with pytest.raises(CallError) as missing:
        client.jobs.get("00000000-0000-4000-8000-000000000000")
    assert missing.value.code is grpc.StatusCode.NOT_FOUND
    with pytest.raises(CallError) as refused:
        client.jobs.create(POOL, spec(shared, "true", 0))
    assert (refused.value.code, refused.value.value) == (grpc.StatusCode.INVALID_ARGUMENT, "0")
    assert refused.value.field.endswith("instanceCount")


@pytest.mark.parametrize("loss", ["kill", "freeze"])
def test_calls_and_watches_outlive_the_leaders(shared: Shared, loss: str) -> None:
    with PelotonClient("tests", zk_servers=shared.environment["ZK_SERVERS"], timeout=60) as client:
        watched = client.jobs.create(POOL, spec(shared, "sleep 20", 4))
        created: list[str] = []
        once, begun, lost = Once(), threading.Semaphore(0), threading.Event()

        def watch() -> None:
            ended = Ended()
            for event in client.jobs.watch_pods(watched):
                if ended.all_by(event):
                    return

        def call(caller: int) -> None:
            for number in range(CALLS_PER_CALLER):
                if number == BEGUN:
                    begun.release()
                if number == HELD:
                    assert lost.wait(SECONDS)
                if caller % 2:
                    client.jobs.get(watched)
                elif number % 2:
                    created.append(client.jobs.create(POOL, spec(shared, "true", 1)))
                else:
                    with once.request(spec(shared, "true", 1)) as request:
                        assert not client.job_svc.Create(request).HasField("error")

        with ThreadPoolExecutor(CALLERS + 3) as threads:
            running = [threads.submit(watch) for _ in range(3)]
            running += [threads.submit(call, caller) for caller in range(CALLERS)]
            for _ in range(CALLERS):
                assert begun.acquire(timeout=SECONDS)
            shared.control(loss, "jobmgr", "resmgr")
            lost.set()
            for each in running:
                each.result(SECONDS)
        shared.control("restore", "jobmgr", "resmgr")
        assert len(set(created)) == CALLERS // 2 * CALLS_PER_CALLER // 2
        for job in created:
            assert client.jobs.wait(job, SECONDS).state == job_pb2.SUCCEEDED
        once.check(client.job_svc.Query(once.query()))


@pytest.mark.parametrize("loss", ["kill", "freeze"])
async def test_calls_and_watches_of_asyncio_outlive_the_leaders(shared: Shared, loss: str) -> None:
    servers = shared.environment["ZK_SERVERS"]
    async with AsyncPelotonClient("tests", zk_servers=servers, timeout=60) as client:
        watched = await client.jobs.create(POOL, spec(shared, "sleep 20", 4))
        created: list[str] = []
        once, begun, lost = Once(), asyncio.Semaphore(0), asyncio.Event()

        async def watch() -> None:
            ended = Ended()
            async with aclosing(client.jobs.watch_pods(watched)) as events:
                async for event in events:
                    if ended.all_by(event):
                        return

        async def call(caller: int) -> None:
            for number in range(CALLS_PER_CALLER):
                if number == BEGUN:
                    begun.release()
                if number == HELD:
                    await lost.wait()
                if caller % 2:
                    await client.jobs.get(watched)
                elif number % 2:
                    created.append(await client.jobs.create(POOL, spec(shared, "true", 1)))
                else:
                    with once.request(spec(shared, "true", 1)) as request:
                        assert not (await client.job_svc.Create(request)).HasField("error")

        async with asyncio.timeout(2 * SECONDS), asyncio.TaskGroup() as tasks:
            for work in (*(watch() for _ in range(3)), *(call(caller) for caller in range(CALLERS))):
                tasks.create_task(work)
            for _ in range(CALLERS):
                await begun.acquire()
            await asyncio.to_thread(shared.control, loss, "jobmgr", "resmgr")
            lost.set()
        await asyncio.to_thread(shared.control, "restore", "jobmgr", "resmgr")
        assert len(set(created)) == CALLERS // 2 * CALLS_PER_CALLER // 2
        ends = await asyncio.gather(*(client.jobs.wait(job, SECONDS) for job in created))
        assert {end.state for end in ends} == {job_pb2.SUCCEEDED}
        once.check(await client.job_svc.Query(once.query()))
    assert not [each.name for each in threading.enumerate() if each.name.startswith("peloton-client")]


class Ended:
    """The pods of a watched job of four that have succeeded."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def all_by(self, event: Event[Any]) -> bool:
        """Return whether all have succeeded by now."""
        state = event.subject.status.state if event.subject is not None else None
        if event.kind is EventKind.CHANGED and state == pod_pb2.POD_STATE_SUCCEEDED:
            self._names.add(event.name)
        return len(self._names) == 4


async def test_asyncio_with_progress_instances_and_logs(shared: Shared) -> None:
    async with AsyncPelotonClient("tests", zk_servers=shared.environment["ZK_SERVERS"]) as client:
        job = await client.jobs.create(POOL, spec(shared, "echo one; sleep 1; echo two", 3))
        followed = [piece async for piece in client.jobs.logs(job, 1, follow=True)]
        assert b"".join(followed) == b"one\ntwo\n"
        steps: list[int] = []
        end = await client.jobs.wait(job, SECONDS, lambda runtime: steps.append(runtime.state))
        assert (end.state, steps[-1]) == (job_pb2.SUCCEEDED, job_pb2.SUCCEEDED)
        assert [task.instanceId async for task in client.jobs.instances(job)] == [0, 1, 2]
        assert b"".join([piece async for piece in client.jobs.logs(job, 2)]) == b"one\ntwo\n"
        endless = await client.jobs.create(POOL, spec(shared, "echo here; sleep 600", 1))
        reading = asyncio.create_task(all_of(client.jobs.logs(endless, 0, follow=True)))
        async with aclosing(client.jobs.watch_pods(endless)) as events:
            async for event in events:
                if event.subject is not None and event.subject.status.state == pod_pb2.POD_STATE_RUNNING:
                    break
        reading.cancel()
        with pytest.raises(asyncio.CancelledError):
            await reading
        stop = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=endless))
        await client.task_svc.Stop(stop)
        assert (await client.jobs.wait(endless, SECONDS)).state == job_pb2.KILLED


async def all_of(pieces: AsyncGenerator[bytes, None]) -> bytes:
    return b"".join([piece async for piece in pieces])


def test_the_wheel_brings_no_daemon(tmp_path: Path) -> None:
    (wheel,) = (OUTPUT / "python").glob("peloton_client-[0-9]*.whl")
    run(["python3", "-m", "venv", "own"], tmp_path)
    python = str(tmp_path / "own" / "bin" / "python")
    constraints = str(ROOT / "constraints.txt")
    run([python, "-m", "pip", "install", "--quiet", "-c", constraints, str(wheel)], tmp_path)
    listed = run([python, "-m", "pip", "list", "--format=freeze"], tmp_path)
    names = {line.partition("==")[0].lower() for line in listed.splitlines() if "==" in line}
    of_requests = {"requests", "certifi", "charset-normalizer", "idna", "urllib3"}
    brought = {"peloton-client", "grpcio", "protobuf", "typing_extensions", *of_requests}
    assert {name.replace("_", "-") for name in names - {"pip", "setuptools"}} == {
        name.replace("_", "-") for name in brought
    }
    lines = [
        "import importlib.util",
        "from peloton.client import PelotonClient",
        "from peloton.client.services import SERVICES",
        "for name, service in SERVICES.items():",
        "    if service.module.startswith('api.'): service.load()",
        "for name in ('jobmgr', 'peloton.cli', 'peloton.daemon', 'minicluster', 'kazoo', 'yaml'):",
        "    try: assert importlib.util.find_spec(name) is None, name",
        "    except ModuleNotFoundError: pass",
        "import sys; assert 'requests' not in sys.modules",
        "from peloton.client.environment import settings_from_environment",
        "from peloton.errors import NotFound",
        "assert not settings_from_environment({}).get('discovery')",
        "try: settings_from_environment({'PELOTON_MINICLUSTER_DIR': '/x'})",
        "except NotFound as error: assert 'no minicluster is installed' in str(error)",
        "else: sys.exit('it found one')",
    ]
    run([python, "-c", "\n".join(lines)], tmp_path)
