"""Claims: what lets a run begin, once, and what keeps it from that. With real supervisors."""

from __future__ import annotations

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.checkpoint import Checkpoint
from minicluster.mesos.agent.cleanup import end_container
from minicluster.mesos.agent.launcher import Launcher
from minicluster.mesos.agent.layout import Layout, read_json
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.agent.supervisor_pool import (
    Ended,
    Event,
    Failed,
    Gone,
    Order,
    Started,
    Supervised,
    Supervisors,
)
from minicluster.mesos.agent.task_limits import TaskLimits
from tests.contract.mesos.framework import eventually

PATIENCE_SECONDS = 60.0
E = TypeVar("E", bound=Event)
FRAMEWORK = mesos.FrameworkInfo(user="root", name="test")


class World:
    """An agent's work directory, and supervisors whose events are kept by container."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)
        self.layout.make()
        self.checkpoint = Checkpoint(self.layout)
        self.launcher = Launcher(self.layout, TaskLimits())
        self.specs: dict[str, dict[str, Any]] = {}
        self.events: dict[str, list[Event]] = {}
        self.changed = asyncio.Event()
        self.supervisors: Supervisors[str] = Supervisors(root, self.take)

    def take(self, container: str, event: Event) -> None:
        self.events.setdefault(container, []).append(event)
        self.changed.set()

    def order(self, container: str, command: str, **more: Any) -> Order[str]:
        """Order a run. ``more``: of its specification."""
        task = mesos.TaskInfo(name=container)
        task.task_id.value, task.agent_id.value = container, "agent"
        task.command.value = command
        sandbox = self.layout.executor("agent", "framework", container) / container
        sandbox.mkdir(parents=True)
        self.checkpoint.begin(container, FRAMEWORK, task)
        place = RunLocation("agent", "framework", container, sandbox)
        self.specs[container] = {**self.launcher.prepare(task, place), **more}
        return self.again(container, 0)

    def again(self, container: str, attempt: int) -> Order[str]:
        return self.launcher.order(container, self.specs[container], attempt)

    async def until(self, container: str, *kinds: type[E]) -> E:
        """Wait for an event of one of these kinds."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                for event in self.events.get(container, ()):
                    if isinstance(event, kinds):
                        return event
                self.changed.clear()
                await self.changed.wait()

    def exit_status(self, container: str) -> Any:
        return json.loads(Path(self.layout.exit_file(container)).read_text())["status"]

    def touch(self, path: str) -> None:
        """Create a file."""
        Path(path).touch()

    def cut_short(self, path: str) -> None:
        """Take the last byte off a file."""
        Path(path).write_bytes(Path(path).read_bytes()[:-1])


@pytest.fixture
async def world(tmp_path: Path) -> AsyncIterator[World]:
    made = World(tmp_path)
    yield made
    made.supervisors.stop()


async def test_a_run_goes_from_its_claim_to_its_exit_code(world: World) -> None:
    world.supervisors.start(world.order("one", "exit 7"))
    await world.until("one", Ended)
    kinds = [type(event) for event in world.events["one"]]
    assert kinds == [Supervised, Started, Ended]
    assert os.waitstatus_to_exitcode(world.exit_status("one")) == 7
    assert world.layout.claims("one") == [] and read_json(world.layout.pid_file("one")) is None


async def test_a_run_has_not_started_before_its_engine_says_so(world: World) -> None:
    says, asked = world.layout.work_dir / "says", world.layout.work_dir / "asked"
    asking = ["sh", "-c", f"echo x >> {asked}; cat {says}"]
    world.supervisors.start(world.order("one", "sleep 600", running_asked=asking))
    await eventually(lambda: asked.exists() and asked.read_text().count("x") > 1)
    assert [type(event) for event in world.events["one"]] == [Supervised]
    says.write_text("true\n")
    await world.until("one", Started)
    assert await asyncio.to_thread(end_container, world.layout, "one")


async def test_a_run_that_ends_before_its_engine_says_that_it_runs_has_ended(world: World) -> None:
    world.supervisors.start(world.order("one", "exit 7", running_asked=["echo", "false"]))
    await world.until("one", Ended)
    assert [type(event) for event in world.events["one"]] == [Supervised, Started, Ended]
    assert os.waitstatus_to_exitcode(world.exit_status("one")) == 7


async def test_a_revoked_claim_does_not_start_but_the_next_attempt_does(world: World) -> None:
    marks = world.layout.work_dir / "marks"
    order = world.order("one", f"echo x >> {marks}")
    assert world.checkpoint.take_back("one") == 1
    world.supervisors.start(order)
    assert "No such file" in (await world.until("one", Failed)).reason
    assert not marks.exists() and world.layout.claims("one") == [1]
    world.events.clear()
    world.supervisors.start(world.again("one", 1))
    await world.until("one", Ended)
    assert marks.read_text() == "x\n"


async def test_a_started_run_cannot_be_revoked(world: World) -> None:
    world.supervisors.start(world.order("one", "sleep 600"))
    await world.until("one", Started)
    assert world.checkpoint.take_back("one") is None
    assert world.layout.claims("one") == []
    assert await asyncio.to_thread(end_container, world.layout, "one")
    await world.until("one", Gone)


async def test_a_run_ended_before_its_start_never_starts(world: World) -> None:
    marks = world.layout.work_dir / "marks"
    order = world.order("one", f"echo x >> {marks}")
    assert not await asyncio.to_thread(end_container, world.layout, "one")
    world.supervisors.start(order)
    await world.until("one", Failed)
    assert not marks.exists()


async def test_an_agent_killed_during_a_revocation_leaves_a_claim(world: World) -> None:
    """Between the new claim and the end of the old one, there are two: both are taken back by the next."""
    world.order("one", "true")
    world.touch(world.layout.claim("one", 1))
    assert world.checkpoint.take_back("one") == 2
    assert world.layout.claims("one") == [2]


async def test_a_missing_supervisor_is_reported_and_replaced(world: World) -> None:
    world.supervisors.start(world.order("one", "true"))
    supervised = await world.until("one", Supervised)
    await world.until("one", Ended)
    os.kill(supervised.pid, signal.SIGKILL)
    world.supervisors.start(world.order("two", "true"))
    if isinstance(await world.until("two", Gone, Ended), Gone):
        attempt = world.checkpoint.take_back("two")
        assert attempt is not None
        world.supervisors.start(world.again("two", attempt))
        await world.until("two", Ended)
    assert world.exit_status("two") == 0


async def test_an_order_can_be_withdrawn_until_it_is_its_turn(world: World) -> None:
    names = [f"run{number}" for number in range(30)]
    for name in names:
        world.supervisors.start(world.order(name, "true"))
    withdrawn = [name for name in names if world.supervisors.withdraw(name)]
    assert withdrawn and names[0] not in withdrawn
    for name in names:
        if name not in withdrawn:
            await world.until(name, Ended)
    assert not set(withdrawn) & set(world.events)


async def test_an_incomplete_checkpoint_is_dropped(world: World) -> None:
    world.order("whole", "true")
    world.order("half", "true")
    world.cut_short(world.layout.log("half"))
    assert [run.container_id for run in world.checkpoint.load()] == ["whole"]
    assert world.layout.claims("half") == [] and not (world.layout.runs / "half.log").exists()
