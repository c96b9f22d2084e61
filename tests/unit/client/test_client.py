from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from pathlib import Path
from types import SimpleNamespace

import grpc
import pytest

from peloton import __version__
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.client import DiscoveryError, LocalDiscovery, PelotonClient
from peloton.client.auth import BasicAuth, read_basic_auth
from peloton.client.discovery import UrlDiscovery, ZooKeeperDiscovery, address_of
from peloton.client.services import SERVICES
from peloton.errors import InvalidArgument
from peloton.membership.interface import Address, Member, Role
from peloton.membership.local import LocalMembership
from tests.unit.cli.fakes import FakeDaemons, serving

PUBLIC = {"job_svc", "task_svc", "respool_svc", "host_svc", "update_svc", "stateless_svc", "pod_svc"}
PUBLIC |= {"volume_svc", "watch_svc", "admin_svc"}


@pytest.fixture
def daemons() -> FakeDaemons:
    return FakeDaemons()


@pytest.fixture
def address(daemons: FakeDaemons) -> Iterator[str]:
    with serving(daemons) as found:
        yield found


def test_calls_of_published_clients(daemons: FakeDaemons, address: str) -> None:
    daemons.answers["Get"] = job_pb2.GetResponse(jobInfo=job_pb2.JobInfo(id=peloton_pb2.JobID(value="x")))
    client = PelotonClient(name="ann", jm_url=address)
    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value="x"))
    answer = client.job_svc.Get(request, metadata=client.jobmgr_metadata, timeout=5)
    client.close()
    assert answer.jobInfo.id.value == "x"
    metadata = daemons.asked[0][2]
    assert (metadata["rpc-caller"], metadata["rpc-service"]) == ("ann", "peloton-jobmgr")
    assert (metadata["rpc-encoding"], metadata["peloton-version"]) == ("proto", __version__)


def test_metadata_is_added(daemons: FakeDaemons, address: str) -> None:
    daemons.answers["Query"] = respool_pb2.QueryResponse()
    with PelotonClient("ann", rm_url=address, auth=BasicAuth("ann", "hush")) as client:
        client.respool_svc.Query(respool_pb2.QueryRequest())
        client.respool_svc.Query(respool_pb2.QueryRequest(), metadata=(("rpc-caller", "bob"), ("x", "y")))
    first, second = (metadata for _, _, metadata in daemons.asked)
    assert (first["rpc-service"], first["username"], first["password"]) == ("peloton-resmgr", "ann", "hush")
    assert (second["rpc-caller"], second["x"], second["rpc-encoding"]) == ("bob", "y", "proto")


def test_call_without_a_time_out_has_the_clients(daemons: FakeDaemons, address: str) -> None:
    import threading

    release = threading.Event()

    def held(request: object) -> job_pb2.GetResponse:
        release.wait(10)
        return job_pb2.GetResponse()

    daemons.answers["Get"] = held
    with PelotonClient("ann", jm_url=address, timeout=0.05) as client, pytest.raises(grpc.RpcError) as failed:
        client.job_svc.Get(job_pb2.GetRequest())
    release.set()
    assert failed.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED


def test_a_message_of_many_megabytes_passes(daemons: FakeDaemons, address: str) -> None:
    config = job_pb2.JobConfig(description="x" * (20 * 1024 * 1024))
    daemons.answers["Get"] = job_pb2.GetResponse(jobInfo=job_pb2.JobInfo(config=config))
    with PelotonClient("ann", jm_url=address) as client:
        answer = client.job_svc.Get(job_pb2.GetRequest())
    assert len(answer.jobInfo.config.description) == 20 * 1024 * 1024


def test_closed_client_reopens(daemons: FakeDaemons, address: str) -> None:
    daemons.answers["GetActiveJobs"] = job_pb2.GetActiveJobsResponse()
    client = PelotonClient("ann", jm_url=address)
    for _ in range(2):
        client.job_svc.GetActiveJobs(job_pb2.GetActiveJobsRequest())
        client.close()
    client.close()
    assert len(daemons.asked) == 2


def test_every_service_has_its_stub() -> None:
    assert set(SERVICES) > PUBLIC
    with PelotonClient("ann", jm_url="localhost:1", rm_url="localhost:1", hm_url="localhost:1") as client:
        for name in SERVICES:
            assert type(getattr(client, name)).__name__ == SERVICES[name].stub
        with pytest.raises(AttributeError, match="nothing_svc"):
            _ = client.nothing_svc  # type: ignore[attr-defined]


def test_given_address_wins_over_zookeeper() -> None:
    client = PelotonClient("ann", zk_servers="zk1:2181", jm_url="localhost:5392")
    assert client.address("jobmgr") == "localhost:5392"


def test_zookeeper_servers_that_do_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    """The message names the limit, not what was left of it when the servers were asked."""
    late = count(step=0.01)
    monkeypatch.setattr("peloton.client.zookeeper.time", SimpleNamespace(monotonic=lambda: next(late)))
    discovery = ZooKeeperDiscovery("127.0.0.1:1", timeout=0.2)
    with pytest.raises(DiscoveryError, match=r"ZooKeeper \(127.0.0.1:1\) did not answer within 0.2 s"):
        PelotonClient("ann", discovery=discovery).address("jobmgr")


def test_invalid_zookeeper_servers() -> None:
    with pytest.raises(DiscoveryError, match="'zk1:port' are not host:port"):
        PelotonClient("ann", zk_servers="zk1:port").address("jobmgr")


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("localhost:5392", "localhost:5392"),
        ("http://host:80/", "host:80"),
        ("[::1]:5392", "[::1]:5392"),
        ("dns:///host:1", "host:1"),
        (" host:1 ", "host:1"),
    ],
)
def test_addresses(url: str, address: str) -> None:
    assert address_of(url, "jobmgr") == address


@pytest.mark.parametrize("url", ["localhost", "localhost:", ":5392", "host:0", "host:65536", "host:http", ""])
def test_invalid_addresses(url: str) -> None:
    with pytest.raises(DiscoveryError, match="is not host:port, such as localhost:5394"):
        address_of(url, "resmgr")


def test_defaults() -> None:
    found = [UrlDiscovery({}).address(role) for role in ("jobmgr", "resmgr", "hostmgr")]
    assert found == ["localhost:5392", "localhost:5394", "localhost:5391"]


async def test_the_leader_of_a_one_machine_registry(tmp_path: Path) -> None:
    membership = LocalMembership(tmp_path)
    await membership.start()
    leadership = await membership.campaign(
        Member(Role.JOBMGR, "one", Address("host", "127.0.0.1", http=1, grpc=4321))
    )
    discovery = LocalDiscovery(tmp_path)
    assert PelotonClient("ann", discovery=discovery).address("jobmgr") == "127.0.0.1:4321"
    with pytest.raises(DiscoveryError, match="shows no leader of resmgr"):
        discovery.address("resmgr")
    await leadership.resign()
    await membership.close()
    with pytest.raises(DiscoveryError, match="shows no leader of jobmgr"):
        discovery.address("jobmgr")


@pytest.mark.parametrize(
    ("text", "field"),
    [
        ("[]", "basicAuthConfig"),
        ("username: ann", "basicAuthConfig.password"),
        ("username: [ann]\npassword: x", "basicAuthConfig.username"),
        ("username: ann\npassword: sésame", "basicAuthConfig.password"),
        ("a: [", "basicAuthConfig"),
    ],
)
def test_bad_auth_files(tmp_path: Path, text: str, field: str) -> None:
    file = tmp_path / "auth.yaml"
    file.write_text(text)
    with pytest.raises(InvalidArgument) as refused:
        read_basic_auth(file)
    assert refused.value.field == field and "sésame" not in str(refused.value)


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="No such file"):
        read_basic_auth(tmp_path / "none")
    assert "hush" not in repr(BasicAuth("ann", "hush"))
