"""The job of `peloton run`: a program, in as many processes as are wanted, placed all or none."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, TypedDict

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobConfig

FRAMEWORKS = ("none", "torch", "tensorflow", "jax", "mpi", "horovod", "ray")
PORT, PORT_VARIABLE = "rendezvous", "RENDEZVOUS_PORT"
LONGEST_NAME = 100


class Needs(TypedDict):
    """What the flags of `peloton run` say of a program; see Program."""

    processes: int
    framework: str
    cpus: float
    memory_mb: float
    disk_mb: float
    gpus: float
    environment: Mapping[str, str]
    folder: str | None
    uris: Sequence[str]
    failures: int
    grace_seconds: int | None
    name: str
    least: int | None
    growth_interval: int | None


@dataclass(frozen=True, slots=True)
class Program:
    """A program, and what each of its processes needs."""

    command: Sequence[str]
    processes: int = 1
    framework: str = "none"
    """One of FRAMEWORKS."""
    cpus: float = 1.0
    memory_mb: float = 512.0
    disk_mb: float = 0.0
    gpus: float = 0.0
    environment: Mapping[str, str] = field(default_factory=dict)
    folder: str | None = None
    """Where it runs, on every host; empty or None: in the sandbox."""
    uris: Sequence[str] = ()
    """Files that Mesos fetches into the sandbox."""
    failures: int = 0
    """How often a process may fail and run again."""
    grace_seconds: int | None = None
    """Seconds from SIGTERM to SIGKILL; None: as the cluster has it."""
    name: str = ""
    team: str = ""
    least: int | None = None
    """The fewest processes that make an elastic gang; None: all of them, always."""
    growth_interval: int | None = None
    """Seconds that an elastic gang runs at least before it grows; None: as the cluster has it."""

    @property
    def title(self) -> str:
        """The name of the job; where none is given, that of the program."""
        words = [PurePosixPath(word).name for word in self.command]
        script = next((word for word in words if word.endswith((".py", ".sh"))), words[0])
        return (self.name or script)[:LONGEST_NAME]


def config_of(program: Program) -> JobConfig:
    """Return the spec of the job, without its pool."""
    from peloton.api.v0.job import job_pb2

    config = job_pb2.JobConfig(
        name=program.title,
        type=job_pb2.BATCH,
        owningTeam=program.team,
        instanceCount=program.processes,
        description=f"peloton run: {shlex.join(program.command)}"[:1000],
    )
    _set_gang(config, program)
    task = config.defaultConfig
    task.resource.cpuLimit, task.resource.memLimitMb = program.cpus, program.memory_mb
    task.resource.diskLimitMb, task.resource.gpuLimit = program.disk_mb, program.gpus
    task.command.shell = True
    task.command.value = _shell(program)
    for name, value in program.environment.items():
        task.command.environment.variables.add(name=name, value=value)
    for uri in program.uris:
        task.command.uris.add(value=uri)
    task.restartPolicy.maxFailures = program.failures
    task.killGracePeriodSeconds = program.grace_seconds or 0
    return config


def _set_gang(config: JobConfig, program: Program) -> None:
    """Make several processes a gang, and let those of a framework meet."""
    from peloton.api.workload import workload_pb2

    if program.processes > 1:
        config.sla.minimumRunningInstances = program.processes
        config.workload.rendezvous = True
        again = program.failures > 0
        config.workload.gang_policy = (
            workload_pb2.GANG_POLICY_RESTART_GANG if again else workload_pb2.GANG_POLICY_FAIL
        )
    if program.least:
        config.sla.minimumRunningInstances = program.least
        config.workload.elastic.growth_interval_seconds = program.growth_interval or 0
    if program.framework != "none":
        config.workload.framework = workload_pb2.Framework.Value(f"FRAMEWORK_{program.framework.upper()}")
    if program.processes > 1 or program.framework != "none":
        config.defaultConfig.ports.add(name=PORT, envName=PORT_VARIABLE)


def _shell(program: Program) -> str:
    """Return the line for the shell. The program takes the shell's place, and so its signals."""
    line = f"exec {shlex.join(program.command)}"
    return f"cd {shlex.quote(program.folder)} && {line}" if program.folder else line
