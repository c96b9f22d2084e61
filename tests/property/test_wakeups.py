"""Gangs that fit on no host return with each change of hosts that makes them fit, and with no other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import event, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from hostmgr.core.state.columns import Agent, PortRanges
from hostmgr.core.state.feasibility import gains, shortage
from hostmgr.core.state.offers import Free
from hostmgr.core.state.table import HostTable
from hostmgr.services.feasibility import shape_from
from peloton.api.v0.task import task_pb2
from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    LabelConstraint,
    OrConstraint,
)
from peloton.model.fixed_ports import port_labels, with_ports
from peloton.model.resources import ZERO, Resources
from peloton.model.shortage import Shortage
from peloton.wire.constraint import constraint_to, own_labels
from peloton.wire.feasibility import gains_from, gains_to
from resmgr.core.state.needs import Needs, Shape
from resmgr.wire.tasks import shape_to
from tests.unit.resmgr.world import World

LABELS = st.tuples(st.sampled_from(("rack", "zone", "peloton/exclusive")), st.sampled_from(("a", "b")))
AMOUNTS = st.builds(
    Resources, st.integers(0, 6), st.integers(0, 6), st.integers(0, 2), st.sampled_from((0, 0, 1))
)
APP = ("app", "web")
LEAVES = st.builds(
    LabelConstraint,
    st.just(Kind.HOST),
    st.sampled_from(Condition),
    st.one_of(LABELS, st.tuples(st.just("hostname"), st.sampled_from(("h0", "h1")))),
    st.integers(0, 2),
) | st.builds(
    LabelConstraint, st.just(Kind.TASK), st.just(Condition.LESS_THAN), st.just(APP), st.integers(1, 2)
)
CONSTRAINTS = st.recursive(
    LEAVES,
    lambda parts: st.one_of(
        st.lists(parts, max_size=3).map(lambda found: AndConstraint(tuple(found))),
        st.lists(parts, min_size=1, max_size=3).map(lambda found: OrConstraint(tuple(found))),
    ),
    max_leaves=3,
)


RANGES = st.sampled_from([None, (), ((31000, 31000),), ((31000, 31002),)])


def _needs(
    resources: Resources, constraint: Constraint | None, revocable: bool, ports: int, fixed: Sequence[int]
) -> Needs:
    """Return the needs of a task that has the label APP, and fixed ports."""
    whole = with_ports(constraint, fixed)
    wire = constraint_to(whole) if whole else task_pb2.Constraint()
    labels = (APP, *port_labels(fixed))
    return Needs(
        resources,
        preemptible=True,
        constraint=wire.SerializeToString(deterministic=True),
        revocable=revocable,
        ports=ports,
        labels=labels,
        own_labels=own_labels(wire, labels),
    )


NEEDS = st.builds(
    _needs,
    AMOUNTS,
    st.none() | CONSTRAINTS,
    st.booleans(),
    st.sampled_from((0, 0, 1, 2)),
    st.sampled_from(((), (), (31000,))),
)
GANGS = st.lists(NEEDS, min_size=1, max_size=3) | st.builds(
    lambda needs, count: [needs] * count, NEEDS, st.integers(2, 4)
)


class Wakeups(RuleBasedStateMachine):
    """A scheduler that follows a table of hosts by its index, beside a recheck of everything."""

    def __init__(self) -> None:
        super().__init__()
        self.table = HostTable(room=2)
        self.world = World(capacity=Resources(10**6, 10**6, 10**6, 10**6))
        self.version = self.table.version
        self.agents: dict[str, Agent] = {}
        self.next_instance = 0
        self.fitted_before: dict[Shape, bool] = {}

    @initialize(gangs=st.lists(st.tuples(GANGS, st.booleans()), min_size=1, max_size=6))
    def set_aside(self, gangs: Sequence[tuple[Sequence[Needs], bool]]) -> None:
        """Add gangs; those that do not fit are set aside."""
        for members, spread in gangs:
            self._add([replace(each, spread=spread) for each in members])

    @rule(members=GANGS, spread=st.booleans())
    def another_gang(self, members: Sequence[Needs], spread: bool) -> None:
        self._add([replace(each, spread=spread) for each in members])

    def _add(self, members: Sequence[Needs]) -> None:
        from resmgr.core.state.needs import NewTask

        world, first = self.world, self.next_instance
        self.next_instance += len(members)
        gang = [NewTask(f"job{first}", i, 1, needs) for i, needs in enumerate(members)]
        [task, *_] = world.scheduler.enqueue(world.pool(), gang, world.now)
        assert task.gang is not None
        lacking = self._naive(task.gang.shape)
        if lacking is not None:
            world.scheduler.lifecycle.set_aside(task.gang, lacking, world.now)
            world.scheduler.keep_aside(task.gang.shape, lacking)

    def _naive(self, shape: Shape) -> Shortage | None:
        return shortage(self.table, shape_from(shape_to(shape), "gang"))

    # Changes of hosts.

    @rule(
        number=st.integers(0, 3),
        total=AMOUNTS,
        slack=st.integers(0, 4),
        labels=st.lists(LABELS, max_size=2, unique=True),
        ports=RANGES,
    )
    def put(
        self,
        number: int,
        total: Resources,
        slack: int,
        labels: Sequence[tuple[str, str]],
        ports: PortRanges | None,
    ) -> None:
        """Add a host, or change its resources and labels."""
        agent = Agent(f"a{number}", f"h{number % 2}", tuple(labels), total, slack, ports=ports)
        self.agents[agent.id] = agent
        self.table.put(agent)
        self._follow()

    @precondition(lambda self: self.agents)
    @rule(data=st.data(), labels=st.lists(LABELS, max_size=2, unique=True))
    def relabel(self, data: Any, labels: Sequence[tuple[str, str]]) -> None:
        old = self.agents[data.draw(st.sampled_from(sorted(self.agents)))]
        self.agents[old.id] = replace(old, labels=tuple(labels))
        self.table.put(self.agents[old.id])
        self._follow()

    @precondition(lambda self: self.agents)
    @rule(data=st.data(), free=AMOUNTS)
    def offer(self, data: Any, free: Resources) -> None:
        """Offer resources, perhaps more than the map of agents has."""
        row = self.table.row(data.draw(st.sampled_from(sorted(self.agents))))
        assert row is not None
        self.table.set_free(row, Free(free, 0, 0), 1)
        self._follow()

    @precondition(lambda self: self.agents)
    @rule(data=st.data())
    def remove(self, data: Any) -> None:
        gone = data.draw(st.sampled_from(sorted(self.agents)))
        del self.agents[gone]
        self.table.remove(gone)
        assert not gains(self.table, self.version).hosts, "a host that leaves helps nobody"
        self._follow()

    def _follow(self) -> None:
        """Do what resmgr's driver does after a change, and compare with a recheck of all gangs."""
        scheduler = self.world.scheduler
        before = {shape: scheduler.infeasible.gangs(shape) for shape in scheduler.infeasible.shapes()}
        change = gains_from(gains_to(gains(self.table, self.version), "v"))
        assert change is not None
        compared = scheduler.infeasible.helped_by(change)
        for shape in compared:
            lacking = self._naive(shape)
            if lacking is None:
                scheduler.bring_back(shape)
            else:
                scheduler.keep_aside(shape, lacking)
        self.version = self.table.version
        event(f"{len(compared)} of {len(before)} compared")
        for shape, gangs in before.items():
            fits = self._naive(shape) is None
            back = all(gang.queue is not scheduler.infeasible for gang in gangs)
            assert back == fits, f"{shape}: fits {fits}, brought back {back}"
            assert not back or shape in compared

    @invariant()
    def nothing_is_held(self) -> None:
        """What is aside has neither allocation nor demand; each is in exactly one place."""
        scheduler, pool = self.world.scheduler, self.world.pool()
        assert pool.allocation()["total"] == ZERO
        queued = [gang for queue in self.world.queues().all for gang in queue]
        demanded = Resources()
        for gang in queued:
            for part in (gang.charge.firm, gang.charge.slack):
                demanded += Resources(*(part or (0, 0, 0, 0)))
        assert pool.total_demand() == demanded
        assert set(scheduler.infeasible).isdisjoint(queued)


TestWakeups = Wakeups.TestCase
TestWakeups.settings = settings(max_examples=30, stateful_step_count=12, deadline=None)
