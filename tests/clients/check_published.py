"""The published Python client of the reference: what it sends, word for word, without any code of ours.

It looks leaders up in ZooKeeper, calls three v0 services by names without `v0`, and sends three pairs of
metadata.
"""

from __future__ import annotations

import json
import socket
import time
import uuid
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v0.update.svc import update_svc_pb2
from peloton.api.v0.volume.svc import volume_svc_pb2
from tools.clients import services

from .conftest import Shared

MAX_BYTES = 256 * 1024 * 1024


ROLES = {
    "jobmanager": "peloton-jobmgr",
    "resourcemanager": "peloton-resmgr",
    "hostmanager": "peloton-hostmgr",
}
OLDER = {
    "peloton.api.job.JobManager": (job_pb2, "jobmanager"),
    "peloton.api.task.TaskManager": (task_pb2, "jobmanager"),
    "peloton.api.respool.ResourceManager": (respool_pb2, "resourcemanager"),
}
"""Names without `v0`, with the messages and the role that serves them."""
NEWER = {
    "jobmanager": (
        *("peloton.api.v0.update.svc.UpdateService", "peloton.api.v0.volume.svc.VolumeService"),
        *("peloton.api.v1alpha.job.stateless.svc.JobService", "peloton.api.v1alpha.pod.svc.PodService"),
        *("peloton.api.v1alpha.watch.svc.WatchService", "peloton.api.v1alpha.admin.svc.AdminService"),
    ),
    "resourcemanager": ("peloton.api.v0.respool.ResourceManager",),
    "hostmanager": ("peloton.api.v0.host.svc.HostService",),
}


def registered(servers: str, election: str) -> dict[str, Any]:
    """What the leader of an election has written into ZooKeeper."""
    zookeeper = KazooClient(hosts=servers)
    zookeeper.start()
    try:
        value, _ = zookeeper.get(f"/peloton/{election}/leader")
    finally:
        zookeeper.stop()
        zookeeper.close()
    found: dict[str, Any] = json.loads(value)
    return found


class Published:
    """One daemon, called as the published client calls it."""

    def __init__(self, servers: str, election: str, service: str = "") -> None:
        service = service or ROLES[election]
        leader = registered(servers, election)
        options = [
            ("grpc.max_send_message_length", MAX_BYTES),
            ("grpc.max_receive_message_length", MAX_BYTES),
        ]
        self.channel = grpc.insecure_channel(f"{leader['ip']}:{leader['grpc']}", options=options)
        self._metadata = (
            ("rpc-caller", "published"),
            ("rpc-service", service),
            ("rpc-encoding", "proto"),
        )

    def serves(self, method: str) -> bool:
        """Whether there is such a method: it is sent an empty message, which it may refuse."""
        try:
            empty = self.channel.unary_stream(f"/{method}", bytes, bytes)
            call = empty(b"", metadata=self._metadata, timeout=30)
            next(call, None)
            call.cancel()
        except grpc.RpcError as error:
            assert error.code() not in (grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.UNAVAILABLE), (
                method
            )
            return error.code() is not grpc.StatusCode.UNIMPLEMENTED
        return True

    def call(self, method: str, request: Any, answer: Any) -> Any:
        stub = self.channel.unary_unary(
            f"/{method}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=answer.FromString,
        )
        return stub(request, metadata=self._metadata, timeout=30)


@pytest.fixture
def jobmgr(shared: Shared) -> Iterator[Published]:
    made = Published(shared.environment["ZK_SERVERS"], "jobmanager", "peloton-jobmgr")
    with made.channel:
        yield made


@pytest.fixture
def resmgr(shared: Shared) -> Iterator[Published]:
    made = Published(shared.environment["ZK_SERVERS"], "resourcemanager", "peloton-resmgr")
    with made.channel:
        yield made


def test_a_job_from_its_pool_to_its_end(shared: Shared, jobmgr: Published, resmgr: Published) -> None:
    lookup = respool_pb2.LookupRequest(path=respool_pb2.ResourcePoolPath(value="/test"))
    pool = resmgr.call(
        "peloton.api.respool.ResourceManager/LookupResourcePoolID", lookup, respool_pb2.LookupResponse
    )
    config = shared.harness.config("true", 2)
    config.respoolID.CopyFrom(pool.id)
    job = peloton_pb2.JobID(value=str(uuid.uuid4()))
    create = job_pb2.CreateRequest(id=job, config=config)
    made = jobmgr.call("peloton.api.job.JobManager/Create", create, job_pb2.CreateResponse)
    assert not made.HasField("error"), made
    assert made.jobId == job

    def get() -> Any:
        return jobmgr.call("peloton.api.job.JobManager/Get", job_pb2.GetRequest(id=job), job_pb2.GetResponse)

    deadline = time.monotonic() + 120
    while get().jobInfo.runtime.state != job_pb2.SUCCEEDED:
        assert time.monotonic() < deadline, get()
        time.sleep(0.2)
    tasks = jobmgr.call(
        "peloton.api.task.TaskManager/List", task_pb2.ListRequest(jobId=job), task_pb2.ListResponse
    )
    assert {task.runtime.state for task in tasks.result.value.values()} == {task_pb2.SUCCEEDED}
    one = jobmgr.call(
        "peloton.api.task.TaskManager/Get", task_pb2.GetRequest(jobId=job, instanceId=1), task_pb2.GetResponse
    )
    assert one.result.runtime.state == task_pb2.SUCCEEDED


def test_refusals_are_in_the_answer(jobmgr: Published) -> None:
    request = job_pb2.CreateRequest(id=peloton_pb2.JobID(value="no uuid"), config=job_pb2.JobConfig())
    answer = jobmgr.call("peloton.api.job.JobManager/Create", request, job_pb2.CreateResponse)
    assert answer.HasField("error")


def test_updates_and_volumes_have_their_names_with_v0(jobmgr: Published) -> None:
    with pytest.raises(grpc.RpcError) as update:
        jobmgr.call(
            "peloton.api.v0.update.svc.UpdateService/GetUpdate",
            update_svc_pb2.GetUpdateRequest(updateId=peloton_pb2.UpdateID(value=str(uuid.uuid4()))),
            update_svc_pb2.GetUpdateResponse,
        )
    assert update.value.code() is grpc.StatusCode.NOT_FOUND
    with pytest.raises(grpc.RpcError) as volume:
        jobmgr.call(
            "peloton.api.v0.volume.svc.VolumeService/GetVolume",
            volume_svc_pb2.GetVolumeRequest(id=peloton_pb2.VolumeID(value="none")),
            volume_svc_pb2.GetVolumeResponse,
        )
    assert volume.value.code() is grpc.StatusCode.NOT_FOUND


@pytest.mark.parametrize("election", ROLES)
def test_a_leader_registers_what_is_looked_up(shared: Shared, election: str) -> None:
    leader = registered(shared.environment["ZK_SERVERS"], election)
    assert leader.keys() >= {"hostname", "ip", "http", "grpc", "version"}
    assert isinstance(leader["http"], int) and isinstance(leader["grpc"], int)
    with socket.create_connection((leader["ip"], leader["http"]), 30):
        pass


def test_every_method_by_its_older_name(shared: Shared) -> None:
    for service, (module, election) in OLDER.items():
        methods = module.DESCRIPTOR.services_by_name[service.rpartition(".")[2]].methods_by_name
        with (daemon := Published(shared.environment["ZK_SERVERS"], election)).channel:
            assert [name for name in methods if not daemon.serves(f"{service}/{name}")] == []
            assert not daemon.serves(f"{service}/Nothing")


def test_services_by_their_names_of_today(shared: Shared) -> None:
    public = {service.full_name: service for service in services()}
    for election, names in NEWER.items():
        with (daemon := Published(shared.environment["ZK_SERVERS"], election)).channel:
            for service in names:
                method = public[service].methods[0].name
                assert daemon.serves(f"{service}/{method}"), service


def test_the_next_leader_is_looked_up(shared: Shared) -> None:
    servers, request = shared.environment["ZK_SERVERS"], job_pb2.GetActiveJobsRequest()
    method = "peloton.api.job.JobManager/GetActiveJobs"
    before = registered(servers, "jobmanager")
    shared.control("kill", "jobmgr")
    try:
        deadline = time.monotonic() + 120
        while True:
            try:
                with (daemon := Published(servers, "jobmanager")).channel:
                    daemon.call(method, request, job_pb2.GetActiveJobsResponse)
                break
            except (NoNodeError, grpc.RpcError):
                assert time.monotonic() < deadline
                time.sleep(0.2)
        assert registered(servers, "jobmanager") != before
    finally:
        shared.control("restore", "jobmgr")


def test_an_instance_that_does_not_lead_refuses(shared: Shared, jobmgr: Published) -> None:
    """The published client looks the leader up again on UNAVAILABLE."""
    cluster = shared.harness.cluster
    addresses = [each.addresses["grpc"] for each in cluster.status() if each.name.startswith("jobmgr")]
    request, method = job_pb2.GetActiveJobsRequest(), "/peloton.api.job.JobManager/GetActiveJobs"
    codes = []
    for address in addresses:
        with grpc.insecure_channel(address) as channel:
            try:
                channel.unary_unary(method, type(request).SerializeToString)(request, timeout=30)
                codes.append(grpc.StatusCode.OK)
            except grpc.RpcError as error:
                codes.append(error.code())
    assert sorted(code.name for code in codes) == ["OK", "UNAVAILABLE"]
