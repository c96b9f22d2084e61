"""Which runs are held, as jobmgr asks before it enqueues what waits again."""

from __future__ import annotations

import asyncio

import pytest

from peloton.errors import InvalidArgument
from peloton.private.resmgr.holding import holding_pb2 as pb
from resmgr.services.holding import MOST_RUNS, HoldingService
from tests.unit.resmgr.shell import JOBMGR, Shell, wire_gang
from tests.unit.resmgr.world import JOB, OTHER_JOB

Spans = list[tuple[int, int, int]]


async def missing(shell: Shell, *spans: tuple[int, int, int], job: str = JOB) -> Spans:
    """Return the missing spans; each is first instance, count and run."""
    requested = pb.RunsOfJob(job_id=job)
    for first, count, run in spans:
        requested.spans.add(first_instance=first, count=count, run=run)
    answer = await HoldingService(shell.driver).FindMissing(pb.FindMissingRequest(jobs=[requested]), JOBMGR)
    assert all(each.job_id == job for each in answer.missing)
    return [(span.first_instance, span.count, span.run) for each in answer.missing for span in each.spans]


async def test_what_is_neither_held_nor_followed_by_a_later_run_is_missing(shell: Shell) -> None:
    pool = await shell.pool()
    await shell.enqueue(pool, *(wire_gang(instance) for instance in (0, 1, 4)), wire_gang(7, run=3))
    assert await missing(shell, (0, 10, 1)) == [(2, 2, 1), (5, 2, 1), (8, 2, 1)]
    assert await missing(shell, (0, 2, 1), (7, 1, 3)) == []
    assert await missing(shell, (0, 2, 2), (7, 1, 4)) == [(0, 2, 2), (7, 1, 4)]
    assert await missing(shell, (0, 2, 1), job=OTHER_JOB) == [(0, 2, 1)]


async def test_many_runs_are_examined_in_steps(shell: Shell) -> None:
    """Other tasks run meanwhile."""
    pool = await shell.pool()
    await shell.enqueue(pool, wire_gang(25_000))
    runs_of_others = 0

    async def others() -> None:
        nonlocal runs_of_others
        while True:
            await asyncio.sleep(0)
            runs_of_others += 1

    other = asyncio.create_task(others())
    found = await missing(shell, (0, 100_000, 1))
    other.cancel()
    assert sum(count for _, count, _ in found) == 99_999
    assert all(first + count <= 25_000 or first > 25_000 for first, count, _ in found)
    assert runs_of_others >= 9
    with pytest.raises(InvalidArgument, match=f"at most {MOST_RUNS} runs"):
        await missing(shell, (0, MOST_RUNS, 1), (0, 1, 2))


@pytest.mark.parametrize("span", [(2**32 - 1, 10_001, 1), (2**32 - 1, 1, 1), (2**31, 1, 1)])
async def test_instances_that_no_job_has_are_refused(shell: Shell, span: tuple[int, int, int]) -> None:
    with pytest.raises(InvalidArgument, match=r"jobs\[0\]\.spans\[1\]: .* within the instances of a job"):
        await missing(shell, (0, 1, 1), span)
    assert await missing(shell, (2**31 - 1, 1, 1)) == [(2**31 - 1, 1, 1)]


async def test_the_gauge_shows_when_all_stored_tasks_are_queued(shell: Shell) -> None:
    shell.driver.recovered.clear()
    waiting = asyncio.ensure_future(missing(shell, (0, 1, 1)))
    await asyncio.sleep(0)
    assert not waiting.done()
    shell.driver.recovered.set()
    assert await asyncio.wait_for(waiting, 60) == [(0, 1, 1)]
