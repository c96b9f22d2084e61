"""Gangs with a shortage are never placed on empty hosts."""

from __future__ import annotations

from hypothesis import event, given
from hypothesis import strategies as st

from hostmgr.core.feasibility import GangShape, Members, shortage
from hostmgr.core.filter import HostFilter
from hostmgr.core.table import Agent, HostTable
from peloton.model.resources import Resources
from peloton.model.states import PlacementStrategy
from placement.core.model import Gang, Host, HostClass, Needs, Task
from placement.core.plan import plan

AMOUNTS = st.builds(Resources, st.integers(0, 8), st.integers(0, 8), st.integers(0, 3), st.just(0))
NEEDS = st.builds(Needs, AMOUNTS, st.integers(0, 2), st.booleans())
HOSTS = st.lists(st.tuples(AMOUNTS, st.integers(0, 4), st.integers(0, 4)), max_size=4)


@given(HOSTS, st.lists(NEEDS, min_size=1, max_size=5), st.booleans())
def test_a_verdict_is_never_wrong(
    hosts: list[tuple[Resources, int, int]], tasks: list[Needs], spread: bool
) -> None:
    table = HostTable()
    for number, (total, slack_cpu, ports) in enumerate(hosts):
        table.put(Agent(f"a{number}", f"h{number}", (), total, slack_cpu, ports=ports))
    strategy = PlacementStrategy.SPREAD_JOB if spread else PlacementStrategy.PACK_HOST
    members = tuple(Task(f"job-{i}", f"job-{i}-1", needs) for i, needs in enumerate(tasks))
    gang = Gang("job", members, strategy)
    shape = GangShape(
        tuple(
            Members(HostFilter(needs.resources, needs.ports, needs.revocable), count)
            for needs, count in gang.shape
        ),
        spread,
    )
    empty = [
        Host(f"h{i}", f"a{i}", f"o{i}", HostClass(), total, slack_cpu, ((31000, 30999 + ports),))
        for i, (total, slack_cpu, ports) in enumerate(hosts)
    ]
    lacking, placed = shortage(table, shape), bool(plan([gang], empty).placed)
    event(f"{'infeasible' if lacking else 'feasible'}, {'placed' if placed else 'not placed'}")
    assert not (lacking and placed), str(lacking)
    if len(tasks) == 1:
        assert placed == (lacking is None), "for a single task the verdict is exact"
