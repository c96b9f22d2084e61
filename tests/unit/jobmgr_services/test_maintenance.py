"""MaintenanceService: which jobs would have no host left."""

from __future__ import annotations

from typing import Any

import grpc
import pytest

from jobmgr.clients.matching import MatchingClient
from jobmgr.services.private.maintenance import MaintenanceService
from peloton.calls.rpc import Rpc
from peloton.errors import Unavailable
from peloton.private.hostmgr.matching import matching_pb2
from peloton.private.jobmgr.maintenance import maintenance_pb2 as pb

from .conftest import JOB, Served

OTHER = "2b4e28ba-2fa1-41d2-883f-0016d3cca427"
NOTHING: Any = None


class Matching:
    """Hosts for each filter, in turn; the last ones for all others."""

    def __init__(self, *hosts: list[str], names_all: bool = False) -> None:
        """`names_all`: as a host manager that does not know `among`."""
        self.hosts = list(hosts)
        self.names_all = names_all
        self.requests: list[matching_pb2.MatchHostsRequest] = []

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        method = rpc.name
        assert method == "MatchHosts" and request.by_size
        self.requests.append(request)
        answer = matching_pb2.MatchHostsResponse()
        for _ in request.filters:
            hosts = self.hosts.pop(0) if len(self.hosts) > 1 else self.hosts[0]
            if self.names_all:
                answer.matches.add(hostnames=hosts)
                continue
            named = [host for host in hosts if host in request.among]
            answer.matches.add(hostnames=named, elsewhere=len(named) < len(hosts))
        return answer


async def check(served: Served, matching: Matching, *hosts: str) -> list[str]:
    service = MaintenanceService(served.engine, MatchingClient(matching))
    answer = await service.CheckHosts(pb.CheckHostsRequest(hostnames=hosts), NOTHING)
    return [f"{each.job_id} {each.instances} {','.join(each.hostnames)}" for each in answer.concerns]


@pytest.mark.parametrize("names_all", [False, True])
async def test_jobs_that_have_another_host_are_no_concern(with_job: Served, names_all: bool) -> None:
    matching = Matching(["a", "b"], names_all=names_all)
    assert await check(with_job, matching, "a") == []
    assert await check(with_job, matching, "b", "a") == [f"{JOB} 3 b,a"]
    assert await check(with_job, matching, "c") == []
    assert len(matching.requests[0].filters) == 1, "the instances are equal"
    assert await check(with_job, Matching([]), "a") == [], "it has no host anyway"


async def test_equal_needs_of_jobs_are_compared_once(with_job: Served) -> None:
    await with_job.create(job=OTHER)
    matching = Matching(["a"])
    assert set(await check(with_job, matching, "a")) == {f"{JOB} 3 a", f"{OTHER} 3 a"}
    assert [len(request.filters) for request in matching.requests] == [1]


async def test_a_hostmgr_that_does_not_answer(with_job: Served) -> None:
    with_job.hostmgr.answers["MatchHosts"] = Unavailable("the hosts are not known yet")
    call = with_job.channel.unary_unary(
        "/peloton.private.jobmgr.maintenance.MaintenanceService/CheckHosts",
        pb.CheckHostsRequest.SerializeToString,
        pb.CheckHostsResponse.FromString,
    )
    with pytest.raises(grpc.aio.AioRpcError, match="the hosts are not known yet"):
        await call(pb.CheckHostsRequest(hostnames=["a"]))
