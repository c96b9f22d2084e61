"""The pages of jobs: the list, a job, why it waits, its versions."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as pb
from peloton.calls.web import (
    CREATE_JOB,
    CREATE_JOB_V1ALPHA,
    EXPLAIN_JOB,
    GET_JOB,
    GET_JOB_ACCOUNT,
    GET_JOB_V1ALPHA,
    LIST_JOB_WORKFLOWS,
    LIST_TASKS,
    LIST_USED,
    QUERY_JOBS,
    QUERY_POOLS,
    QUERY_TASKS,
)
from peloton.errors import NotFound, PelotonError
from peloton.model.ids import is_uuid
from peloton.model.mean_use import LATELY_SECONDS, mean_use
from peloton.present.accounts import cpu_hint, memory_hint
from peloton.present.estimates import estimate_lines
from peloton.present.unused import lacking, unused
from peloton.present.why import task_query
from peloton.private.jobmgr.usage import usage_pb2
from peloton.private.resmgr.explain import explain_pb2
from peloton.web.cluster import Calls
from peloton.web.pages import Moved, Page, Subject
from peloton.web.permissions import Method, refusals
from peloton.web.views.jobs.actions import actions, methods_of
from peloton.web.views.jobs.events import job_events
from peloton.web.views.jobs.job import PAGE, JobHead, TaskRow, TaskSearch, TaskTable, job_head, task_table
from peloton.web.views.jobs.names import address_of, job_names, names_in
from peloton.web.views.jobs.search import PAGE as JOBS_PAGE
from peloton.web.views.jobs.search import SPANS, STATES, JobSearch, job_list
from peloton.web.views.jobs.start import start_of
from peloton.web.views.jobs.versions import chosen, compare, config_version, spec_yaml, versions
from peloton.web.views.jobs.why import Waiting, jobs_named, linked, waiting
from peloton.web.views.jobs.workflow import Workflow, workflow
from peloton.web.views.shared.timeline import Lane, Span, timeline
from peloton.web.views.shared.usage_charts import job_charts

CREATE_METHODS: Mapping[str, Method] = {"job": CREATE_JOB, "service": CREATE_JOB_V1ALPHA}
POOL_SECONDS = 10.0
"""How old the paths of pools may be."""
LARGE = 5000
"""Instances from which on what costs the managers a walk over all of them is read every LARGE_SECONDS."""
LARGE_SECONDS = 1.9
ACCOUNT_SECONDS = 10.0
"""How old the account of a job may be: the job manager walks over all its instances for it."""
WORKFLOWS = 20
"""Workflows of a job that are read for its events and versions."""


def creation_denied(denied: Mapping[str, str]) -> str:
    """Return why a user may create no job of any kind; empty where of some kind."""
    return next(iter(denied.values())) if len(denied) == len(CREATE_METHODS) else ""


async def pools_of(calls: Calls) -> Sequence[respool_pb2.ResourcePoolInfo]:
    """Return all pools; while the resource manager does not answer, as it told them last, if it ever did."""
    key, shared = ("pools of jobs", calls.auth), calls.cluster.shared
    before: Sequence[respool_pb2.ResourcePoolInfo] = shared.last(key) or ()
    return await shared.get(key, POOL_SECONDS, lambda: _pools(calls, before))


async def _pools(
    calls: Calls, before: Sequence[respool_pb2.ResourcePoolInfo]
) -> Sequence[respool_pb2.ResourcePoolInfo]:
    try:
        return (await calls.call(QUERY_POOLS, respool_pb2.QueryRequest())).resourcePools
    except PelotonError:
        return before


async def pool_of(calls: Calls, job: job_pb2.GetResponse) -> str:
    """Return the path of the pool of a job, empty where it is not known."""
    held = job.jobInfo.config.respoolID.value
    return next((each.path.value for each in await pools_of(calls) if each.id.value == held), "")


async def load_jobs(subject: Subject) -> Mapping[str, Any]:
    """Return a page of the jobs that a search finds."""
    search = JobSearch.of(subject.query)
    answer, pools, denied = await asyncio.gather(
        subject.calls.read(QUERY_JOBS, search.request(subject.now)),
        pools_of(subject.calls),
        refusals(subject.calls, CREATE_METHODS),
    )
    found = job_list(search, answer, pools)
    states = [*STATES, *(state for state in search.state if state not in STATES)]
    return {
        "jobs": found,
        "search": search,
        "states": states,
        "spans": SPANS,
        "size": JOBS_PAGE,
        "denied": creation_denied(denied),
        "names": await names_in(subject.calls, (job.reason for job in found.rows)),
    }


@dataclass(frozen=True, slots=True)
class Read:
    """A job as the job manager has it now."""

    job: job_pb2.JobInfo
    head: JobHead
    workflows: Sequence[stateless_pb2.WorkflowInfo]
    """Newest first."""
    workflow: Workflow | None
    """The one that runs, or ran last."""


async def read_job(calls: Calls, job_id: str, age: float | None = None) -> Read:
    """Read a job. Raises PelotonError."""
    v1alpha = peloton_pb2.JobID(value=job_id)
    got, summary, listed, pools = await asyncio.gather(
        calls.read(GET_JOB, job_pb2.GetRequest(id=v0_peloton.JobID(value=job_id)), age),
        calls.read(GET_JOB_V1ALPHA, pb.GetJobRequest(job_id=v1alpha, summary_only=True), age),
        calls.read(
            LIST_JOB_WORKFLOWS,
            pb.ListJobWorkflowsRequest(job_id=v1alpha, updates_limit=WORKFLOWS),
            age,
        ),
        pools_of(calls),
    )
    paths = {pool.id.value: pool.path.value for pool in pools}
    head = job_head(got.jobInfo, summary.summary.status.version.value, paths)
    infos = listed.workflow_infos
    return Read(got.jobInfo, head, infos, workflow(infos[0]) if infos else None)


async def load_job(subject: Subject) -> Mapping[str, Any]:
    """Return a job with a page of its instances."""
    job_id = subject.path["job_id"]
    if not is_uuid(job_id):
        raise Moved(await address_of(subject.calls, job_id))
    search = TaskSearch.of(job_id, subject.query)
    read, table, used = await asyncio.gather(
        read_job(subject.calls, job_id), _table(subject.calls, search), _account(subject.calls, job_id)
    )
    head = read.head
    denied = await refusals(subject.calls, methods_of(head), head.pool)
    if not search.narrow:
        table = replace(table, total=head.instances)
    return {
        "job": head,
        "workflow": read.workflow,
        "actions": (found := actions(head, read.workflow, denied)),
        "denials": [(each.label.rstrip("…"), each.refused) for each in found if each.denied],
        "waiting": await read_waiting(subject.calls, read.job),
        "table": table,
        "size": PAGE,
        "timeline": timeline(_lanes(table), subject.now),
        "events": job_events(head, read.workflows),
        "usage_charts": job_charts(used),
        "hints": _asks_for_more(head, used, subject.now),
        "search": search,
        "names": await names_in(subject.calls, (head.reason, *(row.reason for row in table.rows))),
    }


def _asks_for_more(head: JobHead, used: usage_pb2.GetJobAccountResponse, now: float) -> list[str]:
    """Return of what an instance asks for far more than it uses."""
    points = ((each.until, each.held_cores, each.used_cores) for each in used.course)
    mean = mean_use(points, used.course_begin, now - LATELY_SECONDS)
    cpu = cpu_hint(head.asked_cores, head.asked_cores * mean.part, mean.seconds)
    return [hint for hint in (cpu, memory_hint(head.asked_mb, used.memory_peak_mb)) if hint]


async def _account(calls: Calls, job_id: str) -> usage_pb2.GetJobAccountResponse:
    """Return what a job has held and used; nothing where the job manager does not tell."""
    request = usage_pb2.GetJobAccountRequest(job_id=peloton_pb2.JobID(value=job_id))
    try:
        return await calls.read(GET_JOB_ACCOUNT, request, ACCOUNT_SECONDS)
    except PelotonError:  # a job manager of an earlier version, or a user without the right
        return usage_pb2.GetJobAccountResponse()


async def _table(calls: Calls, search: TaskSearch) -> TaskTable:
    """Return a page of the instances. The job manager walks over all of them unless they are in order."""
    if search.narrow or search.sort != "instance_id":
        return task_table(search, await calls.read(QUERY_TASKS, search.request(), LARGE_SECONDS))
    first = (search.page - 1) * PAGE
    request = task_pb2.ListRequest(jobId=v0_peloton.JobID(value=search.job_id))
    setattr(request.range, "from", first)
    request.range.to = first + PAGE
    answer = await calls.read(LIST_TASKS, request)
    found = [answer.result.value[instance] for instance in sorted(answer.result.value)]
    return task_table(search, task_pb2.QueryResponse(records=found))


def _lanes(table: TaskTable) -> list[Lane]:
    return [Lane(str(row.instance), row.url, [_span(row)]) for row in table.rows if row.started]


def _span(row: TaskRow) -> Span:
    return Span(row.state, row.started, row.ended, f"instance {row.instance}, run {row.run} on {row.host}")


async def read_waiting(calls: Calls, job: job_pb2.JobInfo) -> list[Waiting]:
    """Return why the instances of a job wait; nothing where none does."""
    stats = job.runtime.taskStats
    groups: Sequence[explain_pb2.Group] = ()
    failure = ""
    if any(stats.get(name) for name in ("PENDING", "READY", "PLACING", "RESERVED", "PREEMPTING")):
        request = explain_pb2.ExplainJobRequest(job_id=job.id)
        age = LARGE_SECONDS if job.config.instanceCount > LARGE else None
        try:
            groups = (await calls.read(EXPLAIN_JOB, request, age)).groups
        except PelotonError as error:
            failure = f"the resource manager could not be asked: {error}"
    initialized: Sequence[task_pb2.TaskInfo] = ()
    if stats.get("INITIALIZED"):
        query = task_query(job.id.value, "INITIALIZED")
        initialized = (await calls.read(QUERY_TASKS, query, LARGE_SECONDS)).records
    kinds = {lacking(group.first) for group in groups} - {""}
    hints = await _hints(calls, job, kinds) if kinds else {}
    return await with_links(calls, waiting(job, groups, failure, initialized, hints))


async def _hints(calls: Calls, job: job_pb2.JobInfo, kinds: Iterable[str]) -> Mapping[str, Sequence[str]]:
    """Return who holds what of the job's pool that is not used, by kind; nothing where that is not known."""
    try:
        used = (await calls.read(LIST_USED, usage_pb2.ListUsedRequest(), ACCOUNT_SECONDS)).jobs
    except PelotonError:
        return {}
    return {kind: unused(kind, job.config.respoolID.value, used) for kind in kinds}


async def with_links(calls: Calls, waits: Sequence[Waiting]) -> list[Waiting]:
    """Name the jobs that others wait for."""
    names = await job_names(calls, jobs_named(waits))
    return [linked(each, names) for each in waits]


async def load_versions(subject: Subject) -> Mapping[str, Any]:
    """Return the versions of a job, and what differs between two of them."""
    job_id = subject.path["job_id"]
    read = await read_job(subject.calls, job_id)
    newest = config_version(read.head.entity_version)
    after = chosen(subject.query.get("to"), newest, newest)
    before = chosen(subject.query.get("from"), max(after - 1, 1), newest)
    texts = await asyncio.gather(_spec(subject.calls, job_id, before), _spec(subject.calls, job_id, after))
    missing = [number for number, text in zip((before, after), texts, strict=True) if text is None]
    compared = None if missing else compare(texts[0] or "", texts[1] or "")
    return {
        "job": read.head,
        "versions": versions(read.head.entity_version, read.workflows),
        "before": before,
        "after": after,
        "missing": missing,
        "compared": compared,
        "text": texts[1],
    }


async def _spec(calls: Calls, job_id: str, version: int) -> str | None:
    """Return a version of a job's spec as YAML, None where it is not stored any more."""
    try:
        return spec_yaml(await read_spec(calls, job_id, f"{version}-1-1"))
    except NotFound:
        return None


async def read_spec(calls: Calls, job_id: str, version: str) -> stateless_pb2.JobSpec:
    """Return the spec of a version. Raises NotFound where it is not stored any more."""
    request = pb.GetJobRequest(job_id=peloton_pb2.JobID(value=job_id))
    request.version.value = version
    return (await calls.read(GET_JOB_V1ALPHA, request, 10.0)).job_info.spec


async def load_start(subject: Subject) -> Mapping[str, Any]:
    """Return when the instances of a job that wait are likely to start."""
    job_id = subject.path["job_id"]
    read = await read_job(subject.calls, job_id)
    found = await start_of(subject.calls, job_id)
    return {"job": read.head, "lines": [] if found is None else estimate_lines(found)}


PAGES = (
    Page("/jobs", "jobs.html", load_jobs, live=("found",), nav="Jobs"),
    Page(
        "/jobs/{job_id}",
        "job.html",
        load_job,
        live=("state", "actions", "waiting", "workflow", "what", "usage", "timeline", "instances", "events"),
        nav="Jobs",
    ),
    Page("/jobs/{job_id}/start", "job_start.html", load_start, nav="Jobs"),
    Page("/jobs/{job_id}/versions", "job_versions.html", load_versions, live=("list",), nav="Jobs"),
)
