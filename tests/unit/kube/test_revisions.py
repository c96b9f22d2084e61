"""Versions of jobs as ReplicaSets and ControllerRevisions, and the way back to one of them."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.web.kube import reading
from peloton.web.kube.core.revisions import MOST_VERSIONS, REVISION, revisions
from tests.unit.kube.world import (
    DAEMON_SETS,
    DEPLOYMENTS,
    STATEFUL_SETS,
    World,
    daemon_set_manifest,
    deployment_manifest,
    stateful_set_manifest,
)

REPLICA_SETS = "/apis/apps/v1/namespaces/team/replicasets"
CONTROLLER_REVISIONS = "/apis/apps/v1/namespaces/team/controllerrevisions"
MERGE = {"content-type": "application/merge-patch+json"}
STRATEGIC = {"content-type": "application/strategic-merge-patch+json"}
JSON = {"content-type": "application/json-patch+json"}


def with_command(word: str) -> dict[str, Any]:
    manifest = deployment_manifest()
    manifest["spec"]["template"]["spec"]["containers"][0]["command"] = [word]
    return manifest


def numbers(*words: str) -> list[tuple[int, tuple[int, ...]]]:
    """Revisions of versions 1, 2 and so on, whose commands are these words."""
    found = revisions((i, with_command(word)) for i, word in enumerate(words, 1))
    return [(each.number, each.versions) for each in found]


def test_a_revision_is_a_template_and_changes_of_other_fields_make_none() -> None:
    assert numbers("a") == [(1, (1,))]
    assert numbers("a", "a", "b") == [(1, (1, 2)), (3, (3,))]


def test_who_goes_back_to_a_template_gives_it_a_new_number() -> None:
    assert numbers("a", "b", "a") == [(2, (2,)), (3, (1, 3))]
    assert numbers("a", "b", "a", "a", "b") == [(3, (1, 3, 4)), (5, (2, 5))]


def test_what_clients_add_and_says_nothing_makes_no_other_template() -> None:
    """kubectl rolls back to a template with nulls that it had not before."""
    plain, filled = with_command("a"), with_command("a")
    filled["spec"]["template"]["metadata"]["creationTimestamp"] = None
    filled["spec"]["template"]["spec"]["containers"][0] |= {"resources": {}, "env": [], "tty": False}
    assert len(revisions([(1, plain), (2, filled)])) == 2
    del filled["spec"]["template"]["spec"]["containers"][0]["tty"]
    assert len(revisions([(1, plain), (2, filled)])) == 1


def change(world: World, patch: Any, headers: dict[str, str] = MERGE, path: str = DEPLOYMENTS) -> Any:
    answer = world.client.request("PATCH", f"{path}/web", json=patch, headers=headers)
    assert answer.status_code == 200, answer.text
    return answer.json()


def command(word: str) -> dict[str, Any]:
    container = {"name": "main", "command": [word]}
    return {"spec": {"template": {"spec": {"containers": [container]}}}}


@pytest.fixture
def world() -> World:
    made = World()
    manifest = with_command("one")
    manifest["metadata"]["annotations"] = {
        "kubernetes.io/change-cause": "first",
        "kubectl.kubernetes.io/last-applied-configuration": "{}",
    }
    assert made.create(DEPLOYMENTS, manifest).status_code == 201
    return made


def listed(world: World, path: str = REPLICA_SETS) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = world.client.get(path).json()["items"]
    return found


def test_a_deployment_has_a_replica_set_of_each_template(world: World) -> None:
    (only,) = listed(world)
    assert only["metadata"]["annotations"] == {"kubernetes.io/change-cause": "first", REVISION: "1"}
    assert only["status"]["readyReplicas"] == 2
    change(world, command("two"))
    old, new = listed(world)
    assert [each["metadata"]["annotations"][REVISION] for each in (old, new)] == ["1", "2"]
    assert old["metadata"]["name"] == only["metadata"]["name"]
    assert [each["spec"]["replicas"] for each in (old, new)] == [0, 2]
    assert new["spec"]["template"]["spec"]["containers"][0]["command"] == ["two"]
    (owner,) = new["metadata"]["ownerReferences"]
    deployment = world.client.get(f"{DEPLOYMENTS}/web").json()
    assert (owner["uid"], owner["controller"]) == (deployment["metadata"]["uid"], True)
    wanted = deployment["spec"]["selector"]["matchLabels"]
    assert wanted.items() <= new["metadata"]["labels"].items()


def test_undo_as_kubectl_patches_it(world: World) -> None:
    change(world, command("two"))
    old = listed(world)[0]
    patch = [
        {"op": "replace", "path": "/spec/template", "value": old["spec"]["template"]},
        {"op": "replace", "path": "/metadata/annotations", "value": {"kubernetes.io/change-cause": "first"}},
    ]
    back = change(world, patch, JSON)
    assert back["spec"]["template"] == old["spec"]["template"]
    assert [each["metadata"]["annotations"][REVISION] for each in listed(world)] == ["2", "3"]
    assert listed(world)[1]["metadata"]["name"] == old["metadata"]["name"]


def test_a_deployment_without_annotations_can_be_rolled_back_too() -> None:
    world = World()
    world.create(DEPLOYMENTS, deployment_manifest())
    found = world.client.get(f"{DEPLOYMENTS}/web").json()
    assert found["metadata"]["annotations"] == {}
    assert world.client.put(f"{DEPLOYMENTS}/web", json=found).status_code == 200
    assert not world.updates


def test_the_cause_of_a_change_may_be_told_after_it(world: World) -> None:
    change(world, command("two"))
    change(world, {"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}})
    causes = [each["metadata"]["annotations"]["kubernetes.io/change-cause"] for each in listed(world)]
    assert causes == ["first", "second"]


@pytest.mark.parametrize(
    ("path", "manifest"), [(DEPLOYMENTS, deployment_manifest), (STATEFUL_SETS, stateful_set_manifest)]
)
def test_replicas_that_are_not_given_are_filled_in_as_kubectl_needs_them(path: str, manifest: Any) -> None:
    world, given = World(), manifest()
    del given["spec"]["replicas"]
    assert world.create(path, given).json()["spec"]["replicas"] == 1
    assert world.client.put(f"{path}/web", json=given).status_code == 200
    assert not world.updates


def test_a_change_of_replicas_alone_makes_no_replica_set(world: World) -> None:
    change(world, {"spec": {"replicas": 3}})
    (only,) = listed(world)
    assert only["spec"]["replicas"] == 3


def test_versions_that_are_not_stored_are_left_out(world: World) -> None:
    change(world, command("two"))
    world.versions.clear()
    (only,) = listed(world)
    assert only["metadata"]["annotations"][REVISION] == "2"


def test_only_the_newest_versions_are_read_and_each_of_them_once(world: World) -> None:
    for i in range(MOST_VERSIONS + 5):
        change(world, command(f"v{i}"))
    assert len(listed(world)) == MOST_VERSIONS
    asked = [name for _, name, _ in world.cluster.asked].count("GetJob")
    assert asked == MOST_VERSIONS - 1
    listed(world)
    assert [name for _, name, _ in world.cluster.asked].count("GetJob") == asked


def test_manifests_that_are_kept_are_bounded(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_VERSION_CHARACTERS", 1000)
    for i in range(10):
        change(world, command(f"v{i}"))
    assert len(listed(world)) == 11
    known = reading.Known()
    for i in range(10):
        known.keep_version((None, "job", i), {"text": "x" * 300})
        known.keep_version((None, "job", i), {"text": "x" * 300})
    assert known.version_characters == sum(length for length, _ in known.versions.values()) <= 1000
    assert [number for *_, number in known.versions] == [7, 8, 9]


@pytest.mark.parametrize(
    ("path", "manifest"), [(DAEMON_SETS, daemon_set_manifest), (STATEFUL_SETS, stateful_set_manifest)]
)
def test_daemon_sets_and_stateful_sets_have_controller_revisions(path: str, manifest: Any) -> None:
    world = World()
    assert world.create(path, manifest()).status_code == 201
    before = world.client.get(f"{path}/web").json()["spec"]["template"]
    change(world, {"spec": {"template": {"metadata": {"annotations": {"at": "noon"}}}}}, STRATEGIC, path)
    old, new = listed(world, CONTROLLER_REVISIONS)
    assert [old["revision"], new["revision"]] == [1, 2]
    assert new["metadata"]["ownerReferences"][0]["name"] == "web"
    assert change(world, old["data"], STRATEGIC, path)["spec"]["template"] == before
    assert [each["revision"] for each in listed(world, CONTROLLER_REVISIONS)] == [2, 3]
    assert listed(world) == []


@pytest.mark.parametrize("path", [REPLICA_SETS, CONTROLLER_REVISIONS])
def test_revisions_are_read_only(world: World, path: str) -> None:
    assert world.create(path, deployment_manifest()).status_code == 405


def test_tables_of_revisions(world: World) -> None:
    headers = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"}
    (row,) = world.client.get(REPLICA_SETS, headers=headers).json()["rows"]
    assert row["cells"][1:4] == [2, 2, 2]
    world.create(DAEMON_SETS, daemon_set_manifest())
    (row,) = world.client.get(CONTROLLER_REVISIONS, headers=headers).json()["rows"]
    assert row["cells"][1:3] == ["daemonset.apps/web", 1]
