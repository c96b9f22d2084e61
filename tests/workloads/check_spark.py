"""Spark on real clusters: what it computes there is what it computes alone."""

from __future__ import annotations

import json
import re
import subprocess
import urllib.request
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from minicluster.cluster import Cluster
from minicluster.demo.training import POOL
from minicluster.mesos.agent.isolation import closed_from
from minicluster.settings import ClusterSettings
from minicluster.temporary import temporary_cluster

from .runs import wait_for
from .spark_apps import (
    EXAMPLES,
    NEWEST,
    PATIENCE,
    PROGRAMS,
    TABLES,
    VERSIONS,
    agents,
    environment,
    executors,
    home,
    job_of,
    kill,
    make_pool,
    peloton,
    rows,
    running,
    settings,
    state,
    submit,
)

SYSTEM_PYTHON = "/usr/bin/python3"
MOST = 8
"""Executors to which an application grows."""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with temporary_cluster(ClusterSettings(ports="free", agents=agents())) as found:
        make_pool(found, tmp_path_factory.mktemp("pool"), POOL, 6, 12)
        yield found


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Where this is root's, each task is another user, with a name of its own."""
    with temporary_cluster(ClusterSettings(ports="free", agents=agents(), secure=True)) as found:
        make_pool(found, tmp_path_factory.mktemp("pool"), POOL, 6, 12)
        yield found


@cache
def alone(version: str) -> list[str]:
    """Return what the tables give with two threads of one process."""
    done = subprocess.run(
        [home(version) / "bin" / "spark-submit", "--master", "local[2]", *TABLES],
        env=environment(version, {}),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=True,
    )
    return rows(done.stdout)


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_are_as_those_of_one_process(cluster: Cluster, version: str) -> None:
    expected = alone(version)
    assert len(expected) == 3 * 51
    done = submit(cluster, version, "--num-executors", "2", *TABLES)
    assert done.returncode == 0, done.stderr[-3000:]
    assert rows(done.stdout) == expected
    job = job_of(done.stderr)
    assert state(cluster, job) == "SUCCEEDED"


@pytest.mark.parametrize("version", VERSIONS)
def test_a_driver_on_the_cluster(cluster: Cluster, version: str) -> None:
    words = ("--deploy-mode", "cluster", "--num-executors", "2", str(EXAMPLES / "pi.py"), "4")
    done = submit(cluster, version, *words)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "pi is roughly 3.1" in done.stdout
    assert state(cluster, job_of(done.stderr)) == "SUCCEEDED"


def open_python() -> str:
    """Return a Python for executors that every user may run: they are users of their own."""
    here = Path(home(NEWEST)).parents[3] / "bin" / "python"
    if closed_from(here.resolve()) == here.resolve():
        return str(here)
    name = "import sys; print(*sys.version_info[:2])"
    own, other = (
        subprocess.run([each, "-c", name], capture_output=True, text=True, check=False).stdout
        for each in (str(here), SYSTEM_PYTHON)
    )
    if own != other:
        pytest.skip(f"other users cannot run {here.resolve()}, and {SYSTEM_PYTHON} is not of its version")
    return SYSTEM_PYTHON


@pytest.mark.parametrize("version", VERSIONS)
def test_tables_where_each_task_is_another_user(secured: Cluster, version: str) -> None:
    expected = alone(version)
    words = ("--num-executors", "2", "--conf", f"spark.pyspark.python={open_python()}")
    done = submit(secured, version, *words, *TABLES)
    assert done.returncode == 0, done.stderr[-3000:]
    assert rows(done.stdout) == expected and len(expected) == 3 * 51


@pytest.mark.parametrize(("mode", "version"), [("client", "3.5"), ("client", "4.1"), ("cluster", "4.1")])
def test_where_callers_are_asked_who_they_are(secured: Cluster, mode: str, version: str) -> None:
    python = open_python()
    words = ("--deploy-mode", mode, "--num-executors", "1", "--conf", f"spark.pyspark.python={python}")
    done = submit(secured, version, *words, str(EXAMPLES / "pi.py"), "2")
    assert done.returncode == 0, done.stderr[-3000:]
    assert "pi is roughly 3.1" in done.stdout


def test_executors_come_and_go_with_the_load(cluster: Cluster) -> None:
    """They are as many as their load wants within 10 s where a machine starts JVMs that fast."""
    values = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": 1,
        "spark.dynamicAllocation.maxExecutors": MOST,
        "spark.dynamicAllocation.executorIdleTimeout": "3s",
    }
    done = submit(cluster, NEWEST, *settings(values), str(PROGRAMS / "load.py"), str(MOST), "120")
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    print(done.stdout)
    total = sum(range(MOST))
    assert re.search(rf"grew to {MOST} in .*\nsum {total}\n(.*\n)*shrank to 1 in ", done.stdout)


def test_a_driver_that_dies_takes_its_executors_with_it(cluster: Cluster, tmp_path: Path) -> None:
    program = (str(PROGRAMS / "shuffles.py"), "1", str(tmp_path / "never"))
    with running(cluster, NEWEST, "--num-executors", "1", *program) as application:
        application.saw("^round 1$")
        job = application.job
        kill([application.process.pid])  # `peloton spark submit` has become the driver
    wait_for(lambda: state(cluster, job) == "FAILED", 120, lambda: f"end of job {job}")
    wait_for(lambda: not executors(job), 60, lambda: "end of the executors")


def test_the_ui_is_where_the_job_says(cluster: Cluster, tmp_path: Path) -> None:
    """Where the driver is here by the job's description, where it is on the cluster by its port `ui`."""
    program = (str(PROGRAMS / "shuffles.py"), "1", str(tmp_path / "end"))
    with running(cluster, NEWEST, "--num-executors", "1", *program) as application:
        application.saw("^round 1$")
        text = peloton(cluster, "job", "get", application.job).stdout
        found = re.search(r"with its UI at (http://[^\s\"',]+)", text)
        assert found is not None, text
        assert shown(found[1])["id"] == application.job
    words = ("--deploy-mode", "cluster", "--num-executors", "1", *program)
    with running(cluster, NEWEST, *words) as application:
        application.saw("round 1$")
        driver = json.loads(peloton(cluster, "-j", "task", "get", application.job, "0").stdout)
        port = driver["runtime"]["ports"]["ui"]
        assert shown(f"http://127.0.0.1:{port}")["id"] == application.job
        (tmp_path / "end").touch()
        assert application.wait(PATIENCE) == 0


def shown(address: str) -> dict[str, Any]:
    """Return the application whose UI is at an address. Its first answer takes the driver 3 s of CPU."""
    with urllib.request.urlopen(f"{address}/api/v1/applications", timeout=PATIENCE) as answer:
        [application] = json.load(answer)
    return dict(application)


def test_executors_that_cannot_start_end_the_application(cluster: Cluster) -> None:
    words = ("--conf", "spark.executor.extraJavaOptions=-javaagent:nowhere.jar", "--num-executors", "1")
    done = submit(cluster, NEWEST, *words, str(EXAMPLES / "pi.py"), "2")
    assert done.returncode != 0
    assert "4 executors have failed: FAILED" in done.stderr
