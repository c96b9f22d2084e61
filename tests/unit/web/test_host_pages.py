"""The pages about hosts and host pools over daemons that answer what a test says."""

from __future__ import annotations

import re
from typing import Any

import pytest
from starlette.testclient import TestClient

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2 as host_pb
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.calls import web
from peloton.errors import Refused, Unavailable
from peloton.private.hostmgr.history import history_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.registry import registry_pb2
from peloton.private.hostmgr.sampling import sampling_pb2
from peloton.private.hostmgr.v1alpha import hostmgr_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.private.jobmgr.maintenance import maintenance_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.web.pages import Reader
from peloton.web.templating import Templates
from peloton.web.views import PAGES

from .fake import NOW, ORIGIN, FakeCluster, application, browser

HOSTILE = "<script>alert(1)</script>"
JOB = "0b3a3ef4-9d2f-4a1a-8d36-3e3d3f8a6a10"
UP, DOWN = host_pb2.HOST_STATE_UP, host_pb2.HOST_STATE_DOWN


def host(name: str, state: host_pb2.HostState.ValueType = UP, pool: str = "shared") -> host_pb2.HostInfo:
    return host_pb2.HostInfo(
        hostname=name,
        ip="10.0.0.1",
        state=state,
        goal_state=state,
        current_pool=pool,
        desired_pool=pool,
        labels=[peloton_pb2.Label(key="rack", value=HOSTILE)],
    )


def summary(name: str, cpu: float = 1) -> hostmgr_svc_pb2.GetHostCacheResponse.Summary:
    kinds = ("cpu", "memory", "disk", "gpu")
    return hostmgr_svc_pb2.GetHostCacheResponse.Summary(
        hostname=name,
        status="ready",
        allocation=[hostmgr_pb2.Resource(kind=kind, capacity=cpu) for kind in kinds],
        capacity=[hostmgr_pb2.Resource(kind=kind, capacity=4) for kind in kinds],
    )


def query(request: Any) -> hostsvc_pb2.GetHostsByQueryResponse:
    answer = hostsvc_pb2.GetHostsByQueryResponse()
    for name in request.hostnames:
        answer.hosts.add(hostname=name).tasks.add(value=f"{JOB}-0-1")
    return answer


@pytest.fixture
def cluster() -> FakeCluster:
    return hosts_cluster()


def used(request: sampling_pb2.ListHostsRequest) -> sampling_pb2.ListHostsResponse:
    answer = sampling_pb2.ListHostsResponse()
    if request.hostnames == ["a"]:
        host = answer.hosts.add(
            hostname="a", cores=0.5, memory_bytes=300 << 20, tasks=2, at=1_699_999_990 * 10**9
        )
        host.course_begin = 1_699_999_900
        host.course.add(until=1_699_999_990, cores=0.5, memory_mb=300)
    return answer


def hosts_cluster() -> FakeCluster:
    names = ("a", "b", HOSTILE)
    job = job_pb2.JobInfo(
        config=job_pb2.JobConfig(
            name=HOSTILE,
            type=job_pb2.SERVICE,
            instanceCount=2,
            sla=job_pb2.SlaConfig(maximumUnavailableInstances=1),
        ),
        runtime=job_pb2.RuntimeInfo(taskStats={"RUNNING": 2}),
    )
    history = history_pb2.GetHistoryResponse(begin="2023-11-14T22:00:00Z")
    history.changes.add(
        time="2023-11-14T22:10:00Z", kind=history_pb2.Change.KIND_STATE, before="UP", after="DRAINING"
    )
    return FakeCluster(
        {
            web.QUERY_HOSTS: host_pb.QueryHostsResponse(host_infos=[*map(host, names), host("down", DOWN)]),
            web.START_MAINTENANCE: host_pb.StartMaintenanceResponse(),
            web.COMPLETE_MAINTENANCE: host_pb.CompleteMaintenanceResponse(),
            web.LIST_HOST_POOLS: host_pb.ListHostPoolsResponse(
                pools=[
                    host_pb2.HostPoolInfo(name="default"),
                    host_pb2.HostPoolInfo(name="shared", hosts=[*names, "down"]),
                ]
            ),
            web.GET_HOST_CACHE: hostmgr_svc_pb2.GetHostCacheResponse(
                summaries=[summary(name) for name in names]
            ),
            web.GET_HOSTS_BY_QUERY: query,
            web.GET_MESOS_AGENT_INFO: hostsvc_pb2.GetMesosAgentInfoResponse(),
            web.GET_HOST_HISTORY: history,
            web.LIST_USED_HOSTS: used,
            web.GET_JOB: job_pb2.GetResponse(jobInfo=job),
            web.GET_TASK: task_pb2.GetResponse(
                result=task_pb2.TaskInfo(runtime=task_pb2.RuntimeInfo(state=task_pb2.RUNNING))
            ),
            web.CHECK_HOSTS: maintenance_pb2.CheckHostsResponse(
                concerns=[maintenance_pb2.Concern(text="a is the last host that can run job x")]
            ),
            web.GET_HOSTS_BY_SCORES: resmgrsvc_pb2.GetHostsByScoresResponse(hosts=["b", "a"]),
        }
    )


def client(cluster: FakeCluster) -> TestClient:
    return browser(application(cluster))


def posts(cluster: FakeCluster, method: str) -> list[Any]:
    return [request for _, called, request in cluster.asked if called == method]


def token(html: str) -> str:
    found = re.search(r'name="csrf" value="([^"]+)"', html)
    assert found is not None
    return found[1]


PATHS = (
    "/hosts",
    "/hosts?group=label:rack&kind=gpu&sort=-cpu",
    "/hosts/a",
    "/hosts/%3Cscript%3Ealert(1)%3C/script%3E",
    "/maintenance/start?host=a&host=b",
    "/maintenance/complete?host=down",
    "/hostpools",
    "/hostpools/delete?name=shared",
    "/hostpools/change?host=a&destination=default",
    "/hostpools/move?source=shared&destination=default&count=1",
)


@pytest.mark.parametrize("path", PATHS)
def test_pages_show_names_that_hold_html_as_text(cluster: FakeCluster, path: str) -> None:
    answer = client(cluster).get(path)
    assert answer.status_code == 200, answer.text
    assert HOSTILE not in answer.text


def test_the_list_shows_each_host_on_the_map_and_in_the_table(cluster: FakeCluster) -> None:
    html = client(cluster).get("/hosts").text
    assert 'title="a: 25%, 1 of 4 cores"' in html
    assert 'data-values="25 25 25 out"' in html
    assert html.count('aria-label="Choose ') == 4


def test_hosts_are_shown_where_their_amounts_are_not_known(cluster: FakeCluster) -> None:
    cluster.answers[web.GET_HOST_CACHE] = Unavailable("no leader")
    html = client(cluster).get("/hosts").text
    assert "the amounts of hosts are not known: no leader" in html
    assert 'data-values="none none none out"' in html


def test_the_page_of_a_host_has_its_tasks_and_its_history(cluster: FakeCluster) -> None:
    html = client(cluster).get("/hosts/a").text
    assert f'href="/jobs/{JOB}"' in html
    assert "draining" in html
    assert "/maintenance/start?host=a" in html and "held for" not in html


def test_the_page_of_a_host_says_for_whom_it_is_held(cluster: FakeCluster) -> None:
    info = host("a")
    info.held.add(job_id=JOB, instances="0-29", until="2026-01-02T10:20:30Z")
    cluster.answers[web.QUERY_HOSTS] = host_pb.QueryHostsResponse(host_infos=[info])
    html = client(cluster).get("/hosts/a").text
    assert f"held for instances 0-29 of {JOB} until 2026-01-02T10:20:30Z" in html


def test_an_unknown_host_and_a_wrong_parameter_are_told(cluster: FakeCluster) -> None:
    it = client(cluster)
    assert it.get("/hosts/zz").status_code == 404
    answer = it.get("/hosts?kind=net")
    assert (answer.status_code, "net" in answer.text) == (400, True)
    assert it.get("/maintenance/start").status_code == 400
    assert it.get("/maintenance/start?host=zz").status_code == 404


def test_maintenance_is_shown_before_it_is_started(cluster: FakeCluster) -> None:
    it = client(cluster)
    html = it.get("/maintenance/start?host=a&host=b").text
    assert "a is the last host that can run job x" in html
    assert "SLA binds" in html
    assert not posts(cluster, "StartMaintenance")
    form = {"csrf": token(html), "host": ["a", "b"]}
    answer = it.post("/maintenance/start", data=form, headers={"origin": ORIGIN}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/hosts?state=DRAINING")
    assert posts(cluster, "StartMaintenance") == [host_pb.StartMaintenanceRequest(hostnames=["a", "b"])]


def test_a_form_without_the_token_starts_nothing(cluster: FakeCluster) -> None:
    it = client(cluster)
    it.get("/hosts")
    assert it.post("/maintenance/start", data={"host": "a"}).status_code == 403
    assert not posts(cluster, "StartMaintenance")


def test_maintenance_is_completed_of_hosts_that_are_down(cluster: FakeCluster) -> None:
    it = client(cluster)
    html = it.get("/maintenance/complete?host=down&host=a").text
    assert "not DOWN" in html
    it.post("/maintenance/complete", data={"csrf": token(html), "host": "down"}, follow_redirects=False)
    assert posts(cluster, "CompleteMaintenance") == [host_pb.CompleteMaintenanceRequest(hostnames=["down"])]


def test_host_pools_are_changed_after_a_preview(cluster: FakeCluster) -> None:
    it = client(cluster)
    html = it.get("/hostpools/move?source=shared&destination=default&count=1").text
    assert "this goes: b" in html
    data = {
        "csrf": token(html),
        "source": "shared",
        "source_wanted": "3",
        "destination": "default",
        "destination_wanted": "1",
    }
    cluster.answers[web.MOVE_HOSTS] = host_pb.MoveHostsResponse()
    assert it.post("/hostpools/move", data=data, follow_redirects=False).status_code == 303
    assert posts(cluster, "MoveHosts") == [
        host_pb.MoveHostsRequest(
            sourcePool="shared", srcPoolDesiredHosts=3, destinationPool="default", destPoolDesiredHosts=1
        )
    ]
    cluster.answers[web.CHANGE_HOST_POOL] = host_pb.ChangeHostPoolResponse()
    change = {"csrf": token(html), "host": "a", "source": "shared", "destination": "default"}
    assert it.post("/hostpools/change", data=change, follow_redirects=False).headers["location"] == "/hosts/a"
    cluster.answers[web.CREATE_HOST_POOL] = Refused("it is there")
    create = it.post("/hostpools/create", data={"csrf": token(html), "name": "x"})
    assert (create.status_code, "it is there" in create.text) == (409, True)
    assert it.get("/hostpools/delete?name=default").status_code == 409


def test_the_cells_of_many_hosts_are_drawn_where_there_are_scripts(cluster: FakeCluster) -> None:
    names = [f"h{number}" for number in range(1001)]
    cluster.answers[web.QUERY_HOSTS] = host_pb.QueryHostsResponse(host_infos=[*map(host, names)])
    with client(cluster) as http:
        page = http.get("/hosts?group=none").text
    cells = page.partition('class="cells dense drawn"')[2].partition("</div>")[0]
    assert 'data-hosts="1001"' in cells and cells.count("<noscript><a ") == 1
    assert cells.partition("<noscript>")[2].partition("</noscript>")[0].count("<a ") == 1001


def test_a_host_may_be_moved_to_a_pool_without_hosts(cluster: FakeCluster) -> None:
    assert "<option>default</option>" in client(cluster).get("/hosts/a").text
    cluster.answers[web.LIST_HOST_POOLS] = Refused("host pools are off")
    assert "Another host pool" not in client(cluster).get("/hosts/a").text


def test_the_page_tells_where_host_pools_are_off(cluster: FakeCluster) -> None:
    cluster.answers[web.LIST_HOST_POOLS] = Refused("host pools are off")
    answer = client(cluster).get("/hostpools")
    assert (answer.status_code, "host pools are off" in answer.text) == (200, True)


def test_the_page_tells_where_host_pools_are_not_in_use(cluster: FakeCluster) -> None:
    listed: Any = cluster.answers[web.LIST_HOST_POOLS]
    assert "Host pools are not in use" not in client(cluster).get("/hostpools").text
    listed.not_in_use = True
    shown = client(cluster).get("/hostpools").text
    assert "Host pools are not in use: tasks run on any host" in shown and 'id="pool-shared"' in shown


OTHER = "7c9e6679-7425-40de-944b-e07fc1f90ae7"


def lost_cluster() -> FakeCluster:
    """With a lost host."""
    cluster = hosts_cluster()
    gone = host("gone", host_pb2.HOST_STATE_UNKNOWN)
    gone.lost.MergeFrom(
        host_pb2.LostHost(
            since="2023-11-14T22:10:00Z",
            reason="Mesos has given up its agent",
            tasks=[f"{JOB}-0-1", f"{OTHER}-9-1", f"{OTHER}-10-2", f"{OTHER}-12-1", HOSTILE],
            task_count=7,
        )
    )
    before: Any = cluster.answers[web.QUERY_HOSTS]
    hosts = before.host_infos

    def query_hosts(request: host_pb.QueryHostsRequest) -> host_pb.QueryHostsResponse:
        shown = [*([] if request.host_states else hosts), *([gone] if request.include_lost else [])]
        return host_pb.QueryHostsResponse(host_infos=shown)

    cluster.answers[web.QUERY_HOSTS] = query_hosts
    cluster.answers[web.FORGET_HOSTS] = registry_pb2.ForgetHostsResponse()
    return cluster


def test_a_lost_host_is_shown_with_what_ran_there() -> None:
    client = browser(application(lost_cluster()))
    listed = client.get("/hosts").text
    assert "7 tasks ran there" in listed and "Forget lost hosts chosen" in listed
    only = client.get("/hosts?state=LOST").text
    assert 'id="host-gone"' in only and 'id="host-a"' not in only
    page = client.get("/hosts/gone").text
    assert "Mesos has given up its agent" in page and "5 of 7 tasks when it was lost" in page
    assert f'<a href="/jobs/{JOB}/instances/0">' in page and HOSTILE not in page
    assert page.count(f'href="/jobs/{OTHER}') == 1 and "9-10, 12" in page, "the tasks of a job are one line"
    assert "1 host lost" in client.get("/").text


def test_a_lost_host_is_forgotten() -> None:
    cluster = lost_cluster()
    client = browser(application(cluster))
    asked = client.get("/maintenance/forget?host=gone&host=a").text
    assert "gone is listed no longer" in asked and "Host a is UP, not LOST" in asked
    form = {"csrf": token(asked), "host": "gone"}
    done = client.post("/maintenance/forget", data=form, follow_redirects=False)
    assert (done.status_code, done.headers["location"]) == (303, "/hosts")
    assert posts(cluster, "ForgetHosts") == [registry_pb2.ForgetHostsRequest(hostnames=["gone"])]


def test_what_the_tasks_on_a_host_use(cluster: FakeCluster) -> None:
    text = client(cluster).get("/hosts/a").text
    assert "2 tasks use 0.5 cores and 300 MB memory" in text
    assert "CPU: Used 0.5, Allocated now 1" in text
    assert 'id="used-title"' not in client(cluster).get("/hosts/b").text
    cluster.answers[web.LIST_USED_HOSTS] = Unavailable("no answer")
    cluster.shared.forget()
    page = client(cluster).get("/hosts/a")
    assert page.status_code == 200 and 'id="used-title"' not in page.text


@pytest.mark.parametrize("path", ["/hosts", "/hosts/a", "/hosts/a?span=week", "/hosts/down"])
async def test_live_blocks_of_hosts_are_rendered_without_the_time(path: str) -> None:
    reader = Reader(PAGES, Templates(), hosts_cluster(), lambda: NOW)
    found = reader.find(path)
    assert set(found.page.live) <= set(await reader.fragments(found, None))
