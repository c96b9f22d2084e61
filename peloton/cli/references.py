"""Arguments that name a job or an instance: by its id, by the beginning of the id, or by the job's name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.errors import NotFound, Refused, shown
from peloton.model.ids import SHORTEST_ID_START_CHARACTERS, is_uuid, may_begin_id
from peloton.model.plural import plural

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobSummary

MOST = 20
"""Jobs that are listed where a name is that of several."""
_UUID_CHARACTERS = 36


class JobReference(click.ParamType[str]):
    """The id of a job; its name, alone or behind its pool's path; or the beginning of the id."""

    name = "job"

    def resolve(self, session: Session, value: str) -> str:
        """Return the job's id, asked of the cluster. Raises NotFound, and Refused for several such jobs."""
        return value if not value or is_uuid(value) else job_id_of(session, value)


class PodReference(JobReference):
    """The name of a pod, JOB-INSTANCE, with a job as `JobReference` takes it."""

    def resolve(self, session: Session, value: str) -> str:
        """Return the name with the job's id; what is no such name stays. Raises as `JobReference` does."""
        job, dash, instance = value.rpartition("-")
        if is_uuid(value[:_UUID_CHARACTERS]) or not (job and instance.isascii() and instance.isdecimal()):
            return value
        return f"{super().resolve(session, job)}{dash}{instance}"


class JobOrPodReference(PodReference):
    """A job, or else a pod."""

    def resolve(self, session: Session, value: str) -> str:
        """Return the job's id, or the pod's name with it. Raises as `JobReference` does."""
        if is_uuid(value[:_UUID_CHARACTERS]):
            return value
        try:
            return JobReference.resolve(self, session, value)
        except NotFound:
            found = super().resolve(session, value)
            if found == value:
                raise
            return found


JOB, POD, JOB_OR_POD = JobReference(), PodReference(), JobOrPodReference()


def resolve_all(ctx: click.Context, session: Session) -> None:
    """Replace the jobs and pods that a command was given by their ids, before it runs.

    What else is wrong with its arguments has been told by then, without a call. Raises as `JobReference`.
    """
    for param in ctx.command.params:
        kind, given = param.type, ctx.params.get(param.name or "")
        if not isinstance(kind, JobReference) or not given:
            continue
        resolved = (
            tuple(kind.resolve(session, each) for each in given)
            if isinstance(given, tuple)
            else kind.resolve(session, given)
        )
        ctx.params[param.name or ""] = resolved


def job_id_of(session: Session, reference: str) -> str:
    """Return the id of the job that is meant. Raises NotFound, and Refused where there are several."""
    found = jobs_meant(session, reference)
    if len(found) > 1:
        from peloton.cli.output import say

        for line in job_lines(found):
            say(line)
        raise Refused(f"{_several(reference, found)}, newest first above: give the id of one")
    return found[0].id.value


def jobs_meant(session: Session, reference: str) -> list[JobSummary]:
    """Return the jobs that may be meant, newest first, MOST and one at most. Raises NotFound for none."""
    pool, name = _parts(reference)
    found = _found(session, pool, name)
    if not found:
        raise NotFound(f"job not found: {_not_found(reference, pool, name)}")
    return found


def only_job(session: Session, reference: str) -> str:
    """Return the id as `job_id_of` does; who asks is no user at a terminal: the refusal lists the jobs."""
    if is_uuid(reference):
        return reference
    found = jobs_meant(session, reference)
    if len(found) > 1:
        listed = "; ".join(job_lines(found))
        raise Refused(f"{_several(reference, found)}, newest first: {listed}; give the id of one")
    return found[0].id.value


def job_lines(jobs: Sequence[JobSummary]) -> list[str]:
    """Return a line for each of the first MOST jobs."""
    return [_line(job) for job in jobs[:MOST]]


def jobs_named(session: Session, name: str) -> list[JobSummary]:
    """Return the newest jobs of a name, MOST and one at most."""
    return [job for job in _found(session, "", name) if job.name == name]


def _parts(reference: str) -> tuple[str, str]:
    """Return the pool's path, empty for all pools, and the rest."""
    if not reference.startswith("/"):
        return "", reference
    pool, _, name = reference.rpartition("/")
    return pool or "/", name


def _found(session: Session, pool: str, name: str) -> list[JobSummary]:
    from peloton.api.v0.job import job_pb2
    from peloton.api.v0.query import query_pb2
    from peloton.cli.failures import check

    spec = job_pb2.QuerySpec(reference=name, pagination=query_pb2.PaginationSpec(limit=MOST + 1))
    spec.respool.value = pool
    answer = session.call_unchecked(RPCS.job_svc.Query, job_pb2.QueryRequest(spec=spec, summaryOnly=True))
    if answer.error.HasField("invalidRespool"):
        raise NotFound(f"job not found: {shown(f'{pool}/{name}')}: there is no pool {shown(pool)}")
    check(answer)
    # A server that does not know the field answers with other jobs too.
    return [job for job in answer.results if _meant(job, name)]


def _meant(job: JobSummary, name: str) -> bool:
    return job.name == name or (may_begin_id(name) and job.id.value.lower().startswith(name.lower()))


def _not_found(reference: str, pool: str, name: str) -> str:
    where = f" in the pool {pool}" if pool else ""
    text = f"{shown(reference)}: no job{where} has this name"
    if may_begin_id(name):
        return f"{text}, or an id that begins so; `peloton job query` lists jobs"
    return (
        f"{text}; give the whole name, an id, or its first {SHORTEST_ID_START_CHARACTERS} characters or more"
    )


def _several(reference: str, found: Sequence[JobSummary]) -> str:
    count = plural(len(found), "job") if len(found) <= MOST else f"more than {plural(MOST, 'job')}"
    return f"{shown(reference)} may be {count}"


def _line(job: JobSummary) -> str:
    from peloton.api.v0.job import job_pb2
    from peloton.present.times import short_time

    state = job_pb2.JobState.Name(job.runtime.state)
    return f"{job.id.value}  {job.name}  {state}  created {short_time(job.runtime.creationTime)}"
