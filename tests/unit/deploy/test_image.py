"""The Dockerfile: what it copies is there, what it runs works, and nothing runs as root."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from dataclasses import dataclass, field
from fnmatch import fnmatch
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.unit.deploy.compose import ROOT, services
from tests.unit.deploy.servers import answering, http

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())


@dataclass
class Stage:
    base: str
    steps: list[tuple[str, str]] = field(default_factory=list)

    def of(self, instruction: str) -> list[str]:
        return [rest for name, rest in self.steps if name == instruction]


def stages() -> list[Stage]:
    found: list[Stage] = []
    text = (ROOT / "Dockerfile").read_text()
    lines = "\n".join(line for line in text.splitlines() if not line.startswith("#")).replace("\\\n", " ")
    for line in filter(str.strip, lines.splitlines()):
        instruction, _, rest = line.partition(" ")
        if instruction == "FROM":
            found.append(Stage(rest))
        elif found:
            found[-1].steps.append((instruction, rest.strip()))
    return found


BUILD, RUNTIME = stages()


def ignored(path: str) -> bool:
    """The last line of .dockerignore that fits decides."""
    result = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        if line and not line.startswith("#"):
            pattern = line.removeprefix("!").replace("**/", "*")
            parents = [path, *("/".join(path.split("/")[:n]) for n in range(1, path.count("/") + 1))]
            if any(fnmatch(each, pattern) for each in parents):
                result = not line.startswith("!")
    return result


def sources() -> list[str]:
    return [each for copy in BUILD.of("COPY") for each in copy.split()[:-1]]


def test_copied_files_exist_and_are_not_ignored() -> None:
    assert sources()
    for source in sources():
        assert (ROOT / source).exists(), source
        assert not ignored(source), source


def test_nothing_else_reaches_the_build() -> None:
    for path in (".git", ".venv", "tests", "docs", "peloton/api", "peloton/private", "mesos", ".env"):
        assert ignored(path), path


def test_all_packages_of_the_project_are_copied() -> None:
    packages = {name.rstrip("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert packages | {"proto", "pyproject.toml", "setup.py", "locks"} <= set(sources())
    assert {PROJECT["project"]["readme"], *PROJECT["project"]["license-files"]} <= set(sources())


def test_the_wheels_are_pinned_and_not_compiled() -> None:
    steps = [shlex.split(step) for run in BUILD.of("RUN") for step in run.split("&&") if step.strip()]
    given = [step for step in steps if "--requirement" in step]
    for step in given:
        assert {"--only-binary=:all:", "--require-hashes"} <= set(step)
        assert (ROOT / step[step.index("--requirement") + 1]).exists()
    assert len(given) == 2
    (own,) = (step for step in steps if step[:2] == ["pip", "wheel"] and step not in given)
    assert {"--no-deps", "--no-build-isolation"} <= set(own)
    assert all("==" in each.partition(";")[0] for each in PROJECT["project"]["dependencies"])
    assert all("==" in each for each in PROJECT["build-system"]["requires"])


def test_nothing_runs_as_root_and_no_entrypoint_is_in_the_way() -> None:
    (user,) = RUNTIME.of("USER")
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", user)
    assert not RUNTIME.of("ENTRYPOINT")
    names = [name for name, _ in RUNTIME.steps]
    assert "RUN" not in names[names.index("USER") :]


def test_the_bases_are_one_and_pinned() -> None:
    (argument,) = re.findall(r"^ARG PYTHON_IMAGE=(.+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE)
    assert re.fullmatch(r"python:3\.\d+\.\d+-slim-\w+", argument)
    assert {stage.base.split()[0] for stage in (BUILD, RUNTIME)} == {"${PYTHON_IMAGE}@${PYTHON_DIGEST}"}


def test_executed_commands_are_installed() -> None:
    (default,) = (json.loads(each) for each in RUNTIME.of("CMD"))
    commands = [default] + [
        each["command"] for each in services().values() if each["image"] == "peloton:latest"
    ]
    for command in commands:
        assert command[0] == "sh" or command[0] in PROJECT["project"]["scripts"]


@pytest.mark.parametrize(("status", "code"), [("200 OK", 0), ("503 Service Unavailable", 1)])
def test_health_check_uses_the_daemons_port(status: str, code: int) -> None:
    (check,) = RUNTIME.of("HEALTHCHECK")
    python, *rest = json.loads(check.partition("CMD ")[2])
    assert python == "python"
    with answering(http(status)) as port:
        done = subprocess.run([sys.executable, *rest], env={"HTTP_PORT": str(port)}, cwd=ROOT, timeout=60)
    assert done.returncode == code


def test_health_check_without_an_address() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "peloton.daemon.healthcheck"],
        env={},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    assert "HTTP_PORT" in done.stderr


def test_copied_files_build_a_wheel(tmp_path: Path) -> None:
    """As the build stage makes it, but with the build's tools that are here."""
    context, wheels = tmp_path / "src", tmp_path / "wheels"
    for source in sources():
        for file in _files(source):
            target = context / file
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / file).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(
        [*command, "--wheel-dir", str(wheels), "."],
        cwd=context,
        env=environment,
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr
    (wheel,) = wheels.iterdir()
    held = set(ZipFile(wheel).namelist())
    packages = {name.rstrip("*") for name in PROJECT["tool"]["setuptools"]["packages"]["find"]["include"]}
    assert {file for each in packages for file in _files(each)} <= held
    assert {"peloton/api/v0/job/job_pb2.py", "mesos/v1/mesos_pb2_grpc.py"} <= held
    (entries,) = (name for name in held if name.endswith(".dist-info/entry_points.txt"))
    commands = ZipFile(wheel).read(entries).decode()
    assert all(f"{name} = {main}" in commands for name, main in PROJECT["project"]["scripts"].items())


def _files(source: str) -> list[str]:
    """Of a source that is copied, without what .dockerignore holds back and what running leaves behind."""
    path = ROOT / source
    found = path.rglob("*") if path.is_dir() else [path]
    names = [str(each.relative_to(ROOT)) for each in found if each.is_file()]
    return [name for name in names if not ignored(name) and not name.endswith(".pyc")]
