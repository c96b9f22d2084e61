"""`peloton deploy` with a wheel of which each host makes an environment."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from minicluster.cluster import Cluster
from peloton import __version__
from tests.cluster.deploying import Deployer, run_a_job

pytestmark = pytest.mark.long
ROOT = Path(__file__).resolve().parents[2]
SECONDS = 600


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this checkout."""
    folder = tmp_path_factory.mktemp("wheel")
    pip = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check", "wheel"]
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"  # the generators of stubs
    source = folder / "source"
    source.mkdir()
    names = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    files = subprocess.run(names, cwd=ROOT, capture_output=True, check=True).stdout
    tar = ["tar", "-c", "--null", "--ignore-failed-read", "-T", "-"]
    archive = subprocess.run(tar, cwd=ROOT, input=files, capture_output=True, check=False).stdout
    subprocess.run(["tar", "-x", "-C", str(source)], input=archive, check=True)
    build = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    subprocess.run([*pip, *build], check=True, timeout=SECONDS, env={**os.environ, "PATH": path})
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.timeout(1200)
def test_hosts_make_an_environment_of_a_wheel(bare: Cluster, wheel: Path, tmp_path: Path) -> None:
    """One at a time on a host, with what it needs from the registry; a wheel of another digest is refused."""
    deployer = Deployer(tmp_path, bare)
    environments = tmp_path / "environments"
    version: dict[str, Any] = {
        "wheel": str(wheel),
        "sha256": hashlib.sha256(wheel.read_bytes()).hexdigest(),
        "environments": str(environments),
        "python": sys.executable,
        "pip": ["--constraint", str(ROOT / "constraints.txt")],
    }
    deployer.tree |= {"version": version, "upgrade": {"canary": 2, "healthy_within": SECONDS}}
    file = deployer.file()
    with deployer.deployed(file, seconds=SECONDS) as harness:
        run_a_job(harness)
        (made,) = (path for path in environments.iterdir() if path.is_dir())
        python = made / "bin" / "python"
        where = "import deployer; print(deployer.__file__)"
        found = subprocess.run(
            [python, "-c", where], cwd=tmp_path, capture_output=True, text=True, check=True
        )
        assert found.stdout.startswith(str(made))
        daemons = deployer.status(file)["daemons"]
        assert {each["version"] for each in daemons} == {__version__}
        said = deployer("apply", deployer.file(**{**version, "sha256": "0" * 64}), code=1)
        assert "went back to revision 1: the schema of the store was not brought up to date" in said
        assert {each["name"] for each in deployer.status(file)["daemons"]} == {e["name"] for e in daemons}
