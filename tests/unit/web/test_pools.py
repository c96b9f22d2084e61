"""The pages about pools, and their rows, bars and charts."""

from __future__ import annotations

import math
import re
import time
from typing import Any

import pytest
from starlette.datastructures import QueryParams

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.calls import web
from peloton.errors import InvalidArgument, Unavailable
from peloton.private.jobmgr.usage import usage_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2 as pb
from peloton.web.templating import Templates
from peloton.web.views.pools.rows import (
    CHUNK,
    OPEN_ROWS,
    PoolsQuery,
    bar_of,
    chunks,
    pool_rows,
    selected,
    used_kinds,
)
from peloton.web.views.shared.histories import cluster_charts, pool_charts, task_charts

from .fake import NOW, FakeCluster, application, browser

HOSTILE = "<script>alert(1)</script>"
NAME = "<script>alert(1)"
JOB = "0b3a3ef4-9d2f-4a1a-8d36-3e3d3f8a6a10"


def pool(path: str, parent: str = "root", leaf: bool = True, **amounts: float) -> pb.Pool:
    made: dict[str, Any] = {
        name: pb.Amounts(cpu=value, memory=value * 1024) for name, value in amounts.items()
    }
    return pb.Pool(
        id="root" if path == "/" else path.replace("/", "-")[1:],
        path=path,
        parent="" if path == "/" else parent,
        leaf=leaf,
        tasks=3,
        waiting=2,
        **made,
    )


POOLS = (
    pool("/", leaf=False, limit=100, entitlement=100, allocation=30, reservation=100),
    pool("/b", limit=50, entitlement=20, allocation=10, slack=4, demand=70, reservation=10),
    pool("/a", leaf=False, limit=100, entitlement=80, allocation=20),
    pool(f"/a/{NAME}", "a", limit=10),
    pool("/a-z", limit=10),
)


def queue_of(request: pb.GetQueuesRequest) -> pb.GetQueuesResponse:
    gang = pb.QueuedGang(
        position=request.offset + 1,
        job_id=peloton_pb2.JobID(value=JOB),
        instance=7,
        size=3,
        asks=pb.Amounts(cpu=1.5, memory=2048, disk=10),
        since="2023-11-14T22:10:00Z",
        why="cpu: allocation 71 cores + gang 20 cores > entitlement 80 cores in /b",
    )
    aside = pb.QueuedGang(position=1, job_id=peloton_pb2.JobID(value=JOB), size=1, why=HOSTILE)
    return pb.GetQueuesResponse(
        queues=[
            pb.Queue(name="pending", length=120, gangs=[gang]),
            pb.Queue(name="infeasible", length=1, gangs=[aside]),
        ]
    )


def history(request: pb.GetHistoryRequest) -> pb.GetHistoryResponse:
    count = 60 if request.hour else 288
    values = [math.nan] * (count - 30) + [float(place) for place in range(30)]
    names = ("entitlement", "allocation", "slack", "demand")
    return pb.GetHistoryResponse(
        start=int(NOW) // 60 * 60 - count * 60,
        step=60,
        series=[
            pb.Series(
                name=name, kind=kind, values=values if kind != "gpu" else [value * 0 for value in values]
            )
            for name in names
            for kind in ("cpu", "memory", "disk", "gpu")
        ],
    )


@pytest.fixture
def cluster() -> FakeCluster:
    preemption = pb.Preemption(
        time="2023-11-14T22:12:00Z",
        pool="/b",
        benefits="/a/x",
        policy="cross_pool",
        reason="over its entitlement by 3 cores",
        job_id=peloton_pb2.JobID(value="gone"),
        instances=range(20),
        size=20,
    )
    running = job_pb2.JobSummary(
        id=peloton_pb2.JobID(value=JOB), name=HOSTILE, instanceCount=2, runtime=job_pb2.RuntimeInfo()
    )
    config = respool_pb2.ResourcePoolConfig(
        description=HOSTILE, owningTeam="ml", policy=respool_pb2.PriorityFIFO
    )
    config.controllerLimit.maxPercent = 30

    def job(request: Any) -> stateless_svc_pb2.GetJobResponse:
        if request.job_id.value != JOB:
            raise Unavailable("no such job")
        return stateless_svc_pb2.GetJobResponse(summary=stateless_pb2.JobSummary(name=HOSTILE))

    return FakeCluster(
        {
            web.LIST_POOLS: pb.ListPoolsResponse(pools=POOLS),
            web.LIST_LOSSES: usage_pb2.ListLossesResponse(
                losses=[
                    usage_pb2.PoolLoss(pool_id=peloton_pb2.ResourcePoolID(value=name), seconds=seconds)
                    for name, seconds in (("b", 90.0), ("a-z", 60.0), ("gone", 5.0))
                ]
            ),
            web.GET_CLUSTER_HISTORY: history,
            web.GET_QUEUES: queue_of,
            web.GET_PREEMPTIONS: pb.GetPreemptionsResponse(preemptions=[preemption]),
            web.GET_POOL: respool_pb2.GetResponse(poolinfo=respool_pb2.ResourcePoolInfo(config=config)),
            web.QUERY_JOBS: job_pb2.QueryResponse(
                results=[running], pagination=query_pb2.Pagination(total=41)
            ),
            web.GET_JOB_V1ALPHA: job,
        }
    )


def test_pools_stand_below_the_ones_that_they_are_in() -> None:
    rows = pool_rows(POOLS)
    assert [row.path for row in rows] == ["/", "/a", f"/a/{NAME}", "/a-z", "/b"]
    assert [row.depth for row in rows] == [0, 1, 2, 1, 1]
    assert used_kinds(rows) == ("cpu", "memory")


def test_a_bar_is_as_long_as_the_limit_and_at_most_as_the_capacity() -> None:
    amounts = {
        "reservation": 25.0, "limit": 50.0, "entitlement": 40.0, "allocation": 10.0, "slack": 5.0,
        "demand": 99.0,
    }  # fmt: skip
    bar = bar_of("cpu", amounts, 100.0)
    assert bar is not None
    assert bar.parts == (
        ("allocation", "0.0", "20.0"), ("slack", "20.0", "20.0"), ("demand", "40.0", "160.0"),
    )  # fmt: skip
    assert bar.marks == (("reservation", "100.0"), ("limit", "199.0"), ("entitlement", "160.0"))
    assert "entitlement 40 cores" in bar.label
    within = bar_of("cpu", amounts | {"limit": 1e9}, 100.0)
    assert within is not None and within.marks == (("reservation", "50.0"), ("entitlement", "80.0"))
    assert bar_of("gpu", dict.fromkeys(amounts, 0.0), 0.0) is None


def test_a_query_narrows_the_tree_and_bad_ones_are_refused() -> None:
    rows = pool_rows(POOLS)

    def paths(text: str) -> list[str]:
        query = PoolsQuery.of(QueryParams(text))
        return [row.path for row in selected(rows, query)]

    assert paths("levels=1") == ["/", "/a", "/a-z", "/b"]
    assert paths("q=A-") == ["/a-z"]
    for wrong in ("kind=tape", "levels=0", "levels=x"):
        with pytest.raises(InvalidArgument, match=r"one of|a number from 1 to 9"):
            PoolsQuery.of(QueryParams(wrong))


def test_a_thousand_pools_are_rendered_only_where_they_change() -> None:
    rows = pool_rows(
        [POOLS[0], *(pool(f"/p{n:04}", limit=10, entitlement=n % 7, allocation=n % 5) for n in range(1000))]
    )
    templates, query = Templates(), PoolsQuery()
    cut = chunks(rows, ("cpu", "memory"), query)
    assert sum(len(chunk.rows) for chunk in cut) == 1001 and len(cut) == 1001 // CHUNK + 1 + 3
    first = [templates.piece("pool_rows.html", chunk) for chunk in cut]
    changed = pool_rows(
        [
            POOLS[0],
            *(
                pool(f"/p{n:04}", limit=10, entitlement=n % 7, allocation=n % 5 + (n == 500))
                for n in range(1000)
            ),
        ]
    )
    again = [templates.piece("pool_rows.html", chunk) for chunk in chunks(changed, ("cpu", "memory"), query)]
    assert [n for n, (one, other) in enumerate(zip(first, again, strict=True)) if one != other] == [
        501 // CHUNK
    ]
    assert sum(one is other for one, other in zip(first, again, strict=True)) == len(cut) - 1


def test_the_tree_shows_every_pool_and_escapes_its_name(cluster: FakeCluster) -> None:
    with browser(application(cluster)) as client:
        page = client.get("/pools").text
        assert page.count('<tr id="pool-') == len(POOLS)
        assert NAME not in page and "5 pools" in page
        assert "10 of 20 cores" in page
        numbers = client.get("/pools?kind=memory").text
        assert "70 GB" in numbers and "Reservation" in numbers
        assert client.get("/pools?kind=tape").status_code == 400


def test_rows_far_down_wait_where_there_are_scripts_and_each_is_there_once(cluster: FakeCluster) -> None:
    many = [pool(f"/p{n:03}", limit=10, entitlement=5) for n in range(300)]
    cluster.answers[web.LIST_POOLS] = pb.ListPoolsResponse(pools=[POOLS[0], *many])
    with browser(application(cluster)) as client:
        page = client.get("/pools").text
    at_once, waiting, _ = re.split(
        "<noscript id=.folded.>|</noscript>(?=.*</section>)", page, flags=re.DOTALL
    )
    assert at_once.count('<tr id="pool-') == OPEN_ROWS and waiting.count('<tr id="pool-') == 201
    assert at_once.count('class="folded"') == waiting.count("<tbody data-rows=") == 11
    assert "Show 20 pools from /p099 on" in at_once


def test_the_page_of_a_pool_shows_queues_jobs_history_and_preemptions(cluster: FakeCluster) -> None:
    with browser(application(cluster)) as client:
        page = client.get("/pools/b").text
    assert HOSTILE not in page
    for text in (
        "3 from 7 on", "1.5 cores, 2 GB memory, 10 MB disk", "allocation 71 cores + gang 20 cores",
        "cores &gt; entitlement 80 cores",
        "Set aside", "120 gangs", "Page 1 of 3", "30% of the reservation", "first come, first served",
        "/a/x", "0–19", "over its entitlement by 3 cores", "cross pool",
        "of 41 jobs", 'href="/jobs/gone"', "Last day",
    ):  # fmt: skip
        assert text in page, text
    assert page.count('<figure class="chart">') == 3  # GPUs were never there


def test_gangs_that_wait_alike_are_one_line(cluster: FakeCluster) -> None:
    def gang(position: int, instance: int, why: str = "behind <b>", minute: int = 10) -> pb.QueuedGang:
        return pb.QueuedGang(
            position=position,
            job_id=peloton_pb2.JobID(value=JOB),
            instance=instance,
            size=1,
            asks=pb.Amounts(cpu=1),
            since=f"2023-11-14T22:{minute}:{position:02}Z",
            why=why,
        )

    gangs = [gang(1, 0, "too large"), *(gang(position, position - 1) for position in range(2, 31))]
    others = [gang(31, 40), gang(32, 41, minute=50), gang(33, 42, "another", minute=50)]
    queue = pb.Queue(name="pending", length=33, gangs=[*gangs, *others])
    cluster.answers[web.GET_QUEUES] = pb.GetQueuesResponse(queues=[queue])
    with browser(application(cluster)) as client:
        page = client.get("/pools/b").text
    assert page.count("behind &lt;b&gt;") == 3 and "2–30" in page and "instances 1–29" in page
    assert page.count("each 1 core") == 1 and page.count("instance 40") == 1 and page.count("another") == 1


def test_gangs_that_were_preempted_together_are_one_line(cluster: FakeCluster) -> None:
    def preemption(instance: int, reason: str = "over", second: int = 0) -> pb.Preemption:
        return pb.Preemption(
            time=f"2023-11-14T22:12:{second:02}Z",
            pool="/b",
            policy="same_pool",
            reason=reason,
            job_id=peloton_pb2.JobID(value=JOB),
            instances=[instance],
            size=1,
        )

    found = [preemption(each, second=each % 3) for each in range(49, 28, -1)]
    others = [preemption(5, "another")]
    cluster.answers[web.GET_PREEMPTIONS] = pb.GetPreemptionsResponse(preemptions=[*found, *others])
    with browser(application(cluster)) as client:
        page = client.get("/pools/b").text
    assert "29–49 <span" in page and "21 gangs" in page
    assert page.count(">over<") == 1 and page.count(">another<") == 1


def test_a_pool_says_how_much_work_was_lost(cluster: FakeCluster) -> None:
    with browser(application(cluster)) as client:
        assert "<p>Work lost since checkpoints: 1 min 30 s." in client.get("/pools/b").text
        assert (
            "<p>Work lost since checkpoints: 2 min 30 s, with the pools below."
            in client.get("/pools/root").text
        )
        assert "Work lost" not in client.get("/pools/a").text


def test_pages_of_a_queue_are_read_from_their_place_on(cluster: FakeCluster) -> None:
    with browser(application(cluster)) as client:
        assert '<td class="number" data-label="Position">51</td>' in client.get("/pools/b?page=2").text
        assert client.get("/pools/b?page=0").status_code == 400
        assert client.get("/pools/none").status_code == 404
    offsets = [request.offset for _, method, request in cluster.asked if method == "GetQueues"]
    assert offsets == [50]


def test_what_cannot_be_read_of_a_pool_is_said_and_the_rest_is_shown(cluster: FakeCluster) -> None:
    cluster.answers[web.QUERY_JOBS] = Unavailable("jobmgr is away")
    with browser(application(cluster)) as client:
        answer = client.get("/pools/b")
    assert answer.status_code == 200
    assert "jobmgr is away" in answer.text and "3 from 7 on" in answer.text


def test_charts_begin_where_the_history_does() -> None:
    charts = pool_charts(history(pb.GetHistoryRequest()))
    assert [each.title for each in charts] == ["CPU", "Memory", "Disk"]
    first, _, last = charts[0].x_ticks
    minutes = 29
    begin = time.strftime("%H:%M", time.gmtime(int(NOW) // 60 * 60 - (minutes + 1) * 60))
    assert first[1] == begin and last[1] != begin
    assert [line.label for line in charts[0].lines] == ["Entitlement", "Demand"]
    assert pool_charts(pb.GetHistoryResponse()) == ()


def test_a_pools_charts_show_what_was_used_by_hours(cluster: FakeCluster) -> None:
    hour = int(NOW) // 3600 * 3600
    amounts = usage_pb2.Amounts(used_cpu=5 * 3600, used_memory=7 * 3600)
    open_amounts = usage_pb2.Amounts(used_cpu=2 * (NOW - hour))
    accounts = [
        usage_pb2.Account(start=hour - 3600, amounts=amounts),
        usage_pb2.Account(start=hour, amounts=open_amounts),
    ]
    cluster.answers[web.LIST_ACCOUNTS] = usage_pb2.ListAccountsResponse(
        accounts=accounts, since=hour - 86400, until=int(NOW)
    )
    with browser(application(cluster)) as client:
        page = client.get("/pools/b?span=day").text
        assert "Used <b>2</b>" in page
        assert "Used <b>" not in client.get("/pools/b?span=hour").text
        assert "Last 5 weeks" in client.get("/pools/b?span=month").text
    asked = {request.days for _, name, request in cluster.asked if name == "GetHistory"}
    assert asked == {0, 35}
    assert [r.pool for _, name, r in cluster.asked if name == "ListAccounts"] == ["/b", "/b"]


def test_the_clusters_charts_agree_where_the_samples_are_of_different_minutes() -> None:
    own = pb.GetHistoryResponse(start=120, step=60)
    own.series.add(name="capacity", kind="cpu", values=[8.0] * 20)
    for name in ("running", "waiting", "started", "ended"):
        own.series.add(name=name, values=[1.0] * 20)
    root = pb.GetHistoryResponse(start=60, step=60)
    root.series.add(name="allocation", kind="cpu", values=[float(n) for n in range(20)])
    root.series.add(name="entitlement", kind="cpu", values=[4.0] * 20)
    [chart] = cluster_charts(own, root)
    assert [(each.label, each.last) for each in (*chart.areas, *chart.lines)] == [
        ("Allocation", "19"), ("Entitlement", "4"), ("Capacity", "8"),
    ]  # fmt: skip
    assert [each.title for each in task_charts(own)] == ["Tasks", "Tasks per second"]
    assert cluster_charts(pb.GetHistoryResponse(), pb.GetHistoryResponse()) == ()


def test_pages_of_pools_and_of_jobs_do_not_take_each_others_pools(cluster: FakeCluster) -> None:
    known = respool_pb2.ResourcePoolInfo(id=peloton_pb2.ResourcePoolID(value="b"))
    known.path.value = "/of-jobs"
    cluster.answers[web.QUERY_POOLS] = respool_pb2.QueryResponse(resourcePools=[known])
    with browser(application(cluster)) as client:
        for _ in range(2):
            assert client.get("/pools").status_code == 200
            assert "/of-jobs" in client.get("/submit").text
