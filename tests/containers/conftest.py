"""A container engine, a copy of this checkout and the image that is built from it, once for all tests."""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from minicluster.servers.maven import Missing
from tests.conftest import lacking
from tests.servers.engine import Engine, container_engine
from tests.servers.engine.base_images import base_images
from tests.servers.engine.compose import give_compose
from tests.servers.engine.running import ROOT

IMAGE = "peloton-tests:latest"


@pytest.fixture(scope="session", autouse=True)
def _ended_in_order() -> None:
    """Take everything down when the tests are terminated, as when they are interrupted."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    try:
        with container_engine() as found:
            yield found
    except Missing as missing:
        lacking(missing)


@pytest.fixture(scope="session")
def bases(engine: Engine) -> Mapping[str, str]:
    """The digests of the images of others, by their variables."""
    begun = time.monotonic()
    found = base_images(engine)
    print(f"base images: {time.monotonic() - begun:.0f} s")
    return found


@dataclass(frozen=True, slots=True)
class Clone:
    """A copy of the checkout, with the environment that `docker compose` is called with in it."""

    engine: Engine
    folder: Path
    environment: Mapping[str, str]

    def compose(
        self, *arguments: str, environment: Mapping[str, str] | None = None
    ) -> subprocess.CompletedProcess[str]:
        """Run `docker compose`."""
        where = ("compose", "--ansi", "never", "--project-directory", str(self.folder))
        return self.engine.docker(*where, *arguments, environment={**self.environment, **(environment or {})})


@pytest.fixture(scope="session")
def clone(
    engine: Engine, bases: Mapping[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Clone]:
    """What git has, or would have."""
    folder = tmp_path_factory.mktemp("clone")
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(listed, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in filter(None, files.split("\0")):
        if (ROOT / name).exists():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, folder / name)
    environment = {
        "PYTHON_DIGEST": bases["PYTHON_IMAGE"],
        "PELOTON_IMAGE": IMAGE,
        "COMPOSE_PROFILES": "own-mesos",
    }
    try:
        give_compose(engine)
        yield Clone(engine, folder, environment)
    except Missing as missing:
        lacking(missing)
    finally:
        shutil.rmtree(folder)


@pytest.fixture(scope="session")
def image(clone: Clone) -> Iterator[str]:
    """Peloton's image, built as `docker compose` builds it."""
    begun = time.monotonic()
    built = clone.compose("build", "migrate")
    assert built.returncode == 0, built.stdout[-8000:]
    print(f"image: {time.monotonic() - begun:.0f} s")
    yield IMAGE
    clone.engine.docker("rmi", "--force", IMAGE)
