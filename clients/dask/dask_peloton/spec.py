"""The job whose instances are the workers of a cluster."""

from __future__ import annotations

import math
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml
from distributed.comm.addressing import get_address_host

from dask_peloton.config import LOOPBACK, Settings
from peloton.api.v0.job import job_pb2
from peloton.client.spec import parse_spec, read_spec

if TYPE_CHECKING:
    from distributed.security import Security

MIB = 2**20
WORKER = "distributed.cli.dask_worker"
SANDBOX = '"${MESOS_SANDBOX:-$PWD}"'
INSTANCE = '"$PELOTON_INSTANCE_ID"'
_TLS_FLAGS = {"ca_file": "--tls-ca-file", "cert": "--tls-cert", "key": "--tls-key"}


def base_spec(spec: Mapping[str, Any] | str | Path | None) -> job_pb2.JobConfig:
    """Return the spec that a user gives for the job, empty where none is given. Raises SpecError."""
    if spec is None:
        return job_pb2.JobConfig()
    if isinstance(spec, Mapping):
        return parse_spec(job_pb2.JobConfig, yaml.safe_dump(dict(spec)), "spec")
    return read_spec(job_pb2.JobConfig, str(spec))


def job_config(settings: Settings, scheduler: str, security: Security) -> job_pb2.JobConfig:
    """Return the spec of the job, without its pool and the number of instances.

    `scheduler` is the address at which workers reach the scheduler. Raises SpecError, and ValueError where
    `security` holds certificates in memory.
    """
    config = base_spec(settings.spec)
    config.name, config.type = settings.name, job_pb2.BATCH
    config.owningTeam = settings.team or config.owningTeam
    config.description = config.description or f"workers of the Dask scheduler at {scheduler}"
    config.sla.priority = settings.priority
    config.sla.preemptible, config.sla.revocable = settings.preemptible, settings.revocable
    task = config.defaultConfig
    task.resource.cpuLimit, task.resource.memLimitMb = settings.cores, settings.memory / MIB
    task.resource.diskLimitMb, task.resource.gpuLimit = settings.disk / MIB, settings.gpus
    task.command.shell = True
    task.command.value = command(settings, scheduler, security)
    for name, value in settings.env.items():
        task.command.environment.variables.add(name=name, value=value)
    task.restartPolicy.maxFailures = settings.max_failures
    task.killGracePeriodSeconds = math.ceil(settings.grace)
    return config


def command(settings: Settings, scheduler: str, security: Security) -> str:
    """Return the line for the shell that is a worker.

    Its name at the scheduler is that of its instance. Its log, which Dask writes to standard error, is the
    standard output of the instance.
    """
    words = [settings.python, "-m", WORKER, scheduler]
    words += ["--nthreads", str(settings.nthreads), "--memory-limit", str(settings.memory)]
    words += ["--nanny" if settings.nanny else "--no-nanny"]
    words += ["--death-timeout", f"{settings.death_timeout:g}", *tls_flags(security)]
    if get_address_host(scheduler) == LOOPBACK:
        words += ["--dashboard-address", f"{LOOPBACK}:0"]
    folder = shlex.quote(settings.local_directory) if settings.local_directory else SANDBOX
    extra = shlex.join(settings.worker_extra_args)
    return f"exec {shlex.join(words)} --local-directory {folder} --name {INSTANCE} {extra}".rstrip() + " 2>&1"


def tls_flags(security: Security) -> list[str]:
    """Return the flags by which a worker finds its certificate. Raises ValueError."""
    found: list[str] = []
    for name, value in security.get_tls_config_for_role("worker").items():
        if value and name in _TLS_FLAGS:
            if "\n" in value:
                raise ValueError(
                    f"security: {name} of workers is held in memory: give the path of a file that all hosts "
                    "have, since everybody who may read a job sees its command"
                )
            found += [_TLS_FLAGS[name], str(Path(value).absolute())]
    return found
