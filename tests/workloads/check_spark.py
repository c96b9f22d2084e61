"""Spark on real clusters: what it computes there is what it computes alone, whatever happens to executors."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import pytest

from minicluster.cluster import Cluster
from minicluster.demo.training import POOL, POOL_SPEC
from minicluster.settings import Agent, ClusterSettings
from minicluster.temporary import temporary_cluster

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, PROGRAMS = ROOT / "examples" / "spark", Path(__file__).parent / "spark"
VERSIONS = ("3.5", "4.1")
PATIENCE = 300.0
"""Seconds that each application may take on a busy machine."""
SMALL = ("--executor-memory", "512m", "--driver-memory", "512m")
TABLES = (str(EXAMPLES / "tables.py"), "20000", "4")


def agents() -> tuple[Agent, ...]:
    return tuple(
        Agent(
            hostname=f"h{number}",
            resources=f"cpus:4;mem:6000;disk:20000;ports:[{first}-{first + 99}]",
        )
        for number, first in ((1, 31000), (2, 31100), (3, 31200))
    )


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    with temporary_cluster(ClusterSettings(ports="free", agents=agents())) as found:
        assert peloton(found, "respool", "create", POOL, str(ROOT / POOL_SPEC)).returncode == 0
        yield found


@pytest.fixture(scope="module")
def secured() -> Iterator[Cluster]:
    """Root's agents would run tasks as users without names, for whom Hadoop's library does not start."""
    settings = ClusterSettings(ports="free", agents=agents(), secure=True, isolation="none")
    with temporary_cluster(settings) as found:
        assert peloton(found, "respool", "create", POOL, str(ROOT / POOL_SPEC)).returncode == 0
        yield found


def home(version: str) -> Path:
    [found] = (ROOT / "build" / f"spark-{version}").glob("lib/python3*/site-packages/pyspark")
    return found


def environment(version: str, urls: Mapping[str, str]) -> dict[str, str]:
    python = ROOT / "build" / f"spark-{version}" / "bin" / "python"
    own = {"SPARK_HOME": str(home(version)), "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, **urls, **own, "COLUMNS": "200"}


def peloton(cluster: Cluster, *words: str, version: str = "4.1") -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "peloton.cli", *words],
        env=environment(version, cluster.urls()),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )


def submit(cluster: Cluster, version: str, *words: str) -> subprocess.CompletedProcess[str]:
    return peloton(cluster, "spark", "submit", *SMALL, *words, version=version)


@contextmanager
def running(cluster: Cluster, version: str, *words: str) -> Iterator[subprocess.Popen[str]]:
    """Have an application run, with all that it prints in its standard output."""
    command = [sys.executable, "-m", "peloton.cli", "spark", "submit", *SMALL, *words]
    variables = environment(version, cluster.urls())
    with subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def until(holds: Callable[[], object], what: str, seconds: float = PATIENCE) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, f"not within {seconds} s: {what}"
        time.sleep(0.5)


def job_of(output: str) -> str:
    found = re.search(r"are instances of job ([0-9a-f-]{36})", output)
    assert found is not None, output[-3000:]
    return found[1]


def state(cluster: Cluster, job: str) -> str:
    return str(json.loads(peloton(cluster, "-j", "job", "get", job).stdout)["jobInfo"]["runtime"]["state"])


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


def rows(output: str) -> list[str]:
    return [line for line in output.splitlines() if re.match("(sort|join|aggregation): ", line)]


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


@pytest.mark.parametrize("mode", ["client", "cluster"])
def test_where_callers_are_asked_who_they_are(secured: Cluster, mode: str) -> None:
    words = ("--deploy-mode", mode, "--num-executors", "1", str(EXAMPLES / "pi.py"), "2")
    done = submit(secured, "4.1", *words)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "pi is roughly 3.1" in done.stdout


def test_executors_come_and_go_with_the_load(cluster: Cluster) -> None:
    settings = {
        "spark.dynamicAllocation.enabled": "true",
        "spark.dynamicAllocation.minExecutors": "1",
        "spark.dynamicAllocation.maxExecutors": "6",
        "spark.dynamicAllocation.executorIdleTimeout": "3s",
    }
    words = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    done = submit(cluster, "4.1", *words, str(PROGRAMS / "load.py"), "6", "120")
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    print(done.stdout)
    assert re.search(r"grew to 6 in .*\nsum 15\nshrank to 1 in ", done.stdout)


def test_lost_executors_are_no_failures(cluster: Cluster, tmp_path: Path) -> None:
    """Executors are stopped and killed while they shuffle; the results are right."""
    end = tmp_path / "end"
    program = (str(PROGRAMS / "shuffles.py"), "3", str(end))
    with running(cluster, "4.1", "--num-executors", "3", *program) as process:
        assert process.stdout is not None
        output = ""
        lost = 0
        for line in process.stdout:
            output += line
            if re.match(r"round [1-4]$", line):
                lose_one(cluster, job_of(output), lost)
                lost += 1
            if line.startswith("round 4"):
                end.touch()
        assert process.wait(PATIENCE) == 0, output[-3000:]
    assert lost == 4
    assert re.search(r"\d+ rounds, 0 wrong", output), output[-3000:]


def lose_one(cluster: Cluster, job: str, turn: int) -> None:
    """Lose the executor of a job that has run for longest: by a stop, or by SIGKILL."""
    found = executors(job)
    until(lambda: executors(job), "an executor")
    found = executors(job)
    pid, instance = found[0]
    if turn % 2:
        os.kill(pid, signal.SIGKILL)
    else:
        assert peloton(cluster, "task", "stop", job, "-r", f"{instance}:{instance + 1}").returncode == 0


def executors(job: str) -> list[tuple[int, int]]:
    """Return process ids and instances of a job's executors on this machine, the oldest first."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text().split("\0")
            begun = (folder / "stat").stat().st_mtime
        except OSError:
            continue
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and job in words:
            instance = int(words[words.index("--executor-id") + 1]) % 10_000
            found.append((begun, int(folder.name), instance))
    return [(pid, instance) for _, pid, instance in sorted(found)]


def test_a_driver_that_dies_takes_its_executors_with_it(cluster: Cluster, tmp_path: Path) -> None:
    program = (str(PROGRAMS / "shuffles.py"), "1", str(tmp_path / "never"))
    with running(cluster, "4.1", "--num-executors", "1", *program) as process:
        assert process.stdout is not None
        output = ""
        for line in process.stdout:
            output += line
            if line.startswith("round 1"):
                break
        job = job_of(output)
        os.kill(process.pid, signal.SIGKILL)  # `peloton spark submit` has become the driver
    until(lambda: state(cluster, job) == "FAILED", f"end of job {job}", 120)
    until(lambda: not executors(job), "end of the executors", 60)


def test_executors_that_cannot_start_end_the_application(cluster: Cluster) -> None:
    words = ("--conf", "spark.executor.extraJavaOptions=-javaagent:nowhere.jar", "--num-executors", "1")
    done = submit(cluster, "4.1", *words, str(EXAMPLES / "pi.py"), "2")
    assert done.returncode != 0
    assert "4 executors have failed: FAILED" in done.stderr
