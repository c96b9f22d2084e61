"""Several placement engines at once: no host is claimed twice, and nothing is lost."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Iterator

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hostmgr.core.state.states import ClaimState
from mesos.v1 import mesos_pb2
from peloton.api.v0 import peloton_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.private.hostmgr.v1alpha import hostmgr_pb2
from peloton.private.hostmgr.v1alpha.svc import hostmgr_svc_pb2 as v1alpha
from tests.unit.hostmgr.served import Served, serving
from tests.unit.hostmgr.test_manager import JOB
from tests.unit.hostmgr.test_operations import Operating

HOSTS = 8


class Engine:
    """A placement engine, of either API, that claims hosts, and gives them back or launches on them."""

    def __init__(self, it: Served, held: dict[str, str], runs: Iterator[int], seed: int) -> None:
        self._it = it
        self._held = held
        """The claims of all engines that have not ended, by host."""
        self._runs = runs
        self._random = random.Random(seed)
        self.launched: list[str] = []

    async def work(self, rounds: int) -> None:
        for _ in range(rounds):
            count = self._random.randint(1, HOSTS)
            claims = await (self._claim(count) if self._random.random() < 0.5 else self._lease(count))
            for hostname, claim in claims.items():
                assert hostname not in self._held, f"{hostname} is claimed twice"
                self._held[hostname] = claim
            await asyncio.sleep(0)
            for hostname, claim in claims.items():
                await self._end(hostname, claim)

    async def _claim(self, count: int) -> dict[str, str]:
        request = pb.AcquireHostOffersRequest()
        request.filter.quantity.maxHosts = count
        answer = await self._it.v0.AcquireHostOffers(request)
        return {each.hostname: each.id.value for each in answer.hostOffers}

    async def _lease(self, count: int) -> dict[str, str]:
        request = v1alpha.AcquireHostsRequest(filter=hostmgr_pb2.HostFilter(max_hosts=count))
        answer = await self._it.v1alpha.AcquireHosts(request)
        return {each.host_summary.hostname: each.lease_id.value for each in answer.hosts}

    async def _end(self, hostname: str, claim: str) -> None:
        del self._held[hostname]  # before the call: another engine may have the host before its answer
        kind = self._random.randrange(3)
        if kind == 0:
            offers = [pb.HostOffer(id=peloton_pb2.HostOfferID(value=claim))]
            await self._it.v0.ReleaseHostOffers(pb.ReleaseHostOffersRequest(hostOffers=offers))
        elif kind == 1:
            request = v1alpha.TerminateLeasesRequest()
            request.leases.add(hostname=hostname, lease_id=hostmgr_pb2.LeaseID(value=claim))
            await self._it.v1alpha.TerminateLeases(request)
        else:
            await self._launch(hostname, claim)

    async def _launch(self, hostname: str, claim: str) -> None:
        request = pb.LaunchTasksRequest(hostname=hostname, id=peloton_pb2.HostOfferID(value=claim))
        task = request.tasks.add(taskId=mesos_pb2.TaskID(value=f"{JOB}-{next(self._runs)}-1"))
        task.config.resource.cpuLimit = 1
        task.config.command.value = "true"
        await self._it.v0.LaunchTasks(request)
        self.launched.append(task.taskId.value)


@settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(seeds=st.lists(st.integers(0, 2**32), min_size=2, max_size=4), rounds=st.integers(1, 4))
def test_engines_share_the_hosts(seeds: list[int], rounds: int) -> None:
    async def run() -> None:
        it = Operating()
        async with serving(it):
            for host in range(HOSTS):
                it.offer_host(host)
            held: dict[str, str] = {}
            runs = iter(range(10_000))
            engines = [Engine(it, held, runs, seed) for seed in seeds]
            async with asyncio.timeout(60):
                await asyncio.gather(*(engine.work(rounds) for engine in engines))
            launched = [run for engine in engines for run in engine.launched]
            accepted = [call.accept for call in it.driver.calls if call.HasField("accept")]
            infos = [info for each in accepted for part in each.operations for info in part.launch.task_infos]
            assert sorted(info.task_id.value for info in infos) == sorted(launched)
            used = [each.value for accept in accepted for each in accept.offer_ids]
            assert len(used) == len(set(used)), "no offer is used twice"
            table = it.manager.hosts.table
            assert {table.claim(row) for row in table.rows()} == {ClaimState.READY}
            left = {each.id for each in list(it.manager.hosts.offers)}
            assert left | set(used) == {f"O{host}" for host in range(HOSTS)} and not left & set(used)

    asyncio.run(run())
