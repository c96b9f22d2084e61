"""PlanService: what would become of a job if it were created now."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from itertools import islice

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.calls.jobmgr import PLAN_GANGS
from peloton.calls.rpc import Caller
from peloton.errors import InvalidArgument, Refused
from peloton.model.job import JobSpec
from peloton.model.states import JobType, TaskState
from peloton.model.task import TaskRuntime
from peloton.private.plan import plan_pb2 as pb
from peloton.private.plan import plan_pb2_grpc
from peloton.private.resmgr.planning import planning_pb2
from peloton.wire.resmgr import resmgr_task

SECONDS = 30.0
"""Longest time for the plan."""
MOST_KINDS = 1000
"""Kinds of instances that a plan compares."""
RANGES = 20
"""Ranges of instances that an answer lists for a group."""
_NEW = TaskRuntime(TaskState.INITIALIZED, TaskState.SUCCEEDED, 1, 1, 1, 1)
_NO_JOB = "00000000-0000-0000-0000-000000000000"
Group = tuple[planning_pb2.Gangs, list[int]]
"""Gangs that are alike, with all of their instances."""


class PlanService(plan_pb2_grpc.PlanServiceServicer):
    """Checks a job as its creation does, and asks resmgr for a plan."""

    def __init__(
        self,
        check_v0: Callable[[job_pb2.JobConfig], Awaitable[JobSpec]],
        check_v1alpha: Callable[[stateless_pb2.JobSpec], Awaitable[JobSpec]],
        resmgr: Caller,
    ) -> None:
        """Validate new jobs by the checks, and plan them by `resmgr`."""
        self._check_v0 = check_v0
        self._check_v1alpha = check_v1alpha
        self._resmgr = resmgr

    async def PlanJob(self, request: pb.PlanJobRequest, context: object) -> pb.PlanJobResponse:
        """Return a plan.

        Raises InvalidArgument as the creation of the job, Refused for a job of too many kinds of instances,
        and Unavailable.
        """
        if request.HasField("config"):
            spec = await self._check_v0(request.config)
        elif request.HasField("spec"):
            spec = await self._check_v1alpha(request.spec)
        else:
            raise InvalidArgument("job", "nothing", "a config or a spec")
        count = _first(spec)
        groups = await asyncio.to_thread(groups_of, spec, range(count))
        if len(groups) > MOST_KINDS:
            raise Refused(
                f"the instances ask for {len(groups)} different things; a plan compares at most {MOST_KINDS}:"
                f" plan the job without some of its instanceConfig"
            )
        asked = planning_pb2.PlanGangsRequest(
            pool=peloton_pb2.ResourcePoolID(value=spec.pool_id), groups=[gangs for gangs, _ in groups]
        )
        # Not tried again: what resmgr waits for in vain would be lost behind a time-out here.
        answer: planning_pb2.PlanGangsResponse = await self._resmgr.call(
            PLAN_GANGS, asked, timeout=SECONDS, retry=False
        )
        return pb.PlanJobResponse(
            instances=spec.instance_count,
            held_back=max(0, spec.instance_count - count),
            groups=[
                pb.PlannedInstances(instances=_ranges(instances), count=len(instances), plan=plan)
                for (_, instances), plan in zip(groups, answer.groups, strict=True)
            ],
            victims=answer.victims,
        )


def _first(spec: JobSpec) -> int:
    """Return how many instances are enqueued at first. A daemon job is planned for one host."""
    if spec.type is JobType.DAEMON:
        return 1
    most = spec.sla.maximum_running_instances or spec.instance_count
    return min(spec.instance_count, most)


def groups_of(spec: JobSpec, instances: Iterable[int]) -> Sequence[Group]:
    """Return the gangs of a job, those that ask for the same together, in the order of their instances."""
    found: dict[bytes, Group] = {}
    messages: dict[int, tuple[bytes, planning_pb2.Members]] = {}
    for instance in instances:
        task = spec.task(instance)
        together = spec.in_gang(instance)
        key = id(task) * 2 + together
        if key not in messages:
            wire = resmgr_task(_NO_JOB, spec, instance, _NEW)
            for name in ("id", "taskId"):
                wire.ClearField(name)
            messages[key] = (
                wire.SerializeToString(deterministic=True),
                planning_pb2.Members(task=wire, count=1),
            )
        content, members = messages[key]
        if not together:
            _, ours = found.setdefault(content, (planning_pb2.Gangs(members=[members]), []))
            found[content][0].count += 1
        else:
            gang, ours = found.setdefault(b"gang", (planning_pb2.Gangs(count=1), []))
            _add_member(gang, members)
        ours.append(instance)
    return list(found.values())


def _add_member(gang: planning_pb2.Gangs, members: planning_pb2.Members) -> None:
    for each in gang.members:
        if each.task == members.task:
            each.count += 1
            return
    gang.members.append(members)


def _ranges(instances: Sequence[int]) -> str:
    """Return instances as text, such as `0-99, 105`, RANGES ranges at most."""
    shown = list(islice(_spans(instances), RANGES + 1))
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in shown[:RANGES]]
    return ", ".join(texts) + (", …" if len(shown) > RANGES else "")


def _spans(instances: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Iterate over ascending instances as ranges, both ends inside."""
    first = last = instances[0]
    for instance in instances[1:]:
        if instance != last + 1:
            yield first, last
            first = instance
        last = instance
    yield first, last
