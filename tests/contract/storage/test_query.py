from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.errors import InvalidArgument
from peloton.model.job import JobQuery, JobScope, TimeRange
from peloton.model.states import JobState
from storage.interface import Store
from tests.contract.storage.samples import HOUR, POOL_ID, job_id, job_runtime, spec

OTHER_POOL = "5a3c1ed0-0000-4000-8000-000000000002"
FRAME = JobQuery(limit=100, order=(("creation_time", False),))


@pytest.fixture
async def jobs(store: Store) -> Store:
    """Four jobs, created an hour apart: number n at hour n."""
    rows = {
        1: (spec(name="wordcount-a", team="ann"), job_runtime(JobState.RUNNING)),
        2: (
            spec(name="wordcount-b", team="bob", labels=(("team", "maps"), ("env", "prod"))),
            job_runtime(JobState.SUCCEEDED, completed=10 * HOUR),
        ),
        3: (
            spec(name="sort[1]", team="ann", pool_id=OTHER_POOL, labels=(("env", "test"), ("a\nb", '"]'))),
            job_runtime(JobState.FAILED, completed=9 * HOUR),
        ),
        4: (
            spec(name="Grüße", team="eve", labels=(), command="python GRÜSSE.py --input 50%_x"),
            job_runtime(JobState.RUNNING),
        ),
    }
    for number, (config, runtime) in rows.items():
        await store.jobs.create(job_id(number), config, replace(runtime, creation_time=number * HOUR))
    return store


async def found(store: Store, query: JobQuery) -> list[int]:
    page = await store.jobs.query(query)
    return [next(n for n in range(1, 5) if job_id(n) == job.job_id) for job in page.jobs]


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, [1, 2, 3, 4]),
        ({"labels": (("team", "maps"),)}, [1, 2]),
        ({"labels": (("team", "maps"), ("env", "prod"))}, [2]),
        ({"labels": (("team", "map"),)}, []),
        ({"labels": (("a\nb", '"]'),)}, [3]),
        ({"owner": "ann"}, [1, 3]),
        ({"owner": "an"}, []),
        ({"owner": "maintainer"}, []),
        ({"within": (JobScope(owner="maintainer"),)}, [1, 2, 3, 4]),
        ({"within": (JobScope(owner="ann"),)}, []),
        ({"within": (JobScope(frozenset({OTHER_POOL}), "maintainer"), JobScope(owner="ann"))}, [3]),
        ({"within": ()}, []),
        ({"pool_id": OTHER_POOL}, [3]),
        ({"pool_id": POOL_ID}, [1, 2, 4]),
        ({"states": frozenset({JobState.RUNNING})}, [1, 4]),
        ({"states": frozenset({JobState.RUNNING, JobState.FAILED})}, [1, 3, 4]),
        ({"name": "wordcount"}, [1, 2]),
        ({"name": "count-"}, [1, 2]),
        ({"name": "wordcount-*"}, [1, 2]),
        ({"name": "*count"}, []),
        ({"name": "*count-?"}, [1, 2]),
        ({"name": "sort[1]"}, [3]),
        ({"name": "sort[*"}, [3]),
        ({"name": "Gr??e"}, [4]),
        ({"name": "%"}, []),
        ({"reference": "wordcount-a"}, [1]),
        ({"reference": "wordcount"}, []),
        ({"reference": "sort[1]"}, [3]),
        ({"reference": job_id(2)}, [2]),
        ({"reference": job_id(2)[:-1]}, [1, 2, 3, 4]),
        ({"reference": job_id(2)[:4].upper()}, [1, 2, 3, 4]),
        ({"reference": job_id(2)[:3]}, []),
        ({"reference": job_id(2)[:4], "pool_id": OTHER_POOL}, [3]),
        ({"reference": job_id(2) + "0"}, []),
        ({"keywords": ("hello",)}, [1, 2, 3]),
        ({"keywords": ("ECHO HELLO", "counts")}, [1, 2, 3]),
        ({"keywords": ("second",)}, [1, 2, 3, 4]),
        ({"keywords": ("grüsse.py",)}, [4]),
        ({"keywords": ("50%_",)}, [4]),
        ({"keywords": ("5_%",)}, []),
        ({"keywords": ("http_port", "prod")}, [2]),
        ({"keywords": ("hello", "no such word")}, []),
        ({"created": TimeRange(2 * HOUR, 3 * HOUR)}, [2, 3]),
        ({"created": TimeRange(start=3 * HOUR)}, [3, 4]),
        ({"created": TimeRange(end=2 * HOUR - 1)}, [1]),
        ({"completed": TimeRange()}, [2, 3]),
        ({"completed": TimeRange(end=9 * HOUR)}, [3]),
        ({"completed": TimeRange(start=10 * HOUR)}, [2]),
        ({"owner": "ann", "states": frozenset({JobState.RUNNING}), "keywords": ("HELLO",)}, [1]),
    ],
    ids=str,
)
async def test_what_is_given_must_all_hold(
    jobs: Store, change: dict[str, object], expected: list[int]
) -> None:
    query = replace(FRAME, **change)  # type: ignore[arg-type]
    assert await found(jobs, query) == expected
    assert (await jobs.jobs.query(query)).total == len(expected)


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ((("creation_time", True),), [4, 3, 2, 1]),
        ((("completion_time", False), ("creation_time", False)), [1, 4, 3, 2]),
        ((("name", False),), [4, 3, 1, 2]),
        ((("owner", False), ("creation_time", True)), [3, 1, 2, 4]),
        ((("state", True), ("name", False)), [3, 2, 4, 1]),
    ],
    ids=str,
)
async def test_sorting(jobs: Store, order: tuple[tuple[str, bool], ...], expected: list[int]) -> None:
    assert await found(jobs, replace(FRAME, order=order)) == expected


async def test_jobs_that_are_equal_in_the_order_keep_one_order_over_pages(store: Store) -> None:
    for number in range(10):
        await store.jobs.create(job_id(number), spec(), job_runtime())
    pages = [await store.jobs.query(JobQuery(offset=offset, limit=3)) for offset in range(0, 10, 3)]
    seen = [job.job_id for page in pages for job in page.jobs]
    assert sorted(seen) == [job_id(number) for number in range(10)]


@pytest.mark.parametrize(
    ("max_limit", "offset", "limit", "expected", "total"),
    [
        (0, 0, 2, [1, 2], 4),
        (0, 3, 2, [4], 4),
        (0, 4, 2, [], 4),
        (3, 0, 10, [1, 2, 3], 3),
        (3, 2, 10, [3], 3),
        (3, 5, 10, [], 3),
        (9, 1, 2, [2, 3], 4),
    ],
)
async def test_max_limit_cuts_first_then_offset_then_limit(
    jobs: Store, max_limit: int, offset: int, limit: int, expected: list[int], total: int
) -> None:
    query = replace(FRAME, max_limit=max_limit, offset=offset, limit=limit)
    assert await found(jobs, query) == expected
    assert (await jobs.jobs.query(query)).total == total


async def test_an_order_by_no_property_is_refused(jobs: Store) -> None:
    with pytest.raises(InvalidArgument, match="runtime"):
        await jobs.jobs.query(JobQuery(order=(("runtime; --", True),)))


@pytest.mark.parametrize(
    ("most", "more"),
    [
        (JobQuery(name="x" * 10_000), JobQuery(name="x" * 60_000)),
        (JobQuery(reference="x" * 10_000), JobQuery(reference="x" * 60_000)),
        (JobQuery(keywords=("absent",) * 100), JobQuery(keywords=("absent",) * 3000)),
        (JobQuery(labels=(("key", ""),) * 100), JobQuery(labels=(("key", ""),) * 3000)),
    ],
    ids=["name", "reference", "keywords", "labels"],
)
async def test_more_than_the_maximum_is_refused(jobs: Store, most: JobQuery, more: JobQuery) -> None:
    """It is not reported as a temporary failure."""
    assert (await jobs.jobs.query(most)).total == 0
    with pytest.raises(InvalidArgument, match="of at most"):
        await jobs.jobs.query(more)


async def test_a_summary_leaves_the_instances_configs_out(jobs: Store) -> None:
    page = await jobs.jobs.query(JobQuery(name="wordcount-b"))
    (job,) = page.jobs
    whole = await jobs.jobs.config(job.job_id, 1)
    assert whole.overrides
    assert not job.spec.overrides
    assert replace(job.spec, overrides=whole.overrides, payload=whole.payload) == whole
    assert job.runtime == await jobs.jobs.runtime(job.job_id)
