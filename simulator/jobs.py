"""Jobs of a workload, and what their runs do."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from peloton.fast_init import fast_init
from peloton.model.dependency import Dependency
from peloton.model.ids import JobId, PoolId
from peloton.model.job import JobSpec, Sla
from peloton.model.payload import ApiVersion, Payload
from peloton.model.resources import Resources
from peloton.model.schedule import Schedule
from peloton.model.states import JobType, PlacementStrategy
from peloton.model.task import TaskSpec
from peloton.model.workload import GROWTH_INTERVAL_SECONDS, NO_JOB_WORKLOAD, GangPolicy, JobWorkload

_NOTHING = Payload(ApiVersion.V0, b"")


@dataclass(frozen=True, slots=True)
class SimJob:
    """A job of a workload. Times are in seconds."""

    name: str
    submit: float
    """When it is created, since the start of the run."""
    pool: str
    """The path of its pool."""
    resources: Resources
    """What each instance needs."""
    seconds: float
    """How long each instance runs; of a service, after which time it is stopped."""
    instances: int = 1
    gang: bool = True
    """Whether all instances start together, or not at all."""
    needed: int = 0
    """Of an elastic gang: how many of its instances start together; the others join when there is room. 0: it
    has a fixed size."""
    growth_interval: int = GROWTH_INTERVAL_SECONDS
    """Of an elastic gang: how long a round lasts at least before it ends for a larger one."""
    in_place: bool = False
    """Of an elastic gang: whether members join and leave while the others go on, without rounds."""
    priority: int = 0
    preemptible: bool = False
    longest: int = 0
    """Its maxRunningTime; 0: it has none."""
    max_failures: int = 0
    kind: str = ""
    """Its class in reports; empty: none."""
    service: bool = False
    """Whether it is a service: its instances run until it is stopped."""
    max_unavailable: int = 0
    """Of a service: how many instances may be unavailable; 0: all."""
    depends_on: tuple[Dependency, ...] = ()
    """The jobs whose ends it waits for."""
    schedule: Schedule | None = None
    """When runs of it begin, each a job of its own."""

    def spec(self, pool_id: PoolId) -> JobSpec:
        """Return the job's config."""
        together = self.needed or (self.instances if self.gang and self.instances > 1 else 0)
        return JobSpec(
            version=1,
            name=self.name,
            type=JobType.SERVICE if self.service else JobType.BATCH,
            pool_id=pool_id,
            instance_count=self.instances,
            sla=Sla(
                priority=self.priority,
                preemptible=self.preemptible,
                minimum_running_instances=together,
                max_running_time=self.longest,
                maximum_unavailable_instances=self.max_unavailable,
            ),
            default=TaskSpec(resources=self.resources, max_failures=self.max_failures),
            overrides={},
            payload=_NOTHING,
            placement_strategy=PlacementStrategy.PACK_HOST,
            workload=self._workload,
            depends_on=self.depends_on,
            schedule=self.schedule,
        )

    @property
    def _workload(self) -> JobWorkload:
        if not self.needed:
            return NO_JOB_WORKLOAD
        policy = GangPolicy.RESTART_MEMBER if self.in_place else GangPolicy.DEFAULT
        return JobWorkload(gang_policy=policy, growth_interval=self.growth_interval)


fast_init(SimJob)


def job_id_of(number: int) -> JobId:
    """Return the id of the job at a position of a workload."""
    return str(UUID(int=(number + 1) | 0x4000_8000_0000_0000_0000))
