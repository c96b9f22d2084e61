"""Host pools at the command line."""

from __future__ import annotations

import json
from collections.abc import Iterator

import grpc
import pytest

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.client import PelotonClient

from .conftest import Run
from .fakes import FakeDaemons, serving


@pytest.fixture(autouse=True)
def _pools(daemons: FakeDaemons) -> None:
    pools = {"default": ["host1", "host2"], "shared": ["host0"], "empty": []}
    daemons.answers["ListHostPools"] = lambda _: host_svc_pb2.ListHostPoolsResponse(
        pools=[host_pb2.HostPoolInfo(name=name, hosts=hosts) for name, hosts in pools.items()]
    )


def test_lists(run: Run) -> None:
    assert run("hostpool", "list").out == "Pool     Hosts\ndefault  2\nshared   1\nempty    0\n"
    hosts = "Hostname  Pool\nhost1     default\nhost2     default\n"
    assert run("hostpool", "list-hosts").out == hosts + "host0     shared\n"
    assert run("hostpool", "list-hosts", "default").out == hosts
    assert run("hostpool", "list-hosts", "empty").out == "Hostname  Pool\n"
    found = json.loads(run("hostpool", "list-hosts", "shared", "-j").out)
    assert found["pools"] == [{"name": "shared", "hosts": ["host0"]}]
    refused = run("hostpool", "list-hosts", "other")
    said = "peloton: host pool other does not exist; there are default, shared, empty\n"
    assert (refused.code, refused.err) == (1, said)


def test_what_would_have_no_place_is_told(run: Run, daemons: FakeDaemons) -> None:
    assert run("hostpool", "list").err.splitlines() == [
        "No host is in batch_reserved: other batch jobs have no place",
        "No host is in stateless: services have no place",
    ]
    pools = [host_pb2.HostPoolInfo(name="default", hosts=["host0"]), host_pb2.HostPoolInfo(name="shared")]
    daemons.answers["ListHostPools"] = host_svc_pb2.ListHostPoolsResponse(pools=pools, not_in_use=True)
    said = run("hostpool", "list").err.splitlines()
    assert said[0] == "Host pools are not in use: tasks run on any host"
    assert said[1] == "No host is in shared: preemptible batch jobs would have no place"
    del pools[1]
    daemons.answers["ListHostPools"] = host_svc_pb2.ListHostPoolsResponse(pools=pools, not_in_use=True)
    assert run("hostpool", "list").err.splitlines() == said[:1] and run("hostpool", "list", "-j").err == ""


def test_changes(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["CreateHostPool"] = host_svc_pb2.CreateHostPoolResponse()
    daemons.answers["DeleteHostPool"] = host_svc_pb2.DeleteHostPoolResponse()
    daemons.answers["ChangeHostPool"] = host_svc_pb2.ChangeHostPoolResponse()
    assert run("hostpool", "create", "gpu").out == "Host pool gpu created\n"
    assert run("hostpool", "delete", "gpu").out == "Host pool gpu deleted; its hosts are in default\n"
    assert run("hostpool", "change", "host1", "shared").out == "Host host1 is in host pool shared\n"
    assert run("hostpool", "change", "host1", "shared", "-s", "default").code == 0
    assert [each.name for each in daemons.requests("CreateHostPool")] == ["gpu"]
    assert [each.name for each in daemons.requests("DeleteHostPool")] == ["gpu"]
    first, second = daemons.requests("ChangeHostPool")
    assert (first.hostname, first.sourcePool, first.destinationPool) == ("host1", "", "shared")
    assert second.sourcePool == "default"


@pytest.fixture
def east(daemons: FakeDaemons, monkeypatch: pytest.MonkeyPatch) -> Iterator[FakeDaemons]:
    """A second Mesos cluster, whose pool `shared` has another host."""
    there = FakeDaemons()
    pools = [host_pb2.HostPoolInfo(name="shared", hosts=["east/host0"])]
    there.answers["ListHostPools"] = host_svc_pb2.ListHostPoolsResponse(pools=pools)
    with serving(there) as address:
        clients = PelotonClient.in_cluster

        def in_cluster(client: PelotonClient, cluster: str) -> PelotonClient:
            return PelotonClient("test", hm_url=address) if cluster == "east" else clients(client, cluster)

        monkeypatch.setattr(PelotonClient, "clusters", lambda client: ("", "east"))
        monkeypatch.setattr(PelotonClient, "in_cluster", in_cluster)
        yield there


def test_several_mesos_clusters_have_the_same_pools(
    run: Run, daemons: FakeDaemons, east: FakeDaemons
) -> None:
    assert run("hostpool", "list").out == "Pool     Hosts\ndefault  2\nshared   2\nempty    0\n"
    assert run("hostpool", "list-hosts", "shared").out.split()[2:] == [
        "host0",
        "shared",
        "east/host0",
        "shared",
    ]
    for each in (daemons, east):
        each.answers["CreateHostPool"] = host_svc_pb2.CreateHostPoolResponse()
        each.answers["DeleteHostPool"] = host_svc_pb2.DeleteHostPoolResponse()
        each.answers["ChangeHostPool"] = host_svc_pb2.ChangeHostPoolResponse()
    assert run("hostpool", "create", "gpu").out == "Host pool gpu created\n"
    assert run("hostpool", "delete", "gpu").code == 0
    assert run("hostpool", "change", "east/host0", "gpu").code == 0
    for each in (daemons, east):
        assert len(each.requests("CreateHostPool")) == len(each.requests("DeleteHostPool")) == 1
    assert not daemons.requests("ChangeHostPool")
    assert [each.hostname for each in east.requests("ChangeHostPool")] == ["east/host0"]


def test_moves(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["MoveHosts"] = host_svc_pb2.MoveHostsResponse()
    assert run("hostpool", "move", "default", "2", "shared", "10").out == (
        "Hosts go from default to shared until these have 2 and 10; see `peloton host query`\n"
    )
    (request,) = daemons.requests("MoveHosts")
    assert (request.sourcePool, request.srcPoolDesiredHosts) == ("default", 2)
    assert (request.destinationPool, request.destPoolDesiredHosts) == ("shared", 10)
    assert run("hostpool", "move", "default", "-1", "shared", "10").code == 2
    assert run("hostpool", "move", "default", "x", "shared", "10").code == 2


def test_refusals_are_passed_on(run: Run, daemons: FakeDaemons) -> None:
    said = "host pool x does not exist; there are default, shared"
    daemons.answers["ChangeHostPool"] = (grpc.StatusCode.NOT_FOUND, said)
    refused = run("hostpool", "change", "host1", "x")
    assert refused.code == 1 and said in refused.err
