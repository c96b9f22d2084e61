"""Settings of resmgr."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar

from pydantic import Field

from peloton.config import DaemonSettings, Settings
from resmgr.core.policy import Policy
from storage.config import ENVIRONMENT, StorageSettings


class PlacementSettings(Settings):
    """Time-outs and retries of placing and launching, in seconds (behaviour 5.3 and 7.4)."""

    placing_timeout: float = Field(600.0, gt=0)
    launching_timeout: float = Field(1200.0, gt=0)
    reserved_timeout: float = Field(1800.0, gt=0)
    preempting_timeout: float = Field(600.0, gt=0)
    tries: int = Field(3, ge=1)
    """Failed tries after which a gang frees its allocation and returns to its pool's queue."""
    cycles: int = Field(3, ge=1)
    retry_first: float = Field(1.0, gt=0)
    """Pause after the first failed try; doubled by each further one."""
    retry_longest: float = Field(30.0, gt=0)
    lease_silence: float = Field(30.0, gt=0)
    """How long what was handed out outlives the holder's last call."""


class AdmissionSettings(Settings):
    interval: float = Field(0.1, gt=0)
    """Seconds: queues are tried at least this often."""
    pause: float = Field(0.005, ge=0)
    """Least time between two turns that found something to do, in seconds, so that changes gather."""
    sharing: float = Field(1.0, ge=0)
    """Seconds: capacity is shared anew because of demand at most this often, beside `entitlement_interval`."""
    turn: int = Field(1000, ge=1)
    """Gangs admitted in one turn at most."""
    ready_limit: int = Field(100_000, ge=1)
    placed_limit: int = Field(1_000_000, ge=1)


class EventSettings(Settings):
    """Pulling hostmgr's event stream."""

    batch: int = Field(1000, ge=1)
    poll: float = Field(10.0, gt=0)
    """Longest wait for an event, in seconds."""
    pause: float = Field(0.5, gt=0)
    """Seconds between tries while hostmgr cannot be reached."""


class ResmgrSettings(DaemonSettings):
    storage: StorageSettings
    placement: PlacementSettings = PlacementSettings()
    admission: AdmissionSettings = AdmissionSettings()
    events: EventSettings = EventSettings()
    enable_preemption: bool = True
    """Whether non-preemptible tasks have to keep to their pool's reservation."""
    host_reservation: bool = False
    capacity_first: float = Field(1.0, gt=0)
    """Seconds between questions for the cluster's capacity until it is known."""
    capacity_interval: float = Field(10.0, gt=0)
    metrics_interval: float = Field(5.0, gt=0)

    environment: ClassVar[Mapping[str, str]] = {
        **DaemonSettings.environment,
        **ENVIRONMENT,
        "ENABLE_PREEMPTION": "enable_preemption",
    }

    @property
    def policy(self) -> Policy:
        placement, admission = self.placement, self.admission
        return Policy(
            preemption=self.enable_preemption,
            host_reservation=self.host_reservation,
            sharing=admission.sharing,
            turn=admission.turn,
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
