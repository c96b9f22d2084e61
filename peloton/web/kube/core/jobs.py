"""batch/v1 Job: the manifest as a job of ours, a job of ours as an object."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from peloton.api.v0.job import job_pb2
from peloton.model.task import MAX_FAILURES
from peloton.web.kube.core.fields import Node
from peloton.web.kube.core.kinds import JOB
from peloton.web.kube.core.manifests import OWNER, TEAM, Reading, stripped, without_applied
from peloton.web.kube.core.secret_uses import Keys, SecretFile
from peloton.web.kube.core.templates import Template
from peloton.web.kube.core.values import Object
from peloton.wire.v1alpha.task_config import task_config

MOST_COMPLETIONS = 100_000
DEFAULT_BACKOFF_LIMIT = 6
INDEX = "batch.kubernetes.io/job-completion-index"
CONTROLLER_UID, OLD_CONTROLLER_UID = "batch.kubernetes.io/controller-uid", "controller-uid"
_HINTS = {
    "ttlSecondsAfterFinished": "Peloton keeps ended jobs: delete them, or see archiver in the documentation",
    "podFailurePolicy": "use retry rules of Peloton's own API",
    "successPolicy": "a job succeeds when all of its pods have",
    "maxFailedIndexes": "a job fails when one index has failed too often",
    "selector": "the selector is made",
    "managedBy": "Peloton manages it",
}


@dataclass(frozen=True, slots=True)
class Made:
    """What a manifest came to."""

    name: str
    manifest: Object
    config: Any
    warnings: tuple[str, ...] = ()
    suspended: bool = False
    secret_files: tuple[SecretFile, ...] = ()


def job_config(given: Object, namespace: str, pool_id: str, secrets: Keys | None = None) -> Made:
    """Translate the manifest of a Job. Raises Refusal with all fields that cannot be kept."""
    reading = Reading.of(JOB, given, namespace, pool_id, secrets)
    spec = reading.root.node("spec")
    _drop_selector(reading, spec)
    suspended = take_suspension(reading, spec)
    config, template = batch_config(reading, spec, pool_id)
    return finished(reading, config, template, "spec.template", suspended)


def batch_config(reading: Reading, spec: Node, pool_id: str) -> tuple[job_pb2.JobConfig, Template]:
    """Translate the specification of a Job; what its pods run is still missing."""
    completions, parallelism = _numbers(spec)
    indexed = spec.text("completionMode") == "Indexed"
    spec.only("completionMode", ("Indexed", "NonIndexed"), "Indexed or NonIndexed")
    template = Template(spec.node("template"), ("Never", "OnFailure"), indexed, secrets=reading.secrets)
    template.pod.restart_policy.max_failures = _failures(spec, completions)
    config = job_pb2.JobConfig(
        name=reading.name,
        type=job_pb2.BATCH,
        owner=reading.annotations.get(OWNER, ""),
        owningTeam=reading.annotations.get(TEAM, reading.namespace),
        instanceCount=completions,
    )
    config.sla.preemptible = reading.preemptible
    config.sla.priorityClass = template.priority_class
    config.sla.maximumRunningInstances = parallelism if parallelism < completions else 0
    config.sla.maxRunningTime = _deadline(spec, template, completions, parallelism)
    config.respoolID.value = pool_id
    _check_fixed(spec)
    spec.close(_HINTS)
    return config, template


def finished(
    reading: Reading, config: job_pb2.JobConfig, template: Template, path: str, suspended: bool
) -> Made:
    """End the reading, and fill in the labels and what the pods run. Raises Refusal."""
    reading.close()
    for key, text in reading.kept_labels():
        config.labels.add(key=key, value=text)
    config.defaultConfig.CopyFrom(task_config(template.pod, path))
    warnings = tuple(reading.problems.warnings)
    return Made(reading.name, reading.manifest, config, warnings, suspended, template.secret_files)


def take_suspension(reading: Reading, spec: Node) -> bool:
    """Take `suspend` out of the manifest: whether a job is suspended is part of its state."""
    if spec.given("suspend"):
        reading.manifest["spec"] = {
            key: value for key, value in reading.manifest["spec"].items() if key != "suspend"
        }
    return spec.flag("suspend")


def split_suspension(manifest: Object) -> tuple[bool | None, Object]:
    """Return whether a Job is to be suspended, None where that is no boolean, and what else is said of it."""
    rest = without_applied(stripped(manifest))
    spec = rest.get("spec")
    if not isinstance(spec, dict):
        return False, rest
    suspend = spec.pop("suspend", None)
    if set((spec.get("selector") or {}).get("matchLabels") or ()) == {CONTROLLER_UID}:
        del spec["selector"]
    return (False if suspend is None else suspend if isinstance(suspend, bool) else None), rest


def _drop_selector(reading: Reading, spec: Node) -> None:
    """Leave out the selector that this API shows: it comes back with what clients change."""
    selector = spec.value("selector") or {}
    labels = selector.get("matchLabels", {}) if isinstance(selector, dict) else {}
    if isinstance(labels, dict) and set(labels) == {CONTROLLER_UID}:
        reading.manifest["spec"].pop("selector", None)
    elif selector:
        spec.refuse("selector", _HINTS["selector"])


def _numbers(spec: Node) -> tuple[int, int]:
    """Return how many pods are to succeed, and how many run at a time."""
    parallelism = spec.integer("parallelism", 1, 0, MOST_COMPLETIONS)
    if not spec.given("completions") and parallelism > 1:
        text = "required with parallelism: Peloton has no jobs whose pods share a queue of work"
        spec.refuse("completions", text, "FieldValueRequired")
    completions = spec.integer("completions", 1, 1, MOST_COMPLETIONS)
    if not parallelism:
        spec.refuse("parallelism", "0 pods at a time: give suspend: true for a Job that is to run later")
    return completions, min(parallelism, completions) or 1


def _failures(spec: Node, completions: int) -> int:
    """Return the runs of an instance of which each may fail."""
    per_index = spec.given("backoffLimitPerIndex")
    limit = spec.integer("backoffLimit", DEFAULT_BACKOFF_LIMIT)
    if per_index:
        limit = spec.integer("backoffLimitPerIndex")
    elif completions > 1 and spec.given("backoffLimit"):
        spec.problems.warn(spec.at("backoffLimit"), "counts for each pod, and not for all of the job")
    if limit + 1 > MAX_FAILURES:
        key = "backoffLimitPerIndex" if per_index else "backoffLimit"
        spec.refuse(key, f"{limit} is more than {MAX_FAILURES - 1}", "FieldValueInvalid")
        return 1
    return limit + 1


def _deadline(spec: Node, template: Template, completions: int, parallelism: int) -> int:
    """Return the seconds that a pod may run."""
    whole = spec.integer("activeDeadlineSeconds", 0, 1)
    if whole and parallelism < completions:
        text = "needs all pods at once: Peloton counts the time of each pod, from when it begins to run"
        spec.refuse("activeDeadlineSeconds", f"{text}; give it in template.spec for each pod")
    elif whole:
        text = "counts for each pod from when it begins to run, and not while it waits for resources"
        spec.problems.warn(spec.at("activeDeadlineSeconds"), text)
    return min(filter(None, (whole, template.deadline)), default=0)


def _check_fixed(spec: Node) -> None:
    spec.only("manualSelector", (False,), "the selector is made")
    spec.only("podReplacementPolicy", ("Failed", "TerminatingOrFailed"), "Failed or TerminatingOrFailed")
