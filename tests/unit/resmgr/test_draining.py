"""Hosts without runs are reported to hostmgr, which may know better."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from peloton.errors import PelotonError, Refused, Unavailable
from peloton.model.states import TaskState
from resmgr.drivers import draining
from resmgr.drivers.draining import Draining
from tests.unit.resmgr.world import World
from tests.waiting import until


class Hostmgr:
    """Its draining hosts; `refused` are those on which it knows something left."""

    def __init__(self, *hosts: str) -> None:
        self.hosts = list(hosts)
        self.refused: set[str] = set()
        self.reports: list[str] = []
        self.failure: PelotonError | None = None

    async def draining(self, wait: float) -> Sequence[str]:
        if self.failure is not None:
            raise self.failure
        return tuple(self.hosts)

    async def mark_drained(self, hostname: str) -> None:
        self.reports.append(hostname)
        if hostname in self.refused:
            raise Refused("something is left")
        self.hosts.remove(hostname)


def driver_of(world: World, recovered: bool = True) -> Any:
    event = asyncio.Event()
    if recovered:
        event.set()
    return SimpleNamespace(scheduler=world.scheduler, recovered=event)


async def test_only_hosts_without_runs_are_reported() -> None:
    world = World()
    world.launch(0)
    hostmgr = Hostmgr("h1", "h2", "h3")
    hostmgr.refused = {"h3"}
    following = Draining(driver_of(world), hostmgr)
    await following.step()
    assert hostmgr.reports == ["h2", "h3"] and hostmgr.hosts == ["h1", "h3"]
    world.observe(0, TaskState.KILLED)
    hostmgr.refused.clear()
    await following.step()
    assert hostmgr.hosts == []


async def test_nothing_is_reported_before_the_recovery(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(draining, "PAUSE_SECONDS", 0.001)
    hostmgr, driver = Hostmgr("h1"), driver_of(World(), recovered=False)
    running = asyncio.create_task(Draining(driver, hostmgr).run())
    try:
        await asyncio.sleep(0.01)
        assert not hostmgr.reports
        hostmgr.failure = Unavailable("away")
        driver.recovered.set()
        await asyncio.sleep(0.01)
        hostmgr.failure = None
        await until(lambda: hostmgr.reports == ["h1"])
    finally:
        running.cancel()
