"""Follow a job as if its processes ran here: their output by rank, Ctrl-C passed on, their exit code."""

from __future__ import annotations

import math
import signal
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, TypeVar

from peloton.cli.colours import PREFIXES, styled
from peloton.cli.exit_codes import DONE, INTERRUPTED, JOB_FAILED
from peloton.cli.failures import CallFailed
from peloton.cli.logs import INTERVAL, Logs
from peloton.cli.merged_logs import CALLS_A_SECOND, MOST, LinePrinter
from peloton.cli.run_waits import Waits
from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.errors import PelotonError, Refused
from peloton.model.ids import mesos_task_id, parse_mesos_task_id

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobInfo
    from peloton.api.v0.peloton_pb2 import JobID
    from peloton.api.v0.task.task_pb2 import RuntimeInfo

T = TypeVar("T")
LAST_OUTPUT_SECONDS = 30.0
"""Seconds after the job's end for which its last output is waited for."""
_SIGNALS = {signal.strsignal(number): int(number) for number in signal.Signals}


class _Stopped(Exception):
    """Nobody wants more output."""


@dataclass(slots=True)
class JobRun:
    """A job that was created for whoever waits here."""

    session: Session
    job_id: str
    processes: int
    out: IO[bytes]
    err: IO[bytes]
    note: Callable[[str], object]
    colours: bool = False
    _over: threading.Event = field(default_factory=threading.Event)
    """Set when the job has ended."""
    _left: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _interrupts: int = 0
    _waits: Waits = field(init=False)

    def __post_init__(self) -> None:
        self._waits = Waits(self._quiet(), self.note)

    def follow(self) -> int:
        """Print what the processes write until the job has ended, and why they wait; return the exit code.

        The first Ctrl-C stops the job, each process within its grace period; the second leaves it alone.
        """
        ranks = range(min(self.processes, MOST))
        if len(ranks) < self.processes:
            self.note(f"the output of the first {MOST} processes is shown")
        with ThreadPoolExecutor(2 * len(ranks), "rank") as threads:
            followers = [
                threads.submit(self._rank, rank, name, out)
                for rank in ranks
                for name, out in (("stdout", self.out), ("stderr", self.err))
            ]
            try:
                info = self._until(self._ended)
                self._over.set()
                if info is not None:
                    self._until(lambda: _all_done(followers), LAST_OUTPUT_SECONDS)
            finally:
                self._left.set()
        if info is None or self._interrupts:
            return INTERRUPTED
        return self._code(info)

    def _until(self, holds: Callable[[], T | None], seconds: float = math.inf) -> T | None:
        """Wait until something is there, and return it; None after some seconds, or where the user leaves."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            try:
                if (found := holds()) is not None:
                    return found
                time.sleep(INTERVAL)
            except KeyboardInterrupt:
                self._interrupts += 1
                if self._interrupts > 1 or not self._stop():
                    self.note(f"left: job {self.job_id} is stopping by itself")
                    return None
        return None

    def _stop(self) -> bool:
        """Stop the job; return whether it is being stopped, and the user still waits."""
        from peloton.api.v0.job import job_pb2

        self.note("stopping: each process has its grace period; Ctrl-C again leaves without waiting")
        try:
            self.session.call(RPCS.job_svc.Stop, job_pb2.StopRequest(id=self._id()))
        except KeyboardInterrupt:
            return False
        except PelotonError as error:
            self._interrupts -= 1
            self.note(f"the job is not stopped: {error}")
        return True

    def _ended(self) -> JobInfo | None:
        """Return the job where it has ended."""
        from peloton.api.v0.job import job_pb2
        from peloton.cli.follow import get_info

        try:
            info = get_info(self.session, self.job_id)
        except CallFailed as failure:
            if not failure.transient:
                raise
            return None
        ended = (job_pb2.SUCCEEDED, job_pb2.FAILED, job_pb2.KILLED, job_pb2.DELETED)
        if info.runtime.state in ended:
            return info
        if not self._interrupts:
            self._waits.look(info)
        return None

    def _rank(self, rank: int, name: str, out: IO[bytes]) -> None:
        """Print a file of a process, run after run."""
        printer = LinePrinter(self._prefix(rank), out, self._lock)
        speaks = rank == 0 and name == "stdout"
        session = self._quiet()
        number = 0
        try:
            while self._begins(rank, number + 1):
                number += 1
                if number > 1 and speaks:
                    self.note(f"run {number} of the program")
                run = mesos_task_id(self.job_id, rank, number)
                self._run(Logs(session, self.job_id, rank, run, name, printer.write, _unsaid))
                printer.close()
        except _Stopped:
            printer.close()

    def _quiet(self) -> Session:
        """Return the session for calls whose waiting is not shown."""
        return replace(self.session, quiet=True, _client=self.session.client)

    def _run(self, logs: Logs) -> None:
        logs.sleep = self._sleep
        try:
            logs.follow()
        except Refused:
            return  # it was not launched, or its host is gone
        except PelotonError as error:
            if logs.filename == "stdout":
                self.note(f"{logs.instance}: no output: {error}")

    def _begins(self, rank: int, number: int) -> bool:
        """Wait for a run of a process; return whether it comes before the job has ended."""
        while True:
            over = self._over.is_set()  # asked before the run: a job that has ended begins no more
            current = self._current(rank)
            if current >= number or over:
                return current >= number
            self._sleep(INTERVAL)

    def _current(self, rank: int) -> int:
        """Return the number of the current run of a process; 0 where there is none, or nobody answers."""
        try:
            current = self._runtime(rank).mesosTaskId.value
        except CallFailed as failure:
            if not failure.transient:
                raise
            return 0
        return parse_mesos_task_id(current).run if current else 0

    def _runtime(self, rank: int) -> RuntimeInfo:
        from peloton.api.v0.task import task_pb2

        request = task_pb2.GetRequest(jobId=self._id(), instanceId=rank)
        return self.session.call(RPCS.task_svc.Get, request).result.runtime

    def _sleep(self, seconds: float) -> None:
        """Wait, the longer the more processes there are."""
        if self._left.wait(max(seconds, 4 * min(self.processes, MOST) / CALLS_A_SECOND)):
            raise _Stopped

    def _prefix(self, rank: int) -> str:
        if self.processes == 1:
            return ""
        text = f"{rank:>{len(str(self.processes - 1))}} |"
        return f"{styled(text, PREFIXES[rank % len(PREFIXES)]) if self.colours else text} "

    def _id(self) -> JobID:
        from peloton.api.v0 import peloton_pb2

        return peloton_pb2.JobID(value=self.job_id)

    def _code(self, info: JobInfo) -> int:
        """Print why a job did not succeed; return the exit code of its first process that failed."""
        from peloton.api.v0.task import task_pb2
        from peloton.cli.follow import ended

        if ended(self.session, info) == DONE:
            return DONE
        request = task_pb2.ListRequest(jobId=self._id())
        request.range.to = self.processes
        tasks = self.session.call(RPCS.task_svc.List, request).result.value
        return exit_code(task.runtime for task in tasks.values())


def exit_code(runtimes: Iterable[RuntimeInfo]) -> int:
    """Return the exit code of the process that failed first; JOB_FAILED where none tells."""
    from peloton.api.v0.task import task_pb2

    failed = [each for each in runtimes if each.state == task_pb2.FAILED]
    for runtime in sorted(failed, key=lambda each: each.completionTime):
        status = runtime.terminationStatus
        if status.signal in _SIGNALS:
            return 128 + _SIGNALS[status.signal]
        if status.exit_code:
            return int(status.exit_code)
    return JOB_FAILED


def _unsaid(text: str) -> None:
    """Leave aside that one process has no output yet: `Waits` tells why for all."""


def _all_done(futures: Sequence[Future[None]]) -> bool | None:
    """Return true where all are done. Raises what one of them raised."""
    done = [future.result() is None for future in futures if future.done()]
    return True if len(done) == len(futures) else None
