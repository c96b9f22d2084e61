"""What this API reads of a cluster, in the name of one user."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.query import query_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2
from peloton.calls.web import (
    GET_JOB_V1ALPHA,
    GET_POD_EVENTS,
    GET_POOL,
    LIST_PRIORITY_CLASSES,
    LIST_SECRETS,
    LIST_TASKS,
    QUERY_JOBS,
    QUERY_POOLS,
)
from peloton.errors import NotFound
from peloton.model.ids import is_uuid
from peloton.model.schedule import SCHEDULE_LABEL
from peloton.private.jobmgr.scheduling import scheduling_pb2
from peloton.private.jobmgr.secrets import secrets_pb2
from peloton.web.cluster import Calls
from peloton.web.kube.core.cluster_objects import (
    event_objects,
    namespace_object,
    node_object,
    priority_class_object,
    quota_object,
)
from peloton.web.kube.core.cronjobs import cron_of_run
from peloton.web.kube.core.kinds import (
    CONTROLLER_REVISION,
    DAEMON_SET,
    DEPLOYMENT,
    POD,
    PRIORITY_CLASS,
    REPLICA_SET,
    RESOURCE_QUOTA,
    SECRET,
    STATEFUL_SET,
    WORKLOADS,
    Kind,
)
from peloton.web.kube.core.names import (
    LONGEST_MANIFEST_CHARACTERS,
    NAME_LABEL,
    Pool,
    manifest_of,
    parse_pod_name,
    pools_of,
)
from peloton.web.kube.core.objects import Held, held, object_of
from peloton.web.kube.core.plain import size
from peloton.web.kube.core.pods import pod_of
from peloton.web.kube.core.refusals import not_found
from peloton.web.kube.core.revisions import (
    Revision,
    controller_revisions,
    replica_sets,
    revisions,
    versions_of,
)
from peloton.web.kube.core.secrets import secret_object
from peloton.web.kube.core.selectors import selected
from peloton.web.kube.core.values import Object
from peloton.web.views.hosts.reads import all_hosts

PAGE = 100
MOST_JOBS = 10_000
"""Jobs of a list; the newest are in it."""
TASKS_PER_CALL = 1000
CALLS_AT_ONCE = 8
POOLS_SECONDS = 5.0
MOST_ENDED, MOST_ENDED_PODS = 1000, 20_000
"""Ended jobs whose pods are kept, so that they are read once, and the pods of all of them."""
MOST_PODS_WITH_EVENTS = 200
"""Pods of a list of events that names none."""
MOST_VERSION_CHARACTERS = 16_000_000
"""Of manifests of versions that are kept, so that they are read once."""
_REVISED: Mapping[Kind, tuple[Kind, ...]] = {
    REPLICA_SET: (DEPLOYMENT,), CONTROLLER_REVISION: (DAEMON_SET, STATEFUL_SET)
}  # fmt: skip
"""Of which kinds these are the revisions."""
_ENDED = (job_pb2.SUCCEEDED, job_pb2.FAILED, job_pb2.KILLED)


@dataclass(slots=True)
class Known:
    """What all requests share."""

    deleting: dict[str, str] = field(default_factory=dict)
    """Since when jobs are being deleted, by their ids."""
    ended: OrderedDict[tuple[Any, str], tuple[bytes, list[Object]]] = field(default_factory=OrderedDict)
    """Pods of ended jobs, by user and job, with what they were made of."""
    kept: int = 0
    """Pods of ended jobs, over all of these."""
    versions: OrderedDict[tuple[Any, str, int], tuple[int, Object]] = field(default_factory=OrderedDict)
    """Manifests of versions of jobs, by user, job and version, with how long they are."""
    version_characters: int = 0

    def keep(self, key: tuple[Any, str], made_of: bytes, pods: list[Object]) -> None:
        """Keep the pods of an ended job, and let those go that were kept for longest."""
        self._drop(key)
        self.ended[key] = (made_of, list(pods))
        self.kept += len(pods)
        while len(self.ended) > MOST_ENDED or self.kept > MOST_ENDED_PODS:
            self._drop(next(iter(self.ended)))

    def keep_version(self, key: tuple[Any, str, int], manifest: Object) -> None:
        """Keep the manifest of a version, and let those go that were kept for longest."""
        if key in self.versions:
            return
        length = size(manifest, LONGEST_MANIFEST_CHARACTERS)
        self.versions[key] = (length, manifest)
        self.version_characters += length
        while self.version_characters > MOST_VERSION_CHARACTERS:
            self.version_characters -= self.versions.popitem(last=False)[1][0]

    def _drop(self, key: tuple[Any, str]) -> None:
        if key in self.ended:
            self.kept -= len(self.ended.pop(key)[1])


class Reader:
    """Reads for one request."""

    def __init__(self, calls: Calls, known: Known) -> None:
        self.calls = calls
        self._known = known
        self._places = asyncio.Semaphore(CALLS_AT_ONCE)

    async def pools(self) -> dict[str, Pool]:
        """Return the pools that take jobs, by their namespaces."""
        answer = await self.calls.read(QUERY_POOLS, respool_pb2.QueryRequest(), POOLS_SECONDS)
        return pools_of(answer.resourcePools)

    async def pool(self, namespace: str) -> Pool:
        """Return the pool of a namespace. Raises Refusal where there is none."""
        found = (await self.pools()).get(namespace)
        if found is None:
            raise not_found("namespaces", namespace)
        return found

    async def pool_now(self, namespace: str) -> Pool:
        """Return a pool as it is now, to change it. Raises Refusal where there is none."""
        pool = await self.pool(namespace)
        request = respool_pb2.GetRequest(id=peloton_pb2.ResourcePoolID(value=pool.id))
        answer = await self.calls.call(GET_POOL, request)
        if not answer.HasField("poolinfo"):
            raise not_found("namespaces", namespace)
        return replace(pool, info=answer.poolinfo)

    async def objects(self, kind: Kind, namespace: str, field_selector: str = "") -> list[Object]:
        """Return all objects of a kind but Pod in a namespace; in all of them where none is named."""
        if kind.plural == "namespaces":
            return [namespace_object(pool) for pool in (await self.pools()).values()]
        if kind is PRIORITY_CLASS:
            return await self._priority_classes()
        if kind is RESOURCE_QUOTA:
            pools = await self.pools()
            chosen = [await self.pool(namespace)] if namespace else list(pools.values())
            return [quota_object(pool) for pool in chosen]
        if kind is SECRET:
            return await self._secrets(namespace)
        if kind in _REVISED:
            return await self._revisions(kind, namespace)
        if kind.plural == "nodes":
            return await self._nodes()
        if kind.plural == "events":
            return await self._events(namespace, field_selector)
        return [self.shown(job) for job in await self.jobs(namespace) if job.kind is kind]

    async def jobs(self, namespace: str) -> list[Held]:
        """Return the jobs of a namespace; of all of them where none is named."""
        pools = [await self.pool(namespace)] if namespace else list((await self.pools()).values())
        return await self._jobs(pools)

    async def pods(self, jobs: Iterable[Held]) -> list[Object]:
        """Return all pods of jobs."""
        found = await asyncio.gather(*(self._pods(job) for job in jobs))
        return [pod for pods in found for pod in pods]

    async def some_pods(self, job: Held, first: int, end: int) -> list[Object]:
        """Return the pods of a range of instances."""
        return [pod_of(job, task) for task in await self._tasks(job, first, end)]

    async def one(self, kind: Kind, namespace: str, name: str) -> Object:
        """Return an object. Raises Refusal where there is none."""
        if kind is POD:
            return await self.pod(namespace, name)
        if kind.kind not in WORKLOADS:
            for each in await self.objects(kind, namespace):
                if each["metadata"]["name"] == name:
                    return each
            raise not_found(kind.plural, name, kind.group)
        return self.shown(await self.job(kind, namespace, name))

    def shown(self, job: Held) -> Object:
        """Return the object of a job."""
        return object_of(job, self._known.deleting.get(job.job_id, ""))

    async def job(self, kind: Kind, namespace: str, name: str) -> Held:
        """Return a job. Raises Refusal where there is none."""
        for found in await self._named(namespace, name):
            if found.kind is kind:
                return found
        raise not_found(kind.plural, name, kind.group)

    async def pod(self, namespace: str, name: str) -> Object:
        """Return a pod. Raises Refusal where there is none."""
        job, instance = await self.instance(namespace, name)
        for task in await self._tasks(job, instance, instance + 1):
            found = pod_of(job, task)
            if found["metadata"]["name"] == name:
                return found
        raise not_found("pods", name)

    async def instance(self, namespace: str, name: str) -> tuple[Held, int]:
        """Return the job and the instance of a pod. Raises Refusal where there is none."""
        parts = parse_pod_name(name)
        if parts is not None:
            owner, begin, instance, _ = parts
            for found in await self._named(namespace, owner):
                if found.job_id.startswith(begin):
                    return found, instance
        raise not_found("pods", name)

    async def events(self, pod: Mapping[str, Any]) -> list[Object]:
        """Return what happened to a pod."""
        job_id, instance, _run = pod["metadata"]["uid"].rsplit("-", 2)
        request = task_pb2.GetPodEventsRequest(
            jobId=peloton_pb2.JobID(value=job_id),
            instanceId=int(instance),
            limit=1,
            runId=pod["metadata"]["uid"],
        )
        async with self._places:
            try:
                answer = await self.calls.read(GET_POD_EVENTS, request)
            except NotFound:
                return []
        return event_objects(pod, answer.result)

    async def _revisions(self, kind: Kind, namespace: str) -> list[Object]:
        """Return the revisions of all jobs of a namespace."""
        jobs = [job for job in await self.jobs(namespace) if job.kind in _REVISED[kind]]
        found = await asyncio.gather(*map(self._revisions_of, jobs))
        made = replica_sets if kind is REPLICA_SET else controller_revisions
        return [each for job, of in zip(jobs, found, strict=True) for each in made(job, of)]

    async def _revisions_of(self, job: Held) -> list[Revision]:
        numbers = versions_of(job)
        before = await asyncio.gather(*(self._version(job, number) for number in numbers))
        known = [(number, each) for number, each in zip(numbers, before, strict=True) if each is not None]
        return revisions([*known, (numbers.stop, job.manifest)])

    async def _version(self, job: Held, number: int) -> Object | None:
        """Return the manifest of a version of a job; None where it is not stored, or has none."""
        key = (self.calls.auth, job.job_id, number)
        if key in self._known.versions:
            self._known.versions.move_to_end(key)
            return self._known.versions[key][1]
        request = stateless_svc_pb2.GetJobRequest(
            job_id=v1alpha_pb2.JobID(value=job.job_id),
            version=v1alpha_pb2.EntityVersion(value=f"{number}-0-0"),
        )
        async with self._places:
            try:
                answer = await self.calls.call(GET_JOB_V1ALPHA, request)
            except NotFound:
                return None
        found = manifest_of(answer.job_info.spec.labels)
        if found is not None:
            self._known.keep_version(key, found)
        return found

    async def _named(self, namespace: str, name: str) -> list[Held]:
        """Return the jobs of a name, the oldest of each kind first."""
        pool = await self.pool(namespace)
        spec = job_pb2.QuerySpec(labels=[peloton_pb2.Label(key=NAME_LABEL, value=name)])
        found = await self._query(pool, spec)
        if cron := cron_of_run(name):
            labels = [peloton_pb2.Label(key=NAME_LABEL, value=cron)]
            found += await self._query(pool, job_pb2.QuerySpec(labels=labels))
        if is_uuid(name):
            # A job that another API made: its id is its name.
            natives = await self._query(pool, job_pb2.QuerySpec(reference=name))
            found += [each for each in natives if each.id.value == name]
        known = (held(summary, pool.namespace) for summary in reversed(found))
        return [each for each in known if each is not None and each.name == name]

    async def runs(self, cron: Held) -> list[Held]:
        """Return the runs of a CronJob that are kept."""
        labels = [peloton_pb2.Label(key=SCHEDULE_LABEL, value=cron.job_id)]
        found = await self._query(await self.pool(cron.namespace), job_pb2.QuerySpec(labels=labels))
        known = (held(summary, cron.namespace) for summary in found)
        return [each for each in known if each is not None]

    async def _jobs(self, pools: Sequence[Pool]) -> list[Held]:
        found = await asyncio.gather(*(self._query(pool, job_pb2.QuerySpec()) for pool in pools))
        jobs = (
            held(summary, pool.namespace)
            for pool, summaries in zip(pools, found, strict=True)
            for summary in summaries
        )
        return [job for job in jobs if job is not None]

    async def _query(self, pool: Pool, spec: job_pb2.QuerySpec) -> list[job_pb2.JobSummary]:
        """Return the jobs of a pool, the newest first."""
        found: list[job_pb2.JobSummary] = []
        while len(found) < MOST_JOBS:
            asked = job_pb2.QuerySpec()
            asked.CopyFrom(spec)
            page = query_pb2.PaginationSpec(offset=len(found), limit=PAGE, maxLimit=MOST_JOBS)
            asked.pagination.CopyFrom(page)
            request = job_pb2.QueryRequest(
                respoolID=peloton_pb2.ResourcePoolID(value=pool.id), spec=asked, summaryOnly=True
            )
            async with self._places:
                answer = await self.calls.call(QUERY_JOBS, request)
            found += answer.results
            if not answer.results or len(found) >= answer.pagination.total:
                break
        return found

    async def _pods(self, job: Held) -> list[Object]:
        """Return the pods of a job; those of one that has ended, and is as it was, are not read again."""
        key, made_of = (self.calls.auth, job.job_id), job.summary.SerializeToString(deterministic=True)
        kept = self._known.ended.get(key)
        if kept is not None and kept[0] == made_of:
            return list(kept[1])
        pods: list[Object] = []
        for first in range(0, instances_of(job), TASKS_PER_CALL):
            pods += await self.some_pods(job, first, first + TASKS_PER_CALL)
        if job.summary.runtime.state in _ENDED:
            self._known.keep(key, made_of, pods)
        return pods

    async def _tasks(self, job: Held, first: int, end: int) -> list[task_pb2.TaskInfo]:
        request = task_pb2.ListRequest(jobId=job.summary.id)
        setattr(request.range, "from", first)
        request.range.to = end
        async with self._places:
            try:
                answer = await self.calls.call(LIST_TASKS, request)
            except NotFound:
                return []
        return [answer.result.value[number] for number in sorted(answer.result.value)]

    async def _nodes(self) -> list[Object]:
        found = await all_hosts(self.calls)
        return [
            node_object(
                row.name,
                row.state,
                row.labels,
                {kind: (usage.allocated, usage.capacity) for kind, usage in row.usage.items()},
            )
            for row in found.rows
        ]

    async def _priority_classes(self) -> list[Object]:
        request = scheduling_pb2.ListPriorityClassesRequest()
        answer = await self.calls.read(LIST_PRIORITY_CLASSES, request, POOLS_SECONDS)
        return [priority_class_object(each.name, each.priority, each.description) for each in answer.classes]

    async def secrets(self, pool: Pool) -> Sequence[secrets_pb2.SecretInfo]:
        """Return the secrets of a pool, without contents."""
        request = secrets_pb2.ListSecretsRequest(pool_id=peloton_pb2.ResourcePoolID(value=pool.id))
        async with self._places:
            return (await self.calls.call(LIST_SECRETS, request)).secrets

    async def secret_keys(self, pool: Pool) -> dict[str, Sequence[str]]:
        """Return the keys of the secrets of a pool, by their names."""
        return {each.name: tuple(each.keys) for each in await self.secrets(pool)}

    async def _secrets(self, namespace: str) -> list[Object]:
        pools = [await self.pool(namespace)] if namespace else list((await self.pools()).values())
        found = await asyncio.gather(*map(self.secrets, pools))
        return [
            secret_object(info, pool.namespace)
            for pool, infos in zip(pools, found, strict=True)
            for info in infos
        ]

    async def _events(self, namespace: str, field_selector: str) -> list[Object]:
        """Return events: of the pod that the selector names, else of the newest pods."""
        name = selected(field_selector, "involvedObject.name")
        kind = selected(field_selector, "involvedObject.kind")
        if kind not in ("", "Pod"):
            return []
        if name and namespace and parse_pod_name(name):
            return await self.events(await self.pod(namespace, name))
        if name:
            return []
        pods: list[Object] = []
        for job in await self.jobs(namespace):
            left = MOST_PODS_WITH_EVENTS - len(pods)
            if not left:
                break
            pods += await self.some_pods(job, 0, min(left, instances_of(job)))
        found = await asyncio.gather(*(self.events(pod) for pod in pods))
        return [event for events in found for event in events]


def instances_of(job: Held) -> int:
    """Return how many numbers of instances a job has, with those that were released."""
    return int(job.summary.instanceCount + job.summary.runtime.releasedInstances)
