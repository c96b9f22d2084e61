"""Files of other schedulers: what they are, and the keys here for theirs (docs/coming-from.md)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from peloton.client.yamltree import SpecError

PAGE = "docs/coming-from.md"
_KUBERNETES = re.compile(r"(?:^|[{,])\s*\"?apiVersion\"?\s*:\s*\"?[\w./-]+", re.M)
_KIND = re.compile(r"(?:^|[{,])\s*\"?kind\"?\s*:\s*\"?(\w+)", re.M)
_NOMAD = re.compile(r"^\s*job\s+\"[^\"]+\"\s*\{", re.M)
_NOMAD_JSON = re.compile(r"\A\s*\{[^\[]*\"(?:TaskGroups|Job)\"\s*:", re.S)
_SBATCH = re.compile(r"^#SBATCH\s", re.M)
MOST_CHARACTERS = 1024 * 1024
"""Of a file that is looked at: a spec of others is shorter."""


@dataclass(frozen=True, slots=True)
class System:
    """Another scheduler: its name, where the page has it, and keys of its files with those here."""

    name: str
    anchor: str
    keys: Mapping[str, str]
    """By a pattern of the key, as it stands at the beginning of a line or behind a `-`."""


KUBERNETES = System(
    "Kubernetes",
    "kubernetes",
    {
        "replicas": "instance_count",
        "completions": "instanceCount of a job of type BATCH",
        "parallelism": "sla.maximumRunningInstances",
        "backoffLimit": "defaultConfig.restartPolicy.maxFailures, for each instance",
        "activeDeadlineSeconds": "sla.maxRunningTime",
        "template": "default_spec: there is one container",
        "image": "default_spec.containers[0].image",
        "command": "default_spec.containers[0].entrypoint.value, the program",
        "args": "default_spec.containers[0].entrypoint.arguments",
        "env": "default_spec.containers[0].environment",
        "requests": "default_spec.containers[0].resource: cpu_limit, mem_limit_mb",
        "limits": "default_spec.containers[0].resource; what is asked for is also the limit",
        "containerPort": "default_spec.containers[0].ports[].value",
        "livenessProbe": "default_spec.containers[0].liveness_check",
        "readinessProbe": "nothing: readiness is not checked",
        "nodeSelector": "default_spec.constraint, of kind HOST",
        "podAntiAffinity": "default_spec.constraint, of kind POD",
        "priorityClassName": "sla.priority_class",
        "terminationGracePeriodSeconds": "default_spec.kill_grace_period_seconds",
        "maxUnavailable": "sla.maximum_unavailable_instances; of updates, the batch size",
        "namespace": "the resource pool, by --pool",
        "labels": "labels, a list of key and value",
    },
)
NOMAD = System(
    "Nomad",
    "nomad",
    {
        "datacenters": "nothing: a cluster is chosen by --clusterName",
        "type": "type: BATCH, SERVICE or DAEMON; `system` is DAEMON",
        "group": "the job: all of its instances are alike but for instance_spec",
        "count": "instance_count",
        "task": "default_spec.containers[0]",
        "driver": "nothing: a container where there is an image, else a process",
        "image": "default_spec.containers[0].image",
        "command": "default_spec.containers[0].entrypoint.value",
        "args": "default_spec.containers[0].entrypoint.arguments",
        "env": "default_spec.containers[0].environment",
        "cpu": "default_spec.containers[0].resource.cpu_limit, in cores and not in MHz",
        "memory": "default_spec.containers[0].resource.mem_limit_mb",
        "port": "default_spec.containers[0].ports",
        "check": "default_spec.containers[0].liveness_check",
        "constraint": "default_spec.constraint",
        "priority": "sla.priority",
        "attempts": "restartPolicy.maxFailures of batch jobs; services always run again",
        "max_parallel": "the batch size of the update: --batch-size",
        "auto_revert": "--rollbackOnFailure of the update",
        "kill_timeout": "default_spec.kill_grace_period_seconds",
        "namespace": "the resource pool, by --pool",
    },
)
SLURM = System(
    "Slurm",
    "slurm",
    {
        "--job-name|-J": "name",
        "--array|-a": "instanceCount; PELOTON_INSTANCE_ID in place of SLURM_ARRAY_TASK_ID",
        "--ntasks|-n": "instanceCount, with sla.minimumRunningInstances as large: all or none",
        "--nodes|-N": "instanceCount, with placementStrategy: PLACEMENT_STRATEGY_SPREAD_JOB",
        "--cpus-per-task|-c": "defaultConfig.resource.cpuLimit",
        "--mem|--mem-per-cpu": "defaultConfig.resource.memLimitMb, of an instance",
        "--gres|--gpus|-G": "defaultConfig.resource.gpuLimit",
        "--time|-t": "sla.maxRunningTime, such as 2h",
        "--partition|-p": "the resource pool, by --pool",
        "--account|-A": "owningTeam, and the resource pool",
        "--qos": "sla.priorityClass, sla.preemptible",
        "--constraint|-C": "defaultConfig.constraint, of kind HOST",
        "--output|-o": "nothing: `peloton logs JOB` prints what was written",
        "--error|-e": "nothing: `peloton logs JOB` prints what was written",
        "--requeue": "defaultConfig.restartPolicy.maxFailures",
    },
)


def recognised(text: str, file: str) -> list[SpecError]:
    """Return what a file of another scheduler is, and the keys here for its own; nothing for other files."""
    if len(text) > MOST_CHARACTERS:
        return []
    found = _system(text)
    if found is None:
        return []
    system, what, line = found
    head = f"this is {what}, and no spec of Peloton: {PAGE}#{system.anchor} has both side by side"
    return [SpecError(head, source=file, line=line), *_keys(system, text, file)]


def _system(text: str) -> tuple[System, str, int] | None:
    if text.startswith("#!") and (at := _SBATCH.search(text)):
        return SLURM, "a batch script of Slurm", _line(text, at.start())
    if (at := _KUBERNETES.search(text)) and (kind := _KIND.search(text)):
        return KUBERNETES, f"a manifest of Kubernetes, a {kind[1]}", _line(text, at.start())
    if at := _NOMAD.search(text) or _NOMAD_JSON.search(text):
        return NOMAD, "a job of Nomad", _line(text, at.start())
    return None


def _keys(system: System, text: str, file: str) -> list[SpecError]:
    """Return a line for the first place of each key that is known."""
    found = []
    for key, here in system.keys.items():
        if system is SLURM:
            pattern = rf"^#SBATCH\s+(?P<key>{key})(?=[\s=\d])"
        else:
            first = f"[{key[0].upper()}{key[0]}]{key[1:]}".replace("_", "_?")
            pattern = rf"^\s*(?:-\s+)?\"?(?P<key>{first})\"?\s*(?:[:={{]|\"[^\"]*\"\s*\{{)"
        if at := re.search(pattern, text, re.M | (re.I if "_" in key else 0)):
            found.append(SpecError(f"{at['key']}: {here}", source=file, line=_line(text, at.start("key"))))
    return sorted(found, key=lambda each: each.line or 0)


def _line(text: str, at: int) -> int:
    """Return the number of the line of a place, which may begin with the white space before it."""
    at += len(text[at:]) - len(text[at:].lstrip())
    return text.count("\n", 0, at) + 1
