"""A task with an image that uses too much memory is told so wherever people look."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator, Mapping

import pytest

from minicluster.settings import Instances
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.cli.__main__ import main
from tests.cluster.conftest import Harness, harness_of
from tests.containers.check_tasks import IMAGE
from tests.servers.engine import Engine

HUNGRY = "python3 -c \"x = bytearray(200_000_000); x[::4096] = b'x' * len(x[::4096])\"; exit $?"
LIMIT_MB = 64
TOLD = f"Memory limit exceeded: Requested: {LIMIT_MB}MB Maximum Used: {LIMIT_MB}MB"


@pytest.fixture(scope="module")
def harness(
    engine: Engine, bases: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Harness]:
    """A cluster with a web UI, whose agents run images."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in engine.environment.items():
            patch.setenv(name, value)
        with harness_of(tmp_path_factory, images="docker", instances=Instances(web=1)) as held:
            yield held


@pytest.fixture(scope="module")
def job(harness: Harness) -> str:
    """A job that has failed for its memory."""
    config = harness.config(HUNGRY)
    config.defaultConfig.restartPolicy.maxFailures = 0
    config.defaultConfig.resource.CopyFrom(task_pb2.ResourceConfig(cpuLimit=0.5, memLimitMb=LIMIT_MB))
    config.defaultConfig.container.type = config.defaultConfig.container.DOCKER
    config.defaultConfig.container.docker.image = IMAGE
    created = harness.create(config)
    assert harness.ended(created).state == job_pb2.FAILED
    return created


@pytest.mark.parametrize("command", ["get", "events"])
def test_the_command_line_tells_limit_and_peak(
    harness: Harness,
    job: str,
    command: str,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)
    assert main(["task", command, job, "0"]) == 0
    shown = capfd.readouterr().out
    assert TOLD in " ".join(shown.split()), shown


def test_the_stored_event_tells_limit_and_peak(
    harness: Harness, job: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    for name, url in harness.cluster.urls().items():
        monkeypatch.setenv(name, url)
    assert main(["pod", "events", job, "0", "--json"]) == 0
    answer = json.dumps(json.loads(capfd.readouterr().out))
    assert TOLD in answer and "CONTAINER_LIMITATION_MEMORY" in answer


def test_the_page_of_the_instance_tells_limit_and_peak(harness: Harness, job: str) -> None:
    (address,) = harness.cluster.web_addresses()
    with urllib.request.urlopen(f"http://{address}/jobs/{job}/instances/0", timeout=30) as answer:
        page = answer.read().decode()
    assert TOLD in page
