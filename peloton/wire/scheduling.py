"""Decode what a job waits for before it begins."""

from __future__ import annotations

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.dependency import Dependency, DependencyEnd


def dependencies(config: job_pb2.JobConfig) -> tuple[Dependency, ...]:
    """Decode the dependencies of a job. Raises InvalidArgument for an end that is not known."""
    return tuple(
        Dependency(each.job_id, each.job, _end(each.end, f"dependsOn[{number}].end"))
        for number, each in enumerate(config.dependsOn)
    )


def _end(number: int, path: str) -> DependencyEnd:
    try:
        return DependencyEnd(number)
    except ValueError:
        known = ", ".join(f"DEPENDENCY_END_{each.name} ({each})" for each in DependencyEnd)
        raise InvalidArgument(path, number, f"one of {known}") from None
