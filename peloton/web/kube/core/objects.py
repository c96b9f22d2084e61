"""Jobs of ours as objects: a job is a Job, a Deployment and so on, with the manifest that it was made of."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peloton.api.v0.job import job_pb2
from peloton.model.schedule import SCHEDULE_LABEL
from peloton.web.kube.core.cronjobs import cron_status, run_manifest
from peloton.web.kube.core.jobs import CONTROLLER_UID, OLD_CONTROLLER_UID
from peloton.web.kube.core.kinds import CRON_JOB, DAEMON_SET, DEPLOYMENT, JOB, STATEFUL_SET, WORKLOADS, Kind
from peloton.web.kube.core.managers import Managers, decoded
from peloton.web.kube.core.manifests import NATIVE
from peloton.web.kube.core.names import KIND_LABEL, NAME_LABEL, PREFIX, managers_of, manifest_of
from peloton.web.kube.core.values import Object

JOB_NAME, OLD_JOB_NAME = "batch.kubernetes.io/job-name", "job-name"
WAITING = ("INITIALIZED", "PENDING", "READY", "PLACING", "PLACED", "RESERVED")
LAUNCHED = ("LAUNCHING", "LAUNCHED", "STARTING", "RUNNING", "KILLING", "PREEMPTING")
ACTIVE = (*WAITING, *LAUNCHED)
FAILED = ("FAILED", "LOST", "KILLED")
"""KILLED is the last: of suspended jobs it is no end."""
_KINDS: Mapping[int, Kind] = {
    job_pb2.BATCH: JOB, job_pb2.SERVICE: DEPLOYMENT, job_pb2.DAEMON: DAEMON_SET
}  # fmt: skip
TYPES: Mapping[str, int] = {
    **{kind.kind: number for number, kind in _KINDS.items()},
    STATEFUL_SET.kind: job_pb2.SERVICE,
    CRON_JOB.kind: job_pb2.BATCH,
}  # fmt: skip
"""Types of our jobs by kind."""


@dataclass(frozen=True, slots=True)
class Held:
    """A job as this API sees it."""

    summary: job_pb2.JobSummary
    kind: Kind
    namespace: str
    manifest: Object

    @property
    def job_id(self) -> str:
        """Return the id of the job, which is the uid of the object."""
        return str(self.summary.id.value)

    @property
    def name(self) -> str:
        """Return the name of the object."""
        return str(self.manifest["metadata"]["name"])

    @property
    def suspended(self) -> bool:
        """Return whether it is a batch job that is suspended, or a schedule that is paused."""
        runtime = self.summary.runtime
        return bool(runtime.schedule.paused_since if self.kind is CRON_JOB else runtime.suspendedSince)

    @property
    def managers(self) -> Managers:
        """Return who has said which of its fields, where that is known."""
        if (self.manifest.get("metadata") or {}).get("ownerReferences"):
            return ()  # of a run they are those of its CronJob
        return decoded(managers_of(self.summary.labels))

    @property
    def template(self) -> Object:
        """Return the template of its pods."""
        spec = self.manifest.get("spec")
        found = spec.get("template") if isinstance(spec, dict) else None
        return found if isinstance(found, dict) else {}

    @property
    def pod_labels(self) -> dict[str, str]:
        """Return the labels of its pods."""
        labels = dict((self.template.get("metadata") or {}).get("labels") or {})
        if self.kind is JOB:
            labels |= dict.fromkeys((CONTROLLER_UID, OLD_CONTROLLER_UID), self.job_id)
            labels |= dict.fromkeys((JOB_NAME, OLD_JOB_NAME), self.name)
        return labels


def held(summary: job_pb2.JobSummary, namespace: str) -> Held | None:
    """Return a job as this API sees it; None for one of a type that it does not serve."""
    manifest = manifest_of(summary.labels)
    if manifest is not None:
        named = {label.key: label.value for label in summary.labels}
        ours = WORKLOADS.get(named.get(KIND_LABEL, ""))
        known = ours is not None and ours.kind == manifest["kind"] and summary.type == TYPES[ours.kind]
        if ours is not None and known and named.get(NAME_LABEL) == manifest["metadata"]["name"]:
            cron_id = named.get(SCHEDULE_LABEL, "")
            if ours is not CRON_JOB or not cron_id:
                return Held(summary, ours, namespace, manifest)
            run = run_manifest(manifest, summary.name, cron_id)
            if run is not None:
                return Held(summary, JOB, namespace, run)
    kind = _KINDS.get(summary.type)
    return Held(summary, kind, namespace, _native(summary, kind, namespace)) if kind is not None else None


def _native(summary: job_pb2.JobSummary, kind: Kind, namespace: str) -> Object:
    """Return a manifest for a job that another API made. Its id is its name: others need not be unique."""
    labels = {label.key: label.value for label in summary.labels if not label.key.startswith(PREFIX)}
    own = {"peloton/job": summary.id.value}
    template = {
        "metadata": {"labels": own},
        "spec": {"containers": [{"name": "main"}], "restartPolicy": "Never" if kind is JOB else "Always"},
    }
    spec: Object = {"template": template}
    if kind is JOB:
        spec |= {"completions": summary.instanceCount, "parallelism": _parallelism(summary)}
    elif kind is DAEMON_SET:
        spec |= {"selector": {"matchLabels": own}, "updateStrategy": {"type": "RollingUpdate"}}
    else:
        spec |= {"replicas": summary.instanceCount, "selector": {"matchLabels": own}}
    return {
        "apiVersion": kind.api_version,
        "kind": kind.kind,
        "metadata": {
            "name": summary.id.value,
            "namespace": namespace,
            "labels": labels,
            "annotations": {NATIVE: "true", "peloton/name": summary.name},
        },
        "spec": spec,
    }


def _parallelism(summary: job_pb2.JobSummary) -> int:
    return int(summary.sla.maximumRunningInstances or summary.instanceCount)


def object_of(job: Held, deleting: str = "") -> Object:
    """Return the object; its resourceVersion is added by what has observed it.

    `deleting`: since when it is being deleted, empty where it is not.
    """
    found = copy.deepcopy(job.manifest)
    runtime = job.summary.runtime
    metadata = found["metadata"]
    metadata |= {
        "namespace": job.namespace,
        "uid": job.job_id,
        "generation": max(1, runtime.configurationVersion),
        "creationTimestamp": timestamp(runtime.creationTime),
    }
    if managers := job.managers:
        metadata["managedFields"] = [each.plain(job.kind.api_version) for each in managers]
    if deleting:
        metadata |= {"deletionTimestamp": deleting, "deletionGracePeriodSeconds": 0}
    if job.kind is JOB:
        spec = found.setdefault("spec", {})
        spec["selector"] = {"matchLabels": {CONTROLLER_UID: job.job_id}}
        spec["suspend"] = job.suspended
        found["status"] = _job_status(job)
    elif job.kind is CRON_JOB:
        found["spec"]["suspend"] = job.suspended
        found["status"] = cron_status(job.name, job.namespace, runtime)
    elif job.kind is DAEMON_SET:
        found["status"] = daemon_set_status(job.summary)
    elif job.kind is STATEFUL_SET:
        found["status"] = stateful_set_status(job.summary)
    else:
        metadata.setdefault("annotations", {})  # `kubectl rollout undo` replaces them
        found["spec"].setdefault("replicas", job.summary.instanceCount)  # manifests from before had none
        found["status"] = _deployment_status(job)
    return found


def owner_reference(job: Held) -> Object:
    """Return how the metadata of what belongs to a job names it."""
    return {
        "apiVersion": job.kind.api_version,
        "kind": job.kind.kind,
        "name": job.name,
        "uid": job.job_id,
        "controller": True,
        "blockOwnerDeletion": True,
    }


def timestamp(text: str) -> str | None:
    """Return a time as Kubernetes writes it: to the second; None for none."""
    return f"{text[:19]}Z" if text else None


def _job_status(job: Held) -> Object:
    runtime, counts = job.summary.runtime, job.summary.runtime.taskStats
    state = job_pb2.JobState.Name(runtime.state)
    status: Object = {
        "active": _count(counts, ACTIVE),
        "ready": _count(counts, ("RUNNING",)),
        "succeeded": _count(counts, ("SUCCEEDED",)),
        "failed": _count(counts, FAILED[:-1] if job.suspended else FAILED),
        "startTime": None if job.suspended else timestamp(runtime.startTime or runtime.creationTime),
    }
    ended = timestamp(runtime.completionTime)
    if job.suspended:
        since = timestamp(runtime.suspendedSince)
        status["conditions"] = [_condition("Suspended", True, "JobSuspended", "Job suspended", since)]
    elif state == "SUCCEEDED":
        status["completionTime"] = ended
        status["conditions"] = [_condition("Complete", True, "CompletionsReached", "", ended)]
    elif state in ("FAILED", "KILLED"):
        reason = "BackoffLimitExceeded" if state == "FAILED" else "Stopped"
        text = runtime.reason or f"the job is {state} in Peloton"
        status["conditions"] = [_condition("Failed", True, reason, text, ended)]
    spec = job.manifest.get("spec") or {}
    if spec.get("completionMode") == "Indexed" and state == "SUCCEEDED":
        last = job.summary.instanceCount - 1
        status["completedIndexes"] = f"0-{last}" if last else "0"
    return {key: value for key, value in status.items() if value not in (None, 0)} or {}


def _deployment_status(job: Held) -> Object:
    runtime, wanted = job.summary.runtime, job.summary.instanceCount
    counts = runtime.taskStats
    ready = _count(counts, ("RUNNING",))
    updated = runtime.taskConfigVersionStats.get(runtime.configurationVersion, 0)
    status: Object = {
        "observedGeneration": max(1, runtime.configurationVersion),
        "replicas": _count(counts, ACTIVE),
        "updatedReplicas": updated,
        "readyReplicas": ready,
        "availableReplicas": ready,
        "unavailableReplicas": max(0, wanted - ready),
    }
    created = timestamp(runtime.creationTime)
    available, done = ready >= wanted, ready >= wanted and updated >= wanted
    paused = bool((job.manifest.get("spec") or {}).get("paused"))
    progress = "DeploymentPaused" if paused else "NewReplicaSetAvailable" if done else "ReplicaSetUpdated"
    status["conditions"] = [
        _condition(
            "Available",
            available,
            f"MinimumReplicas{'A' if available else 'Una'}vailable",
            runtime.reason,
            created,
        ),
        _condition("Progressing", not paused, progress, "", created),
    ]
    return {key: value for key, value in status.items() if value != 0}


def _condition(kind: str, holds: bool, reason: str, message: str, since: str | None) -> Object:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": message,
        "lastProbeTime": since,
        "lastUpdateTime": since,
        "lastTransitionTime": since,
    }


def daemon_set_status(summary: job_pb2.JobSummary) -> Object:
    """Return the status of a daemon job. It is of no generation until it is known on which hosts it runs."""
    runtime, wanted = summary.runtime, summary.instanceCount
    ready = _count(runtime.taskStats, ("RUNNING",))
    return {
        "observedGeneration": max(1, runtime.configurationVersion) if wanted else 0,
        "desiredNumberScheduled": wanted,
        "currentNumberScheduled": _count(runtime.taskStats, LAUNCHED),
        "updatedNumberScheduled": runtime.taskConfigVersionStats.get(runtime.configurationVersion, 0),
        "numberReady": ready,
        "numberAvailable": ready,
        "numberUnavailable": max(0, wanted - ready),
        "numberMisscheduled": 0,
    }


def stateful_set_status(summary: job_pb2.JobSummary) -> Object:
    """Return the status of a service with volumes. Revisions are versions of its configuration."""
    runtime = summary.runtime
    updated = runtime.taskConfigVersionStats.get(runtime.configurationVersion, 0)
    ready = _count(runtime.taskStats, ("RUNNING",))
    newest = str(max(1, runtime.configurationVersion))
    return {
        "observedGeneration": int(newest),
        "replicas": _count(runtime.taskStats, ACTIVE),
        "readyReplicas": ready,
        "availableReplicas": ready,
        "updatedReplicas": updated,
        "currentReplicas": updated,
        "updateRevision": newest,
        "currentRevision": newest if updated >= summary.instanceCount else f"before-{newest}",
    }


def _count(counts: Mapping[str, int], states: tuple[str, ...]) -> int:
    return sum(counts.get(state, 0) for state in states)


def scale_of(job: Held, version: str) -> Object:
    """Return the scale of a service."""
    found = object_of(job)
    labels: Mapping[str, Any] = found["spec"].get("selector", {}).get("matchLabels", {})
    return {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": {
            "name": job.name,
            "namespace": job.namespace,
            "uid": job.job_id,
            "resourceVersion": version,
            "creationTimestamp": found["metadata"]["creationTimestamp"],
        },
        "spec": {"replicas": job.summary.instanceCount},
        "status": {
            "replicas": found["status"].get("replicas", 0),
            "selector": ",".join(f"{key}={text}" for key, text in sorted(labels.items())),
        },
    }
