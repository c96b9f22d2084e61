"""What no client should send: each daemon answers with a gRPC status, or a refusal that names the field, and
goes on as before."""

from __future__ import annotations

import socket
import urllib.request
import uuid
from collections.abc import Iterator

import grpc
import pytest
from google.protobuf import text_format

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2

from .conftest import Harness

DAEMONS = ["jobmgr0", "resmgr0", "hostmgr0", "placement0"]
METHODS = {
    "jobmgr0": "/peloton.api.v0.job.JobManager/Create",
    "resmgr0": "/peloton.private.resmgr.ResourceManagerService/EnqueueGangs",
    "hostmgr0": "/peloton.private.hostmgr.hostsvc.InternalHostService/AcquireHostOffers",
}
NO_MESSAGE = b"\xff\xff\xff\xff"
LIMIT = 256 * 1024 * 1024
OPTIONS = [("grpc.max_send_message_length", 2 * LIMIT)]
SECONDS = 60


@pytest.fixture
def unharmed(harness: Harness) -> Iterator[None]:
    """The processes are the same afterwards, healthy, and answer."""
    before = {each.name: each.pid for each in harness.cluster.status()}
    yield
    for each in harness.cluster.status():
        assert (each.state, each.pid) == ("running", before[each.name]), each
        if each.name in DAEMONS:
            with urllib.request.urlopen(f"http://{each.addresses['http']}/health", timeout=SECONDS) as answer:
                assert answer.status == 200
    assert not harness.client.job_svc.Query(job_pb2.QueryRequest(), timeout=SECONDS).HasField("error")


def address(harness: Harness, name: str) -> str:
    found = {each.name: each.addresses for each in harness.cluster.status()}
    return str(found[name]["grpc"])


def refusal(harness: Harness, name: str, method: str, request: bytes) -> grpc.StatusCode:
    with (
        grpc.insecure_channel(address(harness, name), options=OPTIONS) as channel,
        pytest.raises(grpc.RpcError) as failure,
    ):
        channel.unary_unary(method, bytes, bytes)(request, timeout=SECONDS)
    code: grpc.StatusCode = failure.value.code()
    return code


@pytest.mark.parametrize("name", METHODS)
def test_malformed_messages_are_refused(harness: Harness, unharmed: None, name: str) -> None:
    code = refusal(harness, name, METHODS[name], NO_MESSAGE)
    assert code is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.parametrize("name", DAEMONS)
@pytest.mark.parametrize("method", ["/peloton.api.v0.job.JobManager/Vanish", "/no.such.Service/Get", "/x"])
def test_unknown_methods(harness: Harness, unharmed: None, name: str, method: str) -> None:
    assert refusal(harness, name, method, b"") is grpc.StatusCode.UNIMPLEMENTED


@pytest.mark.parametrize("name", METHODS)
def test_a_message_over_the_size_limit_is_refused(harness: Harness, unharmed: None, name: str) -> None:
    code = refusal(harness, name, METHODS[name], bytes(LIMIT + 1))
    assert code is grpc.StatusCode.RESOURCE_EXHAUSTED


@pytest.mark.parametrize("name", DAEMONS)
@pytest.mark.parametrize(
    "junk", [b"", b"GET / HTTP/1.1\r\n\r\n", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes(99)]
)
def test_data_that_is_not_grpc_is_refused(harness: Harness, unharmed: None, name: str, junk: bytes) -> None:
    host, _, port = address(harness, name).partition(":")
    with socket.create_connection((host, int(port)), timeout=SECONDS) as connection:
        connection.sendall(junk)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(65536):
            pass


JOBS = {
    "instanceCount: 0": "instanceCount: 0 ",
    "100,001 instances": "instanceCount: 100001",
    "no command": "defaultConfig.command",
    "negative cpu": "defaultConfig.resource.cpuLimit: -1.0",
    "no pool": "respoolID",
    "unknown pool": "respoolID: 'nosuch'",
    "the root": "respoolID: 'root'",
    "port": "defaultConfig.ports[0].value: 70000",
    "health check": "defaultConfig.healthCheck",
}


def _broken(harness: Harness, case: str) -> job_pb2.JobConfig:
    config = harness.config("true")
    if case == "instanceCount: 0":
        config.instanceCount = 0
    elif case == "100,001 instances":
        config.instanceCount = 100_001
    elif case == "no command":
        config.defaultConfig.ClearField("command")
    elif case == "negative cpu":
        config.defaultConfig.resource.cpuLimit = -1
    elif case == "no pool":
        config.ClearField("respoolID")
    elif case == "unknown pool":
        config.respoolID.value = "nosuch"
    elif case == "the root":
        config.respoolID.value = "root"
    elif case == "port":
        config.defaultConfig.ports.add(name="p", value=70000)
    else:
        config.defaultConfig.healthCheck.enabled = True
    return config


@pytest.mark.parametrize("case", JOBS)
def test_jobs_are_refused_and_not_stored(harness: Harness, unharmed: None, case: str) -> None:
    job_id = peloton_pb2.JobID(value=str(uuid.uuid4()))
    request = job_pb2.CreateRequest(id=job_id, config=_broken(harness, case))
    answer = harness.client.job_svc.Create(request, timeout=SECONDS)
    assert JOBS[case] in answer.error.invalidConfig.message
    found = harness.client.job_svc.Get(job_pb2.GetRequest(id=job_id), timeout=SECONDS)
    assert found.error.HasField("notFound")


def test_a_bad_job_id(harness: Harness, unharmed: None) -> None:
    request = job_pb2.CreateRequest(id=peloton_pb2.JobID(value="my-job"), config=harness.config("true"))
    answer = harness.client.job_svc.Create(request, timeout=SECONDS)
    assert "my-job" in answer.error.invalidJobId.message


POOLS = {
    "duplicate name": 'name: "test" resources { kind: "cpu" limit: 1 }',
    "negative": 'name: "bad" resources { kind: "cpu" limit: -1 }',
    "reservation over the limit": 'name: "bad" resources { kind: "cpu" reservation: 2 limit: 1 }',
    "unknown kind": 'name: "bad" resources { kind: "colour" limit: 1 }',
    "reservation over the parent's": 'name: "bad" resources { kind: "cpu" reservation: 1e9 limit: 1e9 }',
}


@pytest.mark.parametrize("case", POOLS)
def test_pools_are_refused_and_not_stored(harness: Harness, unharmed: None, case: str) -> None:
    config = text_format.Parse(POOLS[case], respool_pb2.ResourcePoolConfig(parent=_root()))
    pools = harness.client.respool_svc
    before = len(pools.Query(respool_pb2.QueryRequest(), timeout=SECONDS).resourcePools)
    answer = pools.CreateResourcePool(respool_pb2.CreateRequest(config=config), timeout=SECONDS)
    assert answer.HasField("error"), answer
    assert len(pools.Query(respool_pb2.QueryRequest(), timeout=SECONDS).resourcePools) == before


def _root() -> peloton_pb2.ResourcePoolID:
    return peloton_pb2.ResourcePoolID(value="root")
