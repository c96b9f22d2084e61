"""What a text may name: jobs, tasks, hosts and pools, each as a line with the address of its page."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Iterable, Sequence
from dataclasses import dataclass
from urllib.parse import urlencode

from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.calls.web import GET_JOB_V1ALPHA, QUERY_JOBS
from peloton.errors import InvalidArgument, NotFound, PelotonError, Unauthenticated, shown
from peloton.model.ids import may_begin_id
from peloton.model.plural import plural
from peloton.model.states import JobState
from peloton.web.cluster import Calls
from peloton.web.views.hosts.reads import all_hosts
from peloton.web.views.hosts.rows import LOST
from peloton.web.views.pools.reads import all_pools

LONGEST_CHARACTERS = 200
MOST = 8
"""Lines of each kind."""
_TASK = re.compile(r"(?P<job>.+?)[-/ ](?P<instance>\d{1,9})", re.ASCII)
_RUN = re.compile(r"(?P<job>[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12})-(?P<instance>\d{1,9})-\d+")
_AGE = 3.0
"""Seconds: whoever types asks for much the same again."""


@dataclass(frozen=True, slots=True)
class Line:
    """Something that was found."""

    title: str
    url: str
    detail: str = ""
    state: str = ""
    exact: bool = False
    """Whether the text is its whole name, or its id."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What was found of a kind."""

    title: str
    lines: Sequence[Line] = ()
    total: int = 0
    all_url: str = ""
    """The address of the list of all that match; empty where there is none."""
    trouble: str = ""


async def found(calls: Calls, text: str) -> list[Kind]:
    """Return what a text names, by kinds; nothing for an empty text.

    Raises InvalidArgument, Unauthenticated.
    """
    if len(text) > LONGEST_CHARACTERS:
        raise InvalidArgument("q", shown(text), f"at most {LONGEST_CHARACTERS} characters")
    if not text:
        return []
    works = (("Jobs", _jobs(calls, text)), ("Tasks", _tasks(calls, text)))
    others = (("Hosts", _hosts(calls, text)), ("Pools", _pools(calls, text)))
    return list(await asyncio.gather(*(_or_why(title, work) for title, work in (*works, *others))))


def destination(kinds: Iterable[Kind]) -> str:
    """Return the address of what was meant without doubt; empty where there is a choice."""
    lines = [line for kind in kinds for line in kind.lines]
    exact = [line for line in lines if line.exact]
    only = exact if exact else lines
    return only[0].url if len(only) == 1 else ""


async def _or_why(title: str, work: Awaitable[Kind]) -> Kind:
    try:
        return await work
    except Unauthenticated:
        raise  # who has to log in is led to the login
    except PelotonError as error:
        return Kind(title, trouble=str(error))


async def _jobs(calls: Calls, text: str) -> Kind:
    """Return jobs whose name has the text, or whose id begins so; the newest first."""
    by_name = _query(name=text)
    found, named = await asyncio.gather(
        calls.read(QUERY_JOBS, by_name, _AGE),
        _referred(calls, text) if may_begin_id(text) else _nothing(),
    )
    ids = {job.id.value for job in found.results}
    jobs = [*(job for job in named if job.id.value not in ids), *found.results][:MOST]
    total = max(found.pagination.total, len(jobs))
    return Kind("Jobs", [_job(job, text) for job in jobs], total, f"/jobs?{urlencode({'name': text})}")


async def _referred(calls: Calls, text: str) -> Sequence[job_pb2.JobSummary]:
    return (await calls.read(QUERY_JOBS, _query(reference=text), _AGE)).results


async def _nothing() -> Sequence[job_pb2.JobSummary]:
    return ()


def _query(name: str = "", reference: str = "") -> job_pb2.QueryRequest:
    page = query_pb2.PaginationSpec(limit=MOST)
    page.orderBy.add(order=query_pb2.OrderBy.DESC).property.value = "creation_time"
    spec = job_pb2.QuerySpec(name=name, reference=reference, pagination=page)
    return job_pb2.QueryRequest(spec=spec, summaryOnly=True)


def _job(job: job_pb2.JobSummary, text: str) -> Line:
    owner = job.owningTeam or job.owner
    detail = f"{job.id.value[:8]} · {plural(job.instanceCount, 'instance')}{f' · {owner}' if owner else ''}"
    exact = text.lower() in (job.name.lower(), job.id.value)
    state = JobState(job.runtime.state).name
    return Line(job.name or "(no name)", f"/jobs/{job.id.value}", detail, state, exact)


async def _tasks(calls: Calls, text: str) -> Kind:
    """Return the instance that a text names: `JOB-INSTANCE`, JOB/INSTANCE, or the id of a run."""
    match = _RUN.fullmatch(text) or _TASK.fullmatch(text)
    if match is None:
        return Kind("Tasks")
    jobs, instance = await _referred(calls, match["job"].strip()), int(match["instance"])
    lines = []
    for job in jobs:
        if instance < await _instances(calls, job):
            url = f"/jobs/{job.id.value}/instances/{instance}"
            title = f"{job.name or '(no name)'}, instance {instance}"
            lines.append(Line(title, url, job.id.value[:8], exact=True))
    return Kind("Tasks", lines, len(lines))


async def _instances(calls: Calls, job: job_pb2.JobSummary) -> int:
    """Return how many instances a job has or had; those of a daemon job are in the job alone."""
    if job.instanceCount:
        return int(job.instanceCount) + int(job.runtime.releasedInstances)
    request = stateless_svc_pb2.GetJobRequest(job_id=peloton_pb2.JobID(value=job.id.value), summary_only=True)
    try:
        return int((await calls.read(GET_JOB_V1ALPHA, request, _AGE)).summary.instance_count)
    except NotFound:
        return 0


async def _hosts(calls: Calls, text: str) -> Kind:
    wanted = text.lower()
    rows = [row for row in (await all_hosts(calls)).rows if wanted in row.name.lower()]
    rows.sort(key=lambda row: (row.name.lower() != wanted, not row.name.lower().startswith(wanted), row.name))
    lines = [
        Line(row.name, row.url, row.pool, LOST if row.loss else row.state, row.name.lower() == wanted)
        for row in rows[:MOST]
    ]
    return Kind("Hosts", lines, len(rows), f"/hosts?{urlencode({'q': text})}")


async def _pools(calls: Calls, text: str) -> Kind:
    wanted = text.lower()
    rows = [row for row in await all_pools(calls) if wanted in row.path.lower()]
    rows.sort(key=lambda row: (row.path.lower() != wanted, row.path.count("/"), row.path))
    lines = [
        Line(row.path, row.url, plural(row.tasks, "task"), exact=row.path.lower() == wanted)
        for row in rows[:MOST]
    ]
    return Kind("Pools", lines, len(rows), f"/pools?{urlencode({'q': text})}")
