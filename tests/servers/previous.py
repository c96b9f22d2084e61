"""The version before this one: its wheel, made of its commit, in an environment of its own."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import venv
from pathlib import Path

from minicluster.servers.maven import Missing

COMMIT = "1d173262"
"""The last commit of version 0.1.0."""
VERSION = "0.1.0"
ROOT = Path(__file__).resolve().parents[2]
SECONDS = 600


def previous_environment(folder: Path) -> Path:
    """Return the path of the environment. Raises Missing where the checkout has no such commit."""
    if subprocess.run(["git", "cat-file", "-e", COMMIT], cwd=ROOT, capture_output=True).returncode:
        raise Missing(f"the checkout has no commit {COMMIT}: git fetch --unshallow")
    source, wheels, made = folder / "source", folder / "wheels", folder / "environment"
    source.mkdir(parents=True)
    archive = subprocess.run(["git", "archive", COMMIT], cwd=ROOT, capture_output=True, check=True)
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive.stdout, check=True)
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the generators of stubs
    build = ["wheel", "--no-deps", "--no-build-isolation", "--wheel-dir", str(wheels), str(source)]
    subprocess.run([*pip, *build], check=True, timeout=SECONDS, env={**os.environ, "PATH": path})
    venv.create(made, with_pip=False, symlinks=True)
    install = ["--python", str(made / "bin" / "python"), "install", "--no-deps", "--no-index"]
    subprocess.run([*pip, *install, *map(str, wheels.glob("*.whl"))], check=True, timeout=SECONDS)
    # What both need is this environment's. Its own .pth files, which name this checkout, are not read there.
    site = next(made.glob("lib/python*/site-packages"))
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    said = subprocess.run(
        [made / "bin" / "peloton-jobmgr", "--version"], capture_output=True, text=True, check=True, cwd=folder
    )
    assert VERSION in said.stdout, said.stdout
    return made
