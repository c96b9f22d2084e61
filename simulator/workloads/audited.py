"""Jobs of our own audit logs, so that an operator replays what users have created.

A log tells when which job was created, in which pool, with which amounts, and when a service was stopped. It
does not tell how long batch jobs ran: that is taken from an archive, or assumed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any

from peloton.errors import InvalidArgument
from peloton.model.ids import JobId
from peloton.model.plural import plural
from peloton.model.resources import Resources
from peloton.model.workload import GROWTH_INTERVAL_SECONDS
from simulator.jobs import SimJob

CREATING = (".JobManager/Create", ".JobService/CreateJob")
"""How the names of methods end that create jobs."""
ENDING = (".JobService/StopJob", ".JobService/DeleteJob", ".JobManager/Delete", ".TaskManager/Stop")
"""Of methods that end services. One that stops some of the instances is not told from one that stops all."""


@dataclass(frozen=True, slots=True)
class Durations:
    """How long batch jobs run that a log names."""

    archived: Mapping[JobId, SimJob]
    """What is known of them from an archive."""
    assumed: float = 0.0
    """Seconds of those that no archive knows; 0: none are assumed."""

    def by_name(self) -> Mapping[str, float]:
        """Return the median seconds of the archived jobs of each name."""
        found: defaultdict[str, list[float]] = defaultdict(list)
        for job in self.archived.values():
            found[job.name].append(job.seconds)
        return {name: median(seconds) for name, seconds in found.items()}


NOTHING_KNOWN = Durations({})


def audited_jobs(path: Path, lines: Iterable[str], durations: Durations) -> Iterator[SimJob]:
    """Read the jobs that were created. Raises InvalidArgument where it is not known how long one ran."""
    created: dict[JobId, tuple[float, Mapping[str, Any], str]] = {}
    ended: dict[JobId, float] = {}
    last, names, unknown = 0.0, durations.by_name(), list[str]()
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        at, told, entry = _read(f"{path}:{number}", line)
        last = max(last, at)
        if entry.get("code") != "OK" or entry.get("refused") or not told.get("job"):
            continue
        if entry["method"].endswith(CREATING):  # one that was passed on is in the logs of two job managers
            created.setdefault(told["job"], (at, told, f"{path}:{number}"))
        elif entry["method"].endswith(ENDING):
            ended.setdefault(told["job"], at)
    for job_id, (at, told, where) in created.items():
        known = durations.archived.get(job_id)
        if known is not None:
            yield replace(known, submit=at)
            continue
        job = _job_of(told, at, where)
        if job.service:
            yield replace(job, seconds=max(0.0, ended.get(job_id, last) - at))
        elif seconds := names.get(job.name, durations.assumed):
            yield replace(job, seconds=seconds)
        else:
            unknown.append(job_id)
    if unknown:
        raise InvalidArgument(
            str(path),
            f"{plural(len(unknown), 'batch job')}, such as {unknown[0]}",
            "jobs that --archive has, or --assume for how many seconds those run that it has not",
        )


def is_audit_log(line: bytes) -> bool:
    """Return whether a file that begins so is an audit log."""
    return line.startswith(b'{"time": ') and b'"method": ' in line


def _read(where: str, line: str) -> tuple[float, Mapping[str, Any], Mapping[str, Any]]:
    try:
        entry = json.loads(line)
        told = entry.get("object", {})
        return datetime.fromisoformat(entry["time"]).timestamp(), told, {**entry, "method": entry["method"]}
    except (ValueError, KeyError, TypeError, AttributeError):
        raise InvalidArgument(where, line.strip()[:200], "a line of an audit log") from None


def _job_of(told: Mapping[str, Any], at: float, where: str) -> SimJob:
    asks = told.get("asks")
    if not isinstance(asks, dict) or not told.get("pool"):
        expected = "a creation with its pool and amounts, which logs have had since this release"
        raise InvalidArgument(where, told.get("job", ""), expected)
    try:
        return SimJob(
            name=str(told.get("name") or told["job"]),
            submit=at,
            pool=f"/{told['pool']}",
            resources=Resources.of(*(float(asks.get(kind, 0)) for kind in ("cpu", "memory", "disk", "gpu"))),
            seconds=0.0,
            instances=max(1, int(asks.get("instances", 1))),
            gang=bool(asks.get("gang", False)),
            needed=int(asks.get("needed", 0)),
            growth_interval=int(asks.get("growth_interval", GROWTH_INTERVAL_SECONDS)),
            in_place=bool(asks.get("in_place", False)),
            priority=int(asks.get("priority", 0)),
            preemptible=bool(asks.get("preemptible", False)),
            longest=int(asks.get("max_running_time", 0)),
            service=bool(asks.get("service", False)),
        )
    except (TypeError, ValueError):
        raise InvalidArgument(where, asks, "the amounts of a job, as numbers") from None
