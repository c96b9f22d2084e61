"""The JSON door, with a caller that answers as it is told to."""

from __future__ import annotations

import asyncio
import base64
import json
from typing import Any

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc import error_details_pb2, status_pb2
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.testclient import TestClient

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.web.api.door import MAX_BODY_BYTES, Door
from peloton.web.api.failures import DETAILS, HTTP_STATUS, CallFailure, failure_of
from peloton.web.api.methods import public_methods
from peloton.web.api.request import read_body
from tests.unit.web_api.fakes import FakeCaller

GET = "/api/peloton.api.v0.job.JobManager/Get"
LIST = "/api/peloton.api.v1alpha.job.stateless.svc.JobService/ListJobs"
ID = "9a1c5d6e-0000-4000-8000-000000000001"


def page(request: Request, services: list[dict[str, Any]]) -> Response:
    return HTMLResponse(f"<p>{len(services)}")


def door(*answers: Any, hangs: bool = False, **limits: int) -> tuple[TestClient, FakeCaller]:
    caller = FakeCaller(list(answers), hangs)
    app = Starlette(routes=Door(caller, page, **limits).routes())
    return TestClient(app, raise_server_exceptions=True), caller


def listed(name: str) -> Any:
    answer = stateless_svc_pb2.ListJobsResponse()
    answer.jobs.add(name=name)
    return answer


def test_a_call_takes_and_gives_json() -> None:
    answer = job_pb2.GetResponse()
    answer.jobInfo.runtime.state = job_pb2.RUNNING
    client, caller = door(answer)
    found = client.post(GET, json={"id": {"value": ID}})
    assert (found.status_code, found.headers["content-type"]) == (200, "application/json")
    assert found.json() == {"jobInfo": {"runtime": {"state": "RUNNING"}}}
    [(method, request, metadata, timeout)] = caller.calls
    assert (method.path, method.role) == ("/peloton.api.v0.job.JobManager/Get", "jobmgr")
    assert request == job_pb2.GetRequest(id=peloton_pb2.JobID(value=ID))
    assert (metadata, timeout) == ((), 20.0)


def test_a_large_message_is_taken_and_given() -> None:
    answer = job_pb2.GetResponse()
    answer.jobInfo.config.description = "x" * 100_000
    client, caller = door(answer)
    found = client.post(GET, json={"id": {"value": "y" * 100_000}})
    assert found.json()["jobInfo"]["config"]["description"] == "x" * 100_000
    assert caller.calls[0][1].id.value == "y" * 100_000


@pytest.mark.parametrize("declared", [MAX_BODY_BYTES + 1, 10**30, 10**20])
async def test_a_body_that_is_said_to_be_too_long_is_not_read(declared: int) -> None:
    async def receive() -> Any:
        raise AssertionError("it is read")

    headers = [(b"content-length", str(declared).encode())]
    scope = {"type": "http", "method": "POST", "path": GET, "headers": headers, "query_string": b""}
    with pytest.raises(CallFailure) as caught:
        await read_body(Request(scope, receive), MAX_BODY_BYTES)
    assert caught.value.http == 413


def test_an_empty_body_is_an_empty_message() -> None:
    client, caller = door(job_pb2.GetActiveJobsResponse())
    path = "/api/peloton.api.v0.job.JobManager/GetActiveJobs"
    assert client.post(path, headers={"Content-Type": "application/json"}).json() == {}
    assert caller.calls[0][1] == job_pb2.GetActiveJobsRequest()


@pytest.mark.parametrize("code", list(grpc.StatusCode))
def test_each_code_has_the_http_status_of_grpc(code: grpc.StatusCode) -> None:
    assert HTTP_STATUS[code] >= 400 or code is grpc.StatusCode.OK
    client, _ = door(CallFailure(code, "why", [{"reason": "x"}]))
    found = client.post(GET, json={})
    assert found.status_code == HTTP_STATUS[code]
    assert found.json() == {"code": code.name, "message": "why", "details": [{"reason": "x"}]}
    assert ("www-authenticate" in found.headers) == (code is grpc.StatusCode.UNAUTHENTICATED)


class Failed(grpc.RpcError):
    def __init__(self, *details: Any) -> None:
        self._details = details

    def code(self) -> grpc.StatusCode:
        return grpc.StatusCode.ABORTED

    def details(self) -> str:
        return "it changed"

    def trailing_metadata(self) -> Any:
        return ((DETAILS, status_pb2.Status(details=self._details).SerializeToString()),)


def test_details_are_told() -> None:
    known = AnyMessage()
    known.Pack(error_details_pb2.ErrorInfo(reason="STALE"))
    unknown = AnyMessage(type_url="type.example/unknown.Kind", value=b"\x01\x02")
    assert failure_of(Failed(known, unknown)).as_dict() == {
        "code": "ABORTED",
        "message": "it changed",
        "details": [
            {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "STALE"},
            {"@type": "type.example/unknown.Kind", "value": "AQI="},
        ],
    }


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b'{"nmae": 1}', 'no field named "nmae"'),
        (b'{"id": {"vlaue": 1}}', 'no field named "vlaue" at "GetRequest.id"'),
        (b'{"id": 7}', "id"),
        (b'{"id": ', "Expecting value"),
        (b"[]", "a JSON list, not an object"),
        (b'{"id": {}, "id": {}}', "'id' is given twice"),
        (b"\xff", "not UTF-8"),
        (b'{"id":' * 100_000, "recursion"),
        (b'{"id": {"value": "\\ud83d"}}', "half of a character"),
        (b'{"\\uDE00": 1}', "half of a character"),
        (b'{"id": Infinity}', "Infinity is no number of JSON"),
        (b'{"id": {"value": NaN}}', "NaN is no number of JSON"),
        (b'{"id": -1e999}', "-1e999 is larger than any number"),
        (b'{"id": 1' + b"0" * 400 + b"}", "10000000000000000000… is larger than any number"),
    ],
)
def test_a_body_that_is_wrong_is_refused(body: bytes, says: str) -> None:
    client, caller = door()
    found = client.post(GET, content=body, headers={"Content-Type": "application/json"})
    assert (found.status_code, found.json()["code"]) == (400, "INVALID_ARGUMENT")
    assert says in found.json()["message"]
    assert "\n" not in found.json()["message"]
    assert not caller.calls


def test_a_required_field_that_is_missing_is_refused() -> None:
    client, caller = door()
    path = "/api/peloton.api.v0.job.JobManager/Create"
    found = client.post(
        path, json={"config": {"defaultConfig": {"command": {"uris": [{"executable": True}]}}}}
    )
    assert found.status_code == 400
    assert "required and not given: config.defaultConfig.command.uris[0].value" in found.json()["message"]
    assert not caller.calls


@pytest.mark.parametrize(
    "given", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""]
)
def test_other_types_than_json_are_refused(given: str) -> None:
    client, caller = door()
    found = client.post(GET, content=b"{}", headers={"Content-Type": given})
    assert (found.status_code, found.json()["code"]) == (415, "INVALID_ARGUMENT")
    assert not caller.calls


@pytest.mark.parametrize("origin", ["https://elsewhere.example", "null", "http://testserver:81"])
def test_pages_of_other_sites_are_refused(origin: str) -> None:
    client, caller = door()
    found = client.post(GET, json={}, headers={"Origin": origin})
    assert (found.status_code, found.json()["code"]) == (403, "PERMISSION_DENIED")
    asked = client.options(GET, headers={"Origin": origin, "Access-Control-Request-Method": "POST"})
    assert not any(name.startswith("access-control") for name in asked.headers)
    assert not caller.calls


def test_a_page_of_the_same_site_may_call() -> None:
    client, _ = door(job_pb2.GetResponse())
    assert client.post(GET, json={}, headers={"Origin": "http://testserver"}).status_code == 200


def test_a_body_that_is_too_large_is_refused() -> None:
    client, caller = door(max_body_bytes=100)
    found = client.post(GET, json={"id": {"value": "x" * 100}})
    assert (found.status_code, found.json()["code"]) == (413, "RESOURCE_EXHAUSTED")
    assert not caller.calls


def test_calls_and_streams_are_bounded() -> None:
    client, _ = door(max_calls=0, max_streams=0)
    for path in (GET, LIST):
        found = client.post(path, json={})
        assert (found.status_code, found.json()["code"]) == (429, "RESOURCE_EXHAUSTED")


def test_places_are_given_back() -> None:
    client, caller = door(job_pb2.GetResponse(), max_calls=1)
    assert [client.post(GET, json={}).status_code for _ in range(3)] == [200] * 3
    client, caller = door(CallFailure(grpc.StatusCode.NOT_FOUND, "no"), max_calls=1, max_streams=1)
    assert [client.post(path, json={}).status_code for path in (GET, LIST) * 3] == [404] * 6
    assert caller.cancelled == 6


@pytest.mark.parametrize(
    ("given", "seconds"), [("30S", 30.0), ("500m", 0.5), ("2M", 120.0), ("90000000u", 90.0)]
)
def test_the_deadline_is_passed_on(given: str, seconds: float) -> None:
    client, caller = door(job_pb2.GetResponse())
    assert client.post(GET, json={}, headers={"Grpc-Timeout": given}).status_code == 200
    assert caller.calls[0][3] == pytest.approx(seconds)


@pytest.mark.parametrize("given", ["30", "S", "-1S", "0S", "1H", "1.5S", "123456789n", "30 S", "٣S"])
def test_a_deadline_that_is_wrong_is_refused(given: str) -> None:
    client, caller = door()
    found = client.post(
        GET, json={}, headers=[(b"grpc-timeout", given.encode()), (b"content-type", b"application/json")]
    )
    assert found.status_code == 400, found.text
    assert found.json()["message"].startswith("Grpc-Timeout: ")
    assert not caller.calls


def test_the_user_is_passed_on() -> None:
    client, caller = door(job_pb2.GetResponse())
    assert client.post(GET, json={}, auth=("joe", "se:cret")).status_code == 200
    assert client.post(GET, json={}, headers={"Authorization": "bearer a.b.c"}).status_code == 200
    assert [call[2] for call in caller.calls] == [
        (("username", "joe"), ("password", "se:cret")),
        (("authorization", "Bearer a.b.c"),),
    ]


def basic(text: bytes) -> str:
    return "Basic " + base64.b64encode(text).decode()


@pytest.mark.parametrize(
    "given",
    ["", "Digest x", "Bearer", "Bearer a b", "Basic !", basic(b"joe"), basic(b"j\xc3\xb6:x"), basic(b"a:\n")],
)
def test_an_authorization_that_is_wrong_is_refused(given: str) -> None:
    client, caller = door()
    found = client.post(GET, json={}, headers={"Authorization": given})
    assert (found.status_code, found.json()["code"]) == (401, "UNAUTHENTICATED")
    assert not caller.calls


@pytest.mark.parametrize("given", ["", "nonsense", f"00-{'0' * 31}-{'0' * 16}-01", "00-\u00e9"])
def test_a_trace_that_is_none_is_ignored(given: str) -> None:
    client, caller = door(job_pb2.GetResponse())
    assert client.post(GET, json={}, headers={b"traceparent": given.encode()}).status_code == 200
    assert caller.calls[0][2] == ()


def test_the_trace_of_the_caller_is_passed_on() -> None:
    client, caller = door(job_pb2.GetResponse())
    span = f"00-{'1' * 32}-{'2' * 16}-01"
    client.post(GET, json={}, headers={"traceparent": span})
    assert caller.calls[0][2] == (("traceparent", span),)


def test_cookies_are_not_used() -> None:
    client, caller = door(job_pb2.GetResponse())
    client.cookies.update({"session": "x", "username": "joe"})
    found = client.post(GET, json={})
    assert caller.calls[0][2] == ()
    assert "set-cookie" not in found.headers


def test_a_header_names_the_mesos_cluster_of_host_methods() -> None:
    client, caller = door(job_pb2.GetResponse())
    hosts = "/api/peloton.api.v1alpha.host.svc.HostService/QueryHosts"
    for path in (hosts, GET):
        assert client.post(path, json={}, headers={"Peloton-Mesos-Cluster": "east"}).status_code == 200
    assert [call[0].role for call in caller.calls] == ["hostmgr/east", "jobmgr"]
    assert client.post(hosts, json={}, headers={"Peloton-Mesos-Cluster": "../x"}).status_code == 400


def test_an_unknown_method_is_told() -> None:
    client, _ = door()
    for path in ("/api/peloton.api.v0.job.JobManager/Gett", "/api/peloton.private.plan.PlanService/PlanJob"):
        found = client.post(path, json={})
        assert (found.status_code, found.json()["code"]) == (404, "UNIMPLEMENTED")
        assert path.removeprefix("/api") in found.json()["message"]
    assert client.get(GET).status_code == 405


def test_a_stream_is_a_line_for_each_message() -> None:
    client, caller = door(listed("a"), listed("b\n2028"))
    found = client.post(LIST, json={})
    assert (found.status_code, found.headers["content-type"]) == (200, "application/x-ndjson")
    lines = found.text.removesuffix("\n").split("\n")
    assert [json.loads(line) for line in lines] == [
        {"result": {"jobs": [{"name": "a"}]}},
        {"result": {"jobs": [{"name": "b\n2028"}]}},
    ]
    assert caller.calls[0][3] is None
    assert caller.cancelled == 1


def test_a_stream_that_fails_says_so_on_its_last_line() -> None:
    client, _ = door(listed("a"), CallFailure(grpc.StatusCode.ABORTED, "too far behind"))
    found = client.post(LIST, json={})
    last = {"error": {"code": "ABORTED", "message": "too far behind", "details": []}}
    assert [json.loads(line) for line in found.text.splitlines()][1:] == [last]


def test_a_stream_that_fails_at_once_has_the_http_status() -> None:
    client, caller = door(CallFailure(grpc.StatusCode.RESOURCE_EXHAUSTED, "1000 watches"))
    assert client.post(LIST, json={}).status_code == 429
    assert caller.cancelled == 1


def test_an_empty_stream_has_no_lines() -> None:
    client, _ = door()
    found = client.post(LIST, json={})
    assert (found.status_code, found.text) == (200, "")


@pytest.mark.parametrize("path", [GET, LIST])
async def test_a_client_that_goes_cancels_its_call(path: str) -> None:
    caller = FakeCaller([listed("a")] if path == LIST else [], hangs=True)
    app = Starlette(routes=Door(caller, page, max_calls=1, max_streams=1).routes())
    inbox: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
    inbox.put_nowait({"type": "http.request", "body": b"{}", "more_body": False})
    begun = caller.begun
    scope = {
        "type": "http",
        "method": "POST",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(b"content-type", b"application/json")],
        "asgi": {"spec_version": "2.4"},
    }

    async def send(message: Any) -> None:
        assert message["type"].startswith("http.response")

    running = asyncio.create_task(app(scope, inbox.get, send))
    async with asyncio.timeout(60):
        await begun.wait()
        inbox.put_nowait({"type": "http.disconnect"})
        await running
    assert caller.cancelled == 1


def test_the_list_has_every_method_as_json_and_as_a_page() -> None:
    client, _ = door()
    found = client.get("/api").json()
    names = {
        (service["name"], method["name"]) for service in found["services"] for method in service["methods"]
    }
    assert names == set(public_methods())
    html = client.get("/api", headers={"Accept": "text/html,application/xhtml+xml,*/*;q=0.8"})
    assert html.headers["content-type"].startswith("text/html")
    assert html.text == f"<p>{len(found['services'])}"
    assert client.get("/api", headers={"Accept": "*/*"}).headers["content-type"] == "application/json"
    assert client.get("/api", headers={"Accept": "application/json, text/html;q=0.5"}).json() == found
