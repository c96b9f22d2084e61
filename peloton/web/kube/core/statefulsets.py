"""apps/v1 StatefulSet: the manifest as a service of ours whose instances have persistent volumes."""

from __future__ import annotations

from peloton.model.plural import plural
from peloton.web.kube.core.deployments import (
    DEFAULT_UNAVAILABLE,
    MOST_REPLICAS,
    Service,
    check_fixed,
    check_selector,
    service_of,
    share,
)
from peloton.web.kube.core.fields import Node
from peloton.web.kube.core.kinds import STATEFUL_SET
from peloton.web.kube.core.manifests import Reading
from peloton.web.kube.core.quantities import megabytes
from peloton.web.kube.core.refusals import INVALID, REQUIRED
from peloton.web.kube.core.secret_uses import Keys
from peloton.web.kube.core.templates import Template
from peloton.web.kube.core.values import Object

LARGEST_MB = 2**31 - 1
_HINTS = {
    "ordinals": "instances have numbers from 0 on",
    "minReadySeconds": "a pod counts as available as soon as it runs",
}


def stateful_service(given: Object, namespace: str, pool_id: str, secrets: Keys | None = None) -> Service:
    """Translate the manifest of a StatefulSet. Raises Refusal with all fields that cannot be kept."""
    reading = Reading.of(STATEFUL_SET, given, namespace, pool_id, secrets)
    spec = reading.root.node("spec")
    replicas = spec.integer("replicas", 1, 0, MOST_REPLICAS)
    if spec.given("replicas") and not replicas:
        spec.refuse("replicas", "0: a service of Peloton has at least one instance; delete it instead")
    claims = spec.nodes("volumeClaimTemplates")
    name, size_mb = _claim(spec, claims)
    template = Template(spec.node("template"), ("Always",), claim=name, secrets=reading.secrets)
    template.pod.volume.size_mb = size_mb
    if name and not template.pod.volume.container_path:
        path = f"{spec.at('template')}.spec.containers[0].volumeMounts"
        reading.problems.refuse(path, f"the container mounts the claim {name!r} nowhere", REQUIRED)
    check_selector(spec, template)
    batch = _batch_size(spec, replicas)
    _check_ways(spec)
    check_fixed(spec, template, _HINTS)
    reading.close()
    # kubectl reads them of the object; Kubernetes fills them in, too.
    reading.manifest["spec"].setdefault("updateStrategy", {"type": "RollingUpdate"})
    reading.manifest["spec"].setdefault("replicas", replicas)
    return service_of(reading, template, replicas, batch, False)


def _claim(spec: Node, claims: list[Node]) -> tuple[str, int]:
    """Return name and size in MB of the volume that each instance has."""
    if len(claims) != 1:
        text = f"{plural(len(claims), 'claim')}: an instance of Peloton has one volume"
        spec.refuse("volumeClaimTemplates", text if claims else f"{text}; without any, make a Deployment")
        return "", 1
    (claim,) = claims
    claim.only("apiVersion", ("v1",), "v1")
    claim.only("kind", ("PersistentVolumeClaim",), "PersistentVolumeClaim")
    metadata, own = claim.node("metadata"), claim.node("spec")
    name = metadata.text("name")
    metadata.require("name", "each claim has a name")
    metadata.close()
    if [*own.texts("accessModes")] not in ([], ["ReadWriteOnce"], ["ReadWriteOncePod"]):
        own.refuse("accessModes", "ReadWriteOnce: a volume is on one host, for one instance")
    own.only("volumeMode", ("Filesystem",), "Filesystem")
    size_mb = _size_mb(own.node("resources"))
    own.close(
        {
            "storageClassName": "hosts have volumes of one kind; on Kubernetes, hostmgr's settings name it",
            "selector": "the volume is made",
            "dataSource": "the volume is empty at first",
        }
    )
    claim.value("status")
    claim.close()
    return name, size_mb


def _size_mb(resources: Node) -> int:
    requests = resources.node("requests")
    try:
        size_mb = round(megabytes(requests.value("storage")))
    except ValueError as error:
        requests.refuse("storage", str(error), INVALID)
        size_mb = 1
    if not 1 <= size_mb <= LARGEST_MB:
        requests.refuse("storage", f"between 1Mi and {LARGEST_MB}Mi", INVALID)
        size_mb = 1
    requests.close()
    resources.close()
    return size_mb


def _batch_size(spec: Node, replicas: int) -> int:
    """Return how many pods an update replaces at a time: one, where nothing else is said."""
    strategy = spec.node("updateStrategy")
    rolling = strategy.node("rollingUpdate")
    strategy.only("type", ("RollingUpdate",), "RollingUpdate: Peloton replaces the pods")
    rolling.only("partition", (0,), "0: an update goes over all pods")
    given = rolling.value("maxUnavailable")
    size = share(1 if given is None else given, replicas)
    if size is None:
        rolling.refuse(
            "maxUnavailable", f"not a number and not a percentage, such as {DEFAULT_UNAVAILABLE}", INVALID
        )
    rolling.close()
    strategy.close()
    return max(1, size or 0)


def _check_ways(spec: Node) -> None:
    """Refuse what Peloton does not do with such pods, and warn where Kubernetes does it unasked."""
    if spec.given("podManagementPolicy"):
        spec.only(
            "podManagementPolicy",
            ("Parallel",),
            "Parallel: Peloton does not wait for one pod before the next",
        )
    else:
        spec.problems.warn(spec.at("podManagementPolicy"), "pods start at once, as with Parallel")
    if spec.text("serviceName"):
        spec.problems.warn(spec.at("serviceName"), "has no effect: pods have no names in DNS")
    policy = spec.node("persistentVolumeClaimRetentionPolicy")
    for key in ("whenDeleted", "whenScaled"):
        policy.only(key, ("Retain",), "Retain: `peloton volume delete` deletes volumes")
    policy.close()
