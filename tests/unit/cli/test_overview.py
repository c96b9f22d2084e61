"""`peloton status` and `peloton top`."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.cli import overview
from peloton.cli.overview_text import bar
from peloton.cli.session import Session
from peloton.client import LocalDiscovery, PelotonClient
from peloton.membership.interface import Address, Member, Role
from peloton.membership.local import LocalMembership
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.sampling import sampling_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.private.jobmgr.sharing import sharing_pb2
from peloton.private.jobmgr.usage import usage_pb2
from peloton.private.problems import problems_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2 as pb
from tests.unit.deploy.servers import answering, http

from .conftest import Run
from .fakes import FakeDaemons

MB = 1024 * 1024
JOBS = {"RUNNING": 3, "PENDING": 0, "INITIALIZED": 0, "FAILED": 1, "SUCCEEDED": 5, "KILLED": 0}


def jobs_of(request: job_pb2.QueryRequest) -> job_pb2.QueryResponse:
    """So many jobs in each state, page by page."""
    if request.spec.crashLooping:
        reason = "crash-looping: 1 of 2 instances waits after failures"
        looping = job_pb2.JobSummary(name="api", runtime=job_pb2.RuntimeInfo(reason=reason))
        looping.id.value = "loop"
        return job_pb2.QueryResponse(results=[looping], pagination=query_pb2.Pagination(total=1))
    state = job_pb2.JobState.Name(request.spec.jobStates[0])
    page, runtime = request.spec.pagination, job_pb2.RuntimeInfo(state=request.spec.jobStates[0])
    shown = range(page.offset, min(JOBS[state], page.offset + page.limit))
    found = []
    for number in shown:
        runtime.taskStats.update({"RUNNING": number, "PENDING": 1})
        name = f"{state.lower()}{number}"
        found.append(job_pb2.JobSummary(id=peloton_pb2.JobID(value=name), name=name, runtime=runtime))
    return job_pb2.QueryResponse(results=found, pagination=query_pb2.Pagination(total=JOBS[state]))


@pytest.fixture(autouse=True)
def cluster(daemons: FakeDaemons) -> None:
    pool = respool_pb2.ResourcePoolInfo(
        id=peloton_pb2.ResourcePoolID(value="a"), path=respool_pb2.ResourcePoolPath(value="/a")
    )
    pool.usage.add(kind="cpu", allocation=1.5)
    pool.config.resources.add(kind="cpu", reservation=2, limit=8)
    daemons.answers["Query"] = lambda request: (
        jobs_of(request)
        if isinstance(request, job_pb2.QueryRequest)
        else respool_pb2.QueryResponse(resourcePools=[pool])
    )
    hosts = [
        host_pb2.HostInfo(hostname="host1", state=host_pb2.HOST_STATE_UP),
        host_pb2.HostInfo(hostname="host2", state=host_pb2.HOST_STATE_DRAINING),
    ]
    daemons.answers["QueryHosts"] = host_svc_pb2.QueryHostsResponse(host_infos=hosts)
    daemons.answers["ClusterCapacity"] = hostsvc_pb2.ClusterCapacityResponse(
        resources=[hostsvc_pb2.Resource(kind="cpu", capacity=2)],
        physicalResources=[hostsvc_pb2.Resource(kind="cpu", capacity=8)],
    )
    answer = hostmgr_svc_pb2.GetHostCacheResponse()
    for name, used in (("host1", 1), ("host2", 3)):
        host = answer.summaries.add(hostname=name, status="Ready")
        host.allocation.add(kind="cpu", capacity=used)
        host.capacity.add(kind="cpu", capacity=4)
    daemons.answers["GetHostCache"] = answer
    giant = pb.InfeasibleJob(
        job_id=peloton_pb2.JobID(value="big"), pool="/a", gangs=2, why="no host has 9 cores"
    )
    daemons.answers["GetCluster"] = pb.GetClusterResponse(
        capacity=pb.Amounts(cpu=8),
        infeasible=2,
        infeasible_jobs=[giant],
        oversized_jobs=[pb.InfeasibleJob(job_id=peloton_pb2.JobID(value="wide"), pool="/a", why="too wide")],
    )
    daemons.answers["ListPools"] = pb.ListPoolsResponse(
        pools=[
            pb.Pool(id="root", path="/"),
            pb.Pool(
                id="a",
                path="/a",
                short_seconds=125,
                waiting=3,
                entitlement=pb.Amounts(cpu=2.5, gpu=1),
                demand=pb.Amounts(cpu=4, memory=100),
            ),
            pb.Pool(id="b", path="/b", short_seconds=5),
        ]
    )
    daemons.answers["ListProblems"] = problems_pb2.ListProblemsResponse(
        problems=[
            problems_pb2.Problem(level="warn", text="The store is slow", remedy="see its disk"),
            problems_pb2.Problem(level="bad", text="jobmgr-1 has started\x1b[31m 4 times"),
        ]
    )
    summary = stateless_pb2.JobSummary(name="giant")
    daemons.answers["GetJob"] = stateless_svc_pb2.GetJobResponse(summary=summary)


def test_why_nobody_leads(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The processes are there, and say at /health why none of them gets to lead."""
    why = "cannot stay leader: 7 terms in a row ended early; term 9 ended after 5 s: leadership was lost"

    async def joined(port: int) -> LocalMembership:
        membership = LocalMembership(tmp_path)
        await membership.start()
        await membership.join(Member(Role.JOBMGR, "a", Address("here", "127.0.0.1", port, 1)))
        return membership

    async def look() -> str:
        with answering(http("503 Service Unavailable", why)) as port:
            membership = await joined(port)
            client = PelotonClient("test", discovery=LocalDiscovery(tmp_path))
            found = overview.Overview()
            session = Session(timeout=5)
            session._client = client
            await asyncio.to_thread(overview._from, "jobmgr", session, found, lambda: None)
            client.close()
            await membership.close()
        return found.daemons[0].failure

    failure = asyncio.run(look())
    assert "shows no leader of jobmgr" in failure
    assert failure.endswith(f"; jobmgr 127.0.0.1:1 says: {why}")


def test_the_cluster_on_one_screen(run: Run) -> None:
    outcome = run("status")
    assert (outcome.code, outcome.err) == (0, "")
    for line in (
        "Hosts    UP 1, DRAINING 1",
        "  cpu    [#####...............]  25%  2 of 8",
        "Jobs     RUNNING 3, FAILED 1, SUCCEEDED 5  (ended: last 7 days)",
        "Tasks    PENDING 3, RUNNING 3  (of active jobs)",
        "  host host2 DRAINING",
        "  job failed0 failed0 FAILED: PENDING 1; `peloton job why` says more",
    ):
        assert line in outcome.out.splitlines(), outcome.out
    wrong = outcome.out.split("Wrong now\n")[1].splitlines()
    begins = [
        "  Pool /a has had less than its reservation for 2 min 5 s, while a gang waits",
        "  jobmgr-1 has started",
        "  host host2",
        "  Service api is crash-looping: 1 of 2 instances waits after failures; `peloton job why loop`",
        "  No host can take 2 gangs of giant in /a: no host has 9 cores; `peloton job why big`",
        "  Job giant can never run as its pool is now: too wide; ask for less",
        "  The store is slow; see its disk",
        "  job failed0",
    ]
    assert [line.startswith(begin) for line, begin in zip(wrong, begins, strict=True)] == [True] * 8, wrong
    assert "\x1b" not in outcome.out
    table = [line.split() for line in outcome.out.splitlines() if line.startswith(("Pool ", "/a "))]
    assert table == [
        ["Pool", "Kind", "Held", "Entitled", "Demand", "Reserved", "Limit", "Waiting"],
        ["/a", "cpu", "1.5", "2.5", "4", "2", "8", "3"],
        ["/a", "memory", "0", "0", "100"],
        ["/a", "gpu", "0", "1", "0"],
    ]
    assert outcome.out.count("ANSWERS") == 3
    answer = json.loads(run("status", "-j").out)
    assert answer["capacity"] == {"used": {"cpu": 2.0}, "total": {"cpu": 8.0}}
    assert [each["level"] for each in answer["problems"]] == ["bad", "bad", "warn", "warn", "warn"]
    assert answer["poolFigures"][1]["demand"]["memory"] == 100.0
    assert answer["tasks"] == {"RUNNING": 3, "PENDING": 3} and answer["hostsAway"] == ["host2 DRAINING"]


def test_what_is_not_shown_to_the_caller_is_said(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["ListPools"] = (grpc.StatusCode.PERMISSION_DENIED, "not for your role")
    outcome = run("status")
    assert outcome.code == 0 and "  It is not known which pools and jobs lack something: " in outcome.out
    assert ["/a", "cpu", "1.5", "?", "?", "2", "8", "?"] in map(str.split, outcome.out.splitlines())
    daemons.answers["ListProblems"] = (grpc.StatusCode.PERMISSION_DENIED, "not for your role")
    assert "  It is not known what is wrong with the resmgr: " in run("status").out
    daemons.answers["ListProblems"] = (grpc.StatusCode.UNIMPLEMENTED, "Method not found!")
    assert "what is wrong with" not in run("status").out


def test_what_does_not_answer_is_shown(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["QueryHosts"] = (grpc.StatusCode.UNAVAILABLE, "no hostmgr leads")
    outcome = run("status")
    assert outcome.code == 3 and "Hosts" not in outcome.out and "Jobs " in outcome.out
    assert "hostmgr  FAILS" in outcome.out and "no hostmgr leads" in outcome.out
    answer = json.loads(run("status", "-j").out)
    assert answer["hosts"] is None and [each["answers"] for each in answer["daemons"]] == [True, True, False]


def test_many_active_jobs_are_read_page_by_page_and_bounded(
    run: Run, daemons: FakeDaemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(JOBS, "RUNNING", 450)
    monkeypatch.setattr(overview, "MOST_JOBS", 250)
    answer = json.loads(run("status", "-j").out)
    assert answer["jobs"]["RUNNING"] == 450 and answer["tasks"]["PENDING"] == 250


@pytest.mark.parametrize(
    ("view", "row"),
    [
        ("pools", "/a    cpu     1.5   2.5       4       2         8      3"),
        ("jobs", "running2  running2  RUNNING  0          2        1        0"),
        ("hosts", "host2     Ready   [###############.....]  75%  3 of 4  0%      0%"),
    ],
)
def test_top_repeats_the_busiest_first(run: Run, view: str, row: str) -> None:
    outcome = run("top", view, "-n", "2", "--interval", "1ms")
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err) == (0, "")
    assert lines[1].startswith(row) and outcome.out.count(row) == 2
    rows: list[dict[str, Any]] = json.loads(run("top", view, "-n", "1", "-j").out)
    assert next(iter(rows[0].values())) == lines[1].split()[0]


def test_wrong_calls(run: Run, daemons: FakeDaemons) -> None:
    assert run("status", "now").code == 2
    assert "'cats' is not one of 'pools', 'jobs', 'hosts', 'tasks'" in run("top", "cats").err
    assert run("top", "-n", "-1").code == 2
    daemons.answers["GetHostCache"] = (grpc.StatusCode.PERMISSION_DENIED, "not you")
    outcome = run("top", "hosts")
    assert (outcome.code, outcome.err) == (1, "peloton: not you (PERMISSION_DENIED)\n")


def test_bars_show_a_little_use() -> None:
    assert bar(0, 0) == "[....................]   0%  0 of 0"
    assert bar(2, 8, 8) == "[##......]  25%  2 of 8"
    assert bar(0.001, 8).startswith("[#...") and bar(8, 8).startswith("[####################] 100%")


@pytest.fixture
def used(daemons: FakeDaemons) -> None:
    jobs = usage_pb2.ListUsedResponse()
    jobs.jobs.add(job_id="running2", pool_id="a", cores=1.254, memory_bytes=300 * MB, runs=2)
    jobs.jobs.add(job_id="gone", pool_id="a", cores=0.5, memory_bytes=100 * MB, runs=1)
    daemons.answers["ListUsed"] = jobs
    hosts = sampling_pb2.ListHostsResponse()
    hosts.hosts.add(hostname="host1", memory_bytes=200 * MB, tasks=1)
    hosts.hosts.add(hostname="host2", cores=0.25, memory_bytes=100 * MB, tasks=1)
    daemons.answers["ListHosts"] = hosts


@pytest.mark.parametrize(
    ("view", "heads", "cells"),
    [
        (
            "jobs",
            ("Running", "Used Cores", "Used MB"),
            {"running2": ("2", "1.25", "300"), "running1": ("1", "", "")},
        ),
        (
            "hosts",
            ("Disk", "Used Cores", "Used MB"),
            {"host2": ("0%", "0.25", "100"), "host1": ("0%", "", "200")},
        ),
    ],
)
def test_top_shows_what_is_used(
    run: Run, used: None, view: str, heads: tuple[str, ...], cells: dict[str, tuple[str, ...]]
) -> None:
    outcome = run("top", view, "-n", "1", "-j")
    rows = {next(iter(row.values())): row for row in json.loads(outcome.out)}
    assert outcome.err == ""
    assert {name: tuple(str(rows[name][head]) for head in heads) for name in cells} == cells


def test_top_shows_what_is_used_in_pools(run: Run, used: None) -> None:
    rows = json.loads(run("top", "pools", "-n", "1", "-j").out)
    assert [(row["Kind"], row["Held"], row["Used"]) for row in rows] == [
        ("cpu", "1.5", "1.75"),
        ("memory", "0", "400"),
        ("gpu", "0", ""),
    ]


@pytest.mark.parametrize("view", ["jobs", "hosts"])
def test_top_says_where_it_is_not_known_what_is_used(run: Run, daemons: FakeDaemons, view: str) -> None:
    daemons.answers["ListUsed"] = daemons.answers["ListHosts"] = (grpc.StatusCode.UNIMPLEMENTED, "not known")
    row = json.loads(run("top", view, "-n", "1", "-j").out)[0]
    assert (row["Used Cores"], row["Used MB"]) == ("?", "?")


def test_top_says_where_it_is_not_known_what_pools_use(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["ListUsed"] = (grpc.StatusCode.UNIMPLEMENTED, "not known")
    rows = json.loads(run("top", "pools", "-n", "1", "-j").out)
    assert [row["Used"] for row in rows] == ["?", "?", ""]


OWNERS = sharing_pb2.ListOwnersResponse(
    shared=True,
    without_owner=1,
    owners=[
        sharing_pb2.Owner(session="a", address="10.0.0.1:5292", shards="0-20", count=21, going=2),
        sharing_pb2.Owner(session="b", address="10.0.0.2:5292", shards="21-62", count=42, leaving=True),
    ],
)


def test_status_tells_who_owns_how_many_shards_where_they_are_shared(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["ListOwners"] = OWNERS
    text = run("status").out
    for line in (
        "Job managers that share the work",
        "  10.0.0.1:5292  21 shards of jobs, 2 of them about to move",
        "  10.0.0.2:5292  42 shards of jobs, about to end",
        "  1 shard of jobs without an owner",
    ):
        assert line in text.splitlines(), text
    plain = json.loads(run("status", "-o", "json").out)["owners"]
    assert [each["count"] for each in plain["owners"]] == [21, 42]


@pytest.mark.parametrize(
    "answer",
    [
        sharing_pb2.ListOwnersResponse(owners=[sharing_pb2.Owner(address="10.0.0.1:5292", count=64)]),
        (grpc.StatusCode.UNIMPLEMENTED, "an older job manager"),
    ],
)
def test_status_tells_nothing_of_shards_where_one_leads(run: Run, daemons: FakeDaemons, answer: Any) -> None:
    daemons.answers["ListOwners"] = answer
    assert "share the work" not in run("status").out
    assert "owners" not in json.loads(run("status", "-o", "json").out)
