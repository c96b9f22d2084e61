"""The application's answers: pages, errors, and what protects them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from peloton.calls import web
from peloton.errors import InvalidArgument, NotFound, PelotonError, Refused, Unavailable
from peloton.membership.interface import Role
from peloton.private.access import access_pb2
from peloton.web.config import WebSettings
from peloton.web.pages import Page, Subject
from peloton.web.requests import field
from peloton.web.security import CSP, LONGEST_BODY_BYTES
from tests.unit.web.fake import ORIGIN, FakeCluster, application, browser, token

HOSTILE = "<script>alert(1)</script>"


async def _posted(request: Request) -> Response:
    return PlainTextResponse(field(request, "name"))


POSTS = (Route("/post", _posted, methods=["POST"]),)


def page_that_fails(error: Exception) -> Page:
    async def load(subject: Subject) -> Mapping[str, Any]:
        raise error

    return Page("/fails", "overview.html", load, live=("problems",))


def test_the_overview_says_which_daemons_do_not_answer() -> None:
    cluster = FakeCluster()
    cluster.fake.add(Role.JOBMGR, f"jobmgr-{HOSTILE}", 1, leads=True)
    answer = browser(application(cluster)).get("/")
    assert answer.status_code == 200
    assert "No resmgr leads" in answer.text
    assert "does not answer /health" in answer.text
    assert HOSTILE not in answer.text and "&lt;script&gt;" in answer.text


@pytest.mark.parametrize(
    ("host", "allowed", "status"),
    [
        ("10.0.0.7", True, 403),
        ("127.0.0.1", False, 403),
        ("127.0.0.1", True, 400),  # it is told what levels there are
    ],
)
def test_the_log_level_is_changed_on_the_same_machine_by_administrators(
    host: str, allowed: bool, status: int
) -> None:
    verdict = access_pb2.MethodVerdict(allowed=allowed)
    verdicts = access_pb2.CheckMethodsResponse(verdicts=[verdict])
    cluster = FakeCluster({web.CHECK_METHODS["jobmgr"]: verdicts})
    client = TestClient(application(cluster), base_url=ORIGIN, client=(host, 1234))
    assert client.get("/logging-level?level=loud").status_code == 405
    assert client.post("/logging-level?level=loud").status_code == status
    assert client.post("/logging-level?level=loud", headers={"Origin": "http://x"}).status_code == 403


@pytest.mark.parametrize(
    ("origin", "told"),
    [
        ("https://peloton.example", "max-age=31536000"),
        ("http://peloton.example", None),
        ("https://localhost:5297", None),  # it would count for what others serve there
        ("https://127.0.0.1:5297", None),
    ],
)
def test_browsers_are_told_to_use_https_alone(origin: str, told: str | None) -> None:
    settings = WebSettings(host_names=["peloton.example", "localhost", "127.0.0.1"])
    client = TestClient(application(FakeCluster(), settings=settings), base_url=origin)
    for path in ("/", "/health", "/static/peloton.css"):
        assert client.get(path).headers.get("strict-transport-security") == told


def test_every_answer_has_the_headers() -> None:
    client = browser(application(FakeCluster()))
    for path in ("/", "/nothing", "/static/peloton.css", "/health"):
        headers = client.get(path).headers
        assert headers["content-security-policy"] == CSP
        assert headers["x-frame-options"] == "DENY"
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
    assert "unsafe" not in CSP


@pytest.mark.parametrize(
    ("error", "status", "heading"),
    [
        (NotFound("job 7 <is> not there"), 404, "There is no such thing"),
        (Unavailable("no leader of resmgr is known"), 503, "A part of the cluster does not answer"),
        (Refused("the pool is busy"), 409, "This was refused"),
        (InvalidArgument("page", "x", "a number"), 400, "This is not right"),
        (PelotonError("odd"), 502, "A daemon failed"),
    ],
)
def test_an_error_page_says_what_was_wrong(error: PelotonError, status: int, heading: str) -> None:
    answer = browser(application(FakeCluster(), [page_that_fails(error)])).get("/fails")
    assert answer.status_code == status
    assert heading in answer.text
    assert str(error).split("<")[0].split("'")[0] in answer.text
    assert "<is>" not in answer.text


def test_a_defect_is_logged_and_answered_with_a_page(caplog: pytest.LogCaptureFixture) -> None:
    answer = browser(application(FakeCluster(), [page_that_fails(KeyError("secret"))])).get("/fails")
    assert answer.status_code == 500
    assert answer.headers["content-security-policy"] == CSP
    assert "secret" not in answer.text and "secret" in caplog.text


def test_a_post_needs_the_token() -> None:
    client = browser(application(FakeCluster(), routes=POSTS))
    assert client.post("/post", data={"name": "a"}).status_code == 403
    held = token(client)
    assert client.post("/post", data={"name": "a"}).status_code == 403
    assert client.post("/post", data={"name": "a", "csrf": "wrong"}).status_code == 403
    given = client.post("/post", data={"name": "ä b", "csrf": held})
    assert (given.status_code, given.text) == (200, "ä b")


def test_a_refused_form_is_answered_with_a_page_that_leads_on() -> None:
    client = browser(application(FakeCluster()))
    refused = client.post("/login", data={"name": "a"})
    assert refused.status_code == 403 and '<a href="/jobs">Jobs</a>' in refused.text
    elsewhere = client.get("/jobs", headers={"host": "evil.example"})
    assert elsewhere.status_code == 421 and "/jobs" not in elsewhere.text


def test_a_post_of_another_site_is_refused_even_with_the_token() -> None:
    client = browser(application(FakeCluster(), routes=POSTS))
    data = {"name": "a", "csrf": token(client)}
    assert client.post("/post", data=data, headers={"origin": "http://evil"}).status_code == 403
    assert client.post("/post", data=data, headers={"origin": "null"}).status_code == 403
    assert client.post("/post", data=data, headers={"origin": ORIGIN}).status_code == 200


def test_a_form_without_a_field_or_too_long_is_refused_with_the_reason() -> None:
    client = browser(application(FakeCluster(), routes=POSTS))
    held = token(client)
    lacking = client.post("/post", data={"csrf": held})
    assert lacking.status_code == 400 and "the form" in lacking.text
    long = client.post("/post", data={"csrf": held, "name": "x" * LONGEST_BODY_BYTES})
    assert long.status_code == 413 and "1 MiB" in long.text


def test_the_cookie_of_the_token_is_kept_from_scripts_and_other_sites() -> None:
    answer = browser(application(FakeCluster())).get("/")
    set_cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in set_cookie and "SameSite=Strict" in set_cookie
    assert f'content="{answer.cookies["peloton_csrf"]}"' in answer.text


def test_on_loopback_only_loopback_names_are_answered() -> None:
    app = application(FakeCluster())
    client = browser(app)
    assert client.get("/", headers={"host": "rebound.example:5297"}).status_code == 421
    for name in ("127.0.0.1:5297", "[::1]:5297", "LOCALHOST"):
        assert client.get("/", headers={"host": name}).status_code == 200
    named = browser(application(FakeCluster(), settings=WebSettings(host_names=("Peloton.Example",))))
    assert named.get("/", headers={"host": "peloton.example"}).status_code == 200
    assert named.get("/").status_code == 421
    anywhere = browser(application(FakeCluster(), settings=WebSettings(host="0.0.0.0")))
    assert anywhere.get("/", headers={"host": "any.example"}).status_code == 200


def test_health_says_what_is_wrong_with_the_membership() -> None:
    cluster = FakeCluster()
    client = browser(application(cluster))
    assert client.get("/health").text == "OK"
    cluster.fake.wrong = "ZooKeeper does not answer"
    answer = client.get("/health")
    assert (answer.status_code, answer.text) == (503, "ZooKeeper does not answer")


def test_static_files_may_be_kept_since_their_addresses_change() -> None:
    client = browser(application(FakeCluster()))
    page = client.get("/").text
    start = page.index("/static/peloton.css?v=")
    answer = client.get(page[start : page.index('"', start)])
    assert answer.status_code == 200 and "immutable" in answer.headers["cache-control"]
    assert client.get("/static/../config.py").status_code == 404


def test_no_page_has_inline_scripts_styles_or_handlers() -> None:
    text = browser(application(FakeCluster())).get("/").text
    assert "<style" not in text and " style=" not in text and " onclick=" not in text
    assert "<script>" not in text
