"""The cluster as a whole, as text: bars and tables that fit on one screen."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from peloton.cli.colours import BOLD, GREEN, RED, YELLOW, styled
from peloton.cli.listing import Listing, listing
from peloton.cli.overview import KINDS, HostUse, Jobs, Overview
from peloton.cli.pool_amounts import amounts_listing
from peloton.model.amounts import plain
from peloton.present.owners import owner_lines
from peloton.present.problems import crash_loops
from peloton.present.texts import clean

BAR = 20
NARROW_COLUMNS, NARROW_BAR = 60, 8
"""Columns of a terminal below which bars are shorter."""
MOST_LINES = 8
"""Lines of what is wrong."""


def overview_text(found: Overview, *, colours: bool = False, terminal: int = 0) -> str:
    """Return the screen of `peloton status`, for a terminal with a number of columns; 0: for a file."""
    paint = styled if colours else (lambda text, style: text)
    size = NARROW_BAR if 0 < terminal < NARROW_COLUMNS else BAR
    lines = [paint("Daemons", BOLD)]
    for daemon in found.daemons:
        state = paint("ANSWERS", GREEN) if not daemon.failure else paint("FAILS", RED)
        lines.append(f"  {daemon.role:<8} {state:<12} {daemon.address}")
    if found.owners is not None:
        lines += ["", paint("Job managers that share the work", BOLD)]
        lines += [f"  {each}" for each in owner_lines(found.owners)]
    if found.hosts is not None and found.capacity is not None:
        lines += ["", f"{paint('Hosts', BOLD)}    {_counts(found.hosts) or 'none'}"]
        for kind in KINDS:
            total = found.capacity.total.get(kind, 0.0)
            if total:
                lines.append(f"  {kind:<7}{bar(found.capacity.used.get(kind, 0.0), total, size)}")
    if found.jobs is not None:
        tasks = _counts(found.jobs.tasks()) or "none"
        lines += [
            "",
            f"{paint('Jobs', BOLD)}     {_counts(found.jobs.counts) or 'none'}  (ended: last 7 days)",
        ]
        lines.append(f"{paint('Tasks', BOLD)}    {tasks}  (of active jobs)")
    if found.pools is not None:
        table = amounts_listing(found.pools, found.figures)
        lines += ["", *table.render(colours=colours, terminal=terminal).splitlines()]
    troubles = list(troubles_of(found))
    head = paint("Wrong now", YELLOW if troubles else BOLD)
    more = [f"  … and {len(troubles) - MOST_LINES} more"] if len(troubles) > MOST_LINES else []
    lines += [
        "",
        head,
        *(f"  {each}" for each in troubles[:MOST_LINES] or ["nothing that is seen here"]),
        *more,
    ]
    return "\n".join(lines)


def troubles_of(found: Overview) -> Iterator[str]:
    """Return what is wrong now, a line each, the most harmful first."""
    yield from (daemon.failure for daemon in found.daemons if daemon.failure)
    yield from (each.line for each in found.problems if each.level == "bad")
    yield from (f"host {host}" for host in found.away)
    if found.jobs is not None:
        yield from (each.line for each in crash_loops(found.jobs.looping, found.jobs.looping_total))
    yield from (each.line for each in found.problems if each.level != "bad")
    for job in found.jobs.failed if found.jobs is not None else ():
        counts = _counts(job.runtime.taskStats)
        yield f"job {job.id.value} {clean(job.name)} FAILED: {counts}; `peloton job why` says more"


def overview_plain(found: Overview) -> dict[str, Any]:
    """Return an overview as data for programs."""
    from peloton.present.plain import as_json

    capacity, jobs = found.capacity, found.jobs
    owners = {} if found.owners is None else {"owners": as_json(found.owners)}
    return {
        **owners,
        "daemons": [daemon.plain() for daemon in found.daemons],
        "hosts": dict(found.hosts) if found.hosts is not None else None,
        "hostsAway": list(found.away),
        "capacity": {"used": dict(capacity.used), "total": dict(capacity.total)} if capacity else None,
        "jobs": dict(jobs.counts) if jobs else None,
        "tasks": dict(jobs.tasks()) if jobs else None,
        "failedJobs": [as_json(job) for job in jobs.failed] if jobs else None,
        "problems": [
            {"level": each.level, "text": each.text, "remedy": each.remedy} for each in found.problems
        ],
        "pools": [as_json(pool) for pool in found.pools] if found.pools is not None else None,
        "poolFigures": [as_json(each) for each in found.figures.values()] if found.figures else None,
    }


def bar(used: float, total: float, size: int = BAR) -> str:
    """Return a bar with its numbers: `[#####...............]  25%  2 of 8`."""
    share = used / total if total else 0.0
    filled = min(size, round(share * size))
    if used > 0:
        filled = max(filled, 1)
    return f"[{'#' * filled}{'.' * (size - filled)}] {share:>4.0%}  {plain(used)} of {plain(total)}"


def job_listing(jobs: Jobs) -> Listing:
    """Return the active jobs, those with the most running tasks first."""
    from peloton.api.v0.job import job_pb2

    rows = []
    for job in sorted(jobs.active, key=lambda job: -job.runtime.taskStats.get("RUNNING", 0)):
        stats = job.runtime.taskStats
        rows.append(
            (
                job.id.value,
                job.name,
                job_pb2.JobState.Name(job.runtime.state),
                job.instanceCount,
                stats.get("RUNNING", 0),
                stats.get("PENDING", 0),
                sum(stats.get(name, 0) for name in ("SUCCEEDED", "FAILED", "KILLED", "LOST")),
            )
        )
    return listing(("ID", "Name", "State", "Instances", "Running", "Pending", "Ended"), rows)


def host_listing(hosts: Sequence[HostUse]) -> Listing:
    """Return the hosts, those with the most of their CPU in use first."""
    rows = []
    for host in sorted(hosts, key=lambda host: (-_share(host, "cpu"), host.name)):
        shares = (f"{_share(host, kind):.0%}" for kind in ("memory", "disk"))
        cpu = bar(host.amounts.used.get("cpu", 0.0), host.amounts.total.get("cpu", 0.0))
        rows.append((host.name, host.status, cpu, *shares))
    return listing(("Hostname", "Status", "CPU", "Memory", "Disk"), rows)


def _share(host: HostUse, kind: str) -> float:
    total = host.amounts.total.get(kind, 0.0)
    return host.amounts.used.get(kind, 0.0) / total if total else 0.0


def _counts(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items() if count)
