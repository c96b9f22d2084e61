"""Jobs through all four daemons on a real API server: `peloton minicluster up --kubernetes`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from tests.cluster.conftest import Harness
from tests.cluster.kubernetes_jobs import *  # noqa: F403 - its tests are those of this module

ROOT = Path(__file__).resolve().parents[2]
ENDED, LIVE = ("SUCCEEDED",), ("RUNNING", "SUCCEEDED")
EXAMPLES = {  # and secret_job, in check_secrets
    "helloworld_job": ENDED,
    "dependent_job": ENDED,  # after helloworld
    "gang_job": ENDED,
    "ports_job": LIVE,
    "controller_job": ENDED,
    "retry_job": ("SUCCEEDED", "FAILED"),  # each run succeeds by chance
    "retry_rules_job": ("FAILED",),
    "web_service": LIVE,
    "daemon_job": LIVE,
    "stateful_service": LIVE,
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_runs_as_on_mesos(harness: Harness, name: str) -> None:
    """A batch job is followed to its end, a service until all run."""
    path, environment = str(ROOT / "examples" / f"{name}.yaml"), {**os.environ, **harness.cluster.urls()}
    command = [sys.executable, "-m", "peloton.cli", "run", "--yes", "--pool", "/test", path]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120, check=False)
    job = done.stdout.split()[1]
    state = job_pb2.JobState.Name(harness.runtime(job).state)
    assert state in EXAMPLES[name], done.stdout + done.stderr
    assert (done.returncode == 0) == (state != "FAILED"), done.stdout + done.stderr
    request = task_pb2.StopRequest(jobId=peloton_pb2.JobID(value=job))
    harness.client.task_svc.Stop(request, timeout=30)
