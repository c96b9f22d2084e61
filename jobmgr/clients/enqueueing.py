"""Requests that enqueue gangs: those of runs that need the same name what they need once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from jobmgr.ports.resmgr import WaitingTask
from peloton.model.ids import PoolId
from peloton.private.resmgr.queueing import queueing_pb2
from peloton.wire.resmgr import resmgr_task

Gangs = Sequence[Sequence[WaitingTask]]


def alike(gangs: Gangs) -> list[list[WaitingTask]] | None:
    """Return the tasks in order, those together that follow each other and need the same.

    None where a gang has several tasks, or a task has something of its own: a host, hosts to avoid, or a
    volume.
    """
    groups: list[list[WaitingTask]] = []
    for gang in gangs:
        if len(gang) != 1 or not _is_plain(gang[0]):
            return None
        if groups and _need_the_same(groups[-1][-1], gang[0]):
            groups[-1].append(gang[0])
        else:
            groups.append([gang[0]])
    return groups


def _is_plain(task: WaitingTask) -> bool:
    _, spec, instance, runtime = task
    if (
        runtime.host
        or runtime.desired_host
        or runtime.avoided_hosts
        or spec.task(instance).volume is not None
    ):
        return False
    return spec.gang_size_of(instance) <= 1


def _need_the_same(one: WaitingTask, other: WaitingTask) -> bool:
    spec = one.spec
    return (
        spec is other.spec
        and one.job_id == other.job_id
        and one.instance < other.instance
        and spec.task(one.instance) is spec.task(other.instance)
        and spec.is_extra(one.instance) == spec.is_extra(other.instance)
    )


def request_of(pool: PoolId, groups: Sequence[Sequence[WaitingTask]]) -> queueing_pb2.EnqueueGangsRequest:
    """Return the request for tasks that are grouped by what they need."""
    request = queueing_pb2.EnqueueGangsRequest(pool_id=pool)
    for group in groups:
        first = group[0]
        runs = request.runs.add(job_id=first.job_id, needs=resmgr_task(*first))
        runs.instances.extend(task.instance for task in group)
        runs.runs.extend(task.runtime.run for task in group)
    return request


def refusals_of(
    answer: queueing_pb2.EnqueueGangsResponse, groups: Sequence[Sequence[WaitingTask]]
) -> Mapping[int, str]:
    """Return why tasks are refused, by their position in all groups."""
    if not answer.refusals:
        return {}
    refused = {each.place: each.message for each in answer.refusals}
    messages = [refused.get(place, "") for place, group in enumerate(groups) for _ in group]
    return {position: message for position, message in enumerate(messages) if message}
