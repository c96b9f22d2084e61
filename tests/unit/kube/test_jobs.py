"""Manifests of Jobs: what becomes of each field, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.web.kube.core.jobs import job_config
from peloton.web.kube.core.names import manifest_of
from peloton.web.kube.core.refusals import Refusal

from .world import POOL, job_manifest


def config(manifest: dict[str, Any]) -> job_pb2.JobConfig:
    found = job_config(manifest, "team", POOL).config
    assert isinstance(found, job_pb2.JobConfig)
    return found


def refused(manifest: dict[str, Any]) -> dict[str, str]:
    """The fields that are refused, with what is said of each."""
    with pytest.raises(Refusal) as caught:
        job_config(manifest, "team", POOL)
    assert caught.value.code == 422
    return {cause["field"]: cause["message"] for cause in caught.value.details["causes"]}


def with_container(**fields: Any) -> dict[str, Any]:
    manifest = job_manifest()
    manifest["spec"]["template"]["spec"]["containers"][0].update(fields)
    return manifest


def with_pod(**fields: Any) -> dict[str, Any]:
    manifest = job_manifest()
    manifest["spec"]["template"]["spec"].update(fields)
    return manifest


def test_a_job() -> None:
    found = config(job_manifest(completions=5, parallelism=2, backoffLimitPerIndex=3))
    assert (found.type, found.name, found.instanceCount) == (job_pb2.BATCH, "hello", 5)
    assert (found.sla.maximumRunningInstances, found.respoolID.value) == (2, POOL)
    task = found.defaultConfig
    assert task.restartPolicy.maxFailures == 4
    assert (task.command.shell, task.command.value) == (False, "echo")
    assert list(task.command.arguments) == ["echo", "hello"]  # all of argv
    assert task.container.mesos.image.docker.name == "busybox"


def test_the_manifest_is_kept_with_its_labels() -> None:
    manifest = job_manifest()
    manifest["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "x" * 40_000}
    found = config(manifest)
    assert {label.key: label.value for label in found.labels}["app"] == "hello"
    manifest["metadata"]["namespace"] = "team"
    assert manifest_of(found.labels) == manifest


def test_a_manifest_that_is_not_whole_is_none() -> None:
    manifest = job_manifest()
    manifest["metadata"]["annotations"] = {"note": "x" * 40_000}
    labels = [label for label in config(manifest).labels if not label.key.endswith("manifest.1")]
    assert manifest_of(labels) is None


def test_what_the_server_fills_in_is_not_kept() -> None:
    manifest = job_manifest(selector={"matchLabels": {"batch.kubernetes.io/controller-uid": "x"}})
    manifest["metadata"] |= {"uid": "x", "resourceVersion": "7", "creationTimestamp": None, "generation": 1}
    manifest["status"] = {"active": 1}
    kept = manifest_of(config(manifest).labels)
    expected = job_manifest()
    expected["metadata"]["namespace"] = "team"
    assert kept == expected


def test_an_indexed_job_gets_its_index() -> None:
    command = config(job_manifest(completionMode="Indexed")).defaultConfig.command
    words = list(command.arguments)
    assert "JOB_COMPLETION_INDEX" in " ".join(words) and words[-2:] == ["echo", "hello"]


def test_variables_are_replaced_as_kubernetes_does() -> None:
    manifest = with_container(
        command=["echo", "$(A) $(UNKNOWN) $$(A)"],
        env=[{"name": "A", "value": "one"}, {"name": "B", "value": "$(A)!"}],
    )
    command = config(manifest).defaultConfig.command
    assert command.arguments[-1] == "one $(UNKNOWN) $(A)"
    variables = {each.name: each.value for each in command.environment.variables}
    assert variables == {"A": "one", "B": "one!"}


def test_resources() -> None:
    amounts = {"cpu": "500m", "memory": "1Gi", "ephemeral-storage": "100M", "nvidia.com/gpu": 2}
    resource = config(with_container(resources={"requests": amounts})).defaultConfig.resource
    assert (resource.cpuLimit, resource.memLimitMb, resource.gpuLimit) == (0.5, 1024, 2)
    assert resource.diskLimitMb == pytest.approx(100e6 / 2**20)


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (job_manifest(parallelism=3), "spec.completions"),
        (job_manifest(parallelism=0), "spec.parallelism"),
        (job_manifest(suspend="yes"), "spec.suspend"),
        (job_manifest(ttlSecondsAfterFinished=5), "spec.ttlSecondsAfterFinished"),
        (job_manifest(podFailurePolicy={"rules": [{"action": "Ignore"}]}), "spec.podFailurePolicy"),
        (job_manifest(backoffLimit=100), "spec.backoffLimit"),
        (job_manifest(completions="three"), "spec.completions"),
        (job_manifest(completions=4, parallelism=2, activeDeadlineSeconds=9), "spec.activeDeadlineSeconds"),
        (job_manifest(unknown=1), "spec.unknown"),
        (job_manifest(selector={"matchLabels": {"a": "b"}}), "spec.selector"),
        (with_pod(restartPolicy="Always"), "spec.template.spec.restartPolicy"),
        (with_pod(initContainers=[{"name": "x"}]), "spec.template.spec.initContainers"),
        (with_pod(affinity={"nodeAffinity": {"x": 1}}), "spec.template.spec.affinity"),
        (with_pod(volumes=[{"name": "x", "configMap": {"name": "y"}}]),
         "spec.template.spec.volumes[0].configMap"),
        (with_pod(serviceAccountName="me"), "spec.template.spec.serviceAccountName"),
        (with_container(command=None), "spec.template.spec.containers[0].command"),
        (with_container(env=[{"name": "A", "valueFrom": {"fieldRef": {}}}]),
         "spec.template.spec.containers[0].env[0].valueFrom"),
        (with_container(readinessProbe={"exec": {"command": ["true"]}}),
         "spec.template.spec.containers[0].readinessProbe"),
        (with_container(ports=[{"containerPort": 80}]), "spec.template.spec.containers[0].ports[0].hostPort"),
        (with_container(volumeMounts=[{"name": "x", "mountPath": "/x"}]),
         "spec.template.spec.containers[0].volumeMounts[0].name"),
        (with_container(resources={"requests": {"cpu": 1}, "limits": {"cpu": 2}}),
         "spec.template.spec.containers[0].resources.limits.cpu"),
        (with_container(resources={"requests": {"hugepages-2Mi": 1}}),
         "spec.template.spec.containers[0].resources.requests.hugepages-2Mi"),
        (with_container(resources={"requests": {"cpu": "lots"}}),
         "spec.template.spec.containers[0].resources.requests.cpu"),
        (with_container(workingDir="/tmp"), "spec.template.spec.containers[0].workingDir"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_its_path(manifest: dict[str, Any], field: str) -> None:
    assert field in refused(manifest)


def test_all_fields_are_refused_at_once() -> None:
    manifest = job_manifest(suspend=1, unknown=1)
    manifest["metadata"]["name"] = "Not A Name"
    assert set(refused(manifest)) == {"metadata.name", "spec.suspend", "spec.unknown"}


def test_what_says_nothing_is_not_refused() -> None:
    manifest = with_pod(securityContext={}, tolerations=[], affinity=None)
    manifest["spec"]["template"]["metadata"] = {"creationTimestamp": None}
    assert config(manifest).instanceCount == 1


def test_approximations_are_warned_of() -> None:
    made = job_config(
        job_manifest(completions=2, parallelism=2, backoffLimit=1, activeDeadlineSeconds=60), "team", POOL
    )
    assert made.config.sla.maxRunningTime == 60
    assert [text.partition(":")[0] for text in made.warnings] == [
        "spec.backoffLimit",
        "spec.activeDeadlineSeconds",
    ]


def test_hosts_are_selected() -> None:
    selected = config(with_pod(nodeSelector={"kubernetes.io/hostname": "h1"})).defaultConfig.constraint
    assert selected.type == task_pb2.Constraint.LABEL_CONSTRAINT
    label = selected.labelConstraint
    assert (label.label.key, label.label.value, label.requirement) == ("hostname", "h1", 0)
    both = config(with_pod(nodeSelector={"a": "b", "c": "d"})).defaultConfig.constraint
    assert both.type == task_pb2.Constraint.AND_CONSTRAINT and len(both.andConstraint.constraints) == 2


def test_volumes() -> None:
    manifest = with_pod(
        volumes=[{"name": "data", "hostPath": {"path": "/data"}}, {"name": "tmp", "emptyDir": {}}]
    )
    mounts = [{"name": "data", "mountPath": "/d", "readOnly": True}, {"name": "tmp", "mountPath": "/t"}]
    manifest["spec"]["template"]["spec"]["containers"][0]["volumeMounts"] = mounts
    data, tmp = config(manifest).defaultConfig.container.volumes
    assert (data.host_path, data.container_path, tmp.container_path) == ("/data", "/d", "/t")


def test_another_kind_or_namespace_is_refused() -> None:
    for manifest in (
        {**job_manifest(), "kind": "Pod"},
        {**job_manifest(), "metadata": {"name": "a", "namespace": "b"}},
    ):
        with pytest.raises(Refusal) as caught:
            job_config(manifest, "team", POOL)
        assert caught.value.code == 400
