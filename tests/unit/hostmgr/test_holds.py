"""Hosts that are held for the next runs of instances."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostmgr.core.claims.held_for import HeldFor, held_for
from hostmgr.core.claims.holds import NOTHING, Holds
from hostmgr.core.hosts.all_hosts import HostLimits, Hosts
from hostmgr.core.state.host_filter import HostFilter, Result
from hostmgr.core.state.offers import Free
from hostmgr.core.state.states import ClaimState
from hostmgr.core.state.table import HostTable
from hostmgr.drivers.reconciliation import Reconciliation
from hostmgr.services.holds import HoldService, held_rooms
from hostmgr.services.internal import InternalHosts, filter_from
from hostmgr.services.query import hosts_by_query
from peloton.clock import NANOSECONDS, rfc3339
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.resources import ZERO, Resources
from peloton.private.hostmgr.holds import holds_pb2
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from tests.unit.hostmgr.hosts import cluster, ids, need, offer
from tests.unit.hostmgr.test_manager import JOB, Fixture
from tests.unit.resmgr.shell import CLIENT

CALL = SimpleNamespace(invocation_metadata=tuple)
T0, T1, T2 = (f"{JOB}-{instance}" for instance in range(3))


def held(hosts: Hosts, *tasks: str, now: float = 0.0) -> list[str]:
    """The hosts that are claimed for tasks, and released again."""
    claims = hosts.claims.acquire(HostFilter(held_for=frozenset(tasks)), ids(), now).claims
    for claim in claims:
        hosts.claims.release(claim.id)
    return sorted(claim.hostname for claim in claims)


def test_a_held_host_is_for_its_instance_only() -> None:
    hosts = cluster(2)
    hosts.holds.add("host0", T0, 0.0)
    answer = hosts.claims.acquire(HostFilter(), ids(), 1.0)
    assert [claim.hostname for claim in answer.claims] == ["host1"]
    assert answer.counts[Result.MISMATCH_STATUS] == 1
    hosts.claims.release("c0")
    assert held(hosts, T1) == ["host1"]
    assert held(hosts, T0) == held(hosts, T1, T0) == ["host0", "host1"]


def test_a_hold_ends_after_three_minutes() -> None:
    hosts = cluster(1)
    hosts.holds.add("host0", T0, 10.0)
    assert held(hosts, now=189.9) == []
    assert held(hosts, now=190.0) == ["host0"]


@pytest.mark.parametrize("host", ["host0", "host1"])
def test_a_launch_anywhere_ends_the_hold_of_its_instance(host: str) -> None:
    hosts = cluster(2)
    hosts.holds.add("host0", T0, 0.0)
    hosts.holds.add("host0", T1, 0.0)
    claims = hosts.claims.acquire(HostFilter(held_for=frozenset([T0])), ids(), 1.0).claims
    claim = next(each for each in claims if each.hostname == host)
    plan = hosts.uses.plan_launch(claim.id, host, "", [need(f"{T0}-2")])
    assert plan is not None and hosts.holds.closed(()) == {"host0"}
    hosts.uses.commit_launch(plan)
    assert hosts.holds.closed([T1]) == frozenset() and hosts.holds.closed([T0]) == {"host0"}


def test_a_claim_that_is_not_used_leaves_the_hold() -> None:
    hosts = cluster(1)
    hosts.holds.add("host0", T0, 0.0)
    assert held(hosts, T0) == ["host0"]
    assert held(hosts) == []


def test_a_host_that_comes_back_under_another_id_is_still_held() -> None:
    hosts = cluster(1)
    hosts.holds.add("host0", T0, 0.0)
    hosts.remove_agent("S0")
    assert held(hosts, T0) == []
    assert hosts.holds.closed(()) == {"host0"}


tasks = st.sampled_from((T0, T1, T2))
steps = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.sampled_from(("a", "b")), tasks),
        st.tuples(st.just("release"), st.just(""), tasks),
        st.tuples(st.just("wait"), st.sampled_from(("1", "60", "179", "180")), st.just("")),
    )
)


@given(steps)
def test_holds_are_what_was_asked_for_last(steps: list[tuple[str, str, str]]) -> None:
    """Against a plain table of what each instance holds, and until when."""
    it, now = Holds(), 0.0
    expected: dict[str, tuple[str, float]] = {}
    for step, value, task in steps:
        if step == "add":
            it.add(value, task, now)
            expected[task] = (value, now + 180)
        elif step == "release":
            it.release([task])
            expected.pop(task, None)
        else:
            now += float(value)
        it.expire(now)
        expected = {each: hold for each, hold in expected.items() if hold[1] > now}
        assert len(it) == len(expected)
        for asked in (frozenset[str](), {T0}, {T1, T2}):
            names = {name for name, _ in expected.values()}
            ours = {name for each, (name, _) in expected.items() if each in asked}
            assert it.closed(asked) == names - ours
        assert [name for name in ("a", "b") if it.is_held(name)] == sorted(names)


class Calls(Fixture):
    def __init__(self) -> None:
        super().__init__()
        self.located: list[str] = []
        self.request = pb.KillAndReserveTasksRequest()
        self.answer = pb.AcquireHostOffersResponse()

        async def locate(runs: list[str]) -> None:
            self.located += runs

        reconciliation = cast(Reconciliation, SimpleNamespace(locate=locate))
        self.service = InternalHosts(
            self.manager, cast(Any, None), reconciliation, cast(Any, None), cast(Any, None)
        )

    async def kill(self, *entries: tuple[str, str, str]) -> pb.KillAndReserveTasksResponse:
        request = pb.KillAndReserveTasksRequest()
        for run, task, host in entries:
            entry = request.entries.add(hostToReserve=host)
            entry.taskId.value, entry.id.value = run, task
        return await self.service.KillAndReserveTasks(request, CLIENT)

    async def claimed_cpus(self, cpu: float, *tasks: str) -> list[float]:
        """The CPUs of the hosts that are claimed for tasks, and released again."""
        request = pb.AcquireHostOffersRequest()
        request.filter.resourceConstraint.minimum.cpuLimit = cpu
        for task in tasks:
            request.filter.hint.hostHint.add(hostname="host0").taskID.value = task
        encoded = await self.service.AcquireHostOffers(request, CALL)
        assert isinstance(encoded, bytes)
        self.answer = pb.AcquireHostOffersResponse.FromString(encoded)
        offers = self.answer.hostOffers
        await self.service.ReleaseHostOffers(pb.ReleaseHostOffersRequest(hostOffers=offers), CLIENT)
        return [each.scalar.value for offer in offers for each in offer.resources if each.name == "cpus"]

    def status(self) -> str:
        (host,) = hosts_by_query(self.manager, pb.GetHostsByQueryRequest()).hosts
        return host.status


async def test_kill_and_reserve() -> None:
    calls = Calls()
    await calls.subscribe()
    calls.offer(1)
    assert calls.status() == "ready"
    assert not (await calls.kill((f"{T0}-1", T0, "host0"))).HasField("error")
    assert calls.types()[-1] == "KILL" and calls.located == [f"{T0}-1"]
    assert calls.status() == "held"
    assert calls.manager.acquire(HostFilter(), "").claims == ()
    wire = pb.HostFilter()
    wire.hint.hostHint.add(hostname="host0").taskID.value = T0
    assert len(calls.manager.acquire(filter_from(wire), "").claims) == 1
    assert calls.status() == "placing"


async def test_kill_and_reserve_repeated_and_released() -> None:
    calls = Calls()
    await calls.subscribe()
    calls.offer(1)
    for _ in range(2):
        assert not (await calls.kill((f"{T0}-1", T0, "host0"))).HasField("error")
    request = pb.ReleaseHostsHeldForTasksRequest()
    request.ids.add(value=T0)
    request.ids.add(value=T1)
    assert not (await calls.service.ReleaseHostsHeldForTasks(request, CLIENT)).HasField("error")
    assert calls.status() == "ready"


@pytest.mark.parametrize(
    "entry", [("", T0, "host0"), (f"{T0}-1", "", "host0"), (f"{T0}-1", T1, "host0"), (f"{T0}-1", T0, "")]
)
async def test_incomplete_entries_are_refused(entry: tuple[str, str, str]) -> None:
    calls = Calls()
    await calls.subscribe()
    answer = await calls.kill((f"{T1}-1", T1, "host0"), entry)
    assert "each needs taskId, id (the instance of that run)" in answer.error.invalidTaskIDs.message
    assert [each.value for each in answer.error.invalidTaskIDs.taskIds] == [entry[0]]
    assert not len(calls.manager.hosts.holds) and "KILL" not in calls.types()


async def test_without_entries() -> None:
    assert (await Calls().kill()).error.HasField("invalidTaskIDs")


async def test_nothing_is_held_where_nothing_is_killed() -> None:
    calls = Calls()
    with pytest.raises(Unavailable):
        await calls.kill((f"{T0}-1", T0, "host0"))
    assert not len(calls.manager.hosts.holds)
    await calls.subscribe()
    calls.manager.core.kills.disabled = True
    answer = await calls.kill((f"{T0}-1", T0, "host0"))
    assert "killing tasks is disabled" in answer.error.killFailure.message
    assert not len(calls.manager.hosts.holds)


async def test_a_run_that_is_no_text_is_refused() -> None:
    request = pb.KillAndReserveTasksRequest()
    entry = request.entries.add(hostToReserve="host0")
    entry.id.value = T0
    entry.taskId.MergeFromString(b"\x0a\x02\xe3e")  # not UTF-8
    answer = await Calls().service.KillAndReserveTasks(request, CLIENT)
    assert "each needs taskId" in answer.error.invalidTaskIDs.message


# Room of hosts.


def room(cpu: float, ports: int = 0) -> Free:
    return Free(Resources.of(cpu), 0, ports)


def takes(hosts: Hosts, cpu: float, *tasks: str, ports: int = 0) -> bool:
    """Whether a host has so much free for tasks."""
    want = HostFilter(Resources.of(cpu), ports, held_for=frozenset(tasks))
    claims = hosts.claims.acquire(want, ids(), 1.0).claims
    for claim in claims:
        hosts.claims.release(claim.id)
    return bool(claims)


def test_a_held_host_takes_others_beside_what_is_held() -> None:
    hosts = cluster(1, cpu=4)
    assert hosts.hold("host0", T0, 0.0, room(1.5)) and hosts.hold("host0", T1, 0.0, room(1))
    assert takes(hosts, 1.5) and not takes(hosts, 1.501)
    assert takes(hosts, 2.5, T1) and not takes(hosts, 3, T1)
    assert takes(hosts, 4, T0, T1)
    assert hosts.claims.acquire(HostFilter(Resources.of(2)), ids(), 1.0).counts == {Result.HELD: 1}
    assert hosts.claims.acquire(HostFilter(Resources.of(9)), ids(), 1.0).counts == {
        Result.INSUFFICIENT_RESOURCES: 1
    }
    hosts.holds.release([T0])
    assert takes(hosts, 3) and not takes(hosts, 3.1)


def test_ports_are_held_too() -> None:
    hosts = cluster(1)  # 10 ports
    hosts.hold("host0", T0, 0.0, room(0.1, ports=4))
    assert takes(hosts, 1, ports=6) and not takes(hosts, 1, ports=7) and takes(hosts, 1, T0, ports=10)


def test_revocable_room_is_held_apart() -> None:
    hosts = cluster(1, cpu=4, slack_cpu=2)
    hosts.hold("host0", T0, 0.0, Free(ZERO, 1500, 0))
    assert takes(hosts, 4)
    slack = HostFilter(Resources.of(1), revocable=True)
    assert hosts.claims.acquire(slack, ids(), 1.0).counts == {Result.HELD: 1}


def test_the_killed_run_uses_the_room_until_it_has_ended() -> None:
    """Nothing is counted twice, also where the next run asks for more than the killed one frees."""
    hosts = cluster(1, cpu=4)
    hosts.hold("host0", T0, 0.0, room(1), f"{T0}-1", room(1))
    hosts.hold("host0", T1, 0.0, room(2), f"{T1}-1", room(1))
    assert takes(hosts, 3) and not takes(hosts, 3.1)
    hosts.holds.ended(f"{T1}-1")
    assert takes(hosts, 2) and not takes(hosts, 2.1)
    hosts.holds.ended(f"{T0}-1")
    assert takes(hosts, 1) and not takes(hosts, 1.1)


def test_room_is_held_of_an_agent_that_comes_later() -> None:
    hosts = cluster(1, cpu=4)
    hosts.hold("host0", T0, 0.0, room(3))
    hosts.remove_agent("S0")
    hosts.add_offer(offer(7, 0, cpu=4), 1.0)
    assert not takes(hosts, 2) and takes(hosts, 2, T0)


def test_a_share_of_the_hosts_is_held_at_most() -> None:
    hosts = cluster(4)
    taken = [hosts.hold(f"host{i}", f"{JOB}-{i}", 0.0, room(1)) for i in range(4)]
    assert taken == [True, True, False, False] and hosts.most_held == 2
    assert hosts.hold("host0", f"{JOB}-9", 0.0, room(1)), "a host that is held already takes more"
    assert hosts.hold("host3", f"{JOB}-1", 0.0, room(1)), "in place of its own"
    assert sorted(hosts.holds.hosts) == ["host0", "host3"]
    assert cluster(1).hold("host0", T0, 0.0), "one at least"


def test_a_renewed_hold_lasts_and_has_the_new_room() -> None:
    holds = Holds()
    holds.add("a", T0, 0.0, room(1))
    holds.add("a", T1, 1.0, room(1))
    assert holds.renew("a", T0, 100.0, room(3)) and not holds.renew("b", T0, 100.0, room(9))
    assert not holds.renew("a", T2, 100.0, room(9)), "one that has ended stays ended"
    assert holds.kept("a") == room(4) and [each.task_id for each in holds.expire(181.0)] == [T1]
    assert [each.task_id for each in holds.expire(280.0)] == [T0] and holds.kept("a") == NOTHING


def test_for_whom_hosts_are_held() -> None:
    holds = Holds()
    for instance in (0, 1, 2, 5):
        holds.add("a" if instance else "b", f"{JOB}-{instance}", float(instance), room(1))
    other = "2b4e28ba-2fa1-41d2-883f-0016d3cca427"
    holds.add("a", f"{other}-0", 9.0)
    assert held_for(holds) == [HeldFor(JOB, "0-2, 5", 2, 185.0), HeldFor(other, "0", 1, 189.0)]
    assert held_for(holds.on("b")) == [HeldFor(JOB, "0", 1, 180.0)]


amounts = st.integers(0, 3)
room_steps = st.lists(
    st.one_of(
        st.tuples(st.just("hold"), st.integers(0, 1), tasks, amounts, amounts),
        st.tuples(st.sampled_from(("release", "ended", "renew")), st.integers(0, 1), tasks, amounts, amounts),
        st.tuples(st.just("wait"), st.sampled_from((1, 100, 180)), tasks, amounts, amounts),
    ),
    max_size=40,
)


@given(room_steps)
def test_what_is_kept_is_the_sum_of_the_holds(steps: list[tuple[str, int, str, int, int]]) -> None:
    hosts, now = Hosts(HostTable(room=2), HostLimits(held_share=1.0)), 0.0
    for host in range(2):
        hosts.add_offer(offer(host, host, cpu=8), 0.0)
    for step, number, task, wanted, freed in steps:
        name = f"host{number}"
        if step == "hold":
            hosts.hold(name, task, now, room(wanted), f"{task}-1", room(freed))
        elif step == "release":
            hosts.holds.release([task])
        elif step == "ended":
            hosts.holds.ended(f"{task}-1")
        elif step == "renew":
            hosts.holds.renew(name, task, now, room(wanted))
        else:
            now += number
            hosts.holds.expire(now)
        for each in ("host0", "host1"):
            held = [hold for hold in hosts.holds if hold.hostname == each]
            cpu = sum(hold.kept.normal.cpu for hold in held)
            assert hosts.holds.kept(each) == Free(Resources(cpu), 0, 0)
            assert hosts.holds.is_held(each) == bool(held)
            (row,) = hosts.table.rows_of(each)
            assert (hosts.table.claim(row) is ClaimState.HELD) == bool(held)
            left = [offer for offer in (8000 - cpu,) if offer > 0]
            for amount in left:
                found = hosts.claims.acquire(HostFilter(Resources(amount)), ids(), now).claims
                assert each in {claim.hostname for claim in found}
                for claim in found:
                    hosts.claims.release(claim.id)
            more = hosts.claims.acquire(HostFilter(Resources(8001 - cpu)), ids(), now).claims
            assert each not in {claim.hostname for claim in more}
            for claim in more:
                hosts.claims.release(claim.id)


# Over the wire.


def entry(calls: Calls, instance: int, cpu: float, freed: float, run: str = "1") -> None:
    each = calls.request.entries.add(hostToReserve="host0")
    each.taskId.value, each.id.value = f"{JOB}-{instance}-{run}", f"{JOB}-{instance}"
    each.room.cpu, each.freed.cpu = cpu, freed


async def test_a_claimed_host_is_shown_without_what_is_held_of_it() -> None:
    calls = Calls()
    await calls.subscribe()
    calls.offer(1)
    entry(calls, 0, 1.5, 1.5)
    entry(calls, 1, 1, 1)
    answer = await calls.service.KillAndReserveTasks(calls.request, CLIENT)
    assert not answer.HasField("error") and calls.status() == "held"
    assert await calls.claimed_cpus(1) == [1.5]
    assert await calls.claimed_cpus(1, T0) == [3]
    assert await calls.claimed_cpus(1, T0, T1) == [4]
    assert await calls.claimed_cpus(2) == [], "too little beside what is held"
    text = calls.answer.held[0]
    assert text.startswith(f"1 host held for instances 0-1 of {JOB} until ") and text.endswith("Z")
    assert calls.answer.filterResultCounts == {"held": 1}


async def test_holds_are_listed_and_renewed() -> None:
    calls = Calls()
    await calls.subscribe()
    calls.offer(1)
    entry(calls, 0, 1.5, 0)
    await calls.service.KillAndReserveTasks(calls.request, CLIENT)
    service = HoldService(calls.manager)
    calls.clock.advance(100)
    (hold,) = (await service.ListHolds(holds_pb2.ListHoldsRequest(), CLIENT)).holds
    assert (hold.task_id, hold.hostname, hold.room.cpu, hold.seconds) == (T0, "host0", 1.5, 80)
    hold.room.cpu = 2.5
    await service.RenewHolds(holds_pb2.RenewHoldsRequest(holds=[hold]), CLIENT)
    named = holds_pb2.ListHoldsRequest(hostnames=["host0", "host9"])
    (hold,) = (await service.ListHolds(named, CLIENT)).holds
    assert (hold.room.cpu, hold.seconds) == (2.5, 180)
    hold.room.cpu = -1
    with pytest.raises(InvalidArgument):
        await service.RenewHolds(holds_pb2.RenewHoldsRequest(holds=[hold]), CLIENT)


async def test_hosts_say_for_whom_they_are_held() -> None:
    calls = Calls()
    await calls.subscribe()
    calls.offer(1)
    assert held_rooms(calls.manager.hosts.holds, calls.clock, "host0") == ()
    entry(calls, 0, 1, 0)
    await calls.service.KillAndReserveTasks(calls.request, CLIENT)
    ((job, instances, until),) = held_rooms(calls.manager.hosts.holds, calls.clock, "host0")
    assert (job, instances) == (JOB, "0")
    assert until == f"{rfc3339(calls.clock.wall() + 180 * NANOSECONDS)[:19]}Z"
