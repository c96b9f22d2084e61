"""Tasks: the part of their config that decisions need, their runtime and their events."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from peloton.fast_init import fast_init
from peloton.model.constraint import Constraint, Label
from peloton.model.foreign_pod import PodRef
from peloton.model.ids import JobId, MesosTaskId
from peloton.model.payload import Opaque
from peloton.model.resources import ZERO, Resources
from peloton.model.retry import RetryRule, RuleEnds
from peloton.model.states import HealthState, TaskState, TerminationReason
from peloton.model.volume import VolumeMount, VolumeSpec
from peloton.model.workload import NO_TASK_WORKLOAD, TaskWorkload

MAX_FAILURES = 100
"""The most failures that a restart policy allows an instance; higher settings count as this."""
KILL_GRACE_SECONDS = 30
"""Seconds that a run has to end after it was asked to, where its config has none."""
CHECK_INTERVAL_SECONDS, CHECK_TIMEOUT_SECONDS, CHECK_FAILURES = 10, 20, 3
"""The interval, the time-out and the failures in a row of a health check whose config has none."""


@dataclass(frozen=True, slots=True)
class PortSpec:
    """A named port. `value` 0 requests a dynamic one, given to the task in the variable `env_name`."""

    name: str
    value: int = 0
    env_name: str = ""


@dataclass(frozen=True, slots=True)
class TaskSpec:
    """The parts of a task's config that scheduling and goals need, with overrides merged in."""

    resources: Resources = ZERO
    ports: tuple[PortSpec, ...] = ()
    constraint: Constraint | None = None
    labels: tuple[Label, ...] = ()
    max_failures: int = 0
    preemptible: bool | None = None
    """None: as the job's SLA says."""
    kill_on_preempt: bool = False
    controller: bool = False
    revocable: bool = False
    volume: VolumeSpec | None = None
    """The persistent volume, which makes the task stateful."""
    health_checked: bool = False
    kill_grace_seconds: int = 0
    """0: the default of 30 s."""
    fingerprint: bytes = b""
    """Digest of what the merged config means: instances whose digests are equal run the same.

    Empty for a batch job: the configs of its instances do not change."""
    workload: TaskWorkload = NO_TASK_WORKLOAD
    retry_rules: tuple[RetryRule, ...] = ()
    """The first that concerns the end of a run decides what follows it, in place of `max_failures`."""
    pod: PodRef | None = None
    """The pod of somebody else that it stands for: once that was bound to a node, no run follows."""

    @property
    def stateful(self) -> bool:
        """Whether the task has a persistent volume."""
        return self.volume is not None

    @property
    def dynamic_ports(self) -> int:
        """Number of dynamic ports."""
        return sum(1 for port in self.ports if port.value == 0)

    @property
    def rendezvous_port(self) -> PortSpec | None:
        """The port by which others reach the task; None where it has none."""
        name, ports = self.workload.rendezvous_port, self.ports
        if name:
            return next((port for port in ports if port.name == name), None)
        return next((port for port in ports if port.value == 0), ports[0] if ports else None)


fast_init(TaskSpec)


@dataclass(frozen=True, slots=True)
class Termination:
    """How a run ended."""

    reason: TerminationReason
    exit_code: int = 0
    signal: str = ""
    by: str = ""
    """Who asked for the end; empty where nobody did, or where callers are not known."""


@dataclass(frozen=True, slots=True)
class TaskRuntime:
    """The state of an instance. Times are nanoseconds since 1970 in UTC, 0 where not yet known."""

    state: TaskState
    goal: TaskState
    run: int
    """Number of the current run; 0 before the first one was named."""
    config_version: int
    desired_config_version: int
    desired_run: int
    """Differs from `run` where a restart is requested."""
    previous_run: int = 0
    host: str = ""
    agent_id: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    start_time: int = 0
    completion_time: int = 0
    message: str = ""
    reason: str = ""
    failure_count: int = 0
    health: HealthState = HealthState.DISABLED
    termination: Termination | None = None
    desired_host: str = ""
    volume_id: str = ""
    resource_usage: Mapping[str, float] = field(default_factory=dict)
    """By kind, over all runs: limit × seconds (cpu, gpu, memory), and what `model.usage` has beside it."""
    revision: int = 1
    created_at: int = 0
    updated_at: int = 0
    throttled: bool = False
    """Whether the run of a service has failed, and the next one waits for the end of a pause."""
    killed_for: str = ""
    """By whom or for what Peloton kills the run, such as `stopped by ann` or `maintenance of h1`; empty where
    it does not, where the run ended otherwise, and where nobody is known."""
    previous_state: TaskState = TaskState.UNKNOWN
    """In which the previous run ended; UNKNOWN where there was none."""
    saved_at: int = 0
    """When the run has saved its work last; 0 where it has not, or where its agent does not tell."""
    rule_ends: RuleEnds | None = None
    """Ends of its runs that retry rules concern; None where there was none."""

    @property
    def avoided_hosts(self) -> tuple[str, ...]:
        """The hosts on which the run is not to be placed, by a retry rule."""
        return () if self.rule_ends is None else self.rule_ends.avoided


fast_init(TaskRuntime)


@dataclass(frozen=True, slots=True)
class PodEvent:
    """A change of a run's state, kept for 90 days."""

    job_id: JobId
    instance: int
    run: int
    state: TaskState
    goal: TaskState
    timestamp: int
    """Nanoseconds since 1970."""
    config_version: int
    desired_config_version: int
    previous_run: int = 0
    desired_run: int = 0
    agent_id: str = ""
    hostname: str = ""
    message: str = ""
    reason: str = ""
    health: HealthState = HealthState.DISABLED
    termination: Termination | None = None
    """How the run ended, or, of a live one, why it is to end."""


fast_init(PodEvent)


@dataclass(frozen=True, slots=True)
class TaskStatus:
    """A status of a run that hostmgr received from Mesos."""

    mesos_task_id: MesosTaskId
    state: TaskState
    timestamp: int
    """Nanoseconds since 1970."""
    agent_id: str = ""
    message: str = ""
    reason: str = ""
    """Mesos' reason without the prefix REASON_, or empty."""
    healthy: bool | None = None
    uuid: bytes = b""
    """Empty where Mesos wants no acknowledgement."""
    saved_at: int = 0
    """When the run has saved its work, in nanoseconds since 1970; 0 where that is not told."""
    cpu_time: int = 0
    """At the end of a run: its CPU time in nanoseconds; 0 where that is not told."""
    memory_peak: int = 0
    """At the end of a run: the most bytes of memory at a time; 0 where that is not told."""


fast_init(TaskStatus)


@dataclass(frozen=True, slots=True)
class Launch:
    """A run that is to start on a host that is claimed for it."""

    mesos_task_id: MesosTaskId
    resources: Resources
    payload: Opaque
    """The task's config as the user gave it, for the adapter that describes the task."""
    revocable: bool = False
    ports: Mapping[str, int] = field(default_factory=dict)
    """Number of each named port, static ones included."""
    dynamic_ports: tuple[int, ...] = ()
    """Those that are taken out of the host's offers."""
    volume: VolumeMount | None = None


fast_init(Launch)
