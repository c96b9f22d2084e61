"""The plan of a daemon job: one instance on each host that matches, whatever came before."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from jobmgr.core.job.daemon import Coverage, plan
from jobmgr.core.state.cache import NOT_CREATED
from peloton.model.host import HostMatch
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

S = TaskState
HOSTS = [f"host-{number}" for number in range(12)]
NAMES = st.frozensets(st.sampled_from(HOSTS))
MATCHES = st.builds(HostMatch, NAMES, NAMES, st.booleans())


def runtime(state: S, goal: S, host: str) -> TaskRuntime:
    return TaskRuntime(
        state, goal, run=1, config_version=1, desired_config_version=1, desired_run=1, desired_host=host
    )


def on(host: str) -> TaskRuntime:
    return runtime(S.RUNNING, S.RUNNING, host)


def removed(host: str) -> TaskRuntime:
    return runtime(S.DELETED, S.DELETED, host)


def leaving(host: str) -> TaskRuntime:
    return runtime(S.KILLING, S.DELETED, host)


def planned(match: HostMatch, *tasks: TaskRuntime) -> Coverage:
    return plan(match, list(enumerate(tasks)))


def applied(tasks: list[TaskRuntime], change: Coverage, ended: bool) -> list[TaskRuntime]:
    """The instances after a plan; `ended`: what is removed has ended."""
    tasks = [*tasks, *[NOT_CREATED] * (max((i + 1 for i, _ in change.adds), default=0) - len(tasks))]
    for instance in change.removes:
        tasks[instance] = replace(tasks[instance], goal=S.DELETED, state=S.KILLING)
    for instance, host in change.adds:
        before = tasks[instance]
        if before.state in (S.UNKNOWN, S.DELETED):
            tasks[instance] = on(host)
        else:
            assert before.desired_host == host, "what lives stays on its host"
            tasks[instance] = replace(before, goal=S.RUNNING)
    if ended:
        tasks = [removed(task.desired_host) if task.goal is S.DELETED else task for task in tasks]
    return tasks


def held(tasks: list[TaskRuntime]) -> list[str]:
    return sorted(task.desired_host for task in tasks if task.goal is S.RUNNING)


@given(st.lists(st.tuples(MATCHES, st.booleans()), max_size=12))
def test_instances_follow_hosts(steps: list[tuple[HostMatch, bool]]) -> None:
    tasks: list[TaskRuntime] = []
    for match, ended in steps:
        before = set(held(tasks))
        tasks = applied(tasks, plan(match, list(enumerate(tasks))), ended)
        now = held(tasks)
        assert len(set(now)) == len(now), "no host has two"
        assert match.hosts <= set(now), "each host that matches has one"
        others = set(now) - match.hosts
        assert others <= before, "no other host gets one"
        if match.complete:
            assert others <= match.disconnected
        assert before - match.hosts - match.disconnected <= others or match.complete
        assert plan(match, list(enumerate(tasks))) == Coverage(), "a second plan has nothing to do"


@given(st.lists(NAMES, max_size=20))
def test_numbers_are_used_again(steps: list[frozenset[str]]) -> None:
    tasks: list[TaskRuntime] = []
    for hosts in steps:
        tasks = applied(tasks, plan(HostMatch(hosts), list(enumerate(tasks))), ended=True)
    # A plan adds before what it removes has ended, so that two sets of hosts may have numbers at a time.
    most = max(
        (len(one | other) for one, other in zip(steps, [frozenset(), *steps], strict=False)), default=0
    )
    assert len(tasks) <= most


def test_a_host_that_comes_back_has_its_instance_again() -> None:
    both = HostMatch(frozenset({"host-0", "host-1"}))
    assert planned(both, removed("host-1"), removed("host-0")).adds == ((0, "host-1"), (1, "host-0"))
    assert planned(both, on("host-1"), removed("host-9")).adds == ((1, "host-0"),), "another takes the number"
    assert planned(both, on("host-1"), leaving("host-0")).adds == ((1, "host-0"),), (
        "it is not removed after all"
    )
    assert planned(both, on("host-1"), leaving("host-9")).adds == ((2, "host-0"),), "it is not free yet"


def test_nothing_is_removed_while_it_is_unknown_which_hosts_are_gone() -> None:
    tasks = [on("host-0"), on("host-1"), on("host-2")]
    some = frozenset({"host-0"})
    assert planned(HostMatch(some), *tasks).removes == (1, 2)
    assert planned(HostMatch(some, frozenset({"host-1"})), *tasks).removes == (2,)
    assert planned(HostMatch(some, complete=False), *tasks).removes == ()


def test_a_stopped_instance_keeps_its_host() -> None:
    stopped = runtime(S.KILLED, S.KILLED, "host-0")
    assert planned(HostMatch(frozenset({"host-0"})), stopped) == Coverage()
    assert planned(HostMatch(frozenset()), stopped).removes == (0,)


def test_thousands_of_hosts() -> None:
    hosts = [f"h{number}" for number in range(10_000)]
    tasks = applied([], plan(HostMatch(frozenset(hosts)), []), ended=True)
    assert held(tasks) == sorted(hosts)
    fewer = HostMatch(frozenset(hosts[:5_000]))
    change = plan(fewer, list(enumerate(tasks)))
    assert (len(change.adds), len(change.removes)) == (0, 5_000)
