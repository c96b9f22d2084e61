"""Processes that outlive the command which starts them, known again by pid and start time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from minicluster.mesos.common.process_identity import start_of
from peloton.errors import Unavailable

POLL_SECONDS = 0.05
FOREIGN = {
    *("HTTP_PORT", "GRPC_PORT", "ELECTION_ZK_SERVERS", "MESOS_ZK_PATH"),
    *("CASSANDRA_HOSTS", "CASSANDRA_PORT", "CASSANDRA_STORE"),
}
"""Environment variables by which a daemon's settings are overridden."""
ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals by which people, terminals and supervisors end a program."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process of ours. `started` tells it from a later one with the same pid."""

    pid: int
    started: str

    def alive(self) -> bool:
        _reap(self.pid)
        return start_of(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        if self.alive():
            os.kill(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """Whether it ended in that time."""
        return wait_until(lambda: not self.alive(), seconds)


@contextmanager
def interruptible() -> Iterator[None]:
    """SIGTERM, and SIGHUP of a terminal that is closed, end the body as Ctrl-C does: it can clean up."""
    numbers = [n for n in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(n) is signal.SIG_DFL]
    for number in numbers:
        signal.signal(number, signal.default_int_handler)
    try:
        yield
    finally:
        for number in numbers:
            signal.signal(number, signal.SIG_DFL)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Signals by which a person ends a program wait until the body is done; the first is delivered then.

    In the main thread only: no other one is interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING}
    for number, handler in before.items():
        if callable(handler):  # what is ignored, or left to the system, stays so
            signal.signal(number, lambda number, frame: came.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if came:
            signal.raise_signal(came[0])


def launch(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Start in a session of its own, output appended to `log`."""
    with log.open("ab") as out:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**inherited(), **environment},
            start_new_session=True,
        )
    return Process(child.pid, start_of(child.pid) or "")


def inherited() -> dict[str, str]:
    """Our environment without what would give all daemons the same ports, or other servers than the
    cluster's."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN}


def save(process: Process, file: Path) -> None:
    draft = file.with_name(f".{file.name}")
    draft.write_text(json.dumps(asdict(process)))
    draft.rename(file)


def load(file: Path) -> Process | None:
    """None where there is no such file."""
    try:
        held = json.loads(file.read_text())
        return Process(int(held["pid"]), str(held["started"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise Unavailable(f"{file}: not a process record; remove it by hand") from None


def wait_until(holds: Callable[[], bool], seconds: float) -> bool:
    """Whether it came to hold in that time."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_SECONDS)
    return True


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # not a child of this process: somebody else reaps it
