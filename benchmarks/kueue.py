"""Kueue's scheduler performance test through the real daemons, with simulated agents, in real time.

What the test creates is public: cohorts of queues with quotas, and three streams of workloads for each
queue, each of which creates one every so many milliseconds (kubernetes-sigs/kueue,
test/performance/scheduler). Here a cohort and a queue are pools: a queue has its quota reserved and may have
what it may borrow beyond, up to what its cohort has. A workload is a batch job of one instance, on a
simulated agent that runs it for its time.

Kueue admits by quota alone; here the workloads are placed and launched, too, on hosts that have room for
several times the quota. So a workload's time to admission is measured until its first run runs, which comes
after the admission.
"""

from __future__ import annotations

import asyncio
import time
import uuid
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import yaml

from mesos.v1 import mesos_pb2
from minicluster.cluster import Cluster
from minicluster.mesos.master.core.simulated_agents import SECONDS_LABEL
from minicluster.settings import ClusterSettings, Simulated, read_cluster
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v0.query import query_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import PelotonClient
from peloton.clock import NANOSECONDS, parse_rfc3339
from peloton.errors import PelotonError
from peloton.model.resources import MILLI
from simulator.jobs import SimJob
from simulator.workloads.public import kueue_cluster, kueue_jobs

AMPLE = 1e9
HOSTS, HOST_CPUS = 640, 96
"""As the test's variant with a topology has them."""
CHANNELS, CALLS_AT_ONCE = 4, 64
POLL_SECONDS = 1.0
CALL_SECONDS = 120.0
ENDED = (job_pb2.SUCCEEDED, job_pb2.FAILED, job_pb2.KILLED)
ACTIVE = [state for state in job_pb2.JobState.values() if state not in (*ENDED, job_pb2.UNKNOWN)]

Class = tuple[str, int, int, int, float, int]
"""Name, workloads of a queue, ms between two, ms of a run, cores, priority."""


@dataclass(frozen=True, slots=True)
class Test:
    """One of Kueue's configurations, and what was published for it."""

    cohorts: int
    queues: int
    classes: tuple[Class, ...]
    seconds: float
    """From the first creation to the last end, published."""
    admission: Mapping[str, float]
    """Mean seconds to admission by class, published."""
    asked: float
    """What this project asks for, in all."""


TESTS = {
    "baseline": Test(
        5,
        6,
        (
            ("small", 350, 100, 200, 1.0, 50),
            ("medium", 100, 500, 500, 5.0, 100),
            ("large", 50, 1200, 1000, 20.0, 200),
        ),
        351.0,
        {"large": 16.5, "medium": 76.8, "small": 215.5},
        120.0,
    ),
    "large-scale": Test(
        10,
        100,
        (
            ("small", 35, 60, 150, 1.0, 50),
            ("medium", 11, 300, 350, 5.0, 100),
            ("large", 4, 700, 700, 20.0, 200),
        ),
        1179.0,
        {"large": 105.6, "medium": 256.4, "small": 700.4},
        300.0,
    ),
}
QUOTA, BORROWING = 20, 100


def generator_of(test: Test, cohorts: int = 0, part: float = 1.0) -> list[dict[str, Any]]:
    """Return the configuration of Kueue's generator; `part` of the workloads of each stream, at least one."""
    streams = [
        {
            "count": max(1, round(count * part)),
            "creationIntervalMs": every,
            "workloads": [{"className": name, "runtimeMs": runs, "priority": priority, "request": cpus}],
        }
        for name, count, every, runs, cpus, priority in test.classes
    ]
    queues = {
        "className": "cq",
        "count": test.queues,
        "nominalQuota": QUOTA,
        "borrowingLimit": BORROWING,
        "workloadsSets": streams,
    }
    return [{"className": "cohort", "count": cohorts or test.cohorts, "queuesSets": [queues]}]


@dataclass(frozen=True, slots=True)
class Workload:
    """What became of one. Times are in seconds since the begin of the run."""

    job: SimJob
    created: float
    """When the call that creates it began."""
    accepted: float
    """When jobmgr had it, as it says."""
    started: float
    ended: float


@dataclass(frozen=True, slots=True)
class ClassResult:
    """Of the workloads of a class: how many, and mean seconds."""

    workloads: int
    to_admission: float
    """From the begin of the call that creates it until it runs."""
    after_acceptance: float
    """From when jobmgr had it until it runs: a creation waits for others, too, where a client is bounded."""


@dataclass(frozen=True, slots=True)
class Result:
    """Of a whole run."""

    workloads: int
    creation: float
    """Seconds until all were created."""
    seconds: float
    """From the begin of the creations to the last end."""
    use: float
    """Part of the quotas that runs had."""
    classes: Mapping[str, ClassResult]


def cluster_settings(hosts: int = HOSTS) -> ClusterSettings:
    """Return a cluster with these simulated agents."""
    resources = f"cpus:{HOST_CPUS};mem:65536;disk:65536;ports:[31000-31999]"
    simulated = Simulated(agents=hosts, resources=resources)
    return read_cluster(None, {"ports": "free"}).model_copy(update={"simulated": simulated})


def run(cluster: Cluster, client: PelotonClient, given: list[dict[str, Any]], timeout: float) -> Result:
    """Create the pools and the workloads, wait for the end of all, and return the result."""
    path = Path("generator")
    jobs = list(kueue_jobs(path, yaml.safe_dump(given).splitlines(keepends=True)))
    shape = kueue_cluster(path, given)
    pools = make_pools(client, shape["pools"])
    workloads, creation = asyncio.run(
        _run(str(cluster.urls()["JOBMGR_URL"]), client.jobmgr_metadata, jobs, pools, timeout)
    )
    return result_of(workloads, creation, shape["hosts"][0]["cpu"])


def result_of(workloads: Sequence[Workload], creation: float, quota: float) -> Result:
    """Return the figures of a run over queues with `quota` cores in all."""
    by_class: dict[str, list[Workload]] = defaultdict(list)
    for each in workloads:
        by_class[each.job.kind].append(each)
    seconds = max(each.ended for each in workloads)
    used = sum(each.job.seconds * each.job.resources.cpu / MILLI for each in workloads)
    return Result(
        len(workloads),
        creation,
        seconds,
        used / (quota * seconds),
        {kind: _class_result(of) for kind, of in sorted(by_class.items())},
    )


def _class_result(workloads: Sequence[Workload]) -> ClassResult:
    count = len(workloads)
    return ClassResult(
        count,
        sum(each.started - each.created for each in workloads) / count,
        sum(each.started - each.accepted for each in workloads) / count,
    )


def make_pools(client: PelotonClient, pools: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Create the pools, parents first; return their ids by path."""
    ids = {"": "root"}
    for pool in pools:
        parent, _, name = pool["path"].rpartition("/")
        cpu = pool["resources"]["cpu"]
        kinds = [
            respool_pb2.ResourceConfig(kind=kind, limit=AMPLE, share=1) for kind in ("memory", "disk", "gpu")
        ]
        kinds.append(
            respool_pb2.ResourceConfig(
                kind="cpu", reservation=cpu["reservation"], limit=cpu["limit"], share=1
            )
        )
        config = respool_pb2.ResourcePoolConfig(
            name=name,
            parent=peloton_pb2.ResourcePoolID(value=ids[parent]),
            policy=respool_pb2.PriorityFIFO,
            resources=kinds,
        )
        answer = client.respool_svc.CreateResourcePool(
            respool_pb2.CreateRequest(config=config), metadata=client.resmgr_metadata, timeout=CALL_SECONDS
        )
        if answer.HasField("error"):
            raise PelotonError(f"cannot create the pool {pool['path']}: {answer.error}")
        ids[pool["path"]] = str(answer.result.value)
    return ids


def config_of(job: SimJob, pool: str) -> job_pb2.JobConfig:
    """Return a workload as a job."""
    seconds = peloton_pb2.Label(key=SECONDS_LABEL, value=f"{job.seconds:g}")
    return job_pb2.JobConfig(
        name=job.name,
        type=job_pb2.BATCH,
        instanceCount=job.instances,
        respoolID=peloton_pb2.ResourcePoolID(value=pool),
        sla=job_pb2.SlaConfig(preemptible=job.preemptible, priority=job.priority),
        defaultConfig=task_pb2.TaskConfig(
            resource=task_pb2.ResourceConfig(cpuLimit=job.resources.cpu / MILLI, memLimitMb=1, diskLimitMb=1),
            command=mesos_pb2.CommandInfo(shell=True, value="true"),
            labels=[seconds],
        ),
    )


async def _run(
    target: str,
    metadata: Sequence[tuple[str, str]],
    jobs: Sequence[SimJob],
    pools: Mapping[str, str],
    timeout: float,
) -> tuple[list[Workload], float]:
    options = (("grpc.use_local_subchannel_pool", 1),)
    channels = [grpc.aio.insecure_channel(target, options=options) for _ in range(CHANNELS)]
    try:
        load = _Load([job_pb2_grpc.JobManagerStub(channel) for channel in channels], metadata, pools)
        async with asyncio.timeout(timeout):
            await load.create(jobs)
            creation = load.now()
            await load.wait()
        return await load.outcome(), creation
    except TimeoutError:
        raise PelotonError(f"the workloads have not ended after {timeout:.0f} s") from None
    finally:
        for channel in channels:
            await channel.close()


class _Load:
    """Creates the workloads and follows them."""

    def __init__(
        self,
        stubs: Sequence[job_pb2_grpc.JobManagerAsyncStub],
        metadata: Sequence[tuple[str, str]],
        pools: Mapping[str, str],
    ) -> None:
        self._stubs, self._metadata, self._pools = stubs, metadata, pools
        self._free = asyncio.Semaphore(CALLS_AT_ONCE)
        self._created: dict[str, tuple[SimJob, float]] = {}
        self._calls = 0
        self._begun_ns = time.time_ns()

    def now(self) -> float:
        """Return the seconds since the begin, by the clock that daemons on this machine have, too."""
        return (time.time_ns() - self._begun_ns) / NANOSECONDS

    async def create(self, jobs: Sequence[SimJob]) -> None:
        """Create all, as the generator does: each stream by itself, each pause after the call before."""
        streams: dict[tuple[str, str], list[SimJob]] = defaultdict(list)
        for job in jobs:
            streams[job.pool, job.kind].append(job)
        async with asyncio.TaskGroup() as group:
            for stream in streams.values():
                group.create_task(self._stream(stream))

    async def _stream(self, jobs: Sequence[SimJob]) -> None:
        pauses = [jobs[0].submit, *(after.submit - before.submit for before, after in pairwise(jobs))]
        for job, pause in zip(jobs, pauses, strict=True):
            await asyncio.sleep(pause)
            job_id = str(uuid.uuid4())
            self._created[job_id] = (job, self.now())
            request = job_pb2.CreateRequest(
                id=peloton_pb2.JobID(value=job_id), config=config_of(job, self._pools[job.pool])
            )
            async with self._free:
                answer = await self._call("Create", request)
            if answer.HasField("error"):
                raise PelotonError(f"cannot create the workload {job.name}: {answer.error}")

    async def wait(self) -> None:
        """Wait until no job is active."""
        spec = job_pb2.QuerySpec(pagination=query_pb2.PaginationSpec(limit=1), jobStates=ACTIVE)
        while True:
            if not (await self._query(spec)).pagination.total:
                return
            await asyncio.sleep(POLL_SECONDS)

    async def outcome(self) -> list[Workload]:
        """Return what became of all. Raises PelotonError where one has not succeeded."""
        ids = iter(list(self._created))
        found: list[Workload] = []

        async def read() -> None:
            for job_id in ids:
                request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
                answer = await self._call("Get", request)
                found.append(self._workload(job_id, answer.jobInfo.runtime))

        async with asyncio.TaskGroup() as group:
            for _ in range(CALLS_AT_ONCE):
                group.create_task(read())
        return found

    def _workload(self, job_id: str, runtime: job_pb2.RuntimeInfo) -> Workload:
        job, created = self._created[job_id]
        if runtime.state != job_pb2.SUCCEEDED:
            raise PelotonError(f"the workload {job.name} is {job_pb2.JobState.Name(runtime.state)}")
        times = (runtime.creationTime, runtime.startTime, runtime.completionTime)
        return Workload(
            job, created, *((parse_rfc3339(text) - self._begun_ns) / NANOSECONDS for text in times)
        )

    async def _query(self, spec: job_pb2.QuerySpec) -> Any:
        answer = await self._call("Query", job_pb2.QueryRequest(spec=spec, summaryOnly=True))
        if answer.HasField("error"):
            raise PelotonError(f"cannot query jobs: {answer.error}")
        return answer

    async def _call(self, method: str, request: Any) -> Any:
        self._calls += 1
        call = getattr(self._stubs[self._calls % len(self._stubs)], method)
        try:
            return await call(request, metadata=self._metadata, timeout=CALL_SECONDS, wait_for_ready=True)
        except grpc.aio.AioRpcError as error:
            raise PelotonError(f"{method}: {error.code().name}: {error.details()}") from None
