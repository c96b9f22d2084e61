"""The clients of all languages: calls per second beside plain stubs; a large job, watched to its end.

    python -m benchmarks.clients [go] [java] [python]

Needs Go, Java 17 and Maven, and what `make clients` generates. Short rounds with the client and with plain
stubs, which send the same metadata, take turns: first against a server that does nothing, which shows more of
the client's own share, then against the job manager of a cluster with simulated agents. The figures are
medians; those of pairs are of a round by the client beside the one by plain stubs before or after it.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks import python_client
from benchmarks.python_client import HOSTS, figure, idle_server
from benchmarks.throughput import client_of, make_pool, tell
from minicluster.settings import Simulated, read_cluster
from minicluster.temporary import run_program, temporary_cluster
from tools.clients import CLIENTS

LANGUAGES = ("go", "java", "python")
SECONDS = 1800


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("languages", nargs="*", metavar="LANGUAGE", help=" | ".join(LANGUAGES))
    parser.add_argument("--calls", type=int, default=64, help="in each round")
    parser.add_argument("--rounds", type=int, default=100)
    parser.add_argument("--tasks", type=int, default=10_000, help="of the job that is watched; 0: none")
    options = parser.parse_args()
    unknown = set(options.languages) - set(LANGUAGES)
    if unknown:
        parser.error(f"{' '.join(sorted(unknown))} is not one of {', '.join(LANGUAGES)}")
    return run_program("benchmark", lambda: measure(options))


def measure(options: argparse.Namespace) -> int:
    settings = read_cluster(None, {"ports": "free"})
    settings = settings.model_copy(update={"simulated": Simulated(agents=HOSTS)})
    with (
        tempfile.TemporaryDirectory() as folder,
        idle_server() as idle,
        temporary_cluster(settings, tell) as cluster,
    ):
        with client_of(cluster) as client:
            make_pool(client)
            urls = {f"{role.upper()}_URL": client.address(role) for role in ("jobmgr", "resmgr", "hostmgr")}
        environment = {
            **urls,
            "PELOTON_TEST_POOL": "/bench",
            "PELOTON_FIGURES_IDLE": idle,
            "PELOTON_FIGURES_CALLS": str(options.calls),
            "PELOTON_FIGURES_ROUNDS": str(options.rounds),
            "PELOTON_FIGURES_TASKS": str(options.tasks),
        }
        for language in options.languages or LANGUAGES:
            {"go": by_go, "java": by_java, "python": by_python}[language](environment, Path(folder), options)
    return 0


def load(language: str) -> None:
    figure(f"{language}: load: {' '.join(f'{each:.1f}' for each in os.getloadavg())}")


def by_go(environment: Mapping[str, str], folder: Path, options: argparse.Namespace) -> None:
    program = str(folder / "figures")
    run(("go", "test", "-c", "-tags=cluster", "-o", program, "."), CLIENTS / "go", {})
    load("go")
    run((program, "-test.v", "-test.run=^TestFigures$"), CLIENTS / "go", environment, "go: ")


def by_java(environment: Mapping[str, str], folder: Path, options: argparse.Namespace) -> None:
    maven = ("mvn", "-q", "-B")
    run((*maven, "test-compile"), CLIENTS / "java", {})
    load("java")
    run((*maven, "surefire:test", "-Dtest=FiguresTest"), CLIENTS / "java", environment, "java: ")


def by_python(environment: Mapping[str, str], folder: Path, options: argparse.Namespace) -> None:
    load("python")
    python_client.compare("a server that does nothing", environment["PELOTON_FIGURES_IDLE"], options)
    python_client.compare("the job manager", environment["JOBMGR_URL"], options)
    if options.tasks:
        urls = {"jm_url": environment["JOBMGR_URL"], "rm_url": environment["RESMGR_URL"], "timeout": 120.0}
        python_client.watch_job(urls, options.tasks)
        asyncio.run(python_client.watch_job_asyncio(urls, options.tasks))


def run(command: Sequence[str], folder: Path, environment: Mapping[str, str], told: str = "") -> None:
    """Run a program that must succeed; print its figures, or all it wrote where it failed."""
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SECONDS,
    )
    if done.returncode != 0:
        raise SystemExit(f"{command}: {done.returncode}\n{done.stdout}")
    for line in done.stdout.splitlines():
        _, found, rest = line.partition(told) if told else ("", "", "")  # Maven writes colours before it
        if found:
            figure(told + rest)


if __name__ == "__main__":
    sys.exit(main())
