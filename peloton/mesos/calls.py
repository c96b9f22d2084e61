"""Messages of the scheduler API's calls."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from mesos.v1 import mesos_pb2
from mesos.v1.scheduler import scheduler_pb2

Call = scheduler_pb2.Call
_Capability = mesos_pb2.FrameworkInfo.Capability


@dataclass(frozen=True, slots=True)
class Framework:
    """The framework as which a program registers with Mesos; hostmgr by default (docs/behaviour/hosts.md)."""

    user: str = "root"
    name: str = "Peloton"
    role: str = "peloton"
    principal: str = "peloton"
    failover_timeout: float = 6e7
    """Seconds for which the master keeps the tasks of a framework that is not subscribed."""
    gpus: bool = True
    revocable: bool = True
    hostname: str = ""
    webui_url: str = ""

    def info(self, framework_id: str | None) -> mesos_pb2.FrameworkInfo:
        """Return the message that describes the framework."""
        capabilities = [_Capability.MULTI_ROLE, _Capability.PARTITION_AWARE, _Capability.TASK_KILLING_STATE]
        capabilities += [_Capability.GPU_RESOURCES] if self.gpus else []
        capabilities += [_Capability.REVOCABLE_RESOURCES] if self.revocable else []
        info = mesos_pb2.FrameworkInfo(
            user=self.user,
            name=self.name,
            roles=[self.role],
            failover_timeout=self.failover_timeout,
            checkpoint=True,
            capabilities=[_Capability(type=each) for each in capabilities],
        )
        if self.principal:
            info.principal = self.principal
        if self.hostname:
            info.hostname = self.hostname
        if self.webui_url:
            info.webui_url = self.webui_url
        if framework_id:
            info.id.value = framework_id
        return info


class Acknowledgeable(Protocol):
    """What an ACKNOWLEDGE needs of a status."""

    @property
    def run(self) -> str:
        """The id of the task."""
        ...

    @property
    def agent_id(self) -> str:
        """The agent that sent it."""
        ...

    @property
    def uuid(self) -> bytes:
        """By which the agent knows it."""
        ...


def subscribe(framework: Framework, framework_id: str | None) -> Call:
    """Return a SUBSCRIBE. A known framework id is required in the call and in its FrameworkInfo."""
    info = framework.info(framework_id)
    call = Call(type=Call.SUBSCRIBE, subscribe=Call.Subscribe(framework_info=info))
    if framework_id:
        call.framework_id.value = framework_id
    return call


class Calls:
    """Build the calls of a subscribed framework."""

    def __init__(self, framework_id: str) -> None:
        self._id = mesos_pb2.FrameworkID(value=framework_id)
        self._acknowledge = Call(framework_id=self._id, type=Call.ACKNOWLEDGE)

    def accept(
        self,
        offer_ids: Iterable[str],
        tasks: Iterable[mesos_pb2.TaskInfo],
        refuse_seconds: float,
        operations: Iterable[mesos_pb2.Offer.Operation] = (),
    ) -> Call:
        """Return an ACCEPT that carries out `operations`, then launches `tasks`, on offers of one agent.

        Each of `tasks` is copied before the next one is made. Mesos offers the rest again after
        `refuse_seconds`.
        """
        call = Call(framework_id=self._id, type=Call.ACCEPT)
        call.accept.filters.refuse_seconds = refuse_seconds
        for each in offer_ids:
            call.accept.offer_ids.add(value=each)
        call.accept.operations.extend(operations)
        launch = call.accept.operations.add(type=mesos_pb2.Offer.Operation.LAUNCH).launch
        launch.task_infos.extend(tasks)
        if not launch.task_infos:
            del call.accept.operations[-1]
        return call

    def decline(self, offer_ids: Iterable[str], refuse_seconds: float = 0.0) -> Call:
        """Return a DECLINE of offers."""
        return Call(
            framework_id=self._id,
            type=Call.DECLINE,
            decline=Call.Decline(
                offer_ids=[mesos_pb2.OfferID(value=each) for each in offer_ids],
                filters=mesos_pb2.Filters(refuse_seconds=refuse_seconds),
            ),
        )

    def acknowledge(self, status: Acknowledgeable) -> Call:
        """Return an ACKNOWLEDGE of a status with a uuid; statuses of the master have none and get none.

        It is the same message each time, to be encoded before the next one: to make its parts anew for each
        status would take most of the time.
        """
        acknowledge = self._acknowledge.acknowledge
        acknowledge.agent_id.value = status.agent_id
        acknowledge.task_id.value = status.run
        acknowledge.uuid = status.uuid
        return self._acknowledge

    def kill(self, task_id: str, agent_id: str) -> Call:
        """Return a KILL of a task; `agent_id` may be empty."""
        call = Call(
            framework_id=self._id, type=Call.KILL, kill=Call.Kill(task_id=mesos_pb2.TaskID(value=task_id))
        )
        if agent_id:
            call.kill.agent_id.value = agent_id
        return call

    def shutdown(self, executor_id: str, agent_id: str) -> Call:
        """Return a SHUTDOWN of an executor."""
        return Call(
            framework_id=self._id,
            type=Call.SHUTDOWN,
            shutdown=Call.Shutdown(
                executor_id=mesos_pb2.ExecutorID(value=executor_id),
                agent_id=mesos_pb2.AgentID(value=agent_id),
            ),
        )

    def reconcile(self, runs: Iterable[tuple[str, str]]) -> Call:
        """Return a RECONCILE of (task id, agent id or empty); without runs it is implicit."""
        call = Call(framework_id=self._id, type=Call.RECONCILE, reconcile=Call.Reconcile())
        for task_id, agent_id in runs:
            task = call.reconcile.tasks.add()
            task.task_id.value = task_id
            if agent_id:
                task.agent_id.value = agent_id
        return call

    def revive(self) -> Call:
        """Return a REVIVE, after which offers come again."""
        return Call(framework_id=self._id, type=Call.REVIVE)

    def suppress(self) -> Call:
        """Return a SUPPRESS, after which no offers come."""
        return Call(framework_id=self._id, type=Call.SUPPRESS)

    def teardown(self) -> Call:
        """Return a TEARDOWN, which ends the framework and all its tasks."""
        return Call(framework_id=self._id, type=Call.TEARDOWN)
