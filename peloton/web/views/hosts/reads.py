"""What the pages about hosts read, shared by all who look at them."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.calls.web import (
    CHECK_HOSTS,
    GET_HOST_CACHE,
    GET_HOSTS_BY_QUERY,
    GET_HOSTS_BY_SCORES,
    GET_JOB,
    GET_TASK,
    LIST_HOST_POOLS,
    QUERY_HOSTS,
)
from peloton.errors import NotFound, PelotonError, Refused
from peloton.model.spans import spans
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.private.jobmgr.maintenance import maintenance_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2
from peloton.web.cluster import Calls
from peloton.web.views.hosts.details import HostTask, Preview, Run, host_task, preview, run_of
from peloton.web.views.hosts.rows import Choices, HostRow, Made, choices, host_rows

if TYPE_CHECKING:
    from peloton.api.v0.host.host_pb2 import HostInfo
    from peloton.api.v0.job.job_pb2 import JobInfo
    from peloton.private.hostmgr.v1alpha.svc.hostmgr_svc_pb2 import GetHostCacheResponse

HOSTS_AGE = 1.5
"""How old the rows of all hosts may be, in seconds: with thousands of hosts, they cost hostmgr something."""
JOB_AGE = 10.0
"""How old the config of a job may be where its name and its limits are what is asked for."""
MOST_SCORES = 100_000


@dataclass(frozen=True, slots=True)
class AllHosts:
    """Every host, and why something about them is not known."""

    made: Made
    rows: tuple[HostRow, ...]
    choices: Choices
    trouble: str = ""

    def get(self, name: str) -> HostRow:
        """Return a host. Raises NotFound."""
        if name not in self.made:
            raise NotFound(f"host {name} is unknown: no agent of this name is registered or in maintenance")
        return self.made[name][1]

    def split(self, names: Iterable[str]) -> tuple[list[HostRow], list[str]]:
        """Return the hosts of these names, each once, and the names that no host has."""
        known, asked = self.made, list(dict.fromkeys(names))
        return [known[name][1] for name in asked if name in known], [
            each for each in asked if each not in known
        ]


async def all_hosts(calls: Calls) -> AllHosts:
    """Return all hosts of all Mesos clusters. Raises PelotonError."""
    key, shared = ("hosts", calls.auth), calls.cluster.shared
    before: AllHosts | None = shared.last(key)
    return await shared.get(key, HOSTS_AGE, lambda: _all_hosts(calls, before))


async def _all_hosts(calls: Calls, before: AllHosts | None) -> AllHosts:
    infos, cache = await asyncio.gather(
        calls.call(QUERY_HOSTS, host_svc_pb2.QueryHostsRequest(include_lost=True)),
        _summaries(calls),
    )
    summaries, trouble = cache
    # Thousands of hosts take a tenth of a second: others are not to wait for it.
    return await asyncio.to_thread(
        _merged, infos.host_infos, summaries, trouble, before.made if before is not None else None
    )


def _merged(
    infos: Sequence[HostInfo],
    summaries: Sequence[GetHostCacheResponse.Summary],
    trouble: str,
    before: Made | None,
) -> AllHosts:
    made = host_rows(infos, summaries, before)
    rows = tuple(row for _, row in made.values())
    return AllHosts(made, rows, choices(rows), trouble)


async def _summaries(calls: Calls) -> tuple[Sequence[GetHostCacheResponse.Summary], str]:
    """Return the amounts of hosts, or why they are not known: the rest of the page is worth showing."""
    try:
        answer = await calls.call(GET_HOST_CACHE, hostmgr_svc_pb2.GetHostCacheRequest())
    except PelotonError as error:
        return (), f"the amounts of hosts are not known: {error}"
    return answer.summaries, ""


async def pool_names(calls: Calls) -> list[str]:
    """Return the names of all host pools, those without hosts too; none where they are off."""
    try:
        answer = await calls.read(LIST_HOST_POOLS, host_svc_pb2.ListHostPoolsRequest())
    except Refused:
        return []
    return sorted({pool.name for pool in answer.pools})


async def runs_on(calls: Calls, names: Sequence[str]) -> dict[str, list[str]]:
    """Return the Mesos task ids on each of some hosts. Raises PelotonError."""
    runs: dict[str, list[str]] = {name: [] for name in names}
    if names:
        request = hostsvc_pb2.GetHostsByQueryRequest(hostnames=names)
        answer = await calls.read(GET_HOSTS_BY_QUERY, request)
        for host in answer.hosts:
            runs.setdefault(host.hostname, []).extend(task.value for task in host.tasks)
    return {name: sorted(ids) for name, ids in runs.items()}


async def task_counts(calls: Calls, names: Sequence[str]) -> dict[str, int]:
    """Return the number of tasks on each of some hosts; none where it is not known."""
    try:
        return {name: len(ids) for name, ids in (await runs_on(calls, names)).items()}
    except PelotonError:
        return {}


async def tasks_on(calls: Calls, name: str, most: int) -> tuple[list[HostTask], int]:
    """Return the tasks on a host, `most` at most, and their number. Raises PelotonError."""
    runs = [run_of(task_id) for task_id in (await runs_on(calls, [name]))[name]]
    shown = runs[:most]
    jobs = await jobs_of(calls, shown)
    tasks = await asyncio.gather(*(_task(calls, run, jobs.get(run.job_id)) for run in shown))
    return list(tasks), len(runs)


async def _task(calls: Calls, run: Run, job: JobInfo | None) -> HostTask:
    if not run.ours:
        return host_task(run, None, job)
    request = task_pb2.GetRequest(instanceId=run.instance)
    request.jobId.value = run.job_id
    try:
        answer = await calls.read(GET_TASK, request)
    except PelotonError as error:
        return host_task(run, None, job, str(error))
    return host_task(run, answer.result, job)


async def jobs_of(calls: Calls, runs: Iterable[Run]) -> dict[str, JobInfo | None]:
    """Return the jobs of runs; None for one that cannot be read."""
    ids = sorted({run.job_id for run in runs if run.ours})

    async def one(job_id: str) -> JobInfo | None:
        request = job_pb2.GetRequest(id=peloton_pb2.JobID(value=job_id))
        try:
            return (await calls.read(GET_JOB, request, JOB_AGE)).jobInfo
        except PelotonError:
            return None

    return dict(zip(ids, await asyncio.gather(*map(one, ids)), strict=True))


@dataclass(frozen=True, slots=True)
class LostTasks:
    """Tasks of a job that were on a host when it was lost; or one of another framework."""

    name: str
    """Of the job; of another framework's task, its id."""
    job_id: str = ""
    """Empty for a task of another framework."""
    instances: tuple[int, ...] = ()

    @property
    def spans(self) -> str:
        """The instances as ranges."""
        return spans(self.instances)


async def lost_tasks(calls: Calls, row: HostRow) -> Sequence[LostTasks]:
    """Return the tasks that were on a lost host, those that are remembered by name, a job's together."""
    if row.loss is None:
        return ()
    runs = [run_of(task_id) for task_id in row.loss.tasks]
    jobs = await jobs_of(calls, runs)
    instances: dict[str, set[int]] = {}
    for run in runs:
        if run.ours:
            instances.setdefault(run.job_id, set()).add(run.instance)
    names = {job_id: found.config.name for job_id, found in jobs.items() if found is not None}
    ours = [
        LostTasks(names.get(job_id) or f"job {job_id}", job_id, tuple(sorted(numbers)))
        for job_id, numbers in instances.items()
    ]
    others = [LostTasks(run.id) for run in runs if not run.ours]
    return [*sorted(ours, key=lambda each: (each.name, each.job_id)), *others]


async def maintenance_preview(calls: Calls, names: Sequence[str]) -> Preview:
    """Return what the maintenance of hosts would do. Raises PelotonError."""
    rows, unknown = (await all_hosts(calls)).split(names)
    fresh = [row.name for row in rows if row.up]
    on_hosts, checked = await asyncio.gather(runs_on(calls, fresh), _concerns(calls, fresh))
    runs = [run_of(task_id) for ids in on_hosts.values() for task_id in ids]
    concerns, unchecked = checked
    return preview(rows, unknown, runs, await jobs_of(calls, runs), concerns, unchecked)


async def _concerns(calls: Calls, names: Sequence[str]) -> tuple[list[str], str]:
    """Return the jobs that would have no host, or why that is not known."""
    if not names:
        return [], ""
    try:
        request = maintenance_pb2.CheckHostsRequest(hostnames=names)
        answer = await calls.call(CHECK_HOSTS, request)
    except PelotonError as error:
        return [], str(error)
    return [each.text for each in answer.concerns], ""


async def cheapest_first(calls: Calls) -> Sequence[str] | None:
    """Return the hosts that can be moved, the cheapest first; None where that is not known."""
    try:
        request = resmgrsvc_pb2.GetHostsByScoresRequest(limit=MOST_SCORES)
        answer = await calls.read(GET_HOSTS_BY_SCORES, request)
    except PelotonError:
        return None
    return list(answer.hosts)
