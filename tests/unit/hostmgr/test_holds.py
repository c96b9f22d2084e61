"""Hosts that are held for the next runs of instances."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hostmgr.core.filter import HostFilter, Result
from hostmgr.core.holds import Holds
from hostmgr.core.hosts import Hosts
from hostmgr.drivers.reconciliation import Reconciliation
from hostmgr.services.internal import InternalHosts, filter_from
from hostmgr.services.query import hosts_by_query
from peloton.errors import Unavailable
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from tests.unit.hostmgr.hosts import cluster, ids, need
from tests.unit.hostmgr.test_manager import JOB, Fixture

T0, T1, T2 = (f"{JOB}-{instance}" for instance in range(3))


def held(hosts: Hosts, *tasks: str, now: float = 0.0) -> list[str]:
    """The hosts that are claimed for tasks, and released again."""
    claims = hosts.acquire(HostFilter(held_for=frozenset(tasks)), ids(), now).claims
    for claim in claims:
        hosts.release(claim.id)
    return sorted(claim.hostname for claim in claims)


def test_a_held_host_is_for_its_instance_only() -> None:
    hosts = cluster(2)
    hosts.holds.add("host0", T0, 0.0)
    answer = hosts.acquire(HostFilter(), ids(), 1.0)
    assert [claim.hostname for claim in answer.claims] == ["host1"]
    assert answer.counts[Result.MISMATCH_STATUS] == 1
    hosts.release("c0")
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
    claims = hosts.acquire(HostFilter(held_for=frozenset([T0])), ids(), 1.0).claims
    claim = next(each for each in claims if each.hostname == host)
    plan = hosts.plan_launch(claim.id, host, "", [need(f"{T0}-2")])
    assert plan is not None and hosts.holds.closed(()) == {"host0"}
    hosts.commit_launch(plan)
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
        return await self.service.KillAndReserveTasks(request, None)

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
    assert not (await calls.service.ReleaseHostsHeldForTasks(request, None)).HasField("error")
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
    calls.manager.kills_disabled = True
    answer = await calls.kill((f"{T0}-1", T0, "host0"))
    assert "killing tasks is disabled" in answer.error.killFailure.message
    assert not len(calls.manager.hosts.holds)


async def test_a_run_that_is_no_text_is_refused() -> None:
    request = pb.KillAndReserveTasksRequest()
    entry = request.entries.add(hostToReserve="host0")
    entry.id.value = T0
    entry.taskId.MergeFromString(b"\x0a\x02\xe3e")  # not UTF-8
    answer = await Calls().service.KillAndReserveTasks(request, None)
    assert "each needs taskId" in answer.error.invalidTaskIDs.message
