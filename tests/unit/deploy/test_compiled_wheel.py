"""A wheel with compiled modules, built as docs/compiled.md says, with the build's tools that are here."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

from tests.unit.deploy.compose import ROOT
from tools.compiled import compiler_name
from tools.extensions import sources

LOOK = """
import importlib, sys
for name in sys.argv[1:]:
    print(name, importlib.import_module(name).__file__)
"""


def _build(kind: str, context: Path) -> subprocess.CompletedProcess[str]:
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, context / name)
    command = [sys.executable, "-m", "pip", "wheel", "-q", "--no-deps", "--no-build-isolation"]
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PELOTON_WHEEL": kind}
    return subprocess.run(
        [*command, "--wheel-dir", "wheels", "."], cwd=context, env=environment, capture_output=True, text=True
    )


def test_a_kind_that_is_not_known_is_refused(tmp_path: Path) -> None:
    done = _build("fast", tmp_path)
    assert done.returncode != 0
    assert "PELOTON_WHEEL: 'fast' is neither plain nor compiled" in done.stderr


@pytest.mark.long  # minutes of processor time
@pytest.mark.timeout(1800)
@pytest.mark.skipif(shutil.which(compiler_name()) is None, reason="there is no C compiler")
def test_a_compiled_wheel_runs_its_modules_compiled_or_plain(tmp_path: Path) -> None:
    packages = ("peloton", "jobmgr", "resmgr", "placement", "hostmgr", "archiver", "storage", "minicluster")
    for folder in (*packages, "deployer", "simulator", "proto", "tools"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    done = _build("compiled", tmp_path)
    assert done.returncode == 0, done.stderr
    (wheel,) = (tmp_path / "wheels").iterdir()
    assert not wheel.name.endswith("none-any.whl")
    installed = tmp_path / "installed"
    ZipFile(wheel).extractall(installed)
    names = [path.removesuffix(".py").replace("/", ".") for group in sources().values() for path in group]

    def run(*command: str, **variables: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(installed), **variables}
        return subprocess.run(
            [sys.executable, *command],
            cwd=tmp_path / "wheels",
            env=environment,
            capture_output=True,
            text=True,
        ).stdout

    loaded = dict(line.split(" ") for line in run("-c", LOOK, *names).splitlines())
    assert loaded.keys() == set(names)
    assert all(file.endswith(".so") and file.startswith(str(installed)) for file in loaded.values())
    loaded = dict(line.split(" ") for line in run("-c", LOOK, *names, PELOTON_COMPILED="0").splitlines())
    assert loaded.keys() == set(names)
    assert all(file.endswith(".py") and file.startswith(str(installed)) for file in loaded.values())
    assert "compiled" in run("-m", "peloton.cli", "--version")
    assert "plain" in run("-m", "peloton.cli", "--version", PELOTON_COMPILED="0")
