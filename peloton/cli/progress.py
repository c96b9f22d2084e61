"""Progress of a job: one line that is redrawn on a terminal, a line per change elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Generic, Protocol, TypeVar

from peloton.cli.failures import CallFailed
from peloton.model.states import TERMINAL_TASK_STATES, JobState, TaskState

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobInfo

T = TypeVar("T")
INTERVAL = 0.5
"""Least seconds between two reads of the job."""
RETRY_SECONDS = 120.0
"""How long calls to a job manager that does not answer are repeated."""
_PLAIN_INTERVAL = 2.0
_ORDER = (
    *("SUCCEEDED", "FAILED", "LOST", "KILLED", "KILLING", "PREEMPTING", "RUNNING", "STARTING", "LAUNCHED"),
    *("LAUNCHING", "PLACED", "RESERVED", "PLACING", "READY", "PENDING", "INITIALIZED"),
)
STUCK = ("PENDING", "FAILED", "LOST")
"""States in which instances of a service wait: for a host, or for their next try."""
_ENDED = tuple(state.name for state in TERMINAL_TASK_STATES - {TaskState.DELETED})


class Line(Protocol):
    """Shows progress."""

    def update(self, text: str, *, important: bool = False) -> None:
        """Show a text; an important one may not be left out."""
        ...

    def close(self) -> None:
        """End the output; the last text stays."""
        ...


class PlainLine:
    """Prints each new text on a line, at most one in two seconds unless it is important."""

    def __init__(self, stream: IO[str], clock: Callable[[], float] = time.monotonic) -> None:
        self._stream = stream
        self._clock = clock
        self._last = ""
        self._next = 0.0

    def update(self, text: str, *, important: bool = False) -> None:
        """Print a text that differs from the last one, unless it comes too soon."""
        now = self._clock()
        if text != self._last and (important or now >= self._next):
            print(text, file=self._stream, flush=True)
            self._last, self._next = text, now + _PLAIN_INTERVAL

    def close(self) -> None:
        """Flush the stream."""
        self._stream.flush()


class LiveLine:
    """One line that is redrawn in place; its last text stays."""

    def __init__(self, stream: IO[str]) -> None:
        from rich.console import Console
        from rich.live import Live

        self._live = Live(console=Console(file=stream), auto_refresh=False)
        self._live.start()

    def update(self, text: str, *, important: bool = False) -> None:
        """Redraw the line."""
        from rich.text import Text

        self._live.update(Text(text, no_wrap=True, overflow="ellipsis"), refresh=True)

    def close(self) -> None:
        """Stop redrawing."""
        self._live.stop()


def progress_line(stream: IO[str]) -> Line:
    """Return the kind of line that suits the stream."""
    return LiveLine(stream) if stream.isatty() else PlainLine(stream)


def describe(state: str, counts: Mapping[str, int], instances: int) -> str:
    """Return a text such as `RUNNING  6/10 ended: SUCCEEDED 6, RUNNING 3, PENDING 1`."""
    parts = counts_text(counts)
    ended = sum(counts.get(name, 0) for name in _ENDED)
    return f"{state}  {ended}/{instances} ended" + (f": {parts}" if parts else "")


def counts_text(counts: Mapping[str, int]) -> str:
    """Return numbers by state, those that come last in a run first: `SUCCEEDED 6, RUNNING 3`."""
    known = sorted(
        counts.items(), key=lambda item: _ORDER.index(item[0]) if item[0] in _ORDER else len(_ORDER)
    )
    return ", ".join(f"{name} {count}" for name, count in known if count)


@dataclass(frozen=True, slots=True)
class Seen(Generic[T]):
    """What was read of something that is followed."""

    what: T
    state: str
    text: str
    """One line, with the state."""
    ended: bool
    stuck: bool
    """Whether instances are PENDING, or wait for their next try after a failure."""


def seen_job(info: JobInfo, until_it_runs: bool = False) -> Seen[JobInfo]:
    """Return what is shown of a job that is followed until it has ended, or all of its instances run."""
    state, counts = JobState(info.runtime.state), info.runtime.taskStats
    text = describe(state.name, counts, info.config.instanceCount)
    ended = all_run(info) if until_it_runs else state.terminal
    # One that was just started is still in its last state.
    ended = ended or (state.terminal and JobState(info.runtime.goalState).terminal)
    return Seen(info, state.name, text, ended, any_of(counts, STUCK if until_it_runs else ("PENDING",)))


def any_of(counts: Mapping[str, int], states: Sequence[str]) -> bool:
    """Return whether any instance is in one of these states."""
    return any(counts.get(name, 0) for name in states)


def all_run(info: JobInfo) -> bool:
    """Return whether all instances of a job run, of which a daemon job has no fixed number."""
    counts = {name: count for name, count in info.runtime.taskStats.items() if count}
    return set(counts) == {"RUNNING"} and counts["RUNNING"] >= info.config.instanceCount


def follow(
    read: Callable[[], Seen[T]],
    line: Line,
    stuck_reason: Callable[[], str] = lambda: "",
    *,
    sleep: Callable[[float], None] = time.sleep,
    clock: Callable[[], float] = time.monotonic,
) -> T:
    """Show what is read until it has ended; return it as it is then.

    `stuck_reason` returns why tasks do not run; it is called while nothing changes. A job manager that does
    not answer (it may be restarting) is called again for RETRY_SECONDS; then CallFailed is raised.
    """
    answered, shown, before = clock(), "", ""
    try:
        while True:
            begun = clock()
            try:
                seen = read()
            except CallFailed as failure:
                if not failure.transient or clock() - answered > RETRY_SECONDS:
                    raise
                line.update("(the job manager does not answer: waiting for it)", important=True)
                shown = ""
            else:
                answered, text = clock(), seen.text
                reason = stuck_reason() if text == before and seen.stuck else ""
                line.update(f"{text}; {reason}" if reason else text, important=seen.state != shown)
                shown, before = seen.state, text
                if seen.ended:
                    line.update(text, important=True)
                    return seen.what
            # Reading a large job takes long: it is read less often.
            sleep(max(INTERVAL, 4 * (clock() - begun)))
    finally:
        line.close()
