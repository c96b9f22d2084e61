"""What holds of every filling."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from peloton.model.resources import Resources, total
from placement.core.even import fill_desired, fill_evenly
from placement.core.fill import fill
from placement.core.model import Filling, Gang, Host, HostClass, Needs, Task

CLASSES = [HostClass(), HostClass(b"rack=r1"), HostClass(gpu=True)]

amounts = st.builds(Resources, *[st.integers(0, 6)] * 4)
wants = st.builds(Needs, amounts, st.integers(0, 3), st.booleans(), st.sampled_from(CLASSES))
ranges = st.sampled_from([(), ((31000, 31003),), ((31000, 31000), (31005, 31009))])
host_parts = st.tuples(
    st.builds(Resources, *[st.integers(0, 15)] * 4), st.integers(0, 10), ranges, st.sampled_from(CLASSES)
)
hosts_of = st.lists(host_parts, max_size=8).map(
    lambda parts: [
        Host(f"h{i}", f"a{i}", f"o{i}", of, free, slack, ports)
        for i, (free, slack, ports, of) in enumerate(parts)
    ]
)
gangs_of = st.lists(st.lists(wants, min_size=1, max_size=5), max_size=15).map(
    lambda gangs: [
        Gang("job", tuple(Task(f"t{i}.{j}", f"r{i}.{j}", needs) for j, needs in enumerate(gang)))
        for i, gang in enumerate(gangs)
    ]
)


def runs(tasks: Sequence[Task]) -> list[str]:
    return [task.run_id for task in tasks]


def check(hosts: Sequence[Host], gangs: Sequence[Gang], filling: Filling) -> None:
    placed = Counter(run for placement in filling.placements for run in runs(placement.tasks))
    assert placed == Counter(run for gang in filling.placed for run in runs(gang.tasks)), "whole, once"
    assert sorted(map(id, gangs)) == sorted(map(id, (*filling.placed, *filling.unplaced)))
    offers = [placement.host.offer_id for placement in filling.placements]
    assert len(set(offers)) == len(offers), "a claim is used once"
    for placement in filling.placements:
        assert placement.host in hosts
        check_host(placement.host, placement.tasks, placement.ports)


def check_host(host: Host, tasks: Sequence[Task], ports: Sequence[int]) -> None:
    assert tasks
    normal = total(
        Resources(0 if task.needs.revocable else r.cpu, r.memory, r.disk, r.gpu)
        for task in tasks
        for r in [task.needs.resources]
    )
    assert normal.fits(host.free), "no host over its capacity"
    assert sum(task.needs.resources.cpu for task in tasks if task.needs.revocable) <= host.slack_cpu
    assert {task.needs.host_class for task in tasks} == {host.host_class}
    assert len(ports) == sum(task.needs.ports for task in tasks)
    assert len(set(ports)) == len(ports)
    assert all(any(first <= port <= last for first, last in host.ports) for port in ports)


@settings(max_examples=80, deadline=None)
@given(hosts_of, gangs_of)
def test_packing(hosts: list[Host], gangs: list[Gang]) -> None:
    check(hosts, gangs, fill(hosts, gangs))


@settings(max_examples=60, deadline=None)
@given(hosts_of, gangs_of)
def test_spreading(hosts: list[Host], gangs: list[Gang]) -> None:
    filling = fill(hosts, gangs, spread=True)
    check(hosts, gangs, filling)
    assert all(len(placement.tasks) == 1 for placement in filling.placements)


@settings(max_examples=60, deadline=None)
@given(hosts_of, gangs_of)
def test_filling_is_first_fit(hosts: list[Host], gangs: list[Gang]) -> None:
    """Of gangs of one task, each stands where looking at every host in turn would put it: so no more hosts
    are used, and none is left that has room."""
    alone = [Gang("job", (task,)) for gang in gangs for task in gang.tasks]
    filling = fill(hosts, alone)
    rooms: dict[str, list[Task]] = {host.offer_id: [] for host in hosts}
    for one in alone:
        for host in hosts:
            if fits(host, [*rooms[host.offer_id], *one.tasks]):
                rooms[host.offer_id] += one.tasks
                break
    assert {placement.host.offer_id: list(placement.tasks) for placement in filling.placements} == {
        offer: tasks for offer, tasks in rooms.items() if tasks
    }


def fits(host: Host, tasks: Sequence[Task]) -> bool:
    ports = [port for first, last in host.ports for port in range(first, last + 1)]
    wanted = sum(task.needs.ports for task in tasks)
    if wanted > len(ports):
        return False
    try:
        check_host(host, tasks, ports[:wanted])
    except AssertionError:
        return False
    return True


@settings(max_examples=60, deadline=None)
@given(hosts_of, gangs_of)
def test_the_first_gang_that_is_left_finds_no_room_on_empty_hosts_of_what_remains(
    hosts: list[Host], gangs: list[Gang]
) -> None:
    filling = fill(hosts, gangs)
    if filling.unplaced:
        first = filling.unplaced[0]
        assert filling.missing
        assert set(filling.missing) != set(), "what is missing is told"
        assert all(0 < count <= dict(first.shape)[needs] for needs, count in filling.missing)
        unused = [
            host
            for host in hosts
            if host.offer_id not in {placement.host.offer_id for placement in filling.placements}
        ]
        assert not fill(unused, [first]).placed


@settings(max_examples=60, deadline=None)
@given(hosts_of, gangs_of)
def test_filling_evenly(hosts: list[Host], gangs: list[Gang]) -> None:
    check(hosts, gangs, fill_evenly(hosts, gangs))


@settings(max_examples=60, deadline=None)
@given(hosts_of, gangs_of)
def test_filling_evenly_takes_the_host_with_most_free(hosts: list[Host], gangs: list[Gang]) -> None:
    """Of gangs of one task, each stands where comparing every host would put it."""
    alone = [Gang("job", (task,)) for gang in gangs for task in gang.tasks]
    filling = fill_evenly(hosts, alone)
    rooms: dict[str, list[Task]] = {host.offer_id: [] for host in hosts}
    for one in alone:
        eligible = [host for host in hosts if fits(host, [*rooms[host.offer_id], *one.tasks])]
        if eligible:
            best = max(eligible, key=lambda host: left(host, rooms[host.offer_id]))
            rooms[best.offer_id] += one.tasks
    assert {placement.host.offer_id: list(placement.tasks) for placement in filling.placements} == {
        offer: tasks for offer, tasks in rooms.items() if tasks
    }


def left(host: Host, tasks: Sequence[Task]) -> tuple[int, ...]:
    free = host.free - total(
        Resources(0 if task.needs.revocable else r.cpu, r.memory, r.disk, r.gpu)
        for task in tasks
        for r in [task.needs.resources]
    )
    return free.disk, free.memory, free.cpu, free.gpu


@settings(max_examples=60, deadline=None)
@given(hosts_of, gangs_of, st.randoms(use_true_random=False))
def test_filling_of_desired_hosts(hosts: list[Host], gangs: list[Gang], random: Random) -> None:
    names = [*(host.hostname for host in hosts), "gone"]
    alone = [
        Gang("job", (replace(task, desired_host=random.choice(names)),))
        for gang in gangs
        for task in gang.tasks
    ]
    filling = fill_desired(hosts, alone)
    check(hosts, alone, filling)
    for placement in filling.placements:
        assert {task.desired_host for task in placement.tasks} == {placement.host.hostname}
    full = {placement.host.hostname: placement.tasks for placement in filling.placements}
    for gang in filling.unplaced:
        for host in (host for host in hosts if host.hostname == gang.desired_host):
            assert not fits(host, [*full.get(host.hostname, ()), *gang.tasks])
