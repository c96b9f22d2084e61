"""Jobs of public traces and generators: Microsoft's Philly, Alibaba's openb, Kueue's performance test.

Raises InvalidArgument with the file and the line of what is wrong, ConfigError with the field.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ConfigDict, Field

from peloton.config.loading import validated
from peloton.errors import InvalidArgument
from peloton.model.resources import Resources
from simulator.jobs import SimJob

MAX_SECONDS = 10 * 365 * 86400.0
GPUS_OF_A_HOST = 8
CPU_OF_A_GPU, MEMORY_OF_A_GPU = 4.0, 32_000.0
"""What a task of the Philly trace takes beside each GPU, in cores and MB: the trace does not tell."""
OPENB_HOSTS = {"sn", "cpu_milli", "memory_mib", "gpu", "model"}
_OPENB_PODS = {
    "name", "cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "qos", "creation_time", "deletion_time",
}  # fmt: skip
_PHILLY = {"timestamp", "duration", "num_gpus", "cluster"}
_MS = 0.001


def size_class(number: int, noun: str) -> str:
    """Return the class of a job by its size: powers of two."""
    if number == 1:
        return f"1 {noun}"
    low = 1 << (number - 1).bit_length() - 1
    return f"{low + 1}-{2 * low} {noun}s" if low > 1 else f"2 {noun}s"


def csv_jobs(path: Path, lines: Iterable[str]) -> Iterator[SimJob]:
    """Read the CSV of Philly or of openb, by its columns."""
    rows = csv.DictReader(lines)
    columns = set(rows.fieldnames or ())
    if columns >= _OPENB_PODS:
        yield from _openb(path, rows)
    elif columns >= _PHILLY:
        yield from _philly(path, rows)
    else:
        expected = f"a CSV with the columns {', '.join(sorted(_PHILLY))}, or with those of openb's pods"
        raise InvalidArgument(str(path), sorted(columns), expected)


def _philly(path: Path, rows: Iterable[Mapping[str, str]]) -> Iterator[SimJob]:
    """Read Microsoft's Philly trace: a virtual cluster is a pool.

    A job of more GPUs than a host has is a gang of equal tasks, each on one host.
    """
    for number, row in enumerate(rows, 2):
        where = f"{path}:{number}"
        try:
            begun = datetime.fromisoformat(row["timestamp"]).replace(tzinfo=UTC).timestamp()
            seconds, gpus = float(row["duration"]), int(float(row["num_gpus"]))
        except (ValueError, TypeError):
            raise InvalidArgument(where, dict(row), "a time, a duration and a number of GPUs") from None
        if gpus < 1 or not 0 <= seconds <= MAX_SECONDS:
            raise InvalidArgument(where, dict(row), "at least one GPU, and a duration of 0 s or more")
        each = next(n for n in range(min(gpus, GPUS_OF_A_HOST), 0, -1) if gpus % n == 0)
        yield SimJob(
            name=f"job-{number - 1}",
            submit=begun,
            pool=f"/{row['cluster']}",
            resources=Resources.of(CPU_OF_A_GPU * each, MEMORY_OF_A_GPU * each, 0.0, each),
            seconds=seconds,
            instances=gpus // each,
            gang=True,
            preemptible=True,
            kind=size_class(gpus, "GPU"),
        )


def _openb(path: Path, rows: Iterable[Mapping[str, str]]) -> Iterator[SimJob]:
    """Read the pods of Alibaba's openb: the quality of service is the pool, each pod a job of one instance.

    A pod runs from the time it was scheduled until its deletion. The models of GPUs that it asks for do not
    count, and parts of a GPU may be of several devices.
    """
    for number, row in enumerate(rows, 2):
        where = f"{path}:{number}"
        try:
            begun, end = float(row["creation_time"]), float(row["deletion_time"])
            scheduled = float(row.get("scheduled_time") or begun)
            gpus = int(row["num_gpu"]) * (float(row["gpu_milli"] or 0) / 1000)
            cpu, memory = float(row["cpu_milli"]) / 1000, float(row["memory_mib"])
        except (ValueError, TypeError):
            raise InvalidArgument(where, dict(row), "times, and amounts of cpu, memory and GPUs") from None
        seconds = end - max(begun, scheduled)
        if min(cpu, memory, gpus) < 0 or not 0 <= seconds <= MAX_SECONDS:
            expected = "amounts of 0 or more, and a deletion after the pod was scheduled"
            raise InvalidArgument(where, dict(row), expected)
        yield SimJob(
            name=row["name"],
            submit=begun,
            pool=f"/{(row['qos'] or 'default').lower()}",
            resources=Resources.of(cpu, memory, 0.0, gpus),
            seconds=seconds,
            preemptible=True,
            kind="no GPU" if not gpus else "part of a GPU" if gpus < 1 else size_class(round(gpus), "GPU"),
        )


# Kueue.


class _Strict(BaseModel):
    model_config = ConfigDict(extra="ignore", frozen=True)


class _Template(_Strict):
    className: str
    runtimeMs: float = Field(ge=0)
    priority: int = 0
    request: float = Field(gt=0)
    podCount: int = Field(1, ge=1, le=100_000)


class _Workloads(_Strict):
    count: int = Field(ge=0, le=1_000_000)
    creationIntervalMs: float = Field(ge=0)
    workloads: tuple[_Template, ...] = Field(min_length=1)


class _Queues(_Strict):
    className: str
    count: int = Field(ge=1, le=100_000)
    nominalQuota: float = Field(ge=0)
    borrowingLimit: float | None = Field(None, ge=0)
    workloadsSets: tuple[_Workloads, ...] = ()


class _Cohorts(_Strict):
    className: str
    count: int = Field(ge=1, le=100_000)
    queuesSets: tuple[_Queues, ...] = Field(min_length=1)


class _Generator(_Strict):
    cohorts: tuple[_Cohorts, ...]


def read_generator(path: Path, given: Any) -> tuple[_Cohorts, ...]:
    """Return the cohorts of a configuration of Kueue's generator, as it is in its YAML."""
    return validated(_Generator, {"cohorts": given}, str(path)).cohorts


def _queue_paths(cohorts: Iterable[_Cohorts]) -> Iterator[tuple[str, str, _Queues]]:
    """Iterate over all queues: path of the cohort, path of the queue, and what it is."""
    number = 0
    for cohort in cohorts:
        for _ in range(cohort.count):
            above = f"/{cohort.className}-{number}"
            number += 1
            at = 0
            for queues in cohort.queuesSets:
                for _ in range(queues.count):
                    yield above, f"{above}/{queues.className}-{at}", queues
                    at += 1


def kueue_jobs(path: Path, lines: Iterable[str]) -> Iterator[SimJob]:
    """Read the workloads of Kueue's performance test: each queue gets each stream, a cohort is a pool above.

    The pods of a workload start together; each takes an equal part of what the workload requests, in cores.
    """
    try:
        given = yaml.safe_load("".join(lines))
    except yaml.YAMLError as error:
        raise InvalidArgument(str(path), " ".join(str(error).split()), "YAML") from None
    for _, queue, queues in _queue_paths(read_generator(path, given)):
        for stream, workloads in enumerate(queues.workloadsSets):
            for at in range(workloads.count):
                of = workloads.workloads[at % len(workloads.workloads)]
                yield SimJob(
                    name=f"{queue[1:].replace('/', '-')}-{of.className}-{stream}-{at}",
                    submit=workloads.creationIntervalMs * _MS * (at + 1),
                    pool=queue,
                    resources=Resources.of(of.request),
                    seconds=of.runtimeMs * _MS,
                    instances=of.podCount,
                    gang=True,
                    priority=of.priority,
                    preemptible=True,
                    kind=of.className,
                )


def kueue_cluster(path: Path, given: Any) -> Mapping[str, Any]:
    """Return the cluster of Kueue's performance test: a host that has the quotas of all, and the queues.

    A queue has its quota reserved, and may have as much more as it may borrow. There is one host, since Kueue
    admits by quota alone.
    """
    queues: dict[str, Mapping[str, Any]] = {}
    cohorts: dict[str, float] = {}
    for above, queue, of in _queue_paths(read_generator(path, given)):
        cohorts[above] = cohorts.get(above, 0.0) + of.nominalQuota
        limit = None if of.borrowingLimit is None else of.nominalQuota + of.borrowingLimit
        queues[queue] = {"reservation": of.nominalQuota, "limit": limit}
    whole = sum(cohorts.values())
    pools = [
        {"path": above, "resources": {"cpu": {"reservation": has, "limit": has}}}
        for above, has in cohorts.items()
    ]
    for queue, cpu in queues.items():
        most = cohorts[queue.rpartition("/")[0]]
        limit = most if cpu["limit"] is None else min(cpu["limit"], most)
        pools.append({"path": queue, "resources": {"cpu": {**cpu, "limit": limit}}})
    return {"hosts": [{"count": 1, "cpu": whole}], "pools": pools}


def openb_hosts(path: Path, lines: Iterable[str]) -> Mapping[str, Any]:
    """Return the cluster of openb's list of hosts, those that are alike together."""
    rows = csv.DictReader(lines)
    if not set(rows.fieldnames or ()) >= OPENB_HOSTS:
        expected = f"a CSV with the columns {', '.join(sorted(OPENB_HOSTS))}"
        raise InvalidArgument(str(path), rows.fieldnames, expected)
    alike: dict[tuple[float, float, float, str], int] = {}
    for number, row in enumerate(rows, 2):
        try:
            key = (
                float(row["cpu_milli"]) / 1000,
                float(row["memory_mib"]),
                float(row["gpu"]),
                row["model"] or "",
            )
        except (ValueError, TypeError):
            raise InvalidArgument(f"{path}:{number}", dict(row), "amounts of cpu, memory and GPUs") from None
        alike[key] = alike.get(key, 0) + 1
    hosts = [
        {
            "count": count,
            "cpu": cpu,
            "memory": memory,
            "gpu": gpu,
            "labels": {"gpu_model": model} if model else {},
        }
        for (cpu, memory, gpu, model), count in alike.items()
    ]
    return {"hosts": hosts}
