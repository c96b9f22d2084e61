"""Applications of Spark on a cluster, as the tests see them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from minicluster.cluster import Cluster
from minicluster.settings import Agent

from .runs import Program, wait_for

ROOT = Path(__file__).resolve().parents[2]
EXAMPLES, PROGRAMS = ROOT / "examples" / "spark", Path(__file__).parent / "spark"
VERSIONS = ("3.5", "4.1")
NEWEST = VERSIONS[-1]
PATIENCE = float(os.environ.get("PELOTON_PATIENCE", "300"))
"""Seconds that each application may take on a busy machine."""
JAVA = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
"""Java that starts with less CPU: applications here end before code that is compiled better pays."""
SMALL = (
    *("--executor-memory", "512m", "--driver-memory", "512m"),
    *("--conf", f"spark.executor.extraJavaOptions={JAVA}", "--conf", f"spark.driver.extraJavaOptions={JAVA}"),
)
TABLES = (str(EXAMPLES / "tables.py"), "20000", "4")


def agents(count: int = 3, more_ports: str = "") -> tuple[Agent, ...]:
    """Return agents of 4 CPUs; they share an address, so the ports of each are its own."""
    return tuple(
        Agent(
            hostname=f"h{n + 1}",
            resources="cpus:4;mem:6000;disk:20000;"
            f"ports:[{26000 + 100 * n}-{26099 + 100 * n}{more_ports if n == 0 else ''}]",
        )
        for n in range(count)
    )


def make_pool(cluster: Cluster, folder: Path, path: str, cpus: float, limit: float) -> None:
    """Make a pool that reserves some CPUs, and 1500 MB with each, of those that are its limit."""
    amounts = [("cpu", cpus, limit), ("memory", 1500 * cpus, 1500 * limit), ("disk", 0, 80000), ("gpu", 0, 0)]
    rows = (
        f"{{kind: {kind}, reservation: {least}, limit: {most}, share: 1}}" for kind, least, most in amounts
    )
    lines = ["owningTeam: data", "policy: PriorityFIFO", "resources:", *(f"  - {row}" for row in rows)]
    spec = folder / "pool.yaml"
    spec.write_text("\n".join([*lines, ""]))
    done = peloton(cluster, "respool", "create", path, str(spec))
    assert done.returncode == 0, done.stderr


def home(version: str) -> Path:
    [found] = (ROOT / "build" / f"spark-{version}").glob("lib/python3*/site-packages/pyspark")
    return found


def environment(version: str, urls: Mapping[str, str]) -> dict[str, str]:
    python = ROOT / "build" / f"spark-{version}" / "bin" / "python"
    own = {"SPARK_HOME": str(home(version)), "PYSPARK_PYTHON": str(python), "SPARK_LOCAL_IP": "127.0.0.1"}
    return {**os.environ, "TIMEOUT": "120s", **urls, **own, "COLUMNS": "200"}


def peloton(cluster: Cluster, *words: str, version: str = NEWEST) -> subprocess.CompletedProcess[str]:
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


def settings(values: Mapping[str, object]) -> list[str]:
    """Return settings as arguments."""
    return [word for name, value in values.items() for word in ("--conf", f"{name}={value}")]


@dataclass
class Application(Program):
    """An application under way, and all that it has written so far."""

    @property
    def job(self) -> str:
        self.saw(r"are instances of job")
        return job_of(self.text)

    def saw(self, pattern: str, seconds: float = PATIENCE) -> float:
        """Wait for a line; return the seconds that it took."""

        def there() -> bool:
            found = re.search(pattern, self.text, re.MULTILINE) is not None
            assert found or self.process.poll() is None, self.text[-5000:]
            return found

        return wait_for(there, seconds, lambda: f"{pattern}: {self.text[-5000:]}")

    def last(self, pattern: str) -> str:
        """Return the group of the last line that matches, empty where none does."""
        found = re.findall(pattern, self.text, re.MULTILINE)
        return str(found[-1]) if found else ""

    def executors(self) -> list[Executor]:
        """Return its executors on this machine, the oldest first."""
        return executors(self.job)


@dataclass(frozen=True, order=True)
class Executor:
    """A process on this machine."""

    begun: float
    pid: int
    instance: int


@contextmanager
def running(cluster: Cluster, version: str, *words: str) -> Iterator[Application]:
    """Have an application run; whatever happens, it ends with this, and is shown."""
    process = subprocess.Popen(
        [sys.executable, "-m", "peloton.cli", "spark", "submit", *SMALL, *words],
        env=environment(version, cluster.urls()),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    application = Application(process)
    try:
        yield application
    finally:
        if process.poll() is None:
            process.terminate()
        try:
            application.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            application.wait(30)
        print(application.text[-8000:])  # what a failure shows


def job_of(output: str) -> str:
    found = re.search(r"are instances of job ([0-9a-f-]{36})", output)
    assert found is not None, output[-3000:]
    return found[1]


def state(cluster: Cluster, job: str) -> str:
    return str(json.loads(peloton(cluster, "-j", "job", "get", job).stdout)["jobInfo"]["runtime"]["state"])


def rows(output: str) -> list[str]:
    return [line for line in output.splitlines() if re.match("(sort|join|aggregation): ", line)]


def executors(job: str) -> list[Executor]:
    """Return a job's executors on this machine, the oldest first."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            words = (folder / "cmdline").read_text().split("\0")
            begun = (folder / "stat").stat().st_mtime
        except OSError:
            continue
        if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words and job in words:
            instance = int(words[words.index("--executor-id") + 1]) % 10_000
            found.append(Executor(begun, int(folder.name), instance))
    return sorted(found)


def host_of(cluster: Cluster, job: str, instance: int) -> str:
    """Return the host of an instance, empty where it is on none."""
    done = peloton(cluster, "-j", "task", "get", job, str(instance))
    if done.returncode:
        return ""
    return str(json.loads(done.stdout)["runtime"].get("host", ""))


def agent_of(host: str) -> str:
    """Return the component of the cluster that is the agent of a host."""
    return f"mesos-agent{int(host.removeprefix('h')) - 1}"


def kill(pids: Sequence[int]) -> None:
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
