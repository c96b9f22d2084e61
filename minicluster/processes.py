"""Start and signal processes that outlive the command; pid and start time identify them."""

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
from peloton.config import variables
from peloton.config.private import FILE, UMASK, write_private
from peloton.errors import Unavailable

POLL_SECONDS = 0.05
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
"""Signals with which people, terminals and supervisors end a program."""


@dataclass(frozen=True, slots=True)
class Process:
    """A process. `started` distinguishes it from a later one with the same pid."""

    pid: int
    started: str

    def alive(self) -> bool:
        """Return whether it still runs."""
        _reap(self.pid)
        return start_of(self.pid) == self.started

    def signal(self, number: signal.Signals) -> None:
        """Send a signal, if it still runs."""
        if self.alive():
            os.kill(self.pid, number)

    def wait(self, seconds: float) -> bool:
        """Wait for its end; return False after `seconds`."""
        return wait_until(lambda: not self.alive(), seconds)


@contextmanager
def interruptible() -> Iterator[None]:
    """Let SIGTERM and SIGHUP raise KeyboardInterrupt in the body, as Ctrl-C does: it can clean up."""
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
    """Defer the signals that end a program until the body is done; then deliver the first of them.

    Does nothing outside of the main thread: no other thread is interrupted.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    received: list[int] = []
    before = {number: signal.getsignal(number) for number in ENDING_SIGNALS}
    for number, handler in before.items():
        if callable(handler):  # ignored signals, and those left to the system, stay so
            signal.signal(number, lambda number, frame: received.append(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if received:
            signal.raise_signal(received[0])


def launch(argv: Sequence[str], log: Path, environment: Mapping[str, str]) -> Process:
    """Start a process in a session of its own, for this user's files alone; append its output to `log`."""
    with os.fdopen(os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, FILE), "ab") as out:
        child = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=out,
            env={**clean_environment(), **environment},
            start_new_session=True,
            umask=UMASK,
        )
    return Process(child.pid, start_of(child.pid) or "")


def clean_environment() -> dict[str, str]:
    """Return the environment without the variables that are settings of daemons: the cluster's own count."""
    return {name: value for name, value in os.environ.items() if name not in variables.NAMES}


def save(process: Process, file: Path) -> None:
    """Write a process record."""
    draft = file.with_name(f".{file.name}")
    write_private(draft, json.dumps(asdict(process)))
    draft.rename(file)


def load(file: Path) -> Process | None:
    """Read a process record; return None where there is no such file. Raise Unavailable for a broken one."""
    try:
        held = json.loads(file.read_text())
        return Process(int(held["pid"]), str(held["started"]))
    except FileNotFoundError:
        return None
    except (ValueError, KeyError, TypeError):
        raise Unavailable(f"{file}: not a process record; remove it by hand") from None


def wait_until(holds: Callable[[], bool], seconds: float, poll: float = POLL_SECONDS) -> bool:
    """Poll until the condition holds; return False after `seconds`."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            return False
        time.sleep(poll)
    return True


def _reap(pid: int) -> None:
    try:
        os.waitpid(pid, os.WNOHANG)
    except ChildProcessError:
        return  # not a child of this process: somebody else reaps it
