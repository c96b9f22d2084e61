"""Launches in the messages of the host manager's API."""

from __future__ import annotations

from collections.abc import Sequence

from jobmgr.clients.rendezvous import tell
from jobmgr.clients.task_configs import TaskConfigs
from jobmgr.core.launch_answers import LaunchAnswer, LaunchResult
from jobmgr.core.state.instructions import Launch
from jobmgr.ports.hostmgr import LaunchedTask
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.model.constraint import Label
from peloton.model.ids import mesos_task_id, task_id
from peloton.model.system_labels import SYSTEM_PREFIX
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.wire.constraint import labels_to
from peloton.wire.ids import agent_id
from peloton.wire.launch import volume_to
from peloton.wire.secrets import add_secret

LAUNCHED = LaunchAnswer(LaunchResult.LAUNCHED)


class LaunchWriter:
    """Writes requests for launches; remembers parsed configs."""

    def __init__(self) -> None:
        self._configs = TaskConfigs()

    def request(self, claim: Launch, tasks: Sequence[LaunchedTask]) -> hostsvc_pb2.LaunchTasksRequest:
        """Return the request to launch tasks on a claimed host."""
        request = hostsvc_pb2.LaunchTasksRequest(
            hostname=claim.hostname,
            agentId=agent_id(claim.agent_id),
            id=peloton_pb2.HostOfferID(value=claim.offer_id),
        )
        for task in tasks:
            self._fill(request.tasks.add(), task)
        return request

    def _fill(self, wire: hostsvc_pb2.LaunchableTask, task: LaunchedTask) -> None:
        run, spec = task.run, task.spec
        instance = run.instance
        wire.taskId.value = mesos_task_id(*run)
        wire.id.value = task_id(run.job_id, instance)
        wire.config.CopyFrom(self._configs.task(run.job_id, spec, instance))
        if task.told:
            tell(wire.config, task.told, spec.workload.framework)
        for path, content in task.secrets:
            add_secret(wire.config, path, content)
        for name, value in task.environment:
            wire.config.command.environment.variables.add(name=name, value=value)
        put_labels(wire.config, task.labels)
        if spec.revocable(instance):
            wire.config.revocable = True
        if task.volume is not None:
            wire.volume.CopyFrom(volume_to(task.volume))
        for port in spec.task(instance).ports:
            if port.value == 0:
                wire.ports[port.name] = task.runtime.ports[port.name]


def put_labels(config: task_pb2.TaskConfig, labels: Sequence[Label]) -> None:
    """Put the labels of the system in place of what the user gives under its prefix."""
    if any(label.key.startswith(SYSTEM_PREFIX) for label in config.labels):
        kept = [label for label in config.labels if not label.key.startswith(SYSTEM_PREFIX)]
        del config.labels[:]
        config.labels.extend(kept)
    if labels:
        config.labels.extend(labels_to(labels))


def answer_from(wire: hostsvc_pb2.LaunchTasksResponse) -> LaunchAnswer:
    """Translate the answer to a launch."""
    error = wire.error
    if error.HasField("invalidOffers"):
        return LaunchAnswer(LaunchResult.CLAIM_OVER, error.invalidOffers.message)
    if error.HasField("launchFailure"):
        return LaunchAnswer(LaunchResult.UNCERTAIN)
    if error.HasField("invalidArgument"):
        return LaunchAnswer(LaunchResult.FAULTY, error.invalidArgument.message)
    return LAUNCHED
