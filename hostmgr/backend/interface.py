"""The port to a cluster manager: calls and events in the model's terms.

An adapter (`hostmgr.mesos`) translates its messages once. Where the internal API shows a message of the
cluster manager to clients, the adapter passes it on as `wire`, in the form that `peloton.wire` reads; no
decision depends on it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, NoReturn, Protocol

from hostmgr.core.agents.draining import Machine, MasterStatus
from hostmgr.core.claims.claim import LaunchPlan
from hostmgr.core.cluster_manager.events import Acknowledgement, BackendEvent, Registration, StatusEvent
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.offers import Offer, OfferedVolume
from hostmgr.core.state.operations import HostOperation
from peloton.model.foreign_pod import PodChanges, Told
from peloton.model.ids import MesosTaskId
from peloton.model.problems import Problem
from peloton.model.task import Launch


class AgentMap(NamedTuple):
    """The registered agents."""

    agents: Sequence[Agent]
    complete: bool
    """False while a new master waits for agents to register again."""
    disconnected: frozenset[str] = frozenset()
    """Hostnames of agents that are registered and not connected: they may come back or be lost."""


class Listener(Protocol):
    """Receives what the cluster manager reports."""

    async def on_connected(self, registration: Registration) -> None:
        """Handle a new connection, before its first event. Raises Unavailable to end it."""
        ...

    async def on_framework_removed(self) -> None:
        """Forget the framework id; the next connection gets a new one."""
        ...

    def on_events(self, events: Sequence[BackendEvent]) -> None:
        """Handle events in order."""
        ...

    def on_disconnected(self, reason: str) -> None:
        """Handle the end of the connection; offers and acknowledgements are void."""
        ...

    def on_call_refused(self) -> None:
        """Handle a call that the cluster manager refused, so that it had no effect."""
        ...


class ForeignSource(Protocol):
    """The pods of others that are to be queued and bound, where the cluster manager has some."""

    @property
    def enabled(self) -> bool:
        """Whether there are any."""
        ...

    async def changes(self, stream: str, after: int, wait: float) -> PodChanges:
        """Return what has changed after a change of a stream, waiting for up to `wait` seconds."""
        ...

    def tell(self, told: Iterable[Told]) -> None:
        """Tell owners of pods what becomes of them."""
        ...


class Backend(Protocol):
    """A cluster manager.

    Calls are queued in order and raise Unavailable, without effect, while there is no connection.
    """

    @property
    def ready(self) -> bool:
        """Return whether calls can be made now."""
        ...

    @property
    def foreign(self) -> ForeignSource | None:
        """Return the pods of others; None where the cluster manager has none."""
        ...

    def attach(self, listener: Listener) -> None:
        """Set the receiver of events; call this once, before `run`."""
        ...

    async def run(self) -> NoReturn:
        """Connect, again after each end of the connection, and deliver events to the listener."""
        ...

    def launch(self, plan: LaunchPlan, launches: Sequence[Launch]) -> None:
        """Launch tasks on the plan's offers. Raises InvalidArgument for a task that cannot be described."""
        ...

    def operate(self, agent_id: str, offers: Sequence[Offer], operations: Sequence[HostOperation]) -> None:
        """Carry out operations in order, all or none, on all offers of an agent.

        Raises InsufficientOffers for resources that are not offered, and InvalidArgument for a task that
        cannot be described.
        """
        ...

    def destroy_volume(self, volume: OfferedVolume) -> None:
        """Destroy a persistent volume, and free its disk, on the offer that holds it."""
        ...

    async def try_task(self, launch: Launch) -> str:
        """Return why a task would be refused wherever it goes; empty where that is not known. Launch nothing.

        Raises Unavailable.
        """
        ...

    def decline(self, offer_ids: Iterable[str]) -> None:
        """Decline offers."""
        ...

    def kill(self, runs: Iterable[tuple[MesosTaskId, str]], maintenance: bool = False) -> None:
        """Kill runs, given as (run, agent id or empty).

        Those that are killed for the `maintenance` of their hosts may be kept by a rule of the cluster: they
        end as soon as it allows it, and `problems` tells of them meanwhile.
        """
        ...

    def shut_down(self, executors: Iterable[tuple[str, str]]) -> None:
        """Shut down executors, given as (executor id, agent id), with their tasks."""
        ...

    def reconcile(self, runs: Iterable[tuple[MesosTaskId, str]]) -> None:
        """Request the states of runs, given as (run, agent id or empty); without runs, of all active ones."""
        ...

    def acknowledge(self, statuses: Iterable[Acknowledgement]) -> None:
        """Acknowledge statuses, so that the cluster manager sends the following ones."""
        ...

    def killed_with_framework(
        self, runs: Iterable[tuple[MesosTaskId, str]], framework_id: str, at: int
    ) -> Sequence[StatusEvent]:
        """Return statuses by which runs were killed when their framework was removed.

        `runs` are given as (run, agent id), `at` in nanoseconds since 1970.
        """
        ...

    def problems(self) -> Sequence[Problem]:
        """Return what waits for somebody to do something about it, in the cluster's own words."""
        ...

    async def drain(self) -> None:
        """Wait until more calls may be queued. Raises Unavailable where the connection ends meanwhile."""
        ...

    async def agents(self) -> AgentMap:
        """Read the registered agents. Raises Unavailable, InvalidArgument for an amount that is no number."""
        ...

    async def quota(self) -> Mapping[str, int]:
        """Read the quota of the own role: thousandths by kind. Raises Unavailable, InvalidArgument."""
        ...

    async def maintenance(self) -> MasterStatus:
        """Read the machines of the maintenance schedule. Raises Unavailable."""
        ...

    async def change_schedule(self, add: Sequence[Machine], remove: Sequence[Machine]) -> None:
        """Add machines to the maintenance schedule, from now on and without end, and remove others.

        All offers are rescinded and made again. Raises Unavailable.
        """
        ...

    async def take_down(self, machines: Sequence[Machine]) -> None:
        """Take scheduled machines down: their agents end and cannot register. Raises Unavailable."""
        ...

    async def bring_up(self, machines: Sequence[Machine]) -> None:
        """End the maintenance of machines that are down: their agents can register. Raises Unavailable."""
        ...
