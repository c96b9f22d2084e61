"""The private ResourceManagerService."""

from __future__ import annotations

import asyncio
import logging
from itertools import chain, islice, repeat

from peloton.clock import rfc3339
from peloton.daemon.tracing import TRACES
from peloton.errors import InvalidArgument, NotFound, Refused
from peloton.model.ids import mesos_task_id, parse_mesos_task_id, parse_task_id, task_id
from peloton.model.states import TaskState, TaskType
from peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from peloton.private.resmgrsvc import resmgrsvc_pb2_grpc
from peloton.rpc.claimed import Shards, divided, refusal, shards, task_refusal
from resmgr.core.placing.runs import ANY_RUN
from resmgr.core.state.entities import Gang, Holder, Task
from resmgr.core.state.host_costs import cheapest_first
from resmgr.core.state.needs import NewTask
from resmgr.core.state.placements import Handover, PlacementFailure, Proposal
from resmgr.core.state.pool import Pool
from resmgr.core.state.queues import NAMES
from resmgr.drivers.loop import Driver
from resmgr.drivers.status_stream import apply
from resmgr.ports import KnownHosts
from resmgr.services.callers import kept, touch
from resmgr.services.delivery import delivered
from resmgr.services.traces import TracedRuns
from resmgr.wire.statuses import states_from
from resmgr.wire.tasks import (
    PLACED_TYPES,
    failed_task,
    failure_from,
    gang_to,
    gangs_from,
    placement_to,
    preemption_candidate,
    proposal_from,
    task_to,
)

MAX_GANGS = 10_000
MAX_HOSTS = 100_000
"""Most gangs or placements in one answer."""
DEFAULT_LIMIT = 100
_AT_ONCE = 5000
"""Tasks that are translated before other work runs. A task that ends meanwhile is left out."""
log = logging.getLogger(__name__)


class TaskService(resmgrsvc_pb2_grpc.ResourceManagerServiceServicer):
    """Serve jobmgr, placement engines, hostmgr and operators."""

    def __init__(self, driver: Driver, hosts: KnownHosts) -> None:
        self._driver = driver
        self._hosts = hosts
        self._traced = TracedRuns(driver)

    # jobmgr enqueues gangs.

    async def EnqueueGangs(self, request: pb.EnqueueGangsRequest, context: object) -> pb.EnqueueGangsResponse:
        """Queue gangs in a pool. Those of jobs that are not the caller's are refused."""
        driver, error = self._driver, pb.EnqueueGangsResponse.Error
        self._touch(context)
        try:
            pool = driver.scheduler.tree.get(request.resPool.value)
        except NotFound as missing:
            return pb.EnqueueGangsResponse(
                error=error(notFound=pb.ResourcePoolNotFound(id=request.resPool, message=str(missing)))
            )
        if not pool.leaf:
            message = f"{pool.path} is not a leaf: only leaves take jobs"
            return pb.EnqueueGangsResponse(
                error=error(noPermission=pb.ResourcePoolNoPermission(id=request.resPool, message=message))
            )
        failed = self._enqueue(pool, request, shards(context))
        driver.wake()
        if failed:
            return pb.EnqueueGangsResponse(error=error(failure=pb.EnqueueGangsFailure(failed=failed)))
        return pb.EnqueueGangsResponse()

    def _enqueue(
        self, pool: Pool, request: pb.EnqueueGangsRequest, mine: Shards
    ) -> list[pb.EnqueueGangsFailure.FailedTask]:
        driver = self._driver
        gangs, failed = gangs_from(request.gangs, driver.translator)
        now = driver.now()
        own, others = divided(mine, gangs, lambda gang: refusal(mine, gang[0].job_id) if gang else "")
        for gang, why in others:
            failed += self._refused(gang, request, why)
        for gang in own:
            try:
                driver.scheduler.enqueue(pool, gang, now)
            except Refused as refused:
                failed += self._refused(gang, request, str(refused))
        return failed

    def _refused(
        self, gang: list[NewTask], request: pb.EnqueueGangsRequest, message: str
    ) -> list[pb.EnqueueGangsFailure.FailedTask]:
        runs = {mesos_task_id(new.job_id, new.instance, new.run) for new in gang}
        code = pb.EnqueueGangsFailure.ENQUEUE_GANGS_FAILURE_ERROR_CODE_INTERNAL
        return [
            failed_task(task, message, code)
            for wire in request.gangs
            for task in wire.tasks
            if task.taskId.value in runs
        ]

    # A placement engine dequeues gangs and sets placements.

    async def DequeueGangs(self, request: pb.DequeueGangsRequest, context: object) -> pb.DequeueGangsResponse:
        """Hand gangs of a task type to an engine, waiting for some if necessary."""
        driver, scheduler = self._driver, self._driver.scheduler
        if request.type not in PLACED_TYPES:
            raise InvalidArgument(
                "type", request.type, "BATCH (1), STATELESS (2), STATEFUL (3) or DAEMON (4)"
            )
        kind = TaskType(request.type)
        scheduler.ignore_host_pools(kind, request.ignore_host_pools)
        limit, holder = _limit(request.limit), self._touch(context)
        lost = scheduler.note_call(kind, holder, request.call, request.received, driver.now())
        self._note_back(lost, holder)
        await driver.poll(holder, driver.gangs[kind], lambda: bool(scheduler.ready[kind]), request.timeout)
        holder = self._touch(context)
        gangs = scheduler.dequeue(kind, limit, holder, driver.now(), request.call)
        if TRACES.on:
            self._traced.dequeued(gangs)
        answer = pb.DequeueGangsResponse(gangs=[gang_to(gang, scheduler) for gang in gangs])
        if gangs:
            await delivered(context, lambda: self._take_back_gangs(gangs, holder))
        return answer

    def _take_back_gangs(self, gangs: list[Gang], holder: Holder | None) -> None:
        self._note_back(self._driver.scheduler.take_back_gangs(gangs, holder, self._driver.now()), holder)

    def _note_back(self, count: int, holder: Holder | None) -> None:
        if not count:
            return
        driver = self._driver
        log.info("%d gangs did not reach %s and are back in the ready queue", count, holder and holder.name)
        for kind, ready in driver.scheduler.ready.items():
            if ready:
                driver.gangs[kind].fire()

    async def SetPlacements(
        self, request: pb.SetPlacementsRequest, context: object
    ) -> pb.SetPlacementsResponse:
        """Take an engine's placements and failures."""
        driver = self._driver
        holder = self._touch(context)
        failed: list[pb.SetPlacementsFailure.FailedPlacement] = []
        proposals: list[Proposal] = []
        for wire in request.placements:
            try:
                proposals.append(proposal_from(wire))
            except InvalidArgument as wrong:
                failed.append(pb.SetPlacementsFailure.FailedPlacement(placement=wire, message=str(wrong)))
        failures: list[PlacementFailure] = [failure_from(wire) for wire in request.failedPlacements]
        rejections = driver.scheduler.propose(holder, proposals, failures, driver.now())
        if TRACES.on:
            self._traced.placed(proposals, rejections)
        driver.wake()
        for rejection in rejections:
            given = rejection.proposal
            part = Proposal(given.host, given.agent_id, given.offer_id, given.type, (rejection.run,))
            failed.append(
                pb.SetPlacementsFailure.FailedPlacement(
                    placement=placement_to(part),
                    message=f"{mesos_task_id(*rejection.run)}: {rejection.message}",
                )
            )
        if failed:
            failure = pb.SetPlacementsFailure(failed=failed)
            return pb.SetPlacementsResponse(error=pb.SetPlacementsResponse.Error(failure=failure))
        return pb.SetPlacementsResponse()

    # jobmgr takes placements and reports on their tasks.

    async def GetPlacements(
        self, request: pb.GetPlacementsRequest, context: object
    ) -> pb.GetPlacementsResponse:
        """Hand placements to jobmgr, waiting for some if necessary."""
        driver, scheduler = self._driver, self._driver.scheduler
        holder = self._touch(context)
        name, mine = holder.name if holder is not None else "", kept(driver, context)

        def ready() -> bool:
            return scheduler.placements.first(scheduler.owner(name), mine()) is not None

        await driver.poll(holder, driver.placements, ready, request.timeout)
        holder = self._touch(context)
        limit = _limit(request.limit)
        given = scheduler.hand_over(limit, holder, driver.now(), scheduler.owner(name), mine())
        if TRACES.on:
            self._traced.handed_over(given)
        answer = pb.GetPlacementsResponse(placements=[placement_to(handover) for handover in given])
        if given:
            await delivered(context, lambda: self._take_back_placements(given, holder))
        return answer

    def _take_back_placements(self, given: list[Handover], holder: Holder | None) -> None:
        driver = self._driver
        count = driver.scheduler.take_back_placements(given, holder, driver.now())
        log.info("%d placements did not reach %s and are queued again", count, holder and holder.name)
        driver.wake()

    async def UpdateTasksState(
        self, request: pb.UpdateTasksStateRequest, context: object
    ) -> pb.UpdateTasksStateResponse:
        """Apply states that jobmgr reports. Those of jobs that are not the caller's do not count.

        READY: a run that was handed over is not launched, and is to be placed anew.
        """
        driver, mine = self._driver, shards(context)
        self._touch(context)
        await driver.recovered.wait()
        reported = [
            (parse_mesos_task_id(entry.mesosTaskId.value), _state(i, entry.state))
            for i, entry in enumerate(request.taskStates)
        ]
        runs, _ = divided(mine, reported, lambda entry: refusal(mine, entry[0].job_id))
        now = driver.now()
        for run, state in runs:
            if state is TaskState.READY:
                driver.scheduler.take_unlaunched(run, now)
            else:
                driver.scheduler.observe(run, state, now)
        driver.wake()
        return pb.UpdateTasksStateResponse()

    async def KillTasks(self, request: pb.KillTasksRequest, context: object) -> pb.KillTasksResponse:
        """Remove tasks that are not launched yet. Those of jobs that are not the caller's stay."""
        driver, errors = self._driver, []
        self._touch(context)
        await driver.recovered.wait()
        if not request.tasks:
            message = "tasks: [] is not a list of at least one task"
            errors.append(pb.KillTasksResponse.Error(killError=pb.KillTasksError(message=message)))
        mine = shards(context)
        asked = list(zip(request.tasks, chain(request.runs, repeat(ANY_RUN)), strict=False))
        own, others = divided(mine, asked, lambda each: task_refusal(mine, each[0].value))
        for (task, _), why in others:
            refused = pb.KillTasksError(task=task, message=why)
            errors.append(pb.KillTasksResponse.Error(killError=refused))
        for task, run in own:
            try:
                driver.scheduler.kill(*parse_task_id(task.value), run)
            except (NotFound, InvalidArgument) as missing:
                found = pb.TasksNotFound(task=task, message=str(missing))
                errors.append(pb.KillTasksResponse.Error(notFound=found))
            except Refused as error:
                refused = pb.KillTasksError(task=task, message=str(error))
                errors.append(pb.KillTasksResponse.Error(killError=refused))
        driver.wake()
        return pb.KillTasksResponse(error=errors)

    async def GetPreemptibleTasks(
        self, request: pb.GetPreemptibleTasksRequest, context: object
    ) -> pb.GetPreemptibleTasksResponse:
        """Hand tasks to be evicted to jobmgr, waiting for some if necessary."""
        driver, preemptor = self._driver, self._driver.preemptor
        holder, mine = self._touch(context), kept(driver, context)
        await driver.poll(holder, driver.preemptions, lambda: preemptor.waits(mine()), request.timeout)
        self._touch(context)
        tasks = preemptor.take(_limit(request.limit), mine())
        answer = pb.GetPreemptibleTasksResponse(
            tasks=map(task_to, tasks), preemptionCandidates=map(preemption_candidate, tasks)
        )
        if tasks:
            await delivered(context, lambda: self._take_back_preempted(tasks))
        return answer

    def _take_back_preempted(self, tasks: list[Task]) -> None:
        self._driver.preemptor.give_back(tasks)
        self._driver.preemptions.fire()

    async def NotifyTaskUpdates(
        self, request: pb.NotifyTaskUpdatesRequest, context: object
    ) -> pb.NotifyTaskUpdatesResponse:
        """Apply events of hostmgr's stream."""
        driver = self._driver
        await driver.recovered.wait()
        states, saved = states_from(request.events)
        apply(driver.scheduler, states, saved, driver.now())
        driver.wake()
        done = max((event.offset for event in request.events), default=0)
        return pb.NotifyTaskUpdatesResponse(purgeOffset=done)

    # Queries of operators, placement engines and hostmgr.

    async def GetActiveTasks(
        self, request: pb.GetActiveTasksRequest, context: object
    ) -> pb.GetActiveTasksResponse:
        """Return the tasks that match, by run and by state."""
        await self._driver.restored.wait()
        try:
            tasks = self._matching(request)
        except (InvalidArgument, NotFound) as wrong:
            return pb.GetActiveTasksResponse(error=pb.GetActiveTasksResponse.Error(message=str(wrong)))
        answer = pb.GetActiveTasksResponse()
        for number, task in enumerate(tasks, 1):
            if not number % _AT_ONCE:
                await asyncio.sleep(0)
            if task.state is TaskState.DELETED:
                continue
            run, state = mesos_task_id(*task.key), task.state.name
            answer.taskStatesMap[run] = state
            answer.tasksByState[state].taskEntry.add(
                taskID=run,
                taskState=state,
                reason=task.reason,
                lastUpdateTime=rfc3339(self._driver.wall(task.since)),
                hostname=task.host,
            )
        return answer

    def _matching(self, request: pb.GetActiveTasksRequest) -> list[Task]:
        scheduler = self._driver.scheduler
        for i, name in enumerate(request.states):
            if name not in TaskState.__members__:
                raise InvalidArgument(f"states[{i}]", name, "the name of a TaskState")
        states = {TaskState[name] for name in request.states}
        pool = scheduler.tree.get(request.respoolID) if request.respoolID else None
        if request.jobID:
            job = scheduler.registry.jobs.get(request.jobID)
            tasks = list(job.tasks.values()) if job is not None else []
        else:
            tasks = list(scheduler.registry)
        return [
            task
            for task in tasks
            if (not states or task.state in states) and (pool is None or pool in task.pool.ancestors)
        ]

    async def GetPendingTasks(
        self, request: pb.GetPendingTasksRequest, context: object
    ) -> pb.GetPendingTasksResponse:
        """Return the gangs of a pool's queues."""
        pool = self._driver.scheduler.tree.get(request.respoolID.value)
        answer, limit = pb.GetPendingTasksResponse(), _limit(request.limit)
        for name in NAMES:
            gangs = answer.pendingGangsByQueue[name]
            for gang in islice(self._driver.scheduler.pending.named(pool, name), limit):
                gangs.pendingGangs.add(taskIDs=_task_ids(gang))
        aside = self._driver.scheduler.infeasible
        for gang in islice((gang for gang in aside if gang.pool is pool), limit):
            answer.pendingGangsByQueue[aside.name].pendingGangs.add(taskIDs=_task_ids(gang))
        return answer

    async def GetTasksByHosts(
        self, request: pb.GetTasksByHostsRequest, context: object
    ) -> pb.GetTasksByHostsResponse:
        """Return the tasks of hosts."""
        await self._driver.restored.wait()
        answer = pb.GetTasksByHostsResponse()
        for host in request.hostnames:
            tasks = answer.hostTasksMap[host].tasks
            for task in self._driver.scheduler.registry.on_host(host):
                if not request.type or int(request.type) == task.needs.type:
                    tasks.append(task_to(task))
        return answer

    async def GetOrphanTasks(
        self, request: pb.GetOrphanTasksRequest, context: object
    ) -> pb.GetOrphanTasksResponse:
        """Return earlier runs that still hold an allocation."""
        scheduler = self._driver.scheduler
        pool = scheduler.tree.get(request.respoolID) if request.respoolID else None
        return pb.GetOrphanTasksResponse(
            orphanTasks=[
                task_to(task)
                for task in scheduler.registry.orphans.values()
                if pool is None or pool in task.pool.ancestors
            ]
        )

    async def GetHostsByScores(
        self, request: pb.GetHostsByScoresRequest, context: object
    ) -> pb.GetHostsByScoresResponse:
        """Return hosts by the cost of moving their tasks, the cheapest first; those without tasks come first.

        Hosts with tasks that are not preemptible are left out. Raises Unavailable where hostmgr, which knows
        the hosts, does not answer.
        """
        await self._driver.recovered.wait()
        hostnames = await self._hosts.hostnames()
        hosts = cheapest_first(hostnames, self._driver.scheduler.registry, self._driver.now())
        return pb.GetHostsByScoresResponse(hosts=hosts[: min(request.limit or DEFAULT_LIMIT, MAX_HOSTS)])

    def _touch(self, context: object) -> Holder | None:
        """Renew the caller's lease. Raises Fenced for a leader whose successor has called."""
        return touch(self._driver, context)


def _task_ids(gang: Gang) -> list[str]:
    return [task_id(task.job.id, task.instance) for task in gang.tasks]


def _state(position: int, number: int) -> TaskState:
    """Return the state of a number. Raises InvalidArgument for an unknown one."""
    try:
        return TaskState(number)
    except ValueError:
        raise InvalidArgument(f"taskStates[{position}].state", number, "the number of a TaskState") from None


def _limit(requested: int) -> int:
    return min(requested or DEFAULT_LIMIT, MAX_GANGS)
