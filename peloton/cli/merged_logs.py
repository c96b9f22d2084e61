"""Logs of several instances in one stream, each line behind the name of where it comes from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import IO, TYPE_CHECKING, Any

from peloton.cli.colours import PREFIXES, styled
from peloton.cli.logs import INTERVAL, Logs
from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.errors import NotFound, PelotonError, Refused
from peloton.model.plural import plural

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobSummary, RuntimeInfo

MOST = 100
"""Instances whose logs are shown at once."""
STDERR = "stderr"
CALLS_A_SECOND = 40
"""About as many calls do all followers together."""


@dataclass(frozen=True, slots=True)
class Source:
    """One instance; `label` is how its lines are marked."""

    job_id: str
    instance: int
    label: str


class _Stopped(Exception):
    """The user has had enough."""


@dataclass(slots=True)
class LinePrinter:
    """Prints whole lines of one source behind its label; pieces may end anywhere."""

    prefix: str
    out: IO[bytes]
    lock: threading.Lock
    _rest: bytearray = field(default_factory=bytearray)

    def write(self, piece: bytes) -> None:
        """Take a piece and print the lines that it completes."""
        self._rest += piece
        end = self._rest.rfind(b"\n") + 1
        if end:
            self._print(bytes(self._rest[:end]))
            del self._rest[:end]

    def close(self) -> None:
        """Print a last line without an end."""
        if self._rest:
            self._print(bytes(self._rest) + b"\n")
            self._rest.clear()

    def _print(self, lines: bytes) -> None:
        prefix = self.prefix.encode()
        with self.lock:
            self.out.write(b"".join(prefix + line for line in lines.splitlines(keepends=True)))
            self.out.flush()


@dataclass(slots=True)
class MergedLogs:
    """The same file of many instances, or their standard output and standard error."""

    session: Session
    sources: Sequence[Source]
    filename: str
    """Empty: what they write to standard output goes to `out`, and to standard error to `err`."""
    out: IO[bytes]
    err: IO[bytes]
    note: Callable[[str], object]
    colours: bool = False
    _stop: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def copy(self) -> int:
        """Print each file as it is now, one after the other; return how many could not be read."""
        return sum(self._run(number, file, Logs.copy) for number, file in self._files())

    def follow(self) -> int:
        """Print all files as they grow until all runs have ended; return how many could not be read."""
        files = self._files()
        with ThreadPoolExecutor(max_workers=len(files)) as threads:
            futures = [threads.submit(self._run, number, file, Logs.follow) for number, file in files]
            try:
                return sum(future.result() for future in futures)
            finally:
                self._stop.set()

    def _files(self) -> list[tuple[int, str]]:
        """Return the files that are read: the number of the source, and the name."""
        names = [self.filename] if self.filename else ["stdout", STDERR]
        return [(number, name) for number in range(len(self.sources)) for name in names]

    def _run(self, number: int, filename: str, read: Callable[[Logs], None]) -> int:
        source, beside = self.sources[number], filename == STDERR and not self.filename
        printer = LinePrinter(self._prefix(number), self.err if beside else self.out, self._lock)
        logs = Logs(
            replace(self.session, quiet=True, _client=self.session.client),
            source.job_id,
            source.instance,
            "",
            filename,
            printer.write,
            lambda text: None if beside else self.note(f"{source.label}: {text}"),
            self._sleep,
        )
        try:
            read(logs)
        except _Stopped:
            return 0
        except PelotonError as error:
            if beside and isinstance(error, (NotFound, Refused)):
                return 0  # of a run that is not there it is told once
            self.note(f"{source.label}: {error}")
            return 1
        finally:
            printer.close()
        return 0

    def _prefix(self, number: int) -> str:
        if len(self.sources) == 1:
            return ""
        width = max(len(source.label) for source in self.sources)
        text = f"{self.sources[number].label:<{width}} |"
        return f"{styled(text, PREFIXES[number % len(PREFIXES)]) if self.colours else text} "

    def _sleep(self, seconds: float) -> None:
        """Wait, the longer the more instances there are."""
        if self._stop.wait(max(seconds, INTERVAL, len(self._files()) * 2 / CALLS_A_SECOND)):
            raise _Stopped


def sources_of(
    session: Session, targets: Sequence[str], labels: Any, span: tuple[int, int] | None
) -> list[Source]:
    """Return the instances that jobs, pods (`JOB-INSTANCE`) and labels of jobs name, each once, in order.

    `span` says which instances of the jobs. Raises UsageError for too many of them.
    """
    from peloton.cli.follow import get_info

    found: dict[tuple[str, int], str] = {}
    for target in targets:
        job_id, instance = _split(target)
        info = get_info(session, job_id)
        count = info.config.instanceCount or sum(info.runtime.taskStats.values())
        numbers = () if instance is not None else _numbers(session, job_id, count, info.runtime, span)
        instances = numbers if instance is None else [instance]
        found |= {(job_id, each): info.config.name or job_id[:8] for each in instances}
    for job in _with_labels(session, labels) if labels else ():
        numbers = _numbers(session, job.id.value, job.instanceCount, job.runtime, span)
        found |= {(job.id.value, each): job.name for each in numbers}
    one_job = len({job_id for job_id, _ in found}) == 1
    _check_number(len(found))
    return [
        Source(job_id, each, str(each) if one_job else f"{name}-{each}")
        for (job_id, each), name in found.items()
    ]


def _check_number(count: int) -> None:
    if count == 0:
        raise Refused("there is no such instance")
    if count > MOST:
        raise Refused(
            f"these are {plural(count, 'instance')}, more than {MOST}: say which by -r FROM:TO, or name pods"
        )


def _split(target: str) -> tuple[str, int | None]:
    """Return the job of a target and its instance, where it names one."""
    job_id, dash, instance = target.rpartition("-")
    is_pod = dash and len(job_id) == 36 and instance.isascii() and instance.isdecimal()
    return (job_id, int(instance)) if is_pod else (target, None)


def _numbers(
    session: Session, job_id: str, count: int, runtime: RuntimeInfo, span: tuple[int, int] | None
) -> Sequence[int]:
    """Return the numbers of a job's instances, within a span where one is given."""
    if not runtime.releasedInstances:
        low, high = span or (0, count)
        return range(low, min(high, count))
    from peloton.api.v0 import peloton_pb2
    from peloton.api.v0.task import task_pb2

    request = task_pb2.ListRequest(jobId=peloton_pb2.JobID(value=job_id))
    held = sorted(session.call(RPCS.task_svc.List, request).result.value)
    low, high = span or (0, count + runtime.releasedInstances)
    return [each for each in held if low <= each < high]


def _with_labels(session: Session, labels: Any) -> Sequence[JobSummary]:
    """Return the jobs with labels that have not ended."""
    from peloton.cli.queries import JobQuery
    from peloton.cli.selection import unended

    query = JobQuery(labels=labels, states=unended())
    return session.call(RPCS.job_svc.Query, query.request()).results
