"""Gangs with a shortage are never placed on empty hosts."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import event, given
from hypothesis import strategies as st

from hostmgr.core.state.columns import Agent, PortRanges
from hostmgr.core.state.feasibility import GangShape, Members, shortage
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.table import HostTable
from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    Label,
    LabelConstraint,
    OrConstraint,
    of_kind,
)
from peloton.model.fixed_ports import port_labels, with_ports
from peloton.model.resources import Resources
from peloton.model.states import PlacementStrategy
from placement.core.model import Gang, Host, HostClass, Needs, Task
from placement.core.plan import plan

AMOUNTS = st.builds(Resources, st.integers(0, 8), st.integers(0, 8), st.integers(0, 3), st.just(0))
TASK_LABELS: list[Label] = [("app", "a"), ("app", "b")]
LEAVES = st.builds(
    LabelConstraint,
    st.just(Kind.TASK),
    st.sampled_from(Condition),
    st.sampled_from(TASK_LABELS),
    st.integers(0, 2),
) | st.builds(
    LabelConstraint,
    st.just(Kind.HOST),
    st.sampled_from(Condition),
    st.sampled_from([("rack", "r1"), ("hostname", "h0")]),
    st.integers(0, 1),
)
TREES = st.none() | st.recursive(
    LEAVES,
    lambda parts: (
        st.builds(AndConstraint, st.lists(parts, max_size=2).map(tuple))
        | st.builds(OrConstraint, st.lists(parts, min_size=1, max_size=2).map(tuple))
    ),
    max_leaves=3,
)
RANGES = st.sampled_from([(), ((31000, 31000),), ((31000, 31003),), ((31000, 31001), (31005, 31006))])
HOSTS = st.lists(
    st.tuples(AMOUNTS, st.integers(0, 4), RANGES, st.sampled_from([(), (("rack", "r1"),)])), max_size=4
)


@st.composite
def kinds(draw: st.DrawFn) -> tuple[Needs, tuple[Label, ...]]:
    """Draw what a task needs, and its labels."""
    fixed = draw(st.sampled_from([(), (), (31000,), (80,)]))
    tree: Constraint | None = with_ports(draw(TREES), fixed)
    labels = (*draw(st.lists(st.sampled_from(TASK_LABELS), max_size=2, unique=True)), *port_labels(fixed))
    counted = of_kind(tree, Kind.TASK)
    host_class = HostClass(str(tree).encode() if tree is not None else b"", False, tree)
    own = tuple(sorted(label for label in labels if label in counted))
    return Needs(draw(AMOUNTS), draw(st.integers(0, 2)), draw(st.booleans()), host_class, own), labels


@st.composite
def gangs(draw: st.DrawFn) -> Gang:
    """Draw a gang of few kinds of tasks."""
    of = draw(st.lists(kinds(), min_size=1, max_size=2))
    members = draw(st.lists(st.sampled_from(of), min_size=1, max_size=5))
    tasks = tuple(Task(f"job-{i}", f"job-{i}-1", needs, "", has) for i, (needs, has) in enumerate(members))
    return Gang("job", tasks, draw(st.sampled_from(PlacementStrategy)))


@given(HOSTS, gangs())
def test_a_verdict_is_never_wrong(
    hosts: Sequence[tuple[Resources, int, PortRanges, tuple[Label, ...]]], gang: Gang
) -> None:
    table = HostTable()
    for number, (total, slack_cpu, ports, labels) in enumerate(hosts):
        table.put(Agent(f"a{number}", f"h{number}", labels, total, slack_cpu, ports=ports))
    spread = gang.strategy is PlacementStrategy.SPREAD_JOB
    shape = GangShape(
        tuple(
            Members(
                HostFilter(needs.resources, needs.ports, needs.revocable, needs.host_class.tree),
                count,
                needs.own_labels,
            )
            for needs, count in gang.shape
        ),
        spread,
    )
    empty = [
        Host(f"h{i}", f"a{i}", f"o{i}", None, total, slack_cpu, ports, labels=labels)
        for i, (total, slack_cpu, ports, labels) in enumerate(hosts)
    ]
    lacking, placed = shortage(table, shape), bool(plan([gang], empty).placed)
    event(f"{lacking.lack.name if lacking else 'feasible'}, {'placed' if placed else 'not placed'}")
    assert not (lacking and placed), str(lacking)
    counted = frozenset().union(*(of_kind(needs.host_class.tree, Kind.TASK) for needs, _ in gang.shape))
    alike = len(gang.shape) == 1
    if alike and counted <= set(port_labels([80, 31000])) and not (spread and len(gang.tasks) > 1):
        event("tasks that are alike, without terms about tasks but those of fixed ports")
        assert placed == (lacking is None), "then the verdict is exact"
