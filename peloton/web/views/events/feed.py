"""What has happened in the cluster: jobs, updates, preemptions and hosts, the newest first."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.calls.web import GET_PREEMPTIONS, LIST_HOST_CHANGES, LIST_JOB_WORKFLOWS, QUERY_JOBS
from peloton.clock import NANOSECONDS
from peloton.errors import PelotonError, Unauthenticated
from peloton.model.plural import plural
from peloton.model.states import TERMINAL_JOB_STATES, JobState
from peloton.private.hostmgr.history import history_pb2
from peloton.private.resmgr.monitoring import monitoring_pb2
from peloton.web.cluster import Calls
from peloton.web.formats import seconds_of
from peloton.web.views.hosts.reads import all_hosts
from peloton.web.views.hosts.rows import LOST, host_url
from peloton.web.views.jobs.names import job_names
from peloton.web.views.jobs.workflow import workflow
from peloton.web.views.shared.lines import lines, near

PAGE = 100
"""Events on a page, and of each kind that are read for it."""
MOST_PREEMPTIONS = 1000
"""Gangs that are read at a time: those of a job for one reason are one line."""
SERVICES = 30
"""The newest services whose updates are read: each is a call."""
WORKFLOWS = 10
AGE = 5.0
"""Seconds that what costs several calls may be old."""
YEAR = 366 * 86400
LIVE = (job_pb2.INITIALIZED, job_pb2.PENDING, job_pb2.RUNNING)
"""States of services that may be updated: one whose instances all fail or wait is PENDING."""


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened; the time is in seconds since 1970."""

    at: float
    kind: str
    """A key of KINDS."""
    subject: str
    url: str
    what: str
    state: str = ""
    count: int = 1
    """How many events of the subject are told as one."""


@dataclass(frozen=True, slots=True)
class Part:
    """The newest events of a source before a time."""

    events: Sequence[Event]
    whole: bool = True
    """Whether it has no earlier ones."""


Source = Callable[[Calls, float], Awaitable[Part]]
"""Reads a source. Raises PelotonError."""


@dataclass(frozen=True, slots=True)
class Feed:
    """A page of the events, and why some are not known."""

    events: Sequence[Event]
    troubles: Sequence[str] = ()
    earlier: float = 0.0
    """Before when the next page goes on; 0 where nothing is known to be earlier."""


async def jobs_begun(calls: Calls, before: float) -> Part:
    """Return the jobs that were created."""
    request = _query("creation_time")
    _range(request.spec.creationTimeRange, before)
    answer = await calls.read(QUERY_JOBS, request, AGE)
    events = [
        _of_job(
            job, seconds_of(job.runtime.creationTime), f"created, {plural(job.instanceCount, 'instance')}"
        )
        for job in answer.results
    ]
    return Part(events, len(events) < PAGE)


async def jobs_ended(calls: Calls, before: float) -> Part:
    """Return the jobs that have ended."""
    request = _query("completion_time")
    request.spec.jobStates.extend(
        job_pb2.JobState.Value(state.name) for state in TERMINAL_JOB_STATES if state is not JobState.DELETED
    )
    _range(request.spec.completionTimeRange, before)
    answer = await calls.read(QUERY_JOBS, request, AGE)
    events = [
        _of_job(
            job,
            seconds_of(job.runtime.completionTime),
            f"ended{f': {job.runtime.reason}' if job.runtime.reason else ''}",
            job_pb2.JobState.Name(job.runtime.state),
        )
        for job in answer.results
    ]
    return Part(events, len(events) < PAGE)


def _query(order: str) -> job_pb2.QueryRequest:
    page = query_pb2.PaginationSpec(limit=PAGE)
    page.orderBy.add(order=query_pb2.OrderBy.DESC).property.value = order
    return job_pb2.QueryRequest(spec=job_pb2.QuerySpec(pagination=page), summaryOnly=True)


def _range(target: v0_peloton.TimeRange, before: float) -> None:
    """Set the range of the year before a time."""
    target.min.FromSeconds(max(int(before) - YEAR, 0))
    target.max.FromNanoseconds(int(before * NANOSECONDS))


def _of_job(job: job_pb2.JobSummary, at: float, what: str, state: str = "") -> Event:
    return Event(at, "jobs", job.name or "(no name)", f"/jobs/{job.id.value}", what, state)


async def updates(calls: Calls, before: float) -> Part:
    """Return the updates and restarts of the newest services that have not ended."""
    request = _query("creation_time")
    request.spec.jobStates.extend(LIVE)
    found = [job for job in (await calls.read(QUERY_JOBS, request, AGE)).results if job.type != job_pb2.BATCH]

    async def one(job: job_pb2.JobSummary) -> list[Event]:
        wire = stateless_svc_pb2.ListJobWorkflowsRequest(
            job_id=peloton_pb2.JobID(value=job.id.value), updates_limit=WORKFLOWS
        )
        try:
            infos = (await calls.read(LIST_JOB_WORKFLOWS, wire, AGE)).workflow_infos
        except Unauthenticated:
            raise
        except PelotonError:  # a job that has just gone
            return []
        return [event for info in infos for event in _of_workflow(job, info)]

    each = await asyncio.gather(*map(one, found[:SERVICES]))
    return Part([replace(event, kind="updates") for some in each for event in some])


def _of_workflow(job: job_pb2.JobSummary, info: object) -> list[Event]:
    told = workflow(info)  # type: ignore[arg-type]
    if told is None or told.creates:
        return []
    name = f"{told.kind} from version {told.before} to {told.after}"
    steps = [_of_job(job, step.at, name, step.state) for step in told.steps]
    return steps or ([_of_job(job, told.created, f"{name} began", told.state)] if told.created else [])


async def preemptions(calls: Calls, before: float) -> Part:
    """Return what was preempted, gangs of a job for one reason together."""
    request = monitoring_pb2.GetPreemptionsRequest(limit=MOST_PREEMPTIONS, before=before)
    found = (await calls.read(GET_PREEMPTIONS, request, AGE)).preemptions
    names = await job_names(calls, {each.job_id.value for each in found})
    events = []
    for gang in found:
        job_id = gang.job_id.value
        whom = f" for {gang.benefits}" if gang.benefits else ""
        what = f"preempted in {gang.pool}{whom}: {gang.reason}"
        name = names.get(job_id) or job_id
        events.append(
            Event(seconds_of(gang.time), "preemptions", name, f"/jobs/{job_id}", what, count=gang.size)
        )
    told = [each for each in events if each.at < before]
    as_lines = [replace(some[0], count=sum(each.count for each in some)) for some in lines(told, _alike)]
    return Part(as_lines, len(found) < MOST_PREEMPTIONS)


def _alike(one: Event, other: Event) -> bool:
    same = replace(one, at=other.at, count=other.count) == other
    return same and near(one.at, other.at)


async def hosts(calls: Calls, before: float) -> Part:
    """Return the losses and the other changes of hosts."""
    request = history_pb2.ListChangesRequest(before=before, limit=PAGE)
    found = (await calls.read(LIST_HOST_CHANGES, request, AGE)).changes
    changes = [each for each in map(_of_change, found) if each is not None]
    told = {each.subject for each in changes if each.state == LOST}
    rows = (await all_hosts(calls)).rows
    lost = [
        Event(row.loss.since, "hosts", row.name, row.url, f"lost: {row.loss.reason}", LOST)
        for row in rows
        if row.loss is not None and row.name not in told and row.loss.since < before
    ]
    return Part(sorted([*changes, *lost], key=lambda each: -each.at), len(found) < PAGE)


def _of_change(found: history_pb2.HostChange) -> Event | None:
    """Return a change of a host as an event; None for a goal: its state follows."""
    change, name = found.change, found.hostname
    at, url = seconds_of(change.time), host_url(found.hostname)
    if change.kind == history_pb2.Change.KIND_STATE:
        return Event(at, "hosts", name, url, f"was {change.before.lower()}", change.after)
    if change.kind == history_pb2.Change.KIND_POOL:
        moved = f"moved from host pool {change.before} to {change.after}"
        return Event(at, "hosts", name, url, moved)
    if change.kind == history_pb2.Change.KIND_PRESENCE:
        if change.after == LOST:
            return Event(at, "hosts", name, url, f"lost: {change.reason}", LOST)
        return Event(at, "hosts", name, url, "is back")
    return None


SOURCES: dict[str, tuple[Source, ...]] = {
    "jobs": (jobs_begun, jobs_ended),
    "updates": (updates,),
    "preemptions": (preemptions,),
    "hosts": (hosts,),
}
"""What is read for each kind of event."""


async def read_feed(calls: Calls, kinds: Iterable[str], before: float) -> Feed:
    """Return a page of the events of some kinds before a time. Raises Unauthenticated."""
    sources = [source for kind in kinds for source in SOURCES[kind]]
    answers = await asyncio.gather(*(_or_why(source(calls, before)) for source in sources))
    parts = [part for part, _ in answers]
    # Of a source that has more, nothing is known from before its oldest event.
    known = max((part.events[-1].at for part in parts if not part.whole), default=0.0)
    found = [event for part in parts for event in part.events if 0 < event.at < before and event.at >= known]
    found.sort(key=lambda each: (-each.at, each.subject, each.what))
    shown = found[:PAGE]
    troubles = list(dict.fromkeys(trouble for _, trouble in answers if trouble))
    more = len(found) > PAGE or not all(part.whole for part in parts)
    return Feed(shown, troubles, shown[-1].at if more and shown else 0.0)


async def _or_why(work: Awaitable[Part]) -> tuple[Part, str]:
    try:
        return await work, ""
    except Unauthenticated:
        raise  # who has to log in is led to the login
    except PelotonError as error:
        return Part(()), str(error)
