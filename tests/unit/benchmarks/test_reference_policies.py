"""The reference policies, by cases that are worked out by hand, and by what holds for each."""

from __future__ import annotations

from random import Random

import pytest

from benchmarks.reference_policies import (
    POLICIES,
    Figures,
    Job,
    figures,
    first_come,
    shortest_first,
    waits,
)


def test_first_come_blocks_behind_the_first() -> None:
    jobs = [Job(0, 10, 3), Job(1, 10, 4), Job(2, 1, 1)]
    assert waits(jobs, 4) == [0, 9, 18]


def test_shortest_first_among_those_that_wait() -> None:
    jobs = [Job(0, 10, 4), Job(1, 5, 4), Job(2, 2, 4), Job(3, 2, 4)]
    assert waits(jobs, 4, shortest_first) == [0, 13, 8, 9]


def test_backfill_takes_what_ends_before_the_first_starts() -> None:
    jobs = [Job(0, 10, 3), Job(1, 10, 4), Job(2, 8, 1), Job(2, 9, 1)]
    # The third ends at 10, when the second starts; the fourth would delay it.
    assert waits(jobs, 4, backfill=True) == [0, 9, 0, 18]


def test_backfill_takes_what_the_first_leaves_free() -> None:
    jobs = [Job(0, 10, 3), Job(1, 10, 3), Job(2, 100, 1), Job(3, 100, 1)]
    # The second leaves one processor: the third may run for long. The fourth waits until the second ends.
    assert waits(jobs, 4, backfill=True) == [0, 9, 0, 17]


def test_what_ends_together_is_free_together() -> None:
    jobs = [Job(0, 10, 1), Job(0, 10, 2), Job(1, 5, 2), Job(2, 100, 1)]
    # At 10 all four are free: the third takes two of them, and the fourth may keep one.
    assert waits(jobs, 4, backfill=True) == [0, 0, 9, 0]


def test_a_job_without_a_run_time_ends_at_once() -> None:
    assert waits([Job(0, 0, 4), Job(0, 1, 4)], 4) == [0, 0]


def test_no_jobs() -> None:
    assert waits([], 4) == []


def test_a_job_that_never_fits_is_refused() -> None:
    with pytest.raises(ValueError, match="1 to 4 processors"):
        waits([Job(0, 1, 5)], 4)


@pytest.mark.parametrize("name", POLICIES)
def test_no_more_runs_than_there_is(name: str) -> None:
    random = Random(7)
    at, jobs = 0.0, []
    for _ in range(300):
        at += random.expovariate(0.2)
        jobs.append(Job(at, random.expovariate(0.05), random.randint(1, 16)))
    order, backfill = POLICIES[name]
    found = waits(jobs, 16, order, backfill)
    assert min(found) >= 0
    changes = []
    for job, wait in zip(jobs, found, strict=True):
        begin = job.submit + wait
        changes += [(round(begin, 6), job.processors), (round(begin + job.seconds, 6), -job.processors)]
    held = 0
    for _, change in sorted(changes):
        held += change
        assert held <= 16


def test_backfill_never_delays_the_first_of_a_queue_of_two() -> None:
    random = Random(3)
    for _ in range(200):
        jobs = [Job(0, random.randint(1, 20), random.randint(1, 8)) for _ in range(2)]
        jobs += [Job(1, random.randint(1, 20), random.randint(1, 8)) for _ in range(3)]
        plain, filled = waits(jobs, 8, first_come), waits(jobs, 8, first_come, backfill=True)
        first = next((at for at, wait in enumerate(plain) if wait > 0), None)
        if first is not None:
            assert filled[first] <= plain[first]


def test_figures() -> None:
    assert figures([0, 90], [5, 10]) == Figures(45, 52.5, (1 + 10) / 2)
