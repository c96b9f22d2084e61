"""Public traces as workloads, and small ones of them through the references and the simulator."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from random import Random

import pytest

from benchmarks.public_traces import (
    GAVEL_BEGIN,
    LUBLIN_PROCESSORS,
    Told,
    by_peloton,
    by_references,
    gavel,
    gavel_speeds,
    lublin,
    philly,
    shorter_higher,
)
from benchmarks.reference_hosts import Pieces, waits_on_hosts
from benchmarks.reference_policies import Job, first_come, shortest_first
from peloton.errors import InvalidArgument

A100 = "Transformer (batch size 16)"


def swf(path: Path, jobs: list[tuple[int, int, int]]) -> Path:
    """Write jobs as arrival, run time, processors."""
    rest = "-1 -1 -1 -1 -1 1 -1 -1 -1 0 -1 -1 -1"
    lines = [
        f"{number} {submit} -1 {seconds} {count} {rest}"
        for number, (submit, seconds, count) in enumerate(jobs, 1)
    ]
    path.write_text("\n".join(["; MaxNodes: 256", *lines]) + "\n")
    return path


def philly_csv(path: Path, jobs: list[tuple[float, float, int, str]]) -> Path:
    """Write jobs as begin, run time, GPUs, cluster."""
    rows = ["timestamp,duration,num_gpus,gpu_time,cluster"]
    for begin, seconds, gpus, cluster in jobs:
        at = datetime.fromtimestamp(begin, UTC).strftime("%Y-%m-%d %H:%M:%S")
        rows.append(f"{at},{seconds},{gpus},{seconds * gpus},{cluster}")
    path.write_text("\n".join(rows) + "\n")
    return path


def gavel_trace(path: Path, jobs: list[tuple[str, int, float, int]]) -> Path:
    """Write jobs as model, steps, arrival, GPUs."""
    path.write_text(
        "".join(f"{model}\tpython3 x\t-n\t1\t{steps}\t{at}\t{n}\n" for model, steps, at, n in jobs)
    )
    return path


def test_a_sequence_of_lublin(tmp_path: Path) -> None:
    path = swf(tmp_path / "lublin.swf", [(100 * at, 50 + at, 1 + at % 4) for at in range(40)])
    found = lublin(path, seed=3, count=10)
    jobs = found.references()
    assert len(jobs) == 10
    assert jobs[0].submit == 0
    assert [after.submit - before.submit for before, after in pairwise(jobs)] == [100] * 9
    assert {job.processors for job in jobs} == {1, 2, 3, 4}
    assert lublin(path, seed=3, count=10) == found
    assert lublin(path, seed=0, count=10).name != found.name


def test_waits_in_the_simulator_are_those_of_fifo_but_for_starts(tmp_path: Path) -> None:
    whole = LUBLIN_PROCESSORS
    path = swf(
        tmp_path / "lublin.swf", [(0, 100, whole), (10, 1000, whole), (20, 10, whole), (30, 10, whole)]
    )
    found = lublin(path, seed=0, count=100)
    first = by_references(found)["first come, first served"]
    peloton = by_peloton(found)
    assert first.wait == (0 + 90 + 1080 + 1080) / 4
    assert first.wait <= peloton.wait < first.wait + 30
    assert peloton.completion - peloton.wait == pytest.approx((100 + 1000 + 10 + 10) / 4, abs=2)


def test_priorities_put_the_shorter_jobs_first(tmp_path: Path) -> None:
    whole = LUBLIN_PROCESSORS
    path = swf(
        tmp_path / "lublin.swf", [(0, 100, whole), (10, 1000, whole), (20, 10, whole), (30, 10, whole)]
    )
    found = lublin(path, seed=0, count=100)
    shortest = by_references(found)["shortest first"]
    peloton = by_peloton(found, Told.PRIORITIES)
    assert shortest.wait == (0 + 110 + 80 + 80) / 4
    assert shortest.wait <= peloton.wait < shortest.wait + 30


def test_priorities_are_higher_for_shorter_runs() -> None:
    seconds = [0, 1, 2, 2.1, 60, 3600, 3650, 1e6, 1e10]
    found = [shorter_higher(each) for each in seconds]
    assert found == sorted(found, reverse=True)
    assert found[0] == found[1] == 3200
    assert found[4] > found[5] > found[6] > found[7] > found[8] == 0


def test_the_jobs_of_philly_are_counted_in_gpus(tmp_path: Path) -> None:
    path = philly_csv(
        tmp_path / "philly.csv", [(1e9, 60, 1, "a"), (1e9 + 5, 70, 16, "b"), (1e9 + 9, 1, 32, "b")]
    )
    found = philly(path, gpus=16)
    assert found.references() == [Job(0, 60, 1), Job(5, 70, 16)]  # the third never fits
    assert {job.pool for job in found.jobs} == {"/a", "/b"}
    assert found.cluster.hosts[0].count == 2
    figures = by_peloton(found)
    assert 0 < figures.wait < 120


def test_run_times_of_gavel_are_recovered_from_philly(tmp_path: Path) -> None:
    begin = GAVEL_BEGIN
    known = philly_csv(
        tmp_path / "philly.csv",
        [
            (begin, 100, 1, "ee9e8c"),
            (begin + 50, 40, 4, "ee9e8c"),
            (begin + 60, 999, 2, "other"),
            (begin, 7, 8, "x"),
        ],
    )
    rows = [(A100, 200, 0.0, 1), ("A3C", 400, 50.0, 4), (A100, 64, 70.0, 2), ("A3C", 1000, 60.0, 2)]
    found = gavel(gavel_trace(tmp_path / "gavel.trace", rows), known, gpus=16)
    # 2 steps a second of the one model, 10 of the other.
    assert found.references() == [Job(0, 100, 1), Job(50, 40, 4), Job(60, 100, 2), Job(70, 32, 2)]
    assert by_references(found)["first come, first served"].wait == 0


def test_a_model_that_philly_does_not_tell_is_refused(tmp_path: Path) -> None:
    known = philly_csv(tmp_path / "philly.csv", [(GAVEL_BEGIN, 100, 1, "ee9e8c")])
    trace = gavel_trace(tmp_path / "gavel.trace", [(A100, 200, 0.0, 1), ("A3C", 400, 50.0, 4)])
    with pytest.raises(InvalidArgument, match="A3C"):
        gavel(trace, known)


@pytest.mark.parametrize("line", ["", "a\tb", "m\tc\t-n\t1\tmany\t0.0\t1", "m\tc\t-n\t1\t1\t0.0\tone"])
def test_a_line_that_is_no_job_is_named(tmp_path: Path, line: str) -> None:
    trace = tmp_path / "gavel.trace"
    trace.write_text(f"m\tc\t-n\t1\t200\t0.0\t1\n{line}\n")
    known = philly_csv(tmp_path / "philly.csv", [(GAVEL_BEGIN, 100, 1, "ee9e8c")])
    with pytest.raises(InvalidArgument, match=r"gavel\.trace:2"):
        gavel(trace, known)


def test_the_speed_of_a_model_is_the_median() -> None:
    rows = [("m", 100, 0.0, 1), ("m", 100, 10.0, 1), ("m", 300, 20.0, 1)]
    at = int(GAVEL_BEGIN)
    begun = {(at, 1): [10.0], (at + 10, 1): [10.0], (at + 20, 1): [1.0, 0.0]}
    assert gavel_speeds(rows, begun) == {"m": 10.0}


# The references over hosts.


def pieces(submit: float, seconds: float, processors: int, count: int = 1) -> Pieces:
    return Pieces(Job(submit, seconds, processors), count)


def test_a_piece_waits_for_a_host_though_others_have_as_much_free_together() -> None:
    jobs = [pieces(0, 100, 6), pieces(1, 50, 6), pieces(2, 10, 4), pieces(3, 10, 2), pieces(4, 10, 8, 2)]
    assert waits_on_hosts(jobs, 2, 8, first_come) == [0, 0, 49, 48, 57], "4 and 4 fit when another 4 ends"
    assert waits_on_hosts(jobs, 2, 8, first_come, passing=True) == [0, 0, 49, 0, 57]
    assert waits_on_hosts(jobs[:3], 1, 16, first_come) == [0, 0, 0], "one host has it"


def test_pieces_go_to_the_fullest_host_that_takes_them_and_the_order_counts() -> None:
    full = [pieces(0, 100, 8), pieces(0, 100, 5), pieces(1, 9, 3), pieces(2, 9, 8), pieces(3, 7, 8)]
    assert waits_on_hosts(full[:4], 3, 8, first_come) == [0, 0, 0, 0], "3 beside 5 leave a host whole"
    busy = [full[0], *full[3:]]
    assert waits_on_hosts(busy, 1, 8, first_come) == [0, 98, 106]
    assert waits_on_hosts(busy, 1, 8, shortest_first) == [0, 105, 97]


def in_turn(jobs: list[Pieces], hosts: int, processors: int, passing: bool) -> list[float]:
    """Return the waits as `waits_on_hosts`, by trying each job of the queue at each moment."""
    free, waits, queue = [processors] * hosts, [-1.0] * len(jobs), list(range(len(jobs)))
    running: list[tuple[float, list[int], int]] = []
    times = {job.job.submit for job in jobs}
    while times:
        times.discard(now := min(times))
        for end, used, each in [each for each in running if each[0] <= now]:
            running.remove((end, used, each))
            for host in used:
                free[host] += each
        for number in [number for number in queue if jobs[number].job.submit <= now]:
            it = jobs[number]
            left, found = list(free), list[int]()
            for _ in range(it.count):
                able = [host for host in range(hosts) if left[host] >= it.each]
                if able:
                    found.append(min(able, key=left.__getitem__))
                    left[found[-1]] -= it.each
            if len(found) < it.count:
                if passing:
                    continue
                break
            free[:], waits[number] = left, now - it.job.submit
            queue.remove(number)
            running.append((now + it.job.seconds, found, it.each))
            times.add(now + it.job.seconds)
    return waits


@pytest.mark.parametrize("passing", [False, True])
def test_jobs_that_wait_by_their_pieces_start_as_if_each_was_tried(passing: bool) -> None:
    for seed in range(20):
        random, now, jobs = Random(seed), 0, []
        for _ in range(40):
            now += random.choice((0, 1, 3))
            each, count = random.choice(((1, 1), (2, 1), (4, 1), (8, 1), (8, 2)))
            jobs.append(pieces(now, random.choice((1, 5, 20, 60)), each * count, count))
        assert waits_on_hosts(jobs, 3, 8, first_come, passing) == in_turn(jobs, 3, 8, passing)


def test_a_job_of_references_that_fits_on_no_hosts_is_refused() -> None:
    with pytest.raises(ValueError, match="fits on no 2 hosts of 8 processors"):
        waits_on_hosts([pieces(0, 1, 9)], 2, 8, first_come)
