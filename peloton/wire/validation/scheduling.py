"""Rules for what a job waits for before it begins, as far as its config alone tells."""

from __future__ import annotations

from peloton.api.v0.job import job_pb2
from peloton.errors import InvalidArgument
from peloton.model.dependency import MAX_DEPENDENCIES
from peloton.model.plural import plural
from peloton.wire.validation.task import check_enum

MAX_CHARACTERS = 1000


def check_dependencies(config: job_pb2.JobConfig) -> None:
    """Check the dependencies of a job. Raises InvalidArgument."""
    count = len(config.dependsOn)
    if not count:
        return
    given = plural(count, "dependency", "dependencies")
    if config.type != job_pb2.BATCH:
        wanted = "left out: only batch jobs wait for other jobs, and this is a service or daemon job"
        raise InvalidArgument("dependsOn", given, wanted)
    if count > MAX_DEPENDENCIES:
        raise InvalidArgument("dependsOn", given, f"at most {MAX_DEPENDENCIES} of them")
    seen: dict[tuple[str, str], int] = {}
    for number, each in enumerate(config.dependsOn):
        path = f"dependsOn[{number}]"
        check_enum(each, "end", f"{path}.end")
        if not each.job:
            raise InvalidArgument(f"{path}.job", each.job, "the name or the id of another job")
        if max(len(each.job), len(each.pool)) > MAX_CHARACTERS:
            wanted = f"at most {MAX_CHARACTERS:,} characters for the job, and for its pool"
            raise InvalidArgument(path, "a longer text", wanted)
        first = seen.setdefault((each.pool, each.job), number)
        if first != number:
            wanted = f"another job than dependsOn[{first}] names"
            raise InvalidArgument(f"{path}.job", each.job, wanted)
