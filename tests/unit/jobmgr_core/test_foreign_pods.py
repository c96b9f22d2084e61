"""Pods of others: what becomes of them case by case, and over a small world with a real store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

import jobmgr.drivers.foreign_pods as driver
from jobmgr.core.foreign.decide import NewJob, PodDecisions, PodJob, PodTask, Stop, decide
from jobmgr.core.state import events as ev
from jobmgr.core.state import instructions as ins
from jobmgr.core.task.retry import EndCause, runs_again
from jobmgr.engine.engine import Engine
from peloton.errors import InvalidArgument
from peloton.model.foreign_pod import ForeignPod, PodChanges, PodRef, Told, gang_job_id, may_be_of
from peloton.model.ids import Run, is_uuid
from peloton.model.job import JobSpec
from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from peloton.model.shard import shard_of
from peloton.model.states import JobState, TaskState
from peloton.model.task import TaskSpec
from peloton.private.hostmgr.foreign import foreign_pb2
from peloton.wire.foreign_pods import changes_to, job_config_of, told_from
from peloton.wire.job import job_spec
from peloton.wire.validation.job import validated
from storage.interface import Store
from tests.unit.jobmgr_core.specs import JOB
from tests.unit.jobmgr_core.steps import next_leader
from tests.unit.jobmgr_core.test_preemption import WHY, running
from tests.unit.jobmgr_core.world import Running, World, runs_on
from tests.waiting import until

POOLS = {"/team/batch": "pool-1", "/other": "pool-2"}
UID = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"


def uid(number: int) -> str:
    return f"{number:08x}-2fa1-41d2-883f-0016d3cca427"


def pod(number: int = 0, **changes: Any) -> ForeignPod:
    given = {"pool": "/team/batch", "resources": Resources.of(cpu=1, memory=100), **changes}
    return ForeignPod(**{"namespace": "team", "name": f"p{number}", "uid": uid(number), **given})


def member(number: int, size: int = 3, **changes: Any) -> ForeignPod:
    return pod(number, gang="g", gang_size=size, **changes)


def decided(*pods: ForeignPod, jobs: tuple[PodJob, ...] = (), ended: tuple[str, ...] = ()) -> PodDecisions:
    return decide({each.uid: each for each in pods}, jobs, POOLS, ended)


def job_of(new: NewJob, waits: bool = True, reason: str = "") -> PodJob:
    return PodJob(new.job_id, tuple(PodTask(each.uid, waits, reason) for each in new.pods))


def told(decisions: PodDecisions) -> list[tuple[str, str]]:
    return [(each.reason, each.message) for each in decisions.tell]


def test_a_pod_is_a_job_with_its_uid() -> None:
    found = decided(pod())
    assert found.create == (NewJob(uid(0), "pool-1", (pod(),)),)
    assert told(found) == [("Queued", f"queued in pool /team/batch as job {uid(0)}")]
    assert not found.stop


def test_a_pod_that_has_a_job_gets_no_second_one() -> None:
    (new,) = decided(pod()).create
    found = decided(pod(), jobs=(job_of(new, reason="pool /team/batch has no room"),))
    assert found.create == ()
    assert found.stop == ()
    queued = ("Queued", f"queued in pool /team/batch as job {uid(0)}")
    assert told(found) == [queued, ("Waiting", "pool /team/batch has no room")]


def test_a_pod_whose_job_has_ended_is_not_queued_again() -> None:
    found = decided(pod(), ended=(uid(0),))
    assert found.create == ()
    assert told(found) == [
        ("NotQueued", f"its job {uid(0)} has ended: delete the pod; Peloton queues another one")
    ]


def test_a_pod_that_is_bound_is_no_work() -> None:
    assert decided(pod(waits=False)) == PodDecisions()


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"refusal": "the annotation is 'x'"}, "the annotation is 'x'"),
        (
            {"pool": "/team"},
            "there is no pool '/team' that takes tasks: those that do are /other, /team/batch",
        ),
    ],
)
def test_what_cannot_be_queued_is_told_and_makes_no_job(wrong: dict[str, Any], text: str) -> None:
    found = decided(pod(**wrong))
    assert found.create == ()
    assert found.tell == (Told(uid(0), "NotQueued", text, warning=True),)


def test_a_gang_is_queued_when_all_its_pods_are_there() -> None:
    found = decided(member(0), member(1))
    assert found.create == ()
    assert told(found) == [("Waiting", "2 of 3 pods of gang g are there: it is queued when all are")] * 2
    (new,) = decided(member(2), member(0), member(1)).create
    assert [each.name for each in new.pods] == ["p0", "p1", "p2"]
    assert new.job_id == gang_job_id("team", "g", [uid(1), uid(2), uid(0)])
    assert is_uuid(new.job_id)


def test_a_gang_whose_pods_disagree_is_not_queued() -> None:
    found = decided(member(0), member(1, pool="/other"), member(2))
    assert found.create == ()
    assert [each.uid for each in found.tell] == [uid(1)]
    assert "of the same gang" in found.tell[0].message


def test_pods_beyond_the_size_of_a_gang_are_the_next_gang() -> None:
    pods = [member(number, created=f"2026-01-01T00:00:0{9 - number}Z") for number in range(5)]
    (new,) = decided(*pods).create
    assert [each.name for each in new.pods] == ["p4", "p3", "p2"]


def in_group(number: int, least: int = 2, **changes: Any) -> ForeignPod:
    return member(number, least, grows=True, **changes)


def test_a_pod_group_is_queued_when_its_least_number_is_there() -> None:
    found = decided(in_group(0))
    assert found.create == ()
    assert told(found) == [("Waiting", "1 of 2 pods of gang g are there: it is queued when all are")]
    (new,) = decided(in_group(0), in_group(1)).create
    assert [each.name for each in new.pods] == ["p0", "p1"]


def test_pods_beyond_the_least_number_wait_until_the_gang_runs() -> None:
    pods = [in_group(number) for number in range(4)]
    found = decided(*pods)
    (new,) = found.create
    assert [each.name for each in new.pods] == ["p0", "p1"]
    rest = [each.message for each in found.tell if each.uid in (uid(2), uid(3))]
    assert rest == ["it is queued when 2 pods of gang g run"] * 2
    queued = decided(*pods, jobs=(job_of(new),))
    assert queued.create == ()
    assert [each.message for each in queued.tell if each.uid == uid(2)] == rest[:1]
    run = [replace(each, waits=False, bound=True) for each in pods[:2]]
    alone = decided(*run, *pods[2:], jobs=(job_of(new, waits=False),)).create
    assert [[each.name for each in new.pods] for new in alone] == [["p2"], ["p3"]]


def test_a_pod_that_takes_the_place_of_another_waits_for_nobody() -> None:
    run = in_group(0, waits=False, bound=True)
    gone = in_group(1, waits=False)
    (new,) = decided(run, gone, in_group(2)).create
    assert [each.name for each in new.pods] == ["p2"]
    found = decided(gone, in_group(2))
    assert found.create == (), "nothing of the group runs any more"


@pytest.mark.parametrize("members", [range(1), range(3), range(7)])
def test_all_jobs_of_a_gang_are_in_one_shard(members: range) -> None:
    """One job manager of several sees the whole gang, and creates its jobs."""
    for name in ("g", "h", "another"):
        home = pod(0, gang=name, gang_size=3).home
        assert pod(1, gang=name, gang_size=3, refusal="no pool").home == home
        job_id = gang_job_id("team", name, map(uid, members))
        assert shard_of(job_id) == shard_of(home)
        assert may_be_of(job_id, uid(9), "team", name)
        assert is_uuid(job_id)
    assert pod(3).home == uid(3)


def test_gangs_of_two_namespaces_are_two() -> None:
    pods = [member(0, 1), member(1, 1, namespace="other")]
    assert len({new.job_id for new in decided(*pods).create}) == 2


def test_a_job_is_stopped_whose_pod_was_deleted_while_it_waited() -> None:
    (new,) = decided(pod()).create
    wanted = (Stop(uid(0), None, "the end of the pod before its start"),)
    assert decided(jobs=(job_of(new),)).stop == wanted
    assert decided(pod(waits=False), jobs=(job_of(new),)).stop == wanted
    assert decided(jobs=(replace(job_of(new), ending=True),)).stop == ()
    assert decided(jobs=(job_of(new, waits=False),)).stop == (), "its status tells what became of it"


def test_a_gang_ends_with_a_pod_that_was_deleted_before_it_began() -> None:
    (new,) = decided(*map(member, range(3))).create
    waiting = job_of(new)
    assert decided(member(0), member(1), jobs=(waiting,)).stop == (
        Stop(new.job_id, None, "the end of 1 pod of the gang before its start"),
    )
    half = replace(waiting, tasks=(replace(waiting.tasks[0], waits=False), *waiting.tasks[1:]))
    found = decided(member(0, waits=False), member(1), jobs=(half,))
    assert found.stop == (Stop(new.job_id, (2,), "the end of 1 pod of the gang before its start"),)


def test_only_pods_of_the_gang_can_be_in_its_job() -> None:
    job_id = gang_job_id("team", "g", [UID])
    assert may_be_of(job_id, uid(5), "team", "g")
    assert may_be_of(UID, UID, "team", "")
    assert not may_be_of(job_id, uid(5), "team", "h")
    assert not may_be_of(job_id, uid(5), "other", "g")
    assert not may_be_of(job_id, uid(5), "team", "")
    assert not may_be_of(UID, uid(5), "team", "g")


def test_the_job_of_a_gang() -> None:
    pods = [member(0, priority=5), member(1, preemptible=False), member(2)]
    spec = job_spec(job_config_of(pods, "pool-1", "west", 7), 1)
    assert (spec.name, spec.owner, spec.pool_id, spec.gang_size) == ("g", "team", "pool-1", 3)
    assert (spec.sla.priority, spec.sla.preemptible) == (5, False)
    assert spec.task(1).pod == PodRef("west", "team", "p1", uid(1))
    assert spec.task(1).resources == Resources.of(cpu=1, memory=100)


def test_nobody_else_makes_a_job_of_a_pod() -> None:
    config = job_config_of([pod()], "pool-1", "", 7)
    with pytest.raises(InvalidArgument, match=r"instanceConfig\[0\]\.foreignPod"):
        validated(config)
    config.instanceConfig[0].ClearField("foreignPod")
    assert validated(config).instanceCount == 1, "all else is a job as any"


@pytest.mark.parametrize("cause", EndCause)
def test_a_pod_that_was_bound_is_never_run_again(cause: EndCause) -> None:
    spec = TaskSpec(pod=PodRef("", "team", "p", UID), max_failures=100)
    assert runs_again(cause, 1, spec) is (cause is EndCause.NOT_STARTED)


def foreign_job() -> JobSpec:
    return job_spec(job_config_of([pod()], "pool-1", "", 7), 1)


@pytest.mark.parametrize("event", [ev.Preempted([(Run(JOB, 0, 1), WHY)]), ev.Draining([Run(JOB, 0, 1)])])
def test_a_pod_that_makes_room_is_killed_and_not_run_again(event: ev.Event) -> None:
    time = running(foreign_job())
    assert list(time.run_cycle(event)) == [ins.Kill((Run(JOB, 0, 1),))]
    job = time.core.active.jobs[JOB].job
    time.say(TaskState.KILLED)
    [task] = job.tasks
    assert (task.state, task.run) == (TaskState.KILLED, 1)
    assert job.runtime.state is JobState.KILLED


@pytest.mark.parametrize("end", [TaskState.KILLED, TaskState.LOST, TaskState.FAILED, TaskState.SUCCEEDED])
def test_a_pod_that_ends_ends_its_job(end: TaskState) -> None:
    time = running(foreign_job())
    job = time.core.active.jobs[JOB].job
    assert not [each for each in time.say(end) if isinstance(each, ins.Enqueue)]
    assert (job.tasks[0].state, job.tasks[0].run) == (end, 1)
    assert job.runtime.state.terminal


class PodWorld(World):
    """A world in which others make pods."""

    def __init__(self) -> None:
        super().__init__(runs_on)
        self.hold = True
        self.pods: dict[str, ForeignPod] = {}
        self.told: list[Told] = []

    async def WaitForPods(self, request: foreign_pb2.WaitForPodsRequest) -> foreign_pb2.WaitForPodsResponse:
        return changes_to(PodChanges("s", 1, True, tuple(self.pods.values())))

    async def TellOwners(self, request: foreign_pb2.TellOwnersRequest) -> foreign_pb2.TellOwnersResponse:
        self.told += told_from(request)
        return foreign_pb2.TellOwnersResponse()


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver, "PAUSE_SECONDS", 0.01)


@pytest.fixture
async def world(store: Store, quick: None) -> PodWorld:
    await store.pools.write(PoolConfig("root", "root", ""))
    await store.pools.write(PoolConfig("team", "team", "root"))
    await store.pools.write(PoolConfig("pool-1", "batch", "team"))
    return PodWorld()


def pod_of(engine: Engine, job_id: str) -> PodRef | None:
    job = engine.job(job_id)
    return None if job is None else job.spec.task(0).pod


async def test_each_leader_has_one_job_for_a_pod(store: Store, world: PodWorld) -> None:
    world.pods[uid(0)] = pod()
    for _ in range(2):
        engine = await next_leader(store)
        async with Running(engine, world):
            await until(lambda engine=engine: pod_of(engine, uid(0)), "it has a job")  # type: ignore[misc]
            assert pod_of(engine, uid(0)) == PodRef("", "team", "p0", uid(0))
            await until(lambda: uid(0) in {each.uid for each in world.told}, "its owner is told")
            assert len(await store.jobs.active()) == 1
        world.told.clear()


async def test_the_job_goes_with_the_pod_that_waits(store: Store, world: PodWorld) -> None:
    world.pods[uid(0)] = pod()
    engine = await next_leader(store)
    async with Running(engine, world):
        await until(lambda: engine.job(uid(0)) is not None, "it has a job")
        world.pods.clear()
        await until(lambda: engine.job(uid(0)) is None, "the job has ended")
    assert (await store.jobs.runtime(uid(0))).state is JobState.KILLED


async def test_a_job_that_somebody_stops_leaves_its_pod_and_says_so(store: Store, world: PodWorld) -> None:
    world.pods[uid(0)] = pod()
    engine = await next_leader(store)
    async with Running(engine, world):
        await until(lambda: engine.job(uid(0)) is not None, "it has a job")
        await engine.stop(uid(0), None)
        await until(lambda: "NotQueued" in {each.reason for each in world.told}, "its owner is told")
    assert "has ended: delete the pod" in next(e.message for e in world.told if e.reason == "NotQueued")


async def test_pods_of_a_pool_that_is_none_wait_for_it(store: Store, world: PodWorld) -> None:
    world.pods[uid(0)] = pod(pool="/team/new")
    engine = await next_leader(store)
    async with Running(engine, world):
        await until(lambda: world.told, "its owner is told")
        assert (
            "there is no pool '/team/new' that takes tasks: those that do are /team/batch"
            in world.told[0].message
        )
        await store.pools.write(PoolConfig("pool-3", "new", "team"))
        await until(lambda: engine.job(uid(0)) is not None, "it is queued once the pool is there")
