"""StatefulSets: services of ours with persistent volumes."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.statefulsets import stateful_service
from peloton.wire.validation.v1alpha import check_spec

from .world import DEPLOYMENTS, POOL, STATEFUL_SETS, World, claim, deployment_manifest, stateful_set_manifest


def with_claims(*claims: Any) -> dict[str, Any]:
    manifest = stateful_set_manifest()
    manifest["spec"]["volumeClaimTemplates"] = list(claims)
    return manifest


def with_mounts(*mounts: Any) -> dict[str, Any]:
    manifest = stateful_set_manifest()
    manifest["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = list(mounts)
    return manifest


def test_a_service_with_volumes() -> None:
    manifest = stateful_set_manifest(replicas=3, serviceName="db")
    manifest["spec"]["template"]["spec"]["volumes"] = [{"name": "tmp", "emptyDir": {}}]
    container = manifest["spec"]["template"]["spec"]["containers"][0]
    container["volumeMounts"].append({"name": "tmp", "mountPath": "tmp"})
    made = stateful_service(manifest, "team", POOL)
    pod = made.spec.default_spec
    assert (pod.volume.container_path, pod.volume.size_mb) == ("data", 64)
    assert [mount.name for mount in pod.containers[0].volume_mounts] == ["tmp"]
    assert (made.spec.instance_count, made.batch_size) == (3, 1)
    assert [warning.partition(":")[0] for warning in made.warnings] == ["spec.serviceName"]
    check_spec(made.spec)


def test_pods_that_start_at_once_are_a_warning_where_nothing_is_said() -> None:
    manifest = stateful_set_manifest()
    del manifest["spec"]["podManagementPolicy"]
    (warning,) = stateful_service(manifest, "team", POOL).warnings
    assert warning.startswith("spec.podManagementPolicy: ")


def in_order() -> dict[str, Any]:
    manifest = stateful_set_manifest()
    manifest["spec"]["podManagementPolicy"] = "OrderedReady"
    return manifest


MOUNT = {"name": "data", "mountPath": "data"}


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (with_claims(), "spec.volumeClaimTemplates"),
        (with_claims(claim(), claim()), "spec.volumeClaimTemplates"),
        (with_claims(claim(accessModes=["ReadWriteMany"])), "spec.volumeClaimTemplates[0].spec.accessModes"),
        (with_claims(claim(storageClassName="fast")), "spec.volumeClaimTemplates[0].spec.storageClassName"),
        (with_claims(claim(volumeMode="Block")), "spec.volumeClaimTemplates[0].spec.volumeMode"),
        (with_claims(claim(resources={})), "spec.volumeClaimTemplates[0].spec.resources.requests.storage"),
        (with_claims(claim(resources={"requests": {"storage": "1E"}})),
         "spec.volumeClaimTemplates[0].spec.resources.requests.storage"),
        (with_mounts(), "spec.template.spec.containers[0].volumeMounts"),
        (with_mounts(MOUNT, MOUNT), "spec.template.spec.containers[0].volumeMounts"),
        (with_mounts({**MOUNT, "readOnly": True}), "spec.template.spec.containers[0].volumeMounts"),
        (stateful_set_manifest(replicas=0), "spec.replicas"),
        (stateful_set_manifest(updateStrategy={"type": "OnDelete"}), "spec.updateStrategy.type"),
        (stateful_set_manifest(updateStrategy={"rollingUpdate": {"partition": 1}}),
         "spec.updateStrategy.rollingUpdate.partition"),
        (in_order(), "spec.podManagementPolicy"),
        (stateful_set_manifest(persistentVolumeClaimRetentionPolicy={"whenDeleted": "Delete"}),
         "spec.persistentVolumeClaimRetentionPolicy.whenDeleted"),
        (stateful_set_manifest(ordinals={"start": 1}), "spec.ordinals"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_its_path(manifest: dict[str, Any], field: str) -> None:
    with pytest.raises(Refusal) as caught:
        stateful_service(manifest, "team", POOL)
    assert field in [cause["field"] for cause in caught.value.details["causes"]]


def test_it_is_beside_a_deployment_of_the_same_name() -> None:
    world = World()
    assert world.create(STATEFUL_SETS, stateful_set_manifest()).status_code == 201
    assert world.create(DEPLOYMENTS, deployment_manifest()).status_code == 201
    found = world.client.get(f"{STATEFUL_SETS}/web").json()
    assert found["status"]["updateRevision"] == found["status"]["currentRevision"] == "1"
    assert found["status"]["readyReplicas"] == 2
    assert [len(world.client.get(path).json()["items"]) for path in (STATEFUL_SETS, DEPLOYMENTS)] == [1, 1]


def test_it_is_scaled_and_updated_in_batches_of_one() -> None:
    world = World()
    world.create(STATEFUL_SETS, stateful_set_manifest())
    scale = world.client.get(f"{STATEFUL_SETS}/web/scale").json()
    scale["spec"]["replicas"] = 4
    assert world.client.put(f"{STATEFUL_SETS}/web/scale", json=scale).json()["spec"]["replicas"] == 4
    (update,) = world.updates
    assert (update.update_spec.batch_size, update.spec.instance_count) == (1, 4)
    assert update.spec.default_spec.volume.size_mb == 64
    assert world.client.get(DEPLOYMENTS).json()["items"] == []
