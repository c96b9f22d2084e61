"""What a user may not do is shown disabled, with the reason, on every page that offers it."""

from __future__ import annotations

import re
from collections.abc import Mapping

import pytest
from starlette.testclient import TestClient

from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.calls import web
from peloton.identity.methods import for_daemons_only
from peloton.private.access import access_pb2
from tests.unit.web import jobs_cluster
from tests.unit.web.fake import FakeCluster, application, browser
from tests.unit.web.test_host_pages import hosts_cluster

WHY = "user viewer may not call it: the role viewer does not accept it"
TITLE = f'title="{WHY}"'


def verdicts(request: access_pb2.CheckMethodsRequest) -> access_pb2.CheckMethodsResponse:
    return access_pb2.CheckMethodsResponse(
        verdicts=[access_pb2.MethodVerdict(allowed=False, reason=WHY) for _ in request.methods]
    )


def denying(cluster: FakeCluster) -> TestClient:
    cluster.answers[web.CHECK_METHODS["jobmgr"]] = verdicts
    cluster.answers[web.CHECK_METHODS["hostmgr"]] = verdicts
    return browser(application(cluster))


def disabled(html: str) -> set[str]:
    """Return what is shown disabled with the reason."""
    links = re.findall(rf'<span class="button off" aria-disabled="true" {re.escape(TITLE)}>([^<]*)<', html)
    buttons = re.findall(rf"<button[^>]* disabled {re.escape(TITLE)}>([^<]*)</button>", html)
    return {*links, *buttons}


HOST_PLACES: Mapping[str, set[str]] = {
    "/hosts": {"Start maintenance of those chosen…", "Complete maintenance of those chosen…"},
    "/hosts/a": {"Start maintenance…", "Change…"},
    "/hosts/down": {"Complete maintenance…", "Change…"},
    "/hostpools": {"Move…", "Create"},
    "/maintenance/start?host=a": {"Start maintenance nevertheless"},
    "/maintenance/complete?host=down": {"Complete maintenance"},
    "/hostpools/change?host=a&destination=default": {"Change"},
    "/hostpools/delete?name=shared": {"Delete"},
    "/hostpools/move?source=shared&destination=default&count=1": {"Move"},
}
JOB = f"/jobs/{jobs_cluster.JOB}"
JOB_PLACES: Mapping[str, set[str]] = {
    JOB: {"Start", "Stop", "Restart", "Update…", "Roll back…", "Pause", "Resume", "Abort"},
    f"{JOB}/instances/1": {"Logs", "Files"},
}


@pytest.mark.parametrize(("path", "what"), HOST_PLACES.items(), ids=HOST_PLACES)
def test_what_changes_hosts_is_disabled_with_the_reason(path: str, what: set[str]) -> None:
    shown = denying(hosts_cluster()).get(path)
    assert (shown.status_code, disabled(shown.text)) == (200, what)
    assert f"{WHY[0].upper()}{WHY[1:]}." in shown.text or f": {WHY}" in shown.text
    allowed = browser(application(hosts_cluster())).get(path)
    assert disabled(allowed.text) == set() and "ot allowed" not in allowed.text


def test_pools_are_not_offered_to_be_deleted() -> None:
    assert "/hostpools/delete" not in denying(hosts_cluster()).get("/hostpools").text


@pytest.mark.parametrize(("path", "what"), JOB_PLACES.items(), ids=["job", "instance"])
def test_what_is_done_with_jobs_is_disabled_with_the_reason(path: str, what: set[str]) -> None:
    shown = denying(jobs_cluster.cluster()).get(path)
    assert (shown.status_code, disabled(shown.text)) == (200, what)
    assert WHY[1:] in shown.text.replace(TITLE, "")


@pytest.mark.parametrize("action", ["start", "stop", "restart", "update", "rollback", "pause", "abort"])
def test_an_action_that_is_not_allowed_is_not_confirmed(action: str) -> None:
    shown = denying(jobs_cluster.cluster()).get(f"{JOB}/do/{action}")
    assert shown.status_code == 200
    assert f"is not allowed: {WHY}" in shown.text
    assert 'method="post"' not in shown.text


def test_a_daemon_that_cannot_be_asked_hides_nothing() -> None:
    assert disabled(browser(application(hosts_cluster())).get("/hosts/a").text) == set()


@pytest.mark.parametrize("action", ["pause", "resume", "abort"])
def test_a_job_without_an_update_has_none_to_pause(action: str) -> None:
    cluster = jobs_cluster.cluster()
    cluster.answers[web.LIST_JOB_WORKFLOWS] = pb.ListJobWorkflowsResponse()
    shown = browser(application(cluster)).get(f"{JOB}/do/{action}")
    assert shown.status_code == 200
    assert "is not possible now: no update or restart is under way" in shown.text


def test_a_job_with_one_version_cannot_be_rolled_back() -> None:
    job = jobs_cluster.job_info()
    job.config.changeLog.version = 1
    cluster = jobs_cluster.cluster(job)
    cluster.answers[web.GET_JOB_V1ALPHA] = lambda request: (
        jobs_cluster.summary("1-1-1") if request.summary_only else jobs_cluster.get_job(request)
    )
    shown = browser(application(cluster)).get(f"{JOB}/do/rollback")
    assert "Roll back is not possible now: there is no earlier version" in shown.text
    assert 'method="post"' not in shown.text


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        (f"{JOB}/do/stop", "Jobs"),
        (f"{JOB}/do/update", "Jobs"),
        ("/jobs/nonsense/x", "Jobs"),
        ("/maintenance/start?host=a", "Hosts"),
        ("/hostpools/delete?name=shared", "Host pools"),
        ("/hosts/unknown", "Hosts"),
        ("/nowhere", ""),
    ],
)
def test_the_navigation_tells_where_one_is(path: str, entry: str) -> None:
    cluster = hosts_cluster() if "/jobs" not in path else jobs_cluster.cluster()
    shown = browser(application(cluster)).get(path).text
    assert re.findall(r'aria-current="page">([^<]*)<', shown) == ([entry] if entry else [])


def test_every_method_that_pages_call_is_open_to_users() -> None:
    called = [each for each in vars(web).values() if isinstance(each, web.RoleRpc)]
    assert len(called) > 60
    closed = [each.method for each in called if for_daemons_only(*each.method.split("/"))]
    assert closed == [], "name them in peloton.identity.methods.FOR_USERS"
