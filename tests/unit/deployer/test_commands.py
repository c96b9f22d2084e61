"""The commands of tasks, run by a real shell."""

from __future__ import annotations

import hashlib
import subprocess
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from deployer.installation import Version
from deployer.rendering import SETTINGS, daemon_command, environment_of


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command], cwd=folder, env={SETTINGS: "name: 'a b'\n$x `y`", "PATH": "/usr/bin:/bin"},
        capture_output=True, text=True, timeout=400,
    )  # fmt: skip


def test_a_daemon_gets_its_settings_as_they_are_and_keeps_them_to_itself(tmp_path: Path) -> None:
    programs = tmp_path / "it's an environment" / "bin"
    programs.mkdir(parents=True)
    program = programs / "peloton-jobmgr"
    program.write_text(f'#!/bin/sh\necho "$0 $*"; cat "$2"; stat -c %a "$2"; echo "left: ${SETTINGS}"\n')
    program.chmod(0o755)
    done = run(daemon_command(Version(environment=str(programs.parent)), "jobmgr"), tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        f"{program} -c settings.yaml", "name: 'a b'", "$x `y`600", "left: ",
    ]  # fmt: skip


def wheel(folder: Path) -> Path:
    """A wheel with a program `peloton-jobmgr`, as small as can be."""
    path = folder / "peloton-9-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("nine.py", "def main():\n    print('nine')\n")
        info = "peloton-9.dist-info"
        made.writestr(f"{info}/METADATA", "Metadata-Version: 2.1\nName: peloton\nVersion: 9\n")
        made.writestr(f"{info}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        made.writestr(f"{info}/entry_points.txt", "[console_scripts]\npeloton-jobmgr = nine:main\n")
        made.writestr(f"{info}/RECORD", "")
    return path


def version(folder: Path, digest: str = "") -> Version:
    return Version(
        wheel=str(wheel(folder)), sha256=digest, environments=str(folder / "environments"),
        python=sys.executable, pip=("--no-index", "--no-deps"),
    )  # fmt: skip


def test_hosts_make_one_environment_of_a_wheel_though_several_daemons_start_at_once(tmp_path: Path) -> None:
    digest = hashlib.sha256(wheel(tmp_path).read_bytes()).hexdigest()
    of, command = version(tmp_path, digest), daemon_command(version(tmp_path, digest), "jobmgr")
    sandboxes = [tmp_path / str(i) for i in range(3)]
    for each in sandboxes:
        each.mkdir()
    with ThreadPoolExecutor(3) as pool:
        done = list(pool.map(lambda each: run(command, each), sandboxes))
    assert [each.stdout for each in done] == ["nine\n"] * 3, [each.stderr for each in done]
    assert (Path(environment_of(of)) / "ready").exists()


def test_a_wheel_that_is_another_one_is_not_installed(tmp_path: Path) -> None:
    of = version(tmp_path, "0" * 64)
    done = run(daemon_command(of, "jobmgr"), tmp_path)
    assert done.returncode != 0 and not Path(environment_of(of)).exists()
    assert "FAILED" in done.stderr + done.stdout


@pytest.mark.parametrize("of", [Version(image="peloton:1")])
def test_a_container_has_its_settings_where_it_may_write(of: Version) -> None:
    assert daemon_command(of, "web").endswith("exec peloton-web -c /tmp/peloton-settings.yaml")
