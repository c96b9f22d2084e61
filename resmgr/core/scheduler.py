"""The resource manager's core: every event that changes its state. One object, one thread, no I/O."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from types import MappingProxyType

from peloton.model.host_pool import implicit_pool
from peloton.model.ids import JobId, Run
from peloton.model.pool import PoolConfig
from peloton.model.resources import Resources
from peloton.model.shortage import Shortage
from peloton.model.states import TaskState, TaskType
from resmgr.core.admission.checks import refusal
from resmgr.core.admission.cycle import Admission
from resmgr.core.admission.enqueueing import Enqueueing
from resmgr.core.entitlement.sharing import Sharing
from resmgr.core.placing.engine import EngineExchange
from resmgr.core.placing.expiry import expire, expire_leases, take_unlaunched
from resmgr.core.placing.handover import hand_over
from resmgr.core.placing.owned import take_claim
from resmgr.core.placing.redelivery import take_back_gangs, take_back_placements
from resmgr.core.placing.runs import ANY_RUN, kill, observe
from resmgr.core.preemption.decide import Rules
from resmgr.core.preemption.execution import Preemptor
from resmgr.core.state.classes import ClassCapacities
from resmgr.core.state.entities import Gang, Holder, Task
from resmgr.core.state.lifecycle import Lifecycle
from resmgr.core.state.limits import Limits
from resmgr.core.state.needs import NewAlone, NewTask, Shape
from resmgr.core.state.owners import NOBODY
from resmgr.core.state.placements import Handover, PlacementFailure, Proposal, Rejection, ReservedGang
from resmgr.core.state.policies import OWN, Policies
from resmgr.core.state.pool import Pool


class Scheduler:
    """A facade over the parts. Every method is one event: `now` is seconds on the monotonic clock."""

    def __init__(
        self,
        limits: Limits | None = None,
        stream_id: str = "",
        rules: Rules | None = None,
        preemption_limit: int = 10_000,
        policies: Policies = OWN,
    ) -> None:
        """Build the parts.

        `stream_id` names the first stream of reasons; `preemption_limit` bounds the tasks that wait to be
        evicted.
        """
        self.lifecycle = lifecycle = Lifecycle(limits or Limits(), stream_id, policies.queue_order)
        self.registry, self.leases, self.deadlines = lifecycle.registry, lifecycle.leases, lifecycle.deadlines
        self.reasons, self.infeasible = lifecycle.reasons, lifecycle.infeasible
        self.strangers = lifecycle.strangers
        self.pending, self.ready, self.placements = lifecycle.pending, lifecycle.ready, lifecycle.placements
        self.sharing = Sharing(lifecycle, self._admits, policies.entitlement)
        self.tree = self.sharing.tree
        self.preemptor = Preemptor(lifecycle, self.sharing, rules, preemption_limit)
        self._admission = Admission(lifecycle, self.sharing)
        self._enqueueing = Enqueueing(lifecycle)
        self._engines = EngineExchange(lifecycle)
        self.host_pools = False
        """Whether hosts are in host pools, so that gangs are handed out with the pools of their kinds."""
        self._unconfined: frozenset[TaskType] = frozenset()
        """Types whose placement engines ignore host pools."""

    def ignore_host_pools(self, kind: TaskType, ignored: bool) -> None:
        """Note whether the placement engines of a type use the hosts of all host pools."""
        if ignored == (kind in self._unconfined):
            return
        self._unconfined = self._unconfined | {kind} if ignored else self._unconfined - {kind}
        for shape in self.infeasible.shapes():
            if any(fit.host_pool for fit, _ in shape.members):
                self.bring_back(shape)

    def confines(self, kind: TaskType) -> bool:
        """Return whether tasks of a type run on the hosts of their host pools only."""
        return self.host_pools and kind not in self._unconfined

    @property
    def open_pools(self) -> frozenset[str]:
        """Return the host pools to which nothing is confined, since engines ignore them."""
        return frozenset(
            implicit_pool(kind, preemptible) for kind in self._unconfined for preemptible in (True, False)
        )

    @property
    def limits(self) -> Limits:
        """Return the limits and time-outs."""
        return self.lifecycle.limits

    @property
    def changed(self) -> bool:
        """Return whether admission may find something new to do."""
        return self.lifecycle.changed

    @property
    def rests(self) -> bool:
        """Return whether time alone changes nothing: no gang waits, no deadline or reason is due."""
        waiting = self.pending.active or self.deadlines or self.reasons.untold or any(self.ready.values())
        return not (waiting or self.changed)

    # Pools and capacity.

    def load_pools(self, configs: Iterable[PoolConfig]) -> list[Pool]:
        """Insert stored pools. Return and raise as `PoolTree.load`."""
        return self.sharing.load_pools(configs)

    def set_capacity(
        self, capacity: Resources, slack: Resources, classes: ClassCapacities = MappingProxyType({})
    ) -> None:
        """Set what the cluster has, and each class of its hosts."""
        if self.sharing.set_capacity(capacity, slack, classes):
            self._admission.explain_again()

    def entitle(self) -> None:
        """Share the capacity anew: the tree has changed, or the interval is over."""
        self.sharing.entitle()

    def _admits(self, gang: Gang) -> bool:
        return refusal(gang.charge, gang.pool, self.limits.preemption) is None

    # Enqueueing and admission.

    def enqueue(self, pool: Pool, gang: Sequence[NewTask], now: float) -> list[Task]:
        """Queue a gang at a leaf. Return and raise as `Enqueueing.enqueue`."""
        return self._enqueueing.enqueue(pool, gang, now)

    def enqueue_alone(self, pool: Pool, new: NewAlone, now: float) -> None:
        """Queue many gangs of one at a leaf. Raises as `Enqueueing.enqueue_alone`."""
        self._enqueueing.enqueue_alone(pool, new, now)

    def restore(
        self, pool: Pool, new: NewTask, state: TaskState, host: str, now: float, since: float | None = None
    ) -> None:
        """Take in a run that is on a host already, in its state `since` then, with its allocation."""
        self._enqueueing.restore(pool, new, state, host, now, since)

    def admit(self, now: float) -> bool:
        """Run one cycle of admission; return whether another one is due now."""
        return self._admission.admit(now)

    # Placing and launching.

    def note_call(self, kind: TaskType, holder: Holder | None, call: int, received: int, now: float) -> int:
        """Take back what an engine's last call got, unless it has arrived; return how many gangs."""
        return self._engines.note_call(kind, holder, call, received, now)

    def dequeue(
        self, kind: TaskType, limit: int, holder: Holder | None, now: float, call: int = 0
    ) -> list[Gang]:
        """Hand out up to `limit` gangs of that task type, leased until placed, failed or out of time."""
        return self._engines.dequeue(kind, limit, holder, now, call)

    def take_back_gangs(self, gangs: Sequence[Gang], holder: Holder | None, now: float) -> int:
        """Take back gangs whose answer did not reach the engine; return how many."""
        return take_back_gangs(self.lifecycle, gangs, holder, now)

    def placing_timeout(self, gang: Gang) -> float:
        """Return the seconds that an engine has for the gang."""
        return self.limits.placing_timeout(gang.attempts.tries)

    def wants_reserved_host(self, gang: Gang) -> bool:
        """Return whether a host should be reserved for the gang (docs/behaviour/placement.md)."""
        limits = self.limits
        if not limits.host_reservation:
            return False
        if gang.attempts.returns >= limits.returns:
            return True
        failed_at = gang.attempts.failed_at
        waited = gang.tasks[0].since - failed_at if failed_at else 0.0
        return len(gang.tasks) > 1 and waited >= limits.gang_patience

    def reserve(self, holder: Holder | None, reserved: ReservedGang, now: float) -> bool:
        """Note that a gang waits for reserved hosts; return False where it is gone or has changed."""
        return self._engines.reserve(holder, reserved, now)

    def propose(
        self,
        holder: Holder | None,
        proposals: Sequence[Proposal],
        failures: Sequence[PlacementFailure],
        now: float,
    ) -> list[Rejection]:
        """Take an engine's result and return what was rejected."""
        return self._engines.propose(holder, proposals, failures, now)

    def bring_back(self, shape: Shape) -> None:
        """Queue gangs of a shape again that were set aside and may fit now."""
        self.lifecycle.bring_back(shape)

    def keep_aside(self, shape: Shape, shortage: Shortage) -> None:
        """Note why gangs of a shape do not fit on the changed hosts."""
        self.lifecycle.keep_aside(shape, shortage)

    def take_claim(self, name: str, terms: Mapping[int, int], now: float) -> int:
        """Take what a job manager owns, by shard and term; return how many gangs return for that."""
        return take_claim(self.lifecycle, name, terms, now)

    def kept(self, terms: Mapping[int, int]) -> frozenset[int]:
        """Return those of the shards that a job manager has claimed in these terms that it still owns."""
        return self.lifecycle.owners.kept(terms)

    def owner(self, name: str) -> str:
        """Return whose part of the placements a job manager gets: its own where there are several owners."""
        return name if self.lifecycle.owners.shared else NOBODY

    def owner_of(self, gang: Gang) -> str:
        """Return who owns a gang; empty where one job manager owns all jobs."""
        return self.lifecycle.owners.of(gang.tasks[0].job.id)

    def hand_over(
        self,
        limit: int,
        holder: Holder | None,
        now: float,
        owner: str = NOBODY,
        shards: Collection[int] | None = None,
    ) -> list[Handover]:
        """Hand out up to `limit` placements for an owner, of shards, leased until launched or over."""
        return hand_over(self.lifecycle, limit, holder, now, owner, shards)

    def take_back_placements(self, given: Sequence[Handover], holder: Holder | None, now: float) -> int:
        """Take back placements whose answer did not reach jobmgr; return how many."""
        return take_back_placements(self.lifecycle, given, holder, now)

    def take_abandoned(self) -> list[Handover]:
        """Return placements that nobody will launch and whose hosts are still claimed, each once."""
        return self.placements.take_abandoned()

    def observe(self, run: Run, state: TaskState, now: float) -> bool:
        """Apply a state that Mesos or jobmgr reports; return whether the run is known and it is possible."""
        return observe(self.lifecycle, run, state, now)

    def take_unlaunched(self, run: Run, now: float) -> bool:
        """Take that jobmgr does not launch a run that it was handed; return whether it is placed anew."""
        return take_unlaunched(self.lifecycle, run, now)

    def note_saved(self, run: Run, at: float) -> None:
        """Note when a run has saved its work: less of it is lost where it is preempted."""
        registry = self.lifecycle.registry
        task = registry.find(run)
        if task is not None:
            registry.saved[task] = max(at, registry.saved.get(task, at))

    def kill(self, job_id: JobId, instance: int, run: int = ANY_RUN) -> None:
        """Remove a task before it is launched, unless it is a newer run. Raises NotFound and Refused."""
        kill(self.lifecycle, job_id, instance, run)

    # Time.

    def expire(self, now: float) -> int:
        """Act on the deadlines that have come; return how many."""
        return expire(self.lifecycle, now)

    def expire_leases(self, now: float, present: Collection[str] | None = None) -> int:
        """Take back the leases of holders that are silent or not `present`; return the number of gangs."""
        return expire_leases(self.lifecycle, now, present)
