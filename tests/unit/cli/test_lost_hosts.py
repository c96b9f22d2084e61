"""Lost hosts in lists, and the hosts of several Mesos clusters by the address of one host manager."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import pytest

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.registry import registry_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2

from .conftest import Run
from .fakes import FakeDaemons, serving

SINCE = "2026-01-02T03:04:05Z"
REASON = "Mesos has given up its agent"
UP = host_pb2.HostInfo(hostname="host0", state=host_pb2.HOST_STATE_UP, goal_state=host_pb2.HOST_STATE_UP)
LOST = host_pb2.HostInfo(
    hostname="host1",
    state=host_pb2.HOST_STATE_UNKNOWN,
    goal_state=host_pb2.HOST_STATE_UP,
    lost=host_pb2.LostHost(since=SINCE, reason=REASON, tasks=["j-0-1", "j-1-1", "j-2-1"], task_count=4),
)
TEXT = f"since {SINCE}: {REASON}; 4 tasks ran there: j-0-1, j-1-1, j-2-1, …"


def answering(daemons: FakeDaemons, *hosts: host_pb2.HostInfo) -> None:
    """Let a host manager have these hosts."""

    def query(request: host_svc_pb2.QueryHostsRequest) -> host_svc_pb2.QueryHostsResponse:
        found = [
            info
            for info in hosts
            if (request.include_lost if info.HasField("lost") else not request.host_states)
            or info.state in request.host_states
        ]
        return host_svc_pb2.QueryHostsResponse(host_infos=found)

    daemons.answers["QueryHosts"] = query
    kind = hostsvc_pb2.Resource(kind="cpu", capacity=4)
    daemons.answers["ClusterCapacity"] = hostsvc_pb2.ClusterCapacityResponse(physicalResources=[kind])
    cache = hostmgr_svc_pb2.GetHostCacheResponse()
    for info in hosts:
        if not info.HasField("lost"):
            cache.summaries.add(hostname=info.hostname, status="ready")
    daemons.answers["GetHostCache"] = cache


def test_lost_hosts_are_listed_with_what_ran_there(run: Run, daemons: FakeDaemons) -> None:
    answering(daemons, UP, LOST)
    lines = run("host", "query").out.splitlines()
    assert lines[0].split() == ["Hostname", "IP", "State", "Goal", "State", "Pool", "Labels", "Lost"]
    assert lines[2].startswith("host1") and "LOST" in lines[2].split() and lines[2].endswith(TEXT)
    assert [line.split()[0] for line in run("host", "query", "-s", "lost").out.splitlines()[1:]] == ["host1"]
    assert "Lost" not in run("host", "query", "-s", "up").out
    found = json.loads(run("host", "query", "-j").out)["host_infos"]
    assert found[1]["lost"]["task_count"] == 4
    refused = run("host", "query", "-s", "lsot")
    assert refused.code == 2 and "DOWN, LOST" in refused.err


def test_lost_hosts_are_wrong_now(run: Run, daemons: FakeDaemons) -> None:
    answering(daemons, UP, LOST)
    out = run("status").out
    assert "Hosts    UP 1, LOST 1" in out.splitlines()
    assert f"  host host1 LOST {TEXT}" in out.splitlines()
    rows = json.loads(run("top", "hosts", "-n", "1", "-j").out)
    assert [(row["Hostname"], row["Status"]) for row in rows] == [("host0", "ready"), ("host1", "LOST")]


def test_a_completed_host_without_its_agent_is_not_called_up(run: Run, daemons: FakeDaemons) -> None:
    answering(daemons, LOST)
    daemons.answers["CompleteMaintenance"] = host_svc_pb2.CompleteMaintenanceResponse()
    out = run("host", "maintenance", "complete", "host1").out
    assert out == "Host host1 is not in maintenance any longer: start its agent, which is not registered\n"
    assert run("host", "maintenance", "status", "host1").out.splitlines()[1].split()[:2] == ["host1", "LOST"]


def test_lost_hosts_are_forgotten(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["ForgetHosts"] = registry_pb2.ForgetHostsResponse()
    assert (
        run("host", "forget", "host1,host2", "host1").out
        == "Host host1 is forgotten\nHost host2 is forgotten\n"
    )
    assert list(daemons.requests("ForgetHosts")[0].hostnames) == ["host1", "host2"]
    daemons.answers["ForgetHosts"] = (grpc.StatusCode.FAILED_PRECONDITION, "host host0 is not lost")
    refused = run("host", "forget", "host0")
    assert refused.code == 1 and "host host0 is not lost" in refused.err


@pytest.fixture
def east() -> Iterator[tuple[FakeDaemons, str]]:
    daemons = FakeDaemons()
    answering(
        daemons,
        host_pb2.HostInfo(
            hostname="east/host7", state=host_pb2.HOST_STATE_UP, goal_state=host_pb2.HOST_STATE_UP
        ),
    )
    with serving(daemons) as address:
        yield daemons, address


def clusters(own: str, **addresses: str) -> registry_pb2.ListClustersResponse:
    answer = registry_pb2.ListClustersResponse(own=own)
    for name, address in addresses.items():
        answer.clusters.add(name="" if name == "unnamed" else name, address=address)
    return answer


@pytest.mark.parametrize("given", ["", "east"])
def test_the_address_of_one_host_manager_shows_all_mesos_clusters(
    run: Run,
    daemons: FakeDaemons,
    address: str,
    east: tuple[FakeDaemons, str],
    given: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answering(daemons, UP)
    other, there = east
    for each, own in ((daemons, ""), (other, "east")):
        each.answers["ListClusters"] = clusters(own, unnamed=address, east=there)
    monkeypatch.setenv("HOSTMGR_URL", there if given else address)
    assert sorted(run("host", "query", "-o", "name").out.split()) == ["east/host7", "host0"]
    status = json.loads(run("status", "-j").out)
    assert status["hosts"] == {"UP": 2} and status["capacity"]["total"] == {"cpu": 8.0}
    rows = json.loads(run("top", "hosts", "-n", "1", "-j").out)
    assert sorted(row["Hostname"] for row in rows) == ["east/host7", "host0"]
    assert run("--mesosCluster", "east", "host", "query", "-o", "name").out == "east/host7\n"


def test_the_call_for_a_host_goes_to_its_cluster(
    run: Run, daemons: FakeDaemons, address: str, east: tuple[FakeDaemons, str]
) -> None:
    other, there = east
    daemons.answers["ListClusters"] = clusters("", unnamed=address, east=there)
    other.answers["ForgetHosts"] = registry_pb2.ForgetHostsResponse()
    assert run("host", "forget", "east/host7").out == "Host east/host7 is forgotten\n"
    assert not daemons.requests("ForgetHosts") and len(other.requests("ForgetHosts")) == 1


def test_a_mesos_cluster_that_does_not_answer_is_named(run: Run, daemons: FakeDaemons, address: str) -> None:
    answering(daemons, UP)
    daemons.answers["ListClusters"] = clusters("", unnamed=address, east="")
    outcome = run("host", "query", "-o", "name")
    assert outcome.out == "host0\n"
    assert "without the Mesos cluster east: no host manager leads the Mesos cluster east" in outcome.err
    refused = run("--mesosCluster", "west", "host", "query")
    assert (
        refused.code != 0
        and "no Mesos cluster west; those that there are: one without a name, east" in refused.err
    )
