"""apps/v1 Deployment: the manifest as a service of ours."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.web.kube.core.fields import Node
from peloton.web.kube.core.kinds import DEPLOYMENT
from peloton.web.kube.core.manifests import OWNER, TEAM, Reading
from peloton.web.kube.core.secret_uses import Keys, SecretFile
from peloton.web.kube.core.templates import Template
from peloton.web.kube.core.values import Object

MOST_REPLICAS = 100_000
DEFAULT_UNAVAILABLE = "25%"
_PERCENT = re.compile(r"\d{1,4}%", re.ASCII)
_HINTS = {
    "minReadySeconds": "a pod counts as available as soon as it runs",
    "revisionHistoryLimit": "Peloton keeps the workflows of a job",
}


@dataclass(frozen=True, slots=True)
class Service:
    """What a manifest came to."""

    name: str
    manifest: Object
    spec: stateless_pb2.JobSpec
    batch_size: int
    """Pods that an update replaces at a time; 0: all."""
    paused: bool
    warnings: tuple[str, ...] = ()
    secret_files: tuple[SecretFile, ...] = ()


def service(given: Object, namespace: str, pool_id: str, secrets: Keys | None = None) -> Service:
    """Translate the manifest of a Deployment. Raises Refusal with all fields that cannot be kept."""
    reading = Reading.of(DEPLOYMENT, given, namespace, pool_id, secrets)
    spec = reading.root.node("spec")
    replicas = spec.integer("replicas", 1, 0, MOST_REPLICAS)
    if spec.given("replicas") and not replicas:
        spec.refuse("replicas", "0: a service of Peloton has at least one instance; delete it instead")
    template = Template(spec.node("template"), ("Always",), secrets=reading.secrets)
    check_selector(spec, template)
    batch = _batch_size(spec, replicas)
    paused = spec.flag("paused")
    spec.only("progressDeadlineSeconds", (600,), "Peloton does not give up updates for their time")
    check_fixed(spec, template)
    reading.close()
    # kubectl reads it of the object; Kubernetes fills it in, too.
    reading.manifest["spec"].setdefault("replicas", replicas)
    return service_of(reading, template, replicas, batch, paused)


def check_fixed(spec: Node, template: Template, hints: Mapping[str, str] | None = None) -> None:
    """Refuse what pods of no service have, and all that was not read of its specification."""
    if template.deadline:
        path = f"{spec.at('template')}.spec.activeDeadlineSeconds"
        spec.problems.refuse(path, "pods of services run until they are stopped")
    spec.only("minReadySeconds", (0,), _HINTS["minReadySeconds"])
    if spec.given("revisionHistoryLimit"):
        spec.integer("revisionHistoryLimit")
        spec.problems.warn(spec.at("revisionHistoryLimit"), "has no effect: Peloton keeps its own history")
    spec.close({**_HINTS, **(hints or {})})


def service_of(reading: Reading, template: Template, replicas: int, batch: int, paused: bool) -> Service:
    """Return the service of a manifest that was read. Raises Refusal for one that is too large."""
    made = stateless_pb2.JobSpec(
        name=reading.name,
        owner=reading.annotations.get(OWNER, ""),
        owning_team=reading.annotations.get(TEAM, reading.namespace),
        instance_count=replicas,
        default_spec=template.pod,
        respool_id=peloton_pb2.ResourcePoolID(value=reading.pool_id),
    )
    made.sla.preemptible = reading.preemptible
    made.sla.priority_class = template.priority_class
    made.labels.extend(peloton_pb2.Label(key=key, value=text) for key, text in reading.kept_labels())
    warnings = tuple(reading.problems.warnings)
    return Service(reading.name, reading.manifest, made, batch, paused, warnings, template.secret_files)


def check_selector(spec: Node, template: Template) -> None:
    """Refuse a selector that the pods do not match, as Kubernetes does, and one with expressions."""
    selector = spec.node("selector")
    wanted = selector.mapping("matchLabels")
    if not wanted:
        selector.refuse("matchLabels", "give the labels of the template", "FieldValueRequired")
    for key, text in wanted.items():
        if template.labels.get(key) != text:
            path = f"{spec.at('template')}.metadata.labels"
            spec.problems.refuse(path, f"the selector's {key}={text} is not in them", "FieldValueInvalid")
    selector.close({"matchExpressions": "give matchLabels"})


def _batch_size(spec: Node, replicas: int) -> int:
    """Return how many pods an update replaces at a time; 0: all."""
    strategy = spec.node("strategy")
    kind = strategy.text("type") or "RollingUpdate"
    rolling = strategy.node("rollingUpdate")
    strategy.only("type", ("RollingUpdate", "Recreate"), "RollingUpdate or Recreate")
    if kind == "Recreate":
        if rolling:
            strategy.refuse("rollingUpdate", "not with Recreate", "FieldValueInvalid")
        return 0
    surge = rolling.value("maxSurge")
    if surge not in (None, 0, "0", "0%"):
        rolling.refuse("maxSurge", "0: Peloton replaces pods, and starts none beside them")
    given = rolling.value("maxUnavailable")
    size = share(DEFAULT_UNAVAILABLE if given is None else given, replicas)
    if size is None:
        rolling.refuse("maxUnavailable", f"{given!r} is no number and no percentage", "FieldValueInvalid")
    rolling.close()
    strategy.close()
    return max(1, size or 0)


def share(value: Any, replicas: int) -> int | None:
    """Return a number of pods, given as such or in percent, rounded down; None for what is neither."""
    if isinstance(value, str) and _PERCENT.fullmatch(value):
        return replicas * min(100, int(value[:-1])) // 100
    plain = isinstance(value, int) and not isinstance(value, bool) and value >= 0
    return min(value, replicas) if plain else None
