"""The simulated cluster: a master with its agents, as a cluster manager shows itself to hostmgr.

It offers what is free, runs what is launched, reports statuses until they are acknowledged, and answers
reconciliations. What a run does is a function of its id: see `Behaviour`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import NamedTuple, Protocol

from hostmgr.core.claims.claim import LaunchPlan
from hostmgr.core.cluster_manager.events import (
    Acknowledgement,
    Address,
    AgentLost,
    BackendEvent,
    OfferRescinded,
    OffersMade,
    Registration,
    SecondLaunchRefused,
    StatusUpdate,
)
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.offers import SCALARS, Entry, Free, Offer
from peloton.model.ids import MesosTaskId
from peloton.model.resources import ZERO, Resources
from peloton.model.states import TaskState
from peloton.model.task import Launch, TaskStatus
from simulator.world.agents import HostSpec, SimAgent, SimRun, Update
from simulator.world.kernel import Kernel, Life

RESEND_SECONDS = 10.0
UNREACHABLE_SECONDS = 15.0
"""Time after which the master gives up an agent that it does not hear of."""
RECONCILIATION = "RECONCILIATION"


class Course(NamedTuple):
    """What a run does by itself."""

    starts: float
    """Seconds from its launch until it runs."""
    seconds: float
    """How long it runs."""
    end: TaskState = TaskState.SUCCEEDED
    message: str = ""


Behaviour = Callable[[MesosTaskId], Course]


class Listener(Protocol):
    """The hostmgr that is subscribed."""

    life: Life

    def on_events(self, events: Sequence[BackendEvent]) -> None:
        """Take events in their order."""
        ...

    def on_disconnected(self, reason: str) -> None:
        """Learn that the connection has ended."""
        ...


def both(one: Callable[[SimRun], None] | None, two: Callable[[SimRun], None]) -> Callable[[SimRun], None]:
    """Return what calls both with a run."""
    if one is None:
        return two

    def call(run: SimRun) -> None:
        one(run)
        two(run)

    return call


class Cluster:
    """A master with its agents."""

    def __init__(
        self,
        kernel: Kernel,
        hosts: Iterable[HostSpec],
        behaviour: Behaviour,
        delay: float = 0.001,
        starting: bool = True,
    ) -> None:
        """`delay` is that of messages; `starting`: whether a run is STARTING before it is RUNNING."""
        self._kernel = kernel
        self._behaviour = behaviour
        self._delay = delay
        self._starting = starting
        self.life = Life("cluster/master")
        self.agents = {f"agent-{at}": SimAgent(f"agent-{at}", spec) for at, spec in enumerate(hosts)}
        self.runs: dict[MesosTaskId, SimRun] = {}
        """By id: live ones, and those with updates that are not acknowledged."""
        self.launched: dict[MesosTaskId, int] | None = None
        """How often each run was launched, where somebody wants to know."""
        self.on_end: Callable[[SimRun], None] | None = None
        """Called with each run that ends."""
        self.on_start: Callable[[SimRun], None] | None = None
        """Called with each run that is RUNNING."""
        self.on_launch: Callable[[SimRun], None] | None = None
        """Called with each run that is launched."""
        self.on_acknowledged: Callable[[SimRun, TaskState], None] | None = None
        """Called with each status that is acknowledged."""
        self.draining: set[str] = set()
        """Hosts in maintenance, which are not offered."""
        self._listener: Listener | None = None
        self._framework = ""
        self._master = 1
        self._offers = 0
        self._uuids = 0
        self._batch: list[BackendEvent] = []
        """Events that are on their way to the listener together."""
        self._changes = 0

    # The framework's connection.

    def subscribe(self, listener: Listener) -> Registration:
        """Connect a hostmgr, in place of the one that was connected, and offer it everything."""
        former, self._listener = self._listener, listener
        if former is not None and former is not listener and not former.life.ended:
            self._kernel.after(self._delay, former.life, former.on_disconnected, "another one subscribed")
        self._framework = self._framework or "framework-1"
        self._batch = []
        for agent in self.agents.values():
            agent.offered.clear()
            self._offer_soon(agent)
        for run in self.runs.values():
            run.sent = False
            self._send_update(run)
        return Registration(self._framework, Address("master", 5050), f"master-{self._master}")

    def disconnect(self, reason: str) -> None:
        """End the connection: what was on its way is lost."""
        listener, self._listener = self._listener, None
        self._batch = []
        if listener is not None and not listener.life.ended:
            self._kernel.after(self._delay, listener.life, listener.on_disconnected, reason)

    def connected(self, listener: Listener) -> bool:
        """Return whether this hostmgr is the one that is connected."""
        return self._listener is listener

    def _tell(self, *events: BackendEvent) -> None:
        listener = self._listener
        if listener is None or listener.life.ended:
            return
        if not self._batch:
            self._batch = []
            self._kernel.after(self._delay, listener.life, self._deliver, listener, self._batch)
        self._batch += events

    def _deliver(self, listener: Listener, events: list[BackendEvent]) -> None:
        if self._batch is events:
            self._batch = []
        if self._listener is listener:
            listener.on_events(events)

    # Offers.

    def _offer_soon(self, agent: SimAgent) -> None:
        if not agent.waiting:
            agent.waiting = True
            self._kernel.after(self._delay, self.life, self._offer, agent)

    def _offer(self, agent: SimAgent) -> None:
        agent.waiting = False
        free = agent.unoffered
        if self._listener is None or not agent.registered or free == ZERO:
            return
        if agent.spec.hostname in self.draining:
            return
        self._offers += 1
        offer_id = f"offer-{self._offers}"
        agent.offered[offer_id] = free
        entries = tuple(
            Entry(name, at, amount=amount)
            for at, (name, amount) in enumerate(zip(SCALARS, free.values(), strict=True))
            if amount > 0
        )
        spec = agent.spec
        offer = Offer(
            offer_id, agent.id, spec.hostname, entries, spec.labels, free=Free(free, slack_cpu=0, ports=0)
        )
        self._tell(OffersMade((offer,)))

    def listed(self) -> list[Agent]:
        """Return the agents as the master's map has them."""
        return [
            Agent(
                agent.id, agent.spec.hostname, agent.spec.labels, agent.spec.resources, allocated=agent.used
            )
            for agent in self.agents.values()
            if agent.registered
        ]

    # Calls of the framework.

    def launch(self, plan: LaunchPlan, launches: Sequence[Launch]) -> None:
        """Launch runs on offers of one agent."""
        agent = self.agents.get(plan.claim.agent_id)
        offers = [offer.id for offer in plan.offers]
        valid = agent is not None and agent.registered and all(each in agent.offered for each in offers)
        if agent is None or not valid:
            for launch in launches:
                self._drop(launch.mesos_task_id, plan.claim.agent_id)
            return
        for each in offers:
            del agent.offered[each]
        for launch in launches:
            self._start(agent, launch)
        self._offer_soon(agent)

    def _drop(self, run: MesosTaskId, agent_id: str) -> None:
        if run in self.runs:
            self._tell(SecondLaunchRefused(run))
        else:
            self._tell(self._status(run, TaskState.LOST, agent_id, "invalid offers", "INVALID_OFFERS"))

    def _start(self, agent: SimAgent, launch: Launch) -> None:
        run_id = launch.mesos_task_id
        if self.launched is not None:
            self.launched[run_id] = self.launched.get(run_id, 0) + 1
        if run_id in self.runs:
            self._tell(SecondLaunchRefused(run_id))
            return
        run = SimRun(run_id, agent, launch.resources)
        if self.on_launch is not None:
            self.on_launch(run)
        self.runs[run_id] = agent.runs[run_id] = run
        agent.used = agent.used + run.resources
        course = self._behaviour(run_id)
        if self._starting:
            self._kernel.after(course.starts / 2, self.life, self._advance, run, TaskState.STARTING, "")
        self._kernel.after(course.starts, self.life, self._begin, run, course)

    def adopt(self, run_id: MesosTaskId, agent: SimAgent, resources: Resources, course: Course) -> None:
        """Take a run that was launched before the start; `course` begins now, `starts` 0: it is RUNNING."""
        running = not course.starts
        state = TaskState.RUNNING if running else TaskState.LAUNCHED
        run = SimRun(run_id, agent, resources, state, told=state)
        self.runs[run_id] = agent.runs[run_id] = run
        agent.used = agent.used + resources
        if running:
            self._kernel.after(course.seconds, self.life, self._advance, run, course.end, course.message)
        else:
            self._kernel.after(course.starts, self.life, self._begin, run, course)

    def _begin(self, run: SimRun, course: Course) -> None:
        if not run.live:
            return
        self._advance(run, TaskState.RUNNING, "")
        if self.on_start is not None:
            self.on_start(run)
        self._kernel.after(course.seconds, self.life, self._advance, run, course.end, course.message)

    def _advance(self, run: SimRun, state: TaskState, message: str, reason: str = "") -> None:
        """Take a run to a state, and report it."""
        if not run.live:
            return
        run.state = state
        self._uuids += 1
        uuid = self._uuids.to_bytes(16, "big")
        run.updates.append(Update(state, uuid, message, reason))
        if state.terminal:
            if self.on_end is not None:
                self.on_end(run)
            if run.agent.registered and run.agent.reachable:
                self._free(run)
        self._send_update(run)

    def _free(self, run: SimRun) -> None:
        agent = run.agent
        agent.used = agent.used - run.resources
        run.resources = ZERO
        self._offer_soon(agent)

    def _send_update(self, run: SimRun) -> None:
        if run.sent or not run.updates or not run.agent.reachable or not run.agent.registered:
            return
        if self._listener is None:
            return
        run.sent = True
        update = run.updates[0]
        run.told = update.state
        self._tell(
            self._status(run.id, update.state, run.agent.id, update.message, update.reason, update.uuid)
        )

    def resend(self) -> None:
        """Send all updates again that are not acknowledged."""
        for run in list(self.runs.values()):
            run.sent = False
            self._send_update(run)

    def acknowledge(self, batch: Iterable[Acknowledgement]) -> None:
        """Take acknowledgements: the next update of each run follows."""
        for each in batch:
            run = self.runs.get(each.run)
            if run is None or not run.updates or run.updates[0].uuid != each.uuid or not run.agent.reachable:
                continue
            update = run.updates.popleft()
            run.sent = False
            if self.on_acknowledged is not None:
                self.on_acknowledged(run, update.state)
            if run.updates:
                self._send_update(run)
            elif not run.live:
                del self.runs[run.id], run.agent.runs[run.id]

    def kill(self, runs: Iterable[tuple[MesosTaskId, str]]) -> None:
        """Kill runs. The states of unknown ones are reported as in a reconciliation."""
        for run_id, agent_id in runs:
            run = self.runs.get(run_id)
            if run is None or not run.agent.registered:
                self._answer(run_id, agent_id)
            elif run.live and not run.killed and run.agent.reachable:
                run.killed = True
                self._kernel.after(
                    self._delay, self.life, self._advance, run, TaskState.KILLED, "Command terminated"
                )

    def shut_down(self, executors: Iterable[tuple[str, str]]) -> None:
        """Shut executors down: their runs end."""
        self.kill(executors)

    def reconcile(self, runs: Iterable[tuple[MesosTaskId, str]]) -> None:
        """Report the states of runs; without runs, of all that are known."""
        asked = list(runs) or [(run.id, run.agent.id) for run in self.runs.values() if run.agent.registered]
        for run_id, agent_id in asked:
            self._answer(run_id, agent_id)

    def _answer(self, run_id: MesosTaskId, agent_id: str) -> None:
        run = self.runs.get(run_id)
        if run is not None and run.agent.registered:
            self._tell(self._status(run_id, run.told, run.agent.id, "", RECONCILIATION))
            return
        if run is not None:
            run.lost = True
        agent = self.agents.get(agent_id)
        known = agent is not None and agent.registered
        self._tell(
            StatusUpdate(
                self._task_status(run_id, TaskState.LOST, agent_id, "unknown task", RECONCILIATION, b""),
                unknown=not known,
                missing=True,
                wire=None,
            )
        )

    def _status(
        self, run: MesosTaskId, state: TaskState, agent_id: str, message: str, reason: str, uuid: bytes = b""
    ) -> StatusUpdate:
        status = self._task_status(run, state, agent_id, message, reason, uuid)
        return StatusUpdate(status, False, state.terminal and reason == RECONCILIATION, None)

    def _task_status(
        self, run: MesosTaskId, state: TaskState, agent_id: str, message: str, reason: str, uuid: bytes
    ) -> TaskStatus:
        return TaskStatus(run, state, self._kernel.wall(self.life), agent_id, message, reason, None, uuid)

    # What befalls the cluster.

    def part(self, agent: SimAgent) -> None:
        """Cut an agent off: its runs go on; the master gives it up after a while."""
        if agent.reachable:
            agent.reachable = False
            self._kernel.after(UNREACHABLE_SECONDS, self.life, self._give_up, agent)

    def _give_up(self, agent: SimAgent) -> None:
        if agent.reachable or not agent.registered:
            return
        agent.registered = False
        self._tell(*(OfferRescinded(each) for each in agent.offered), AgentLost(agent.id))
        agent.offered.clear()
        for run in agent.runs.values():
            if not run.told.terminal:
                run.lost = True
                self._tell(
                    self._status(run.id, TaskState.LOST, agent.id, "agent is unreachable", "AGENT_REMOVED")
                )

    def reunite(self, agent: SimAgent) -> None:
        """Let an agent be reached again: it registers where it was given up."""
        if agent.reachable:
            return
        agent.reachable = True
        for run in agent.runs.values():
            if not run.live:
                run.resources = ZERO
        agent.used = sum((run.resources for run in agent.runs.values()), ZERO)
        if not agent.registered:
            agent.registered = True
            for run in agent.runs.values():
                if run.live:
                    self._tell(self._status(run.id, run.state, agent.id, "", "AGENT_REREGISTERED"))
        for run in agent.runs.values():
            run.sent = False
            self._send_update(run)
        self._offer_soon(agent)

    def reboot(self, agent: SimAgent) -> None:
        """Restart a host: its runs are gone, and its agent registers under another id."""
        for run in list(agent.runs.values()):
            if run.live:
                run.state = TaskState.LOST
                if self.on_end is not None:
                    self.on_end(run)
            del self.runs[run.id]
        lost = [run.id for run in agent.runs.values() if not run.told.terminal]
        agent.runs.clear()
        if agent.registered:
            self._tell(*(OfferRescinded(each) for each in agent.offered), AgentLost(agent.id))
            for each in lost:
                self._tell(
                    self._status(each, TaskState.LOST, agent.id, "agent has restarted", "AGENT_REMOVED")
                )
        agent.registered = agent.reachable = False
        agent.offered.clear()
        del self.agents[agent.id]
        self._changes += 1
        fresh = SimAgent(f"{agent.id.partition('/')[0]}/{self._changes}", agent.spec)
        self.agents[fresh.id] = fresh
        self._offer_soon(fresh)

    def drain(self, hostname: str) -> None:
        """Begin the maintenance of a host: it is not offered until that ends."""
        self.draining.add(hostname)
        for agent in self._agents_of(hostname):
            self._tell(*(OfferRescinded(each) for each in agent.offered))
            agent.offered.clear()

    def end_drain(self, hostname: str) -> None:
        """End the maintenance of a host."""
        self.draining.discard(hostname)
        for agent in self._agents_of(hostname):
            self._offer_soon(agent)

    def _agents_of(self, hostname: str) -> list[SimAgent]:
        return [agent for agent in self.agents.values() if agent.spec.hostname == hostname]

    def elect(self) -> None:
        """Have another master elected: connections end, and what was unacknowledged comes again."""
        self._master += 1
        self.disconnect("another master leads")
        for agent in self.agents.values():
            agent.offered.clear()

    def free(self) -> Resources:
        """Return what all registered agents have that no run uses."""
        return sum((agent.spec.resources - agent.used for agent in self.agents.values()), ZERO)
