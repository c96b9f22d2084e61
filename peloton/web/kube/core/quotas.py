"""v1 ResourceQuota: reservation and limit of a pool, and what a changed one makes of the pool."""

from __future__ import annotations

from collections.abc import Callable

from peloton.api.v0.respool import respool_pb2
from peloton.web.kube.core.cluster_objects import POOL_PATH, QUOTA_NAME, QUOTAS, quota_object
from peloton.web.kube.core.fields import Node
from peloton.web.kube.core.kinds import RESOURCE_QUOTA
from peloton.web.kube.core.manifests import Reading
from peloton.web.kube.core.names import Pool
from peloton.web.kube.core.quantities import megabytes, quantity
from peloton.web.kube.core.refusals import INVALID, REQUIRED
from peloton.web.kube.core.values import Object

_READ: dict[str, Callable[[object], float]] = {
    "cpu": quantity, "memory": megabytes, "disk": megabytes, "gpu": quantity
}  # fmt: skip
_HINTS = dict.fromkeys(("scopes", "scopeSelector"), "a pool's amounts are for all of its tasks")


def changed_pool(pool: Pool, given: Object) -> tuple[respool_pb2.ResourcePoolConfig | None, tuple[str, ...]]:
    """Return the config that a changed quota makes of a pool, and warnings; None where it changes nothing.

    Raises Refusal with all fields that cannot be kept.
    """
    reading = Reading.of(RESOURCE_QUOTA, given, pool.namespace)
    if reading.name != QUOTA_NAME:
        reading.problems.refuse("metadata.name", f"a pool has one quota, {QUOTA_NAME!r}", INVALID)
    if reading.labels:
        reading.problems.refuse("metadata.labels", "a pool has no labels")
    if set(reading.annotations) - {POOL_PATH}:
        reading.problems.warn("metadata.annotations", "are not kept: a pool has none")
    spec = reading.root.node("spec")
    hard = spec.node("hard")
    config = respool_pb2.ResourcePoolConfig()
    config.CopyFrom(pool.info.config)
    _change(hard, config, quota_object(pool)["spec"]["hard"])
    hard.close(dict.fromkeys(hard.keys(), f"a pool has {', '.join(name for name, _ in QUOTAS.values())}"))
    spec.close(_HINTS)
    reading.close()
    same = config == pool.info.config
    return (None if same else config), tuple(reading.problems.warnings)


def _change(hard: Node, config: respool_pb2.ResourcePoolConfig, shown: Object) -> None:
    """Change what differs from what was shown: amounts are rounded there."""
    held = {each.kind: each for each in config.resources}
    for kind, (name, _) in QUOTAS.items():
        keys = (f"requests.{name}", f"limits.{name}")
        if kind not in held and not any(map(hard.given, keys)):
            continue
        found = held.get(kind) or config.resources.add(kind=kind, share=1, type=respool_pb2.ELASTIC)
        for key, field in zip(keys, ("reservation", "limit"), strict=True):
            value = hard.value(key)
            if value is None:
                hard.refuse(key, "required: a pool has both for each kind", REQUIRED)
            elif value != shown.get(key):
                _set(hard, key, found, field, _READ[kind])


def _set(
    hard: Node,
    key: str,
    found: respool_pb2.ResourceConfig,
    field: str,
    read: Callable[[object], float],
) -> None:
    try:
        setattr(found, field, read(hard.value(key)))
    except ValueError as error:
        hard.refuse(key, str(error), INVALID)
