"""What a pod's state means for its run, in Peloton's words.

The reasons are those of Mesos, which the rest of Peloton knows (docs/behaviour/tasks.md).
"""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from hostmgr.kubernetes.core.pods import Container, Pod
from peloton.model.ids import MesosTaskId


class RunState(Enum):
    """The state of a run, as Mesos names it."""

    STAGING = "TASK_STAGING"
    STARTING = "TASK_STARTING"
    RUNNING = "TASK_RUNNING"
    FINISHED = "TASK_FINISHED"
    FAILED = "TASK_FAILED"
    KILLED = "TASK_KILLED"
    LOST = "TASK_LOST"
    ERROR = "TASK_ERROR"

    @property
    def terminal(self) -> bool:
        """Whether the run has ended."""
        return self not in (RunState.STAGING, RunState.STARTING, RunState.RUNNING)


@dataclass(frozen=True, slots=True)
class RunStatus:
    """A status of a run."""

    run: MesosTaskId
    state: RunState
    node: str = ""
    reason: str = ""
    """A reason of Mesos without the prefix REASON_; empty: none."""
    message: str = ""
    at: str = ""
    """When it began, as Kubernetes writes times; empty: now."""
    healthy: bool | None = None
    uid: str = ""
    """Of what is to be acknowledged; empty where nothing is."""
    missing: bool = False
    """It answers a reconciliation: there is no such pod."""


LAUNCH_FAILED = "CONTAINER_LAUNCH_FAILED"
NEVER_STARTS: Mapping[str, str] = {
    "ErrImagePull": "the image cannot be pulled",
    "ImagePullBackOff": "the image cannot be pulled",
    "ErrImageNeverPull": "the image is not on the node, and may not be pulled",
    "ImageInspectError": "the image cannot be read",
    "InvalidImageName": "the name of the image is invalid",
    "RegistryUnavailable": "the registry of the image does not answer",
    "SignatureValidationFailed": "the signature of the image is invalid",
    "CreateContainerConfigError": "the container's configuration is invalid",
    "CreateContainerError": "the container cannot be created",
    "RunContainerError": "the container cannot be started",
    "CrashLoopBackOff": "the container ends again and again",
}
"""Reasons of a waiting container for which a kubelet tries again without end → our words."""
REFUSED_BY_NODE = frozenset(
    {
        "OutOfcpu", "OutOfmemory", "OutOfephemeral-storage", "OutOfnvidia.com/gpu", "OutOfpods",
        "NodeAffinity", "NodeName", "NodePorts", "TaintToleration", "UnexpectedAdmissionError",
        "TopologyAffinityError", "PodOSNotSupported",
        "PodOSSelectorNodeLabelDoesNotMatch", "NodeCapacityExceeded",
    }
)  # fmt: skip
"""Reasons of a failed pod that its kubelet has not admitted: nothing of it has run."""
NODE_ENDED = frozenset(
    {"NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting", "UnreachableNode"}
)
"""Reasons of a failed pod whose node was shut down, or took it back for a critical pod."""
NOT_EXECUTED = frozenset({"StartError", "ContainerCannotRun"})
"""Reasons of a terminated container whose command was not executed."""
STATUS_UNKNOWN = "ContainerStatusUnknown"
"""The reason of a container of which a kubelet has found nothing after a restart."""
DRAINING = "AGENT_DRAINING"
"""The reason for an end that the cluster caused: the run is always repeated."""
_DISRUPTED = "Kubernetes has ended the pod for reasons of the cluster"
_DELETED = "the pod was deleted, and not by Peloton"


def judge(pod: Pod, killed: bool) -> RunStatus | None:
    """Return the status of a pod's run; None where it never starts, as `hopeless` says.

    `killed`: we have asked for its end.
    """
    if pod.over:
        return _ended(pod, killed)
    if hopeless(pod) and not killed and not pod.deleting:
        return None
    if pod.foreign:  # its containers may start again: its phase counts
        running = pod.phase == "Running"
        return RunStatus(pod.run, RunState.RUNNING if running else RunState.STARTING, pod.node)
    if pod.container.state == "running":
        healthy = pod.container.ready if pod.checked else None
        return RunStatus(pod.run, RunState.RUNNING, pod.node, at=pod.container.at, healthy=healthy)
    if (status := begun(pod)) is not None:  # it ends when the phase says so: all of the pod is gone then
        return status
    if pod.container.state:
        return RunStatus(pod.run, RunState.STARTING, pod.node)
    return RunStatus(pod.run, RunState.STAGING, pod.node)


def begun(pod: Pod) -> RunStatus | None:
    """Return the status with which a run began whose container has ended; None where it never did."""
    container = pod.container
    if not container.began or container.reason in NOT_EXECUTED or container.reason == STATUS_UNKNOWN:
        return None
    return RunStatus(pod.run, RunState.RUNNING, pod.node, at=container.began)


def hopeless(pod: Pod) -> str:
    """Return why a pod's container never starts; empty where it may, and for pods of others."""
    container = pod.container
    if container.state != "waiting" or container.reason not in NEVER_STARTS or pod.foreign:
        return ""
    return _joined(NEVER_STARTS[container.reason], container.message)


def removed(pod: Pod, killed: bool) -> RunStatus:
    """Return the status of a run whose pod is gone before it was seen to end."""
    if killed:
        return RunStatus(pod.run, RunState.KILLED, pod.node, message=_how(pod.container))
    if pod.disrupted:
        return RunStatus(pod.run, RunState.LOST, pod.node, DRAINING, _DISRUPTED)
    return RunStatus(pod.run, RunState.KILLED, pod.node, message=_DELETED)


def _ended(pod: Pod, killed: bool) -> RunStatus:
    container, at = pod.container, pod.container.at
    if killed:
        return RunStatus(pod.run, RunState.KILLED, pod.node, message=_how(container), at=at)
    if pod.phase == "Succeeded":
        return RunStatus(pod.run, RunState.FINISHED, pod.node, message=_how(container), at=at)
    state, reason, message = _failure(pod)
    return RunStatus(pod.run, state, pod.node, reason, message, at)


def _failure(pod: Pod) -> tuple[RunState, str, str]:
    """Return state, reason and message of a run that failed; LOST where the task is not to blame."""
    container, text = pod.container, _joined(pod.reason, pod.message)
    if pod.reason in REFUSED_BY_NODE:
        return RunState.LOST, "INVALID_OFFERS", f"the node has refused the pod: {text}"
    if pod.disrupted or pod.reason in NODE_ENDED:
        return RunState.LOST, DRAINING, _joined(_DISRUPTED, text)
    if pod.deleting:
        return RunState.KILLED, "", _DELETED
    if container.reason == "OOMKilled":
        return RunState.FAILED, "CONTAINER_LIMITATION_MEMORY", f"Memory limit exceeded; {_how(container)}"
    if pod.reason == "Evicted":
        reason = "CONTAINER_LIMITATION_DISK" if "ephemeral" in pod.message else "CONTAINER_LIMITATION"
        return RunState.FAILED, reason, f"evicted: {pod.message}"
    if container.reason == STATUS_UNKNOWN:
        return RunState.LOST, "AGENT_RESTARTED", "the node does not know how the container has ended"
    if container.reason in NOT_EXECUTED:
        return RunState.FAILED, LAUNCH_FAILED, _joined("the command cannot be executed", container.message)
    if container.state != "terminated":
        return RunState.FAILED, LAUNCH_FAILED, text or "the pod has failed without a reason"
    return RunState.FAILED, "", _how(container)


def _how(container: Container) -> str:
    """Return how a container ended, in the words of Mesos' executor; empty where it is not known."""
    if container.state != "terminated":
        return ""
    number = container.signal or (container.exit_code - 128 if container.exit_code > 128 else 0)
    if number:
        try:
            name = signal.strsignal(number)
        except ValueError:
            name = None
        if name:
            return f"Command terminated with signal {name}"
    return f"Command exited with status {container.exit_code}"


def _joined(first: str, second: str) -> str:
    return f"{first}: {second}" if first and second else first or second
