"""When a job that waits will start: a simulation goes on from the state of the cluster, in this process."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

from peloton.cli.live_cluster import PATIENCE_SECONDS, host_answers, pool_answers
from peloton.cli.session import Session
from peloton.client.extensions import ESTIMATES, START, extension
from peloton.client.rpcs import RPCS
from peloton.errors import PelotonError
from peloton.present.estimates import PAGE, PAGES, ended_query, not_simulated

if TYPE_CHECKING:
    from peloton.api.v0.job.job_pb2 import JobSummary
    from peloton.model.estimate import StartEstimate
    from peloton.model.job import JobSpec
    from peloton.model.live_state import LiveState

KEPT_SECONDS = 60.0
_KEPT = "peloton.estimate"
PLANNED = "ffffffff-ffff-4fff-bfff-ffffffffffff"
"""The id of a job that is only planned."""


def start_of(
    session: Session,
    job_id: str,
    kept: MutableMapping[str, Any] | None = None,
    clock: Callable[[], float] = monotonic,
) -> StartEstimate | str | None:
    """Return when the waiting instances of a job will start, or why that is not known.

    None where nobody here makes estimates, or the job has no instance any more that waits. What is in `kept`
    is returned again for KEPT_SECONDS: an estimate costs seconds, and `--watch` asks often.
    """
    made, found = (kept or {}).get(_KEPT, (-KEPT_SECONDS, None))
    if clock() - made < KEPT_SECONDS:
        return cast("StartEstimate | str | None", found)
    found = _estimated(session, job_id, None)
    if kept is not None:
        kept[_KEPT] = clock(), found
    return found


def start_of_planned(session: Session, spec: JobSpec) -> StartEstimate | str | None:
    """Return the same for a job that would be created now."""
    return _estimated(session, PLANNED, spec)


def _estimated(session: Session, job_id: str, planned: JobSpec | None) -> StartEstimate | str | None:
    try:
        make = extension(ESTIMATES, START)
        if make is None:
            return None
        state = read_state(session)
        if planned is not None:
            state = _with_job(state, job_id, planned)
        job = state.job(job_id)
        if job is None or not job.waiting():
            return None
        if cause := not_simulated(job.spec):
            return cause
        found: StartEstimate = make(state, job_id)
    except PelotonError as error:
        return None if getattr(error, "code", "") == "UNIMPLEMENTED" else str(error)
    return found


def read_state(session: Session) -> LiveState:
    """Return the state of the cluster. Raises CallFailed, Refused."""
    from peloton.private.jobmgr.forecast import forecast_pb2
    from peloton.wire.live_state import live_state_from

    request = forecast_pb2.ListLiveJobsRequest()
    jobs = session.call(RPCS.forecast_svc.ListLiveJobs, request, timeout=PATIENCE_SECONDS)
    return live_state_from(jobs, pool_answers(session), *host_answers(session), _ended(session))


def _ended(session: Session) -> list[JobSummary]:
    """Return the jobs that have ended last."""
    found: list[JobSummary] = []
    for page in range(PAGES):
        results = session.call(RPCS.job_svc.Query, ended_query(page), timeout=PATIENCE_SECONDS).results
        found += results
        if len(results) < PAGE:
            break
    return found


def _with_job(state: LiveState, job_id: str, spec: JobSpec) -> LiveState:
    from dataclasses import replace

    from peloton.wire.live_jobs import live_job_from, live_job_to

    job = live_job_from(live_job_to(job_id, spec, state.now, ()))
    return replace(state, jobs=(*state.jobs, job))
