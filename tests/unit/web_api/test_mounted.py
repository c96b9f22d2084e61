"""The JSON door in the web application."""

from __future__ import annotations

from peloton.api.v0.job import job_pb2
from peloton.web.api.methods import public_methods
from tests.unit.web.fake import FakeCluster, application, browser
from tests.unit.web_api.fakes import FakeCaller
from tests.unit.web_api.test_door import GET


def test_a_call_needs_no_token_and_gets_no_cookie() -> None:
    caller = FakeCaller([job_pb2.GetResponse()])
    client = browser(application(FakeCluster(), caller=caller))
    found = client.post(GET, json={}, auth=("joe", "secret"))
    assert (found.status_code, found.json()) == (200, {})
    assert "set-cookie" not in found.headers
    assert "default-src" in found.headers["content-security-policy"]
    assert caller.calls[0][2] == (("username", "joe"), ("password", "secret"))


def test_another_host_name_is_refused() -> None:
    caller = FakeCaller([job_pb2.GetResponse()])
    client = browser(application(FakeCluster(), caller=caller))
    assert client.post(GET, json={}, headers={"Host": "rebound.example"}).status_code == 421
    assert not caller.calls


def test_the_page_lists_every_method() -> None:
    client = browser(application(FakeCluster()))
    page = client.get("/api", headers={"Accept": "text/html"})
    assert page.status_code == 200
    for service, method in public_methods():
        assert f"<code>/api/{service}/{method}</code>" in page.text.replace("<wbr>", "")
    assert client.get("/api/openapi.json").json()["openapi"] == "3.1.0"
