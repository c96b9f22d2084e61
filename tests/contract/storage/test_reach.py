"""What lists, queries and watches answer to somebody is what Get gives them, over each store."""

from __future__ import annotations

import random
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import grpc
import pytest

from jobmgr.services.v1alpha.watches import Watches
from peloton.api.v0 import peloton_pb2 as peloton_v0
from peloton.api.v0.job import job_pb2, job_pb2_grpc
from peloton.api.v0.query import query_pb2 as query_v0
from peloton.api.v1alpha import peloton_pb2
from peloton.api.v1alpha.job.stateless import stateless_pb2
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2 as svc
from peloton.api.v1alpha.job.stateless.svc import stateless_svc_pb2_grpc
from peloton.api.v1alpha.query import query_pb2
from peloton.api.v1alpha.watch import watch_pb2
from peloton.api.v1alpha.watch.svc import watch_svc_pb2, watch_svc_pb2_grpc
from peloton.clock import ManualClock
from peloton.model.pool import PoolConfig
from peloton.wire.job import config_payload, job_spec
from storage.interface import Store
from tests.unit.identity.served import as_user
from tests.unit.jobmgr_services.configs import PARENT, POOL, POOLS, SERVICE, job
from tests.unit.jobmgr_services.fakes import NOW, FakeEngine
from tests.unit.jobmgr_services.gated import serving

ELSEWHERE = "b3f1c2de-0000-4000-8000-000000000003"
NAMES = ("admin", "ann", "bob", "cat", "dan")
ROLES = """
roles:
- {role: admin, accept: ["*"]}
- {role: ann, own: ["*"]}
- {role: bob, own: ["*"], pools: [/teams]}
- {role: cat, accept: ["*"], pools: [/elsewhere]}
- {role: dan, accept: ["*:Update*"], own: ["*"], pools: [/teams/batch, /elsewhere]}
"""
SECONDS = 20
JOBS = 40


class Callers:
    """Makes the calls of users."""

    def __init__(self, channel: Any, engine: FakeEngine, watches: Watches) -> None:
        self.engine, self.watches = engine, watches
        self._jobs = job_pb2_grpc.JobManagerStub(channel)
        self._services = stateless_svc_pb2_grpc.JobServiceStub(channel)
        self._watching = watch_svc_pb2_grpc.WatchServiceStub(channel)

    async def got(self, user: str) -> set[str]:
        """The jobs that Get, of both APIs alike, gives a user."""
        found = set()
        for job_id in self.engine.held:
            v0 = self._jobs.Get(job_pb2.GetRequest(id=peloton_v0.JobID(value=job_id)), metadata=as_user(user))
            v1alpha = self._services.GetJob(
                svc.GetJobRequest(job_id=peloton_pb2.JobID(value=job_id)), metadata=as_user(user)
            )
            codes = {await v0.code(), await v1alpha.code()}
            assert codes in ({grpc.StatusCode.OK}, {grpc.StatusCode.PERMISSION_DENIED})
            found |= {job_id} if grpc.StatusCode.OK in codes else set()
        return found

    async def listed(self, user: str) -> dict[str, set[str]]:
        """The jobs that a user learns of, by the method that tells of them."""
        by = as_user(user)
        v0 = job_pb2.QueryRequest(spec=job_pb2.QuerySpec(pagination=query_v0.PaginationSpec(limit=100)))
        v1alpha = svc.QueryJobsRequest(
            spec=stateless_pb2.QuerySpec(pagination=query_pb2.PaginationSpec(limit=100))
        )
        listing = self._services.ListJobs(svc.ListJobsRequest(), metadata=by)
        named = set()
        for name in {held.spec.name for held in self.engine.held.values()}:
            try:
                request = svc.GetJobIDFromJobNameRequest(job_name=name)
                answer = await self._services.GetJobIDFromJobName(request, metadata=by)
            except grpc.aio.AioRpcError as error:
                assert error.code() is grpc.StatusCode.NOT_FOUND
            else:
                named |= {each.value for each in answer.job_id}
        active = await self._jobs.GetActiveJobs(job_pb2.GetActiveJobsRequest(), metadata=by)
        return {
            "Query": {each.id.value for each in (await self._jobs.Query(v0, metadata=by)).results},
            "QueryJobs": {
                each.job_id.value for each in (await self._services.QueryJobs(v1alpha, metadata=by)).records
            },
            "ListJobs": {each.job_id.value async for answer in listing for each in answer.jobs},
            "GetJobIDFromJobName": named,
            "GetActiveJobs": {each.value for each in active.ids},
        }

    async def watched(self) -> dict[str, tuple[set[str], set[str]]]:
        """The jobs, and the jobs of the pods, that each user sees when everything has changed."""
        requests = (
            watch_svc_pb2.WatchRequest(stateless_job_filter=watch_pb2.StatelessJobFilter()),
            watch_svc_pb2.WatchRequest(pod_filter=watch_pb2.PodFilter()),
        )
        calls = {
            user: [
                self._watching.Watch(request, metadata=as_user(user), timeout=SECONDS) for request in requests
            ]
            for user in NAMES
        }
        for each in (call for both in calls.values() for call in both):
            assert (await each.read()).watch_id
        for held in self.engine.held.values():
            self.watches._add(held, (0,))
        found = {}
        for user, (jobs, pods) in calls.items():
            services, runs = await jobs.read(), await pods.read()
            of_pods = {pod.pod_name.value[:36] for pod in runs.pods} | {
                pod.value[:36] for pod in runs.pods_not_found
            }
            found[user] = {each.job_id.value for each in services.stateless_jobs}, of_pods
            jobs.cancel(), pods.cancel()
        return found


@pytest.fixture
async def callers(store: Store, tmp_path: Path, request: pytest.FixtureRequest) -> AsyncIterator[Callers]:
    seed: int = request.param
    for pool in (*POOLS, PoolConfig(id=ELSEWHERE, name="elsewhere", parent="root")):
        await store.pools.write(pool)
    engine = FakeEngine(store)
    engine.lanes = SimpleNamespace(on_commit=lambda told: None)  # type: ignore[assignment]
    watches = Watches(engine, lambda job: None, ManualClock(epoch=NOW), gather=0.01)
    await fill(engine, random.Random(seed))
    async with serving(tmp_path, engine, NAMES, ROLES, watches) as (channel, _):
        yield Callers(channel, engine, watches)
        watches.close()


async def fill(engine: FakeEngine, chance: random.Random) -> None:
    """Create jobs; everybody has at least one that only they may see. Some name users as their teams."""
    some = ("", *NAMES)
    rows = [(name, name, pool) for name in NAMES for pool in (POOL, ELSEWHERE)]
    rows += [(chance.choice(some), chance.choice(some), chance.choice((POOL, ELSEWHERE, PARENT)))
             for _ in range(JOBS)]  # fmt: skip
    for number, (owner, team, pool) in enumerate(rows):
        config = job(base=SERVICE)
        config.owner, config.owningTeam, config.respoolID.value = owner, team, pool
        config.name = chance.choice(("one", "other", team or "none"))
        spec = job_spec(config, 1, config_payload(config))
        await engine.create_job(str(UUID(int=number + 1, version=4)), spec)


@pytest.mark.parametrize("callers", range(3), indirect=True)
async def test_nobody_learns_of_a_job_that_they_may_not_get(callers: Callers) -> None:
    watched = await callers.watched()
    for user in NAMES:
        may = await callers.got(user)
        assert may
        assert await callers.listed(user) == dict.fromkeys(
            ("Query", "QueryJobs", "ListJobs", "GetJobIDFromJobName", "GetActiveJobs"), may
        ), user
        assert watched[user] == (may, may), user
