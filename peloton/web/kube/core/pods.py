"""Instances of jobs as v1 Pod: a pod is the present run of an instance.

Its uid is the id of the run, and its name has the number of it: a run that follows is another pod.
"""

from __future__ import annotations

from collections.abc import Mapping

from peloton.api.v0.task import task_pb2
from peloton.web.kube.core.jobs import INDEX
from peloton.web.kube.core.names import pod_name, run_of
from peloton.web.kube.core.objects import FAILED, Held, owner_reference, timestamp
from peloton.web.kube.core.quantities import cores_text, megabytes_text
from peloton.web.kube.core.values import Object

PHASES: Mapping[str, str] = {
    **dict.fromkeys(("RUNNING", "KILLING", "PREEMPTING"), "Running"),
    "SUCCEEDED": "Succeeded",
    **dict.fromkeys(FAILED, "Failed"),
}
"""By our state; all others are Pending."""
_SIGNALS = 128
_Reason = task_pb2.TerminationStatus


def pod_of(job: Held, task: task_pb2.TaskInfo) -> Object:
    """Return the pod of an instance, without a resourceVersion."""
    runtime = task.runtime
    run = runtime.mesosTaskId.value or f"{job.job_id}-{task.instanceId}"
    labels = job.pod_labels
    annotations = dict((job.template.get("metadata") or {}).get("annotations") or {})
    if (job.manifest.get("spec") or {}).get("completionMode") == "Indexed":
        labels[INDEX] = annotations[INDEX] = str(task.instanceId)
    metadata: Object = {
        "name": pod_name(job.name, job.job_id, task.instanceId, run_of(runtime.mesosTaskId.value)),
        "namespace": job.namespace,
        "uid": run,
        "labels": labels,
        "annotations": annotations,
        "creationTimestamp": timestamp(job.summary.runtime.creationTime),
        "ownerReferences": [owner_reference(job)],
    }
    state = task_pb2.TaskState.Name(runtime.state)
    if state == "KILLING":
        metadata |= {"deletionTimestamp": timestamp(runtime.startTime), "deletionGracePeriodSeconds": 0}
    spec = _spec(job, task)
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": spec,
        "status": _status(runtime, state, spec["containers"][0]),
    }


def _spec(job: Held, task: task_pb2.TaskInfo) -> Object:
    # Parts are shared with the template: one that has 100,000 pods is not there as often.
    spec = dict(job.template.get("spec") or {})
    containers = spec.get("containers")
    if not isinstance(containers, list) or len(containers) != 1 or not isinstance(containers[0], dict):
        spec["containers"] = [{"name": "main"}]
    spec["containers"] = [_container(spec["containers"][0], task.config)]
    if task.runtime.host:
        spec["nodeName"] = task.runtime.host
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("securityContext", {})  # kubectl debug fails without it; Kubernetes fills it in
    return spec


def _container(given: Object, config: task_pb2.TaskConfig) -> Object:
    """Return the container, with the resources that the task has and the command of a native one."""
    resource = config.resource
    amounts = {
        "cpu": cores_text(resource.cpuLimit),
        "memory": megabytes_text(resource.memLimitMb),
        "ephemeral-storage": megabytes_text(resource.diskLimitMb),
    }
    if resource.gpuLimit:
        amounts["nvidia.com/gpu"] = cores_text(resource.gpuLimit)
    own: Object = {**given, "resources": {"requests": amounts, "limits": amounts}}
    if "command" not in given and config.HasField("command"):
        command = config.command
        own["command"] = ["/bin/sh", "-c", command.value] if command.shell else [command.value]
        own["args"] = [] if command.shell else list(command.arguments)[1:]
    return own


def _status(runtime: task_pb2.RuntimeInfo, state: str, container: Object) -> Object:
    phase = PHASES.get(state, "Pending")
    running = phase == "Running"
    ready = running and runtime.healthy != task_pb2.UNHEALTHY
    started = timestamp(runtime.startTime)
    placed = bool(runtime.host)
    status: Object = {
        "phase": phase,
        "conditions": [
            _condition("PodScheduled", placed, "" if placed else "Unschedulable", runtime.reason),
            _condition("Initialized", placed, "", ""),
            _condition("ContainersReady", ready, "", ""),
            _condition("Ready", ready, "PodCompleted" if phase == "Succeeded" else "", ""),
        ],
        "containerStatuses": [
            {
                "name": container.get("name", "main"),
                "image": container.get("image", ""),
                "imageID": "",
                "ready": ready,
                "started": running,
                "restartCount": runtime.failureCount,
                "state": _container_state(runtime, state),
                "lastState": {},
            }
        ],
        "qosClass": "Guaranteed",
    }
    if started:
        status["startTime"] = started
    if state in FAILED or (phase == "Pending" and runtime.reason):
        status["reason"], status["message"] = _reason(runtime, state), runtime.message or runtime.reason
    return status


def _container_state(runtime: task_pb2.RuntimeInfo, state: str) -> Object:
    started = timestamp(runtime.startTime)
    if PHASES.get(state) == "Running":
        return {"running": {"startedAt": started}}
    if PHASES.get(state) is None:
        text = runtime.reason or runtime.message
        return {"waiting": {"reason": "ContainerCreating" if runtime.host else "Pending", "message": text}}
    ended = runtime.terminationStatus
    code = ended.exit_code
    if not code and state in FAILED:
        code = _SIGNALS + 9 if ended.signal or state == "KILLED" else 1
    return {
        "terminated": {
            "exitCode": code,
            "reason": "Completed" if state == "SUCCEEDED" else "Error",
            "message": ended.killed_for or runtime.message,
            "startedAt": started,
            "finishedAt": timestamp(runtime.completionTime),
        }
    }


def _reason(runtime: task_pb2.RuntimeInfo, state: str) -> str:
    """Return why a pod is as it is, in one word."""
    why = runtime.terminationStatus.reason
    if why == _Reason.TERMINATION_STATUS_REASON_DEADLINE_TIMEOUT_EXCEEDED:
        return "DeadlineExceeded"
    if why == _Reason.TERMINATION_STATUS_REASON_PREEMPTED_RESOURCES:
        return "Preempting"
    if why == _Reason.TERMINATION_STATUS_REASON_KILLED_HOST_MAINTENANCE:
        return "Evicted"
    return {"LOST": "NodeLost", "KILLED": "Killed", "FAILED": "Error"}.get(state, "Unschedulable")


def _condition(kind: str, holds: bool, reason: str, message: str) -> Object:
    return {
        "type": kind,
        "status": "True" if holds else "False",
        "reason": reason,
        "message": "" if holds else message,
        "lastProbeTime": None,
        "lastTransitionTime": None,
    }
