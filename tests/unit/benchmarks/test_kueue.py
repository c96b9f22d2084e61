"""What the benchmark creates is what Kueue's generator creates, and its figures are right."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
import yaml

from benchmarks.kueue import TESTS, Workload, config_of, generator_of, result_of
from minicluster.mesos.master.core.simulated_agents import SECONDS_LABEL
from peloton.model.resources import Resources
from peloton.wire.validation.job import validated
from simulator.jobs import SimJob
from simulator.workloads.public import kueue_cluster, kueue_jobs


@pytest.mark.parametrize(
    ("name", "queues", "workloads"),
    [
        ("baseline", 30, {"small": 10_500, "medium": 3_000, "large": 1_500}),
        ("large-scale", 1000, {"small": 35_000, "medium": 11_000, "large": 4_000}),
    ],
)
def test_workloads_and_queues_are_as_many_as_published(
    name: str, queues: int, workloads: dict[str, int]
) -> None:
    given = generator_of(TESTS[name])
    jobs = list(kueue_jobs(Path("generator"), yaml.safe_dump(given).splitlines(keepends=True)))
    assert Counter(job.kind for job in jobs) == workloads
    assert len({job.pool for job in jobs}) == queues
    cluster = kueue_cluster(Path("generator"), given)
    assert cluster["hosts"] == [{"count": 1, "cpu": 20.0 * queues}]
    leaves = [pool for pool in cluster["pools"] if pool["path"].count("/") == 2]
    assert {
        (each["resources"]["cpu"]["reservation"], each["resources"]["cpu"]["limit"]) for each in leaves
    } == {(20.0, 120.0)}


def test_a_part_of_a_test_has_some_of_each_class() -> None:
    given = generator_of(TESTS["baseline"], cohorts=2, part=0.001)
    jobs = list(kueue_jobs(Path("generator"), yaml.safe_dump(given).splitlines(keepends=True)))
    assert Counter(job.kind for job in jobs) == {"small": 12, "medium": 12, "large": 12}


def test_a_workload_is_a_job_that_is_taken() -> None:
    job = workload("large", 0.0, 0.0, 0.0).job
    config = validated(config_of(job, "2d12ab6b-92d0-4a86-8e4d-d0a84bd4a25d"))
    assert config.sla.priority == 200
    assert config.sla.preemptible
    assert config.defaultConfig.resource.cpuLimit == 20
    assert {label.key: label.value for label in config.defaultConfig.labels} == {SECONDS_LABEL: "1.5"}


def test_figures() -> None:
    found = result_of(
        [
            workload("large", 1.0, 2.0, 4.0),
            workload("large", 2.0, 2.0, 5.0),
            workload("small", 0.0, 1.0, 2.0),
        ],
        creation=2.0,
        quota=100.0,
    )
    assert found.workloads == 3
    assert found.seconds == 6.5
    assert found.use == pytest.approx(3 * 1.5 * 20 / (100 * 6.5))
    assert found.classes["large"].workloads == 2
    assert found.classes["large"].to_admission == 3.0
    assert found.classes["large"].after_acceptance == 2.5
    assert found.classes["small"].to_admission == 2.0


def workload(kind: str, created: float, accepted: float, started: float) -> Workload:
    job = SimJob("job", 0.0, "/a/b", Resources.of(20.0), 1.5, priority=200, preemptible=True, kind=kind)
    return Workload(job, created, accepted, started, started + job.seconds)
