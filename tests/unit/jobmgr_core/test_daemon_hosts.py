"""The driver that follows the hosts of daemon jobs, with hostmgr's service."""

from __future__ import annotations

import asyncio
from collections import deque
from typing import Any

from jobmgr.engine.engine import Engine
from jobmgr.engine.workflows import Workflows
from peloton.errors import Unavailable
from peloton.model.states import TaskState
from peloton.model.workflow import WorkflowOptions
from peloton.private.hostmgr.matching import matching_pb2 as pb
from storage.interface import Store
from tests.unit.jobmgr_core.daemons import daemon
from tests.unit.jobmgr_core.services import service
from tests.unit.jobmgr_core.specs import JOB
from tests.unit.jobmgr_core.steps import next_leader
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

OTHER = "b0000000-0000-4000-8000-00000000000b"


class Hosts(World):
    """hostmgr with hosts; each run is placed on its own host."""

    def __init__(self, *hosts: str) -> None:
        super().__init__(runs_on)
        self.names = list(hosts)
        self.version = 1
        self.filters: list[int] = []
        """The number of filters of each call."""

    def change(self, *hosts: str) -> None:
        self.names = list(hosts)
        self.version += 1

    async def MatchHosts(self, request: Any) -> Any:
        self.filters.append(len(request.filters))
        end = asyncio.get_running_loop().time() + request.wait_milliseconds / 1000
        while request.hosts_version == str(self.version):
            if asyncio.get_running_loop().time() > end:
                return pb.MatchHostsResponse(hosts_version=str(self.version), unchanged=True)
            await asyncio.sleep(0.005)
        matches = [pb.Matches(hostnames=self.names) for _ in request.filters]
        return pb.MatchHostsResponse(hosts_version=str(self.version), matches=matches, complete=True)


def hosts_of(engine: Engine, job_id: str = JOB) -> list[str]:
    job = engine.job(job_id)
    assert job is not None
    return sorted(task.desired_host for _, task in job.created() if task.state is TaskState.RUNNING)


async def test_hosts_are_followed(store: Store) -> None:
    world, engine = Hosts("a", "b"), Engine(store)
    async with Running(engine, world):
        await engine.create_job(JOB, daemon())
        await until(lambda: hosts_of(engine) == ["a", "b"], "both run")
        world.change("a", "b", "c")
        await until(lambda: hosts_of(engine) == ["a", "b", "c"], "the new one runs")
        world.change("c")
        await until(lambda: hosts_of(engine) == ["c"], "the others are gone")
        await until(lambda: list(world.alive) == [f"{JOB}-2-1"], "the others are killed")
    again, later = await next_leader(store), Hosts("c", "d")
    later.alive = dict(world.alive)
    async with Running(again, later):
        await until(
            lambda: again.recovery.settled and hosts_of(again) == ["c", "d"], "the next leader goes on"
        )
        assert f"{JOB}-2-1" in later.alive, "what runs runs on"


async def test_nothing_is_asked_without_daemon_jobs(store: Store) -> None:
    world, engine = Hosts("a"), Engine(store)
    async with Running(engine, world):
        await engine.create_job(JOB, service(2))
        await until(lambda: len(world.alive) == 2, "the service runs")
    assert not world.called("MatchHosts")


async def test_jobs_with_one_filter_share_it_and_a_new_job_is_asked_for_at_once(store: Store) -> None:
    world, engine = Hosts("a"), Engine(store)
    async with Running(engine, world):
        await engine.create_job(JOB, daemon())
        await until(lambda: hosts_of(engine) == ["a"], "the first one runs")
        await engine.create_job(OTHER, daemon())
        await until(lambda: hosts_of(engine, OTHER) == ["a"], "the second one runs")
    assert set(world.filters) == {1}


async def test_an_update_asks_for_the_hosts_of_the_new_config(store: Store) -> None:
    world, engine = Hosts("a", "b"), Engine(store)
    async with Running(engine, world):
        await engine.create_job(JOB, daemon())
        await until(lambda: hosts_of(engine) == ["a", "b"], "both run")
        asked = len(world.filters)
        await Workflows(engine).replace(JOB, daemon(command="watch closely"), WorkflowOptions(batch_size=1))
        await until(lambda: len(world.filters) > asked, "the hosts are asked for again")
        job = engine.job(JOB)
        assert job is not None
        await until(lambda: {task.config_version for _, task in job.created()} == {2}, "the update is done")
        await until(lambda: hosts_of(engine) == ["a", "b"], "both run")


async def test_a_hostmgr_that_is_away_is_asked_again(store: Store) -> None:
    world, engine = Hosts("a"), Engine(store)
    world.failures["MatchHosts"] = deque([Unavailable("no leader")])
    async with Running(engine, world):
        await engine.create_job(JOB, daemon())
        await until(lambda: hosts_of(engine) == ["a"], "it runs all the same")


async def test_a_job_that_is_deleted_is_asked_for_no_more(store: Store) -> None:
    world, engine = Hosts("a"), Engine(store)
    async with Running(engine, world):
        await engine.create_job(JOB, daemon())
        await until(lambda: hosts_of(engine) == ["a"], "it runs")
        deleted: list[str] = []
        engine.on_delete = deleted.append
        await Workflows(engine).delete_job(JOB, force=True)
        await until(lambda: deleted, "it is deleted")
        asked = len(world.filters)
        world.change("a", "b")
        await engine.create_job(OTHER, service(1))
        await until(lambda: len(world.alive) == 1, "the service runs")
        assert len(world.filters) <= asked + 1, "the call that waited is the last one"
