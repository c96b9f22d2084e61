"""Processes that outlive their starter are identified by pid and start time."""

from __future__ import annotations

import platform
import signal
import sys
from pathlib import Path

import pytest

from archiver.config import ArchiverSettings
from hostmgr.config import HostmgrSettings
from jobmgr.config import JobmgrSettings
from minicluster.processes import (
    Process,
    clean_environment,
    interruptible,
    launch,
    load,
    save,
    uninterrupted,
    wait_until,
)
from peloton.config.sources import variable_targets
from peloton.errors import Unavailable
from peloton.web.config import WebSettings
from placement.config import PlacementSettings
from resmgr.config import ResmgrSettings

SLEEPER = [sys.executable, "-c", "import time; print('here', flush=True); time.sleep(60)"]


def test_launch_find_again_and_end(tmp_path: Path) -> None:
    process = launch(SLEEPER, tmp_path / "log", {})
    try:
        save(process, tmp_path / "run.json")
        assert load(tmp_path / "run.json") == process
        assert process.alive()
    finally:
        process.signal(signal.SIGKILL)
    assert process.wait(60)
    assert not process.alive()


HEADLESS = """
import ctypes, threading, time
threading.Thread(target=time.sleep, args=(60,)).start()
print("here", flush=True)
ctypes.CDLL(None).syscall(SYS_exit, 0)
""".replace("SYS_exit", {"x86_64": "60"}.get(platform.machine(), "93"))
"""Its first thread ends: the process is a zombie with a thread that runs."""


def test_a_process_whose_first_thread_has_ended_still_runs(tmp_path: Path) -> None:
    """So it is for a moment with many threads that are killed: it holds its ports as long."""
    process = launch([sys.executable, "-c", HEADLESS], tmp_path / "log", {})
    stat = Path(f"/proc/{process.pid}/stat")
    assert wait_until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "Z", 10)
    assert process.alive()
    process.signal(signal.SIGKILL)
    assert process.wait(60)


def test_another_process_with_the_same_pid_is_not_ours(tmp_path: Path) -> None:
    process = launch(SLEEPER, tmp_path / "log", {})
    try:
        recycled = Process(process.pid, "1")
        assert not recycled.alive()
        recycled.signal(signal.SIGKILL)
        assert process.alive()
    finally:
        process.signal(signal.SIGKILL)
        assert process.wait(60)


def test_a_broken_record_is_refused(tmp_path: Path) -> None:
    assert load(tmp_path / "nothing.json") is None
    (tmp_path / "bad.json").write_text("{")
    with pytest.raises(Unavailable, match=r"bad\.json"):
        load(tmp_path / "bad.json")


def test_settings_of_the_caller_do_not_reach_a_daemon(monkeypatch: pytest.MonkeyPatch) -> None:
    """All settings: with MESOS_MASTER, or TASK_TYPE, the cluster would be another than asked for."""
    classes = (
        JobmgrSettings,
        ResmgrSettings,
        PlacementSettings,
        HostmgrSettings,
        ArchiverSettings,
        WebSettings,
    )
    settings = {target.variable.name for cls in classes for target in variable_targets(cls)}
    assert {"MESOS_MASTER", "TASK_TYPE", "AUTH_TYPE"} <= settings
    for name in (*settings, "LANG"):
        monkeypatch.setenv(name, "1")
    found = clean_environment()
    assert sorted(settings & found.keys()) == []
    assert found["LANG"] == "1"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_until_the_body_is_done(number: signal.Signals) -> None:
    done = []
    with pytest.raises(KeyboardInterrupt), interruptible(), uninterrupted():
        signal.raise_signal(number)
        signal.raise_signal(number)
        done.append("all of it")
    assert done == ["all of it"]


def test_a_process_started_with_deferred_signals_receives_signals(tmp_path: Path) -> None:
    with interruptible(), uninterrupted():
        process = launch(SLEEPER, tmp_path / "log", {})
    process.signal(signal.SIGTERM)
    assert process.wait(60)
