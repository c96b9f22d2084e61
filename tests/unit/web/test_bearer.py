"""A proxy that logs users in at an identity provider, and sends their tokens: pages are theirs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import httpx2
import pytest

from peloton import __version__
from peloton.calls import web
from peloton.errors import Unauthenticated
from peloton.identity.door import Door
from peloton.membership.interface import Address, Role
from peloton.private.access import access_pb2
from peloton.rpc.access import access
from peloton.rpc.gate import Gate
from peloton.rpc.server import RpcServer
from peloton.web.api.caller import LeaderCaller
from peloton.web.app import make_app
from peloton.web.cluster import Cluster, MembershipDiscovery
from peloton.web.config import WebSettings
from peloton.web.live import Hub
from peloton.web.pages import Page, Reader, Subject
from peloton.web.requests import Parts
from peloton.web.sessions import ByProxy
from peloton.web.templating import Templates
from peloton.web.views import ROUTES
from peloton.web.views.login import BEARER
from tests.unit.identity.test_every_rpc import oidc, token
from tests.unit.web.fake import ORIGIN, FakeCluster, FakeMembership


async def show_caller(subject: Subject) -> Mapping[str, Any]:
    caller = await subject.calls.call(web.GET_CALLER, access_pb2.GetCallerRequest())
    return {"status": 200, "heading": "This is", "text": f"{caller.kind} {caller.name}"}


PAGE = Page("/jobs", "error.html", show_caller)


@pytest.fixture
async def browser(tmp_path: Path) -> AsyncIterator[httpx2.AsyncClient]:
    """Calls the web UI of a cluster with OIDC."""
    door = Door(oidc(tmp_path))
    server = RpcServer(lambda: "nobody leads", [Gate(door, None)])
    server.activate([access(door)])
    port = await server.start("127.0.0.1", 0)
    membership = FakeMembership()
    membership.leaders[Role.JOBMGR] = Address("host", "127.0.0.1", 1, port, __version__)
    cluster, settings, templates = Cluster(membership, 10.0, 0.8), WebSettings(), Templates("")
    caller = LeaderCaller(MembershipDiscovery(membership))
    hub = Hub(Reader([PAGE], templates, cluster), 1.0, 10)
    app = make_app(Parts(settings, cluster, templates, hub, caller), [PAGE], ROUTES)
    async with httpx2.AsyncClient(transport=httpx2.ASGITransport(app), base_url=ORIGIN) as client:
        yield client
    await caller.close()
    await cluster.close()
    await server.stop()


def by(**claims: Any) -> dict[str, str]:
    ((_, value),) = token(**claims)
    return {"authorization": value}


async def test_a_page_is_shown_to_the_user_of_the_token(browser: httpx2.AsyncClient) -> None:
    for name in ("ann", "zoe"):
        shown = await browser.get("/jobs", headers=by(sub=name))
        assert shown.status_code == 200
        assert f"user {name}" in shown.text and f"Logged in as {name}" in shown.text


@pytest.mark.parametrize(
    ("claims", "why"),
    [({"exp": int(time.time()) - 3600}, "Signature has expired"), ({"aud": "another"}, "Audience")],
)
async def test_a_token_that_is_not_valid_is_refused_without_a_login(
    browser: httpx2.AsyncClient, claims: dict[str, Any], why: str
) -> None:
    refused = await browser.get("/jobs", headers=by(**claims))
    assert refused.status_code == 401
    assert why in refused.text and "log in again, at the proxy" in refused.text
    assert "Logged in as" not in refused.text


async def test_who_comes_without_a_token_is_told_of_the_proxy(browser: httpx2.AsyncClient) -> None:
    for headers in ({}, {"authorization": "Basic YW5uOmFubjE="}, {"authorization": "Bearer "}):
        led = await browser.get("/jobs", headers=headers)
        assert (led.status_code, led.headers["location"]) == (303, "/login?next=%2Fjobs")
    assert BEARER in (await browser.get("/login?next=%2Fjobs")).text
    form = {"csrf": browser.cookies["peloton_csrf"], "username": "ann", "password": "ann1", "next": "/jobs"}
    refused = await browser.post("/login", data=form)
    assert refused.status_code == 401 and BEARER in refused.text


async def test_a_token_does_not_stand_in_for_that_of_a_form(browser: httpx2.AsyncClient) -> None:
    """A proxy adds the token to what other sites make a browser send, too."""
    forged = await browser.post("/logout", headers=by())
    assert forged.status_code == 403


async def test_the_json_door_tells_how_to_show_who_one_is(browser: httpx2.AsyncClient) -> None:
    path = "/api/peloton.api.v0.job.JobManager/Query"
    refused = await browser.post(path, json={})
    assert refused.status_code == 401
    assert refused.headers["www-authenticate"].startswith("Bearer ")


async def test_what_is_watched_with_a_token_ends_with_it() -> None:
    async def over(subject: Subject) -> Mapping[str, Any]:
        raise Unauthenticated("the token is not valid: it has expired")

    cluster = FakeCluster()
    page = Page("/jobs", "error.html", over, ("content",))
    hub = Hub(Reader([page], Templates(""), cluster), 0.2, 10)
    async with asyncio.timeout(60):
        sent = b"".join([each async for each in hub.watch("/jobs", ByProxy("x.y.z"))])
    assert b"it has expired" in sent
    await hub.close()
