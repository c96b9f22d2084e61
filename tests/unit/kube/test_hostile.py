"""Requests and labels that are meant to do harm: each is refused, and none takes long or stops others."""

from __future__ import annotations

import copy
import json
import time
from typing import Any

import pytest
import yaml

from peloton.api.v0.job import job_pb2
from peloton.calls.web import QUERY_JOBS, QUERY_POOLS
from peloton.client.auth import BasicAuth
from peloton.errors import Unauthenticated, Unavailable
from peloton.web.kube import paging, watching
from peloton.web.kube.core import managers, manifests
from peloton.web.kube.core.names import MANAGERS_LABEL
from peloton.web.kube.core.patches import APPLY, JSON, STRATEGIC, patched
from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.selectors import labels_match
from peloton.web.kube.core.values import Object
from peloton.web.sessions import COOKIE

from .world import DEPLOYMENTS, JOBS, PODS, POOL, World, deployment_manifest, job_manifest

SECONDS = 5.0
"""Of CPU. What was quadratic or exponential took minutes, or all of the memory."""


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(autouse=True)
def bounded() -> Any:
    begun = time.process_time()
    yield
    assert time.process_time() - begun < SECONDS


def container(manifest: dict[str, Any]) -> Any:
    return manifest["spec"]["template"]["spec"]["containers"][0]


def deep(levels: int) -> str:
    return '{"a":' * levels + "1" + "}" * levels


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (deep(100), 400),
        (deep(100_000), 400),
        ('{"spec": NaN}', 400),
        ('{"spec": 1e999}', 400),
        ('{"metadata": {"name": "\\ud800"}}', 400),
        ('{"spec": ' + "9" * 5000 + "}", 400),
        ('{"apiVersion": "batch/v1", "kind": "Job", "metadata": null}', 422),
        ('{"apiVersion": "batch/v1", "kind": "Job", "metadata": [1]}', 422),
        ('{"apiVersion": {}, "kind": []}', 400),
        ("[]", 400),
        ('{"metadata": {"generateName": {"a": 1}}, "apiVersion": "batch/v1", "kind": "Job"}', 422),
    ],
)  # fmt: skip
def test_bodies(world: World, body: str, code: int) -> None:
    found = world.client.post(JOBS, content=body, headers={"content-type": "application/json"})
    assert (found.status_code, found.json()["kind"]) == (code, "Status")
    unread = found.json()["message"].startswith("the body cannot be read")
    assert unread == (code == 400 and not body.startswith(("[]", '{"apiVersion"')))


def test_yaml_is_read(world: World) -> None:
    text = yaml.safe_dump(job_manifest())
    found = world.client.post(JOBS, content=text, headers={"content-type": "application/yaml"})
    assert found.status_code == 201


@pytest.mark.parametrize(
    "text",
    [
        "a: &a [x, x]\nb: &b [*a, *a]\nc: [*b, *b]\n",
        "a: 2020-01-01\n",
        "1: a\n",
        "a: .inf\n",
        "a: !!set {b}\n",
        "? [a]\n: b\n",
        "[" * 5000,
        "a: " + "x" * 300_000,
    ],
)
def test_yaml_that_is_more_than_json(world: World, text: str) -> None:
    found = world.client.post(JOBS, content=text, headers={"content-type": "application/yaml"})
    assert found.status_code == 400
    assert found.json()["message"].startswith("the body cannot be read")


def test_variables_that_repeat_each_other(world: World) -> None:
    manifest = job_manifest()
    names = [f"V{i}" for i in range(60)]
    repeated = ["x" * 100, *(f"$({name})$({name})" for name in names)]
    container(manifest)["env"] = [{"name": n, "value": v} for n, v in zip(names, repeated, strict=False)]
    found = world.create(JOBS, manifest)
    assert found.status_code == 422 and "more than 512,000 characters" in found.json()["message"]
    container(manifest)["env"] = [{"name": "V", "value": "x" * 10_000}]
    container(manifest)["args"] = ["$(V)" * 100]
    assert world.create(JOBS, manifest).status_code == 422


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"maxUnavailable": "9" * 5000 + "%"}, "spec.strategy.rollingUpdate.maxUnavailable"),
        ({"maxUnavailable": "٣%"}, "spec.strategy.rollingUpdate.maxUnavailable"),
    ],
)
def test_numbers_of_a_strategy(world: World, changed: dict[str, Any], field: str) -> None:
    found = world.create(DEPLOYMENTS, deployment_manifest(strategy={"rollingUpdate": changed}))
    assert [cause["field"] for cause in found.json()["details"]["causes"]] == [field]


def test_a_batch_is_not_larger_than_the_deployment(world: World) -> None:
    world.create(DEPLOYMENTS, deployment_manifest())
    changed = deployment_manifest(replicas=3, strategy={"rollingUpdate": {"maxUnavailable": 10**12}})
    assert world.client.put(f"{DEPLOYMENTS}/web", json=changed).status_code == 200
    assert world.updates[0].update_spec.batch_size == 3


@pytest.mark.parametrize("amount", ["1e999", "9" * 100, 1e300])
def test_amounts(world: World, amount: Any) -> None:
    manifest = job_manifest()
    container(manifest)["resources"] = {"requests": {"cpu": amount}}
    assert world.create(JOBS, manifest).status_code == 422


def test_a_refusal_is_short(world: World) -> None:
    manifest = job_manifest()
    manifest["metadata"]["labels"] = {f"kubernetes/{i}{'x' * 10_000}": "a" for i in range(40)}
    found = world.create(JOBS, manifest)
    assert found.status_code == 422 and len(found.content) < 150_000


ADDED = {"op": "add", "path": "/a", "value": ["x" * 1000]}
COPIED = {"op": "copy", "from": "/a", "path": "/a/0"}


@pytest.mark.parametrize(
    "patch",
    [
        [{"op": "add", "path": 5, "value": 1}],
        ["add"],
        [{"op": "replace", "path": "/spec/x/-1", "value": 1}],
        [{"op": "copy", "from": "", "path": "/a"}] * 100,
        [ADDED, *[COPIED] * 60],
        [ADDED, *[COPIED, {"op": "copy", "from": "", "path": "/b"}] * 30],
    ],
)  # fmt: skip
def test_json_patches(patch: Any) -> None:
    with pytest.raises(Refusal) as caught:
        patched({"spec": {"x": [1, 2]}}, patch, JSON)
    assert caught.value.code == 422 and len(str(caught.value)) < 1000


@pytest.mark.parametrize(
    "patch",
    [
        {"$retainKeys": 5},
        {"$retainKeys": [[]]},
        {"$deleteFromPrimitiveList/x": 5},
        {"$deleteFromPrimitiveList/n": [1]},
        {"containers": [{"name": []}]},
        {"containers": [5]},
        {"odd": [1], "ports": [{"containerPort": 1}]},
        {"env": [{"name": "a"}], "$setElementOrder/env": [{"name": []}]},
    ],
)
def test_strategic_patches(patch: Any) -> None:
    target = {"n": 5, "ports": [1], "odd": 1, "containers": [{"name": "main"}]}
    with pytest.raises(Refusal) as caught:
        patched(target, patch, STRATEGIC)
    assert caught.value.code == 400


def test_a_patch_with_many_elements_is_merged_at_once() -> None:
    ports = [{"containerPort": i} for i in range(20_000)]
    found = patched({"ports": [{"containerPort": 5, "name": "own"}]}, {"ports": ports}, STRATEGIC)
    assert len(found["ports"]) == 20_000 and found["ports"][0] == {"containerPort": 5, "name": "own"}


@pytest.mark.parametrize("kind", [JSON, STRATEGIC, "application/merge-patch+json"])
def test_a_patch_that_is_longer_than_a_manifest_is_not_laid_over_one(kind: str) -> None:
    patch = {f"a{i}": None for i in range(200_000)}
    with pytest.raises(Refusal) as caught:
        patched({}, [patch] if kind == JSON else patch, kind)
    assert caught.value.code == 413


def test_what_is_too_long_is_refused_before_it_is_read(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(manifests, "stripped", None)
    manifest = job_manifest()
    manifest["metadata"]["annotations"] = {f"a{i}": "x" * 20 for i in range(90_000)}
    assert world.create(JOBS, manifest).status_code == 413


def test_an_element_is_deleted_and_added_again() -> None:
    env = [{"name": "a", "$patch": "delete"}, {"name": "a", "value": "2"}]
    found = patched({"env": [{"name": "a", "value": "1", "x": "y"}, {"name": "b"}]}, {"env": env}, STRATEGIC)
    assert found["env"] == [{"name": "b"}, {"name": "a", "value": "2"}]


@pytest.mark.parametrize(
    "selector", ["a," * 30_000, "a in (" + "b," * 30_000 + ")", "(" * 60_000, "a" * 60_000]
)
def test_selectors_are_bounded(selector: str) -> None:
    with pytest.raises(Refusal) as caught:
        labels_match(selector)
    assert caught.value.code == 400


def test_sets_in_selectors() -> None:
    matches = labels_match("a in (x, y),b notin (z),c")
    assert matches({"metadata": {"labels": {"a": "y", "c": ""}}})
    assert not matches({"metadata": {"labels": {"a": "y", "b": "z", "c": ""}}})


@pytest.mark.parametrize(
    ("body", "code"),
    [
        ({"preconditions": "x"}, 400),
        ({"preconditions": {"uid": ["x"]}}, 409),
        ({"preconditions": {"resourceVersion": "1"}}, 409),
        ({"dryRun": 5}, 400),
        ({"dryRun": ["Some"]}, 400),
    ],
)
def test_options_of_a_deletion(world: World, body: Any, code: int) -> None:
    world.create(JOBS, job_manifest())
    found = world.client.request("DELETE", f"{JOBS}/hello", json=body)
    assert (found.status_code, found.json()["kind"], len(world.jobs)) == (code, "Status", 1)


def test_a_scale_that_is_none(world: World) -> None:
    world.create(DEPLOYMENTS, deployment_manifest())
    assert world.client.put(f"{DEPLOYMENTS}/web/scale", json={"spec": [3]}).status_code == 400


def test_a_defect_is_a_status_without_what_it_was_about(world: World) -> None:
    def broken(request: Any) -> Any:
        raise KeyError("a password")

    world.cluster.answers[QUERY_JOBS] = broken
    found = world.client.get(JOBS)
    assert (found.status_code, found.json()["reason"]) == (500, "InternalError")
    assert "password" not in found.text


def test_warnings_end_no_line_of_the_header(world: World) -> None:
    create: Any = world.cluster.answers[next(m for m in world.cluster.answers if m.rpc.name == "Create")]

    def warned(request: Any) -> Any:
        answer = create(request)
        answer.warnings.append("line\r\nSet-Cookie: a=b\x00" + "x" * 5000)
        return answer

    world.cluster.answers[next(m for m in world.cluster.answers if m.rpc.name == "Create")] = warned
    found = world.create(JOBS, job_manifest())
    assert found.status_code == 201 and "set-cookie" not in found.headers
    assert len(found.headers["warning"]) < 600


def labelled(**labels: str) -> job_pb2.JobConfig:
    config = job_pb2.JobConfig(name="other", instanceCount=1)
    config.respoolID.value = POOL
    for key, text in labels.items():
        config.labels.add(key=f"kubernetes/{key}", value=text)
    return config


BEST = {**job_manifest(), "metadata": {"name": "best"}}


@pytest.mark.parametrize(
    "manifest",
    [
        "{}",
        '{"kind": "Job", "metadata": {"name": ["a"]}}',
        '{"kind": "Job", "metadata": {"name": "../a"}}',
        '{"kind": "Job", "metadata": {"name": "best"}, "spec": 5}',
        '{"kind": "Job", "metadata": {"name": "best", "labels": {"a": 1}}}',
        '{"kind": "Job", "metadata": {"name": "best"}, "spec": {"template": {"spec": {"containers": [1]}}}}',
        '{"kind": "Job", "metadata": {"name": "best"}, "x": NaN}',
        '{"kind": "Job", "metadata": {"name": "best"}, "x": "\\ud800"}',
        deep(100_000),
        json.dumps({**BEST, "metadata": {"name": "another"}}),
        json.dumps({**BEST, "kind": "Deployment"}),
    ],
)
def test_labels_of_other_apis_do_not_spoil_the_lists(world: World, manifest: str) -> None:
    config = labelled(kind="Job", name="best", **{"manifest.0": manifest})
    job_id = world.add(config, "12345678-0000-4000-8000-000000000000")
    for accept in ("application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"):
        for path in (JOBS, PODS, DEPLOYMENTS):
            assert world.client.get(path, headers={"accept": accept}).status_code == 200
    (found,) = world.client.get(JOBS).json()["items"]
    assert found["metadata"]["name"] == job_id
    assert world.client.get(f"{JOBS}/best").status_code == 404
    assert world.client.get(f"{JOBS}/{job_id}").json()["metadata"]["uid"] == job_id


def test_a_cookie_is_nobody(world: World) -> None:
    asked = []
    calls = world.cluster.calls

    def noted(auth: Any = None) -> Any:
        asked.append(auth)
        return calls(auth)

    world.cluster.calls = noted  # type: ignore[method-assign]
    session = world.client.app.state.sessions.open(BasicAuth("ann", "secret"))  # type: ignore[attr-defined]
    world.client.cookies.set(COOKIE, session)
    world.client.get(JOBS)
    world.create(JOBS, job_manifest())
    world.client.delete(f"{JOBS}/hello")
    assert set(asked) == {None}


def test_each_handler_calls_in_the_name_of_its_caller(world: World) -> None:
    asked = []
    calls = world.cluster.calls

    def noted(auth: Any = None) -> Any:
        asked.append(auth)
        return calls(auth)

    world.cluster.calls = noted  # type: ignore[method-assign]
    client, ann = world.client, ("ann", "secret")
    for path, manifest in ((JOBS, job_manifest()), (DEPLOYMENTS, deployment_manifest())):
        assert client.post(path, json=manifest, auth=ann).status_code == 201
    for path in (JOBS, PODS, DEPLOYMENTS, f"{DEPLOYMENTS}/web", f"{DEPLOYMENTS}/web/scale", "/api/v1/nodes"):
        client.get(path, auth=ann)
    pod = client.get(PODS, auth=ann).json()["items"][0]["metadata"]["name"]
    client.get(f"{PODS}/{pod}/log", auth=ann)
    client.get(PODS, params={"watch": "true", "timeoutSeconds": "0"}, auth=ann)
    client.put(f"{DEPLOYMENTS}/web", json=deployment_manifest(replicas=3), auth=ann)
    client.put(f"{DEPLOYMENTS}/web/scale", json={"spec": {"replicas": 2}}, auth=ann)
    client.delete(f"{PODS}/{pod}", auth=ann)
    client.delete(f"{DEPLOYMENTS}/web", auth=ann)
    assert set(asked) == {BasicAuth("ann", "secret")}


def test_strangers_take_no_place_from_those_who_may_read(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "MOST_COLLECTIONS", 4)
    world.create(JOBS, job_manifest())
    version = world.client.get(JOBS).json()["metadata"]["resourceVersion"]
    pools = world.cluster.answers[QUERY_POOLS]
    world.cluster.answers[QUERY_POOLS] = Unauthenticated("no such user")
    for i in range(10):
        query = {"watch": "true", "timeoutSeconds": "0", "resourceVersion": version} if i % 2 else {}
        world.client.get(JOBS, params=query, auth=(f"user-{i}", "guess"))
    world.cluster.answers[QUERY_POOLS] = pools
    query = {"watch": "true", "timeoutSeconds": "0", "resourceVersion": version}
    assert world.client.get(JOBS, params=query).text == ""


def test_a_leader_that_changes_does_not_leave_a_job_that_is_deleted(world: World) -> None:
    with world.client as client:
        world.create(JOBS, job_manifest())
        delete = next(method for method in world.cluster.answers if method.rpc.name == "DeleteJob")
        answer: Any = world.cluster.answers[delete]
        failed: list[bool] = []

        def flaky(request: Any) -> Any:
            if not failed:
                failed.append(True)
                raise Unavailable("no leader")
            return answer(request)

        world.cluster.answers[delete] = flaky
        client.delete(f"{JOBS}/hello")
        begun = time.monotonic()
        while world.jobs and time.monotonic() - begun < 30:
            client.get("/api")
        assert failed and not world.jobs


def test_a_job_that_is_deleted_while_it_is_watched(world: World) -> None:
    world.create(JOBS, job_manifest())
    query = {"watch": "true", "timeoutSeconds": "0", "fieldSelector": "metadata.name=hello"}
    version = world.client.get(JOBS).json()["metadata"]["resourceVersion"]
    world.jobs.clear()
    (event,) = world.client.get(JOBS, params={**query, "resourceVersion": version}).text.splitlines()
    found = json.loads(event)
    assert (found["type"], found["object"]["metadata"]["name"]) == ("DELETED", "hello")
    assert world.client.get(JOBS, params=query).text == ""


def large(world: World, count: int) -> str:
    world.create(JOBS, job_manifest(completions=count, parallelism=count))
    (job_id,) = world.jobs
    return job_id


def test_pods_that_are_too_many_are_listed_by_pages(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "MOST_PODS", 20)
    job_id = large(world, 50)
    other = copy.deepcopy(job_manifest())
    other["metadata"]["name"] = "small"
    world.create(JOBS, other)
    assert world.client.get(PODS).status_code == 413
    names, token = [], ""
    for _ in range(10):
        answer = world.client.get(PODS, params={"limit": "12", **({"continue": token} if token else {})})
        items = answer.json()["items"]
        names += [pod["metadata"]["name"] for pod in items]
        assert len(items) <= 12
        token = answer.json()["metadata"].get("continue", "")
        if not token:
            break
    assert len(names) == len(set(names)) == 51
    small = world.client.get(PODS, params={"labelSelector": "job-name=small"}).json()["items"]
    assert [pod["metadata"]["labels"]["job-name"] for pod in small] == ["small"]
    one = {"fieldSelector": f"metadata.name=hello-{job_id[:5]}-7-1"}
    assert len(world.client.get(PODS, params=one).json()["items"]) == 1
    assert world.client.get(PODS, params={"fieldSelector": "metadata.name=gone"}).json()["items"] == []


def test_few_pods_come_at_once_whatever_the_limit(world: World) -> None:
    large(world, 30)
    found = world.client.get(PODS, params={"limit": "12"}).json()
    assert len(found["items"]) == 30 and "continue" not in found["metadata"]


def test_a_watch_of_few_pods_beside_many(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(paging, "MOST_PODS", 20)
    large(world, 50)
    other = copy.deepcopy(job_manifest())
    other["metadata"]["name"] = "small"
    world.create(JOBS, other)
    query = {"labelSelector": "job-name=small"}
    version = world.client.get(PODS, params=query).json()["metadata"]["resourceVersion"]
    watch = {"watch": "true", "timeoutSeconds": "0", "resourceVersion": version, **query}
    assert world.client.get(PODS, params=watch).text == ""
    all_of_them = world.client.get(PODS, params={"watch": "true", "timeoutSeconds": "0"}).json()
    assert (all_of_them["type"], all_of_them["object"]["code"]) == ("ERROR", 413)


@pytest.mark.parametrize("query", [{"limit": "x"}, {"limit": "1", "continue": "x"}, {"continue": "WzEsMl0="}])
def test_pages_that_are_none(world: World, query: dict[str, str]) -> None:
    assert world.client.get(PODS, params=query).status_code == 400


def test_collections_are_bounded_by_their_objects(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "MOST_OBJECTS", 10)
    large(world, 30)
    version = world.client.get(JOBS).json()["metadata"]["resourceVersion"]
    world.client.get(PODS)
    watch = {"watch": "true", "timeoutSeconds": "0", "resourceVersion": version}
    assert world.client.get(JOBS, params=watch).json()["object"]["code"] == 410


def test_many_fields_are_applied_in_time(world: World) -> None:
    """Each field was looked for in its list, element by element."""

    def given(letter: str, count: int) -> Object:
        manifest = deployment_manifest()
        env = [{"name": f"{letter}{i}", "value": "x"} for i in range(count)]
        manifest["spec"]["template"]["spec"]["containers"][0]["env"] = env
        return manifest

    live: Object = {}
    owners: managers.Managers = ()
    for name, letter, count in (("ann", "a", 10_000), ("bob", "b", 10_000), ("ann", "a", 1)):
        live, owners = managers.applied(
            live, given(letter, count), owners, name, "", force=False, api_version="apps/v1"
        )
    (container,) = live["spec"]["template"]["spec"]["containers"]
    assert len(container["env"]) == 10_001
    assert managers.decoded(managers.encoded(owners)) == owners
    owners = managers.updated(live, given("c", 10_000), owners, "eve", "")
    assert [each.name for each in owners] == ["ann", "bob", "eve"]


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        '[["a", "Apply", "", {"f:spec": {"k:nonsense": {"f:a": {}}}}]]',
        '[[[], {}, 1, {"x": {}}]]',
        "{}",
    ],
)
def test_owners_that_another_api_has_set(world: World, text: str) -> None:
    world.create(DEPLOYMENTS, deployment_manifest())
    (config,) = world.jobs.values()
    for at in range(0, len(text), 16_000):
        config.labels.add(key=f"{MANAGERS_LABEL}{at // 16_000}", value=text[at : at + 16_000])
    assert world.client.get(f"{DEPLOYMENTS}/web").status_code == 200
    found = world.client.patch(
        f"{DEPLOYMENTS}/web",
        content=json.dumps(deployment_manifest(replicas=5)),
        params={"fieldManager": "ann"},
        headers={"content-type": APPLY},
    )
    assert found.status_code == 200, found.text
