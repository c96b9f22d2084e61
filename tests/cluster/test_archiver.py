"""The archiver as a process, killed again and again while jobs end: each is archived, and only then gone."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from archiver.reading import Archive
from minicluster.settings import DaemonSettings, Instances
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2

from .conftest import Harness, harness_of, wait_for

SECOND = 1 / 86_400
ROUNDS = 3
"""Times that the archiver is killed, each after it has begun to write what a round's jobs left."""


@pytest.fixture(scope="module")
def archive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("archive") / "jobs.jsonl"


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory, archive: Path) -> Iterator[Harness]:
    own = {"archive": str(archive), "age_days": 2 * SECOND, "interval": 0.2}
    with harness_of(
        tmp_path_factory, instances=Instances(archiver=1), settings=DaemonSettings(archiver=own)
    ) as held:
        yield held


def is_gone(harness: Harness, job_id: str) -> bool:
    request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
    answer = harness.client.job_svc.Get(request, timeout=30)
    return bool(answer.error.HasField("notFound"))


def size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def archived(path: Path) -> list[str]:
    return [entry.job_id for entry in Archive(path).entries()] if path.exists() else []


def test_jobs_are_archived_though_the_archiver_is_killed(harness: Harness, archive: Path) -> None:
    service = harness.config("sleep 600", 1, type=job_pb2.SERVICE)
    service.defaultConfig.ClearField("restartPolicy")
    kept = [harness.create(service), harness.create(harness.config("sleep 600"))]
    jobs: list[str] = []
    for _ in range(ROUNDS):
        before = size(archive)
        jobs += [harness.create(harness.config("echo $PELOTON_TASK_ID", 20)) for _ in range(2)]
        wait_for(lambda before=before: size(archive) > before, 60)  # type: ignore[misc]
        harness.cluster.kill(["archiver0"])
        harness.cluster.start(["archiver0"])
    wait_for(lambda: all(is_gone(harness, job) for job in jobs), 60)
    assert sorted(archived(archive)) == sorted(jobs)
    for job in Archive(archive).jobs():
        assert job.runtime.state == job_pb2.SUCCEEDED
        assert len(job.tasks) == 20
        assert all(events[0].actualState == "SUCCEEDED" for events in job.events.values())
        assert len(job.events) == 20
    assert not any(is_gone(harness, job) for job in kept)


def test_the_command_reads_the_archive(harness: Harness, archive: Path) -> None:
    done = subprocess.run(
        [Path(sys.executable).with_name("peloton-archive"), "list", archive],
        capture_output=True,
        text=True,
        check=True,
    )
    assert [line.split()[0] for line in done.stdout.splitlines()] == archived(archive)
    assert done.stdout
