"""A listener that keeps what a backend reports, and acknowledges as hostmgr does."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

from hostmgr.backend.interface import Backend
from hostmgr.core.claims.claim import Claim, LaunchPlan
from hostmgr.core.cluster_manager.events import (
    AgentLost,
    BackendEvent,
    OfferRescinded,
    OffersMade,
    Registration,
    StatusUpdate,
)
from hostmgr.core.state.offers import Offer, OfferedVolume, free, need_of, take
from peloton.api.v0.task import task_pb2
from peloton.model.resources import Resources
from peloton.model.states import TaskState
from peloton.model.task import Launch
from tests.contract.backend.systems import System

T = TypeVar("T")
PATIENCE_SECONDS = 60.0


class Recorder:
    """Follows one backend, as a leader of hostmgr does, from its attachment to `stop`."""

    def __init__(self, backend: Backend, acknowledging: bool = True) -> None:
        self.backend = backend
        self.job = str(uuid.uuid4())
        self.acknowledging = acknowledging
        self.registrations: list[Registration] = []
        self.offers: dict[str, Offer] = {}
        self.statuses: list[StatusUpdate] = []
        self.lost: list[str] = []
        self.disconnections: list[str] = []
        self.removals = 0
        backend.attach(self)
        self._task = asyncio.create_task(backend.run())

    async def stop(self) -> None:
        """End as a leader that dies: nothing is said to the cluster manager."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)

    # The listener.

    async def on_connected(self, registration: Registration) -> None:
        self.registrations.append(registration)
        self.offers.clear()

    async def on_framework_removed(self) -> None:
        self.removals += 1

    def on_events(self, events: Sequence[BackendEvent]) -> None:
        for event in events:
            if isinstance(event, OffersMade):
                self.offers.update((offer.id, offer) for offer in event.offers)
            elif isinstance(event, OfferRescinded):
                self.offers.pop(event.offer_id, None)
            elif isinstance(event, AgentLost):
                self.lost.append(event.agent_id)
                self.offers = {
                    id: each for id, each in self.offers.items() if each.agent_id != event.agent_id
                }
            elif isinstance(event, StatusUpdate):
                self.statuses.append(event)
                if self.acknowledging and event.status.uuid:
                    self.backend.acknowledge([event.acknowledgement])

    def on_disconnected(self, reason: str) -> None:
        self.disconnections.append(reason)
        self.offers.clear()

    def on_call_refused(self) -> None:
        """Refused calls are seen by what they did not do."""

    # What tests ask.

    async def until(self, check: Callable[[], T], what: str = "it") -> T:
        """Wait until a check holds, while the backend works."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not (found := check()):
            if self._task.done():
                self._task.result()
            assert time.monotonic() < deadline, (
                f"{what}: not within {PATIENCE_SECONDS:.0f} s; {self.summary()}"
            )
            await asyncio.sleep(0.02)
        return found

    def summary(self) -> str:
        seen = [
            (each.status.mesos_task_id[-6:], each.status.state.name, each.status.message)
            for each in self.statuses
        ]
        return f"free {self.free()}, statuses {seen}, disconnected {self.disconnections}"

    async def connected(self) -> Recorder:
        """Wait for a connection with an offer."""
        await self.until(lambda: self.registrations and self.offers, "a connection with offers")
        return self

    def on_host(self, agent_id: str = "") -> list[Offer]:
        """Return the offers of one host, the first one unless it is named."""
        agent = agent_id or next(iter(self.offers.values())).agent_id
        return [each for each in self.offers.values() if each.agent_id == agent]

    def free(self) -> Resources:
        """Return what all offers hold."""
        return free(self.offers.values()).normal if self.offers else Resources()

    def of(self, run: str) -> list[StatusUpdate]:
        return [each for each in self.statuses if each.status.mesos_task_id == run]

    def states(self, run: str) -> list[TaskState]:
        """Return the states of a run, each once in a row."""
        found: list[TaskState] = []
        for each in self.of(run):
            if found[-1:] != [each.status.state]:
                found.append(each.status.state)
        return found

    async def ends(self, run: str) -> StatusUpdate:
        """Wait for the end of a run."""

        def ended() -> StatusUpdate | None:
            return next((each for each in self.of(run) if each.status.state.terminal), None)

        found = await self.until(ended, f"the end of {run}")
        assert found is not None
        return found

    async def runs(self, run: str) -> None:
        await self.until(lambda: TaskState.RUNNING in self.states(run), f"{run} runs")

    # What tests do.

    def launch(self, *launches: Launch, on: str = "") -> str:
        """Launch on the first host that is offered, or `on` one, using its offers; return its agent's id."""
        offers = self.on_host(on)
        agent = offers[0].agent_id
        needs = [need_of(each) for each in launches]
        claim = Claim("c", agent, offers[0].hostname, 0.0, 0.0)
        plan = LaunchPlan(
            claim, tuple(offers), tuple(take(offers, needs)), frozenset(each.task_id for each in needs)
        )
        self.backend.launch(plan, launches)
        for each in offers:
            self.offers.pop(each.id, None)
        return agent

    def task(
        self, command: str, instance: int = 0, ports: dict[str, int] | None = None, **changes: object
    ) -> Launch:
        """Return a launch of half a core, of a command for the shell; `changes` are fields of its config."""
        config = task_pb2.TaskConfig(resource=task_pb2.ResourceConfig(cpuLimit=0.5, memLimitMb=64))
        config.command.value = command
        config.command.shell = True
        for name, value in changes.items():
            setattr(config, name, value)
        given = ports or {}
        for name in given:
            config.ports.add(name=name, envName=name.upper())
        resources = Resources.of(cpu=0.5, memory=64)
        dynamic = tuple(given.values())
        return Launch(self.run(instance), resources, config, ports=given, dynamic_ports=dynamic)

    def run(self, instance: int = 0, number: int = 1) -> str:
        """Return a run of an instance of the job of this test, the first one unless another is named."""
        return f"{self.job}-{instance}-{number}"

    def volume(self, volume_id: str) -> OfferedVolume | None:
        """Return a persistent volume that is offered."""
        return next(
            (
                OfferedVolume(offer, entry)
                for offer in self.offers.values()
                for entry in offer.entries
                if entry.volume == volume_id
            ),
            None,
        )


@asynccontextmanager
async def leading(
    system: System, framework_id: str = "", acknowledging: bool = True
) -> AsyncIterator[Recorder]:
    """Lead during the context, as a leader of hostmgr that dies at its end."""
    async with system.backend(framework_id) as backend:
        recorder = Recorder(backend, acknowledging)
        try:
            yield await recorder.connected()
        finally:
            await recorder.stop()
