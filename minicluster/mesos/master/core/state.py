"""The state of the master: frameworks, agents, tasks, offers, machines, and the messages to be sent.

Pure data and the few rules that hold everywhere. Times are seconds since the epoch, of a clock that never
goes back. Protobuf messages that came from outside are kept as they are and never changed.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from mesos.v1 import mesos_pb2 as mesos
from mesos.v1.master import master_pb2 as master
from mesos.v1.scheduler import scheduler_pb2 as scheduler
from minicluster.mesos.common import resources as res
from minicluster.mesos.common.agent_link import MasterMessage
from minicluster.mesos.common.status_updates import TERMINAL
from minicluster.mesos.master.core.status_log import StatusLog

CAPABILITY = mesos.FrameworkInfo.Capability
MAX_COMPLETED = 1000
"""How many ended tasks are kept per framework, as in Mesos' --max_completed_tasks_per_framework."""


@dataclass(frozen=True, slots=True)
class MasterConfig:
    """Settings of a master. Times in seconds."""

    master_id: str
    ip: str
    port: int
    hostname: str
    allocation_interval: float = 1.0
    offer_timeout: float | None = None
    heartbeat_interval: float = 15.0
    agent_ping_timeout: float = 15.0
    max_agent_ping_timeouts: int = 5
    agent_reregister_timeout: float = 600.0
    version: str = "1.12.0"


@dataclass(slots=True)
class Task:
    """A task that an agent runs or ran.

    ``state`` is the newest known, ``reported`` that of the newest update.
    """

    info: mesos.TaskInfo
    framework_id: str
    agent_id: str
    role: str
    resources: res.Bundle
    state: int = mesos.TASK_STAGING
    reported: int | None = None
    reported_uuid: bytes = b""
    statuses: StatusLog = field(default_factory=StatusLog)
    kill: tuple[float, bool] | None = None
    released: bool = False

    @property
    def id(self) -> str:
        """The task id."""
        return self.info.task_id.value

    @property
    def executor_id(self) -> str:
        """The executor's id: the task's own for a command task."""
        return self.info.executor.executor_id.value if self.info.HasField("executor") else self.id


@dataclass(slots=True)
class Offer:
    """What is offered to one framework, for one role, of one agent."""

    id: str
    framework_id: str
    agent_id: str
    role: str
    resources: res.Bundle


@dataclass(slots=True)
class InverseOffer:
    """A request to free an agent for maintenance."""

    id: str
    framework_id: str
    agent_id: str
    unavailability: mesos.Unavailability


@dataclass(slots=True)
class Filter:
    """Refused resources: nothing that is contained in them is offered before ``until``."""

    until: float
    resources: res.Bundle


@dataclass(slots=True)
class Framework:
    """A framework, connected when ``stream`` is set. ``recovered``: known only through agents."""

    id: str
    info: mesos.FrameworkInfo
    roles: tuple[str, ...]
    capabilities: frozenset[int]
    stream: str | None = None
    active: bool = False
    recovered: bool = False
    suppressed: set[str] = field(default_factory=set)
    registered: float = 0.0
    reregistered: float | None = None
    unregistered: float | None = None
    connection: int = 0
    tasks: dict[str, Task] = field(default_factory=dict)
    unreachable: dict[str, Task] = field(default_factory=dict)
    completed: deque[Task] = field(default_factory=lambda: deque(maxlen=MAX_COMPLETED))
    offers: dict[str, Offer] = field(default_factory=dict)
    inverse_offers: dict[str, InverseOffer] = field(default_factory=dict)
    filters: dict[tuple[str, str], list[Filter]] = field(default_factory=dict)
    inverse_filters: dict[str, float] = field(default_factory=dict)
    allocated: Counter[str] = field(default_factory=Counter)
    """Thousandths of the scalars that its tasks use until they end, by name. Ports of several agents have no
    sum."""

    def can(self, capability: int) -> bool:
        """Return whether it declared a capability."""
        return capability in self.capabilities

    @property
    def partition_aware(self) -> bool:
        """Whether it knows UNREACHABLE, DROPPED, GONE and UNKNOWN."""
        return CAPABILITY.PARTITION_AWARE in self.capabilities


@dataclass(slots=True)
class Agent:
    """A registered agent. ``free`` = total - used - offered, kept up to date."""

    id: str
    info: mesos.AgentInfo
    ip: str
    version: str
    total: res.Bundle
    free: res.Bundle
    registered: float
    reregistered: float | None = None
    connected: bool = True
    deactivated: bool = False
    drain: mesos.DrainInfo | None = None
    drain_started: float = 0.0
    pings_missed: int = 0
    ping_round: int = 0
    tasks: dict[tuple[str, str], Task] = field(default_factory=dict)
    offers: dict[str, Offer] = field(default_factory=dict)
    unavailability: mesos.Unavailability | None = None
    offer_template: bytes = b""
    has_gpus: bool = False
    simulated: bool = False
    number: int = 1
    """Of those with its address: the agent's server is `slave(<number>)` there."""

    @property
    def hostname(self) -> str:
        """The agent's hostname."""
        return self.info.hostname

    @property
    def process(self) -> str:
        """The name of its server, with which the paths begin."""
        return f"slave({self.number})"

    @property
    def pid(self) -> str:
        """Name and address of its server."""
        return f"{self.process}@{self.ip}:{self.info.port}"

    @property
    def offerable(self) -> bool:
        """Whether new offers of it may be made."""
        return self.connected and not self.deactivated


@dataclass(slots=True)
class Outbox:
    """Messages to be sent, in order. An event of None ends its stream."""

    events: list[tuple[str, scheduler.Event | None]] = field(default_factory=list)
    operator_events: list[master.Event] = field(default_factory=list)
    agents: list[tuple[str, MasterMessage]] = field(default_factory=list)


@dataclass(slots=True)
class Machine:
    """A machine in the maintenance schedule. ``answers`` per framework: last answer and its time."""

    id: mesos.MachineID
    unavailability: mesos.Unavailability
    down: bool = False
    answers: dict[str, tuple[bool, float]] = field(default_factory=dict)


class Deadlines:
    """All times at which an action is due, as one heap."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Callable[[float], None]]] = []
        self._count = itertools.count()

    def at(self, when: float, action: Callable[[float], None]) -> None:
        """Have ``action(now)`` run once ``when`` has come. It checks itself whether it still applies."""
        heapq.heappush(self._heap, (when, next(self._count), action))

    def next(self) -> float | None:
        """When the first is due."""
        return self._heap[0][0] if self._heap else None

    def run(self, now: float) -> None:
        """Run all that are due."""
        while self._heap and self._heap[0][0] <= now:
            heapq.heappop(self._heap)[2](now)


class Master:
    """The master's whole state."""

    def __init__(self, config: MasterConfig) -> None:
        self.config = config
        self.frameworks: dict[str, Framework] = {}
        self.removed_frameworks: dict[str, Framework] = {}
        self.streams: dict[str, str] = {}
        self.agents: dict[str, Agent] = {}
        self.recovered: dict[str, mesos.AgentInfo] = {}
        self.unreachable: dict[str, float] = {}
        self.gone: dict[str, float] = {}
        self.offers: dict[str, Offer] = {}
        self.inverse_offers: dict[str, InverseOffer] = {}
        self.machines: dict[tuple[str, str], Machine] = {}
        self.schedule: bytes = b""
        self.quotas: dict[str, bytes] = {}
        self.outbox = Outbox()
        self.deadlines = Deadlines()
        self.registry_changed = False
        self.subscribers = 0
        self.counts: Counter[str] = Counter()
        self._next_framework = itertools.count()
        self._next_agent = itertools.count()
        self._next_offer = itertools.count()

    def new_framework_id(self) -> str:
        """Return ``<master id>-0000`` and so on."""
        return f"{self.config.master_id}-{next(self._next_framework):04d}"

    def new_agent_id(self) -> str:
        """Return ``<master id>-S0`` and so on."""
        return f"{self.config.master_id}-S{next(self._next_agent)}"

    def new_offer_id(self) -> str:
        """Return ``<master id>-O0`` and so on, for offers and inverse offers."""
        return f"{self.config.master_id}-O{next(self._next_offer)}"

    def send(self, framework: Framework, event: scheduler.Event) -> None:
        """Queue an event for a framework; dropped when it is not connected."""
        if framework.stream is not None:
            self.outbox.events.append((framework.stream, event))

    def send_to_agent(self, agent: Agent, message: MasterMessage) -> None:
        """Queue a message for an agent; dropped when it is not connected."""
        if agent.connected:
            self.outbox.agents.append((agent.id, message))

    def rescind(self, offer: Offer, *, notify: bool = True) -> None:
        """Take an offer back, and notify the framework unless it gave up the role."""
        framework = self.frameworks[offer.framework_id]
        self.drop_offer(offer)
        if notify:
            event = scheduler.Event(type=scheduler.Event.RESCIND)
            event.rescind.offer_id.value = offer.id
            self.send(framework, event)

    def drop_offer(self, offer: Offer) -> None:
        """Forget an offer; its resources are free again."""
        del self.offers[offer.id]
        del self.frameworks[offer.framework_id].offers[offer.id]
        agent = self.agents.get(offer.agent_id)
        if agent is not None and agent.offers.pop(offer.id, None) is not None:
            res.add(agent.free, offer.resources)

    def rescind_inverse(self, offer: InverseOffer) -> None:
        """Take an inverse offer back, and notify the framework."""
        framework = self.frameworks[offer.framework_id]
        del self.inverse_offers[offer.id], framework.inverse_offers[offer.id]
        event = scheduler.Event(type=scheduler.Event.RESCIND_INVERSE_OFFER)
        event.rescind_inverse_offer.inverse_offer_id.value = offer.id
        self.send(framework, event)

    def release(self, task: Task) -> None:
        """Give a task's resources back, once."""
        if task.released:
            return
        task.released = True
        framework = self.frameworks.get(task.framework_id)
        if framework is not None:
            framework.allocated.subtract(res.scalars(task.resources))
            assert min(framework.allocated.values(), default=0) >= 0, f"{task.id} was not counted"
        agent = self.agents.get(task.agent_id)
        if agent is not None:
            res.add(agent.free, task.resources)

    def count_end(self, state: int) -> None:
        """Count a task that has ended in this state."""
        self.counts[mesos.TaskState.Name(state).lower().replace("task_", "tasks_", 1)] += 1  # type: ignore[arg-type]

    def forget_task(self, task: Task) -> None:
        """Take a task that has ended out of the live tables and keep it among the completed ones."""
        self.release(task)
        framework = self.frameworks.get(task.framework_id)
        if framework is not None and framework.tasks.pop(task.id, None) is not None:
            framework.completed.append(task)
        agent = self.agents.get(task.agent_id)
        if agent is not None:
            agent.tasks.pop((task.framework_id, task.id), None)


def is_terminal(state: int) -> bool:
    """Return whether a task in this state has ended."""
    return state in TERMINAL
