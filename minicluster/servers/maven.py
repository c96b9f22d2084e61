"""Java servers' jars, by Maven, kept in a folder between runs.

The folder is $PELOTON_TEST_CACHE, else ~/.cache/peloton-tests. A set of jars is complete where its marker
is in its folder. The first process downloads it; others wait for the lock.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from peloton.errors import PelotonError

COPY = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
MARKER = ".complete"
LONGEST = 900
"""Seconds for all downloads of one server."""

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>peloton.tests</groupId>
  <artifactId>{name}</artifactId>
  <version>1</version>
  <dependencies>{dependencies}</dependencies>
</project>
"""
DEPENDENCY = "<dependency><groupId>{}</groupId><artifactId>{}</artifactId><version>{}</version></dependency>"


class Missing(PelotonError):
    """This machine lacks a prerequisite of a real server; the message names it."""


class Broken(PelotonError):
    """A prerequisite of a real server failed."""


def jars(coordinates: Sequence[str]) -> Path:
    """Return a folder with the artifacts `group:artifact:version` and their run-time dependencies.

    Its name is that of the first artifact and its version. Raise Missing without Maven or Java, Broken where
    a download fails.
    """
    _, artifact, version = coordinates[0].split(":")
    folder = cache() / f"{artifact}-{version}"
    with _locked(folder.with_suffix(".lock")):
        if not _complete(folder, coordinates):
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir(parents=True)
            _copy(folder, artifact, coordinates)
            (folder / MARKER).write_text("\n".join(coordinates))
    return folder


def present(coordinates: Sequence[str]) -> bool:
    """Return whether `jars` would download nothing."""
    _, artifact, version = coordinates[0].split(":")
    return _complete(cache() / f"{artifact}-{version}", coordinates)


def _complete(folder: Path, coordinates: Sequence[str]) -> bool:
    marker = folder / MARKER
    return marker.exists() and marker.read_text() == "\n".join(coordinates)


def class_path(folder: Path) -> str:
    """Return the class path of all jars in a folder."""
    return os.pathsep.join(str(jar) for jar in sorted(folder.glob("*.jar")))


def java() -> Path:
    """Return a Java 17: in $JAVA_HOME, else the first on the path. Raise Missing without one."""
    home = os.environ.get("JAVA_HOME")
    found = f"{home}/bin/java" if home else shutil.which("java")
    if found is None or not os.access(found, os.X_OK):
        raise Missing("Java 17 is missing: neither JAVA_HOME nor `java` on the path")
    output = subprocess.run(
        [found, "-version"], capture_output=True, text=True, timeout=60, check=False
    ).stderr
    version = re.search(r'version "(\d+)', output)
    if version is None or version[1] != "17":
        raise Missing(f"Java 17 is missing: {found} is {version[1] if version else 'of unknown version'}")
    return Path(found)


def cache() -> Path:
    """Return the folder of all downloads."""
    named = os.environ.get("PELOTON_TEST_CACHE")
    return Path(named) if named else Path.home() / ".cache" / "peloton-tests"


def _copy(folder: Path, name: str, coordinates: Sequence[str]) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise Missing("Maven is missing: no `mvn` on the path")
    java()
    pom = folder / "pom.xml"
    dependencies = "".join(DEPENDENCY.format(*one.split(":")) for one in coordinates)
    pom.write_text(POM.format(name=name, dependencies=dependencies))
    command = [maven, "-B", "-q", "-f", str(pom), COPY, "-DincludeScope=runtime"]
    command += [f"-DoutputDirectory={folder}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST, check=False)
    if done.returncode:
        lines = [line for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        raise Broken(
            f"Maven cannot fetch {name}: {lines[0] if lines else 'it says nothing'} ({' '.join(command)})"
        )


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
