"""Creates the runs of schedules, which are jobs."""

from __future__ import annotations

import logging

from jobmgr.engine.engine import Engine
from peloton.errors import AlreadyExists
from peloton.model.ids import JobId
from peloton.model.job import JobSpec
from peloton.model.schedule import run_id
from peloton.wire.schedule_runs import spec_of_run

log = logging.getLogger(__name__)


async def create_run(engine: Engine, job_id: JobId, spec: JobSpec, time: int) -> None:
    """Create the run of a time of a job's schedule, unless that is done already."""
    try:
        await engine.create_job(run_id(job_id, time), spec_of_run(job_id, spec, time))
    except AlreadyExists:
        log.info("the run of job %s at %d was created already", job_id, time)
