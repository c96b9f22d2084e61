"""The private PlanningService: what would become of gangs, without any effect."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence

from peloton.api.v0 import peloton_pb2
from peloton.errors import InvalidArgument, PelotonError, Refused, Unavailable
from peloton.model.shortage import Shortage
from peloton.model.states import TaskType
from peloton.private.resmgr.planning import planning_pb2 as pb
from peloton.private.resmgr.planning import planning_pb2_grpc
from peloton.wire.feasibility import shortage_to
from resmgr.core.planning.admission import Admitted, PlannedGangs, plan_admission
from resmgr.core.planning.preemption import plan_preemption
from resmgr.core.preemption.policy import Victim
from resmgr.core.preemption.view import CROSS_POOL
from resmgr.core.state.amounts import Charge, total_charge
from resmgr.core.state.needs import Needs, Shape
from resmgr.core.state.pending_reasons import Common
from resmgr.drivers.loop import LONGEST_POLL, Driver, run_in_steps
from resmgr.drivers.plans import Plans
from resmgr.ports import PlannedHosts
from resmgr.wire.tasks import PLACED_TYPES, planned_task

HOSTMGR_SECONDS = 5.0
"""How long a plan waits for hostmgr."""
MOST_GROUPS = 1000
MOST_NAMES = 5
"""Hosts that are named."""
MOST_JOBS = 10
"""Jobs of victims that are named."""
NO_POOLS: frozenset[str] = frozenset()
Members = Sequence[tuple[Needs, int]]
Shortages = Sequence[Shortage | None]


class PlanningService(planning_pb2_grpc.PlanningServiceServicer):
    """Plan admission and preemption here, and placement by an engine."""

    def __init__(self, driver: Driver, hosts: PlannedHosts, plans: Plans, preemption_period: float) -> None:
        self._driver = driver
        self._hosts = hosts
        self._plans = plans
        self._period = preemption_period

    async def PlanGangs(self, request: pb.PlanGangsRequest, context: object) -> pb.PlanGangsResponse:
        """Return what would become of gangs. Raises NotFound, Refused, Unavailable, InvalidArgument."""
        driver, scheduler = self._driver, self._driver.scheduler
        pool = scheduler.tree.get(request.pool.value)
        if not pool.leaf:
            raise Refused(f"{pool.path} is not a leaf: only leaves take jobs")
        if not driver.restored.is_set() or scheduler.tree.capacity is None:
            raise Unavailable(Common.CAPACITY_UNKNOWN)
        if len(request.groups) > MOST_GROUPS:
            raise InvalidArgument("groups", len(request.groups), f"at most {MOST_GROUPS} groups")
        members = [self._members(group) for group in request.groups]
        shortages = await self._shortages(members)
        of_daemons = await self._hosts_of_daemons(members)
        counts = [
            of_daemons[at].hosts if at in of_daemons else group.count
            for at, group in enumerate(request.groups)
        ]
        groups = [
            PlannedGangs(
                _charge(each),
                each[0][0].priority,
                each[0][0].type,
                0 if lacking else count,
                sum(number for _, number in each),
            )
            for each, count, lacking in zip(members, counts, shortages, strict=True)
        ]
        plan = plan_admission(scheduler, pool, groups)
        victims = await run_in_steps(plan_preemption(scheduler, pool, groups, plan, driver.now()))
        placed = await self._placed(request.groups, groups, plan.groups, of_daemons)
        return pb.PlanGangsResponse(
            groups=[
                _group_plan(count, admitted, lacking, where)
                for count, admitted, lacking, where in zip(
                    counts, plan.groups, shortages, placed, strict=True
                )
            ],
            victims=self._victims(victims),
        )

    async def TakePlan(self, request: pb.TakePlanRequest, context: object) -> pb.TakePlanResponse:
        """Hand a plan to an engine, waiting for one if necessary. Raises InvalidArgument."""
        if request.type not in PLACED_TYPES:
            raise InvalidArgument("type", request.type, f"one of {sorted(PLACED_TYPES)}")
        seconds = min(request.timeout_ms / 1000, LONGEST_POLL)
        taken = await self._plans.take(TaskType(request.type), seconds)
        if taken is None:
            return pb.TakePlanResponse()
        return pb.TakePlanResponse(plan_id=taken.id, groups=taken.groups, seconds=self._plans.answer_seconds)

    async def AnswerPlan(self, request: pb.AnswerPlanRequest, context: object) -> pb.AnswerPlanResponse:
        """Take an engine's answer."""
        self._plans.answer(request.plan_id, request.groups)
        return pb.AnswerPlanResponse()

    def _members(self, group: pb.Gangs) -> Members:
        if not group.members or not all(each.count for each in group.members):
            raise InvalidArgument("groups.members", "[]", "at least one, each with a count of 1 or more")
        members = [(self._driver.translator.needs(each.task), each.count) for each in group.members]
        if len({needs.type for needs, _ in members}) > 1:
            raise Refused("a gang's tasks must all be of one task type")
        return members

    async def _shortages(self, members: Sequence[Members]) -> Shortages:
        """Return why gangs fit on no hosts, even empty ones, or are more than the cluster."""
        shapes = [_shape(each) for each in members]
        shortages = await self._hosts.check(shapes, NO_POOLS, HOSTMGR_SECONDS)
        sharing = self._driver.scheduler.sharing
        return [
            lacking or sharing.beyond_cluster(_charge(each))
            for each, lacking in zip(members, shortages, strict=True)
        ]

    async def _hosts_of_daemons(self, members: Sequence[Members]) -> dict[int, pb.PlannedHosts]:
        """Return the hosts that would get a task of each group of a daemon job, by its position."""
        found: dict[int, pb.PlannedHosts] = {}
        for at, each in enumerate(members):
            if each[0][0].type is TaskType.DAEMON:
                hosts = await self._hosts.find(_shape(each), MOST_NAMES, HOSTMGR_SECONDS)
                found[at] = pb.PlannedHosts(hosts=hosts.total, tasks=1, names=hosts.names)
        return found

    async def _placed(
        self,
        wires: Sequence[pb.Gangs],
        groups: Sequence[PlannedGangs],
        admitted: Sequence[Admitted],
        of_daemons: Mapping[int, pb.PlannedHosts],
    ) -> Sequence[pb.GangsPlan]:
        """Return an engine's plan of the gangs that would be admitted, for all groups."""
        found = [pb.GangsPlan() for _ in wires]
        for at, hosts in of_daemons.items():
            if admitted[at].count:
                hosts.hosts = admitted[at].count
                found[at] = pb.GangsPlan(placed=hosts.hosts, hosts=[hosts])
        chosen = [at for at, each in enumerate(admitted) if each.count and at not in of_daemons]
        for kind in dict.fromkeys((groups[at].type for at in chosen), True):
            ours = [at for at in chosen if groups[at].type is kind]
            asked = [pb.Gangs(members=self._planned(wires[at]), count=admitted[at].count) for at in ours]
            try:
                answers = await self._plans.ask(kind, asked)
            except PelotonError as error:
                answers = [pb.GangsPlan(unplaced=each.count, unplaced_reason=str(error)) for each in asked]
            for at, answer in zip(ours, answers, strict=True):
                found[at] = answer
        return found

    def _planned(self, gangs: pb.Gangs) -> list[pb.Members]:
        """Return the members of a gang as an engine gets them."""
        translator, scheduler = self._driver.translator, self._driver.scheduler
        return [
            pb.Members(task=planned_task(each.task, translator.needs(each.task), scheduler), count=each.count)
            for each in gangs.members
        ]

    def _victims(self, victims: Sequence[Victim]) -> list[pb.PlannedVictims]:
        tasks: Counter[tuple[str, str, str]] = Counter()
        jobs: dict[tuple[str, str, str], dict[str, None]] = {}
        for victim in victims:
            key = victim.pool, victim.policy, victim.reason
            tasks[key] += len(victim.runs)
            jobs.setdefault(key, {}).update((run.job_id, None) for run in victim.runs)
        checks = self._driver.scheduler.preemptor.strikes
        return [
            pb.PlannedVictims(
                pool=pool,
                policy=policy,
                tasks=count,
                jobs=[peloton_pb2.JobID(value=id) for id in [*jobs[pool, policy, reason]][:MOST_JOBS]],
                reason=reason,
                after_seconds=self._period * (checks if policy == CROSS_POOL else 1),
            )
            for (pool, policy, reason), count in tasks.most_common()
        ]


def _shape(members: Members) -> Shape:
    return Shape(frozenset((needs.fit, count) for needs, count in members), members[0][0].spread)


def _charge(members: Members) -> Charge:
    return total_charge([needs.charge.times(count) for needs, count in members])


def _group_plan(
    count: int, admitted: Admitted, lacking: Shortage | None, placed: pb.GangsPlan
) -> pb.GangsPlan:
    """Return what would become of a group, by all that was found."""
    if lacking is not None:
        return pb.GangsPlan(refused_gangs=count, refused=lacking.explained, shortage=shortage_to(lacking))
    if admitted.limited:
        return pb.GangsPlan(refused_gangs=count, refused=admitted.reason)
    whole = pb.GangsPlan(waiting=count - admitted.count, waiting_reason=admitted.reason, ahead=admitted.ahead)
    whole.MergeFrom(placed)
    return whole
