from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import NotFound
from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from peloton.model.states import TaskState
from peloton.private.resmgr.explain import explain_pb2 as pb
from resmgr.core.admission.checks import Check
from resmgr.core.explain.queue_positions import PLACEMENTS
from resmgr.core.explain.queue_reasons import Explanation, explain
from resmgr.core.explain.waiting_groups import Grouping
from resmgr.services.explain import ExplainService
from tests.unit.resmgr.shell import CLIENT, Shell, run_id, wire_gang
from tests.unit.resmgr.world import ENGINE, JOB, JOBMGR, OTHER_JOB, World, kinds, needs


def of(world: World, instance: int) -> Explanation:
    [found] = explain(world.scheduler, [world.task(instance)])
    return found


def test_the_head_of_a_queue_names_the_check_and_those_behind_name_the_head() -> None:
    world = World(PoolConfig("p", "p", "root", kinds(limit=90)), PoolConfig("a", "a", "p", kinds(limit=80)))
    world.launch(0, of=needs(cpu=70))
    world.enqueue(1, of=needs(cpu=20))
    world.enqueue(2, 3, of=needs(cpu=2))
    world.enqueue(4, of=needs(cpu=1))
    world.admit()
    head, middle, last = of(world, 1), of(world, 2), of(world, 4)
    assert head.check is not None
    assert (head.check.check, head.check.kind, head.check.path) == (Check.ENTITLEMENT, "cpu", "/p/a")
    assert (head.check.allocation, head.check.gang, head.check.bound) == (70_000, 20_000, 80_000)
    assert (
        head.cause
        == str(head.check)
        == "cpu: allocation 70 cores + gang 20 cores > entitlement 80 cores in /p/a"
    )
    assert head.head_check is None
    assert head.position is not None
    assert (head.position.queue, head.position.position, head.position.length) == ("pending", 1, 3)
    assert head.position.ahead == (0, 0, 0, 0)
    assert (middle.check, middle.head_check, middle.gang_size) == (None, head.check, 2)
    assert middle.cause == f"behind {run_id(1)}, the head of queue pending of /p/a, which waits: {head.check}"
    assert last.cause == middle.cause
    assert last.position is not None
    assert (last.position.position, last.position.ahead) == (3, (24_000, 3_000, 3_000, 0))
    shares = [(s.pool, s.kind, s.allocation, s.entitlement, s.demand, s.limit) for s in last.shares]
    assert shares == [
        ("/p/a", "cpu", 70_000, 80_000, 25_000, 80_000),
        ("/p", "cpu", 70_000, 90_000, 25_000, 90_000),
        ("/", "cpu", 70_000, 100_000, 25_000, 100_000),
    ]


def test_an_ancestor_that_is_full_is_the_one_named() -> None:
    world = World(
        PoolConfig("p", "p", "root", kinds(limit=30)),
        PoolConfig("a", "a", "p", kinds(limit=30)),
        PoolConfig("b", "b", "p", kinds(limit=30)),
    )
    world.launch(0, of=needs(cpu=30))
    world.enqueue(1, of=needs(cpu=10), pool="b")
    for pool in ("a", "b"):
        world.pool(pool).entitlement = (30_000, 300_000, 300_000, 3_000)
    world.admit()
    found = of(world, 1).check
    assert found is not None and found.path == "/p"


def test_a_non_preemptible_task_beyond_the_reservation_has_that_reason() -> None:
    world = World()
    world.enqueue(0, of=needs(preemptible=False))
    world.admit()
    found = of(world, 0)
    assert found.cause == "cpu: non-preemptible allocation 0 cores + gang 1 core > reservation 0 cores in /a"
    assert found.position is not None and found.position.queue == "non-preemptible"


def test_a_revocable_task_is_explained_by_slack() -> None:
    world = World(slack=Resources.of(4))
    world.enqueue(0, of=needs(cpu=8, memory=0, revocable=True))
    world.admit()
    found = of(world, 0)
    assert found.check is not None and found.check.check is Check.SLACK_ENTITLEMENT
    assert [(share.pool, share.slack) for share in found.shares] == [("/a", True), ("/", True)]


def test_without_capacity_and_without_room_in_the_ready_queue() -> None:
    world = World(capacity=None)
    world.enqueue(0)
    assert "capacity unknown" in of(world, 0).cause
    world = World()
    world.enqueue(0)
    assert of(world, 0).cause == "it is admitted in the next cycle"


def test_every_state_before_launch_has_a_cause() -> None:
    world = World()
    world.enqueue(0)
    world.enqueue(1)
    world.admit()
    ready = of(world, 1)
    assert (ready.state, ready.cause) == (
        TaskState.READY,
        "no placement engine for BATCH tasks has taken it yet",
    )
    assert ready.position is not None
    assert (ready.position.position, ready.position.ahead[0]) == (2, 1000)
    world.dequeue()
    placing = of(world, 0)
    assert (placing.state, placing.holder, placing.until) == (TaskState.PLACING, ENGINE, world.now + 600)
    world.place(0)
    world.place(1, host="h2")
    placed = of(world, 1)
    assert placed.position is not None
    assert (placed.host, placed.position.queue, placed.position.position) == ("h2", PLACEMENTS, 2)
    world.hand_over()
    launching = of(world, 1)
    assert (launching.state, launching.holder) == (TaskState.LAUNCHING, JOBMGR)
    assert launching.until == world.now + 1200
    world.observe(1, TaskState.RUNNING)
    running = of(world, 1)
    assert (running.state, running.cause, running.gang_size) == (TaskState.RUNNING, "it is on a host", 0)


def test_failed_placements_are_counted_and_remembered_through_the_pools_queue() -> None:
    world = World()
    message = "no host fits: 12 hosts: 8 with too little free, 4 that its constraint excludes"
    counts = {"insufficient_offer_resources": 8, "mismatch_constraints": 4}
    world.enqueue(0)
    world.admit()
    world.dequeue()
    world.fail(0, reason=message, hosts=counts)
    paused = of(world, 0)
    assert (paused.state, paused.position, paused.until) == (TaskState.READY, None, world.now + 1)
    assert paused.cause == f"placing is tried again: {message}"
    assert paused.tries is not None
    assert (paused.tries.failed, paused.tries.most, paused.tries.returns) == (1, 3, 0)
    assert paused.tries.hosts == counts
    for _ in range(2):
        world.later(40)
        world.dequeue()
        world.fail(0, reason=message)
    returned = of(world, 0)
    assert returned.state is TaskState.PENDING
    assert returned.tries is not None
    assert (returned.tries.returns, returned.tries.reason) == (1, message)


def test_a_jobs_tasks_are_grouped_by_cause() -> None:
    world = World()
    world.launch(0, 1)
    world.enqueue(5, of=needs(cpu=99))
    for instance in (2, 3, 4):
        world.enqueue(instance)
    world.enqueue(9, job=OTHER_JOB)
    world.admit()
    grouping = Grouping(world.scheduler)
    grouping.add(world.scheduler.registry.jobs[JOB].tasks[instance] for instance in range(6))
    found = grouping.finish()
    assert [(group.first.state.name, group.count, group.instances) for group in found] == [
        ("PENDING", 3, [2, 3, 4]),
        ("RUNNING", 2, [0, 1]),
        ("PENDING", 1, [5]),
    ]
    behind = found[0]
    assert behind.first.position is not None
    assert (behind.first.run.instance, behind.first.position.position, behind.last_position) == (2, 2, 4)


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 3)), min_size=1, max_size=12), st.integers(3, 12))
def test_a_group_reaches_from_its_first_task_to_its_last(
    gangs: list[tuple[bool, int]], admitted: int
) -> None:
    world = World(PoolConfig("a", "a", "root", kinds(limit=admitted)))
    next_instance = 0
    for ours, size in gangs:
        members = range(next_instance, next_instance + size)
        world.enqueue(*members, of=needs(cpu=1), job=JOB if ours else OTHER_JOB)
        next_instance += size
    world.admit()
    jobs = world.scheduler.registry.jobs
    tasks = [task for _, task in sorted(jobs[JOB].tasks.items())] if JOB in jobs else []
    grouping = Grouping(world.scheduler)
    grouping.add(tasks)
    groups = grouping.finish()
    assert sum(group.count for group in groups) == len(tasks)
    alone = {each.run.instance: each for each in explain(world.scheduler, tasks)}
    for group in groups:
        same = [alone[instance] for instance in group.instances]
        assert {each.cause for each in same} == {group.first.cause}
        places = [each.position.position for each in same if each.position is not None]
        assert group.first.position is not None
        assert (group.first.position.position, group.last_position) == (min(places), max(places))
        assert group.first.run.instance == min(group.instances)


async def test_the_service_answers_in_the_units_of_the_kinds(shell: Shell) -> None:
    service = ExplainService(shell.driver)
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(9), wire_gang(0, cpu=100), wire_gang(1, cpu=0.5))
    job = peloton_pb2.JobID(value=JOB)
    answer = await service.ExplainTask(pb.ExplainTaskRequest(job_id=job, instance=0), CLIENT)
    message = answer.explanation
    assert (message.mesos_task_id, message.state, message.pool, message.pool_id) == (
        run_id(0),
        task_pb2.PENDING,
        "/a",
        pool,
    )
    check = message.check
    assert (check.check, check.kind, check.held, check.gang, check.bound) == (
        "entitlement",
        "cpu",
        1,
        100,
        100,
    )
    assert message.since.startswith("20")
    assert not message.HasField("head_check") and not message.HasField("tries") and not message.until
    answer = await service.ExplainTask(pb.ExplainTaskRequest(job_id=job, instance=1), CLIENT)
    ahead = {amount.kind: amount.amount for amount in answer.explanation.position.ahead}
    assert ahead == {"cpu": 100, "memory": 1, "disk": 1}
    grouped = await service.ExplainJob(pb.ExplainJobRequest(job_id=job), CLIENT)
    assert [(group.count, list(group.instances)) for group in grouped.groups] == [
        (1, [0]),
        (1, [1]),
        (1, [9]),
    ]
    with pytest.raises(NotFound, match=r"no task .*-7 is known here"):
        await service.ExplainTask(pb.ExplainTaskRequest(job_id=job, instance=7), CLIENT)
    nobody = pb.ExplainJobRequest(job_id=peloton_pb2.JobID(value=OTHER_JOB))
    assert not (await service.ExplainJob(nobody, CLIENT)).groups


async def test_the_service_names_the_pools_that_hold_more_than_their_entitlement(shell: Shell) -> None:
    service = ExplainService(shell.driver)
    first, second = await shell.pool("a"), await shell.pool("b")
    await shell.enqueue(first, wire_gang(0, cpu=100, preemptible=True))
    await shell.enqueue(second, wire_gang(1, cpu=10, preemptible=True))
    job = peloton_pb2.JobID(value=JOB)
    answer = await service.ExplainTask(pb.ExplainTaskRequest(job_id=job, instance=1), CLIENT)
    [excess] = answer.explanation.excesses
    assert (excess.pool, excess.kind, excess.allocation, excess.entitlement) == ("/a", "cpu", 100, 90)
    assert (excess.checks, excess.due, excess.leaving) == (5, "", 0)
    await shell.driver.preempt()
    answer = await service.ExplainTask(pb.ExplainTaskRequest(job_id=job, instance=1), CLIENT)
    [excess] = answer.explanation.excesses
    assert excess.checks == 4 and excess.due.startswith("20")
