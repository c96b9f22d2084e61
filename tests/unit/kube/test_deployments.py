"""Manifests of Deployments: what becomes of each field, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.web.kube.core.deployments import service
from peloton.web.kube.core.refusals import Refusal
from peloton.wire.validation.v1alpha import check_spec

from .world import POOL, deployment_manifest


def with_container(**fields: Any) -> dict[str, Any]:
    manifest = deployment_manifest()
    manifest["spec"]["template"]["spec"]["containers"][0].update(fields)
    return manifest


def test_a_service() -> None:
    made = service(deployment_manifest(replicas=3), "team", POOL)
    assert (made.spec.name, made.spec.instance_count, made.batch_size) == ("web", 3, 1)
    assert made.spec.default_spec.containers[0].entrypoint.value == "sleep"
    check_spec(made.spec)


def test_a_change_of_an_annotation_of_the_template_is_one_of_the_pods() -> None:
    manifest = deployment_manifest()
    before = service(manifest, "team", POOL).spec.default_spec
    manifest["spec"]["template"]["metadata"]["annotations"] = {"kubectl.kubernetes.io/restartedAt": "now"}
    assert service(manifest, "team", POOL).spec.default_spec != before


@pytest.mark.parametrize(
    ("replicas", "strategy", "batch"),
    [
        (8, {}, 2),
        (2, {}, 1),
        (10, {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 3}}, 3),
        (10, {"rollingUpdate": {"maxUnavailable": "50%", "maxSurge": 0}}, 5),
        (10, {"rollingUpdate": {"maxUnavailable": 0}}, 1),
        (10, {"type": "Recreate"}, 0),
    ],
)
def test_the_strategy_is_a_batch(replicas: int, strategy: dict[str, Any], batch: int) -> None:
    assert (
        service(deployment_manifest(replicas=replicas, strategy=strategy), "team", POOL).batch_size == batch
    )


@pytest.mark.parametrize(
    ("manifest", "field"),
    [
        (deployment_manifest(replicas=0), "spec.replicas"),
        (deployment_manifest(replicas=-1), "spec.replicas"),
        (deployment_manifest(selector={"matchLabels": {"app": "other"}}), "spec.template.metadata.labels"),
        (deployment_manifest(selector={}), "spec.selector.matchLabels"),
        (deployment_manifest(minReadySeconds=5), "spec.minReadySeconds"),
        (deployment_manifest(strategy={"rollingUpdate": {"maxSurge": 1}}),
         "spec.strategy.rollingUpdate.maxSurge"),
        (deployment_manifest(strategy={"type": "Other"}), "spec.strategy.type"),
        (with_container(livenessProbe={"tcpSocket": {"port": 1}}),
         "spec.template.spec.containers[0].livenessProbe.tcpSocket"),
    ],
)  # fmt: skip
def test_what_cannot_be_kept_is_refused_with_its_path(manifest: dict[str, Any], field: str) -> None:
    with pytest.raises(Refusal) as caught:
        service(manifest, "team", POOL)
    assert field in [cause["field"] for cause in caught.value.details["causes"]]


def test_a_liveness_probe_is_a_health_check() -> None:
    probe = {"httpGet": {"path": "/ok", "port": "http"}, "periodSeconds": 5}
    ports = [{"name": "http", "containerPort": 8080, "hostPort": 8080}]
    container = service(
        with_container(livenessProbe=probe, ports=ports), "team", POOL
    ).spec.default_spec.containers[0]
    check = container.liveness_check
    assert (check.http_get.port, check.http_get.path, check.http_get.scheme) == (8080, "/ok", "http")
    assert (check.interval_secs, check.timeout_secs, check.max_consecutive_failures) == (5, 1, 3)
