from __future__ import annotations

from deployer.core.placing import Need, Place, Room, no_place, place
from deployer.core.values import Instance

NEED = Need(0.5, 256, 2)


def room(host: str, cpus: float = 4, mem: float = 4096, ports: int = 10, **attributes: str) -> Room:
    return Room(f"offer-{host}", host, cpus, mem, ((31000, 31000 + ports - 1),), attributes)


def daemon(host: str, group: str = "jobmgr", ending: bool = False) -> Instance:
    return Instance(f"{group}-{host}", group, "digest", host, 0.0, ending)


def test_daemons_of_a_group_are_on_different_hosts() -> None:
    there = [daemon("a"), daemon("b", "resmgr"), daemon("b", "hostmgr")]
    assert place("jobmgr", NEED, [room("a"), room("b")], there, 0) == Place("offer-b", "b", (31000, 31001))


def test_the_emptiest_host_is_taken_otherwise() -> None:
    there = [daemon("a", "resmgr"), daemon("b", "resmgr"), daemon("b", "hostmgr")]
    found = place("jobmgr", NEED, [room("b"), room("a")], there, 0)
    assert found is not None and found.host == "a"


def test_a_daemon_that_is_ending_does_not_count() -> None:
    found = place("jobmgr", NEED, [room("a"), room("b")], [daemon("a", ending=True), daemon("b")], 0)
    assert found is not None and found.host == "a"


def test_ports_are_taken_in_turn() -> None:
    hosts = [Room("o", "a", 4, 4096, ((31000, 31001), (32000, 32002)))]
    taken = [place("jobmgr", NEED, hosts, [], turn) for turn in range(3)]
    assert [found.ports for found in taken if found] == [(31000, 31001), (32000, 32001), (32002, 31000)]


def test_hosts_and_attributes_are_asked_for() -> None:
    rooms = [room("a", rack="r1"), room("b", rack="r2")]
    on_b = place("web", Need(0.5, 256, 1, frozenset({"b"})), rooms, [], 0)
    in_r2 = place("web", Need(0.5, 256, 1, attributes={"rack": "r2"}), rooms, [], 0)
    assert on_b == in_r2 == Place("offer-b", "b", (31000,))


def test_what_hosts_lack_is_said() -> None:
    rooms = [room("a", cpus=0.25), room("b", mem=100), room("c", ports=1)]
    assert place("web", NEED, rooms, [], 0) is None
    assert no_place(NEED, rooms) == (
        "a has 0.25 of 0.5 CPUs; b has 100 of 256 MiB of memory; c has 1 of 2 ports"
    )
    assert no_place(Need(1, 1, 0, frozenset({"x"})), [room("a")]) == "a is not one of its hosts"
    assert no_place(NEED, []) == "Mesos offers no host"
