"""When the waiting instances of a job will start: the same estimate as of `job why`."""

from __future__ import annotations

import asyncio

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.calls.web import GET_HOST_CACHE, LIST_LIVE_JOBS, QUERY_HOSTS, QUERY_JOBS, QUERY_POOLS
from peloton.errors import PelotonError
from peloton.model.estimate import StartEstimate
from peloton.model.live_state import LiveState
from peloton.present.estimates import PAGE, PAGES, ended_query, not_simulated
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2
from peloton.private.jobmgr.forecast import forecast_pb2
from peloton.web.cluster import Calls
from peloton.web.estimating import estimated
from peloton.wire.live_state import live_state_from

STATE_SECONDS = 10.0
"""How old the state of the cluster may be."""
KEPT_SECONDS = 60.0
"""How old an estimate may be."""


async def start_of(calls: Calls, job_id: str) -> StartEstimate | str | None:
    """Return when the waiting instances of a job will start, or why that is not known.

    None where nothing here makes estimates, or no instance waits.
    """
    key = ("start", calls.auth, job_id)
    return await calls.cluster.shared.get(key, KEPT_SECONDS, lambda: _start_of(calls, job_id))


async def _start_of(calls: Calls, job_id: str) -> StartEstimate | str | None:
    try:
        state = await _read_state(calls)
        job = state.job(job_id)
        if job is None or not job.waiting():
            return None
        return not_simulated(job.spec) or await estimated(state, job_id)
    except PelotonError as error:
        return str(error)


async def _read_state(calls: Calls) -> LiveState:
    up = host_svc_pb2.QueryHostsRequest(host_states=[host_pb2.HOST_STATE_UP])
    jobs, pools, hosts, amounts, ended = await asyncio.gather(
        calls.read(LIST_LIVE_JOBS, forecast_pb2.ListLiveJobsRequest(), STATE_SECONDS),
        calls.read(QUERY_POOLS, respool_pb2.QueryRequest(), STATE_SECONDS),
        calls.read(QUERY_HOSTS, up, STATE_SECONDS),
        calls.read(GET_HOST_CACHE, hostmgr_svc_pb2.GetHostCacheRequest(), STATE_SECONDS),
        _ended(calls),
    )
    return live_state_from(jobs, pools.resourcePools, hosts.host_infos, amounts.summaries, ended)


async def _ended(calls: Calls) -> list[job_pb2.JobSummary]:
    """Return the jobs that have ended last."""
    found: list[job_pb2.JobSummary] = []
    for page in range(PAGES):
        results = (await calls.read(QUERY_JOBS, ended_query(page), STATE_SECONDS)).results
        found += results
        if len(results) < PAGE:
            break
    return found
