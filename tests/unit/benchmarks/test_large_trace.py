"""The trace of a large simulation: as many tasks, and as much work, as are wanted."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.large_trace import CORES, POOLS, Size, cluster, jobs, write
from simulator.workloads.cluster import hosts_of, pools_of, read_cluster
from simulator.workloads.jobs import read_jobs

SIZE = Size(tasks=20_000, hosts=200, load=0.9, seed=3)


def test_the_trace_has_the_tasks_and_the_load_that_are_wanted() -> None:
    found = list(jobs(SIZE))
    assert sum(job["instances"] for job in found) == SIZE.tasks
    assert {job["pool"] for job in found} == {f"/{pool}" for pool in POOLS}
    assert [job["submit"] for job in found] == sorted(job["submit"] for job in found)
    work = sum(job["instances"] * job["cpu"] * job["seconds"] for job in found)
    load = work / (SIZE.hosts * CORES * found[-1]["submit"])
    assert load == pytest.approx(SIZE.load, rel=0.25)  # few jobs make up most of the work


def test_a_seed_gives_the_same_jobs_and_another_one_others() -> None:
    assert list(jobs(SIZE)) == list(jobs(SIZE))
    assert list(jobs(SIZE)) != list(jobs(SIZE._replace(seed=4)))


def test_the_simulator_reads_what_is_written(tmp_path: Path) -> None:
    count = write(tmp_path, SIZE)
    read = read_jobs(tmp_path / "jobs.jsonl")
    assert len(read) == count
    assert sum(job.instances for job in read) == SIZE.tasks
    settings = read_cluster(tmp_path / "cluster.yaml")
    hosts = hosts_of(settings)
    assert len(hosts) == SIZE.hosts
    assert len(pools_of(settings, hosts, [job.pool for job in read])) == len(POOLS)
    assert cluster(7)["hosts"][0]["count"] == 7
