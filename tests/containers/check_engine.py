"""The tests' own engine leaves nothing behind, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.servers.engine import Engine
from tests.servers.engine.cache import PREFIX
from tests.servers.engine.keeper import CGROUPS, HIDDEN, sweep
from tests.servers.engine.running import ROOT
from tools.images import images

SECONDS = 120.0
NOBODY = 65534
PYTHON = images(ROOT)["PYTHON_IMAGE"]
PROGRAM = """
import sys
from pathlib import Path
from tests.servers.engine.running import own_engine
with own_engine() as engine:
    engine.pulled(sys.argv[1])
    engine.must("network", "create", "check")
    more = ("--network", "check", "--publish", "127.0.0.1::80", "--volume", "kept:/kept")
    engine.must("run", "--detach", *more, sys.argv[1], "sleep", "3607")
    print(Path(engine.environment["DOCKER_CONFIG"]).parent, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def begun(engine: Engine, bases: object) -> Iterator[tuple[subprocess.Popen[str], Path, list[str]]]:
    """A program with an engine of its own that runs a container; its folder; this machine before."""
    if not engine.own:
        pytest.skip("the engine of this machine is used, not one of the tests' own")
    before = traces()
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, PYTHON],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None and program.stdin is not None
    try:
        folder = Path(program.stdout.readline().strip())
        assert folder.name and set(kinds(left(before))) == {"process", "bridge", "cgroup"}
        yield program, folder, before
    finally:
        program.kill()
        program.wait()
        program.stdin.close()
        program.stdout.close()


def traces() -> list[str]:
    """What an engine could leave on this machine, by kind."""
    names = ("dockerd", "docker-registry", "docker-proxy", "containerd", "containerd-shim", "runc", "tini")
    found = [f"process {each.pid}" for each in psutil.process_iter(["name"]) if _is(each, names)]
    found += [f"bridge {path.name}" for path in Path("/sys/class/net").glob("br-*")]
    found += [f"mount {line.split()[4]}" for line in Path("/proc/self/mountinfo").read_text().splitlines()]
    # Agents of other tests have cgroups, too.
    found += [f"cgroup {path}" for at in ("", "*/") for path in CGROUPS.glob(f"{at}{PREFIX}*")]
    return found + [f"folder {path}" for path in HIDDEN if Path(path).exists()]


def _is(process: psutil.Process, names: tuple[str, ...]) -> bool:
    return any(process.info["name"].startswith(name) for name in names)


def left(before: list[str]) -> list[str]:
    return sorted(set(traces()) - set(before))


def kinds(found: list[str]) -> Iterator[str]:
    # The folders are the engine's of this session, too.
    return (each.split()[0] for each in found if not each.startswith("folder"))


def until_nothing_is_left(before: list[str], folder: Path) -> None:
    deadline = time.monotonic() + SECONDS
    while found := [*left(before), *([str(folder)] if folder.exists() else [])]:
        assert time.monotonic() < deadline, found
        time.sleep(0.1)


@pytest.mark.parametrize("how", [None, signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left(
    begun: tuple[subprocess.Popen[str], Path, list[str]], how: signal.Signals | None
) -> None:
    program, folder, before = begun
    assert program.stdin is not None
    program.stdin.close() if how is None else program.send_signal(how)
    program.wait(SECONDS)
    until_nothing_is_left(before, folder)


def test_what_a_killed_keeper_leaves_is_removed_by_the_next(
    begun: tuple[subprocess.Popen[str], Path, list[str]],
) -> None:
    program, folder, before = begun
    (keeper,) = psutil.Process(program.pid).children()
    keeper.kill()
    deadline = time.monotonic() + SECONDS
    while "process" in kinds(left(before)):
        assert time.monotonic() < deadline, left(before)
        time.sleep(0.1)
    assert folder.exists()
    sweep()
    until_nothing_is_left(before, folder)


def test_without_root_it_says_in_one_line_what_does_not_run() -> None:
    environment = {"PATH": os.environ["PATH"], "DOCKER_HOST": "unix:///nonexistent"}
    done = subprocess.run(
        ["sh", ROOT / "tools" / "container-engine"],
        env=environment,
        user=NOBODY,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 1
    (line,) = done.stderr.splitlines()
    assert "only root may start one" in line and "no container runs" in line
