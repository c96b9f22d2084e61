"""apps/v1 DaemonSet: the manifest as a daemon job of ours, with one instance on each host."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.web.kube.core.deployments import check_fixed, check_selector, share
from peloton.web.kube.core.fields import Node
from peloton.web.kube.core.kinds import DAEMON_SET
from peloton.web.kube.core.manifests import OWNER, PREEMPTIBLE, TEAM, Reading
from peloton.web.kube.core.secret_uses import Keys, SecretFile
from peloton.web.kube.core.templates import Template
from peloton.web.kube.core.values import Object
from peloton.wire.v1alpha.task_config import task_config

MOST_AT_ONCE = 100_000
_PERCENTAGE = "a number: how many hosts there are is not known beforehand"


@dataclass(frozen=True, slots=True)
class Daemon:
    """What a manifest came to: `config` creates the job, `spec` updates it."""

    name: str
    manifest: Object
    config: job_pb2.JobConfig
    spec: stateless_pb2.JobSpec
    batch_size: int
    """Hosts that an update goes over at a time."""
    warnings: tuple[str, ...] = ()
    paused: bool = False
    secret_files: tuple[SecretFile, ...] = ()


def daemon(given: Object, namespace: str, pool_id: str, secrets: Keys | None = None) -> Daemon:
    """Translate the manifest of a DaemonSet. Raises Refusal with all fields that cannot be kept."""
    reading = Reading.of(DAEMON_SET, given, namespace, pool_id, secrets)
    spec = reading.root.node("spec")
    template = Template(spec.node("template"), ("Always",), secrets=reading.secrets)
    check_selector(spec, template)
    batch = _batch_size(spec)
    check_fixed(spec, template)
    if reading.preemptible:
        path = f"metadata.annotations[{PREEMPTIBLE}]"
        reading.problems.refuse(path, "daemon jobs are never preempted", "FieldValueInvalid")
    reading.close()
    # kubectl reads it of the object; Kubernetes fills it in, too.
    reading.manifest["spec"].setdefault("updateStrategy", {"type": "RollingUpdate"})
    labels = reading.kept_labels()
    owner, team = reading.annotations.get(OWNER, ""), reading.annotations.get(TEAM, namespace)
    config = job_pb2.JobConfig(name=reading.name, type=job_pb2.DAEMON, owner=owner, owningTeam=team)
    config.sla.priorityClass = template.priority_class
    config.respoolID.value = pool_id
    config.defaultConfig.CopyFrom(task_config(template.pod, "spec.template"))
    made = stateless_pb2.JobSpec(
        name=reading.name,
        owner=owner,
        owning_team=team,
        default_spec=template.pod,
        respool_id=peloton_pb2.ResourcePoolID(value=pool_id),
    )
    made.sla.priority_class = template.priority_class
    for key, text in labels:
        config.labels.add(key=key, value=text)
        made.labels.add(key=key, value=text)
    return Daemon(
        reading.name,
        reading.manifest,
        config,
        made,
        batch,
        tuple(reading.problems.warnings),
        secret_files=template.secret_files,
    )


def _batch_size(spec: Node) -> int:
    """Return how many hosts an update goes over at a time."""
    strategy = spec.node("updateStrategy")
    rolling = strategy.node("rollingUpdate")
    strategy.only("type", ("RollingUpdate",), "RollingUpdate: Peloton replaces the pods")
    if rolling.value("maxSurge") not in (None, 0, "0", "0%"):
        rolling.refuse("maxSurge", "0: Peloton replaces pods, and starts none beside them")
    given = rolling.value("maxUnavailable")
    size = share(1 if given is None else given, MOST_AT_ONCE)
    if isinstance(given, str) or size is None:
        rolling.refuse("maxUnavailable", _PERCENTAGE, "FieldValueInvalid")
    rolling.close()
    strategy.close()
    return max(1, size or 0)
