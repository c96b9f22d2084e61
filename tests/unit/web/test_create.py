"""New jobs, from a form or YAML: what is wrong, the plan, and the creation."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.calls import web
from peloton.calls.web import RoleRpc
from peloton.errors import InvalidArgument, NotFound, Refused, Unavailable
from peloton.private.access import access_pb2
from peloton.private.plan import plan_pb2
from peloton.private.resmgr.planning import planning_pb2
from peloton.web.views.jobs.drafts import Draft, read_draft

from .fake import FakeCluster, application, browser, token
from .jobs_cluster import EVIL, JOB, POOL, cluster

BATCH = """\
name: report
type: BATCH
instanceCount: 30
defaultConfig:
  resource: {cpuLimit: 0.5, memLimitMb: 64, diskLimitMb: 10}
  command: {shell: true, value: echo hello}
"""
SERVICE = """\
name: shop
instance_count: 3
default_spec:
  containers:
  - name: main
    resource: {cpu_limit: 1, mem_limit_mb: 64, disk_limit_mb: 10}
    entrypoint: {value: /bin/shop}
"""


def plan(request: plan_pb2.PlanJobRequest) -> plan_pb2.PlanJobResponse:
    found = planning_pb2.GangsPlan(
        placed=2,
        hosts=[planning_pb2.PlannedHosts(hosts=1, tasks=2, names=["<b>host"])],
        waiting=28,
        waiting_reason="cpu: 90 + 1 > 91 in /a",
    )
    victims = planning_pb2.PlannedVictims(
        pool="/b", tasks=3, jobs=[v0_peloton.JobID(value=JOB)], reason="over its share", after_seconds=60
    )
    return plan_pb2.PlanJobResponse(
        instances=30,
        groups=[plan_pb2.PlannedInstances(instances="0-29", count=30, plan=found)],
        victims=[victims],
    )


def pools() -> respool_pb2.QueryResponse:
    def pool(pool_id: str, path: str, *children: str) -> respool_pb2.ResourcePoolInfo:
        return respool_pb2.ResourcePoolInfo(
            id=v0_peloton.ResourcePoolID(value=pool_id),
            path=respool_pb2.ResourcePoolPath(value=path),
            children=[v0_peloton.ResourcePoolID(value=each) for each in children],
        )

    return respool_pb2.QueryResponse(
        resourcePools=[pool("root", "/", POOL, "above"), pool(POOL, "/a"), pool("above", "/b", "x")]
    )


@pytest.fixture
def found() -> FakeCluster:
    of = cluster()
    of.answers |= {
        web.QUERY_POOLS: pools(),
        web.PLAN_JOB: plan,
        web.CREATE_JOB: lambda request: job_pb2.CreateResponse(jobId=request.id),
        web.CREATE_JOB_V1ALPHA: lambda request: pb.CreateJobResponse(job_id=request.job_id),
        web.QUERY_JOBS: job_pb2.QueryResponse(),
    }
    return of


@pytest.fixture
def client(found: FakeCluster) -> TestClient:
    return browser(application(found))


def asked(found: FakeCluster, called: RoleRpc[Any, Any]) -> list[Any]:
    return [request for each, _, request in found.asked if each is called]


def post(client: TestClient, **fields: str) -> Any:
    form = {"csrf": token(client, "/submit"), **fields}
    return client.post("/submit", data=form, follow_redirects=False)


def shown_id(page: str) -> str:
    match = re.search(r'name="job_id" value="([^"]+)"', page)
    assert match is not None
    return match[1]


def test_only_pools_that_take_jobs_are_offered(client: TestClient) -> None:
    page = client.get("/submit?pool=/a").text
    assert f'<option value="{POOL}" selected>/a</option>' in page and ">/b</option>" not in page


@pytest.mark.parametrize(
    ("text", "created"),
    [(BATCH, web.CREATE_JOB), (SERVICE, web.CREATE_JOB_V1ALPHA)],
    ids=["batch", "service"],
)
def test_a_spec_is_planned_before_it_is_created(
    client: TestClient, found: FakeCluster, text: str, created: RoleRpc[Any, Any]
) -> None:
    page = post(client, step="preview", pool=POOL, spec=text.replace("\n", "\r\n"))
    assert page.status_code == 200
    assert "2 would be placed now, on 1 host" in page.text and "&lt;b&gt;host" in page.text
    assert "28 would wait in the queue of the pool: cpu: 90 + 1 &gt; 91 in /a" in page.text
    assert f'href="/jobs/{JOB}"' in page.text  # whom it would evict
    assert not asked(found, created)
    job_id = shown_id(page.text)
    answer = post(client, step="create", pool=POOL, spec=text, job_id=job_id)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{job_id}")
    (request,) = asked(found, created)
    given = request.config if created is web.CREATE_JOB else request.spec
    id_of = request.id if created is web.CREATE_JOB else request.job_id
    pool = given.respoolID if created is web.CREATE_JOB else given.respool_id
    assert (id_of.value, pool.value) == (job_id, POOL)


def test_the_small_form_makes_a_spec(client: TestClient, found: FakeCluster) -> None:
    form = {"name": "mine", "kind": "service", "instances": "2", "cpu": "500m", "memory": "1Gi", "disk": "10"}
    page = post(client, step="draft", pool=POOL, command="echo a\r\necho b", preemptible="1", **form)
    assert page.status_code == 200 and "Plan of mine" in page.text
    (request,) = asked(found, web.PLAN_JOB)
    (container,) = request.spec.default_spec.containers
    assert (container.resource.cpu_limit, container.resource.mem_limit_mb) == (0.5, 1024)
    assert container.entrypoint.value == "echo a\necho b" and request.spec.sla.preemptible


@pytest.mark.parametrize("kind", ["batch", "service"])
def test_what_the_form_makes_is_read_as_it_was_typed(kind: str) -> None:
    draft = Draft("n: #1", kind, "3", "0.5", "64", "10", "team 'a'", 'if x; then\n\techo "$Y"\nfi', "")
    read = read_draft(draft.text(), POOL)
    assert not read.errors, read.errors
    assert read.service == (kind == "service")
    spec = read.spec
    if isinstance(spec, stateless_pb2.JobSpec):
        command = spec.default_spec.containers[0].entrypoint.value
        made = (spec.name, spec.owning_team, spec.instance_count, command)
    else:
        assert spec is not None
        command = spec.defaultConfig.command.value
        made = (spec.name, spec.owningTeam, spec.instanceCount, command)
    assert made == (draft.name, draft.owner, 3, draft.command)
    assert spec.sla.preemptible is False


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"step": "preview", "pool": POOL, "spec": BATCH + "colour: blue\n"}, "spec:7: colour: unknown key"),
        ({"step": "preview", "pool": POOL, "spec": "a: ["}, "spec:"),
        ({"step": "preview", "pool": POOL, "spec": "apiVersion: batch/v1\nkind: Job\n"}, "Kubernetes"),
        ({"step": "preview", "pool": POOL, "spec": "policy: PriorityFIFO\n"}, "the spec of a resource pool"),
        ({"step": "preview", "pool": "", "spec": BATCH}, "choose a pool"),
        ({"step": "preview", "pool": POOL, "spec": BATCH + "respoolID: {value: other}\n"}, "another pool"),
        ({"step": "draft", "pool": POOL, "command": "x", "kind": "cron"}, "is not one of batch, service"),
        ({"step": "draft", "pool": POOL, "command": " ", "kind": "batch"}, "a command for the shell"),
        ({"step": "draft", "pool": POOL, "command": "x", "kind": "batch", "cpu": "many"}, "many"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said_and_nothing_is_asked(
    client: TestClient, found: FakeCluster, fields: dict[str, str], said: str
) -> None:
    answer = post(client, **{"name": "n", "instances": "1", "memory": "64", "disk": "1", **fields})
    assert answer.status_code == 400 and said in answer.text.replace("&#39;", "'"), answer.text
    assert not asked(found, web.PLAN_JOB)
    if "spec" in fields:
        assert fields["spec"].splitlines()[0] in answer.text  # it stays in the form


def test_what_the_job_manager_refuses_stays_in_the_form(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.PLAN_JOB] = Refused("the pool takes no <jobs>")
    answer = post(client, step="preview", pool=POOL, spec=BATCH)
    assert answer.status_code == 400
    assert "the pool takes no &lt;jobs&gt;" in answer.text and "name: report" in answer.text


def test_a_form_that_is_sent_twice_creates_one_job(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.CREATE_JOB] = Refused("job already exists")
    answer = post(client, step="create", pool=POOL, spec=BATCH, job_id=JOB)
    assert (answer.status_code, answer.headers["location"]) == (303, f"/jobs/{JOB}")


def test_a_refused_creation_shows_the_plan_again(client: TestClient, found: FakeCluster) -> None:
    found.answers |= {web.CREATE_JOB: Refused("too many jobs"), web.GET_JOB: NotFound("no job")}
    answer = post(client, step="create", pool=POOL, spec=BATCH, job_id=JOB)
    assert answer.status_code == 409 and "nothing was created: too many jobs" in answer.text
    assert shown_id(answer.text) == JOB


def test_a_daemon_that_does_not_answer_leaves_what_was_typed(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.PLAN_JOB] = Unavailable("the hosts are not known")
    answer = post(client, step="preview", pool=POOL, spec=BATCH)
    assert "the hosts are not known" in answer.text and "name: report" in answer.text


def test_a_job_of_the_name_that_runs_is_shown(client: TestClient, found: FakeCluster) -> None:
    running = job_pb2.JobSummary(
        id=v0_peloton.JobID(value=JOB),
        name="report",
        respoolID=v0_peloton.ResourcePoolID(value=POOL),
        runtime=job_pb2.RuntimeInfo(state=job_pb2.RUNNING),
    )
    found.answers[web.QUERY_JOBS] = job_pb2.QueryResponse(results=[running])
    page = post(client, step="preview", pool=POOL, spec=BATCH).text
    assert "A batch job of this name runs in the pool" in page


def test_warnings_about_the_spec_are_shown_before_the_job(client: TestClient, found: FakeCluster) -> None:
    found.answers[web.CREATE_JOB] = job_pb2.CreateResponse(warnings=["image: <b> names no version"])
    answer = post(client, step="create", pool=POOL, spec=BATCH, job_id=JOB)
    assert answer.status_code == 200 and f'href="/jobs/{JOB}"' in answer.text
    assert "names no version" in answer.text and "<b>" not in answer.text.replace("<b>1", "")


def test_who_may_not_create_jobs_is_told_so(client: TestClient, found: FakeCluster) -> None:
    def verdicts(request: access_pb2.CheckMethodsRequest) -> access_pb2.CheckMethodsResponse:
        no = access_pb2.MethodVerdict(reason="user viewer may not call this")
        return access_pb2.CheckMethodsResponse(verdicts=[no for _ in request.methods])

    found.answers[web.CHECK_METHODS["jobmgr"]] = verdicts
    for path in ("/submit", "/jobs"):
        page = client.get(path).text
        assert "User viewer may not call this" in page
        assert 'class="button" href="/submit"' not in page
    page = post(client, step="preview", pool=POOL, spec=BATCH).text
    assert re.search(r'value="create"\s+disabled', page)


def test_a_forged_form_creates_nothing(client: TestClient, found: FakeCluster) -> None:
    form = {"step": "create", "pool": POOL, "spec": BATCH, "job_id": JOB}
    assert client.post("/submit", data=form).status_code == 403
    assert not asked(found, web.CREATE_JOB)


def test_texts_are_escaped(client: TestClient) -> None:
    text = BATCH.replace("report", f'"{EVIL.replace(chr(34), "")}"')
    for step in ("preview", "edit"):
        page = post(client, step=step, pool=POOL, spec=text).text
        assert "<script>alert" not in page and "<img" not in page


TYPED = st.one_of(st.text(max_size=30), st.sampled_from(["1", "0.5", "2Gi", "-1", "nan", "1e400", "service"]))


@given(st.lists(TYPED, min_size=9, max_size=9))
def test_whatever_is_typed_is_read_or_refused(typed: list[str]) -> None:
    draft = Draft(*typed)
    try:
        text = draft.text()
    except InvalidArgument:
        return
    read = read_draft(text, POOL)
    assert bool(read.errors) == (read.spec is None)


@given(st.text(max_size=200))
def test_whatever_text_is_sent_is_read_or_refused(text: str) -> None:
    read = read_draft(text, POOL)
    assert bool(read.errors) == (read.spec is None)
