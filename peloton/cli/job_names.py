"""Names of jobs by their ids."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import suppress

from peloton.cli.session import Session
from peloton.client.rpcs import RPCS
from peloton.errors import PelotonError


def job_names(session: Session, ids: Iterable[str]) -> dict[str, str]:
    """Return the names of jobs by their ids, as far as they can be read."""
    from peloton.api.v1alpha import peloton_pb2 as v1alpha
    from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2

    found: dict[str, str] = {}
    for job_id in dict.fromkeys(ids):
        with suppress(PelotonError):
            request = stateless_svc_pb2.GetJobRequest(job_id=v1alpha.JobID(value=job_id), summary_only=True)
            found[job_id] = session.call(RPCS.stateless_svc.GetJob, request).summary.name
    return found
