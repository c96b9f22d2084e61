"""The backend for Mesos: its scheduler API and its operator API behind the port."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NoReturn

from hostmgr.backend.interface import AgentMap, Listener
from hostmgr.core.agents.draining import Machine, MasterStatus
from hostmgr.core.claims.claim import LaunchPlan
from hostmgr.core.cluster_manager.events import (
    Acknowledgement,
    Address,
    AgentLost,
    BackendEvent,
    OfferRescinded,
    OffersMade,
    Registration,
    StatusEvent,
)
from hostmgr.core.state.offers import Offer, OfferedVolume, Taken
from hostmgr.core.state.operations import HostOperation
from hostmgr.mesos import volumes
from hostmgr.mesos.agents import AgentReader
from hostmgr.mesos.host_names import HostNames
from hostmgr.mesos.maintenance import MaintenanceCalls
from hostmgr.mesos.operations import OperationPlan
from hostmgr.mesos.statuses import killed_with_framework, status_from
from hostmgr.mesos.taskinfo import LONGEST_GRACE_SECONDS, TaskInfos, task_info
from hostmgr.mesos.translate import ResourceTemplates, offer_from
from mesos.v1.mesos_pb2 import Resource
from peloton.errors import InvalidArgument, Unavailable
from peloton.mesos.calls import Call, Calls
from peloton.mesos.connection import Handler, MesosDriver
from peloton.mesos.detector import MasterAddress
from peloton.mesos.stream import Event
from peloton.model.ids import MesosTaskId
from peloton.model.problems import Problem
from peloton.model.task import Launch

REFUSE_SECONDS = 0.0
"""Filter of an ACCEPT: Mesos offers the rest of the host again with the next allocation."""


class MesosBackend:
    """Translate between the port and the driver, whose handler it is."""

    def __init__(
        self,
        connect: Callable[[Handler], MesosDriver],
        agent_reader: AgentReader,
        maintenance: MaintenanceCalls,
        principal: str = "",
        hosts: HostNames | None = None,
        longest_grace: int = LONGEST_GRACE_SECONDS,
    ) -> None:
        """Create the driver by `connect`, which receives the handler. `principal` owns reservations.

        Tasks have `longest_grace` seconds to save their work at most.
        """
        self._longest_grace = longest_grace
        self._maintenance = maintenance
        self._principal = principal
        self._driver = connect(self)
        self._agent_reader = agent_reader
        self._hosts = hosts or HostNames("")
        self._calls: Calls | None = None
        self._templates = ResourceTemplates()
        self._listener: Listener | None = None

    # The port.

    @property
    def ready(self) -> bool:
        """Return whether calls can be made now."""
        return self._calls is not None and self._driver.ready

    @property
    def foreign(self) -> None:
        """Return nothing: Mesos has no pods."""
        return

    def attach(self, listener: Listener) -> None:
        """Set the receiver of events."""
        self._listener = listener

    async def run(self) -> NoReturn:
        """Subscribe, again after each end of the subscription."""
        await self._driver.run()

    def launch(self, plan: LaunchPlan, launches: Sequence[Launch]) -> None:
        """Write one ACCEPT for all offers of the plan. Raises InvalidArgument, Unavailable."""
        agent_id, operations = plan.claim.agent_id, self._operations(plan)
        infos = TaskInfos(agent_id, self._resource, self._longest_grace)
        tasks = (infos.of(launch, taken) for launch, taken in zip(launches, plan.taken, strict=True))
        offers = [offer.id for offer in plan.offers]
        self._send(self._subscribed().accept(offers, tasks, REFUSE_SECONDS, operations))

    def operate(self, agent_id: str, offers: Sequence[Offer], operations: Sequence[HostOperation]) -> None:
        """Write one ACCEPT of all operations. Raises InsufficientOffers, InvalidArgument, Unavailable."""
        plan = OperationPlan(offers, agent_id, self._templates, self._principal)
        for each in operations:
            plan.add(each)
        ids = [offer.id for offer in offers]
        self._send(self._subscribed().accept(ids, (), REFUSE_SECONDS, plan.messages))

    def destroy_volume(self, volume: OfferedVolume) -> None:
        """Write one ACCEPT that destroys a volume and ends its reservation. Raises Unavailable."""
        taken = Taken(volume.entry.template, volume.entry.amount)
        operations = volumes.destroyed(self._templates.resource(taken))
        self._send(self._subscribed().accept([volume.offer.id], (), REFUSE_SECONDS, operations))

    def _resource(self, taken: Taken) -> Resource:
        """Return what a task takes as Mesos has it when the task starts: a new volume exists by then."""
        resource = self._templates.resource(taken)
        if taken.volume is None:
            return resource
        return volumes.mounted(resource, taken, self._principal)

    def _operations(self, plan: LaunchPlan) -> list[volumes.Operation]:
        """Return the operations that create the new volumes of a launch."""
        new = [each for task in plan.taken for each in task if each.volume is not None and each.volume.create]
        return [
            operation
            for taken in new
            for operation in volumes.created(self._templates.resource(taken), taken, self._principal)
        ]

    async def try_task(self, launch: Launch) -> str:
        """Return why there is no TaskInfo of a task; a master is asked by a launch only."""
        try:
            task_info(launch, "", ())
        except InvalidArgument as error:
            return str(error)
        return ""

    def decline(self, offer_ids: Iterable[str]) -> None:
        """Write one DECLINE. Raises Unavailable."""
        self._send(self._subscribed().decline(offer_ids))

    def kill(self, runs: Iterable[tuple[MesosTaskId, str]], maintenance: bool = False) -> None:
        """Write a KILL for each run, whatever it is for. Raises Unavailable."""
        calls = self._subscribed()
        self._send(*(calls.kill(run, agent_id) for run, agent_id in runs))

    def shut_down(self, executors: Iterable[tuple[str, str]]) -> None:
        """Write a SHUTDOWN for each executor. Raises Unavailable."""
        calls = self._subscribed()
        self._send(*(calls.shutdown(*executor) for executor in executors))

    def reconcile(self, runs: Iterable[tuple[MesosTaskId, str]]) -> None:
        """Write one RECONCILE, implicit for no runs. Raises Unavailable."""
        self._send(self._subscribed().reconcile(runs))

    def acknowledge(self, statuses: Iterable[Acknowledgement]) -> None:
        """Write an ACKNOWLEDGE for each status. Raises Unavailable."""
        self._driver.send_each(map(self._subscribed().acknowledge, statuses))

    def killed_with_framework(
        self, runs: Iterable[tuple[MesosTaskId, str]], framework_id: str, at: int
    ) -> Sequence[StatusEvent]:
        """Return the statuses that a Mesos master records and does not send."""
        return [killed_with_framework(*run, framework_id, at) for run in runs]

    def problems(self) -> Sequence[Problem]:
        """Return nothing: a Mesos master carries out what it is asked for."""
        return ()

    async def drain(self) -> None:
        """Wait for room for more calls. Raises Unavailable."""
        await self._driver.drain()

    async def agents(self) -> AgentMap:
        """Read GET_AGENTS. Raises Unavailable, InvalidArgument."""
        return await self._agent_reader.agents()

    async def quota(self) -> Mapping[str, int]:
        """Read GET_QUOTA. Raises Unavailable, InvalidArgument."""
        return await self._agent_reader.quota()

    async def maintenance(self) -> MasterStatus:
        """Read GET_MAINTENANCE_STATUS. Raises Unavailable."""
        return await self._maintenance.status()

    async def change_schedule(self, add: Sequence[Machine], remove: Sequence[Machine]) -> None:
        """Replace the schedule by UPDATE_MAINTENANCE_SCHEDULE. Raises Unavailable."""
        await self._maintenance.change_schedule(add, remove)

    async def take_down(self, machines: Sequence[Machine]) -> None:
        """Make a START_MAINTENANCE. Raises Unavailable."""
        await self._maintenance.take_down(machines)

    async def bring_up(self, machines: Sequence[Machine]) -> None:
        """Make a STOP_MAINTENANCE. Raises Unavailable."""
        await self._maintenance.bring_up(machines)

    def _subscribed(self) -> Calls:
        if self._calls is None:
            raise Unavailable("not subscribed with the Mesos master at the moment")
        return self._calls

    def _send(self, *calls: Call) -> None:
        self._driver.send(*calls)

    # The driver's handler.

    async def on_subscribed(self, framework_id: str, master: MasterAddress, master_id: str) -> None:
        """Report the registration. Raises Unavailable where it cannot be stored."""
        address = Address(master.host, master.port)
        await self._receiver.on_connected(Registration(framework_id, address, master_id))
        self._calls = Calls(framework_id)

    async def on_framework_removed(self) -> None:
        """Report that the framework id is void."""
        await self._receiver.on_framework_removed()

    def on_events(self, events: list[Event]) -> None:
        """Translate the events of one read, and report them in order."""
        self._receiver.on_events(list(self._translated(events)))

    def on_disconnected(self, reason: str) -> None:
        """Report the end of the subscription."""
        self._calls = None
        self._receiver.on_disconnected(reason)

    def on_refused(self, call: str, status: int, text: str) -> None:
        """Report that a call had no effect."""
        self._receiver.on_call_refused()

    @property
    def _receiver(self) -> Listener:
        assert self._listener is not None, "attach comes before run"
        return self._listener

    def _translated(self, events: Iterable[Event]) -> Iterable[BackendEvent]:
        for event in events:
            if event.type == Event.UPDATE:
                yield self._status(event)
            elif event.type == Event.OFFERS:
                for offer in event.offers.offers:
                    self._hosts.name(offer)
                yield OffersMade([offer_from(offer, self._templates) for offer in event.offers.offers])
            elif event.type == Event.RESCIND:
                yield OfferRescinded(event.rescind.offer_id.value)
            elif event.type == Event.FAILURE and _is_of_agent(event.failure):
                yield AgentLost(event.failure.agent_id.value)

    def _status(self, event: Event) -> StatusEvent:
        return status_from(event.update.status)


def _is_of_agent(failure: Event.Failure) -> bool:
    """Return whether an agent is lost. The end of an executor is reported by statuses of its tasks."""
    return failure.HasField("agent_id") and not failure.HasField("executor_id")
