"""The engine that tests use, and the commands that they give it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from minicluster.servers.maven import Broken, Missing
from tests.servers.engine.cache import PREFIX

ROOT = Path(__file__).resolve().parents[3]
SECONDS = 900.0
"""Longest command."""
PROGRAMS = ("docker", "dockerd", "docker-registry", "debootstrap")


@dataclass(frozen=True, slots=True)
class Engine:
    """An engine that answers."""

    environment: Mapping[str, str]
    """What `docker` needs to find it; empty where it is the machine's own."""
    registry: str = ""
    """host:port of the registry of images of others; empty where the public ones are asked."""

    @property
    def own(self) -> bool:
        """Return whether the tests have started it."""
        return bool(self.registry)

    def docker(
        self, *arguments: str, seconds: float = SECONDS, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run docker's command line, and return what it wrote to either output. Raise TimeoutExpired."""
        return subprocess.run(
            ["docker", *arguments],
            cwd=ROOT,
            env={**os.environ, **self.environment, **(environment or {})},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=seconds,
            check=False,
        )

    def must(
        self, *arguments: str, seconds: float = SECONDS, environment: Mapping[str, str] | None = None
    ) -> str:
        """Run docker's command line; return its output. Raise Broken where it fails."""
        done = self.docker(*arguments, seconds=seconds, environment=environment)
        if done.returncode:
            raise Broken(f"docker {' '.join(arguments)}: {done.returncode}\n{done.stdout[-8000:]}")
        return done.stdout

    def until_health(self, container: str, told: str, seconds: float = SECONDS) -> None:
        """Wait until the health check of a container tells this. Raise Broken with its last answers."""
        deadline = time.monotonic() + seconds
        while (found := self.must("inspect", "--format", "{{json .State.Health}}", container)) and (
            json.loads(found)["Status"] != told
        ):
            if time.monotonic() > deadline:
                raise Broken(f"{container} is not {told} after {seconds:.0f} s: {found}")
            time.sleep(0.2)

    def pulled(self, image: str) -> str:
        """Pull an image of others; return its digest."""
        self.must("pull", "--quiet", image)
        found = self.must("image", "inspect", "--format", "{{index .RepoDigests 0}}", image)
        return found.strip().rpartition("@")[2]


@contextmanager
def container_engine() -> Iterator[Engine]:
    """Give the engine that runs here, else a new one of the tests' own, which ends with all its containers.

    Raise Missing where there is none and none can be started, Broken where it does not start.
    """
    found = Engine({})
    if shutil.which("docker") and found.docker("version", "--format", "{{.Server.Version}}").returncode == 0:
        yield found
        return
    _require()
    with own_engine() as engine:
        yield engine


def _require() -> None:
    if os.geteuid() != 0:
        raise Missing("no container engine answers, and only root may start one: nothing of containers runs")
    for program in PROGRAMS:
        if shutil.which(program) is None:
            raise Missing(
                f"no container engine answers, and {program} is not installed: tools/container-engine does"
            )


@contextmanager
def own_engine(*flags: str) -> Iterator[Engine]:
    """Start an engine of the tests' own, with nothing in it, and end it with all that it has.

    `flags` are the keeper's.
    """
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    (folder / "config" / "cli-plugins").mkdir(parents=True)
    keeper = subprocess.Popen(
        [sys.executable, "-m", "tests.servers.engine.keeper", str(folder), *flags],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,  # a terminal's ^C is for the tests
    )
    assert keeper.stdin is not None and keeper.stdout is not None
    try:
        line = keeper.stdout.readline().strip()
        if not line.startswith("ready "):
            raise Broken(line or "the keeper of the container engine ended")
        environment = {
            "DOCKER_HOST": f"unix://{folder / 'docker.sock'}",
            "DOCKER_CONFIG": str(folder / "config"),
        }
        yield Engine(environment, line.removeprefix("ready "))
    finally:
        keeper.stdin.close()
        keeper.wait()
        keeper.stdout.close()
