"""The order in which hosts are emptied to be moved."""

from __future__ import annotations

import random
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from peloton.model.pool import PoolConfig
from peloton.model.states import TaskState
from resmgr.core.state.entities import JobTasks, Task
from resmgr.core.state.host_costs import cheapest_first
from resmgr.core.state.pool import Pool
from resmgr.core.state.registry import Registry
from tests.unit.resmgr.world import JOB, World, kinds, needs

NOW = 1000.0


def registry(
    hosts: dict[str, list[tuple[bool, bool, int, float]]], pools: dict[str, str] | None = None
) -> Registry:
    """Of tasks on hosts: preemptible, controller, priority, seconds in their state.

    `pools` gives the pool of a host's tasks, where it is not `a`.
    """
    held, job = Registry(), JobTasks(JOB)
    tree = World(*(PoolConfig(name, name, "root", kinds()) for name in "ab")).scheduler.tree
    for host, tasks in hosts.items():
        pool: Pool = tree.get((pools or {}).get(host, "a"))
        for preemptible, controller, priority, seconds in tasks:
            of = needs(preemptible=preemptible, controller=controller, priority=priority)
            task = Task(job, len(held), 1, of, pool, TaskState.RUNNING, NOW - seconds)
            held.add(task)
            held.put_on_host(task, host)
    return held


def test_each_rule_in_turn() -> None:
    hosts = {
        "a-fixed": [(False, False, 0, 0.0)],
        "b-controller": [(True, True, 0, 0.0)],
        "c-two": [(True, False, 0, 0.0)] * 2,
        "d-urgent": [(True, False, 9, 1.0)],
        "e-old": [(True, False, 1, 50.0)],
        "f-new": [(True, False, 1, 5.0)],
        "g-mixed": [(True, False, 0, 0.0), (False, False, 0, 0.0)],
    }
    found = cheapest_first([*hosts, "z-empty", "y-empty", "z-empty"], registry(hosts), NOW)
    assert found == ["y-empty", "z-empty", "f-new", "e-old", "d-urgent", "c-two", "b-controller"]


def test_priorities_of_different_pools_do_not_compare() -> None:
    hosts = {
        "a-high": [(True, False, 9, 3.0)],
        "b-middle": [(True, False, 550, 2.0)],
        "c-low": [(True, False, 1, 1.0)],
        "d-high": [(True, False, 1000, 4.0)],
        "e-low": [(True, False, 100, 0.0)],
    }
    pools = {"b-middle": "b", "d-high": "b", "e-low": "b"}
    found = cheapest_first(hosts, registry(hosts, pools), NOW)
    assert found == ["e-low", "c-low", "b-middle", "a-high", "d-high"]


def test_priorities_may_be_negative() -> None:
    hosts = {"a": [(True, False, -1, 0.0)], "b": [(True, False, -5, 0.0)], "c": [(True, False, -9, 9.0)]}
    assert cheapest_first(hosts, registry(hosts), NOW) == ["c", "b", "a"]


def test_a_host_that_is_not_asked_for_is_left_out() -> None:
    assert cheapest_first(["b"], registry({"a": [(True, False, 0, 0.0)]}), NOW) == ["b"]


task = st.tuples(st.booleans(), st.booleans(), st.integers(0, 2), st.sampled_from((0.0, 1.0, 2.0)))


@given(st.dictionaries(st.sampled_from("abcdef"), st.lists(task, max_size=3)), st.randoms())
def test_the_order_does_not_depend_on_the_order_of_hosts(
    hosts: dict[str, list[tuple[bool, bool, int, float]]], rng: random.Random
) -> None:
    held, names = registry(hosts), list(hosts)
    found = cheapest_first(names, held, NOW)
    assert set(found) == {host for host, tasks in hosts.items() if all(each[0] for each in tasks)}
    rng.shuffle(names)
    assert cheapest_first(names, held, NOW) == found
    for cheaper, dearer in pairwise(found):
        one, two = hosts[cheaper], hosts[dearer]
        controllers = [sum(each[1] for each in tasks) for tasks in (one, two)]
        assert controllers[0] <= controllers[1]
        assert controllers[0] < controllers[1] or len(one) <= len(two)
