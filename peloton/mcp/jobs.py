"""The tools that read jobs and their instances."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.cli.explain_client import explain_job, explain_task
from peloton.cli.logs import JobmgrFile, Logs
from peloton.cli.overview import read_pools
from peloton.cli.queries import JobQuery
from peloton.cli.references import only_job
from peloton.cli.session import Session
from peloton.cli.usage import left_out, read_usage
from peloton.client.rpcs import RPCS
from peloton.errors import InvalidArgument, PelotonError
from peloton.mcp import answers
from peloton.mcp.bounds import AnyPool, Instance, JobName, LogBytes, Name, Names, Rows, Skip
from peloton.mcp.hiding import shown
from peloton.model.spans import spans
from peloton.model.states import JobState, TaskState
from peloton.present.plain import yaml_text
from peloton.present.remedies import remedies, remedies_before_resmgr
from peloton.present.texts import clean
from peloton.present.times import rfc3339, short_time
from peloton.present.usage import BYTES_PER_MB, usage_text
from peloton.web.views.jobs.job import asks_of, sla_terms
from peloton.web.views.jobs.workflow import workflow

if TYPE_CHECKING:
    from peloton.api.v1alpha.job.stateless.stateless_pb2 import WorkflowInfo
    from peloton.present.why import Group
    from peloton.private.resmgr.explain.explain_pb2 import Share

MOST_SPEC_CHARACTERS = 50_000
MOST_GROUPS = 50
WORKFLOWS = 5
MOST_FORWARD_BYTES = 16 * 1024 * 1024
"""Bytes of a file that are read from its beginning, where nothing tells its size."""
NANOSECONDS = 10**9


def find_jobs(
    session: Session,
    name: Annotated[
        Name, Field(description="a part of the name; * stands for any text, ? for a character")
    ] = "",
    pool: AnyPool = "",
    team: Annotated[Name, Field(description="owningTeam of the jobs; empty: all")] = "",
    states: Annotated[
        Names, Field(description="PENDING, RUNNING, SUCCEEDED, FAILED, KILLED, INITIALIZED; empty: all")
    ] = [],  # noqa: B006 - a schema's default, never changed
    labels: Annotated[dict[str, str], Field(max_length=20, description="labels that the jobs have")] = {},  # noqa: B006
    limit: Rows = 20,
    skip: Skip = 0,
) -> answers.Jobs:
    """List jobs, the newest first: their states, and how many instances are in which state.

    Ended jobs are found for 7 days.
    """
    query = JobQuery(
        labels=list(labels.items()),
        respool=pool,
        states=[_number(JobState, each) for each in states],
        owner=team,
        name=name,
        limit=limit,
        total=0,
        offset=skip,
    )
    found = session.call(RPCS.job_svc.Query, query.request())
    paths = pool_paths(session)
    return answers.Jobs(jobs=[_row(job, paths) for job in found.results], total=found.pagination.total)


def get_job(session: Session, job: JobName) -> answers.Job:
    """Show a job: its spec, what an instance asks for, its instances by state, and its last updates."""
    job_id = only_job(session, job)
    info = session.call(RPCS.job_svc.Get, job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))).jobInfo
    config, runtime = info.config, info.runtime
    text = yaml_text(_bare(shown(config)))
    return answers.Job(
        id=job_id,
        name=config.name,
        type=job_pb2.JobType.Name(config.type),
        state=job_pb2.JobState.Name(runtime.state),
        goal=job_pb2.JobState.Name(runtime.goalState),
        team=config.owningTeam,
        owner=config.owner,
        pool=pool_paths(session).get(config.respoolID.value, config.respoolID.value),
        instances=config.instanceCount,
        tasks=_counts(runtime.taskStats),
        created=short_time(runtime.creationTime),
        completed=short_time(runtime.completionTime),
        labels={label.key: label.value for label in config.labels},
        entity_version=entity_version(session, job_id),
        reason=clean(runtime.reason),
        asks=dict(asks_of(config.defaultConfig)),
        sla=dict(sla_terms(config)),
        spec=text[:MOST_SPEC_CHARACTERS],
        spec_cut=len(text) > MOST_SPEC_CHARACTERS,
        updates=[_update(each) for each in workflows(session, job_id, WORKFLOWS)],
    )


def list_tasks(
    session: Session,
    job: JobName,
    states: Annotated[Names, Field(description="such as RUNNING, PENDING, FAILED; empty: all")] = [],  # noqa: B006
    hosts: Annotated[Names, Field(description="only on these hosts; empty: all")] = [],  # noqa: B006
    limit: Rows = 50,
    skip: Skip = 0,
) -> answers.Tasks:
    """List the instances of a job in order: state, host, times, exit code, message and reason of the run."""
    job_id = only_job(session, job)
    spec = task_pb2.QuerySpec(
        taskStates=[task_pb2.TaskState.ValueType(_number(TaskState, each)) for each in states],
        hosts=hosts,
        pagination=query_pb2.PaginationSpec(offset=skip, limit=limit),
    )
    request = task_pb2.QueryRequest(jobId=peloton_pb2.JobID(value=job_id), spec=spec)
    found = session.call(RPCS.task_svc.Query, request)
    return answers.Tasks(job_id=job_id, tasks=list(map(_task, found.records)), total=found.pagination.total)


def why_job(session: Session, job: JobName) -> answers.JobWhy:
    """Explain the states of a job's instances: how many wait for what, what would start them, how they ended.

    Amounts of pools are in cores, MB and devices.
    """
    explained = explain_job(session, only_job(session, job))
    found = explained.job
    return answers.JobWhy(
        job_id=found.id.value,
        summary=job_head_text(found),
        reason=clean(found.runtime.reason),
        groups=[_group(group, found) for group in explained.groups[:MOST_GROUPS]],
    )


def why_task(session: Session, job: JobName, instance: Instance) -> answers.TaskWhy:
    """Explain the state of one instance: what it waits for, what would start it, or how it ended."""
    job_id = only_job(session, job)
    explained = explain_task(session, job_id, instance)
    helps: list[str] = []
    if explained.found is not None:
        helps = remedies(explained.found)
    elif explained.why.state == "INITIALIZED":
        info = session.call(RPCS.job_svc.Get, job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))).jobInfo
        helps = remedies_before_resmgr(info, explained.why.cause)
    return answers.TaskWhy(
        job_id=job_id,
        instance=instance,
        state=explained.why.state,
        cause=explained.why.cause,
        count=1,
        instances=str(instance),
        details=list(explained.why.lines),
        what_would_help=helps,
        pools=_shares(explained.why.shares),
    )


def task_logs(
    session: Session,
    job: JobName,
    instance: Instance = 0,
    file: Annotated[Name, Field(description="stdout, stderr, or another file of the sandbox")] = "stdout",
    run: Annotated[
        Name, Field(description="a Mesos task id or the number of a run; empty: the current run")
    ] = "",
    last_bytes: LogBytes = 8192,
) -> answers.Log:
    """Read the end of what an instance wrote, from the host where the run was."""
    job_id = only_job(session, job)
    run_id = f"{job_id}-{instance}-{run}" if run.isascii() and run.isdecimal() else run
    logs = Logs(session, job_id, instance, run_id, file, write=len, note=len, patience=session.timeout)
    held = logs.opened()
    if isinstance(held, JobmgrFile):
        data, size = _tail(held, last_bytes)
    else:
        size = held.size()
        data = b"".join(_from(held, max(0, size - last_bytes), last_bytes))
    return answers.Log(
        job_id=job_id,
        instance=instance,
        run=run_id,
        file=file,
        text=data.decode("utf-8", "replace"),
        size=size,
        begins_at=max(0, size - len(data)),
    )


def task_events(
    session: Session,
    job: JobName,
    instance: Instance = 0,
    runs: Annotated[int, Field(ge=1, le=20, description="how many of the last runs")] = 3,
    limit: Rows = 50,
) -> answers.Events:
    """List what became of the last runs of an instance: each state with time, host, message and reason."""
    job_id = only_job(session, job)
    request = task_pb2.GetPodEventsRequest(
        jobId=peloton_pb2.JobID(value=job_id), instanceId=instance, limit=runs
    )
    found = session.call(RPCS.task_svc.GetPodEvents, request).result
    return answers.Events(
        job_id=job_id,
        instance=instance,
        events=[
            answers.Event(
                time=short_time(event.timestamp),
                run=event.taskId.value.rpartition("-")[2],
                state=event.actualState,
                goal=event.goalState,
                host=event.hostname,
                message=clean(event.message),
                reason=clean(event.reason),
            )
            for event in found[:limit]
        ],
        cut=len(found) > limit,
    )


def job_usage(session: Session, job: JobName, limit: Rows = 50) -> answers.Usages:
    """Show what the running instances of a job use now: cores on average, MB of memory now and at most."""
    job_id = only_job(session, job)
    found = read_usage(session, job_id)
    return answers.Usages(
        job_id=job_id,
        usages=[
            answers.Usage(
                instance=each.instance,
                host=each.host,
                cpu_mean=each.cpu_mean,
                cpu_limit=each.cpu_limit,
                memory=each.memory_bytes / BYTES_PER_MB,
                memory_peak=each.memory_peak_bytes / BYTES_PER_MB,
                memory_limit=each.memory_limit_bytes / BYTES_PER_MB,
                text=usage_text(each),
            )
            for each in found.usages[:limit]
        ],
        missing=[
            *left_out(found),
            *([f"only the first {limit} are shown"] if len(found.usages) > limit else []),
        ],
    )


JOB_TOOLS = (find_jobs, get_job, list_tasks, why_job, why_task, task_logs, task_events, job_usage)


# What other tools need, too.


def entity_version(session: Session, job_id: str) -> str:
    """Return what changes with each change of a job. Raises CallFailed."""
    from peloton.cli.versions import present

    return str(present(session, job_id).version.value)


def workflows(session: Session, job_id: str, limit: int) -> Iterable[WorkflowInfo]:
    """Return the last updates and restarts of a job, the newest first."""
    request = stateless_svc_pb2.ListJobWorkflowsRequest(
        job_id=v1alpha.JobID(value=job_id), updates_limit=limit
    )
    return session.call(RPCS.stateless_svc.ListJobWorkflows, request).workflow_infos


def pool_paths(session: Session) -> dict[str, str]:
    """Return the paths of pools by their ids; nothing where the resource manager does not answer."""
    with suppress(PelotonError):
        return {pool.id.value: pool.path.value for pool in read_pools(session)}
    return {}


def job_head_text(job: job_pb2.JobInfo) -> str:
    """Return what a job is in one line."""
    from peloton.present.why import job_head

    return job_head(job)


def _number(states: Any, name: str) -> int:
    """Return the number of a state. Raises InvalidArgument."""
    found = states.__members__.get(name.upper())
    if found is None:
        raise InvalidArgument("states", name, f"one of {', '.join(states.__members__)}")
    return int(found)


def _counts(stats: Any) -> dict[str, int]:
    return {name: count for name, count in sorted(stats.items()) if count}


def _row(job: job_pb2.JobSummary, paths: dict[str, str]) -> answers.JobRow:
    runtime = job.runtime
    return answers.JobRow(
        id=job.id.value,
        name=job.name,
        type=job_pb2.JobType.Name(job.type),
        state=job_pb2.JobState.Name(runtime.state),
        goal=job_pb2.JobState.Name(runtime.goalState),
        team=job.owningTeam,
        owner=job.owner,
        pool=paths.get(job.respoolID.value, job.respoolID.value),
        instances=job.instanceCount,
        tasks=_counts(runtime.taskStats),
        created=short_time(runtime.creationTime),
        completed=short_time(runtime.completionTime),
        labels={label.key: label.value for label in job.labels},
    )


def _bare(config: job_pb2.JobConfig) -> job_pb2.JobConfig:
    config.ClearField("changeLog")
    return config


def _update(info: WorkflowInfo) -> answers.Update:
    found = workflow(info)
    assert found is not None, "the job manager lists none without a state"
    created, updated = (rfc3339(int(at * NANOSECONDS)) for at in (found.created, found.updated))
    return answers.Update(
        kind=found.kind,
        state=found.state,
        done=found.done,
        failed=found.failed,
        left=found.left,
        before=found.before,
        after=found.after,
        created=short_time(created),
        updated=short_time(updated),
    )


def _task(task: task_pb2.TaskInfo) -> answers.Task:
    runtime = task.runtime
    end = runtime.terminationStatus
    known = bool(end.exit_code) or TaskState(runtime.state) is TaskState.SUCCEEDED
    return answers.Task(
        instance=task.instanceId,
        state=task_pb2.TaskState.Name(runtime.state),
        goal=task_pb2.TaskState.Name(runtime.goalState),
        host=runtime.host,
        run=runtime.mesosTaskId.value,
        failures=runtime.failureCount,
        healthy=task_pb2.HealthState.Name(runtime.healthy) if runtime.healthy else "",
        started=short_time(runtime.startTime),
        completed=short_time(runtime.completionTime),
        exit_code=end.exit_code if known else None,
        message=clean(runtime.message),
        reason=clean(runtime.reason),
    )


def _group(group: Group, job: job_pb2.JobInfo) -> answers.WhyGroup:
    first = group.first
    return answers.WhyGroup(
        state=group.state,
        cause=group.cause,
        count=group.count,
        instances=spans(group.instances) if group.instances else "",
        details=list(group.lines),
        what_would_help=remedies_before_resmgr(job, group.cause) if first is None else remedies(first),
        pools=_shares(group.shares),
    )


def _shares(shares: Iterable[Share]) -> list[answers.PoolShare]:
    return [
        answers.PoolShare(
            pool=each.pool,
            kind=f"slack {each.kind}" if each.slack else each.kind,
            allocation=each.allocation,
            entitlement=each.entitlement,
            demand=each.demand,
            reservation=each.reservation,
            limit=each.limit,
            hosts=each.hosts,
        )
        for each in shares
    ]


def _from(file: Any, offset: int, most: int) -> Iterable[bytes]:
    """Yield up to `most` bytes of a file."""
    left = most
    while left > 0 and (piece := file.read(offset)):
        yield piece[:left]
        offset, left = offset + len(piece), left - len(piece)


def _tail(file: JobmgrFile, most: int) -> tuple[bytes, int]:
    """Return the end of a file, and its size, where the file is read from its beginning only."""
    held, size = b"", 0
    while size < MOST_FORWARD_BYTES and (piece := file.read(size)):
        size += len(piece)
        held = (held + piece)[-most:]
    return held, size
