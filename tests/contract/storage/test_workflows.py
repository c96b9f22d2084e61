"""Workflows of services and their events."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.errors import AlreadyExists, NotFound
from peloton.model.workflow import (
    Range,
    Workflow,
    WorkflowEvent,
    WorkflowOptions,
    WorkflowState,
    WorkflowType,
)
from storage.interface import Store
from tests.contract.storage.conftest import Opener
from tests.contract.storage.samples import job_id, job_runtime, spec, task_runtime

JOB, OTHER = job_id(1), job_id(2)
S = WorkflowState


def workflow(number: int, job: str = JOB) -> Workflow:
    return Workflow(
        id=f"{job}-workflow-{number}",
        job_id=job,
        type=WorkflowType.UPDATE,
        state=WorkflowState.ROLLING_FORWARD,
        options=WorkflowOptions(batch_size=3, batch_percentage=2.5, rollback_on_failure=True, in_place=True),
        config_version=number + 1,
        previous_version=number,
        ranges=(Range(0, 2), Range(5, 7)),
        added=(Range(1500, 1502),),
        updated=(Range(0, 3),),
        removed=(),
        opaque_data="the caller's own \u00e9",
        previous_state=WorkflowState.INITIALIZED,
        rolling_back=True,
        done=2,
        failed=1,
        remaining=7,
        reason="waits",
        workflow_version=number,
        created_at=10**18,
        updated_at=10**18 + 1,
    )


def event(of: Workflow, instance: int, at: int, state: WorkflowState) -> WorkflowEvent:
    return WorkflowEvent(of.id, of.job_id, instance, of.type, state, at)


async def test_a_workflow_reads_back_whole(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    first = workflow(1)
    await store.write_all(JOB, {}, workflows=[first])
    assert await store.workflows.get(first.id) == first
    ended = replace(first, state=S.ROLLED_BACK, completed_at=10**18 + 9, revision=2)
    await store.write_all(JOB, {}, workflows=[ended])
    assert await store.workflows.get(first.id) == ended
    assert list(await store.workflows.list(JOB, 10)) == [ended]


async def test_an_unknown_workflow_is_not_found(store: Store) -> None:
    with pytest.raises(NotFound, match="nobody's"):
        await store.workflows.get("nobody's")
    with pytest.raises(NotFound, match="nobody's"):
        await store.workflows.events("nobody's")
    assert list(await store.workflows.list(JOB, 10)) == []


async def test_the_last_workflows_come_first(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    all_of_them = [workflow(number) for number in range(1, 13)]
    await store.write_all(JOB, {}, workflows=all_of_them)
    assert list(await store.workflows.list(JOB, 3)) == all_of_them[:-4:-1]


async def test_events_are_those_of_the_workflow_or_of_one_instance(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    one, two = workflow(1), workflow(2)
    whole = [event(one, -1, 1, S.INITIALIZED), event(one, -1, 2, S.ROLLING_FORWARD)]
    own = [event(one, 1500, 3, S.ROLLING_FORWARD), event(one, 1500, 4, S.FAILED)]
    others = [event(one, 0, 3, S.ROLLING_FORWARD), event(two, 1500, 9, S.SUCCEEDED)]
    await store.write_all(JOB, {1500: task_runtime()}, workflows=[one, two])
    await store.write_all(JOB, {}, workflow_events=[*whole, *own, *others])
    assert list(await store.workflows.events(one.id)) == whole[::-1]
    assert list(await store.workflows.events(one.id, 1500)) == own[::-1]
    assert list(await store.workflows.events(one.id, 1500, limit=1)) == own[-1:]
    assert list(await store.workflows.events(one.id, 7)) == []


async def test_a_job_is_created_with_its_first_workflow_or_not_at_all(store: Store) -> None:
    first, second = workflow(1), replace(workflow(1), id="of the second try")
    await store.jobs.create(JOB, spec(), job_runtime(), first)
    with pytest.raises(AlreadyExists):
        await store.jobs.create(JOB, spec(), job_runtime(), second)
    assert list(await store.workflows.list(JOB, 10)) == [first]


async def test_workflows_go_with_their_job(open_handle: Opener) -> None:
    store = await open_handle()
    kept = workflow(1, OTHER)
    for job in (JOB, OTHER):
        one = workflow(1, job)
        await store.jobs.create(job, spec(), job_runtime(), one)
        steps = [event(one, -1, 1, S.INITIALIZED), event(one, 1500, 2, S.SUCCEEDED)]
        await store.write_all(job, {1500: task_runtime()}, workflow_events=steps)
    await store.jobs.delete(JOB)
    assert list(await store.workflows.list(JOB, 10)) == []
    assert list(await store.workflows.list(OTHER, 10)) == [kept]
    assert len(await store.workflows.events(kept.id, 1500)) == 1
    await store.jobs.create(JOB, spec(), job_runtime(), workflow(1))
    assert list(await store.workflows.events(workflow(1).id)) == []
    assert list(await store.workflows.events(workflow(1).id, 1500)) == []


async def test_all_but_the_last_workflows_are_pruned_with_their_events(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    await store.jobs.create(OTHER, spec(), job_runtime(), workflow(1, OTHER))
    all_of_them = [workflow(number) for number in range(1, 6)]
    steps = [event(each, instance, 1, S.ROLLING_FORWARD) for each in all_of_them for instance in (-1, 1500)]
    await store.write_all(JOB, {1500: task_runtime()}, workflows=all_of_them, workflow_events=steps)
    first, second, third, fourth, fifth = all_of_them
    assert await store.workflows.prune(JOB, 2, current=second.id) == 2
    assert list(await store.workflows.list(JOB, 10)) == [fifth, fourth, second]
    for gone in (first, third):
        with pytest.raises(NotFound, match=gone.id):
            await store.workflows.get(gone.id)
    assert len(await store.workflows.events(fourth.id, 1500)) == 1
    await store.write_all(JOB, {}, workflows=[first])
    assert list(await store.workflows.events(first.id)) == []
    assert list(await store.workflows.events(first.id, 1500)) == []
    assert await store.workflows.prune(JOB, 10, current=fifth.id) == 0
    assert len(await store.workflows.list(OTHER, 10)) == 1
