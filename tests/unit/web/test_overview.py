"""The overview: figures of the cluster, daemons, and what is wrong now."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.calls import web
from peloton.errors import PermissionDenied, Unauthenticated, Unavailable, Unimplemented
from peloton.membership.interface import Role
from peloton.private.jobmgr.sharing import sharing_pb2
from peloton.private.problems import problems_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2 as pb
from peloton.web.views.overview.daemons import daemon_problems, daemon_row
from peloton.web.views.overview.figures import Figures, Jobs, Maintenance, figures_of, problems_of
from peloton.web.views.pools.rows import pool_rows

from .fake import FakeCluster, application, browser
from .test_pools import HOSTILE, JOB, POOLS

COUNTS = {job_pb2.RUNNING: 12, job_pb2.FAILED: 3}


def jobs_of(request: Any) -> job_pb2.QueryResponse:
    if request.spec.crashLooping:
        runtime = job_pb2.RuntimeInfo(reason="crash-looping: 2 of 3 instances wait after failures")
        looping = job_pb2.JobSummary(id=peloton_pb2.JobID(value=JOB), name="<api>", runtime=runtime)
        return job_pb2.QueryResponse(results=[looping], pagination=query_pb2.Pagination(total=3))
    [state] = request.spec.jobStates
    total = 2 if request.spec.completionTimeRange.ByteSize() else COUNTS.get(state, 0)
    return job_pb2.QueryResponse(pagination=query_pb2.Pagination(total=total))


def figures() -> pb.GetClusterResponse:
    lacking = pb.InfeasibleJob(
        job_id=peloton_pb2.JobID(value=JOB), pool="/b", gangs=4, why=f"no host has {HOSTILE}"
    )
    return pb.GetClusterResponse(
        capacity=pb.Amounts(cpu=100, memory=102400),
        tasks=[
            pb.TaskCount(state=task_pb2.RUNNING, count=1234),
            pb.TaskCount(state=task_pb2.PENDING, count=5),
        ],
        started_per_second=7.5,
        infeasible=9,
        infeasible_jobs=[lacking],
    )


@pytest.fixture
def cluster() -> FakeCluster:
    down = host_pb2.HostInfo(hostname="h", state=host_pb2.HOST_STATE_DOWN)
    return FakeCluster(
        {
            web.LIST_POOLS: pb.ListPoolsResponse(pools=POOLS),
            web.GET_CLUSTER: figures(),
            web.GET_CLUSTER_HISTORY: pb.GetHistoryResponse(),
            web.QUERY_JOBS: jobs_of,
            web.GET_JOB_V1ALPHA: stateless_svc_pb2.GetJobResponse(
                summary=stateless_pb2.JobSummary(name="<mill>")
            ),
            web.QUERY_HOSTS: host_svc_pb2.QueryHostsResponse(host_infos=[down]),
        }
    )


def test_the_overview_shows_amounts_tasks_and_jobs(cluster: FakeCluster) -> None:
    with browser(application(cluster)) as client:
        page = client.get("/").text
    assert HOSTILE not in page
    for text in (
        "30 of 100 cores allocated", "30%", "Entitled 100 GB", "1,239</span> not ended", "7.5</span> started",
        "15</span> active", "12</b>", "1 host down", 'href="/hosts?state=DOWN"', "2 jobs failed within",
        "No host can take 4 gangs of &lt;mill&gt; in /b: no host has &lt;script", "5 gangs of further jobs",
        "Too little was recorded yet", f'href="/jobs/{JOB}"',
        "Service &lt;api&gt; is crash-looping: 2 of 3 instances wait", "2 further services crash-looping",
        '<span class="remedy">Its page tells what would help</span>',
    ):  # fmt: skip
        assert text in page, text
    assert "GPU" not in page


def test_a_daemon_that_does_not_answer_is_a_problem_and_the_rest_is_shown(cluster: FakeCluster) -> None:
    cluster.answers[web.GET_CLUSTER] = Unavailable("no leader of resmgr is known")
    with browser(application(cluster)) as client:
        answer = client.get("/")
        assert client.get("/?span=year").status_code == 400
    assert answer.status_code == 200
    assert "The figures of the pools and the tasks are not known: no leader of resmgr is known" in answer.text
    assert "not ended" not in answer.text and '<p class="quiet">Not known.</p>' in answer.text
    assert "15</span> active" in answer.text


def test_problems_tell_what_is_wrong_with_the_cluster() -> None:
    jobs, hosts = Jobs(), Maintenance({})

    def texts(found: Figures) -> list[str]:
        return [each.text for each in problems_of(found, jobs, hosts)]

    rows = pool_rows(POOLS)
    assert texts(figures_of(pb.GetClusterResponse(capacity=pb.Amounts(cpu=4)), rows, {})) == []
    [unknown] = texts(figures_of(pb.GetClusterResponse(), rows, {}))
    assert "does not know the cluster's capacity" in unknown
    [empty] = texts(figures_of(pb.GetClusterResponse(capacity=pb.Amounts()), rows, {}))
    assert "no agent is registered" in empty
    [first] = texts(figures_of(pb.GetClusterResponse(capacity=pb.Amounts(cpu=4)), rows[:1], {}))
    assert "no resource pool yet" in first


def test_daemons_without_leader_health_or_answer_are_problems(cluster: FakeCluster) -> None:
    cluster.fake.add(Role.RESMGR, "resmgr0", 10, leads=True)
    cluster.fake.add(Role.RESMGR, "resmgr1", 20)
    leader = cluster.leader(Role.RESMGR)
    first, second = cluster.members(Role.RESMGR).values()
    rows = (daemon_row(first, leader, ""), daemon_row(second, leader, None), daemon_row(first, leader, "ill"))
    assert [row.state for row in rows] == ["LEADER", "UNREACHABLE", "UNHEALTHY"]
    found = [each.text for each in daemon_problems(rows, {"jobmgr": False, "resmgr": True})]
    assert found[0] == "No jobmgr leads" and "No placement engine runs" in found[1]
    assert any("ill" in text for text in found) and any("does not answer /health" in text for text in found)


def test_who_has_to_log_in_is_led_to_the_login() -> None:
    refused = Unauthenticated("no username and password are given")
    cluster = FakeCluster({web.GET_CLUSTER: refused, web.QUERY_JOBS: refused, web.QUERY_HOSTS: refused})
    led = browser(application(cluster)).get("/", follow_redirects=False)
    assert (led.status_code, led.headers["location"]) == (303, "/login?next=%2F")


def test_what_the_daemons_tell_is_among_the_problems(cluster: FakeCluster) -> None:
    told = problems_pb2.ListProblemsResponse(
        problems=[
            problems_pb2.Problem(
                level="warn", text=f"slow {HOSTILE}", link="/hosts/h", remedy="see its disk"
            ),
            problems_pb2.Problem(level="bad", text="jobmgr-1 has started 4 times"),
        ]
    )
    for rpc in web.LIST_PROBLEMS:
        cluster.answers[rpc] = told
    with browser(application(cluster)) as client:
        page = client.get("/").text
    assert HOSTILE not in page and 'href="/hosts/h"' in page and "See its disk" in page
    assert page.index("jobmgr-1 has started 4 times") < page.index("slow &lt;script")


def test_a_daemon_that_may_not_be_asked_is_said_and_an_older_one_is_not(cluster: FakeCluster) -> None:
    cluster.answers[web.LIST_PROBLEMS[0]] = PermissionDenied("not for your role")
    for rpc in web.LIST_PROBLEMS[1:]:
        cluster.answers[rpc] = Unimplemented("Method not found!", {})
    with browser(application(cluster)) as client:
        page = client.get("/").text
    assert "It is not known what the jobmgr sees that is wrong: not for your role" in page
    assert page.count("sees that is wrong") == 1


def test_the_overview_tells_who_owns_how_many_shards_where_they_are_shared(cluster: FakeCluster) -> None:
    owner = sharing_pb2.Owner(address="10.0.0.1:5292", count=63, going=1)
    found = sharing_pb2.ListOwnersResponse(owners=[owner], without_owner=1)
    texts = (
        "10.0.0.1:5292",
        "63 shards of jobs, 1 of them about to move",
        "1 shard of jobs without an owner",
    )
    cluster.answers[web.LIST_OWNERS] = found
    with browser(application(cluster)) as client:
        page = client.get("/").text
    assert not any(text in page for text in texts), "one leads, and has all"
    found.shared = True
    with browser(application(cluster)) as client:
        page = client.get("/").text
    assert all(text in page for text in texts)
