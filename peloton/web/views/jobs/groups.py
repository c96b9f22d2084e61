"""Jobs that have not ended, grouped and counted by owner, pool, type, state or label."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlencode

from starlette.datastructures import QueryParams

from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.calls.web import QUERY_JOBS
from peloton.errors import InvalidArgument
from peloton.model.states import TERMINAL_JOB_STATES, JobState
from peloton.web.cluster import Calls
from peloton.web.pages import Page, Subject
from peloton.web.views.jobs.counts import counts
from peloton.web.views.jobs.pages import pools_of

BY = ("pool", "owner", "type", "state")
LABEL = "label:"
"""Before the key of a label by whose values jobs are grouped."""
MOST_KEYS = 50
"""Keys of labels that the form offers."""
MOST_GROUPS = 200
READ, PAGES_READ = 100, 10
"""Jobs that the job manager gives at a time, and how many times it is asked."""
AGE = 4.0
POLL_SECONDS = 5.0
NONE = "(none)"


@dataclass(slots=True)
class Group:
    """Jobs that have something in common."""

    name: str
    url: str = ""
    """The address of the list of them; empty where no search finds just them."""
    jobs: int = 0
    instances: int = 0
    stats: Counter[str] = field(default_factory=Counter)

    @property
    def counts(self) -> list[tuple[str, int]]:
        """How many instances are in each state."""
        return counts(self.stats, self.instances)


@dataclass(frozen=True, slots=True)
class Found:
    """The newest jobs that have not ended."""

    jobs: Sequence[job_pb2.JobSummary]
    total: int


def grouping(query: QueryParams) -> str:
    """Return what an address groups by. Raises InvalidArgument."""
    by = query.get("by") or BY[0]
    if by not in BY and not (by.startswith(LABEL) and len(by) > len(LABEL)):
        raise InvalidArgument("by", by, f"one of {', '.join(BY)}, or {LABEL} and the key of a label")
    return by


async def read_jobs(calls: Calls) -> Found:
    """Return the newest jobs that have not ended, READ * PAGES_READ at most. Raises PelotonError."""
    first = await calls.read(QUERY_JOBS, _request(0), AGE)
    total = first.pagination.total
    offsets = range(READ, min(total, READ * PAGES_READ), READ)
    others = await asyncio.gather(*(calls.read(QUERY_JOBS, _request(each), AGE) for each in offsets))
    # A job that begins between two of the calls moves another one to the next page.
    known = {job.id.value: job for answer in (first, *others) for job in answer.results}
    return Found(list(known.values()), max(total, len(known)))


def _request(offset: int) -> job_pb2.QueryRequest:
    page = query_pb2.PaginationSpec(offset=offset, limit=READ)
    page.orderBy.add(order=query_pb2.OrderBy.DESC).property.value = "creation_time"
    states = [
        job_pb2.JobState.Value(state.name)
        for state in JobState
        if state not in TERMINAL_JOB_STATES and state is not JobState.UNKNOWN
    ]
    return job_pb2.QueryRequest(spec=job_pb2.QuerySpec(jobStates=states, pagination=page), summaryOnly=True)


def groups(jobs: Iterable[job_pb2.JobSummary], by: str, paths: Mapping[str, str]) -> list[Group]:
    """Return jobs in groups, those with the most instances first; `paths` are those of pools by their ids."""
    found: dict[str, Group] = {}
    for job in jobs:
        name, url = _group_of(job, by, paths)
        group = found.setdefault(name, Group(name or NONE, url))
        group.jobs += 1
        group.instances += job.instanceCount
        group.stats.update(dict(job.runtime.taskStats))
    return sorted(found.values(), key=lambda each: (-each.instances, -each.jobs, each.name))


def _group_of(job: job_pb2.JobSummary, by: str, paths: Mapping[str, str]) -> tuple[str, str]:
    """Return the name of a job's group, empty for those without one, and the address of the list of it."""
    if by == "pool":
        path = paths.get(job.respoolID.value, job.respoolID.value)
        return path, _search(pool=path)
    if by == "owner":
        return job.owner, _search(owner=job.owner)
    if by == "type":
        return job_pb2.JobType.Name(job.type).lower(), ""
    if by == "state":
        name = job_pb2.JobState.Name(job.runtime.state)
        return name.lower(), _search(state=name)
    key = by.removeprefix(LABEL)
    value = next((label.value for label in job.labels if label.key == key), "")
    return value, _search(labels=f"{key}={value}" if "," not in f"{key}{value}" else "")


def _search(**of: str) -> str:
    (value,) = of.values()
    return f"/jobs?{urlencode(of)}" if value else ""


def label_keys(jobs: Iterable[job_pb2.JobSummary]) -> list[str]:
    """Return the keys of labels, the most used ones first, MOST_KEYS at most."""
    found = Counter(key for job in jobs for key in {label.key for label in job.labels})
    return [key for key, _ in sorted(found.items(), key=lambda each: (-each[1], each[0]))[:MOST_KEYS]]


async def load_groups(subject: Subject) -> Mapping[str, Any]:
    """Return the groups of jobs. Raises PelotonError."""
    by = grouping(subject.query)
    found, pools = await asyncio.gather(read_jobs(subject.calls), pools_of(subject.calls))
    made = groups(found.jobs, by, {pool.id.value: pool.path.value for pool in pools})
    return {
        "by": by,
        "choices": [*BY, *(LABEL + key for key in label_keys(found.jobs))],
        "groups": made[:MOST_GROUPS],
        "group_count": len(made),
        "read": len(found.jobs),
        "total": found.total,
    }


PAGES = (Page("/groups", "job_groups.html", load_groups, ("groups",), "Jobs", POLL_SECONDS),)
