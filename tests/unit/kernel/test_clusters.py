"""Calls to the host managers of several Mesos clusters, as if there were one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any, cast

import pytest

from peloton.api.v0.host import host_pb2
from peloton.api.v0.host.svc import host_svc_pb2
from peloton.calls import jobmgr, operators, placement, resmgr
from peloton.calls.rpc import Rpc
from peloton.errors import InvalidArgument, PelotonError, Unavailable
from peloton.membership.interface import Address, Member, Membership, Role
from peloton.model.cluster import cluster_of, in_cluster, is_cluster_name, mesos_hostname
from peloton.model.host import HostMatch
from peloton.model.shortage import Lack, Shortage
from peloton.private.hostmgr.feasibility import feasibility_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2
from peloton.private.hostmgr.launching import launching_pb2
from peloton.private.hostmgr.reservations import reservations_pb2
from peloton.rpc.cluster_rules import RULES
from peloton.rpc.clusters import ClusterClient, Clusters, Reach
from peloton.wire.feasibility import shortage_to

ADDRESS = Address("h", "127.0.0.1", 1, 2)
ANY_METHOD: Rpc[Any, Any] = Rpc("any.Service", "AnyMethod", bytes, bytes)


class Members:
    """A membership with clusters whose host managers the test names."""

    def __init__(self, *clusters: str) -> None:
        self.leading = dict.fromkeys(clusters, ADDRESS)
        self.named = [each for each in clusters if each]
        self.change = asyncio.Event()

    def leader(self, role: Role, cluster: str = "") -> Address | None:
        return self.leading.get(cluster)

    def members(self, role: Role, cluster: str = "") -> dict[str, Member]:
        return {}

    def clusters(self) -> Sequence[str]:
        return self.named

    async def changed(self) -> None:
        await self.change.wait()
        self.change.clear()


class Hostmgr:
    """Answers as the test says, and keeps the calls."""

    def __init__(self, answer: Callable[[str, Any], Any]) -> None:
        self.answer = answer
        self.calls: list[tuple[str, Any]] = []

    async def call(
        self, rpc: Rpc[Any, Any], request: Any, timeout: float = 10.0, retry: bool = True, waits: float = 0.0
    ) -> Any:
        method = rpc.name
        kept = type(request)()
        kept.CopyFrom(request)
        self.calls.append((method, kept))
        return self.answer(method, request)


def client(members: Members, hostmgrs: dict[str, Hostmgr]) -> ClusterClient:
    return ClusterClient(Clusters(cast(Membership, members)), hostmgrs.__getitem__, RULES)


def hosts(*names: str) -> Callable[[str, Any], Any]:
    """A host manager with free hosts, which gives as many as are asked for."""

    def answer(method: str, request: Any) -> Any:
        free = names[: request.filter.quantity.maxHosts or None]
        return hostsvc_pb2.AcquireHostOffersResponse(
            hostOffers=[hostsvc_pb2.HostOffer(hostname=name) for name in free],
            filterResultCounts={"match": len(free), "no_offer": 1},
        )

    return answer


def away(method: str, request: Any) -> Any:
    raise Unavailable("away")


def acquire(most: int, *hinted: str) -> hostsvc_pb2.AcquireHostOffersRequest:
    request = hostsvc_pb2.AcquireHostOffersRequest()
    request.filter.quantity.maxHosts = most
    for name in hinted:
        request.filter.hint.hostHint.add(hostname=name)
    return request


def names(answer: Any) -> set[str]:
    return {each.hostname for each in answer.hostOffers}


def test_a_host_name_tells_the_cluster() -> None:
    assert in_cluster("", "host") == "host" and in_cluster("east", "host") == "east/host"
    assert cluster_of("host") == "" and cluster_of("east/host") == "east"
    assert mesos_hostname("host") == mesos_hostname("east/host") == "host"
    assert is_cluster_name("us-east.1") and not any(map(is_cluster_name, ("", "a/b", "-a", "a" * 64)))


def refusing(text: str) -> Callable[[str, Any], Any]:
    return lambda method, request: launching_pb2.TryTasksResponse(refusals=[text, ""])


async def test_a_task_is_refused_where_all_clusters_refuse_it() -> None:
    request = launching_pb2.TryTasksRequest(configs=[b"a", b"b"])

    async def refusals(other: Callable[[str, Any], Any]) -> list[str]:
        both = {"east": Hostmgr(refusing("no class")), "west": Hostmgr(other)}
        return list((await client(Members(*both), both).call(jobmgr.TRY_TASKS, request)).refusals)

    assert await refusals(refusing("no pods")) == ["east: no class; west: no pods", ""]
    assert await refusals(refusing("")) == ["", ""]
    assert await refusals(away) == ["", ""], "it may take it"


async def test_a_single_cluster_is_called_as_it_is() -> None:
    only = Hostmgr(lambda method, request: "answer")
    assert await client(Members(""), {"": only}).call(ANY_METHOD, acquire(1)) == "answer"


async def test_a_method_without_a_rule_is_refused_where_there_are_several() -> None:
    with pytest.raises(PelotonError, match="AnyMethod cannot be called with several Mesos clusters"):
        await client(Members("", "east"), {}).call(ANY_METHOD, acquire(1))


async def test_hosts_are_claimed_in_one_cluster_after_the_other() -> None:
    """Not more than are wanted; the counts of why hosts did not match are summed."""
    hostmgrs = {"": Hostmgr(hosts("a", "b")), "east": Hostmgr(hosts("east/a", "east/b"))}
    calls = client(Members("", "east"), hostmgrs)
    answer = await calls.call(placement.ACQUIRE_HOST_OFFERS, acquire(3))
    assert len(answer.hostOffers) == 3
    assert dict(answer.filterResultCounts) == {"match": 3, "no_offer": 2}
    first = [names(await calls.call(placement.ACQUIRE_HOST_OFFERS, acquire(1))) for _ in range(2)]
    assert first[0] != first[1], "each call begins with another cluster"


async def test_named_hosts_are_claimed_in_their_cluster_only() -> None:
    hostmgrs = {"": Hostmgr(hosts("a")), "east": Hostmgr(hosts("east/a"))}
    calls = client(Members("", "east"), hostmgrs)
    for _ in range(2):
        assert names(await calls.call(placement.ACQUIRE_HOST_OFFERS, acquire(5, "east/a"))) == {"east/a"}
    assert not hostmgrs[""].calls


async def test_a_cluster_that_does_not_answer_is_left_out() -> None:
    """It is called once, then not for a while; one without a leader is not called at all."""
    hostmgrs = {"": Hostmgr(hosts("a")), "east": Hostmgr(away), "west": Hostmgr(hosts("west/a"))}
    members = Members("", "east", "west")
    del members.leading["west"]
    calls = client(members, hostmgrs)
    for _ in range(4):
        assert names(await calls.call(placement.ACQUIRE_HOST_OFFERS, acquire(5))) == {"a"}
    assert len(hostmgrs["east"].calls) == 1 and not hostmgrs["west"].calls


async def test_no_cluster_answers() -> None:
    hostmgrs = {"": Hostmgr(away), "east": Hostmgr(away)}
    with pytest.raises(Unavailable, match=r"no hostmgr answers, of the Mesos clusters .*without a name"):
        await client(Members("", "east"), hostmgrs).call(placement.ACQUIRE_HOST_OFFERS, acquire(5))


def test_a_cluster_is_left_out_for_growing_times() -> None:
    reach = Reach()
    reach.note_failure("east", 0.0)
    assert reach.left_out("east", 0.9) and not reach.left_out("east", 1.0) and not reach.left_out("", 0.0)
    reach.note_failure("east", 1.0)
    assert reach.left_out("east", 2.9) and not reach.left_out("east", 3.0)
    reach.note_answer("east")
    reach.note_failure("east", 3.0)
    assert not reach.left_out("east", 4.0)


async def test_claims_are_released_in_the_cluster_of_their_host() -> None:
    hostmgrs = {each: Hostmgr(lambda *_: hostsvc_pb2.ReleaseHostOffersResponse()) for each in ("", "east")}
    offers = [hostsvc_pb2.HostOffer(hostname=name) for name in ("a", "east/a", "b")]
    request = hostsvc_pb2.ReleaseHostOffersRequest(hostOffers=offers)
    await client(Members("", "east"), hostmgrs).call(placement.RELEASE_HOST_OFFERS, request)
    assert names(hostmgrs[""].calls[0][1]) == {"a", "b"}
    assert names(hostmgrs["east"].calls[0][1]) == {"east/a"}


async def test_an_error_of_one_cluster_is_raised() -> None:
    def wrong(method: str, request: Any) -> Any:
        raise InvalidArgument("filter", "x", "valid")

    hostmgrs = {"": Hostmgr(hosts()), "east": Hostmgr(wrong)}
    with pytest.raises(InvalidArgument):
        await client(Members("", "east"), hostmgrs).call(placement.ACQUIRE_HOST_OFFERS, acquire(5))


# Comparison with empty hosts.

NEEDS = 5000
TOO_LARGE = Shortage(Lack.RESOURCE, "cpu", NEEDS, 4000, 2)


def verdicts(version: str, *found: Shortage | None) -> Callable[[str, Any], Any]:
    def answer(method: str, request: Any) -> Any:
        whole = feasibility_pb2.CheckGangsResponse(hosts_version=version)
        assert len(request.gangs) == len(found)
        for each in found:
            whole.verdicts.add(shortage=None if each is None else shortage_to(each))
        return whole

    return answer


async def check(kinds: int, own: Sequence[Shortage | None], east: Sequence[Shortage | None]) -> str:
    """Compare one gang of so many kinds of tasks; its kinds follow the whole, where there are several."""
    gang = feasibility_pb2.GangShape(members=[feasibility_pb2.Members(count=8)] * kinds)
    hostmgrs = {"": Hostmgr(verdicts("1", *own)), "east": Hostmgr(verdicts("2", *east))}
    request = feasibility_pb2.CheckGangsRequest(gangs=[gang])
    answer = await client(Members("", "east"), hostmgrs).call(placement.CHECK_GANGS, request)
    (verdict,) = answer.verdicts
    return str(verdict.shortage.text)


def room(hosts: int) -> Shortage:
    return Shortage(Lack.ROOM, "", 8000, hosts * 1000, hosts)


async def test_a_gang_fits_where_one_cluster_takes_it() -> None:
    assert await check(1, [TOO_LARGE], [None]) == ""


async def test_a_gang_that_fits_nowhere_has_the_shortage_of_the_largest() -> None:
    smaller = Shortage(Lack.RESOURCE, "cpu", NEEDS, 2000, 9)
    assert "largest of 2 hosts has 4" in await check(1, [smaller], [TOO_LARGE])


async def test_room_for_a_gang_is_summed_over_clusters() -> None:
    assert await check(1, [room(5)], [room(3)]) == ""
    text = await check(1, [room(5)], [room(2)])
    assert text.startswith("needs room for 8 tasks at a time; 7 hosts have room for 7 when empty")
    assert "room for 5" in await check(1, [room(5)], [TOO_LARGE]), "the other cluster has no room at all"


async def test_kinds_of_tasks_of_a_gang_may_fit_in_different_clusters() -> None:
    assert await check(2, [TOO_LARGE, TOO_LARGE, None], [TOO_LARGE, None, TOO_LARGE]) == ""
    assert "largest of 2" in await check(2, [TOO_LARGE, TOO_LARGE, None], [TOO_LARGE, TOO_LARGE, None])


async def test_gains_are_since_the_version_of_each_cluster() -> None:
    """A cluster that comes back has no version: all of its hosts may have changed."""

    def gains(version: str) -> Hostmgr:
        def answer(method: str, request: Any) -> Any:
            return feasibility_pb2.GetHostGainsResponse(
                hosts_version=version,
                unknown_version=request.hosts_version != version,
                hosts=1,
                largest={"cpu": float(version)},
            )

        return Hostmgr(answer)

    members = Members("", "east")
    calls = client(members, {"": gains("1"), "east": gains("2")})

    async def since(version: str) -> Any:
        request = feasibility_pb2.GetHostGainsRequest(hosts_version=version)
        return await calls.call(resmgr.GET_HOST_GAINS, request)

    first = await since("")
    assert first.unknown_version
    again = await since(first.hosts_version)
    assert not again.unknown_version and again.hosts_version == first.hosts_version
    assert again.hosts == 2 and dict(again.largest) == {"cpu": 2.0}
    del members.leading["east"]
    without = await since(first.hosts_version)
    assert not without.unknown_version and without.hosts == 1
    members.leading["east"] = ADDRESS
    assert (await since(without.hosts_version)).unknown_version


async def test_hosts_are_found_page_by_page_over_all_clusters() -> None:
    def found(*names: str) -> Hostmgr:
        def answer(method: str, request: Any) -> Any:
            page = names[request.offset :][: request.filter.quantity.maxHosts or None]
            offers = [hostsvc_pb2.HostOffer(hostname=name) for name in page]
            return feasibility_pb2.FindHostsResponse(hosts=offers, counts={"match": len(names)})

        return Hostmgr(answer)

    calls = client(Members("", "east"), {"": found("a", "b", "c"), "east": found("east/a", "east/b")})
    seen: list[str] = []
    for _ in range(4):
        request = feasibility_pb2.FindHostsRequest(filter=acquire(2).filter, offset=len(seen))
        answer = await calls.call(placement.FIND_HOSTS, request)
        assert answer.counts["match"] == 5
        seen += [each.hostname for each in answer.hosts]
    assert seen == ["a", "b", "c", "east/a", "east/b"]


async def test_a_host_pool_of_several_clusters_is_one() -> None:
    def pools(**hosts: list[str]) -> Hostmgr:
        found = [host_pb2.HostPoolInfo(name=name, hosts=names) for name, names in hosts.items()]
        return Hostmgr(lambda method, request: host_svc_pb2.ListHostPoolsResponse(pools=found))

    own, east = pools(default=["a"], gpu=["b"]), pools(default=["east/a"], gpu=[], shared=["east/b"])
    calls = client(Members("", "east"), {"": own, "east": east})
    answer = await calls.call(operators.LIST_HOST_POOLS, host_svc_pb2.ListHostPoolsRequest())
    assert {pool.name: list(pool.hosts) for pool in answer.pools} == {
        "default": ["a", "east/a"],
        "gpu": ["b"],
        "shared": ["east/b"],
    }
    assert len(answer.pools) == 3


async def test_a_gang_that_is_held_for_goes_to_the_first_cluster_that_is_ready() -> None:
    """The other one ends what it holds for the gang."""

    def ready(method: str, request: Any) -> Any:
        if method == "CancelReservations":
            return reservations_pb2.CancelReservationsResponse()
        claims = [hostsvc_pb2.HostOffer(hostname="a")]
        return reservations_pb2.ReserveForGangsResponse(
            progress=[reservations_pb2.Progress(claims=claims) for _ in request.wishes]
        )

    hostmgrs = {"": Hostmgr(ready), "east": Hostmgr(ready)}
    request = reservations_pb2.ReserveForGangsRequest(wishes=[reservations_pb2.Wish(id="gang")])
    answer = await client(Members("", "east"), hostmgrs).call(placement.RESERVE_FOR_GANGS, request)
    assert len(answer.progress) == 1
    methods = sorted(method for each in hostmgrs.values() for method, _ in each.calls)
    assert methods == ["CancelReservations", "ReserveForGangs"]


# The clusters themselves.


def test_the_unnamed_cluster_counts_from_its_first_sign_of_life_on() -> None:
    members = Members("east")
    clusters = Clusters(cast(Membership, members))
    assert clusters.names() == ("east",)
    members.leading[""] = ADDRESS
    assert clusters.names() == ("", "east")
    del members.leading[""]
    assert clusters.names() == ("", "east"), "it is down"
    assert Clusters(cast(Membership, Members())).names() == ("",)


async def test_work_is_begun_for_clusters_that_come_and_ended_for_those_that_go() -> None:
    members, running = Members(""), set[str]()

    async def work(cluster: str) -> None:
        running.add(cluster)
        try:
            await asyncio.Event().wait()
        finally:
            running.discard(cluster)

    async def until(expected: set[str]) -> None:
        async with asyncio.timeout(60):
            while running != expected:  # noqa: ASYNC110 - nothing tells
                await asyncio.sleep(0)

    following = asyncio.create_task(Clusters(cast(Membership, members)).follow(work))
    await until({""})
    members.named = ["east"]
    members.change.set()
    await until({"", "east"})
    members.named = []
    members.change.set()
    await until({""})
    following.cancel()


def test_only_hosts_of_clusters_that_are_listed_can_be_gone() -> None:
    match = HostMatch(frozenset({"a"}), clusters=frozenset({""}))
    assert match.excludes("b") and not match.excludes("a") and not match.excludes("east/b")
