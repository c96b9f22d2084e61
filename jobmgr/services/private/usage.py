"""UsageService: what running tasks use, as their agents tell it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from jobmgr.core.accounting import account
from jobmgr.core.job_courses import JobCourses
from jobmgr.core.state.cache import CachedJob
from jobmgr.engine.engine import Engine
from jobmgr.ports.hostmgr import Agents
from jobmgr.services.common.account_reads import OpenHour, Question, read_accounts, span_of
from jobmgr.services.common.agent_http import AgentHttp
from jobmgr.services.common.reach import paths_of_pools, reach
from jobmgr.services.common.sandbox import address_of
from jobmgr.services.common.told_usage import told_last
from jobmgr.services.common.used_now import asked_cores, asked_mb, peak_mb, used_now
from jobmgr.services.common.view import JobView, view
from peloton.api.v0 import peloton_pb2 as v0_peloton
from peloton.clock import NANOSECONDS, Clock, SystemClock
from peloton.errors import InvalidArgument, NotFound, PelotonError
from peloton.mesos.agent_usage import ContainerUsage, containers_path, usages
from peloton.model.accounting import (
    DAY_SECONDS,
    HOUR_SECONDS,
    MICRO,
    NOTHING,
    Amounts,
    PeriodUsage,
    amounts_of,
)
from peloton.model.amounts import duration
from peloton.model.cluster import cluster_of
from peloton.model.ids import JobId, MesosTaskId, PoolId, mesos_task_id
from peloton.model.job import JobRuntime
from peloton.model.mean_use import LATELY_SECONDS, mean_use
from peloton.model.resources import MILLI
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime
from peloton.model.usage import PEAK_MEMORY
from peloton.private.jobmgr.usage import usage_pb2 as pb
from peloton.private.jobmgr.usage import usage_pb2_grpc
from storage.histories.courses import Span

MOST_HOSTS = 64
MOST_SINGLE = 64
"""Instances up to which each is looked up by itself: a walk over a job of 100,000 takes a second."""
LONGEST_SECONDS = 10.0
JOBS_AT_ONCE = 200
"""Jobs whose mean use is computed before other work is done."""
Host = tuple[str, str]
"""A hostname and the id of its agent."""


class UsageService(usage_pb2_grpc.UsageServiceServicer):
    """Asks agents what tasks use."""

    def __init__(
        self,
        engine: Engine,
        hostmgr: Callable[[str], Agents],
        http: AgentHttp,
        open_hour: OpenHour | None = None,
        clock: Clock | None = None,
    ) -> None:
        """Get the agents of a Mesos cluster by `hostmgr`, which receives the cluster's name.

        `open_hour` has the account of the hour that is open; None: there is none.
        """
        self._engine = engine
        self._open_hour = open_hour or _NoHour()
        self._clock = clock or SystemClock()
        self._hostmgr = hostmgr
        self._http = http

    async def GetUsage(self, request: pb.GetUsageRequest, context: object) -> pb.GetUsageResponse:
        """Return what running instances use. Raises NotFound, InvalidArgument."""
        if request.with_course and len(request.instances) != 1:
            raise InvalidArgument("with_course", True, "for one instance only")
        job = await view(self._engine, request.job_id.value)
        if request.told_last:
            told = () if job.cached is None else told_last(job.cached, request.instances)
            return pb.GetUsageResponse(usages=told)
        running = await _running(job, request.instances)
        answer = pb.GetUsageResponse(running=len(running))
        hosts = list(dict.fromkeys((task.host, task.agent_id) for task in running.values()))
        read: dict[Host, Mapping[MesosTaskId, ContainerUsage]] = {}
        for host, found in zip(hosts, await self._all(hosts[:MOST_HOSTS]), strict=False):
            if isinstance(found, str):
                answer.unread.add(host=host[0], reason=found)
            else:
                read[host] = found
        for host in hosts[MOST_HOSTS:]:
            answer.unread.add(host=host[0], reason=f"not asked: at most {MOST_HOSTS} hosts are at a time")
        for instance, task in running.items():
            run = mesos_task_id(job.job_id, instance, task.run)
            usage = read.get((task.host, task.agent_id), {}).get(run)
            if usage is not None:
                answer.usages.append(_row(instance, run, task, usage))
                if request.with_course and job.cached is not None:
                    _add_course(answer.usages[-1], job.cached, instance)
        return answer

    async def ListLosses(self, request: pb.ListLossesRequest, context: object) -> pb.ListLossesResponse:
        """Return the seconds of work that jobs have lost, by pool."""
        mine = reach()
        paths = await paths_of_pools(self._engine)
        answer = pb.ListLossesResponse()
        for pool_id, seconds in sorted((await self._engine.lost_seconds()).items()):
            if mine.has_jobs_in(paths.get(pool_id, "")):
                answer.losses.add(pool_id=v0_peloton.ResourcePoolID(value=pool_id), seconds=seconds)
        return answer

    async def ListAccounts(self, request: pb.ListAccountsRequest, context: object) -> pb.ListAccountsResponse:
        """Return what jobs have held, used and lost, by hours and groups. Raises InvalidArgument."""
        now = self._clock.wall() // NANOSECONDS
        if request.seconds not in (0, HOUR_SECONDS, DAY_SECONDS):
            raise InvalidArgument("seconds", request.seconds, f"0, {HOUR_SECONDS} or {DAY_SECONDS}")
        keys, key = set(request.by), pb.ListAccountsRequest
        asked = Question(
            span_of(request.since, request.until, now),
            key.POOL in keys,
            key.OWNER in keys,
            key.LABELS in keys,
            request.seconds,
        )
        mine, paths = reach(), await paths_of_pools(self._engine)
        if request.pool and request.pool not in paths.values():
            raise NotFound(f"there is no pool {request.pool}")

        def allowed(pool_id: PoolId) -> bool:
            path = paths.get(pool_id, "")
            return mine.has_jobs_in(path) and (not request.pool or _is_within(path, request.pool))

        span, found = await read_accounts(self._engine.store.usage, self._open_hour, asked, allowed, now)
        answer = pb.ListAccountsResponse(since=span.since, until=span.until)
        for (start, pool_id, owner, labels), amounts in found.items():
            answer.accounts.add(
                start=start,
                pool=paths.get(pool_id, ""),
                pool_id=pool_id,
                owner=owner,
                labels=dict(labels),
                amounts=_amounts_to(amounts),
            )
        return answer

    async def GetJobAccount(
        self, request: pb.GetJobAccountRequest, context: object
    ) -> pb.GetJobAccountResponse:
        """Return the account of a job by hours. Raises NotFound."""
        job, now = await view(self._engine, request.job_id.value), self._clock.wall()
        rows = await self._engine.store.usage.of_job(job.job_id, 0)
        live = self._engine.job(job.job_id)
        usage = job.runtime.resource_usage if live is None else live.runtime.resource_usage
        total = amounts_of(usage) if live is None else account(live, now)
        peak = usage.get(PEAK_MEMORY, 0.0) if live is None else peak_mb(live)
        hours = {row.hour: row.amounts for row in rows}
        rest = total.minus(rows[-1].total if rows else NOTHING)
        if rest != NOTHING:
            hour = now // NANOSECONDS // HOUR_SECONDS * HOUR_SECONDS
            hours[hour] = hours.get(hour, NOTHING).plus(rest)
        answer = pb.GetJobAccountResponse(total=_amounts_to(total), memory_peak_mb=peak)
        for start in sorted(hours):
            answer.hours.add(start=start, amounts=_amounts_to(hours[start]))
        await self._add_course_of_job(answer, job.job_id, job.runtime, now / NANOSECONDS)
        return answer

    async def _add_course_of_job(
        self, answer: pb.GetJobAccountResponse, job_id: JobId, runtime: JobRuntime, now: float
    ) -> None:
        """Add what a job has held and used over time: what is stored, then what is in memory."""
        courses = self._open_hour.courses
        begin, created = courses.begin(job_id), runtime.creation_time / NANOSECONDS
        until = begin or runtime.completion_time / NANOSECONDS or now
        earlier = await self._open_hour.history.read(job_id, created, until, before=begin > 0)
        answer.course_begin = earlier[0].since if earlier else begin
        answer.course.extend(_points((span.until, span.amounts) for span in earlier))
        answer.course.extend(_points(courses.points(job_id)))

    async def ListUsed(self, request: pb.ListUsedRequest, context: object) -> pb.ListUsedResponse:
        """Return what the runs of active jobs use."""
        mine, paths = reach(), await paths_of_pools(self._engine)

        def allowed(job: CachedJob) -> bool:
            return mine.has(job.job_id, job.spec, paths)

        answer = pb.ListUsedResponse()
        courses, lately = self._open_hour.courses, self._clock.wall() / NANOSECONDS - LATELY_SECONDS
        for number, each in enumerate(await used_now(self._wanted(request.job_id), allowed), start=1):
            points = ((until, held, used) for until, (held, used, *_) in courses.points(each.job.job_id))
            mean = mean_use(points, courses.begin(each.job.job_id), lately)
            cores = asked_cores(each.job.spec)
            answer.jobs.add(
                job_id=each.job.job_id,
                pool_id=each.job.spec.pool_id,
                cores=each.cores,
                memory_bytes=each.memory,
                runs=each.runs,
                memory_peak_mb=peak_mb(each.job),
                memory_asked_mb=asked_mb(each.job.spec),
                name=each.job.spec.name,
                cores_asked=cores,
                cores_mean=cores * mean.part,
                mean_seconds=mean.seconds,
            )
            if not number % JOBS_AT_ONCE:
                await asyncio.sleep(0)
        return answer

    def _wanted(self, job_id: str) -> Iterable[CachedJob]:
        """Return the job of an id, if it is in memory; all that are for an empty one."""
        if not job_id:
            return self._engine.lanes.in_memory()
        job = self._engine.job(JobId(job_id))
        return () if job is None else (job,)

    async def _all(self, hosts: list[Host]) -> list[Mapping[MesosTaskId, ContainerUsage] | str]:
        """Ask agents; return what each tells, or why that is not known."""
        asked = [asyncio.ensure_future(self._of(host)) for host in hosts]
        if not asked:
            return []
        _, late = await asyncio.wait(asked, timeout=LONGEST_SECONDS)
        for each in late:
            each.cancel()
        await asyncio.gather(*late, return_exceptions=True)
        slow = f"no answer within {duration(LONGEST_SECONDS)}"
        return [slow if each.cancelled() else each.result() for each in asked]

    async def _of(self, host: Host) -> Mapping[MesosTaskId, ContainerUsage] | str:
        hostname, agent_id = host
        try:
            agents = await self._hostmgr(cluster_of(hostname)).agents(hostname)
            agent = next((each for each in agents if each.id == agent_id), None)
            if agent is None:
                return f"its agent {agent_id} is gone"
            address = ":".join(address_of(agent))
            return usages(await self._http.get(address, containers_path(agent.pid)), address)
        except PelotonError as error:
            return str(error)


class _NoPast:
    async def read(self, job_id: JobId, since: float, until: float, before: bool) -> Sequence[Span]:
        return ()


class _NoHour:
    courses = JobCourses()
    history = _NoPast()

    async def open_periods(self) -> Sequence[PeriodUsage]:
        return ()


def _is_within(path: str, pool: str) -> bool:
    return path == pool or path.startswith(f"{pool.rstrip('/')}/")


def _points(points: Iterable[tuple[float, Sequence[float]]]) -> Iterator[pb.CoursePoint]:
    for until, (held_cores, used_cores, held_mb, used_mb) in points:
        yield pb.CoursePoint(
            until=until, held_cores=held_cores, used_cores=used_cores, held_mb=held_mb, used_mb=used_mb
        )


def _add_course(usage: pb.InstanceUsage, job: CachedJob, instance: int) -> None:
    """Add what an instance has used over time, beside what it asks for."""
    sample = job.samples.get(instance)
    if sample is None:
        return
    asked = job.task_spec(instance).resources
    cores, memory = asked.cpu / MILLI, asked.memory / MILLI
    told = sample.course.points()
    usage.course_begin = sample.course.begin
    usage.course.extend(_points((until, (cores, used[0], memory, used[1])) for until, used in told))


def _amounts_to(amounts: Amounts) -> pb.Amounts:
    return pb.Amounts(**{name: value / MICRO for name, value in amounts._asdict().items()})


async def _running(job: JobView, instances: Iterable[int]) -> dict[int, TaskRuntime]:
    """Return the running instances among those that a request names. Raises InvalidArgument."""
    wanted = set(instances)
    beyond = next((each for each in sorted(wanted) if each >= job.size), None)
    if beyond is not None:
        raise InvalidArgument("instances", beyond, f"instances of the job, which has {job.size}")
    parts = (
        [(each, each + 1) for each in sorted(wanted)] if 0 < len(wanted) <= MOST_SINGLE else [(0, job.size)]
    )
    return {
        instance: task
        for first, end in parts
        async for instance, task in job.tasks(first, end)
        if task.state is TaskState.RUNNING and (not wanted or instance in wanted)
    }


def _row(instance: int, run: MesosTaskId, task: TaskRuntime, usage: ContainerUsage) -> pb.InstanceUsage:
    seconds = usage.at - task.start_time / NANOSECONDS
    return pb.InstanceUsage(
        instance=instance,
        run=run,
        host=task.host,
        cpu_seconds=usage.cpu_seconds,
        cpu_mean=usage.cpu_seconds / seconds if task.start_time and seconds > 0 else 0.0,
        cpu_limit=usage.cpu_limit,
        throttled_seconds=usage.throttled_seconds,
        memory_bytes=usage.memory_bytes,
        memory_peak_bytes=usage.memory_peak_bytes,
        memory_limit_bytes=usage.memory_limit_bytes,
        processes=usage.processes,
    )
