"""Pools, hosts and what the managers hold."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.resmgr import resmgr_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2

from .conftest import Run
from .fakes import FakeDaemons

JOB_ID = "5b8f3e8e-0000-4000-8000-000000000001"

IDS = {"/": "root", "/a": "id-of-a", "/a/b": "id-of-b"}


@pytest.fixture
def spec(tmp_path: Path, daemons: FakeDaemons) -> Path:
    def lookup(request: respool_pb2.LookupRequest) -> respool_pb2.LookupResponse:
        found = IDS.get(request.path.value)
        missing = respool_pb2.LookupResponse.Error(
            notFound=respool_pb2.ResourcePoolPathNotFound(message="none")
        )
        if found is None:
            return respool_pb2.LookupResponse(error=missing)
        return respool_pb2.LookupResponse(id=peloton_pb2.ResourcePoolID(value=found))

    daemons.answers["LookupResourcePoolID"] = lookup
    file = tmp_path / "pool.yaml"
    file.write_text("resources: [{kind: cpu, limit: 4, type: elastic}]\npolicy: 1\n")
    return file


def test_create_takes_name_and_parent_from_the_path(run: Run, daemons: FakeDaemons, spec: Path) -> None:
    created = respool_pb2.CreateResponse(result=peloton_pb2.ResourcePoolID(value="new"))
    daemons.answers["CreateResourcePool"] = created
    assert run("respool", "create", "/a/c", str(spec)).out == "Resource pool /a/c created: new\n"
    assert run("respool", "create", "/Default", str(spec)).code == 0
    configs = [request.config for request in daemons.requests("CreateResourcePool")]
    assert [(one.name, one.parent.value) for one in configs] == [("c", "id-of-a"), ("Default", "root")]
    assert configs[0].resources[0].type == respool_pb2.ELASTIC


@pytest.mark.parametrize(
    ("path", "text", "said"),
    [
        ("a", "{}", "path: 'a' is not the path of a pool below the root"),
        ("/", "{}", "path: '/' is not the path of a pool below the root"),
        ("/a/c", "name: d", "name: 'd' is not the last part of the path, 'c'"),
        ("/a/c", "parent: {value: root}", "parent: 'root' is not the pool /a"),
        ("/x/c", "{}", "resource pool '/x': none"),
        (
            "/a/c",
            "resources: [{kind: cpu, limit: -4}]",
            "resources[0].limit: -4 is not a number of 0 or more",
        ),
    ],
)
def test_create_refusals(run: Run, daemons: FakeDaemons, spec: Path, path: str, text: str, said: str) -> None:
    spec.write_text(text)
    outcome = run("respool", "create", path, str(spec))
    assert outcome.code == 1 and said in outcome.err
    assert not daemons.requests("CreateResourcePool")


def test_pool_refused_by_the_server(run: Run, daemons: FakeDaemons, spec: Path) -> None:
    there = respool_pb2.ResourcePoolAlreadyExists(message="/a/b is there already")
    daemons.answers["CreateResourcePool"] = respool_pb2.CreateResponse(
        error=respool_pb2.CreateResponse.Error(alreadyExists=there)
    )
    assert run("respool", "create", "/a/b", str(spec)) == (1, "", "peloton: /a/b is there already\n")


def test_a_pool_whose_config_is_refused_has_no_id(run: Run, daemons: FakeDaemons, spec: Path) -> None:
    wrong = respool_pb2.InvalidResourcePoolConfig(
        id=peloton_pb2.ResourcePoolID(value="made-and-dropped"),
        message="resources[0].limit: 6 is not at most 4",
    )
    daemons.answers["CreateResourcePool"] = respool_pb2.CreateResponse(
        error=respool_pb2.CreateResponse.Error(invalidResourcePoolConfig=wrong)
    )
    refused = run("respool", "create", "/a/c", str(spec))
    assert refused == (1, "", f"peloton: {spec}:1: resources[0].limit: 6 is not at most 4\n")


def test_update_and_delete(run: Run, daemons: FakeDaemons, spec: Path) -> None:
    daemons.answers["UpdateResourcePool"] = respool_pb2.UpdateResponse()
    assert run("respool", "update", "/a/b", str(spec), "-f").code == 0
    request = daemons.requests("UpdateResourcePool")[0]
    assert (request.id.value, request.Force, request.config.parent.value) == ("id-of-b", True, "id-of-a")
    busy = respool_pb2.ResourcePoolIsBusy(message="/a/b holds 2 cores")
    daemons.answers["DeleteResourcePool"] = [
        respool_pb2.DeleteResponse(error=respool_pb2.DeleteResponse.Error(isBusy=busy)),
        respool_pb2.DeleteResponse(),
    ]
    assert run("respool", "delete", "/a/b").err == "peloton: /a/b holds 2 cores\n"
    assert run("respool", "delete", "/a/b").out == "Resource pool /a/b deleted\n"


def test_dump(run: Run, daemons: FakeDaemons) -> None:
    pools = [
        respool_pb2.ResourcePoolInfo(path=respool_pb2.ResourcePoolPath(value=path))
        for path in ("/a/b", "/", "/a")
    ]
    daemons.answers["Query"] = respool_pb2.QueryResponse(resourcePools=pools)
    expected = ["/", "/a", "/a/b"]
    assert [pool["path"]["value"] for pool in yaml.safe_load(run("respool", "dump").out)] == expected
    for flags in (("--format", "json"), ("-j",)):
        shown = json.loads(run("respool", "dump", *flags).out)
        assert [pool["path"]["value"] for pool in shown] == expected


def test_hosts(run: Run, daemons: FakeDaemons) -> None:
    info = host_pb2.HostInfo(
        hostname="agent0",
        ip="10.0.0.1",
        state=host_pb2.HOST_STATE_DRAINING,
        goal_state=host_pb2.HOST_STATE_DOWN,
        labels=[peloton_pb2.Label(key="rack", value="r1")],
        current_pool="default",
        desired_pool="shared",
    )
    daemons.answers["QueryHosts"] = host_svc_pb2.QueryHostsResponse(host_infos=[info])
    outcome = run("host", "query", "-s", "draining,HOST_STATE_UP")
    assert outcome.out == (
        "Hostname  IP        State     Goal State  Pool               Labels\n"
        "agent0    10.0.0.1  DRAINING  DOWN        default -> shared  rack=r1\n"
    )
    assert list(daemons.requests("QueryHosts")[0].host_states) == [3, 2]


def test_hosts_of_which_room_is_held(run: Run, daemons: FakeDaemons) -> None:
    held = [
        host_pb2.Held(job_id="job-x", instances="0-29, 31", until="2026-01-02T10:20:30Z"),
        host_pb2.Held(job_id="job-y", instances="7", until="2026-01-02T10:20:31Z"),
    ]
    up = host_pb2.HOST_STATE_UP
    infos = [
        host_pb2.HostInfo(hostname="a", state=up, goal_state=up, held=held),
        host_pb2.HostInfo(hostname="b", state=up, goal_state=up),
    ]
    daemons.answers["QueryHosts"] = host_svc_pb2.QueryHostsResponse(host_infos=infos)
    heads, first, second = run("host", "query").out.splitlines()
    assert heads.split()[-1] == "Held"
    assert first.endswith(
        "held for instances 0-29, 31 of job-x until 2026-01-02T10:20:30Z; "
        "instance 7 of job-y until 2026-01-02T10:20:31Z"
    )
    assert second.split() == ["b", "UP", "UP"]


def test_active_tasks(run: Run, daemons: FakeDaemons, spec: Path) -> None:
    entry = resmgrsvc_pb2.GetActiveTasksResponse.TaskEntry(
        taskID="j-0", taskState="PENDING", reason="pool is full", lastUpdateTime="2026-01-31"
    )
    entries = resmgrsvc_pb2.GetActiveTasksResponse.TaskEntries(taskEntry=[entry])
    daemons.answers["GetActiveTasks"] = resmgrsvc_pb2.GetActiveTasksResponse(
        tasksByState={"PENDING": entries}
    )
    outcome = run(
        "resmgr", "tasks", "active", "--respool", "/a", "--states", "pending,ready", "--job", JOB_ID
    )
    assert outcome.out == (
        "Task ID  State    Host  Last Update  Reason\nj-0      PENDING        2026-01-31   pool is full\n"
    )
    request = daemons.requests("GetActiveTasks")[0]
    assert (request.respoolID, list(request.states), request.jobID) == (
        "id-of-a",
        ["PENDING", "READY"],
        JOB_ID,
    )


def test_pending_and_orphan_tasks(run: Run, daemons: FakeDaemons) -> None:
    gangs = resmgrsvc_pb2.GetPendingTasksResponse.PendingGangs(
        pendingGangs=[
            resmgrsvc_pb2.GetPendingTasksResponse.PendingGang(taskIDs=["j-0", "j-1"]),
            resmgrsvc_pb2.GetPendingTasksResponse.PendingGang(taskIDs=["j-2"]),
        ]
    )
    daemons.answers["GetPendingTasks"] = resmgrsvc_pb2.GetPendingTasksResponse(
        pendingGangsByQueue={"pending": gangs}
    )
    lines = run("resmgr", "tasks", "pending", "some-id").out.splitlines()
    assert [line.split() for line in lines[1:]] == [
        ["pending", "1", "j-0"],
        ["pending", "1", "j-1"],
        ["pending", "2", "j-2"],
    ]
    assert daemons.requests("GetPendingTasks")[0].respoolID.value == "some-id"
    task = resmgr_pb2.Task(name="hello", taskId=mesos_pb2.TaskID(value="j-0-1"), hostname="agent0")
    daemons.answers["GetOrphanTasks"] = resmgrsvc_pb2.GetOrphanTasksResponse(orphanTasks=[task])
    assert run("resmgr", "tasks", "orphan").out.splitlines()[1].split() == ["j-0-1", "hello", "agent0"]


def scalar(name: str, amount: float, revocable: bool = False) -> mesos_pb2.Resource:
    resource = mesos_pb2.Resource(name=name, type=mesos_pb2.Value.SCALAR)
    resource.scalar.value = amount
    if revocable:
        resource.revocable.SetInParent()
    return resource


def test_offers(run: Run, daemons: FakeDaemons) -> None:
    ports = mesos_pb2.Resource(name="ports", type=mesos_pb2.Value.RANGES)
    ports.ranges.range.add(begin=31000, end=32000)
    offer = mesos_pb2.Offer(
        id=mesos_pb2.OfferID(value="o1"),
        framework_id=mesos_pb2.FrameworkID(value="f"),
        agent_id=mesos_pb2.AgentID(value="a1"),
        hostname="agent0",
        resources=[scalar("cpus", 3.5), scalar("cpus", 1, revocable=True), ports],
    )
    daemons.answers["GetOutstandingOffers"] = hostsvc_pb2.GetOutstandingOffersResponse(offers=[offer])
    line = run("hostmgr", "offers").out.splitlines()[1]
    assert line == "agent0    o1        a1        cpus:3.5;cpus{REV}:1;ports:[31000-32000]"
    none = hostsvc_pb2.GetOutstandingOffersResponse.Error(noOffers=hostsvc_pb2.NoOffersError(message="none"))
    daemons.answers["GetOutstandingOffers"] = hostsvc_pb2.GetOutstandingOffersResponse(error=none)
    assert run("hostmgr", "offers") == (0, "Hostname  Offer ID  Agent ID  Resources\n", "")
    assert json.loads(run("hostmgr", "offers", "-j").out)["offers"] == []


def test_hosts_of_hostmgr(run: Run, daemons: FakeDaemons) -> None:
    host = hostsvc_pb2.GetHostsByQueryResponse.Host(
        hostname="agent0",
        resources=[scalar("cpus", 3.5), scalar("cpus", 0.25), scalar("mem", 2048)],
        status="ready",
        tasks=[mesos_pb2.TaskID(value="t")],
    )
    daemons.answers["GetHostsByQuery"] = hostsvc_pb2.GetHostsByQueryResponse(hosts=[host])
    outcome = run("hostmgr", "hosts", "-c", "2", "--mem", "64", "-l", "--hosts", "agent0", "-r")
    assert outcome.out == (
        "Hostname  CPU   GPU  Mem (MB)  Disk (MB)  Status  Held  Tasks\n"
        "agent0    3.75  0    2048      0          ready   0     1\n"
    )
    request = daemons.requests("GetHostsByQuery")[0]
    assert (request.resource.cpuLimit, request.resource.memLimitMb, request.cmpLess) == (2, 64, True)
    assert request.includeRevocable and list(request.hostnames) == ["agent0"]
    assert run("hostmgr", "hosts", "-c", "-1").code == 2


def test_the_dump_of_pools_obeys_the_output(run: Run, daemons: FakeDaemons) -> None:
    amount = respool_pb2.ResourceConfig(kind="cpu", reservation=2, limit=4)
    pool = respool_pb2.ResourcePoolInfo(
        path=respool_pb2.ResourcePoolPath(value="/a"),
        config=respool_pb2.ResourcePoolConfig(resources=[amount]),
        usage=[respool_pb2.ResourceUsage(kind="cpu", allocation=0.5)],
    )
    daemons.answers["Query"] = respool_pb2.QueryResponse(resourcePools=[pool])
    assert run("respool", "dump", "-o", "name").out == "/a\n"
    head, row = run("respool", "dump", "-o", "table").out.splitlines()
    assert head.split()[:3] == ["Pool", "CPU", "CPU"] and row.split()[:4] == ["/a", "0.5", "2", "4"]
    assert "Policy" in run("respool", "dump", "-o", "wide").out
    assert run("respool", "dump", "-o", "csv").out.splitlines()[0].startswith("Pool,CPU,")
    assert run("respool", "dump", "--format", "yaml", "-o", "table").out == run("respool", "dump").out
