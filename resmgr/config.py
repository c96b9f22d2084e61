"""Settings of resmgr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from peloton.config.base import Settings
from peloton.config.older_names import older_names
from peloton.config.plugins import DEFAULT, policy, registered
from peloton.config.settings import DaemonSettings
from peloton.config.sources import Variable
from peloton.durations import parse_duration
from resmgr.core.preemption.decide import Rules
from resmgr.core.state.limits import Limits
from resmgr.core.state.policies import Policies
from storage.config import StorageSettings


class PlacementSettings(Settings):
    """Time-outs and retries of placing and launching, in seconds (docs/behaviour/pools.md)."""

    placing_timeout: float = Field(600.0, gt=0)
    """Seconds that an engine may work on a gang at the first try; doubled for each further one."""
    launching_timeout: float = Field(1200.0, gt=0)
    """Seconds that jobmgr may take to launch a placed gang; then the gang is placed again."""
    reserved_timeout: float = Field(1800.0, gt=0)
    """Seconds that a gang waits for hosts that are reserved for it, from its expected start where there is
    one; then it returns to its pool's queue."""
    preempting_timeout: float = Field(600.0, gt=0)
    """Seconds that a task which is to be preempted waits for jobmgr to end it; then it stays RUNNING."""
    tries: int = Field(3, ge=1)
    """Failed tries after which a gang frees its allocation and returns to its pool's queue."""
    returns: int = Field(3, ge=1)
    """Returns of a gang to its pool's queue after which it requests a reserved host."""
    passes: int = Field(1000, ge=0)
    """Most other gangs of the same queue and priority that are admitted before a gang that returned; doubled
    by each further return. Others that returned do not count."""
    passes_seconds: float = Field(30.0, gt=0)
    """Seconds for which other gangs are admitted before a gang that returned; doubled by each further
    return."""
    gang_patience: float = Field(60.0, ge=0)
    """Seconds after its first failed try from which a gang of several tasks requests reserved hosts."""
    retry_first: float = Field(1.0, gt=0)
    """Seconds between the first failed try of a gang and the next; doubled by each further one."""
    retry_longest: float = Field(30.0, gt=0)
    """Most seconds between two tries of a gang."""
    lease_silence: float = Field(30.0, gt=0)
    """Seconds that an engine keeps the gangs that it dequeued after its last call."""
    feasibility_interval: float = Field(1.0, gt=0)
    """Seconds between two questions to hostmgr for changes of hosts, while gangs wait that fit on no host."""


VICTIM_ORDERS = "peloton.victim_orders"
"""Entry points that are orders of victims."""
ENTITLEMENTS = "peloton.entitlements"
"""Entry points that share the capacity among pools."""
QUEUE_ORDERS = "peloton.queue_orders"
"""Entry points that are orders of the gangs of a queue."""


VictimOrderName = Annotated[str, AfterValidator(registered(VICTIM_ORDERS))]
EntitlementName = Annotated[str, AfterValidator(registered(ENTITLEMENTS))]
QueueOrderName = Annotated[str, AfterValidator(registered(QUEUE_ORDERS))]


class AdmissionSettings(Settings):
    """How gangs are admitted from the queues of their pools (docs/behaviour/pools.md)."""

    interval: float = Field(0.1, gt=0)
    """Longest time between two admission cycles, in seconds."""
    pause: float = Field(0.005, ge=0)
    """Shortest time between two admission cycles, in seconds, so that one cycle handles many changes."""
    sharing_interval: float = Field(1.0, ge=0)
    """Shortest time between two calculations of entitlement because of changed demand, in seconds. It is also
    calculated every `entitlement_interval`."""
    cycle_limit: int = Field(1000, ge=1)
    """Most gangs that one cycle admits."""
    ready_limit: int = Field(100_000, ge=1)
    """Most gangs of one task type that are admitted and not yet taken by an engine."""
    placed_limit: int = Field(1_000_000, ge=1)
    """Most placements that wait for jobmgr; further ones are refused."""
    queue_order: QueueOrderName = DEFAULT
    """In which order gangs of the same queue and priority are tried: `default`, which is as they come, or the
    name of an entry point of `peloton.queue_orders` (docs/policies.md)."""


def _seconds(value: Any) -> Any:
    """Parse a duration such as 90s, 1.5m or 1h; leave anything else to the type."""
    try:
        return parse_duration(value) if isinstance(value, str) else value
    except ValueError:
        return value


PoolPath = Annotated[str, Field(pattern=r"^/")]


class PreemptionSettings(Settings):
    """Which tasks are preempted, and when (docs/behaviour/pools.md)."""

    period: Annotated[float, Variable("TASK_PREEMPTION_PERIOD"), BeforeValidator(_seconds), Field(gt=0)] = (
        60.0
    )
    """Seconds between two checks."""
    strikes: int = Field(5, ge=1)
    """Consecutive checks that must find a pool over its entitlement before its tasks are preempted."""
    minimum_run: float = Field(0.0, ge=0)
    """Seconds for which a task runs before it may be preempted."""
    victims_per_minute: int | None = Field(None, ge=1)
    """Most tasks of one pool that are preempted in a minute; a larger gang is never preempted. None: no
    limit."""
    queue_limit: int = Field(10_000, ge=1)
    """Most tasks that wait for jobmgr to end them."""
    policies: Mapping[PoolPath, tuple[Literal["cross_pool", "same_pool"], ...]] = {}
    """Policies by path of a pool; a pool that is not named has those of its parent. `cross_pool` frees what a
    pool holds over its entitlement; `same_pool` lets gangs replace tasks of lower priority in their own pool.
    The default is both."""
    victim_order: VictimOrderName = DEFAULT
    """In which order tasks are preempted: `default`, or the name of an entry point of `peloton.victim_orders`
    (docs/policies.md)."""

    @property
    def rules(self) -> Rules:
        """Return these settings as the core takes them."""
        return Rules(
            policies=dict(self.policies),
            period=self.period,
            strikes=self.strikes,
            minimum_run=self.minimum_run,
            per_minute=self.victims_per_minute,
            order=policy(VICTIM_ORDERS, self.victim_order),
        )


class EventSettings(Settings):
    """How status updates are pulled from hostmgr's event stream."""

    batch: int = Field(1000, ge=1)
    """Most events in one answer."""
    poll: float = Field(10.0, gt=0)
    """Longest time that a call waits for an event, in seconds."""
    pause: float = Field(0.5, gt=0)
    """Seconds between tries while hostmgr cannot be reached."""


class ResmgrSettings(DaemonSettings):
    """Settings of resmgr."""

    storage: StorageSettings
    """The store of the pools, from which a new leader also reads jobs and tasks."""
    placement: Annotated[PlacementSettings, BeforeValidator(older_names(returns="cycles"))] = (
        PlacementSettings()
    )
    """Time-outs and retries of placing and launching."""
    admission: AdmissionSettings = AdmissionSettings()
    """How gangs are admitted."""
    events: EventSettings = EventSettings()
    """How status updates are pulled from hostmgr."""
    enable_preemption: Annotated[bool, Variable("ENABLE_PREEMPTION")] = True
    """Whether tasks are preempted, and non-preemptible ones are confined to the reservation of their pool."""
    preemption: PreemptionSettings = PreemptionSettings()
    """Which tasks are preempted, and when."""
    entitlement_interval: float = Field(60.0, gt=0)
    """Seconds between two calculations of entitlement, whether something has changed or not."""
    entitlement_policy: EntitlementName = DEFAULT
    """How the capacity is shared among the pools: `default`, or the name of an entry point of
    `peloton.entitlements` (docs/policies.md)."""
    host_reservation: bool = True
    """Whether tasks and gangs that could not be placed repeatedly have hosts reserved for them."""
    audit_interval: float = Field(3600.0, gt=0)
    """Seconds between two comparisons of the tasks in memory with the stored ones."""
    capacity_first: float = Field(1.0, gt=0)
    """Seconds between requests for the cluster's capacity while it is unknown, zero or changing."""
    capacity_interval: float = Field(10.0, gt=0)
    """Seconds between requests for the cluster's capacity once it is stable."""
    metrics_interval: float = Field(5.0, gt=0)
    """Seconds between updates of the gauges of pools and queues."""

    @property
    def policies(self) -> Policies:
        """Return the rules that are plugged in, as the core takes them."""
        return Policies(
            policy(ENTITLEMENTS, self.entitlement_policy), policy(QUEUE_ORDERS, self.admission.queue_order)
        )

    @property
    def limits(self) -> Limits:
        """Return the settings that the core's scheduling depends on."""
        placement, admission = self.placement, self.admission
        return Limits(
            preemption=self.enable_preemption,
            host_reservation=self.host_reservation,
            sharing_interval=admission.sharing_interval,
            cycle_limit=admission.cycle_limit,
            ready_limit=admission.ready_limit,
            placed_limit=admission.placed_limit,
            placing=placement.placing_timeout,
            launching=placement.launching_timeout,
            reserved=placement.reserved_timeout,
            preempting=placement.preempting_timeout,
            tries=placement.tries,
            returns=placement.returns,
            passes=placement.passes,
            passes_seconds=placement.passes_seconds,
            gang_patience=placement.gang_patience,
            retry_first=placement.retry_first,
            retry_longest=placement.retry_longest,
            silence=placement.lease_silence,
        )
