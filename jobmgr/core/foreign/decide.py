"""What follows from the pods of others on a cluster: jobs, ends of jobs, and what owners are told.

A pod is a job of one task, whose id is the uid of the pod; a gang is one job. Decided anew from all pods and
all jobs of pods each time, so that every leader decides the same, and a repetition changes nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from peloton.model.foreign_pod import ForeignPod, Told, gang_job_id
from peloton.model.ids import JobId, PoolId
from peloton.model.plural import plural

QUEUED, WAITING, NOT_QUEUED = "Queued", "Waiting", "NotQueued"
"""Reasons of Events."""
Pods = tuple[ForeignPod, ...]


@dataclass(frozen=True, slots=True)
class PodTask:
    """A task that stands for a pod."""

    uid: str
    waits: bool
    """Whether it is not on a host yet: what becomes of it there, its statuses tell."""
    reason: str = ""
    """Why it waits; empty where that is not known."""


@dataclass(frozen=True, slots=True)
class PodJob:
    """An active job of pods."""

    job_id: JobId
    tasks: tuple[PodTask, ...]
    """By instance."""
    ending: bool = False


@dataclass(frozen=True, slots=True)
class NewJob:
    """A job that is to be created."""

    job_id: JobId
    pool: PoolId
    pods: tuple[ForeignPod, ...]
    """By instance."""


@dataclass(frozen=True, slots=True)
class Stop:
    """Tasks that are to be stopped."""

    job_id: JobId
    instances: tuple[int, ...] | None
    """None: the whole job."""
    by: str


@dataclass(frozen=True, slots=True)
class PodDecisions:
    """What follows."""

    create: tuple[NewJob, ...] = ()
    stop: tuple[Stop, ...] = ()
    tell: tuple[Told, ...] = ()
    """What the owner of each pod that waits is to know now."""


def decide(
    pods: Mapping[str, ForeignPod],
    jobs: Sequence[PodJob],
    pools: Mapping[str, PoolId],
    ended: Collection[JobId] = (),
) -> PodDecisions:
    """Decide about all pods of a cluster, by their uids, and all active jobs of these.

    `pools` are the leaves of the tree by their paths. `ended` are jobs that were there, and are not any more.
    """
    queued = {task.uid for job in jobs for task in job.tasks}
    told = [*_reasons(pods, jobs)]
    create: list[NewJob] = []
    for group, missing in _groups(pods.values(), queued):
        why = _refusal(group, pools)
        job_id = _job_id(group)
        if not why and job_id in ended:
            text = f"its job {job_id} has ended: delete the pod; Peloton queues another one"
            why = {pod.uid: text for pod in group}
        if why:
            told += (Told(uid, NOT_QUEUED, text, warning=True) for uid, text in why.items())
        elif missing:
            told += (Told(pod.uid, WAITING, missing) for pod in group)
        else:
            create.append(NewJob(job_id, pools[group[0].pool], group))
            told += (_queued(pod, job_id, len(group)) for pod in group)
    return PodDecisions(tuple(create), tuple(_stops(pods, jobs)), tuple(told))


def _groups(pods: Iterable[ForeignPod], queued: Collection[str]) -> Iterator[tuple[Pods, str]]:
    """Yield gangs and single pods that are not queued yet, each with what it waits for; empty: nothing."""
    gangs: dict[tuple[str, str], list[ForeignPod]] = {}
    for pod in sorted(pods, key=lambda pod: (pod.created, pod.namespace, pod.name, pod.uid)):
        if pod.gang and pod.gang_size and not pod.refusal:
            gangs.setdefault((pod.namespace, pod.gang), []).append(pod)
        elif pod.waits and pod.uid not in queued:
            yield (pod,), ""
    for members in gangs.values():
        waiting = [pod for pod in members if pod.waits and pod.uid not in queued]
        if not waiting:
            continue
        yield from _of_pod_group(members, waiting) if waiting[0].grows else _of_gang(waiting)


def _of_gang(waiting: Sequence[ForeignPod]) -> Iterator[tuple[Pods, str]]:
    """Yield gangs of the size that they say; pods beyond it are the next gang, the oldest ones first."""
    size = waiting[0].gang_size
    for at in range(0, len(waiting), size):
        yield _gang(waiting[at : at + size], size)


def _of_pod_group(members: Sequence[ForeignPod], waiting: Sequence[ForeignPod]) -> Iterator[tuple[Pods, str]]:
    """Yield what is queued of a PodGroup: a gang up to `minMember`, then each pod alone.

    Pods that are on nodes count, so that one that takes the place of another waits for nobody.
    """
    first = waiting[0]
    missing = first.gang_size - sum(pod.bound for pod in members)
    if missing <= 0:
        yield from (((pod,), "") for pod in waiting)
    elif sum(pod.waits for pod in members) > len(waiting):
        yield tuple(waiting), f"it is queued when {plural(first.gang_size, 'pod')} of gang {first.gang} run"
    else:
        yield _gang(waiting[:missing], missing)
        if rest := tuple(waiting[missing:]):
            yield rest, f"it is queued when {plural(first.gang_size, 'pod')} of gang {first.gang} run"


def _gang(members: Sequence[ForeignPod], size: int) -> tuple[Pods, str]:
    if len(members) == size:
        return tuple(members), ""
    there = f"{len(members)} of {plural(size, 'pod')} of gang {members[0].gang} are there"
    return tuple(members), f"{there}: it is queued when all are"


def _job_id(group: Sequence[ForeignPod]) -> JobId:
    first = group[0]
    if first.gang and not first.refusal:
        return gang_job_id(first.namespace, first.gang, (pod.uid for pod in group))
    return first.uid


def _refusal(group: Sequence[ForeignPod], pools: Mapping[str, PoolId]) -> dict[str, str]:
    """Return why pods are not queued, by their uids; empty where they are."""
    first = group[0]
    found: dict[str, str] = {}
    for pod in group:
        if pod.refusal:
            found[pod.uid] = pod.refusal
        elif pod.pool not in pools:
            found[pod.uid] = f"there is no pool {pod.pool!r} that takes tasks: {_known(pools)}"
        elif (pod.pool, pod.gang_size, pod.preemptible) != (first.pool, first.gang_size, first.preemptible):
            found[pod.uid] = f"pool, gang-size or preemptible is not that of {first.name}, of the same gang"
    return found


def _known(pools: Mapping[str, PoolId]) -> str:
    names = sorted(pools)
    more = f", and {plural(len(names) - 5, 'other')}" if len(names) > 5 else ""
    return f"those that do are {', '.join(names[:5])}{more}" if names else "no pool does yet"


def _queued(pod: ForeignPod, job_id: JobId, members: int) -> Told:
    gang = f", with {plural(members, 'pod')} of gang {pod.gang}" if pod.gang else ""
    return Told(pod.uid, QUEUED, f"queued in pool {pod.pool} as job {job_id}{gang}")


def _reasons(pods: Mapping[str, ForeignPod], jobs: Iterable[PodJob]) -> Iterator[Told]:
    """Yield where pods are queued, and why they wait there. An earlier leader may not have told it."""
    for job in jobs:
        for task in job.tasks:
            pod = pods.get(task.uid)
            if pod is None or not pod.waits or not task.waits or job.ending:
                continue
            yield _queued(pod, job.job_id, len(job.tasks))
            if task.reason:
                yield Told(task.uid, WAITING, task.reason)


def _stops(pods: Mapping[str, ForeignPod], jobs: Iterable[PodJob]) -> Iterator[Stop]:
    """Yield what is to be stopped, because its pods wait no more: all of a gang that has not begun."""
    for job in jobs:
        gone = [
            instance
            for instance, task in enumerate(job.tasks)
            if task.waits and not (task.uid in pods and pods[task.uid].waits)
        ]
        if gone and not job.ending:
            whole = all(task.waits for task in job.tasks)
            which = "the pod" if len(job.tasks) == 1 else f"{plural(len(gone), 'pod')} of the gang"
            yield Stop(job.job_id, None if whole else tuple(gone), f"the end of {which} before its start")
