"""Server-side apply: objects are made and changed, fields have owners, and conflicts are told."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import yaml

from peloton.web.kube.core import managers
from peloton.web.kube.core.managers import APPLY, MOST_MANAGERS, UPDATE, Manager, decoded, encoded
from peloton.web.kube.core.patches import APPLY as APPLY_TYPE
from peloton.web.kube.core.patches import MERGE
from peloton.web.kube.core.refusals import Refusal

from .world import DEPLOYMENTS, JOBS, SECRETS, World, deployment_manifest, job_manifest

WEB = f"{DEPLOYMENTS}/web"
NOW = "2026-11-29T00:00:00Z"
QUOTA = "/api/v1/namespaces/team/resourcequotas/pool"


@pytest.fixture
def world() -> World:
    return World()


def apply(world: World, manifest: Any, path: str = WEB, manager: str = "ann", **query: str) -> Any:
    return world.client.patch(
        path,
        content=yaml.safe_dump(manifest),
        params={"fieldManager": manager, **query},
        headers={"content-type": APPLY_TYPE},
    )


def only(**spec: Any) -> dict[str, Any]:
    """A Deployment of which only that is said."""
    found = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "web"}}
    return {**found, "spec": spec}


def with_env(*names: str) -> dict[str, Any]:
    container = {"name": "main", "env": [{"name": name, "value": "x"} for name in names]}
    return only(template={"spec": {"containers": [container]}})


def names(found: Any) -> list[str]:
    (container,) = found.json()["spec"]["template"]["spec"]["containers"]
    return [each["name"] for each in container.get("env", [])]


def owners(found: Any) -> list[tuple[str, str]]:
    return [(each["manager"], each["operation"]) for each in found.json()["metadata"]["managedFields"]]


def test_an_object_is_made_and_applied_again(world: World) -> None:
    made = apply(world, deployment_manifest())
    assert made.status_code == 201, made.text
    assert owners(made) == [("ann", "Apply")]
    entry = made.json()["metadata"]["managedFields"][0]
    assert (entry["apiVersion"], entry["fieldsType"]) == ("apps/v1", "FieldsV1")
    assert entry["fieldsV1"]["f:spec"]["f:replicas"] == {}
    containers = entry["fieldsV1"]["f:spec"]["f:template"]["f:spec"]["f:containers"]
    assert containers['k:{"name":"main"}'] == {".": {}, "f:command": {}, "f:name": {}}
    again = apply(world, deployment_manifest())
    assert (again.status_code, again.json()["metadata"]["generation"]) == (200, 1)
    assert not world.updates
    assert apply(world, deployment_manifest(replicas=5)).json()["spec"]["replicas"] == 5
    assert world.client.get(WEB).json()["spec"]["replicas"] == 5


def test_what_is_not_said_any_more_goes(world: World) -> None:
    manifest = deployment_manifest()
    manifest["metadata"]["labels"] = {"a": "1", "b": "2"}
    manifest["spec"]["template"]["spec"]["containers"][0]["env"] = [{"name": "A", "value": "x"}]
    apply(world, manifest)
    apply(world, with_env("B"), manager="bob")
    later = copy.deepcopy(manifest)
    del later["metadata"]["labels"]["b"]
    del later["spec"]["template"]["spec"]["containers"][0]["env"]
    found = apply(world, later)
    assert found.json()["metadata"]["labels"] == {"a": "1"}
    assert names(found) == ["B"], "that is another's"
    assert owners(found) == [("ann", "Apply"), ("bob", "Apply")]


def test_a_conflict_is_told_in_the_words_of_kubernetes(world: World) -> None:
    apply(world, deployment_manifest())
    found = apply(world, only(replicas=7), manager="bob")
    assert found.status_code == 409
    status = found.json()
    assert (
        status["message"] == 'Apply failed with 1 conflict: conflict with "ann" using apps/v1: .spec.replicas'
    )
    cause = {
        "reason": "FieldManagerConflict",
        "message": 'conflict with "ann" using apps/v1',
        "field": ".spec.replicas",
    }
    assert (status["reason"], status["details"]["causes"]) == ("Conflict", [cause])
    assert world.client.get(WEB).json()["spec"]["replicas"] == 2
    shared = apply(world, only(replicas=2), manager="bob")
    assert shared.status_code == 200, "both say the same"
    forced = apply(world, only(replicas=7), manager="bob", force="true")
    assert forced.json()["spec"]["replicas"] == 7
    conflict = apply(world, deployment_manifest())
    assert '"bob"' in conflict.json()["message"]


def test_who_changes_a_field_in_another_way_owns_it(world: World) -> None:
    apply(world, deployment_manifest())
    scaled = world.client.patch(
        f"{WEB}/scale",
        json={"spec": {"replicas": 4}},
        params={"fieldManager": "autoscaler"},
        headers={"content-type": MERGE},
    )
    assert scaled.status_code == 200
    assert owners(world.client.get(WEB)) == [("ann", "Apply"), ("autoscaler", "Update")]
    assert '"autoscaler"' in apply(world, deployment_manifest()).json()["message"]
    manifest = deployment_manifest()
    del manifest["spec"]["replicas"]
    left = apply(world, manifest)
    assert (left.status_code, left.json()["spec"]["replicas"]) == (200, 4)


def test_an_object_that_was_made_in_another_way_has_no_owners_before(world: World) -> None:
    world.create(DEPLOYMENTS, deployment_manifest())
    assert "managedFields" not in world.client.get(WEB).json()["metadata"]
    found = apply(world, only(replicas=3))
    assert (found.status_code, owners(found)) == (200, [("ann", "Apply")])


def test_a_dry_run_makes_nothing_and_shows_the_whole_object(world: World) -> None:
    assert apply(world, deployment_manifest(), dryRun="All").status_code == 201
    assert not world.jobs
    apply(world, deployment_manifest())
    live = world.client.get(WEB).json()
    assert apply(world, deployment_manifest(), dryRun="All").json() == live, "kubectl diff shows nothing"
    other = apply(world, deployment_manifest(replicas=3), dryRun="All").json()
    assert other == {**live, "spec": {**live["spec"], "replicas": 3}}
    assert not world.updates


def test_a_job_and_its_suspension(world: World) -> None:
    path = f"{JOBS}/hello"
    assert apply(world, job_manifest(suspend=True), path).json()["spec"]["suspend"] is True
    assert apply(world, job_manifest(suspend=False), path).json()["spec"]["suspend"] is False
    refused = apply(world, job_manifest(suspend=False, completions=9), path)
    assert refused.status_code == 422
    assert "keeps what it was created with" in refused.json()["message"]


def test_a_secret_has_no_owners(world: World) -> None:
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "db"}, "stringData": {"a": "b"}}
    assert apply(world, manifest, f"{SECRETS}/db").status_code == 201
    more = {**manifest, "stringData": {"c": "d"}}
    assert apply(world, more, f"{SECRETS}/db", "bob").json()["data"] == {"a": "", "c": ""}


@pytest.mark.parametrize(
    ("manifest", "query", "code", "text"),
    [
        (deployment_manifest(), {"manager": ""}, 422, "fieldManager: is required for apply patch"),
        ({**only(), "metadata": {"name": "other"}}, {}, 400, "(other) does not match"),
        ({**only(), "metadata": {"managedFields": [{"manager": "a"}]}}, {}, 400, "must be nil"),
        ({**only(), "kind": "Pod"}, {}, 400, "not apps/v1 Deployment"),
        (only(replicas="three"), {}, 422, "spec.replicas: a string is not an integer"),
        (["a"], {}, 400, "not an object"),
    ],
)
def test_what_is_refused(world: World, manifest: Any, query: dict[str, str], code: int, text: str) -> None:
    found = apply(world, manifest, **query)
    assert found.status_code == code, found.text
    assert text in found.json()["message"]


def test_parts_are_not_applied(world: World) -> None:
    apply(world, deployment_manifest())
    assert apply(world, {"spec": {"replicas": 1}}, f"{WEB}/scale").status_code == 415
    assert apply(world, {}, QUOTA.replace("pool", "other")).status_code == 404


def test_managers_are_kept_and_bounded() -> None:
    many = tuple(Manager(f"m{i}", UPDATE, NOW, frozenset({("f:spec", f"f:{i}")})) for i in range(30))
    first = (Manager("a", APPLY, NOW, frozenset({("f:spec", "f:b")})),)
    assert decoded(encoded(first + many)) == first + many
    for text in ("", "nonsense", '[["a"]]', "[1]", '{"a": 1}'):
        assert decoded(text) == ()
    kept = managers.updated({}, {"spec": {"x": 1}}, first + many, "me", NOW)
    assert len(kept) <= MOST_MANAGERS
    assert kept[0] == first[0]
    assert len(kept[-1].fields) == 31


def test_elements_of_lists_go_with_their_last_owner() -> None:
    live = {"spec": {"env": [{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]}}
    own = {"spec": {"env": [{"name": "A", "value": "1"}]}}
    _, known = managers.applied({}, own, (), "ann", NOW, force=False, api_version="v1")
    found, known = managers.applied(live, {"spec": {}}, known, "ann", NOW, force=False, api_version="v1")
    assert found == {"spec": {"env": [{"name": "B", "value": "2"}]}}
    with pytest.raises(Refusal, match=r'\.spec\.env\[name="B"\]\.value'):
        other = {"spec": {"env": [{"name": "B", "value": "3"}]}}
        mine = managers.applied(live, {"spec": live["spec"]}, (), "ann", NOW, force=False, api_version="v1")[
            1
        ]
        managers.applied(live, other, mine, "bob", NOW, force=False, api_version="v1")
