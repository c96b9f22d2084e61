"""New and changed pools: the form, what becomes of entitlements, and the change itself."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.calls import web
from peloton.calls.web import RoleRpc
from peloton.errors import Refused, Unavailable, Unimplemented
from peloton.private.access import access_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2 as pb
from peloton.rpc.errors import InvalidRequest
from peloton.web.views.pools.drafts import PoolFields

from .fake import FakeCluster, application, browser, token

EDIT, CREATE = "/pools/a/do/edit", "/pools/root/do/create"
HOSTILE = "<script>alert(1)</script>"


def config() -> respool_pb2.ResourcePoolConfig:
    made = respool_pb2.ResourcePoolConfig(
        name="a",
        description=HOSTILE,
        owningTeam="ads",
        ldapGroups=["g"],
        policy=respool_pb2.PriorityFIFO,
        parent=peloton_pb2.ResourcePoolID(value="root"),
        resources=[
            respool_pb2.ResourceConfig(
                kind="cpu", reservation=40.5, limit=90, share=2, type=respool_pb2.STATIC
            ),
            respool_pb2.ResourceConfig(kind="memory", reservation=1024, limit=1e6, share=1),
        ],
    )
    made.controllerLimit.maxPercent = 30
    made.changeLog.version = 7
    return made


def pool_info(request: respool_pb2.GetRequest) -> respool_pb2.GetResponse:
    pool_id = request.id.value
    if pool_id not in ("a", "root"):
        raise Refused(f"no resource pool has the id {pool_id!r}")
    root = respool_pb2.ResourcePoolConfig(
        name="root", resources=[respool_pb2.ResourceConfig(kind="cpu", reservation=100, limit=100)]
    )
    info = respool_pb2.ResourcePoolInfo(
        id=request.id,
        path=respool_pb2.ResourcePoolPath(value="/" if pool_id == "root" else "/a"),
        config=root if pool_id == "root" else config(),
    )
    return respool_pb2.GetResponse(poolinfo=info)


def plan(request: pb.PlanPoolRequest) -> pb.PlanPoolResponse:
    own = pb.PlannedPool(id=request.pool_id, path=f"/{request.config.name}", after=pb.Amounts(cpu=30))
    if request.pool_id:
        own.before.cpu = 50
    other = pb.PlannedPool(id="b", path="/b", allocation=pb.Amounts(cpu=45))
    other.before.cpu, other.after.cpu, other.before.memory, other.after.memory = 50, 40, 512, 512
    return pb.PlanPoolResponse(pools=[other, own])


@pytest.fixture
def found() -> FakeCluster:
    created = respool_pb2.CreateResponse(result=peloton_pb2.ResourcePoolID(value="made"))
    return FakeCluster(
        {
            web.GET_POOL: pool_info,
            web.PLAN_POOL: plan,
            web.CREATE_POOL: created,
            web.UPDATE_POOL: respool_pb2.UpdateResponse(),
        }
    )


@pytest.fixture
def client(found: FakeCluster) -> TestClient:
    return browser(application(found))


def fields_of(page: str) -> dict[str, str]:
    """The fields of a form as a browser would send them."""
    main = page[page.index("<main") :]
    values = dict(re.findall(r'<input (?:type="hidden" )?name="([^"]+)" value="([^"]*)"', main))
    for name, options in re.findall(r'<select name="([^"]+)"[^>]*>(.*?)</select>', main):
        values[name] = re.findall(r'value="(\w+)" selected', options)[0]
    return values


def asked(found: FakeCluster, called: RoleRpc[Any, Any]) -> list[Any]:
    return [request for each, _, request in found.asked if each is called]


def post(client: TestClient, path: str, **changes: str) -> Any:
    page = client.get(path).text
    form = {**fields_of(page), "csrf": token(client, path), **changes}
    form["description"] = changes.get("description", "d")
    return client.post(path, data=form, follow_redirects=False)


def test_a_change_shows_what_it_does_to_others_before_it_is_made(
    client: TestClient, found: FakeCluster
) -> None:
    page = post(client, EDIT, **{"limit-cpu": "60", "reservation-memory": "2Gi"})
    assert page.status_code == 200
    rows = [re.sub(r"<[^>]+>", " ", row).split() for row in re.findall(r"<tr>.*?</tr>", page.text)[1:]]
    assert rows[0][:4] == ["/a", "this", "pool", "CPU"] and "−20" in rows[0]  # the pool itself is first
    assert rows[1][:4] == ["/b", "CPU", "50", "cores"] and rows[1][-5:] == [
        "5",
        "cores",
        "may",
        "be",
        "preempted",
    ]
    assert len(rows) == 2 and not asked(found, web.UPDATE_POOL)
    kept = fields_of(page.text)
    answer = client.post(EDIT, data={**kept, "csrf": token(client), "step": "apply"}, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/pools/a")
    (request,) = asked(found, web.UPDATE_POOL)
    cpu, memory, *rest = request.config.resources
    assert (request.id.value, cpu.limit, cpu.reservation, cpu.share) == ("a", 60, 40.5, 2)
    assert (memory.reservation, cpu.type) == (2048, respool_pb2.STATIC)
    assert list(request.config.ldapGroups) == ["g"] and request.config.parent.value == "root"
    assert request.config.controllerLimit.maxPercent == 30 and not request.config.HasField("slackLimit")
    assert [each.kind for each in rest] == ["disk", "gpu"]


def test_a_new_pool_begins_with_the_limits_of_its_parent(client: TestClient, found: FakeCluster) -> None:
    values = fields_of(client.get(CREATE).text)
    assert (values["limit-cpu"], values["reservation-cpu"], values["share-cpu"]) == ("100", "0", "1")
    page = post(client, CREATE, name="new")
    assert "/new" in page.text and "New pool below /: new" in page.text
    kept = fields_of(page.text)
    form = {**kept, "csrf": token(client), "step": "apply"}
    answer = client.post(CREATE, data=form, follow_redirects=False)
    assert (answer.status_code, answer.headers["location"]) == (303, "/pools/made")
    (request,) = asked(found, web.CREATE_POOL)
    assert (request.config.name, request.config.parent.value) == ("new", "root")


def test_what_is_held_is_typed_again_alike() -> None:
    held = config()
    made = PoolFields.held(held).config(held)
    held.ClearField("changeLog")
    for each in held.resources:
        each.type = each.type or respool_pb2.ELASTIC
    assert list(made.resources)[:2] == list(held.resources)
    del made.resources[:], held.resources[:]
    assert made == held


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"limit-cpu": "many"}, "CPU limit: 'many' is not"),
        ({"reservation-memory": "-3"}, "Memory reservation"),
        ({"type-cpu": "RUBBER"}, "RUBBER"),
        ({"controller_limit": "x"}, "x"),
    ],
)
def test_wrong_fields_are_named_and_nothing_is_asked(
    client: TestClient, found: FakeCluster, changes: dict[str, str], said: str
) -> None:
    answer = post(client, EDIT, **changes)
    assert answer.status_code == 400 and said in answer.text.replace("&#39;", "'")
    assert not asked(found, web.PLAN_POOL)
    for value in changes.values():
        assert value == "RUBBER" or f'value="{value}"' in answer.text


def test_what_the_resource_manager_refuses_is_said_of_the_kind(
    client: TestClient, found: FakeCluster
) -> None:
    found.answers[web.PLAN_POOL] = InvalidRequest("resources[1].limit: 9 is not at most <8>")
    answer = post(client, EDIT)
    assert answer.status_code == 400 and "Memory limit: 9 is not at most &lt;8&gt;" in answer.text


@pytest.mark.parametrize("error", [Unavailable("the capacity is not known"), Unimplemented("of old")])
def test_where_the_effect_is_not_known_that_is_said(
    client: TestClient, found: FakeCluster, error: Exception
) -> None:
    found.answers[web.PLAN_POOL] = error
    page = post(client, EDIT)
    assert page.status_code == 200 and f"It is not known what this does to others: {error}" in page.text


def test_a_pool_that_others_changed_is_looked_at_again(client: TestClient, found: FakeCluster) -> None:
    answer = post(client, EDIT, step="apply", version="6")
    assert answer.status_code == 409 and "nothing was done" in answer.text.lower()
    assert not asked(found, web.UPDATE_POOL)


def test_the_root_is_not_changed_and_other_actions_there_are_not(client: TestClient) -> None:
    assert client.get("/pools/root/do/edit").status_code == 409
    assert client.get("/pools/a/do/explode").status_code == 404
    assert client.get("/pools/nobody/do/edit").status_code == 409


def test_who_may_not_change_pools_is_told_so(client: TestClient, found: FakeCluster) -> None:
    def verdicts(request: access_pb2.CheckMethodsRequest) -> access_pb2.CheckMethodsResponse:
        no = access_pb2.MethodVerdict(reason="user viewer may not call this")
        return access_pb2.CheckMethodsResponse(verdicts=[no for _ in request.methods])

    found.answers[web.CHECK_METHODS["resmgr"]] = verdicts
    page = client.get(EDIT).text
    assert "User viewer may not call this" in page and "disabled title=" in page
    assert re.search(r'value="apply"\s+disabled', post(client, EDIT).text)


def test_a_forged_form_changes_nothing_and_names_are_escaped(client: TestClient, found: FakeCluster) -> None:
    assert client.post(EDIT, data={"step": "apply", "version": "7", "name": "a"}).status_code == 403
    assert not asked(found, web.UPDATE_POOL)
    assert HOSTILE not in client.get(EDIT).text
    assert HOSTILE not in post(client, EDIT, description=HOSTILE, name=HOSTILE).text


TYPED = st.one_of(st.text(max_size=30), st.sampled_from(["1", "0.5", "2Gi", "-1", "nan", "1e400", "STATIC"]))


@given(st.lists(TYPED, min_size=1, max_size=30), st.randoms(use_true_random=False))
def test_whatever_is_typed_is_read_or_refused(typed: list[str], chance: Any) -> None:
    given_fields = PoolFields.of(lambda name: str(chance.choice(typed)))
    try:
        made = given_fields.config(config())
    except Refused as error:
        assert str(error)
    else:
        assert len(made.resources) == 4 and made.SerializeToString()
