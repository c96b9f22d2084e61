"""A program that was forked is like one that was started by its command."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

from minicluster.forked import ALL, PROGRAMS, Group, Program
from minicluster.launching import launch_all
from minicluster.processes import Process, launch, wait_until

SECONDS = 60
STATUS = ("Umask", "SigBlk", "SigIgn", "ShdPnd", "NoNewPrivs", "Seccomp")
"""Lines of /proc/PID/status that do not depend on how much a process has done."""
OURS = ("peloton", "storage", "minicluster", "mesos", "hostmgr", "jobmgr", "resmgr", "placement", "archiver")
TELL = f"""
import json, sys
from prometheus_client import REGISTRY
own = [name for name in sys.modules if name.partition(".")[0] in {OURS!r}]
metrics = sorted(name for family in REGISTRY.collect() for name in [family.name])
print(json.dumps([before, own, metrics]))
"""


@pytest.fixture
def processes() -> Iterator[dict[str, Process]]:
    found: dict[str, Process] = {}
    yield found
    for process in found.values():
        process.signal(signal.SIGKILL)


def master(folder: Path, name: str) -> Program:
    work = folder / name
    options = [f"--work-dir={work}", "--port=0", f"--ready-file={folder / f'{name}.ready'}"]
    argv = [sys.executable, "-m", "minicluster.mesos.master", *options]
    return Program(name, argv, str(folder / f"{name}.log"))


def wait_until_ready(folder: Path, *names: str) -> None:
    assert wait_until(lambda: all((folder / f"{name}.ready").exists() for name in names), SECONDS)


def seen(pid: int) -> dict[str, object]:
    """What others see of a process; its own name in it is `NAME`."""
    folder = Path(f"/proc/{pid}")
    status = dict(line.partition(":")[::2] for line in (folder / "status").read_text().splitlines())
    files = sorted(str(each.readlink()) for each in (folder / "fd").iterdir())
    return {
        "environment": sorted((folder / "environ").read_bytes().split(b"\0")),
        "leads its session and its group": (os.getsid(pid), os.getpgid(pid)) == (pid, pid),
        "folder": str((folder / "cwd").readlink()),
        "parent": status["PPid"].strip(),
        "program": str((folder / "exe").readlink()),
        "name": (folder / "comm").read_text(),
        "priority": os.getpriority(os.PRIO_PROCESS, pid),
        "files": [each for each in files if each.startswith("/")],
        "standard files": [str((folder / "fd" / number).readlink()) for number in "012"],
        "threads": len(list((folder / "task").iterdir())),
        "handled signals": int(status["SigCgt"], 16) & ((1 << 31) - 1),  # beyond are those of threads
        **{name: status.get(name) for name in STATUS},
    }


def test_a_forked_program_is_as_its_command_would_have_made_it(
    tmp_path: Path, processes: dict[str, Process]
) -> None:
    programs = [master(tmp_path, name) for name in ("one", "two")]
    launch_all(programs, processes.__setitem__)
    other = master(tmp_path, "other")
    processes["other"] = launch(other.argv, Path(other.log), {})
    wait_until_ready(tmp_path, *processes)
    found = {name: seen(process.pid) for name, process in processes.items()}
    for name in ("one", "two"):
        text = json.dumps(found[name], default=str).replace(f"/{name}.log", "/other.log")
        assert json.loads(text) == json.loads(json.dumps(found["other"], default=str))
        shown = Path(f"/proc/{processes[name].pid}/cmdline").read_bytes()
        assert shown.replace(b"\0", b" ").decode().strip() == " ".join(programs[0].argv).replace("one", name)
        assert "master: listening on 127.0.0.1:" in (tmp_path / f"{name}.log").read_text()
        processes[name].signal(signal.SIGTERM)
        assert processes[name].wait(SECONDS)


def test_programs_whose_parent_fails_are_started_by_their_commands(
    tmp_path: Path, processes: dict[str, Process], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("minicluster.launching.PARENT", "minicluster.nosuch")
    launch_all([master(tmp_path, name) for name in ("one", "two")], processes.__setitem__)
    wait_until_ready(tmp_path, "one", "two")


def test_processes_of_which_nobody_learns_are_killed(tmp_path: Path) -> None:
    told: list[Process] = []

    def no_space(name: str, process: Process) -> None:
        told.append(process)
        if len(told) == 2:
            raise OSError("no space")

    try:
        with pytest.raises(OSError, match="no space"):
            launch_all([master(tmp_path, name) for name in ("one", "two", "three")], no_space)
        logs = {str(tmp_path / name) for name in ("two.log", "three.log")}
        assert wait_until(lambda: not any(writes(pid, logs) for pid in pids()), SECONDS)
        assert told[0].alive()
    finally:
        for process in told:
            process.signal(signal.SIGKILL)


def pids() -> list[int]:
    return [int(each.name) for each in Path("/proc").iterdir() if each.name.isdecimal()]


def writes(pid: int, files: set[str]) -> bool:
    with suppress(OSError):
        return str(Path(f"/proc/{pid}/fd/1").readlink()) in files
    return False


def paths(group: Group = ALL, above: tuple[str, ...] = ()) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Each program, with the modules that are imported for it."""
    modules = (*above, *group.modules)
    yield from ((program, modules) for program in group.programs)
    for within in group.groups:
        yield from paths(within, modules)


def told(program: str, modules: tuple[str, ...]) -> tuple[set[str], set[str], list[str]]:
    """Import modules, then a program; return our modules before and after the program, and its metrics."""
    code = f"""
from importlib import import_module
import sys
for name in {modules!r}:
    import_module(name)
before = [name for name in sys.modules if name.partition(".")[0] in {OURS!r}]
import_module({program + ".__main__"!r})
{TELL}"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    before, after, metrics = json.loads(done.stdout)
    return set(before), set(after), metrics


@pytest.mark.extended
@pytest.mark.parametrize("program", sorted(PROGRAMS))
def test_a_program_finds_of_ours_what_it_would_import_anyway(program: str) -> None:
    """So that nothing of another program is in its process; its metrics are its own, too."""
    modules = dict(paths())[program]
    before, _, metrics = told(program, modules)
    _, own, own_metrics = told(program, ())
    assert {name for name in before - own if not generated(name)} == set()
    assert metrics == own_metrics


def generated(module: str) -> bool:
    """Whether a module is made of a .proto file, or a package of such modules."""
    return module.startswith(("peloton.api.", "peloton.private."))
