"""Logging in: sessions, the cookie, where it leads, and what a user may not do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from urllib.parse import quote

import pytest
from starlette.testclient import TestClient

from peloton.api.v0.job import job_pb2
from peloton.calls import web
from peloton.calls.web import RoleRpc
from peloton.client.auth import Auth, BasicAuth
from peloton.errors import PermissionDenied, Unauthenticated
from peloton.private.access import access_pb2
from peloton.web.app import LOGGED_OUT
from peloton.web.cluster import A, Calls, Q
from peloton.web.pages import Page, Subject
from peloton.web.sessions import Sessions
from peloton.web.views.login import own_page
from tests.unit.web import jobs_cluster
from tests.unit.web.fake import ORIGIN, Answer, FakeCalls, FakeCluster, application, browser, token

NAME, PASSWORD = "ann", "pw-of-ann"
PATH = "/jobs?name=x"


class Asking(FakeCluster):
    """A cluster that asks callers who they are."""

    def __init__(self, answers: Mapping[RoleRpc[Any, Any], Answer] | None = None) -> None:
        super().__init__(answers)
        self.users: list[str] = []

    def calls(self, auth: Auth | None = None) -> Calls:
        self.users.append(auth.username if auth is not None else "")
        if auth != BasicAuth(NAME, PASSWORD):
            return Refusing(self, auth)
        return FakeCalls(self, auth)


class Refusing(FakeCalls):
    async def call_unchecked(self, called: RoleRpc[Q, A], request: Q, timeout: float | None = None) -> A:
        raise Unauthenticated("username or password is wrong")


CALLER = {web.GET_CALLER: access_pb2.GetCallerResponse(name=NAME, kind="user")}


def page() -> Page:
    async def load(subject: Subject) -> Mapping[str, Any]:
        await subject.calls.call(web.QUERY_JOBS, job_pb2.QueryRequest())
        return {"status": 200, "heading": "Jobs of", "text": subject.calls.user}

    return Page("/jobs", "error.html", load)


@pytest.fixture
def client() -> TestClient:
    cluster = Asking({**CALLER, web.QUERY_JOBS: job_pb2.QueryResponse()})
    return browser(application(cluster, [page()]))


def log_in(client: TestClient, password: str = PASSWORD, after: str = PATH) -> Any:
    form = {"csrf": token(client, "/login"), "username": NAME, "password": password, "next": after}
    return client.post("/login", data=form, follow_redirects=False)


def test_who_is_not_logged_in_is_led_to_the_login_and_back(client: TestClient) -> None:
    led = client.get(PATH, follow_redirects=False)
    assert (led.status_code, led.headers["location"]) == (303, "/login?next=%2Fjobs%3Fname%3Dx")
    shown = client.get(led.headers["location"])
    assert 'value="/jobs?name=x"' in shown.text and shown.headers["cache-control"] == "no-store"
    done = log_in(client)
    assert (done.status_code, done.headers["location"]) == (303, PATH)
    assert "Jobs of" in client.get(PATH).text
    assert f"Logged in as {NAME}" in client.get(PATH).text


def test_the_cookie_is_for_this_site_only_and_tells_nothing(client: TestClient) -> None:
    cookie = log_in(client).headers["set-cookie"]
    assert cookie.startswith("peloton_session=")
    for part in ("HttpOnly", "SameSite=lax", "Path=/", "Max-Age=43200"):
        assert part in cookie
    assert NAME not in cookie and PASSWORD not in cookie


def test_the_cookie_goes_over_tls_only_where_there_is_tls() -> None:
    client = TestClient(application(Asking(CALLER)), base_url="https://localhost")
    assert "Secure" in log_in(client).headers["set-cookie"]


def test_a_wrong_password_is_refused(client: TestClient) -> None:
    refused = log_in(client, "no")
    assert refused.status_code == 401
    assert "username or password is wrong" in refused.text and "set-cookie" not in refused.headers
    assert f'value="{NAME}"' in refused.text and 'value="no"' not in refused.text


@pytest.mark.parametrize("change", [lambda v: v[:-1] + ("0" if v[-1] != "0" else "1"), lambda v: "x" + v])
def test_a_cookie_that_was_changed_is_nobodys(client: TestClient, change: Any) -> None:
    log_in(client)
    held = client.cookies["peloton_session"]
    client.cookies.delete("peloton_session")
    client.cookies.set("peloton_session", change(held))
    assert client.get(PATH, follow_redirects=False).status_code == 303


def test_logging_out_ends_the_session(client: TestClient) -> None:
    log_in(client)
    held = client.cookies["peloton_session"]
    assert client.post("/logout", follow_redirects=False).status_code == 403  # no token: not our form
    client.post("/logout", data={"csrf": token(client, "/login")}, follow_redirects=False)
    client.cookies.set("peloton_session", held)
    assert client.get(PATH, follow_redirects=False).status_code == 303


def test_a_login_needs_a_form_of_ours(client: TestClient) -> None:
    form = {"username": NAME, "password": PASSWORD, "next": "/"}
    assert client.post("/login", data=form, follow_redirects=False).status_code == 403


@pytest.mark.parametrize(
    "url", ["//evil.example", "https://evil.example", "/\\evil.example", "/a\nb", "x", ""]
)
def test_no_login_leads_to_another_site(client: TestClient, url: str) -> None:
    assert own_page(url) == "/"
    assert log_in(client, after=url).headers["location"] == "/"


def test_a_session_ends() -> None:
    now = [0.0]
    sessions = Sessions(10, lambda: now[0])
    held = sessions.open(BasicAuth(NAME, PASSWORD))
    now[0] = 9.0
    assert sessions.find(held) == BasicAuth(NAME, PASSWORD)
    now[0] = 10.0
    assert sessions.find(held) is None


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{ORIGIN}/jobs/a?x=1", "/jobs/a?x=1"),
        ("http://elsewhere.example/jobs", "/"),
        ("", "/"),
    ],
)
def test_who_sends_a_form_without_a_login_is_led_to_it_and_back_to_the_form(
    client: TestClient, before: str, after: str
) -> None:
    form = {"csrf": token(client, "/login"), "name": "x"}
    answer = client.post("/hostpools/create", data=form, headers={"referer": before})
    assert answer.status_code == 401
    assert f'href="/login?next={quote(after, safe="")}"' in answer.text
    assert LOGGED_OUT in answer.text and "metadata" not in answer.text


def test_where_nobody_is_asked_no_login_is_needed() -> None:
    cluster = Asking({web.GET_CALLER: access_pb2.GetCallerResponse(kind="nobody")})
    answer = log_in(browser(application(cluster)))
    assert answer.status_code == 400 and "this cluster asks nobody who they are" in answer.text


def test_what_is_denied_is_said() -> None:
    async def load(subject: Subject) -> Mapping[str, Any]:
        raise PermissionDenied("user ann may not call this")

    answer = browser(application(FakeCluster(), [Page("/x", "error.html", load)])).get("/x")
    assert answer.status_code == 403
    assert "You may not do this" in answer.text and "user ann may not call this" in answer.text


def test_what_a_user_may_not_do_is_shown_with_the_reason() -> None:
    def verdicts(request: access_pb2.CheckMethodsRequest) -> access_pb2.CheckMethodsResponse:
        return access_pb2.CheckMethodsResponse(
            verdicts=[
                access_pb2.MethodVerdict(
                    allowed="Stop" not in path, reason="the role viewer does not accept it"
                )
                for path in request.methods
            ]
        )

    answers = jobs_cluster.cluster().answers
    cluster = Asking({**answers, **CALLER, web.CHECK_METHODS["jobmgr"]: verdicts})
    client = browser(application(cluster))
    log_in(client)
    shown = client.get(f"/jobs/{jobs_cluster.JOB}").text
    assert 'title="the role viewer does not accept it">Stop' in shown
    assert 'title="the role viewer does not accept it">Restart' not in shown
