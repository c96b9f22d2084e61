"""Traces of jobs from their creation until their tasks run, for OpenTelemetry.

A trace belongs to a job, and has the job's id as its own. Each daemon decides by the id alone whether a job
is traced, and derives from ids those of the spans that have others below them. So nothing is passed along or
stored, and a trace goes on under the next leader. Spans are made when they end, from times known then.

Nothing is done while `TRACES.on` is false: callers ask that once for each batch.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import lru_cache
from hashlib import sha256
from typing import Any
from zlib import crc32

from peloton.clock import SystemClock
from peloton.config.errors import ConfigError
from peloton.config.settings import TracingSettings
from peloton.daemon.spans import PARENT, Attributes, Span, Spans
from peloton.errors import InvalidArgument
from peloton.model.ids import JobId, Run, is_uuid, parse_mesos_task_id

_CALLER: ContextVar[str] = ContextVar("caller", default="")
_JOB_ID_CHARACTERS = 36
"""Characters of a job's id, with which the id of a run begins."""
_clock = SystemClock()


class Traces:
    """The traces of this process."""

    def __init__(self) -> None:
        self.on = False
        """Whether any job is traced."""
        self._spans: Spans | None = None
        self.instances = 0
        """How many instances of a job are traced, the first ones."""
        self._limit = 0

    def begin(self, spans: Spans, ratio: float, instances: int) -> None:
        """Trace that part (`ratio`) of all jobs, and of each its first `instances`."""
        self._spans = spans
        self._limit = round(ratio * 2**32)
        self.instances = instances
        self.on = self._limit > 0

    def end(self) -> None:
        """Trace nothing more, and send what is left. It blocks for a short time."""
        spans, self._spans, self.on = self._spans, None, False
        if spans is not None:
            spans.close()

    def now(self) -> int:
        """Return the time in nanoseconds since 1970, 0 while nothing is traced."""
        return _clock.wall() if self.on else 0

    def follows_job(self, job_id: JobId) -> bool:
        """Return whether a job is traced. Every daemon with the same settings comes to the same result."""
        return self.on and crc32(job_id.encode()) < self._limit and trace_id(job_id) != 0

    def follows(self, run: Run) -> bool:
        """Return whether a run is traced."""
        return run.instance < self.instances and self.follows_job(run.job_id)

    def traced(self, runs: Iterable[str]) -> list[Run]:
        """Return those of the runs, `<job UUID>-<instance>-<run>`, that are traced; leave out other texts."""
        found, limit = [], self._limit if self.on else 0
        for text in runs if limit else ():
            if crc32(text[:_JOB_ID_CHARACTERS].encode()) >= limit:  # most of them: told before it is split
                continue
            try:
                run = parse_mesos_task_id(text)
            except InvalidArgument:
                continue
            if self.follows(run):
                found.append(run)
        return found

    def job(self, job_id: JobId, start: int, attributes: Attributes) -> None:
        """Note that a job was created: the first span of its trace, which ends now."""
        self._put(
            Span(
                trace_id(job_id),
                _span_id(job_id),
                0,
                "create",
                start,
                _clock.wall(),
                {"peloton.job_id": job_id, **attributes},
                caller=_CALLER.get(),
            )
        )

    def run(
        self,
        run: Run,
        start: int,
        end: int,
        attributes: Attributes,
        steps: Sequence[tuple[int, str]] = (),
        error: str = "",
    ) -> None:
        """Note that a run is RUNNING, or has ended before."""
        ids = trace_id(run.job_id), _span_id(_name(run)), _span_id(run.job_id)
        self._put(Span(*ids, "run", start, end, {**_of(run), **attributes}, error, steps))

    def part(
        self, run: Run, name: str, start: int, end: int, attributes: Attributes, error: str = ""
    ) -> None:
        """Note a part of a run's way."""
        ids = trace_id(run.job_id), new_span_id(), _span_id(_name(run))
        self._put(Span(*ids, name, start, end, {**_of(run), **attributes}, error))

    def _put(self, span: Span) -> None:
        if self._spans is not None:
            self._spans.put(span)


TRACES = Traces()
"""The traces of this process: as metrics, there is one set."""


def start(settings: TracingSettings, resource: Mapping[str, str]) -> None:
    """Begin as the settings say; `resource` describes this process. Raises ConfigError."""
    if not settings.endpoint:
        return
    try:
        from peloton.daemon.otlp import exporter
    except ImportError as error:
        raise ConfigError(
            f"tracing.endpoint is set, but {error.name or error} is not installed: install peloton[tracing]"
        ) from None
    TRACES.begin(exporter(settings.endpoint, resource), settings.ratio, settings.instances)


def note_caller(context: Any) -> None:
    """Link what this call begins with the caller's own trace, where the metadata of the call has one."""
    if not TRACES.on:
        return
    for key, value in context.invocation_metadata() or ():
        if key == PARENT:
            _CALLER.set(str(value))


@lru_cache(4096)
def trace_id(job_id: JobId) -> int:
    """Return the id of a job's trace: the job's id as a number. 0, which is no trace, for any other text."""
    return int(job_id.replace("-", ""), 16) if is_uuid(job_id) else 0


def new_span_id() -> int:
    """Return the id of a span that has none below it."""
    return int.from_bytes(os.urandom(8), "big") or 1


@lru_cache(4096)
def _span_id(text: str) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:8], "big") or 1


def _name(run: Run) -> str:
    return f"{run.job_id}-{run.instance}-{run.run}"


def _of(run: Run) -> Attributes:
    return {"peloton.job_id": run.job_id, "peloton.instance": run.instance, "peloton.run": run.run}
