"""batch/v1 CronJob: a batch job with a schedule. Its runs are jobs of their own, shown as its Jobs."""

from __future__ import annotations

import re
from datetime import datetime

from peloton import cron
from peloton.api.scheduling import scheduling_pb2
from peloton.api.v0.job import job_pb2
from peloton.model.schedule import MAX_KEPT_RUNS
from peloton.web.kube.core.fields import Node
from peloton.web.kube.core.jobs import Made, batch_config, finished, take_suspension
from peloton.web.kube.core.kinds import CRON_JOB, JOB
from peloton.web.kube.core.manifests import Reading
from peloton.web.kube.core.names import has_form
from peloton.web.kube.core.refusals import INVALID, REQUIRED
from peloton.web.kube.core.secret_uses import Keys
from peloton.web.kube.core.values import Object

SUCCESSFUL_RUNS, FAILED_RUNS = 3, 1
"""Ended runs that are kept where a manifest does not say, as with Kubernetes."""
_EPOCH_2026 = 1_767_225_600
"""From when on an expression must have a time."""
_POLICIES = {
    "Forbid": scheduling_pb2.OVERLAP_SKIP,
    "Replace": scheduling_pb2.OVERLAP_REPLACE,
}
_RUN = re.compile(r"(.+)-\d{8}t\d{4}z", re.ASCII)


def cron_config(given: Object, namespace: str, pool_id: str, secrets: Keys | None = None) -> Made:
    """Translate the manifest of a CronJob. Raises Refusal with all fields that cannot be kept."""
    reading = Reading.of(CRON_JOB, given, namespace, pool_id, secrets)
    spec = reading.root.node("spec")
    paused = take_suspension(reading, spec)
    schedule = _schedule(spec)
    spec.require("jobTemplate", "give the Job that each time begins")
    template = spec.node("jobTemplate")
    _template_metadata(template.node("metadata"))
    job = template.node("spec")
    job.only("suspend", (False,), "runs begin at once: suspend the CronJob")
    config, pod = batch_config(reading, job, pool_id)
    if pod.secret_files:
        job.node("template").refuse("spec", "runs of a schedule take no Secrets")
    template.close()
    spec.close()
    config.schedule.CopyFrom(schedule)
    return finished(reading, config, pod, "spec.jobTemplate.spec.template", paused)


def _schedule(spec: Node) -> scheduling_pb2.JobSchedule:
    policy = spec.text("concurrencyPolicy")
    spec.only(
        "concurrencyPolicy", tuple(_POLICIES), "Forbid or Replace: one run of a schedule lives at a time"
    )
    if not spec.given("concurrencyPolicy"):
        text = "Forbid, where it is not given: one run of a schedule lives at a time"
        spec.problems.warn(spec.at("concurrencyPolicy"), text)
    if spec.given("startingDeadlineSeconds"):
        spec.integer("startingDeadlineSeconds")
        text = "a time that is missed by more than 300 s gets no run, whatever is given here"
        spec.problems.warn(spec.at("startingDeadlineSeconds"), text)
    found = scheduling_pb2.JobSchedule(
        cron=spec.text("schedule").strip(),
        time_zone=spec.text("timeZone"),
        overlap=_POLICIES.get(policy, scheduling_pb2.OVERLAP_SKIP),
        catch_up=0 if spec.given("startingDeadlineSeconds") else 1,
        keep_runs=_kept_runs(spec),
    )
    _check_times(spec, found)
    return found


def _kept_runs(spec: Node) -> int:
    """Return how many ended runs are kept, however they have ended."""
    names = ("successfulJobsHistoryLimit", "failedJobsHistoryLimit")
    usual = dict(zip(names, (SUCCESSFUL_RUNS, FAILED_RUNS), strict=True))
    kept = sum(spec.integer(name, usual[name], 0, MAX_KEPT_RUNS // 2) for name in names)
    for name in filter(spec.given, names):
        spec.problems.warn(
            spec.at(name), f"the newest {max(1, kept)} ended runs are kept, however they ended"
        )
    return max(1, kept)


def _check_times(spec: Node, found: scheduling_pb2.JobSchedule) -> None:
    spec.require("schedule", "give the times, as `30 3 * * 1-5`")
    zone = found.time_zone or "UTC"
    try:
        cron.zone(zone)
    except cron.CronError as error:
        spec.refuse("timeZone", f"{zone!r} is not {error}", INVALID)
        return
    try:
        if found.cron:
            cron.check(found.cron, zone, _EPOCH_2026)
        elif isinstance(spec.value("schedule"), str):
            spec.refuse("schedule", "give the times, as `30 3 * * 1-5`", REQUIRED)
    except cron.CronError as error:
        spec.refuse("schedule", f"{found.cron[:100]!r} is not {error}", INVALID)


def _template_metadata(metadata: Node) -> None:
    metadata.mapping("labels")
    metadata.mapping("annotations")
    for name in ("name", "creationTimestamp"):
        metadata.value(name)  # kubectl gives them; Kubernetes does not use them either
    metadata.close()


def cron_of_run(name: str) -> str:
    """Return the name of the CronJob that a Job of this name is a run of; empty for another name."""
    found = _RUN.fullmatch(name)
    return found[1] if found else ""


def run_manifest(manifest: Object, run: str, cron_id: str) -> Object | None:
    """Return the manifest of the Job that is a run, whose name in Peloton is `run`; None for no whole one."""
    template = manifest["spec"].get("jobTemplate")
    template = template if isinstance(template, dict) else {}
    metadata = template.get("metadata") or {}
    owner = {
        "apiVersion": CRON_JOB.api_version,
        "kind": CRON_JOB.kind,
        "name": manifest["metadata"]["name"],
        "uid": cron_id,
        "controller": True,
        "blockOwnerDeletion": True,
    }
    found = {
        "apiVersion": JOB.api_version,
        "kind": JOB.kind,
        "metadata": {
            **(metadata if isinstance(metadata, dict) else {}),
            "name": run.lower(),
            "ownerReferences": [owner],
        },
        "spec": template.get("spec"),
    }
    return found if has_form(found) else None


def cron_status(name: str, namespace: str, runtime: job_pb2.RuntimeInfo) -> Object:
    """Return the status of a CronJob."""
    status: Object = {}
    state = runtime.schedule
    if state.last_time:
        status["lastScheduleTime"] = f"{state.last_time[:19]}Z"
    if state.running_job_id and state.last_time:
        time = datetime.strptime(state.last_time[:16], "%Y-%m-%dT%H:%M").strftime("%Y%m%dt%H%Mz")
        status["active"] = [
            {
                "apiVersion": JOB.api_version,
                "kind": JOB.kind,
                "name": f"{name}-{time}",
                "namespace": namespace,
                "uid": state.running_job_id,
            }
        ]
    return status
