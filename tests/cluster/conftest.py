"""A whole minicluster of real processes, shared by the tests of a module."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from mesos.v1 import mesos_pb2
from minicluster.cluster import Cluster
from minicluster.credentials import client_identity
from minicluster.settings import ClusterSettings
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.client import LocalDiscovery, PelotonClient
from peloton.client.discovery import ZooKeeperDiscovery
from peloton.client.tls import Tls

TERMINAL = {job_pb2.SUCCEEDED, job_pb2.FAILED, job_pb2.KILLED}


class Harness:
    """A cluster with a pool, and what tests do with it."""

    def __init__(self, cluster: Cluster, tls: Tls | None = None) -> None:
        """Use `tls` where daemons speak it that the cluster has not made."""
        self.cluster = cluster
        servers = cluster.zookeeper_servers()
        discovery = ZooKeeperDiscovery(servers) if servers else LocalDiscovery(cluster.layout.membership)
        # It follows the leaders: a call whose connection dies with a killed daemon is made again.
        identity = client_identity(cluster.directory) if tls is None else {"tls": tls}
        self.client = PelotonClient("test", discovery=discovery, **identity)
        self.task: task_pb2.TaskInfo | None = None
        self.pool = self._make_pool()

    def _make_pool(self) -> str:
        config = respool_pb2.ResourcePoolConfig(
            name="test",
            parent=peloton_pb2.ResourcePoolID(value="root"),
            resources=[
                respool_pb2.ResourceConfig(kind=kind, limit=1e6, share=1, reservation=reserved)
                for kind, reserved in (("cpu", 12), ("memory", 6144), ("disk", 60000), ("gpu", 0))
            ],
        )

        def answers() -> bool:
            self.answer = self.client.respool_svc.CreateResourcePool(
                respool_pb2.CreateRequest(config=config), timeout=30
            )
            return not self.answer.HasField("error")

        wait_for(answers, 60, lambda: str(self.answer))
        return str(self.answer.result.value)

    def config(self, command: str, instances: int = 1, **changes: Any) -> job_pb2.JobConfig:
        task = task_pb2.TaskConfig(
            resource=task_pb2.ResourceConfig(cpuLimit=0.1, memLimitMb=32, diskLimitMb=8),
            command=mesos_pb2.CommandInfo(shell=True, value=command),
            restartPolicy=task_pb2.RestartPolicy(maxFailures=3),
        )
        config = job_pb2.JobConfig(
            name="test",
            instanceCount=instances,
            defaultConfig=task,
            respoolID=peloton_pb2.ResourcePoolID(value=self.pool),
            sla=job_pb2.SlaConfig(preemptible=True),
        )
        config.MergeFrom(job_pb2.JobConfig(**changes))
        return config

    def create(self, config: job_pb2.JobConfig) -> str:
        job_id = str(uuid.uuid4())
        answer = self.client.job_svc.Create(
            job_pb2.CreateRequest(id=peloton_pb2.JobID(value=job_id), config=config), timeout=30
        )
        assert not answer.HasField("error"), answer.error
        return job_id

    def runtime(self, job_id: str) -> job_pb2.RuntimeInfo:
        request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
        answer: job_pb2.GetResponse = self.client.job_svc.Get(request, timeout=30)
        return answer.jobInfo.runtime

    def tasks(self, job_id: str) -> dict[int, task_pb2.TaskInfo]:
        request = task_pb2.ListRequest(jobId=peloton_pb2.JobID(value=job_id))
        return dict(self.client.task_svc.List(request, timeout=30).result.value)

    def running(self, job_id: str, instance: int = 0) -> task_pb2.RuntimeInfo:
        """Waits until the instance runs."""

        def runs() -> bool:
            self.task = self.tasks(job_id).get(instance)
            return self.task is not None and self.task.runtime.state == task_pb2.RUNNING

        wait_for(runs, 60, lambda: str(self.task))
        assert self.task is not None
        return self.task.runtime

    def ended(self, job_id: str, seconds: float = 90) -> job_pb2.RuntimeInfo:
        """Waits for the job's end."""
        wait_for(
            lambda: self.runtime(job_id).state in TERMINAL,
            seconds,
            lambda: f"{self.runtime(job_id)}\n{[(i, str(t.runtime)) for i, t in self.waiting(job_id)]}",
        )
        return self.runtime(job_id)

    def waiting(self, job_id: str) -> list[tuple[int, task_pb2.TaskInfo]]:
        """The first few tasks that have not ended, for a failure's message."""
        tasks = sorted(self.tasks(job_id).items())
        return [(i, task) for i, task in tasks if task.runtime.state != task_pb2.SUCCEEDED][:5]


def wait_for(holds: Callable[[], bool], seconds: float, story: Callable[[], str] = lambda: "") -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"did not come to hold in {seconds} s: {story()}"
        time.sleep(0.1)


def messages(open_stream: Callable[[], Iterable[Any]], seconds: float = 60) -> list[Any]:
    """Return all messages of a stream; open it again where it was cut: clients repeat calls only."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return list(open_stream())
        except grpc.RpcError as error:
            if error.code() is not grpc.StatusCode.UNAVAILABLE or time.monotonic() >= deadline:
                raise
        time.sleep(0.1)


@contextmanager
def harness_of(folders: pytest.TempPathFactory, **settings: Any) -> Iterator[Harness]:
    """A cluster with these settings of its own, which is down once the body has ended."""
    cluster = Cluster(folders.mktemp("minicluster") / "cluster")
    cluster.up(ClusterSettings(ports="free", **settings))
    try:
        held = Harness(cluster)
        yield held
        held.client.close()
    finally:
        cluster.down()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    with harness_of(tmp_path_factory) as held:
        yield held
