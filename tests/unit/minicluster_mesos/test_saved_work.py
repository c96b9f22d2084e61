"""When tasks have saved their work, as their agent sees it."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path

import pytest

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.agent.location import RunLocation
from minicluster.mesos.agent.saved_work import SavedWork, saved_at
from minicluster.mesos.common.status_updates import Key

KEY = ("framework", "one")


def task(file: str) -> mesos.TaskInfo:
    made = mesos.TaskInfo(name="one")
    if file:
        made.labels.labels.add(key="peloton.checkpoint_file", value=file)
    return made


def touched(file: Path, when: float) -> None:
    file.touch()
    os.utime(file, (when, when))


def test_the_time_of_the_file_is_that_of_the_checkpoint(tmp_path: Path) -> None:
    place = RunLocation("agent", "framework", "container", tmp_path)
    assert saved_at(task("last"), place) is None
    touched(tmp_path / "last", 1_700_000_000.5)
    assert saved_at(task("last"), place) == 1_700_000_000.5
    assert saved_at(task(""), place) is None


@pytest.mark.parametrize("outside", ["../secret", "/etc/passwd", "a/../../secret", "nul\0"])
def test_files_outside_of_the_sandbox_are_not_looked_at(tmp_path: Path, outside: str) -> None:
    (tmp_path / "secret").touch()
    (tmp_path / "sandbox").mkdir()
    place = RunLocation("agent", "framework", "container", tmp_path / "sandbox")
    assert saved_at(task(outside), place) is None


async def test_each_change_of_the_file_is_reported_once(tmp_path: Path) -> None:
    told: asyncio.Queue[Key] = asyncio.Queue()
    saved = SavedWork(told.put_nowait, seconds=0.001)
    place = RunLocation("agent", "framework", "container", tmp_path)
    saved.start(KEY, task("last"), place)
    saved.start(KEY, task("last"), place)
    saved.start(("framework", "other"), task(""), place)
    async with asyncio.timeout(60):
        for when in (1_700_000_000.0, 1_700_000_001.0):
            touched(tmp_path / "last", when)
            assert await told.get() == KEY
    looking = saved._tasks[KEY]
    saved.stop(KEY)
    await asyncio.gather(looking, return_exceptions=True)
    assert told.empty() and not saved._tasks
