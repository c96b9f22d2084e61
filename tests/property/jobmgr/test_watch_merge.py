"""The watches of owners as one: each change once and in order, whichever stream comes first, or a signal."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from jobmgr.services.v1alpha.watch_merge import Merge, Missed, Owned
from peloton.model.shard import shard_of
from tests.unit.jobmgr_core.sharing import job_in

SHARDS_USED = 2
JOBS = {shard: job_in(shard) for shard in range(SHARDS_USED)}
GEN = 10
Item = Owned | tuple[str, int]
"""What an owner says it has, or a change of a subject with its number."""


@dataclass
class Owners:
    """Owners of shards, each with a stream. They hand shards over in order, or are lost."""

    streams: dict[str, deque[Item]] = field(default_factory=dict)
    terms: dict[str, dict[int, int]] = field(default_factory=dict)
    seen: dict[str, int] = field(default_factory=dict)
    generation: int = 0
    changes: dict[str, int] = field(default_factory=dict)

    def begin(self, name: str) -> None:
        self.terms[name], self.streams[name], self.seen[name] = {}, deque(), 0

    def owned(self, name: str) -> Owned:
        return Owned(dict(self.terms[name]), self.seen[name])

    def watch(self, name: str) -> Owned:
        """Its stream begins: what is said from now on is seen."""
        self.streams[name].clear()
        return self.owned(name)

    def give(self, shard: int, name: str) -> None:
        """Hand a shard over in order: who had it says so before the next one begins."""
        for other, terms in self.terms.items():
            if terms.pop(shard, None):
                self.streams[other].append(self.owned(other))
        self.generation += 1
        self.terms[name][shard] = self.generation
        self.see(name)

    def see(self, name: str) -> None:
        """See the newest table."""
        self.seen[name] = self.generation
        self.streams[name].append(self.owned(name))

    def change(self, shard: int, pod: int) -> None:
        owner = next((name for name, terms in self.terms.items() if shard in terms), None)
        if owner is None:
            return
        subject = f"{JOBS[shard]}-{pod}"
        self.changes[subject] = self.changes.get(subject, 0) + 1
        self.streams[owner].append((subject, self.changes[subject]))


@dataclass
class Watcher:
    owners: Owners
    merge: Merge = field(default_factory=Merge)
    told: dict[str, list[int]] = field(default_factory=dict)

    def take(self, name: str) -> None:
        """Take the next thing that an owner says."""
        if not self.owners.streams[name]:
            return
        item = self.owners.streams[name].popleft()
        if isinstance(item, Owned):
            self.merge.owns(name, item)
            return
        subject, number = item
        job_id = subject.rpartition("-")[0]
        assert job_id in JOBS.values()
        if self.merge.tells(name, job_id, subject):
            self.told.setdefault(subject, []).append(number)


NAMES = st.sampled_from("abc")
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("change"), st.sampled_from(range(SHARDS_USED)), st.sampled_from(range(2))),
        st.tuples(st.just("give"), st.sampled_from(range(SHARDS_USED)), NAMES),
        st.tuples(st.just("take"), NAMES, st.none()),
        st.tuples(st.just("see"), NAMES, st.none()),
    ),
    max_size=60,
)


@given(STEPS)
def test_each_change_is_told_once_in_order_and_the_last_one_always(
    steps: list[tuple[str, object, object]],
) -> None:
    owners = Owners()
    watcher = Watcher(owners)
    for name in "abc":
        owners.begin(name)
    for shard in range(SHARDS_USED):
        owners.give(shard, "a")
    for name in "abc":
        watcher.merge.joined(name, owners.watch(name))
    watcher.merge.begin()
    for what, first, second in steps:
        match what, first, second:
            case "change", int(shard), int(pod):
                owners.change(shard, pod)
            case "give", int(shard), str(name):
                owners.give(shard, name)
            case "take", str(name), _:
                watcher.take(name)
            case "see", str(name), _:
                owners.see(name)
    for name in "abc":
        owners.see(name)
        while owners.streams[name]:
            watcher.take(name)
    for subject, last in owners.changes.items():
        told = watcher.told[subject]
        assert told == sorted(set(told)), f"{subject}: {told}"
        assert told[-1] == last
    assert not watcher.merge.moving
    assert not watcher.merge._told, "nothing is kept of shards that rest"


@given(STEPS)
def test_nothing_is_left_out_where_nothing_moves(steps: list[tuple[str, object, object]]) -> None:
    owners = Owners()
    watcher = Watcher(owners)
    owners.begin("a")
    for shard in range(SHARDS_USED):
        owners.give(shard, "a")
    watcher.merge.joined("a", owners.watch("a"))
    watcher.merge.begin()
    for what, first, second in steps:
        if what == "change":
            assert isinstance(first, int)
            assert isinstance(second, int)
            owners.change(first, second)
            assert not watcher.merge.moving
    while owners.streams["a"]:
        watcher.take("a")
    assert watcher.told == {subject: [*range(1, last + 1)] for subject, last in owners.changes.items()}


def test_an_owner_that_got_a_shard_before_it_was_watched_is_a_signal() -> None:
    merge = Merge()
    merge.joined("a", Owned({0: 1, 1: 1}, GEN))
    merge.begin()
    merge.joined("b", Owned({}, GEN))
    with pytest.raises(Missed, match="c owned shards before it was watched"):
        merge.joined("c", Owned({1: 2}, GEN))


def test_one_that_had_it_when_the_watch_began_is_none() -> None:
    merge = Merge()
    merge.joined("a", Owned({0: 1}, GEN))
    merge.joined("b", Owned({1: 2}, GEN))
    merge.begin()
    merge.owns("a", Owned({0: 1, 1: 5}, GEN))
    merge.joined("c", Owned({}, GEN))


def test_an_owner_that_ends_with_shards_is_a_signal_and_one_without_is_none() -> None:
    merge = Merge()
    merge.joined("a", Owned({0: 1}, GEN))
    merge.joined("b", Owned({1: 2}, GEN))
    merge.begin()
    merge.owns("a", Owned({}, GEN))
    merge.left("a")
    with pytest.raises(Missed, match="b has ended with shards"):
        merge.left("b")


def test_a_late_message_of_an_earlier_owner_is_old_until_it_has_given_the_shard_up() -> None:
    job = JOBS[0]
    assert shard_of(job) == 0
    merge = Merge()
    merge.joined("a", Owned({0: 1}, GEN))
    merge.joined("b", Owned({}, GEN))
    merge.begin()
    merge.owns("b", Owned({0: 12}, 12))
    assert merge.moving
    assert merge.tells("b", job, f"{job}-0")
    assert not merge.tells("a", job, f"{job}-0")
    assert merge.tells("a", job, f"{job}-1"), "the later one has not told anything of it"
    merge.owns("a", Owned({}, GEN))
    assert merge.moving, "another one may have had it in between"
    merge.owns("a", Owned({}, 12))
    assert not merge.moving
