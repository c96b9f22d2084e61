"""What agents told last of the runs of a job that live."""

from __future__ import annotations

from collections.abc import Container, Iterator, Sequence

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.measured import Sample
from peloton.clock import NANOSECONDS
from peloton.model.ids import mesos_task_id
from peloton.model.resources import MILLI
from peloton.model.usage import BYTES_PER_MB
from peloton.private.jobmgr.usage import usage_pb2 as pb


def told_last(job: CachedJob, instances: Sequence[int]) -> Iterator[pb.InstanceUsage]:
    """Yield what was told of runs, by instance: of some instances, or of all where none is named."""
    wanted: Container[int] = set(instances) or job.samples
    for instance in sorted(each for each in job.samples if each in wanted):
        yield _row(job, instance, job.samples[instance])


def _row(job: CachedJob, instance: int, sample: Sample) -> pb.InstanceUsage:
    asked = job.task_spec(instance).resources
    return pb.InstanceUsage(
        instance=instance,
        run=mesos_task_id(job.job_id, instance, sample.run),
        cores=sample.cores,
        told_at=sample.last.at / NANOSECONDS,
        cpu_seconds=sample.last.cpu / NANOSECONDS,
        cpu_limit=asked.cpu / MILLI,
        memory_bytes=sample.last.memory,
        memory_peak_bytes=sample.last.peak,
        memory_limit_bytes=asked.memory * BYTES_PER_MB // MILLI,
    )
