"""The status of a pod, as kubelets write it."""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Object = Mapping[str, Any]


@dataclass(slots=True)
class Progress:
    """How far a pod is. Times are seconds since 1970, 0: not yet."""

    accepted: float = field(default_factory=time.time)
    began: float = 0.0
    ended: float = 0.0
    exit_code: int = 0
    reason: str = ""
    message: str = ""
    refusal: tuple[str, str] | None = None
    """Reason and message of a pod that is not run at all."""
    healthy: bool | None = None

    @property
    def phase(self) -> str:
        """The phase of the pod."""
        if self.refusal is not None:
            return "Failed"
        if self.ended:
            return "Failed" if self.exit_code else "Succeeded"
        return "Running" if self.began else "Pending"


def exit_code_of(status: int) -> int:
    """Return the exit code of a wait status, as container runtimes tell it: 128 and the signal's number."""
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)


def status_of(pod: Object, progress: Progress, ip: str) -> dict[str, Any]:
    """Return the status of a pod of one container."""
    if progress.refusal is not None:
        reason, message = progress.refusal
        return {"phase": "Failed", "reason": reason, "message": message}
    ready = bool(progress.began and not progress.ended and progress.healthy is not False)
    if any("readinessProbe" in each for each in pod["spec"]["containers"]):
        ready = ready and progress.healthy is True
    (container,) = pod["spec"]["containers"]
    state = {
        "name": container["name"], "image": container.get("image", ""), "imageID": "", "restartCount": 0,
        "ready": ready, "started": bool(progress.began and not progress.ended), "state": _state(progress),
        "containerID": f"process://{pod['metadata']['uid']}",
    }  # fmt: skip
    conditions = [_condition(name, value) for name, value in (("Initialized", True), ("Ready", ready))]
    return {
        "phase": progress.phase,
        "startTime": text_of(progress.accepted),
        "hostIP": ip,
        "podIP": ip,
        "conditions": [*conditions, _condition("ContainersReady", ready), _condition("PodScheduled", True)],
        "containerStatuses": [state],
    }


def _state(progress: Progress) -> dict[str, Any]:
    if progress.ended:
        times = {"startedAt": text_of(progress.began), "finishedAt": text_of(progress.ended)}
        body = {"exitCode": progress.exit_code, "reason": progress.reason, **times}
        return {"terminated": {**body, "message": progress.message} if progress.message else body}
    if progress.began:
        return {"running": {"startedAt": text_of(progress.began)}}
    return {"waiting": {"reason": "ContainerCreating"}}


def _condition(name: str, value: bool) -> dict[str, str]:
    return {"type": name, "status": str(value)}


def text_of(seconds: float) -> str:
    """Return a time as Kubernetes writes it, in whole seconds."""
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(seconds))
