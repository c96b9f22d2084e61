"""A job's progress as one line that stays in place on a terminal, and as a line per change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import IO, TYPE_CHECKING, Any, Protocol

from peloton.cli.failures import CallFailed

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobInfo

INTERVAL = 0.5
"""Seconds between two looks at the job."""
PATIENCE = 120.0
"""Seconds for which an unreachable job manager is waited for."""
_PLAIN_INTERVAL = 2.0
_ORDER = (
    *("SUCCEEDED", "FAILED", "LOST", "KILLED", "KILLING", "PREEMPTING", "RUNNING", "STARTING", "LAUNCHED"),
    *("LAUNCHING", "PLACED", "RESERVED", "PLACING", "READY", "PENDING", "INITIALIZED"),
)
_ENDED = ("SUCCEEDED", "FAILED", "LOST", "KILLED")


class Line(Protocol):
    """Where progress is shown."""

    def update(self, text: str, *, important: bool = False) -> None: ...

    def close(self) -> None: ...


class PlainLine:
    """Prints a line when something changed, at most one in two seconds unless it is important."""

    def __init__(self, stream: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._last = ""
        self._next = 0.0

    def update(self, text: str, *, important: bool = False) -> None:
        now = self._clock()
        if text != self._last and (important or now >= self._next):
            print(text, file=self._stream, flush=True)
            self._last, self._next = text, now + _PLAIN_INTERVAL

    def close(self) -> None:
        self._stream.flush()


class LiveLine:
    """One line that is drawn again in place; its last text stays."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(file=stream), auto_refresh=False)
        self._live.start()

    def update(self, text: str, *, important: bool = False) -> None:
        from rich.text import Text

        self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)

    def close(self) -> None:
        self._live.stop()


def progress_line(stream: IO[str]) -> Line:
    """The right kind of line for this stream."""
    return LiveLine(stream) if stream.isatty() else PlainLine(stream)


def describe(state: str, counts: Mapping[str, int], instances: int) -> str:
    """`RUNNING  6/10 ended: SUCCEEDED 6, RUNNING 3, PENDING 1`."""
    known = sorted(
        counts.items(), key=lambda item: _ORDER.index(item[0]) if item[0] in _ORDER else len(_ORDER)
    )
    parts = ", ".join(f"{name} {count}" for name, count in known if count)
    ended = sum(counts.get(name, 0) for name in _ENDED)
    return f"{state}  {ended}/{instances} ended" + (f": {parts}" if parts else "")


def follow_job(
    read: Callable[[], JobInfo],
    line: Line,
    held_up: Callable[[], str] = lambda: "",
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> JobInfo:
    """Show a job until it has ended and return it as it is then. `held_up` tells why tasks wait: it is asked
    while nothing changes.

    A job manager that does not answer (it may be starting again) is waited for, PATIENCE seconds long; then
    CallFailed is raised.
    """
    heard, shown, before = clock(), "", ""
    try:
        while True:
            asked = clock()
            try:
                info = read()
            except CallFailed as failure:
                if not failure.passing or clock() - heard > PATIENCE:
                    raise
                line.update("(the job manager does not answer: waiting for it)", important=True)
                shown = ""
            else:
                heard, state = clock(), _state(info)
                text = describe(state, info.runtime.taskStats, info.config.instanceCount)
                waits = held_up() if text == before and info.runtime.taskStats.get("PENDING", 0) else ""
                line.update(f"{text}; waits: {waits}" if waits else text, important=state != shown)
                shown, before = state, text
                if state in (*_ENDED, "DELETED"):
                    line.update(text, important=True)
                    return info
            # A large job's answer takes long: such a job is asked for less often.
            sleep(max(INTERVAL, 4 * (clock() - asked)))
    finally:
        line.close()


def _state(info: Any) -> str:
    from peloton.api.v0.job import job_pb2

    return str(job_pb2.JobState.Name(info.runtime.state))
