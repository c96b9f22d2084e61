from __future__ import annotations

import re
from dataclasses import replace
from html import escape
from importlib import import_module
from typing import Any

import pytest
from starlette.datastructures import QueryParams
from starlette.testclient import TestClient

from mesos.v1 import mesos_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.calls import web
from peloton.calls.web import RoleRpc
from peloton.errors import InvalidArgument, StaleVersion, Unavailable
from peloton.private.jobmgr.usage import usage_pb2
from peloton.web.pages import Reader
from peloton.web.templating import Templates
from peloton.web.views import PAGES
from peloton.web.views.jobs.actions import Options, methods_of, simple_call
from peloton.web.views.jobs.job import job_head
from peloton.web.views.jobs.search import JobSearch

from .fake import FakeCluster, application, browser, token
from .jobs_cluster import EVIL, JOB, POOL, VERSION, cluster, explained, job_info, task_info

NOW = 1_700_000_000.0
PATHS = (
    "/jobs",
    f"/jobs/{JOB}",
    f"/jobs/{JOB}?state=PENDING&host=h&sort=-state&page=2",
    f"/jobs/{JOB}/versions",
    f"/jobs/{JOB}/versions?from=1&to=3",
    f"/jobs/{JOB}/instances/1",
    *(f"/jobs/{JOB}/do/{action}" for action in ("stop", "start", "restart", "update", "rollback", "abort")),
)


@pytest.fixture
def found() -> FakeCluster:
    return cluster()


@pytest.fixture
def client(found: FakeCluster) -> TestClient:
    return browser(application(found))


def asked(found: FakeCluster, method: str) -> list[Any]:
    return [request for _, name, request in found.asked if name == method]


# Searches.


def test_each_search_has_its_own_address_and_request() -> None:
    query = (
        "name=a*&owner=o&labels=k%3Dv%2Cx%3Dy&pool=%2Fa&words=one+two&state=RUNNING&state=FAILED&created=1d"
    )
    search = JobSearch.of(QueryParams(f"{query}&sort=name&page=3"))
    assert JobSearch.of(QueryParams(search.url.partition("?")[2])) == search
    spec = search.request(NOW).spec
    assert (spec.name, spec.owner, spec.respool.value, list(spec.keywords)) == (
        "a*",
        "o",
        "/a",
        ["one", "two"],
    )
    assert [(label.key, label.value) for label in spec.labels] == [("k", "v"), ("x", "y")]
    assert list(spec.jobStates) == [job_pb2.RUNNING, job_pb2.FAILED]
    assert (spec.pagination.offset, spec.pagination.limit) == (100, 50)
    assert spec.pagination.orderBy[0].property.value == "name"
    assert spec.pagination.orderBy[0].order == query_pb2.OrderBy.ASC
    assert spec.creationTimeRange.min.seconds == (int(NOW) - 86400) // 60 * 60


def test_an_empty_search_has_the_plain_address() -> None:
    assert JobSearch.of(QueryParams("")).url == "/jobs"
    assert not JobSearch.of(QueryParams("page=2&sort=name")).narrow


def test_days_are_whole_days() -> None:
    spec = JobSearch.of(QueryParams("after=2026-01-30&before=2026-01-31")).request(NOW).spec
    assert spec.creationTimeRange.max.seconds - spec.creationTimeRange.min.seconds == 2 * 86400


@pytest.mark.parametrize(
    ("query", "wrong"),
    [
        ("state=SLEEPING", "state"),
        ("sort=colour", "sort"),
        ("page=0", "page"),
        ("page=x", "page"),
        ("labels=novalue", "labels"),
        ("after=31.1.2026", "after"),
        ("created=2w", "created"),
    ],
)
def test_what_cannot_be_searched_for_is_refused(query: str, wrong: str) -> None:
    with pytest.raises(InvalidArgument, match=wrong):
        JobSearch.of(QueryParams(query)).request(NOW)


def test_the_list_shows_what_is_found(client: TestClient, found: FakeCluster) -> None:
    text = client.get("/jobs?name=mill&page=2").text
    assert "mill" in text and "Page 2 of 3" in text and 'href="/pools/' in text
    assert asked(found, "Query")[-1] is not None
    assert "3 running" in text.replace("<b>", "").replace("</b>", "")


def test_wrong_searches_are_answered_with_what_is_right(client: TestClient) -> None:
    answer = client.get("/jobs?sort=colour")
    assert answer.status_code == 400
    assert "creation_time" in answer.text


def test_a_search_for_jobs_that_ended_says_how_far_back_it_looks(client: TestClient) -> None:
    assert "last 7 days" in client.get("/jobs?state=FAILED").text.split("data-live")[1]
    assert "7 days are found" not in client.get("/jobs?state=FAILED&created=30d").text


# A job.


def test_a_job_shows_why_it_waits_and_what_would_help(client: TestClient) -> None:
    text = client.get(f"/jobs/{JOB}").text
    assert "cpu: 90 + 20 &gt; 100 in /a" in text
    assert "instances 3-4" in text
    assert "give back 10 cores" in text
    assert "raise the limit of /a from 105 cores to at least 110" in text


def test_a_job_shows_its_batches(client: TestClient) -> None:
    text = client.get(f"/jobs/{JOB}").text
    assert text.count('class="batch-done"') == 2
    assert text.count('class="batch-now"') == 1
    assert text.count('class="batch-left"') == 2


def test_an_address_in_the_description_is_a_link(client: TestClient, found: FakeCluster) -> None:
    info = job_info()
    info.config.description = f"with its UI at http://127.0.0.1:4040 {EVIL}"
    found.answers[web.GET_JOB] = job_pb2.GetResponse(jobInfo=info)
    text = client.get(f"/jobs/{JOB}").text
    assert '<a href="http://127.0.0.1:4040" rel="noopener noreferrer">http://127.0.0.1:4040</a>' in text
    assert "<script>alert" not in text and "<img src=x" not in text


def test_the_plain_table_reads_only_its_page(client: TestClient, found: FakeCluster) -> None:
    client.get(f"/jobs/{JOB}?page=3")
    assert not [each for called, _, each in found.asked if called == web.QUERY_TASKS]
    span = asked(found, "List")[0].range
    assert (getattr(span, "from"), span.to) == (100, 150)


def test_the_table_is_filtered_and_sorted_by_the_server(client: TestClient, found: FakeCluster) -> None:
    client.get(f"/jobs/{JOB}?state=FAILED&host=h1&sort=-creation_time&page=2")
    wire = next(each for called, _, each in found.asked if called == web.QUERY_TASKS)
    assert list(wire.spec.taskStates) == [task_pb2.FAILED] and list(wire.spec.hosts) == ["h1"]
    assert wire.spec.pagination.offset == 50
    assert wire.spec.pagination.orderBy[0].order == query_pb2.OrderBy.DESC


def test_a_job_opens_without_the_resource_manager(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.EXPLAIN_JOB] = Unavailable("no leader")
    found.answers[web.QUERY_POOLS] = Unavailable("no leader")
    answer = client.get(f"/jobs/{JOB}")
    assert answer.status_code == 200
    assert "could not be asked" in answer.text


def test_pools_are_named_as_they_were_told_last(
    client: TestClient, found: FakeCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(import_module("peloton.web.views.jobs.pages"), "POOL_SECONDS", -1.0)
    with client:
        assert ">/a</a>" in client.get("/jobs").text
        found.answers[web.QUERY_POOLS] = Unavailable("no leader")
        for _ in range(2):
            assert ">/a</a>" in client.get("/jobs").text


def test_versions_are_compared(client: TestClient) -> None:
    text = client.get(f"/jobs/{JOB}/versions?from=1&to=3").text
    assert "description: of 1" in text and "description: of 3" in text
    assert "+1" in text and "−1" in text
    assert "revision" not in text
    assert client.get(f"/jobs/{JOB}/versions?from=9").status_code == 400


@pytest.mark.parametrize("path", [path for path in PATHS if "/do/" not in path])
async def test_live_blocks_are_rendered_without_the_time(path: str, found: FakeCluster) -> None:
    reader = Reader(PAGES, Templates(), found, lambda: NOW)
    found_page = reader.find(path)
    fragments = await reader.fragments(found_page, None)
    assert set(found_page.page.live) <= set(fragments)


def test_a_running_instance_shows_what_it_uses(client: TestClient, found: FakeCluster) -> None:
    uses = "0.25 of 1 core on average, 120 of 256 MB memory"
    assert uses in client.get(f"/jobs/{JOB}/instances/1").text
    found.answers[web.GET_USAGE] = Unavailable("no leader of jobmgr is known")
    text = client.get(f"/jobs/{JOB}/instances/1").text
    assert "boom" in text and "Uses now" not in text


def test_a_job_and_an_instance_have_charts_of_what_they_use(client: TestClient, found: FakeCluster) -> None:
    text = client.get(f"/jobs/{JOB}").text
    assert "CPU: Used 1.5, Held 6" in text
    assert "An instance asks for 512 MB, peaked at 100 MB." in text
    assert "CPU: Used 0.25, Asked for 1" in client.get(f"/jobs/{JOB}/instances/1").text
    found.answers[web.GET_JOB_ACCOUNT] = Unavailable("no answer")
    found.shared.forget()
    answer = client.get(f"/jobs/{JOB}")
    assert answer.status_code == 200 and 'id="usage-head"' not in answer.text


def test_a_job_that_waits_for_memory_shows_who_does_not_use_it(
    client: TestClient, found: FakeCluster
) -> None:
    hint = "asks for 4 GB, peaked at 600 MB: its 12 running instances hold up to 41 GB"
    assert hint not in client.get(f"/jobs/{JOB}").text
    waits = explained()
    waits.groups[0].first.check.kind = "memory"
    found.answers[web.EXPLAIN_JOB] = waits
    found.shared.forget()
    text = client.get(f"/jobs/{JOB}").text
    assert hint in text and "<script>alert(1)" not in text


async def test_a_job_says_that_it_asks_for_far_more_cores_than_it_uses(found: FakeCluster) -> None:
    account = usage_pb2.GetJobAccountResponse(course_begin=NOW - 7200)
    account.course.add(until=NOW - 3600, held_cores=1, used_cores=1)
    account.course.add(until=NOW, held_cores=6, used_cores=0.6)
    found.answers[web.GET_JOB_ACCOUNT] = account
    reader = Reader(PAGES, Templates(), found, lambda: NOW)
    fragments = await reader.fragments(reader.find(f"/jobs/{JOB}"), None)
    hint = "An instance asks for 2 cores, used 0.2 in the mean of the last hour. Ask for less"
    assert hint in fragments["usage"]


def test_a_job_that_waits_for_cores_shows_who_does_not_use_them(
    client: TestClient, found: FakeCluster
) -> None:
    used = usage_pb2.JobUsed(
        name="idle", pool_id=POOL, cores_asked=4, cores_mean=0.3, mean_seconds=3600, runs=2
    )
    found.answers[web.LIST_USED] = usage_pb2.ListUsedResponse(jobs=[used])
    waits = explained()
    waits.groups[0].first.check.kind = "cpu"
    found.answers[web.EXPLAIN_JOB] = waits
    hint = "Job idle asks for 4 cores, used 0.3 in the mean of the last hour"
    assert hint in client.get(f"/jobs/{JOB}").text


def test_an_instance_shows_its_runs_and_events(client: TestClient) -> None:
    text = client.get(f"/jobs/{JOB}/instances/1").text
    assert "boom" in text and "FAILED of 1" in text
    assert text.count("<rect") >= 4
    assert f"/jobs/{JOB}/instances/1/logs?run=2" in text


@pytest.mark.parametrize("path", [f"/jobs/{JOB}", f"/jobs/{JOB}/versions", f"/jobs/{JOB}/do/stop"])
def test_unknown_jobs_and_daemons_that_do_not_answer(
    client: TestClient, found: FakeCluster, path: str
) -> None:
    refused = job_pb2.GetResponse()
    refused.error.notFound.message = "job not found"
    found.answers[web.GET_JOB] = refused
    answer = client.get(path)
    assert answer.status_code == 404 and "job not found" in answer.text
    found.answers[web.GET_JOB] = Unavailable("no leader of jobmgr is known")
    answer = client.get(path)
    assert answer.status_code == 503 and "no leader of jobmgr is known" in answer.text


def test_the_list_needs_the_job_manager(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.QUERY_JOBS] = Unavailable("no leader of jobmgr is known")
    assert client.get("/jobs").status_code == 503


@pytest.mark.parametrize(
    "query", ["state=SLEEPING", "sort=colour", "page=0", "page=00000000099999999999", "page=x"]
)
def test_wrong_parameters_of_the_table_are_refused(client: TestClient, query: str) -> None:
    answer = client.get(f"/jobs/{JOB}?{query}")
    assert answer.status_code == 400 and query.partition("=")[0] in answer.text


@pytest.mark.parametrize("query", ["from=0", "to=4", "to=x", "from=99999999999999999999"])
def test_versions_that_there_are_not_are_refused(client: TestClient, query: str) -> None:
    assert client.get(f"/jobs/{JOB}/versions?{query}").status_code == 400


# Actions.


@pytest.mark.parametrize(
    ("action", "called"),
    [
        ("stop", web.STOP_JOB_V1ALPHA),
        ("restart", web.RESTART_JOB_V1ALPHA),
        ("pause", web.PAUSE_JOB_WORKFLOW),
        ("abort", web.ABORT_JOB_WORKFLOW),
    ],
)
def test_an_action_is_shown_and_then_carried_out(
    client: TestClient, found: FakeCluster, action: str, called: RoleRpc[Any, Any]
) -> None:
    method = called.rpc.name
    found.answers[called] = getattr(pb, f"{method}Response")()
    assert client.get(f"/jobs/{JOB}/do/{action}").status_code == 200
    assert not asked(found, method)
    form = {"csrf": token(client), "version": VERSION, "batch_size": "2"}
    answer = client.post(f"/jobs/{JOB}/do/{action}", data=form, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{JOB}")
    (request,) = asked(found, method)
    assert (request.job_id.value, request.version.value) == (JOB, VERSION)
    if action == "restart":
        assert request.restart_spec.batch_size == 2


@pytest.mark.parametrize(
    ("action", "called"),
    [
        ("start", web.START_JOB_V1ALPHA),
        ("stop", web.STOP_JOB_V1ALPHA),
        ("restart", web.RESTART_JOB_V1ALPHA),
        ("pause", web.PAUSE_JOB_WORKFLOW),
        ("resume", web.RESUME_JOB_WORKFLOW),
        ("abort", web.ABORT_JOB_WORKFLOW),
    ],
)
async def test_each_action_calls_its_method(
    found: FakeCluster, action: str, called: RoleRpc[Any, Any]
) -> None:
    found.answers[called] = getattr(pb, f"{called.rpc.name}Response")()
    head = job_head(job_info(), VERSION, {})
    await simple_call(action, head, VERSION, Options(batch_size=2, in_place=True))(found.calls())
    ((asked_of, _, request),) = found.asked
    assert asked_of == called == methods_of(head)[action]
    assert (request.job_id.value, request.version.value) == (JOB, VERSION)


@pytest.mark.parametrize("action", ["start", "stop", "restart"])
async def test_an_action_on_a_batch_job_calls_the_method_that_permission_is_asked_for(
    found: FakeCluster, action: str
) -> None:
    called: Any = (web.START_JOB, web.RESTART_JOB, web.STOP_JOB, web.STOP_JOB_V1ALPHA)
    found.answers |= {each: each.rpc.parse(b"") for each in called}
    head = replace(job_head(job_info(), VERSION, {}), type="batch")
    await simple_call(action, head, VERSION, Options())(found.calls())
    ((asked_of, _, _),) = found.asked
    assert asked_of == methods_of(head)[action]


def test_stopping_says_how_many_and_what_the_pool_gets_back(client: TestClient) -> None:
    text = client.get(f"/jobs/{JOB}/do/stop").text
    assert "3 instances on hosts will be killed" in text
    assert "−6 cores" in text and "84 cores" in text


def test_no_action_without_the_token(client: TestClient, found: FakeCluster) -> None:
    answer = client.post(f"/jobs/{JOB}/do/stop", data={"version": VERSION})
    assert answer.status_code == 403
    assert not asked(found, "StopJob")


def test_a_conflict_shows_the_job_as_it_is_now(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.STOP_JOB_V1ALPHA] = StaleVersion()
    form = {"csrf": token(client), "version": "1-1-1"}
    answer = client.post(f"/jobs/{JOB}/do/stop", data=form)
    assert answer.status_code == 409
    assert "changed by others" in answer.text and VERSION in answer.text


def test_what_cannot_be_done_is_refused_with_the_reason(client: TestClient, found: FakeCluster) -> None:
    page = client.get(f"/jobs/{JOB}").text
    assert f"/jobs/{JOB}/do/stop" in page and "/do/start" not in page and 'aria-disabled="true"' not in page
    assert "nothing is stopped" in client.get(f"/jobs/{JOB}/do/start").text
    answer = client.post(f"/jobs/{JOB}/do/start", data={"csrf": token(client), "version": VERSION})
    assert answer.status_code == 409
    assert not asked(found, "StartJob")
    assert client.get(f"/jobs/{JOB}/do/explode").status_code == 404


def test_the_state_of_a_job_comes_before_what_can_be_done(client: TestClient) -> None:
    page = client.get(f"/jobs/{JOB}").text
    assert page.index('data-live="state"') < page.index('data-live="actions"')


async def test_the_page_of_an_action_is_kept_current(found: FakeCluster) -> None:
    reader = Reader(PAGES, Templates(), found, lambda: NOW)
    page = reader.find(f"/jobs/{JOB}/do/stop")
    before = await reader.fragments(page, None)
    assert "3 instances on hosts will be killed" in before["effect"] and VERSION in before["effect"]
    stopped = job_info(goalState=job_pb2.KILLED, state=job_pb2.KILLED, stats={"KILLED": 5})
    found.answers[web.GET_JOB] = job_pb2.GetResponse(jobInfo=stopped)
    found.shared.forget()
    after = await reader.fragments(page, None)
    assert "it is stopped already" in after["effect"] and "<form" not in after["effect"]


@pytest.mark.parametrize("path", ["versions", "instances/1/files"])
def test_versions_and_files_are_kept_current(found: FakeCluster, path: str) -> None:
    assert Reader(PAGES, Templates(), found).find(f"/jobs/{JOB}/{path}").page.live


def test_instances_in_a_row_that_wait_alike_are_one_line(found: FakeCluster, client: TestClient) -> None:
    waits: dict[str, Any] = {"host": "", "startTime": "", "message": "waits for <b>cores"}
    tasks = {number: task_info(number, "PENDING", **waits) for number in range(29, 50)}
    tasks |= {28: task_info(28), 50: task_info(50, "PENDING", **{**waits, "message": "waits for memory"})}
    found.answers[web.LIST_TASKS] = task_pb2.ListResponse(result=task_pb2.ListResponse.Result(value=tasks))
    page = client.get(f"/jobs/{JOB}").text
    assert page.count("waits for &lt;b&gt;cores") == 1 and page.count("waits for memory") == 1
    text = re.sub(r"<[^>]+>", "", page)
    assert "29–49 21 instances" in text and "28–" not in text and "–50" not in text


def test_an_update_is_edited_shown_and_begun(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.REPLACE_JOB] = pb.ReplaceJobResponse()
    assert "sleep 9" in client.get(f"/jobs/{JOB}/do/update").text
    text = "name: mill\r\ndescription: new\r\ninstance_count: 5\r\n"
    form = {"csrf": token(client), "spec": text, "step": "preview", "batch_size": "2", "rollback": "1"}
    shown = client.post(f"/jobs/{JOB}/do/update", data=form).text
    assert "0-4" in shown and "description: new" in shown
    assert not asked(found, "ReplaceJob")
    answer = client.post(
        f"/jobs/{JOB}/do/update", data={**form, "step": "apply", "version": VERSION}, follow_redirects=False
    )
    assert answer.status_code == 303
    (request,) = asked(found, "ReplaceJob")
    assert request.spec.description == "new"
    assert (request.update_spec.batch_size, request.update_spec.rollback_on_failure) == (2, True)


WARNING = "default_spec.containers[0].image: <b>mill:latest</b> names no version"


@pytest.mark.parametrize(
    "fields", [("update", {"spec": "name: mill\n", "step": "apply"}), ("rollback", {"to": "1"})]
)
def test_the_warnings_about_an_accepted_spec_are_shown(
    client: TestClient, found: FakeCluster, fields: tuple[str, dict[str, str]]
) -> None:
    found.answers[web.REPLACE_JOB] = pb.ReplaceJobResponse(warnings=[WARNING])
    action, form = fields
    form = {**form, "csrf": token(client), "version": VERSION}
    answer = client.post(f"/jobs/{JOB}/do/{action}", data=form, follow_redirects=False)
    assert answer.status_code == 200 and len(asked(found, "ReplaceJob")) == 1
    assert escape(WARNING[1:]) in answer.text and f'href="/jobs/{JOB}"' in answer.text


def test_the_warnings_about_a_larger_batch_job_are_shown() -> None:
    found = cluster(job_info(kind=job_pb2.BATCH))
    found.answers[web.UPDATE_JOB] = job_pb2.UpdateResponse(warnings=[WARNING])
    client = browser(application(found))
    form = {"csrf": token(client), "spec": "instanceCount: 8\n", "step": "apply", "version": VERSION}
    answer = client.post(f"/jobs/{JOB}/do/update", data=form, follow_redirects=False)
    assert answer.status_code == 200 and escape(WARNING[1:]) in answer.text


def test_a_spec_with_a_mistake_comes_back_with_its_line(client: TestClient) -> None:
    form = {"csrf": token(client), "spec": "name: mill\nnmae: x\n", "step": "preview"}
    answer = client.post(f"/jobs/{JOB}/do/update", data=form)
    assert answer.status_code == 400
    assert "spec:2" in answer.text and "nmae: x" in answer.text


@pytest.mark.parametrize("action", ["update", "rollback", "restart"])
def test_a_number_that_is_none_is_named_and_what_was_typed_stays(client: TestClient, action: str) -> None:
    form = {
        "csrf": token(client),
        "version": VERSION,
        "to": "1",
        "spec": "name: edited\n",
        "batch_size": "-2",
    }
    answer = client.post(f"/jobs/{JOB}/do/{action}", data=form)
    assert answer.status_code == 400
    assert "instances at a time: &#39;-2&#39; is not a whole number" in answer.text
    if action != "restart":
        assert 'name="batch_size" value="-2"' in answer.text
    assert (action == "update") == ("name: edited" in answer.text)


def test_going_back_to_an_earlier_version(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.REPLACE_JOB] = pb.ReplaceJobResponse()
    shown = client.get(f"/jobs/{JOB}/do/rollback?to=1").text
    assert "to version 1" in shown and "0-4: labels: tier a → b" in shown
    form = {"csrf": token(client), "version": VERSION, "to": "1"}
    assert client.post(f"/jobs/{JOB}/do/rollback", data=form, follow_redirects=False).status_code == 303
    (request,) = asked(found, "ReplaceJob")
    assert request.spec.description == "of 1" and not request.spec.HasField("revision")


def test_a_batch_job_has_actions_of_its_own() -> None:
    found = cluster(job_info(kind=job_pb2.BATCH))
    found.answers[web.RESTART_JOB] = job_pb2.RestartResponse()
    client = browser(application(found))
    text = client.get(f"/jobs/{JOB}").text
    assert "/do/stop" in text and "/do/pause" not in text
    form = {"csrf": token(client), "version": VERSION}
    assert client.post(f"/jobs/{JOB}/do/restart", data=form, follow_redirects=False).status_code == 303
    assert asked(found, "Restart")[0].resourceVersion == 3


def test_instances_are_added_to_a_batch_job() -> None:
    found = cluster(job_info(kind=job_pb2.BATCH))
    found.answers[web.UPDATE_JOB] = job_pb2.UpdateResponse()
    client = browser(application(found))
    page = client.get(f"/jobs/{JOB}/do/update").text
    assert "instanceCount: 5" in page and "changeLog" not in page
    form = {"csrf": token(client), "spec": "name: mill\ninstanceCount: 8\n", "step": "preview"}
    path = f"/jobs/{JOB}/do/update"
    assert "<dd>5-7</dd>" in client.post(path, data=form).text
    less = client.post(path, data={**form, "spec": "instanceCount: 4\n"})
    assert less.status_code == 400 and "at least 5" in less.text
    stale = client.post(path, data={**form, "step": "apply", "version": "1-1-1"})
    assert stale.status_code == 409 and "changed by others" in stale.text
    assert not asked(found, "Update")
    answer = client.post(path, data={**form, "step": "apply", "version": VERSION}, follow_redirects=False)
    assert answer.status_code == 303
    assert asked(found, "Update")[0].config.instanceCount == 8


# Strings that mean harm.


@pytest.mark.parametrize("path", PATHS)
def test_html_in_names_labels_and_messages_does_nothing(path: str) -> None:
    found = cluster(job_info(EVIL))
    bad = task_info(1, "PENDING", message=EVIL, reason=EVIL)
    bad.config.name = EVIL
    bad.runtime.ports[EVIL] = 80
    found.answers[web.LIST_TASKS] = task_pb2.ListResponse(result=task_pb2.ListResponse.Result(value={1: bad}))
    found.answers[web.QUERY_TASKS] = task_pb2.QueryResponse(records=[bad])
    found.answers[web.GET_TASK] = task_pb2.GetResponse(result=bad, results=[bad])
    found.answers[web.GET_POD_EVENTS] = task_pb2.GetPodEventsResponse(
        result=[task_pb2.PodEvent(taskId=mesos_pb2.TaskID(value="x"), message=EVIL, hostname=EVIL)]
    )
    answer = browser(application(found)).get(path)
    assert answer.status_code == 200, answer.text
    assert "<script>alert" not in answer.text and "<img" not in answer.text


@pytest.mark.parametrize(("jobs", "place"), [(1, f"/jobs/{JOB}"), (2, "/jobs?name=the+mill%2F%3C"), (0, "")])
def test_a_job_has_an_address_by_its_name(
    found: FakeCluster, client: TestClient, jobs: int, place: str
) -> None:
    job = job_pb2.JobSummary(id={"value": JOB}, name="the mill/<")  # type: ignore[arg-type]
    found.answers[web.QUERY_JOBS] = job_pb2.QueryResponse(results=[job] * jobs)
    answer = client.get("/jobs/the mill<", follow_redirects=False)
    if place:
        assert (answer.status_code, answer.headers["location"]) == (307, place.replace("%2F", ""))
    else:
        assert answer.status_code == 404 and "no job has the name" in answer.text
        assert "mill<" not in answer.text
    (sent,) = asked(found, "Query")
    assert sent.spec.reference == "the mill<"
