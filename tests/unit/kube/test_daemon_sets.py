"""DaemonSets: daemon jobs of ours."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.api.v0.job import job_pb2
from peloton.web.kube.core.daemonsets import daemon
from peloton.web.kube.core.refusals import Refusal
from peloton.wire.validation.job import check_new_daemon, validated

from .world import DAEMON_SETS, DEPLOYMENTS, HOSTS, PODS, POOL, World, daemon_set_manifest

KIND = {"content-type": "application/strategic-merge-patch+json"}


def annotated(**annotations: str) -> dict[str, Any]:
    manifest = daemon_set_manifest()
    manifest["metadata"]["annotations"] = annotations
    return manifest


def test_a_daemon_job() -> None:
    manifest = daemon_set_manifest()
    manifest["spec"]["template"]["spec"] |= {"priorityClassName": "high", "nodeSelector": {"disk": "ssd"}}
    made = daemon(manifest, "team", POOL)
    assert (made.config.type, made.config.instanceCount, made.batch_size) == (job_pb2.DAEMON, 0, 1)
    assert made.config.defaultConfig.constraint.labelConstraint.label.key == "disk"
    assert made.config.sla.priorityClass == made.spec.sla.priority_class == "high"
    validated(made.config)
    check_new_daemon(made.config)


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (daemon_set_manifest(replicas=2), "spec.replicas"),
        (daemon_set_manifest(selector={}), "spec.selector.matchLabels"),
        (daemon_set_manifest(minReadySeconds=1), "spec.minReadySeconds"),
        (daemon_set_manifest(updateStrategy={"type": "OnDelete"}), "spec.updateStrategy.type"),
        (daemon_set_manifest(updateStrategy={"rollingUpdate": {"maxSurge": 1}}),
         "spec.updateStrategy.rollingUpdate.maxSurge"),
        (daemon_set_manifest(updateStrategy={"rollingUpdate": {"maxUnavailable": "10%"}}),
         "spec.updateStrategy.rollingUpdate.maxUnavailable"),
        (annotated(**{"peloton/preemptible": "true"}), "metadata.annotations[peloton/preemptible]"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_its_path(manifest: dict[str, Any], field: str) -> None:
    with pytest.raises(Refusal) as caught:
        daemon(manifest, "team", POOL)
    assert [cause["field"] for cause in caught.value.details["causes"]] == [field]


def test_its_status_is_that_of_its_hosts() -> None:
    world = World()
    assert world.create(DAEMON_SETS, daemon_set_manifest()).status_code == 201
    found = world.client.get(f"{DAEMON_SETS}/web").json()
    assert found["status"] == {
        "observedGeneration": 1, "desiredNumberScheduled": HOSTS, "currentNumberScheduled": HOSTS,
        "updatedNumberScheduled": HOSTS, "numberReady": HOSTS, "numberAvailable": HOSTS,
        "numberUnavailable": 0, "numberMisscheduled": 0,
    }  # fmt: skip
    owners = {pod["metadata"]["ownerReferences"][0]["kind"] for pod in world.client.get(PODS).json()["items"]}
    assert owners == {"DaemonSet"}
    assert world.client.get(DEPLOYMENTS).json()["items"] == []


def test_one_without_hosts_yet_is_not_rolled_out() -> None:
    world = World()
    world.create(DAEMON_SETS, daemon_set_manifest())
    (config,) = world.jobs.values()
    config.instanceCount = 0
    status = world.client.get(f"{DAEMON_SETS}/web").json()["status"]
    assert (status["observedGeneration"], status["desiredNumberScheduled"]) == (0, 0)


def test_an_update_goes_over_the_hosts_in_batches() -> None:
    world = World()
    strategy = {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 2}}
    world.create(DAEMON_SETS, daemon_set_manifest(updateStrategy=strategy))
    same = world.client.put(f"{DAEMON_SETS}/web", json=world.client.get(f"{DAEMON_SETS}/web").json())
    assert (same.status_code, world.updates) == (200, [])
    patch = '{"spec": {"template": {"metadata": {"annotations": {"restarted": "now"}}}}}'
    found = world.client.patch(f"{DAEMON_SETS}/web", content=patch, headers=KIND)
    assert found.status_code == 200
    (update,) = world.updates
    assert (update.update_spec.batch_size, update.spec.instance_count) == (2, 0)
    assert found.json()["spec"]["updateStrategy"] == strategy


def test_it_is_deleted_with_its_pods() -> None:
    world = World()
    world.create(DAEMON_SETS, daemon_set_manifest())
    assert world.client.delete(f"{DAEMON_SETS}/web").status_code == 200
    assert not world.jobs


def test_a_daemon_job_of_another_api_is_one() -> None:
    world = World()
    config = job_pb2.JobConfig(name="native", type=job_pb2.DAEMON, instanceCount=2)
    config.respoolID.value = POOL
    job_id = world.add(config)
    (found,) = world.client.get(DAEMON_SETS).json()["items"]
    assert (found["metadata"]["name"], found["spec"]["updateStrategy"]["type"]) == (job_id, "RollingUpdate")
