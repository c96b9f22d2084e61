"""Jobs of a trace: our JSON lines, the standard workload format (SWF), and what `public` and `archived` read.

Each reader yields jobs in the order of their creation, the first one at second 0. Raises InvalidArgument with
the file and the line of what is wrong.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from peloton.errors import InvalidArgument
from peloton.model.job import MAX_INSTANCES
from peloton.model.resources import Resources
from peloton.model.workload import GROWTH_INTERVAL_SECONDS, MAX_GROWTH_INTERVAL_SECONDS
from simulator.jobs import SimJob
from simulator.workloads.audited import NOTHING_KNOWN, Durations, audited_jobs, is_audit_log
from simulator.workloads.public import MAX_SECONDS, csv_jobs, kueue_jobs, size_class

_FIELDS = {
    "name", "submit", "pool", "class", "instances", "gang", "seconds", "cpu", "memory", "disk", "gpu",
    "priority", "preemptible", "max_running_time", "max_failures", "service", "needed", "growth_interval",
    "in_place",
}  # fmt: skip


def read_jobs(
    path: Path, form: str = "auto", most: int = 0, durations: Durations = NOTHING_KNOWN
) -> list[SimJob]:
    """Return the jobs of a file, `most` at most (0: all). Raises InvalidArgument, and OSError.

    `durations`: how long the jobs of an audit log run.
    """
    name = _form_of(path) if form == "auto" else form
    with path.open(encoding="utf-8", newline="") as lines:
        audit = name == "audit"
        found = list(audited_jobs(path, lines, durations) if audit else _READERS[name](path, lines))
    if not found:
        raise InvalidArgument(str(path), "", "a trace with at least one job")
    found.sort(key=lambda job: job.submit)
    first = found[0].submit
    return [replace(job, submit=job.submit - first) for job in (found[:most] if most else found)]


def _form_of(path: Path) -> str:
    endings = {".jsonl": "jsonl", ".ndjson": "jsonl", ".swf": "swf", ".csv": "philly", ".yaml": "kueue"}
    if path.suffix in (".jsonl", ".log"):
        with path.open("rb") as lines:
            first = lines.readline(10_000)
        if first.startswith(b'{"record":"job"'):  # as `peloton-archiver` writes it
            return "archive"
        if is_audit_log(first):
            return "audit"
    form = endings.get(path.suffix)
    if form is None:
        expected = "a file that ends with .jsonl, .swf, .csv or .yaml, or one whose format is named"
        raise InvalidArgument("trace", str(path), expected)
    return form


# JSON lines.


def _json_lines(path: Path, lines: Iterable[str]) -> Iterator[SimJob]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        where = f"{path}:{number}"
        try:
            wire = json.loads(line)
        except ValueError:
            raise InvalidArgument(where, line.strip(), "a JSON object") from None
        if not isinstance(wire, dict):
            raise InvalidArgument(where, wire, "a JSON object")
        yield _job_of(wire, number, where)


class _Fields:
    """The fields of a line, checked as they are read. All raise InvalidArgument."""

    def __init__(self, wire: Mapping[str, Any], where: str) -> None:
        for name in wire:
            if name not in _FIELDS:
                raise InvalidArgument(where, name, f"one of the fields {', '.join(sorted(_FIELDS))}")
        self.wire = wire
        self._where = where

    def refuse(self, field: str, expected: str) -> InvalidArgument:
        """Return the error about a field."""
        return InvalidArgument(f"{self._where}: {field}", self.wire.get(field), expected)

    def amount(self, field: str, default: float | None, most: float = MAX_SECONDS, least: float = 0) -> float:
        """Return a number; a field without a default has to be there."""
        given = self.wire.get(field, default)
        if isinstance(given, bool) or not isinstance(given, int | float) or not least <= given <= most:
            raise self.refuse(field, f"a number from {least:.0f} to {most:.0f}")
        return float(given)

    def flag(self, field: str, default: bool) -> bool:
        """Return true or false."""
        given = self.wire.get(field, default)
        if not isinstance(given, bool):
            raise self.refuse(field, "true or false")
        return given

    def pool(self) -> str:
        """Return the path of the pool."""
        pool = self.wire.get("pool", "/default")
        if not isinstance(pool, str) or not pool.startswith("/") or pool == "/":
            raise self.refuse("pool", "the path of a pool, such as /research")
        return pool


def _job_of(wire: Mapping[str, Any], number: int, where: str) -> SimJob:
    fields = _Fields(wire, where)
    amount, flag = fields.amount, fields.flag
    if flag("gang", False) and flag("service", False):
        raise fields.refuse("gang", "false for a service, whose instances start one by one")
    job = SimJob(
        name=str(wire.get("name", f"job-{number}")),
        submit=amount("submit", None),
        pool=fields.pool(),
        resources=Resources.of(
            amount("cpu", 1.0), amount("memory", 0.0), amount("disk", 0.0), amount("gpu", 0.0)
        ),
        seconds=amount("seconds", None),
        instances=int(amount("instances", 1, MAX_INSTANCES, 1)),
        gang=flag("gang", False),
        priority=int(amount("priority", 0, 2**31)),
        preemptible=flag("preemptible", True),
        longest=int(amount("max_running_time", 0)),
        max_failures=int(amount("max_failures", 0, 100)),
        kind=str(wire.get("class", "")),
        service=flag("service", False),
    )
    return _elastic(job, fields)


def _elastic(job: SimJob, fields: _Fields) -> SimJob:
    """Return a job as an elastic gang, where its line says that it is one."""
    if "needed" not in fields.wire:
        for field in ("growth_interval", "in_place"):
            if field in fields.wire:
                raise fields.refuse(field, "of use with `needed` only, the least size of an elastic gang")
        return job
    if not job.gang:
        raise fields.refuse("needed", 'of use with "gang": true only')
    in_place = fields.flag("in_place", False)
    if in_place and "growth_interval" in fields.wire:
        raise fields.refuse("growth_interval", "left out of a gang that grows in place, without rounds")
    interval = fields.amount("growth_interval", GROWTH_INTERVAL_SECONDS, MAX_GROWTH_INTERVAL_SECONDS, 1)
    needed = int(fields.amount("needed", None, job.instances, 1))
    return replace(job, needed=needed, growth_interval=int(interval), in_place=in_place)


# The standard workload format.


def _swf(path: Path, lines: Iterable[str]) -> Iterator[SimJob]:
    """Read SWF version 2: a processor is a core, and all processors of a job start together."""
    for number, line in enumerate(lines, 1):
        text = line.split(";", 1)[0].split()
        if not text:
            continue
        where = f"{path}:{number}"
        if len(text) < 18:
            raise InvalidArgument(where, line.strip(), "18 fields of the standard workload format")
        try:
            values = [float(each) for each in text[:18]]
        except ValueError:
            raise InvalidArgument(where, line.strip(), "numbers only") from None
        submit, seconds, used, asked, longest = values[1], values[3], values[4], values[7], values[8]
        processors = int(asked if asked > 0 else used)
        if processors < 1 or seconds < 0 or submit < 0:
            continue  # cancelled before it began
        if processors > MAX_INSTANCES:
            raise InvalidArgument(where, processors, f"at most {MAX_INSTANCES} processors")
        yield SimJob(
            name=f"job-{text[0]}",
            submit=submit,
            pool="/default",
            resources=Resources.of(1.0),
            seconds=seconds,
            instances=processors,
            gang=True,
            preemptible=True,
            longest=int(longest) if longest > 0 else 0,
            kind=size_class(processors, "processor"),
        )


def _archive(path: Path, lines: Iterable[str]) -> Iterator[SimJob]:
    from simulator.workloads.archived import archived_jobs

    return archived_jobs(path)


_READERS: Mapping[str, Callable[[Path, Iterable[str]], Iterator[SimJob]]] = {
    "archive": _archive,
    "jsonl": _json_lines,
    "kueue": kueue_jobs,
    "openb": csv_jobs,
    "philly": csv_jobs,
    "swf": _swf,
}
