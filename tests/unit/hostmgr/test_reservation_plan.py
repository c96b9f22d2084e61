"""Plans of which hosts to reserve for a gang, and when it starts there."""

from __future__ import annotations

from dataclasses import replace

from hostmgr.core.reservations.plan import NOTHING, Demand, HostView, Plan, Running, plan
from hostmgr.core.runs.run_info import Vector

NOW = 100.0


def amounts(cpu: int, gpu: int = 0) -> Vector:
    return (cpu, 0, 0, gpu, 0, 0)


def host(
    name: str,
    cpu: int = 4,
    *,
    free: int | None = None,
    ends: tuple[tuple[int, float], ...] = (),
    unknown: int = 0,
    held: bool = False,
) -> HostView:
    """A host on which tasks of some cpus end at some times, and others at unknown ones."""
    spare = amounts(cpu - sum(used for used, _ in ends) if free is None else free)
    running = tuple(Running(amounts(used), end) for used, end in sorted(ends, key=lambda each: each[1]))
    return HostView(name, amounts(cpu), spare, spare, running, unknown, len(ends) + unknown, held)


def made(
    hosts: list[HostView],
    count: int = 1,
    cpu: int = 4,
    spread: bool = False,
    ready: frozenset[str] | None = None,
) -> Plan | None:
    names = frozenset(each.agent_id for each in hosts)
    return plan([Demand(amounts(cpu), count, names, names if ready is None else ready)], spread, hosts, NOW)


def chosen(found: Plan | None) -> tuple[set[str], float | None]:
    assert found is not None
    return set(found.agent_ids), found.start


def test_a_gang_starts_at_once_where_it_fits() -> None:
    found = made([host("a"), host("b"), host("c", free=0)], 2)
    assert chosen(found) == ({"a", "b"}, NOW)
    assert found is not None and found.ready


def test_hosts_that_fit_and_cannot_be_claimed_now_are_not_ready() -> None:
    found = made([host("a", ends=((1, 150.0),)), host("b")], 2, cpu=3, ready=frozenset({"b"}))
    assert found is not None and not found.ready


def test_the_earliest_start_is_chosen() -> None:
    hosts = [
        host("a", ends=((4, 500.0),)),
        host("b", ends=((1, 200.0), (1, 300.0))),
        host("c", ends=((4, 250.0),)),
    ]
    assert chosen(made(hosts)) == ({"c"}, 250.0)
    assert chosen(made(hosts, 2)) == ({"b", "c"}, 300.0)
    assert chosen(made(hosts, 3)) == ({"a", "b", "c"}, 500.0)
    assert made(hosts, 4) is None


def test_the_parts_say_when_each_host_is_free() -> None:
    hosts = [host("a"), host("b", ends=((1, 200.0), (3, 300.0))), host("c", free=0, unknown=1)]
    found = made(hosts, 3)
    assert found is not None and found.start is None
    assert {part.agent_id: part.free_from for part in found.parts} == {"a": NOW, "b": 300.0, "c": None}


def test_hosts_with_the_fewest_tasks_of_unknown_end_are_chosen() -> None:
    hosts = [host("a", free=0, unknown=3), host("b", free=0, unknown=1), host("c", free=0, unknown=2)]
    assert chosen(made(hosts)) == ({"b"}, None)
    assert chosen(made(hosts, 2)) == ({"b", "c"}, None)


def test_of_hosts_with_as_many_tasks_the_one_with_least_free_is_chosen() -> None:
    hosts = [host("a", free=3, unknown=1), host("b", free=0, unknown=1), host("c", free=2, unknown=1)]
    assert chosen(made(hosts)) == ({"b"}, None), "what is free is idle until the gang starts"


def test_a_known_end_is_preferred_to_an_unknown_one() -> None:
    hosts = [host("a", free=0, unknown=1), host("b", ends=((4, 9000.0),))]
    assert chosen(made(hosts)) == ({"b"}, 9000.0)


def test_hosts_that_are_held_already_are_kept() -> None:
    hosts = [host("a", free=0, unknown=1), host("b", free=0, unknown=1, held=True)]
    assert chosen(made(hosts)) == ({"b"}, None)


def test_spread_takes_a_host_for_each_task() -> None:
    hosts = [host("a", 8), host("b", 8)]
    assert chosen(made(hosts, 2)) == ({"a"}, NOW)
    assert chosen(made(hosts, 2, spread=True)) == ({"a", "b"}, NOW)
    assert made(hosts, 3, spread=True) is None


def test_tasks_of_different_needs_go_where_each_may() -> None:
    hosts = [host("a", ends=((4, 200.0),)), host("b")]
    a, b = frozenset({"a"}), frozenset({"b"})
    found = plan([Demand(amounts(1), 2, a, a), Demand(amounts(2), 2, b, b)], False, hosts, NOW)
    assert chosen(found) == ({"a", "b"}, 200.0)


def test_an_empty_demand_of_a_kind_does_not_count() -> None:
    assert chosen(
        plan([Demand(NOTHING, 1, frozenset("a"), frozenset("a"))], False, [host("a", free=0)], NOW)
    ) == (
        {"a"},
        NOW,
    )


def test_a_gang_that_keeps_apart_gets_as_many_hosts_as_it_needs() -> None:
    hosts = [host("a"), host("b"), host("c")]
    names = frozenset({"a", "b", "c"})
    apart = Demand(amounts(1), 4, names, names, most={"a": 1, "b": 1, "c": 2})
    assert chosen(plan([apart], False, hosts, NOW)) == ({"a", "b", "c"}, NOW)
    assert plan([replace(apart, count=5)], False, hosts, NOW) is None
