"""A Mesos master and its agents, in the process: what hostmgr's adapter calls and hears, without connections.

Tasks run at once and end after a moment, so that a test never waits long for room.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import NoReturn

from mesos.v1 import mesos_pb2
from mesos.v1.maintenance import maintenance_pb2
from mesos.v1.master import master_pb2
from mesos.v1.quota import quota_pb2
from peloton.errors import Unavailable
from peloton.mesos.calls import Call
from peloton.mesos.connection import Handler
from peloton.mesos.detector import MasterAddress
from peloton.mesos.stream import Event

FRAMEWORK = "f-0000"
ADDRESS = MasterAddress("127.0.0.1", 5050)
AMOUNTS = {"cpus": 16.0, "mem": 65536.0, "disk": 100_000.0}
PORTS = (31000, 31099)
RUN_SECONDS = 0.05
OFFER_SECONDS = 0.01
MasterCall = master_pb2.Call


@dataclass
class Agent:
    """A host. What is free is either offered or waits to be."""

    hostname: str
    number: int = 0
    up: bool = True
    free: dict[str, float] = field(default_factory=dict)
    ports: set[int] = field(default_factory=set)
    offers: dict[str, tuple[dict[str, float], set[int]]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.restart()

    @property
    def id(self) -> str:
        return f"{self.hostname}-S{self.number}"

    @property
    def total(self) -> dict[str, float]:
        return {**AMOUNTS, "gpus": 4.0} if self.hostname.startswith("gpu") else dict(AMOUNTS)

    def restart(self) -> None:
        self.free, self.ports = self.total, set(range(PORTS[0], PORTS[1] + 1))
        self.offers.clear()


def scalars(amounts: dict[str, float]) -> list[mesos_pb2.Resource]:
    return [
        mesos_pb2.Resource(
            name=name, type=mesos_pb2.Value.SCALAR, role="*", scalar=mesos_pb2.Value.Scalar(value=amount)
        )
        for name, amount in amounts.items()
        if amount > 0
    ]


def port_ranges(ports: Iterable[int]) -> list[mesos_pb2.Resource]:
    resource = mesos_pb2.Resource(name="ports", type=mesos_pb2.Value.RANGES, role="*")
    for port in sorted(ports):
        last = resource.ranges.range[-1] if resource.ranges.range else None
        if last is not None and last.end == port - 1:
            last.end = port
        else:
            resource.ranges.range.add(begin=port, end=port)
    return [resource] if resource.ranges.range else []


def taken_by(task: mesos_pb2.TaskInfo) -> tuple[dict[str, float], set[int]]:
    amounts: dict[str, float] = {}
    ports: set[int] = set()
    for each in task.resources:
        if each.type == mesos_pb2.Value.SCALAR:
            amounts[each.name] = amounts.get(each.name, 0.0) + each.scalar.value
        for part in each.ranges.range:
            ports.update(range(part.begin, part.end + 1))
    return amounts, ports


class Master:
    """The driver and the operator client that hostmgr's adapter has, in one."""

    def __init__(self, hostnames: Iterable[str]) -> None:
        self.agents_by_id: dict[str, Agent] = {}
        for hostname in hostnames:
            agent = Agent(hostname)
            self.agents_by_id[agent.id] = agent
        self.ready = False
        self.tasks: dict[str, tuple[str, mesos_pb2.TaskInfo, mesos_pb2.TaskState.ValueType]] = {}
        """Live tasks: agent, task, state."""
        self.launched = 0
        self._handler: Handler | None = None
        self._numbers = itertools.count(1)
        self._schedule = maintenance_pb2.Schedule()
        self._down: list[mesos_pb2.MachineID] = []
        self._changed = asyncio.Event()

    # The driver.

    def connect(self, handler: Handler) -> Master:
        self._handler = handler
        return self

    async def run(self) -> NoReturn:
        assert self._handler is not None
        await self._handler.on_subscribed(FRAMEWORK, ADDRESS, "m1")
        self.ready = True
        while True:
            for agent in list(self.agents_by_id.values()):
                self._offer(agent)
            self._changed.clear()
            await self._changed.wait()
            await asyncio.sleep(OFFER_SECONDS)

    async def drain(self) -> None:
        await asyncio.sleep(0)

    def send(self, *calls: Call) -> None:
        self.send_each(calls)

    def send_each(self, calls: Iterable[Call]) -> None:
        if not self.ready:
            raise Unavailable("not subscribed")
        for call in calls:
            call.SerializeToString()  # what cannot be sent fails here
            self._answer(call)

    def _answer(self, call: Call) -> None:
        if call.type == Call.ACCEPT:
            self._accept(call.accept)
        elif call.type == Call.DECLINE:
            for each in call.decline.offer_ids:
                self._take_back(each.value)
        elif call.type == Call.KILL:
            self._later(self._end, call.kill.task_id.value, mesos_pb2.TASK_KILLED)
        elif call.type == Call.RECONCILE:
            self._reconcile(call.reconcile)

    def _later(self, what: Callable[..., None], *arguments: object, after: float = 0.0) -> None:
        asyncio.get_running_loop().call_later(after, what, *arguments)

    def _deliver(self, *events: Event) -> None:
        assert self._handler is not None
        self._handler.on_events(list(events))

    def _offer(self, agent: Agent) -> None:
        if not agent.up or not (agent.ports or any(agent.free.values())):
            return
        event = Event(type=Event.OFFERS)
        offer = event.offers.offers.add(hostname=agent.hostname)
        offer.id.value, offer.agent_id.value, offer.framework_id.value = (
            f"O{next(self._numbers)}",
            agent.id,
            FRAMEWORK,
        )
        offer.resources.extend([*scalars(agent.free), *port_ranges(agent.ports)])
        agent.offers[offer.id.value] = (agent.free, agent.ports)
        agent.free, agent.ports = {}, set()
        self._deliver(event)

    def _give_back(self, agent: Agent, amounts: dict[str, float], ports: set[int]) -> None:
        for name, amount in amounts.items():
            agent.free[name] = round(agent.free.get(name, 0.0) + amount, 6)
        agent.ports |= ports
        self._changed.set()

    def _take_back(self, offer_id: str) -> Agent | None:
        for agent in self.agents_by_id.values():
            found = agent.offers.pop(offer_id, None)
            if found is not None:
                self._give_back(agent, *found)
                return agent
        return None

    def _accept(self, accept: Call.Accept) -> None:
        agents = [self._take_back(each.value) for each in accept.offer_ids]
        tasks = [task for each in accept.operations for task in each.launch.task_infos]
        tasks += [task for each in accept.operations for task in each.launch_group.task_group.tasks]
        for task in tasks:
            agent = agents[0] if agents else None
            if agent is None or task.task_id.value in self.tasks:
                self._later(self._status, task.task_id.value, "", mesos_pb2.TASK_LOST)
                continue
            amounts, ports = taken_by(task)
            for name, amount in amounts.items():
                agent.free[name] = max(agent.free.get(name, 0.0) - amount, 0.0)
            agent.ports -= ports
            self.tasks[task.task_id.value] = (agent.id, task, mesos_pb2.TASK_RUNNING)
            self.launched += 1
            self._later(self._status, task.task_id.value, agent.id, mesos_pb2.TASK_RUNNING)
            self._later(self._end, task.task_id.value, mesos_pb2.TASK_FINISHED, after=RUN_SECONDS)

    def _end(self, task_id: str, state: mesos_pb2.TaskState.ValueType) -> None:
        found = self.tasks.pop(task_id, None)
        if found is None:
            return
        agent = self.agents_by_id.get(found[0])
        if agent is not None and agent.up:
            amounts, ports = taken_by(found[1])
            self._give_back(agent, amounts, ports)
        self._status(task_id, found[0], state)

    def _status(
        self, task_id: str, agent_id: str, state: mesos_pb2.TaskState.ValueType, answers: bool = False
    ) -> None:
        event = Event(type=Event.UPDATE)
        status = event.update.status
        status.task_id.value, status.state = task_id, state
        status.source = mesos_pb2.TaskStatus.SOURCE_MASTER if answers else mesos_pb2.TaskStatus.SOURCE_AGENT
        if agent_id:
            status.agent_id.value = agent_id
        if answers:
            status.reason = mesos_pb2.TaskStatus.REASON_RECONCILIATION
        else:
            status.uuid = next(self._numbers).to_bytes(16, "big")
        self._deliver(event)

    def _reconcile(self, asked: Call.Reconcile) -> None:
        for task_id in [each.task_id.value for each in asked.tasks] or list(self.tasks):
            self._later(self._tell, task_id)

    def _tell(self, task_id: str) -> None:
        """Tell the state of this moment: one of the moment when it was asked for may come after the end."""
        agent_id, _, state = self.tasks.get(task_id, ("", None, mesos_pb2.TASK_GONE))
        self._status(task_id, agent_id, state, True)

    # The operator client.

    async def agents(self) -> master_pb2.Response.GetAgents:
        answer = master_pb2.Response.GetAgents()
        for agent in self.agents_by_id.values():
            if not agent.up:
                continue
            each = answer.agents.add(active=True, version="1.12.0", pid="slave(1)@127.0.0.1:1")
            each.agent_info.hostname, each.agent_info.id.value = agent.hostname, agent.id
            resources = [*scalars(agent.total), *port_ranges(range(PORTS[0], PORTS[1] + 1))]
            each.agent_info.resources.extend(resources)
            each.total_resources.extend(resources)
            each.agent_info.attributes.add(
                name="rack", type=mesos_pb2.Value.TEXT, text=mesos_pb2.Value.Text(value=agent.hostname[-1])
            )
        return answer

    async def quotas(self) -> list[quota_pb2.QuotaConfig]:
        return []

    async def maintenance_status(self) -> maintenance_pb2.ClusterStatus:
        status = maintenance_pb2.ClusterStatus(down_machines=self._down)
        down = {each.hostname for each in self._down}
        for window in self._schedule.windows:
            for machine in window.machine_ids:
                if machine.hostname not in down:
                    status.draining_machines.add(id=machine)
        return status

    async def maintenance_schedule(self) -> maintenance_pb2.Schedule:
        return self._schedule

    async def act(self, call: MasterCall) -> None:
        if call.type == MasterCall.UPDATE_MAINTENANCE_SCHEDULE:
            self._schedule = maintenance_pb2.Schedule()
            self._schedule.CopyFrom(call.update_maintenance_schedule.schedule)
        elif call.type == MasterCall.START_MAINTENANCE:
            for machine in call.start_maintenance.machines:
                self._down.append(machine)
                self._take_down(machine.hostname)
        elif call.type == MasterCall.STOP_MAINTENANCE:
            names = {machine.hostname for machine in call.stop_maintenance.machines}
            self._down = [each for each in self._down if each.hostname not in names]
            for window in self._schedule.windows:
                kept = [each for each in window.machine_ids if each.hostname not in names]
                del window.machine_ids[:]
                window.machine_ids.extend(kept)
            for agent in list(self.agents_by_id.values()):
                if agent.hostname in names and not agent.up:
                    self._bring_up(agent)

    def _take_down(self, hostname: str) -> None:
        for agent in self.agents_by_id.values():
            if agent.hostname == hostname and agent.up:
                agent.up = False
                for task_id in [each for each, found in self.tasks.items() if found[0] == agent.id]:
                    self._end(task_id, mesos_pb2.TASK_LOST)
                events = []
                for offer_id in agent.offers:
                    events.append(Event(type=Event.RESCIND))
                    events[-1].rescind.offer_id.value = offer_id
                agent.offers.clear()
                events.append(Event(type=Event.FAILURE))
                events[-1].failure.agent_id.value = agent.id
                self._deliver(*events)

    def _bring_up(self, agent: Agent) -> None:
        del self.agents_by_id[agent.id]
        again = Agent(agent.hostname, agent.number + 1)
        self.agents_by_id[again.id] = again
        self._changed.set()
