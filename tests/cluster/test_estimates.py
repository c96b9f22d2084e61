"""`peloton job why` and `--dry-run` estimate when a job starts; then it does."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from minicluster.settings import Simulated
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.__main__ import main

from .conftest import Harness, harness_of, wait_for

pytestmark = pytest.mark.extended
CORES = 12
TASKS = 4
"""Number of instances that fill the host."""
RUN_SECONDS = 60
"""What each task takes: long, compared with the delays of daemons on a slow machine."""
SECONDS = 300
Ask = Callable[..., dict[str, Any]]


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    resources = f"cpus:{CORES};mem:8192;disk:60000"
    simulated = Simulated(agents=1, resources=resources, task_seconds=RUN_SECONDS)
    with harness_of(tmp_path_factory, simulated=simulated) as held:
        yield held


@pytest.fixture
def ask(harness: Harness, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]) -> Ask:
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)

    def asked(*words: str) -> dict[str, Any]:
        capfd.readouterr()
        code = main([*words, "-o", "json"])
        out, err = capfd.readouterr()
        assert code == 0, err
        found: dict[str, Any] = json.loads(out)
        return found

    return asked


def config(harness: Harness, name: str, instances: int) -> job_pb2.JobConfig:
    made = harness.config("true", instances, name=name)
    made.defaultConfig.resource.cpuLimit = CORES / TASKS
    return made


def starts(harness: Harness, job_id: str) -> list[float]:
    """Return when those instances have started that run or have run."""
    tasks = harness.tasks(job_id).values()
    return [
        datetime.fromisoformat(task.runtime.startTime).timestamp() for task in tasks if task.runtime.startTime
    ]


def all_started(harness: Harness, job_id: str, count: int) -> list[float]:
    wait_for(lambda: len(starts(harness, job_id)) == count, SECONDS)
    return starts(harness, job_id)


def wait_for_queue(harness: Harness, job_id: str) -> None:
    wait_for(lambda: harness.runtime(job_id).taskStats.get("PENDING", 0) == 1, SECONDS)


def test_a_job_starts_when_it_was_estimated(harness: Harness, ask: Ask, tmp_path: Path) -> None:
    created = time.time()
    first = harness.create(config(harness, "mill-1", TASKS))
    delay = max(all_started(harness, first, TASKS)) - created
    early = harness.create(config(harness, "early", 1))
    wait_for_queue(harness, early)
    nothing = ask("job", "why", early)["start"]
    assert nothing["first"]["seconds"] is None, nothing
    assert nothing["unknown"] == [{"pool": "/test", "runningTasks": TASKS}], nothing
    stop = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=early))
    assert not harness.client.task_svc.Stop(stop, timeout=30).HasField("error")
    harness.ended(early, SECONDS)
    harness.ended(first, SECONDS)

    second = harness.create(config(harness, "mill-2", TASKS))
    all_started(harness, second, TASKS)
    late = harness.create(config(harness, "late", 1))
    wait_for_queue(harness, late)
    before = time.time()
    found = ask("job", "why", late)["start"]
    asking = time.time() - before
    spec = tmp_path / "job.yaml"
    spec.write_text(
        "{name: planned, instanceCount: 1, "
        "defaultConfig: {resource: {cpuLimit: 3.0}, command: {value: 'true'}}}"
    )
    planned = ask("job", "create", "/test", str(spec), "--dry-run")["start"]
    (began,) = all_started(harness, late, 1)

    low, high = found["first"]["low"], found["first"]["high"]
    near = 10 + asking + 3 * delay
    assert 0 < low <= found["first"]["seconds"] <= high < RUN_SECONDS + near, found
    assert low - near <= began - before <= high + near, (found, began - before, near)
    assert near < SECONDS and found["runs"] > 0
    assert planned["waiting"] == 1 and planned["first"]["seconds"] > 0, planned
