"""The runs of an agent, with a launcher that does what a test wants."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.launcher import Launcher, LaunchError
from minicluster.mesos.agent.layout import Layout
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.agent.runs import Runs
from minicluster.mesos.agent.task_limits import TaskLimits
from minicluster.mesos.common.agent_link import Update
from minicluster.mesos.common.launch_costs import LaunchCosts


class _Fetching(Launcher):
    """Whose fetching lasts until ``over``, and fails then."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(layout, TaskLimits())
        self.over = threading.Event()
        self.left = threading.Event()

    def prepare(self, task: mesos.TaskInfo, place: RunLocation) -> dict[str, Any]:
        assert self.over.wait(30)
        self.left.set()
        raise LaunchError("too late")


async def test_fetching_counts_among_what_an_executor_needs_to_register(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.make()
    launcher = _Fetching(layout)
    told: asyncio.Queue[Update] = asyncio.Queue()
    runs = Runs(layout, launcher, "127.0.0.1", told.put_nowait, 10.0, LaunchCosts(registration_timeout=0.05))
    runs.agent_id = "agent"
    framework, task = mesos.FrameworkInfo(user="root", name="test"), mesos.TaskInfo(name="one")
    framework.id.value, task.task_id.value, task.agent_id.value = "framework", "one", "agent"
    task.command.uris.add(value="/somewhere")
    runs.launch(framework, task)
    async with asyncio.timeout(60):
        status = (await told.get()).status
    assert status.reason == mesos.TaskStatus.REASON_EXECUTOR_REGISTRATION_TIMEOUT
    assert status.message == "Executor did not register within 50ms"
    launcher.over.set()
    assert await asyncio.to_thread(launcher.left.wait, 30)
    await asyncio.gather(*runs._preparing)
    runs.acknowledge(("framework", "one"), status.uuid)
    assert not runs.live and told.empty()
