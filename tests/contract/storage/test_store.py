"""Terms, writes side by side, handles side by side, closing."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial

import pytest

from peloton.errors import AlreadyExists, Fenced, NotFound, Refused, Unavailable
from storage.cassandra import terms
from storage.interface import Store
from storage.newer import refuse_newer_writers
from storage.sqlite import terms as sqlite_terms
from tests.contract.storage.conftest import Opener
from tests.contract.storage.samples import event, job_id, job_runtime, pool, spec, task_runtime

JOB = job_id(1)


async def test_writes_of_an_older_term_lose(open_handle: Opener) -> None:
    old, new = await open_handle(), await open_handle()
    await old.begin_term("jobmanager", 3)
    await old.write_all(JOB, {0: task_runtime(1)})
    await old.check_term(JOB)
    await new.begin_term("jobmanager", 4)
    with pytest.raises(Fenced, match="jobmanager"):
        await old.check_term(JOB)
    await new.check_term(JOB)
    with pytest.raises(Fenced, match="jobmanager"):
        await old.write_all(JOB, {0: task_runtime(2)})
    with pytest.raises(Fenced):
        await old.write_all(JOB, {0: task_runtime(2)})
    with pytest.raises(Fenced):
        await old.jobs.create(JOB, spec(), job_runtime())
    with pytest.raises(Fenced):
        await old.begin_term("jobmanager", 3)
    assert await new.tasks.get(JOB, 0) == task_runtime(1)
    await new.write_all(JOB, {0: task_runtime(5)})
    assert await old.tasks.get(JOB, 0) == task_runtime(5), "reading is not fenced"


async def test_terms_are_each_roles_own_and_may_begin_again(open_handle: Opener) -> None:
    jobs, pools = await open_handle(), await open_handle()
    await jobs.begin_term("jobmanager", 9)
    await pools.begin_term("resourcemanager", 1)
    await pools.begin_term("resourcemanager", 1)
    await pools.pools.write(pool())
    await jobs.begin_term("jobmanager", 10)
    await jobs.write_all(JOB, {0: task_runtime()})


@pytest.mark.parametrize(
    ("leader", "reads"),
    [("0.1.0", True), ("0.2.7", True), ("0.3.0", True), ("0.4.0", False), ("1.0.0", False)],
)
async def test_a_leader_does_not_begin_where_one_more_than_a_minor_version_newer_has_written(
    open_handle: Opener, monkeypatch: pytest.MonkeyPatch, leader: str, reads: bool
) -> None:
    """It would not know what those rows mean. Rows of all older versions are read."""
    newer, own = await open_handle(), await open_handle()
    begin = partial(_begin_as, monkeypatch)
    await begin(leader, newer, "resourcemanager", 7)
    if reads:
        await begin("0.2.0", own, "jobmanager", 3)
        await own.write_all(JOB, {0: task_runtime()})
        return
    told = f"resourcemanager of version {leader} has written to this store; this program is Peloton 0.2.0 and"
    with pytest.raises(Refused, match=told):
        await begin("0.2.0", own, "jobmanager", 3)


async def test_a_leader_begins_where_the_others_have_gone_back(
    open_handle: Opener, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One minor version at a time, as the refusal says."""
    handle = await open_handle()
    for term, version in enumerate(("0.4.0", "0.3.0", "0.2.0"), 1):
        await _begin_as(monkeypatch, version, handle, "resourcemanager", term)


async def _begin_as(patch: pytest.MonkeyPatch, version: str, store: Store, role: str, term: int) -> None:
    with patch.context() as own:
        for module in (sqlite_terms, terms):
            own.setattr(module, "OWN", version)
            own.setattr(module, "refuse_newer_writers", partial(refuse_newer_writers, own=version))
        await store.begin_term(role, term)


async def test_a_failing_write_fails_alone(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    results = await asyncio.gather(
        store.write_all(JOB, {0: task_runtime(1)}),
        store.jobs.create(JOB, spec(), job_runtime()),
        store.write_all(JOB, {1: task_runtime(2)}),
        store.write_all(job_id(2), {0: task_runtime()}, (), job_runtime()),
        store.write_all(JOB, {2: replace(task_runtime(3), ports={"http": object()})}),  # type: ignore[dict-item]
        store.write_all(JOB, {3: task_runtime(4)}),
        return_exceptions=True,
    )
    kinds = [type(result) for result in results]
    assert kinds == [type(None), AlreadyExists, type(None), NotFound, TypeError, type(None)]
    assert {i: r.run async for page in store.tasks.list(JOB) for i, r in page.items()} == {0: 1, 1: 2, 3: 4}


async def test_writes_of_one_handle_are_read_by_others(open_handle: Opener) -> None:
    one, other = await open_handle(), await open_handle()
    for run in range(1, 6):
        await one.write_all(JOB, {0: task_runtime(run)})
        assert (await other.tasks.get(JOB, 0)).run == run


async def test_handles_write_at_once(open_handle: Opener) -> None:
    handles = [await open_handle() for _ in range(3)]
    await asyncio.gather(
        *(
            handle.write_all(job_id(number), {instance: task_runtime()})
            for number, handle in enumerate(handles)
            for instance in range(50)
        )
    )
    for number in range(3):
        pages = [page async for page in handles[0].tasks.list(job_id(number))]
        assert [len(page) for page in pages] == [50]


async def test_later_writes_win(store: Store) -> None:
    await asyncio.gather(*(store.write_all(JOB, {0: task_runtime(run)}) for run in range(1, 200)))
    assert (await store.tasks.get(JOB, 0)).run == 199


async def test_writes_of_all_kinds_are_made_in_the_order_of_their_calls(store: Store) -> None:
    await store.jobs.create(JOB, spec(), job_runtime())
    calls = []
    for run in range(1, 40, 3):
        calls += [
            store.write_all(JOB, {0: task_runtime(run)}, [event(JOB, run=run)], job_runtime()),
            store.write_all(JOB, {0: task_runtime(run + 1)}),
            store.write_all(JOB, {}, [event(JOB, run=run + 1)]),
            store.pod_events.delete(JOB, 0, run + 1),
            store.write_all(JOB, {0: task_runtime(run + 2)}),
            store.write_all(JOB, {}, [event(JOB, run=run + 2)]),
        ]
    await asyncio.gather(*calls)
    assert (await store.tasks.get(JOB, 0)).run == 39
    assert [one.run for one in await store.pod_events.list(JOB, 0)] == [39]
    await asyncio.gather(store.write_all(JOB, {1: task_runtime()}), store.jobs.delete(JOB))
    assert [page async for page in store.tasks.list(JOB)] == []


async def test_closing_finishes_what_was_accepted(open_handle: Opener) -> None:
    closing, other = await open_handle(), await open_handle()
    writes = [asyncio.ensure_future(closing.write_all(JOB, {i: task_runtime()})) for i in range(20)]
    await asyncio.sleep(0)
    await closing.close()
    assert await asyncio.gather(*writes) == [None] * 20
    assert [len(page) async for page in other.tasks.list(JOB)] == [20]
    with pytest.raises(Unavailable):
        await closing.jobs.active()
    with pytest.raises(Unavailable):
        await closing.write_all(JOB, {0: task_runtime()})
    await closing.close()
