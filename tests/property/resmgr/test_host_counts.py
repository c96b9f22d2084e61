"""What hostmgr counted comes through the placement engine's text to who asks why a task waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from hostmgr.core.filter import Result
from peloton.model.hostcounts import MATCH, read
from peloton.model.resources import Resources
from placement.core.model import Gang, Needs, Task
from placement.core.reasons import no_host_fits
from resmgr.core.explain import explain
from tests.unit.resmgr.world import World

NAMES = st.one_of(
    st.sampled_from([result.value for result in Result]), st.from_regex(r"[a-z0-9_]+", fullmatch=True)
)
NEEDS = Needs(Resources.of(1))


@given(
    st.dictionaries(NAMES, st.integers(0, 60_000), max_size=8),
    st.integers(1, 5),
    st.integers(0, 5),
    st.integers(0, 3),
)
def test_counts_come_through(counts: dict[str, int], size: int, missing: int, on_used_hosts: int) -> None:
    gang = Gang("job", tuple(Task(f"job-{i}", f"job-{i}-1", NEEDS) for i in range(size)))
    told = no_host_fits(gang, [(NEEDS, min(missing, size))], counts, on_used_hosts)
    refused = {name: count for name, count in counts.items() if count and name != MATCH}
    assert read(told) == refused


@given(st.dictionaries(st.sampled_from([result.value for result in Result]), st.integers(1, 9), min_size=1))
def test_they_are_in_the_explanation(counts: dict[str, int]) -> None:
    world = World()
    world.enqueue(0)
    world.admit()
    world.dequeue()
    gang = Gang("job", (Task("job-0", "job-0-1", NEEDS),))
    world.fail(0, reason=no_host_fits(gang, [(NEEDS, 1)], counts))
    [found] = explain(world.scheduler, [world.task(0)])
    assert found.tries is not None
    assert found.tries.hosts == {name: count for name, count in counts.items() if name != MATCH}
