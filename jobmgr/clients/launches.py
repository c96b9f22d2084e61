"""Launches in the messages of the host manager."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from jobmgr.clients.rendezvous import tell
from jobmgr.clients.task_configs import TaskConfigs
from jobmgr.core.launch_answers import LaunchAnswer, LaunchResult
from jobmgr.core.state.instructions import Launch
from jobmgr.ports.hostmgr import LaunchedTask
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import Unavailable
from peloton.model.constraint import Label
from peloton.model.ids import mesos_task_id, parse_mesos_task_id, task_id
from peloton.model.system_labels import SYSTEM_PREFIX
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.launching import launching_pb2
from peloton.wire.constraint import labels_to
from peloton.wire.ids import agent_id
from peloton.wire.launch import volume_to
from peloton.wire.secrets import add_secret

LAUNCHED = LaunchAnswer(LaunchResult.LAUNCHED)
_REFUSALS = {
    launching_pb2.Outcome.RESULT_CLAIM_OVER: LaunchResult.CLAIM_OVER,
    launching_pb2.Outcome.RESULT_FAULTY: LaunchResult.FAULTY,
}


class HostLaunch(NamedTuple):
    """The launch of one host, as it is sent."""

    wire: launching_pb2.HostLaunch
    """Without the places of configs."""
    configs: Sequence[bytes]

    @property
    def size(self) -> int:
        """Bytes of the configs."""
        return sum(map(len, self.configs))


class LaunchWriter:
    """Writes launches; remembers configs."""

    def __init__(self) -> None:
        self._configs = TaskConfigs()

    def launch(self, claim: Launch, tasks: Sequence[LaunchedTask]) -> HostLaunch:
        """Return the launch of tasks on a claimed host."""
        wire = launching_pb2.HostLaunch(
            hostname=claim.hostname, agent_id=claim.agent_id, host_offer_id=claim.offer_id
        )
        places: dict[bytes, int] = {}
        for task in tasks:
            config = places.setdefault(self._config(task), len(places))
            written = wire.tasks.add(mesos_task_id=mesos_task_id(*task.run), config=config)
            if task.volume is not None:
                written.volume.CopyFrom(volume_to(task.volume))
            for port in task.spec.task(task.run.instance).ports:
                if port.value == 0:
                    written.ports[port.name] = task.runtime.ports[port.name]
        return HostLaunch(wire, list(places))

    def _config(self, task: LaunchedTask) -> bytes:
        """Return the encoded config of a task: a known one, unless it has something of its own."""
        (job_id, instance, _), spec = task.run, task.spec
        revocable = spec.revocable(instance)
        if task.told or task.secrets or task.environment:
            return _written(self._configs.task(job_id, spec, instance), task, revocable)
        return self._configs.encoded(
            job_id,
            spec,
            instance,
            (revocable, *task.labels),
            lambda config: _written(config, task, revocable),
        )


def _written(given: task_pb2.TaskConfig, task: LaunchedTask, revocable: bool) -> bytes:
    config = task_pb2.TaskConfig()
    config.CopyFrom(given)
    for path, content in task.secrets:
        add_secret(config, path, content)
    for name, value in task.environment:
        config.command.environment.variables.add(name=name, value=value)
    put_labels(config, task.labels)
    if task.told:
        tell(config, task.told, task.spec.workload.framework)
    if revocable:
        config.revocable = True
    return config.SerializeToString()


def put_labels(config: task_pb2.TaskConfig, labels: Sequence[Label]) -> None:
    """Put the labels of the system in place of what the user gives under its prefix."""
    if any(label.key.startswith(SYSTEM_PREFIX) for label in config.labels):
        kept = [label for label in config.labels if not label.key.startswith(SYSTEM_PREFIX)]
        del config.labels[:]
        config.labels.extend(kept)
    if labels:
        config.labels.extend(labels_to(labels))


def request_of(launches: Iterable[HostLaunch]) -> launching_pb2.LaunchTasksRequest:
    """Return the request for launches on several hosts; what configs they have in common is in it once."""
    request = launching_pb2.LaunchTasksRequest()
    places: dict[bytes, int] = {}
    for launch in launches:
        host = request.hosts.add()
        host.CopyFrom(launch.wire)
        host.configs.extend([places.setdefault(config, len(places)) for config in launch.configs])
    request.configs.extend(places)
    return request


def older_request_of(launch: HostLaunch) -> hostsvc_pb2.LaunchTasksRequest:
    """Return the request for one host, as older host managers take it."""
    wire = launch.wire
    request = hostsvc_pb2.LaunchTasksRequest(
        hostname=wire.hostname,
        agentId=agent_id(wire.agent_id),
        id=peloton_pb2.HostOfferID(value=wire.host_offer_id),
    )
    for task in wire.tasks:
        run = parse_mesos_task_id(task.mesos_task_id)
        written = request.tasks.add()
        written.taskId.value = task.mesos_task_id
        written.id.value = task_id(run.job_id, run.instance)
        written.config.ParseFromString(launch.configs[task.config])
        written.ports.update(task.ports)
        if task.HasField("volume"):
            written.volume.CopyFrom(task.volume)
    return request


def answer_of(outcome: launching_pb2.Outcome) -> LaunchAnswer:
    """Translate what became of the launch of a host. Raises Unavailable where it is to be repeated."""
    if outcome.result == launching_pb2.Outcome.RESULT_LAUNCHED:
        return LAUNCHED
    refusal = _REFUSALS.get(outcome.result)
    if refusal is None:
        raise Unavailable(outcome.message or f"hostmgr answers {outcome.result} to a launch")
    return LaunchAnswer(refusal, outcome.message)


def answer_from(wire: hostsvc_pb2.LaunchTasksResponse) -> LaunchAnswer:
    """Translate the answer of an older host manager to a launch."""
    error = wire.error
    if error.HasField("invalidOffers"):
        return LaunchAnswer(LaunchResult.CLAIM_OVER, error.invalidOffers.message)
    if error.HasField("launchFailure"):
        return LaunchAnswer(LaunchResult.UNCERTAIN)
    if error.HasField("invalidArgument"):
        return LaunchAnswer(LaunchResult.FAULTY, error.invalidArgument.message)
    return LAUNCHED
