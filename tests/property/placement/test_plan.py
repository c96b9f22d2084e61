"""What holds of every plan, against a search over all hosts in plain Python."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    Label,
    LabelConstraint,
    OrConstraint,
    mentions,
    of_kind,
)
from peloton.model.fixed_ports import port_labels, ports_of, with_ports
from peloton.model.host_class import EXCLUSIVE
from peloton.model.resources import Resources, total
from peloton.model.states import PlacementStrategy
from placement.core import placer
from placement.core.model import Gang, Host, HostClass, Needs, Task
from placement.core.plan import Plan, plan
from placement.core.policy import Desired, Policy, Scorer

TASK_LABELS: list[Label] = [("app", "a"), ("app", "b"), ("tier", "db")]
HOST_LABELS: list[Label] = [
    ("rack", "r1"),
    ("rack", "r2"),
    ("disk", "ssd"),
    ("hostname", "h1"),
    (EXCLUSIVE, "x"),
]
FIXED = [31001, 8080]


@pytest.fixture(autouse=True, scope="module")
def _few_rows_first() -> Iterator[None]:
    """Let the hosts be examined in two steps, as they are in large clusters."""
    before, placer.FIRST_ROWS = placer.FIRST_ROWS, 2
    yield
    placer.FIRST_ROWS = before


leaves = st.builds(
    LabelConstraint,
    st.just(Kind.TASK),
    st.sampled_from(Condition),
    st.sampled_from(TASK_LABELS),
    st.integers(0, 3),
) | st.builds(
    LabelConstraint,
    st.just(Kind.HOST),
    st.sampled_from(Condition),
    st.sampled_from(HOST_LABELS),
    st.integers(0, 2),
)
trees = st.none() | st.recursive(
    leaves,
    lambda parts: (
        st.builds(AndConstraint, st.lists(parts, max_size=2).map(tuple))
        | st.builds(OrConstraint, st.lists(parts, min_size=1, max_size=2).map(tuple))
    ),
    max_leaves=4,
)
amounts = st.builds(Resources, *[st.integers(0, 6)] * 3, st.sampled_from([0, 0, 0, 2]))
ranges = st.sampled_from([(), ((31000, 31003),), ((31000, 31000), (31005, 31009))])


@st.composite
def task_kinds(draw: st.DrawFn) -> tuple[Needs, tuple[Label, ...]]:
    resources, fixed = draw(amounts), draw(st.sampled_from([(), (), (), (FIXED[0],), (FIXED[1],)]))
    tree = with_ports(draw(trees), fixed)
    labels = (*draw(st.lists(st.sampled_from(TASK_LABELS), max_size=2, unique=True)), *port_labels(fixed))
    host_class = HostClass(str(tree).encode() if tree is not None else b"", resources.gpu > 0, tree)
    return Needs(resources, draw(st.integers(0, 2)), draw(st.booleans()), host_class), labels


@st.composite
def gang_lists(draw: st.DrawFn, most: int = 4) -> list[Gang]:
    """Gangs of some kinds of tasks, so that many are alike. All gangs of a job have its strategy."""
    kinds = draw(st.lists(task_kinds(), min_size=1, max_size=4))
    strategies = {job: draw(st.sampled_from(PlacementStrategy)) for job in ("j1", "j2")}
    gangs = []
    for i in range(draw(st.integers(0, 10))):
        members = draw(st.lists(st.sampled_from(kinds), min_size=1, max_size=most))
        job = draw(st.sampled_from(sorted(strategies)))
        tasks = tuple(Task(f"t{i}.{j}", f"r{i}.{j}", needs, "", of) for j, (needs, of) in enumerate(members))
        gangs.append(Gang(job, tasks, strategies[job]))
    return gangs


@st.composite
def host_lists(draw: st.DrawFn) -> list[Host]:
    hosts = []
    for i in range(draw(st.integers(0, 5))):
        cpu, memory, disk = (draw(st.integers(0, 12)) for _ in range(3))
        free = Resources(cpu, memory, disk, draw(st.sampled_from([0, 0, 4])))
        labels = draw(
            st.lists(st.sampled_from([each for each in HOST_LABELS if each[0] != "hostname"]), max_size=2)
        )
        name = f"h{draw(st.sampled_from([i, i, i, 0]))}"
        hosts.append(
            Host(
                name, f"a{i}", f"o{i}", None, free, draw(st.integers(0, 8)), draw(ranges),
                launches=draw(st.sampled_from([1 << 62, 1 << 62, 2])), labels=tuple(labels),
                has_gpu=draw(st.sampled_from([False, False, True])),
            )
        )  # fmt: skip
    return hosts


@st.composite
def tasks_there(draw: st.DrawFn) -> dict[str, dict[Label, int]]:
    names = draw(st.lists(st.sampled_from(["h0", "h1", "h2", "elsewhere"]), unique=True, max_size=3))
    counts = st.dictionaries(st.sampled_from(TASK_LABELS), st.integers(1, 2), max_size=2)
    return {name: draw(counts) for name in names}


own_scorers = [each for each in Scorer if each is not Scorer.PLUGGED_IN]
policies = st.builds(Policy, st.sampled_from(own_scorers), st.just(Desired.ANY), st.booleans())
There = Mapping[str, Mapping[Label, int]]


def holds(tree: Constraint | None, host: Host, tasks: Counter[Label]) -> bool:
    if tree is None:
        return True
    if isinstance(tree, LabelConstraint):
        named = Counter([*host.labels, ("hostname", host.hostname)])
        count = (named if tree.kind is Kind.HOST else tasks)[tree.label]
        if tree.condition is Condition.LESS_THAN:
            return count < tree.requirement
        return count == tree.requirement if tree.condition is Condition.EQUAL else count > tree.requirement
    each = (holds(part, host, tasks) for part in tree.parts)
    return all(each) if isinstance(tree, AndConstraint) else any(each)


class Cluster:
    """The state of hosts, changed task by task, with the rules in plain words."""

    def __init__(self, hosts: Sequence[Host], there: There) -> None:
        self.hosts = hosts
        self.tasks: dict[str, list[Task]] = {host.agent_id: [] for host in hosts}
        names = {host.hostname for host in hosts}
        self.labels = {name: Counter(there.get(name, {})) for name in names}
        self.jobs: dict[str, Counter[str]] = {name: Counter() for name in names}

    def takes(self, host: Host, task: Task, gang: Gang) -> bool:
        needs, tree = task.needs, task.needs.host_class.tree
        if (host.has_gpu or host.free.gpu) and not needs.resources.gpu:
            return False
        if any(key == EXCLUSIVE for key, _ in host.labels) and not mentions(tree, Kind.HOST, EXCLUSIVE):
            return False
        if not holds(tree, host, self.labels[host.hostname]):
            return False
        if gang.strategy is PlacementStrategy.SPREAD_JOB and self.jobs[host.hostname][gang.job_id]:
            return False
        if len(gang.tasks) == 1 and len(self.tasks[host.agent_id]) >= host.launches:
            return False
        return self.has_room(host, [*self.tasks[host.agent_id], task])

    def has_room(self, host: Host, tasks: Sequence[Task]) -> bool:
        normal = total(
            Resources(0 if task.needs.revocable else r.cpu, r.memory, r.disk, r.gpu)
            for task in tasks
            for r in [task.needs.resources]
        )
        slack = sum(task.needs.resources.cpu for task in tasks if task.needs.revocable)
        fixed = {port for task in tasks for port in ports_of(task.labels)}
        dynamic = [p for first, last in host.ports for p in range(first, last + 1) if p not in fixed]
        ports = sum(task.needs.ports for task in tasks)
        return normal.fits(host.free) and slack <= host.slack_cpu and ports <= len(dynamic)

    def put(self, host: Host, task: Task, gang: Gang) -> None:
        self.tasks[host.agent_id].append(task)
        self.labels[host.hostname].update(task.labels)
        self.jobs[host.hostname][gang.job_id] += 1


def replay(hosts: Sequence[Host], there: There, gangs: Sequence[Gang], planned: Plan) -> Cluster | None:
    """Put the tasks on their hosts in some order in which each is allowed; None where there is none.

    A task that may be put is put at once, as long as the others may still follow: depth first.
    """
    gang_of = {task: gang for gang in gangs for task in gang.tasks}
    todo = [(placement.host, task) for placement in planned.placements for task in placement.tasks]

    def search(
        done: list[tuple[Host, Task]], left: list[tuple[Host, Task]], budget: list[int]
    ) -> Cluster | None:
        cluster = Cluster(hosts, there)
        for host, task in done:
            cluster.put(host, task, gang_of[task])
        if not left:
            return cluster
        if budget[0] <= 0:
            return None
        budget[0] -= 1
        tried: set[tuple[object, ...]] = set()
        for i, (host, task) in enumerate(left):
            alike = (host.agent_id, task.needs, task.labels, gang_of[task].job_id, gang_of[task].strategy)
            if alike in tried or not cluster.takes(host, task, gang_of[task]):
                continue
            tried.add(alike)
            found = search([*done, (host, task)], left[:i] + left[i + 1 :], budget)
            if found is not None:
                return found
        return None

    return search([], todo, [2000])


def check(hosts: Sequence[Host], there: There, gangs: Sequence[Gang], planned: Plan) -> Cluster:
    placed = Counter(task.run_id for placement in planned.placements for task in placement.tasks)
    assert placed == Counter(task.run_id for gang in planned.placed for task in gang.tasks), "whole, once"
    assert sorted(map(id, gangs)) == sorted(map(id, (*planned.placed, *planned.unplaced)))
    offers = [placement.host.offer_id for placement in planned.placements]
    assert len(set(offers)) == len(offers), "a claim is used once"
    for placement in planned.placements:
        assert placement.host in hosts
        assert placement.tasks
        fixed = {port for task in placement.tasks for port in ports_of(task.labels)}
        assert len(placement.ports) == sum(task.needs.ports for task in placement.tasks)
        assert len(set(placement.ports)) == len(placement.ports)
        assert not fixed & set(placement.ports), "no dynamic port is a fixed one"
        offered = [p for first, last in placement.host.ports for p in range(first, last + 1)]
        assert set(placement.ports) <= set(offered)
    cluster = replay(hosts, there, gangs, planned)
    assert cluster is not None, "there is an order in which every rule holds"
    return cluster


@settings(max_examples=150, deadline=None)
@given(host_lists(), tasks_there(), gang_lists(most=1), policies)
def test_a_task_without_a_place_fits_on_no_host(
    hosts: list[Host], there: There, gangs: list[Gang], policy: Policy
) -> None:
    planned = plan(gangs, hosts, there, policy)
    cluster = check(hosts, there, gangs, planned)
    event("some unplaced" if planned.unplaced else "all placed")
    for failure in planned.failures:
        (task,) = failure.gang.tasks
        assert not any(cluster.takes(host, task, failure.gang) for host in hosts)
        assert failure.refusal.counts["match"] == 0
        assert sum(failure.refusal.counts.values()) == len(hosts), "each host is refused by one rule"
        assert len(failure.refusal.details) == sum(bool(n) for n in failure.refusal.counts.values())


@settings(max_examples=150, deadline=None)
@given(host_lists(), tasks_there(), gang_lists(), policies)
def test_gangs_are_placed_whole_and_break_no_rule(
    hosts: list[Host], there: There, gangs: list[Gang], policy: Policy
) -> None:
    planned = plan(gangs, hosts, there, policy)
    check(hosts, there, gangs, planned)
    event("some unplaced" if planned.unplaced else "all placed")
    for failure in planned.failures:
        wanted = Counter(task.needs for task in failure.gang.tasks)
        assert all(0 < count <= wanted[needs] for needs, count in failure.missing), "what is missing"


@settings(max_examples=60, deadline=None)
@given(host_lists(), gang_lists(most=1))
def test_first_fit_in_order_is_what_trying_each_host_gives(hosts: list[Host], gangs: list[Gang]) -> None:
    """Of tasks whose constraints do not count tasks, each is where trying every host in turn places it."""
    plain = [gang for gang in gangs if not of_kind(gang.tasks[0].needs.host_class.tree, Kind.TASK)]
    planned = plan(plain, hosts, policy=Policy(Scorer.FIRST_FIT, largest_first=False))
    cluster = Cluster(hosts, {})
    for gang in plain:
        host = next((host for host in hosts if cluster.takes(host, gang.tasks[0], gang)), None)
        if host is not None:
            cluster.put(host, gang.tasks[0], gang)
    assert {placement.host.agent_id: list(placement.tasks) for placement in planned.placements} == {
        agent: tasks for agent, tasks in cluster.tasks.items() if tasks
    }


@settings(max_examples=60, deadline=None)
@given(host_lists(), gang_lists(most=1))
def test_emptiest_takes_the_host_with_most_free(hosts: list[Host], gangs: list[Gang]) -> None:
    plain = [gang for gang in gangs if not of_kind(gang.tasks[0].needs.host_class.tree, Kind.TASK)]
    planned = plan(plain, hosts, policy=Policy(Scorer.EMPTIEST, largest_first=False))
    cluster = Cluster(hosts, {})
    for gang in plain:
        eligible = [host for host in hosts if cluster.takes(host, gang.tasks[0], gang)]
        if eligible:
            best = max(eligible, key=lambda host: left(host, cluster.tasks[host.agent_id]))
            cluster.put(best, gang.tasks[0], gang)
    assert {placement.host.agent_id: list(placement.tasks) for placement in planned.placements} == {
        agent: tasks for agent, tasks in cluster.tasks.items() if tasks
    }


def left(host: Host, tasks: Sequence[Task]) -> tuple[int, ...]:
    free = host.free - total(
        Resources(0 if task.needs.revocable else r.cpu, r.memory, r.disk, r.gpu)
        for task in tasks
        for r in [task.needs.resources]
    )
    return free.disk, free.memory, free.cpu, free.gpu


@settings(max_examples=80, deadline=None)
@given(host_lists(), tasks_there(), gang_lists(most=1), st.data())
def test_desired_hosts(hosts: list[Host], there: There, gangs: list[Gang], data: st.DataObject) -> None:
    names = [*(host.hostname for host in hosts), "gone"]
    returning = [
        replace(
            gang,
            tasks=(replace(gang.tasks[0], desired_host=data.draw(st.sampled_from(names))),),
            strategy=PlacementStrategy.PACK_HOST,
        )
        for gang in gangs
    ]
    planned = plan(returning, hosts, there, Policy(desired=Desired.HOST))
    cluster = check(hosts, there, returning, planned)
    for placement in planned.placements:
        assert {task.desired_host for task in placement.tasks} == {placement.host.hostname}
    for gang in planned.unplaced:
        at_home = [host for host in hosts if host.hostname == gang.desired_host]
        assert not any(cluster.takes(host, gang.tasks[0], gang) for host in at_home)


@settings(max_examples=80, deadline=None)
@given(host_lists(), gang_lists(most=1))
def test_a_claimed_host_serves_only_what_it_was_claimed_for(hosts: list[Host], gangs: list[Gang]) -> None:
    classes = [gang.tasks[0].needs.host_class for gang in gangs] or [HostClass()]
    claimed = [replace(host, host_class=classes[i % len(classes)]) for i, host in enumerate(hosts)]
    planned = plan(gangs, claimed)
    for placement in planned.placements:
        assert {task.needs.host_class for task in placement.tasks} == {placement.host.host_class}
