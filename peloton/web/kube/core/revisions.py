"""Versions of services and daemon jobs as ReplicaSets and ControllerRevisions, which kubectl rolls back to.

A revision is a template of pods. Its number is the version of the job in which it was put there last, so that
numbers grow with each change and stay as they are; changes of other fields, such as `replicas`, leave gaps.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from peloton.web.kube.core.kinds import CONTROLLER_REVISION, REPLICA_SET
from peloton.web.kube.core.manifests import LAST_APPLIED
from peloton.web.kube.core.objects import Held, owner_reference, timestamp
from peloton.web.kube.core.values import Object

MOST_VERSIONS = 20
"""Versions of a job that are looked at, the newest of them."""
REVISION = "deployment.kubernetes.io/revision"
HASH_LABELS = {REPLICA_SET: "pod-template-hash", CONTROLLER_REVISION: "controller-revision-hash"}
_HASH_CHARACTERS = 10


@dataclass(frozen=True, slots=True)
class Revision:
    """A template, and where it was."""

    number: int
    manifest: Object
    """That of the newest version with this template."""
    versions: tuple[int, ...]
    """All versions of the job that have this template."""

    @property
    def template(self) -> Object:
        """Return the template."""
        found: Object = self.manifest["spec"]["template"]
        return found

    @property
    def digest(self) -> str:
        """Return what tells it from other templates of the job."""
        return _digest(self.template)


def versions_of(job: Held) -> range:
    """Return the versions of a job that are looked at, without the present one."""
    last = job.summary.runtime.configurationVersion
    return range(max(1, last - MOST_VERSIONS + 1), last)


def revisions(versions: Iterable[tuple[int, Object]]) -> list[Revision]:
    """Return the revisions, oldest first, of versions in their order with their manifests."""
    found: dict[str, Revision] = {}
    last = ""
    for number, manifest in versions:
        template = (manifest.get("spec") or {}).get("template")
        if not isinstance(template, dict):
            continue
        key = _digest(template)
        before = found.get(key)
        known = before.versions if before is not None else ()
        if before is not None and key == last:
            found[key] = Revision(before.number, manifest, (*known, number))
        else:
            found[key] = Revision(number, manifest, (*known, number))
        last = key
    return sorted(found.values(), key=lambda each: each.number)


def replica_sets(job: Held, found: Iterable[Revision]) -> list[Object]:
    """Return the revisions of a service as ReplicaSets."""
    return [_replica_set(job, each) for each in found]


def controller_revisions(job: Held, found: Iterable[Revision]) -> list[Object]:
    """Return the revisions of a service with volumes, or of a daemon job, as ControllerRevisions."""
    return [
        {
            "apiVersion": CONTROLLER_REVISION.api_version,
            "kind": CONTROLLER_REVISION.kind,
            "metadata": _metadata(job, each, HASH_LABELS[CONTROLLER_REVISION]),
            "data": {"spec": {"template": {**each.template, "$patch": "replace"}}},
            "revision": each.number,
        }
        for each in found
    ]


def _replica_set(job: Held, revision: Revision) -> Object:
    stats = job.summary.runtime.taskConfigVersionStats
    pods = sum(stats.get(number, 0) for number in revision.versions)
    present = job.summary.runtime.configurationVersion in revision.versions
    metadata = _metadata(job, revision, HASH_LABELS[REPLICA_SET])
    metadata["annotations"][REVISION] = str(revision.number)
    status = {"replicas": pods, "observedGeneration": 1}
    if pods == sum(stats.values()):
        # Whose pods run is not known where several have some.
        ready = min(pods, job.summary.runtime.taskStats.get("RUNNING", 0))
        status |= {"readyReplicas": ready, "availableReplicas": ready}
    return {
        "apiVersion": REPLICA_SET.api_version,
        "kind": REPLICA_SET.kind,
        "metadata": metadata,
        "spec": {
            "replicas": job.summary.instanceCount if present else pods,
            "selector": job.manifest["spec"].get("selector", {}),
            "template": revision.template,
        },
        "status": status,
    }


def _metadata(job: Held, revision: Revision, label: str) -> Object:
    annotations = dict(revision.manifest["metadata"].get("annotations") or {})
    annotations.pop(LAST_APPLIED, None)
    return {
        "name": f"{job.name}-{revision.digest}",
        "namespace": job.namespace,
        "uid": f"{job.job_id}-{revision.digest}",
        "labels": {**((revision.template.get("metadata") or {}).get("labels") or {}), label: revision.digest},
        "annotations": annotations,
        "creationTimestamp": timestamp(job.summary.runtime.creationTime),
        "ownerReferences": [owner_reference(job)],
    }


def _digest(template: Object) -> str:
    text = json.dumps(_said(template), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:_HASH_CHARACTERS]


def _said(value: Any) -> Any:
    """Return a value without what says nothing in it: clients add nulls and empty objects of their own."""
    if isinstance(value, dict):
        parts = {key: _said(each) for key, each in value.items()}
        return {key: each for key, each in parts.items() if each not in (None, {}, [])}
    return [_said(each) for each in value] if isinstance(value, list) else value
