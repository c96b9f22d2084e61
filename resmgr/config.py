"""Settings of resmgr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

from peloton.config.settings import DaemonSettings, Settings
from peloton.config.sources import Variable
from peloton.durations import parse_duration
from resmgr.core.preemption.decide import Rules
from resmgr.core.state.policy import Policy
from storage.config import StorageSettings


class PlacementSettings(Settings):
    """Time-outs and retries of placing and launching, in seconds (behaviour 5.3 and 7.4)."""

    placing_timeout: float = Field(600.0, gt=0)
    """How long an engine may work on a gang at its first try; twice as long at each further one."""
    launching_timeout: float = Field(1200.0, gt=0)
    """How long jobmgr may take to launch what was placed; then it is placed again."""
    reserved_timeout: float = Field(1800.0, gt=0)
    """How long a gang waits for a host that is reserved for it; then it returns to its pool's queue."""
    preempting_timeout: float = Field(600.0, gt=0)
    """How long a task waits to be evicted; then it runs on."""
    tries: int = Field(3, ge=1)
    """Failed tries after which a gang frees its allocation and returns to its pool's queue."""
    cycles: int = Field(3, ge=1)
    """Such returns after which a gang asks for a reserved host."""
    retry_first: float = Field(1.0, gt=0)
    """Pause after the first failed try; doubled by each further one."""
    retry_longest: float = Field(30.0, gt=0)
    """Longest such pause."""
    lease_silence: float = Field(30.0, gt=0)
    """How long what was handed out outlives the holder's last call."""
    feasibility_interval: float = Field(1.0, gt=0)
    """Pause between two questions to hostmgr whether gangs that fit on no host would fit by now."""


class AdmissionSettings(Settings):
    interval: float = Field(0.1, gt=0)
    """Seconds: queues are tried at least this often."""
    pause: float = Field(0.005, ge=0)
    """Least time between two turns that found something to do, in seconds, so that changes gather."""
    sharing: float = Field(1.0, ge=0)
    """Seconds: capacity is shared anew because of demand at most this often, and each `entitlement_interval`
    anyway."""
    turn: int = Field(1000, ge=1)
    """Gangs admitted in one turn at most."""
    ready_limit: int = Field(100_000, ge=1)
    """Gangs of one task type that are admitted and not yet taken by an engine; no more are admitted then."""
    placed_limit: int = Field(1_000_000, ge=1)
    """Placements that wait for jobmgr; further ones are refused."""


def _seconds(value: Any) -> Any:
    """Parse a duration such as 90s, 1.5m or 1h; leave anything else to the type."""
    try:
        return parse_duration(value) if isinstance(value, str) else value
    except ValueError:
        return value


PoolPath = Annotated[str, Field(pattern=r"^/")]


class PreemptionSettings(Settings):
    """Who has to give way (behaviour 7.5)."""

    period: Annotated[float, Variable("TASK_PREEMPTION_PERIOD"), BeforeValidator(_seconds), Field(gt=0)] = (
        60.0
    )
    """Seconds between two checks."""
    strikes: int = Field(5, ge=1)
    """Checks in a row that must find a pool over its entitlement before it loses tasks."""
    minimum_run: float = Field(0.0, ge=0)
    """Seconds for which a task runs before it may be preempted."""
    victims_per_minute: int | None = Field(None, ge=1)
    """Tasks of one pool that are preempted in a minute at most; a gang that is larger never is. None: no
    limit."""
    queue_limit: int = Field(10_000, ge=1)
    """Tasks that wait for jobmgr to end them."""
    policies: Mapping[PoolPath, tuple[Literal["between", "within"], ...]] = {}
    """By path of a pool, for itself and all below it that are not named: `between` gives back what it has
    over its entitlement, `within` lets its gangs of higher priority take the place of lower ones. Both where
    nothing is said."""

    @property
    def rules(self) -> Rules:
        return Rules(
            policies=dict(self.policies),
            strikes=self.strikes,
            minimum_run=self.minimum_run,
            per_minute=self.victims_per_minute,
        )


class EventSettings(Settings):
    """Pulling hostmgr's event stream."""

    batch: int = Field(1000, ge=1)
    """Events in one answer at most."""
    poll: float = Field(10.0, gt=0)
    """Longest wait for an event, in seconds."""
    pause: float = Field(0.5, gt=0)
    """Seconds between tries while hostmgr cannot be reached."""


class ResmgrSettings(DaemonSettings):
    storage: StorageSettings
    """Where pools are kept; jobs and tasks are read there when leadership begins."""
    placement: PlacementSettings = PlacementSettings()
    """How long placing and launching may take, and how often it is tried."""
    admission: AdmissionSettings = AdmissionSettings()
    """When waiting gangs are tried."""
    events: EventSettings = EventSettings()
    """How statuses are pulled from hostmgr."""
    enable_preemption: Annotated[bool, Variable("ENABLE_PREEMPTION")] = True
    """Whether tasks are preempted, and non-preemptible ones have to keep to their pool's reservation."""
    preemption: PreemptionSettings = PreemptionSettings()
    """When tasks are preempted, which, and how many."""
    entitlement_interval: float = Field(60.0, gt=0)
    """Seconds after which the capacity is shared anew whatever happened."""
    host_reservation: bool = False
    """Whether gangs that could not be placed again and again ask for a host of their own."""
    compare_interval: float = Field(3600.0, gt=0)
    """Seconds between two comparisons of the tasks held in memory with the stored ones."""
    capacity_first: float = Field(1.0, gt=0)
    """Seconds between questions for the cluster's capacity until it is known."""
    capacity_interval: float = Field(10.0, gt=0)
    """The same once it is known and does not change."""
    metrics_interval: float = Field(5.0, gt=0)
    """Seconds between two settings of the gauges of pools and queues."""

    @property
    def policy(self) -> Policy:
        placement, admission = self.placement, self.admission
        return Policy(
            preemption=self.enable_preemption,
            host_reservation=self.host_reservation,
            sharing=admission.sharing,
            admission_batch=admission.turn,
            ready_limit=admission.ready_limit,
            placed_limit=admission.placed_limit,
            placing=placement.placing_timeout,
            launching=placement.launching_timeout,
            reserved=placement.reserved_timeout,
            preempting=placement.preempting_timeout,
            tries=placement.tries,
            cycles=placement.cycles,
            retry_first=placement.retry_first,
            retry_longest=placement.retry_longest,
            silence=placement.lease_silence,
        )
