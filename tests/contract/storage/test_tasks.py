from __future__ import annotations

import time
from dataclasses import replace

import pytest

from peloton.errors import NotFound
from peloton.model.states import HealthState, TaskState
from peloton.model.task import TaskRuntime
from storage.interface import Store
from tests.contract.storage.samples import (
    HOUR,
    event,
    host,
    job_id,
    job_runtime,
    pool,
    spec,
    task_runtime,
)

JOB = job_id(1)
BARE = TaskRuntime(TaskState.INITIALIZED, TaskState.SUCCEEDED, 0, 1, 1, 0)


async def listed(store: Store, first: int = 0, end: int | None = None) -> dict[int, TaskRuntime]:
    rows: dict[int, TaskRuntime] = {}
    async for page in store.tasks.list(JOB, first, end):
        assert 0 < len(page) <= 10_000
        rows.update(page)
    return rows


async def test_runtimes_read_back_whole_and_are_replaced(store: Store) -> None:
    await store.write_all(JOB, {0: task_runtime(), 1: BARE})
    assert await store.tasks.get(JOB, 0) == task_runtime()
    assert await store.tasks.get(JOB, 1) == BARE
    assert (await store.tasks.get(JOB, 0)).health is HealthState.UNHEALTHY
    await store.write_all(JOB, {0: task_runtime(run=2)})
    assert await listed(store) == {0: task_runtime(run=2), 1: BARE}


async def test_absence(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.tasks.get(JOB, 0)
    assert await listed(store) == {}
    await store.write_all(JOB, {})


async def test_ranges_are_half_open_and_in_order(store: Store) -> None:
    await store.write_all(JOB, dict.fromkeys((5, 3, 9, 0, 7), BARE))
    await store.write_all(job_id(2), {4: BARE})
    assert list(await listed(store)) == [0, 3, 5, 7, 9]
    assert list(await listed(store, 3, 9)) == [3, 5, 7]
    assert list(await listed(store, 4)) == [5, 7, 9]
    assert list(await listed(store, 3, 3)) == []


@pytest.mark.parametrize("beyond", [2**31 - 1, 2**31, 2**32 - 1, 2**63 - 1])
async def test_numbers_beyond_the_stored_range_are_absent(store: Store, beyond: int) -> None:
    """Requests may name any number that their fields hold."""
    await store.write_all(JOB, {0: BARE, 1: BARE})
    await store.write_all(JOB, {}, [event(JOB, run=run) for run in (1, 2)])
    assert list(await listed(store, 1, beyond)) == [1]
    assert await listed(store, beyond - 1, beyond) == {}
    with pytest.raises(NotFound):
        await store.tasks.get(JOB, beyond)
    assert list(await store.pod_events.list(JOB, beyond)) == []
    assert list(await store.pod_events.list(JOB, beyond, run=1)) == []
    assert list(await store.pod_events.list(JOB, 0, run=beyond)) == []
    assert len(await store.pod_events.list(JOB, 0, runs=beyond)) == 2
    await store.pod_events.delete(JOB, beyond, 1)
    assert len(await store.pod_events.list(JOB, 0)) == 2
    await store.pod_events.delete(JOB, 0, beyond)
    assert list(await store.pod_events.list(JOB, 0)) == []


async def test_many_instances_come_in_pages(store: Store) -> None:
    await store.write_all(JOB, dict.fromkeys(range(10001), BARE))
    pages = [len(page) async for page in store.tasks.list(JOB)]
    assert pages == [10_000, 1]
    assert list(await listed(store)) == list(range(10_001))


async def test_equal_runtimes_are_read_as_one_object(store: Store) -> None:
    """A new leader reads all tasks there are, of which most wait and are stored alike."""
    await store.write_all(JOB, {0: BARE, 1: task_runtime(), 2: BARE, 4: BARE, 5: task_runtime(run=2)})
    rows = await listed(store)
    assert rows == {0: BARE, 1: task_runtime(), 2: BARE, 4: BARE, 5: task_runtime(run=2)}
    assert list(rows) == [0, 1, 2, 4, 5]
    assert rows[0] is rows[2] is rows[4]


async def test_events_come_newest_first(store: Store) -> None:
    events = [
        event(JOB, run=1, state=TaskState.LAUNCHED, timestamp=HOUR),
        event(JOB, run=1, state=TaskState.RUNNING, timestamp=HOUR + 1),
        event(JOB, run=1, state=TaskState.FAILED, timestamp=HOUR + 2),
        event(JOB, run=2, state=TaskState.LAUNCHED, timestamp=HOUR + 3),
    ]
    await store.write_all(JOB, {}, [events[1], events[3]])
    await store.write_all(JOB, {}, [events[2], events[0], event(JOB, instance=1)])
    await store.write_all(job_id(2), {}, [event(job_id(2))])
    assert list(await store.pod_events.list(JOB, 0)) == [events[3], events[2], events[1], events[0]]
    assert list(await store.pod_events.list(JOB, 0, run=1)) == [events[2], events[1], events[0]]
    assert list(await store.pod_events.list(JOB, 0, runs=1)) == [events[3]]
    assert list(await store.pod_events.list(JOB, 0, run=3)) == []


async def test_events_of_one_timestamp_are_ordered_by_state(store: Store) -> None:
    states = [TaskState.INITIALIZED, TaskState.PENDING, TaskState.LAUNCHED, TaskState.RUNNING]
    await store.write_all(JOB, {}, [event(JOB, state=state) for state in states])
    assert [one.state for one in await store.pod_events.list(JOB, 0)] == states[::-1]


async def test_an_event_written_twice_is_there_once(store: Store) -> None:
    await store.write_all(JOB, {}, [event(JOB), event(JOB)])
    await store.write_all(JOB, {}, [event(JOB)])
    assert list(await store.pod_events.list(JOB, 0)) == [event(JOB)]


@pytest.mark.parametrize("words", ["", "more is known of it"])
async def test_the_latest_write_of_an_event_stays(store: Store, words: str) -> None:
    later = replace(event(JOB), message=words)
    await store.write_all(JOB, {}, [event(JOB), later])
    assert list(await store.pod_events.list(JOB, 0)) == [later]
    await store.write_all(JOB, {}, [event(JOB)])
    assert list(await store.pod_events.list(JOB, 0)) == [event(JOB)]


async def test_events_of_the_last_ten_runs(store: Store) -> None:
    await store.write_all(JOB, {}, [event(JOB, run=run) for run in range(1, 13)])
    assert [one.run for one in await store.pod_events.list(JOB, 0)] == list(range(12, 2, -1))


async def test_events_are_deleted_by_run_and_by_age(store: Store) -> None:
    begin = time.time_ns() - 10 * HOUR
    await store.write_all(JOB, {}, [event(JOB, run=run, timestamp=begin + run * HOUR) for run in range(1, 6)])
    ended = replace(event(JOB, instance=1, run=1, timestamp=begin + HOUR), state=TaskState.SUCCEEDED)
    await store.write_all(JOB, {}, [ended])
    await store.pod_events.delete(JOB, 0, 2)
    assert [one.run for one in await store.pod_events.list(JOB, 0)] == [5, 4, 3]
    assert await store.pod_events.expire(begin + 4 * HOUR) == 2
    assert [one.run for one in await store.pod_events.list(JOB, 0)] == [5, 4]
    assert list(await store.pod_events.list(JOB, 1)) == []
    assert await store.pod_events.expire(begin + 4 * HOUR) == 0


async def test_events_of_a_run_that_has_not_ended_are_kept_however_old(store: Store) -> None:
    begin = time.time_ns() - 10 * HOUR
    started = [event(JOB, instance=i, run=1, timestamp=begin + HOUR) for i in range(3)]
    later = event(JOB, instance=1, run=2, timestamp=begin + 2 * HOUR)
    failed = replace(event(JOB, instance=2, run=1, timestamp=begin + 2 * HOUR), state=TaskState.FAILED)
    await store.write_all(JOB, {}, [*started, later, failed])
    assert await store.pod_events.expire(begin + 5 * HOUR) == 3
    assert list(await store.pod_events.list(JOB, 0)) == [started[0]]
    assert list(await store.pod_events.list(JOB, 1)) == [later]
    assert list(await store.pod_events.list(JOB, 2)) == []


async def test_all_of_a_job_in_one_write(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    runtime = job_runtime(completed=5)
    await store.write_all(JOB, {0: task_runtime()}, [event(JOB)], runtime)
    assert await store.tasks.get(JOB, 0) == task_runtime()
    assert list(await store.pod_events.list(JOB, 0)) == [event(JOB)]
    assert await store.jobs.runtime(JOB) == runtime


async def test_a_failed_write_stores_nothing(store: Store) -> None:
    with pytest.raises(NotFound):
        await store.write_all(JOB, {0: task_runtime()}, [event(JOB)], job_runtime())
    await store.jobs.create(JOB, spec(), job_runtime())
    of_no_config = replace(job_runtime(), config_version=2)
    with pytest.raises(NotFound):
        await store.write_all(JOB, {0: task_runtime()}, [event(JOB)], of_no_config)
    assert await listed(store) == {}
    assert list(await store.pod_events.list(JOB, 0)) == []


async def test_pools(store: Store) -> None:
    other = pool(job_id(7), "ads")
    await store.pools.write(pool())
    await store.pools.write(other)
    await store.pools.write(pool(name="renamed"))
    assert {one.id: one for one in await store.pools.all()} == {
        one.id: one for one in (pool(name="renamed"), other)
    }
    await store.pools.delete(other.id)
    await store.pools.delete(other.id)
    assert list(await store.pools.all()) == [pool(name="renamed")]


async def test_hosts_and_the_framework_id(store: Store) -> None:
    assert await store.hosts.framework_id("Peloton") is None
    await store.hosts.write_framework_id("Peloton", "f-0001")
    await store.hosts.write_framework_id("Peloton", "f-0002")
    assert await store.hosts.framework_id("Peloton") == "f-0002"
    await store.hosts.write(host())
    await store.hosts.write(host("host-2"))
    assert {one.hostname: one for one in await store.hosts.all()} == {
        name: host(name) for name in ("host-1", "host-2")
    }
    await store.hosts.delete("host-1")
    assert list(await store.hosts.all()) == [host("host-2")]
