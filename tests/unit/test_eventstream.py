"""The event ring: offsets, purging, duplicates, and what happens when it is full."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.eventstream import Added, EventRing, InvalidPurge, OutOfRange, StreamChanged, UnknownClient


def ring(capacity: int = 4) -> EventRing[str]:
    return EventRing("s1", ("jobmgr", "resmgr"), holder="jobmgr", capacity=capacity)


def filled(count: int, capacity: int = 4) -> EventRing[str]:
    it = ring(capacity)
    for n in range(count):
        assert it.append(f"e{n}", b"k%d" % n) is Added.APPENDED
    return it


def test_reads_in_order_with_limit() -> None:
    it = filled(3)
    assert [(n.offset, n.event) for n in it.read(1, 10)] == [(1, "e1"), (2, "e2")]
    assert [n.event for n in it.read(0, 2)] == ["e0", "e1"]


def test_full_of_what_the_holder_has_not_passed_refuses() -> None:
    it = filled(4)
    assert it.append("e4", b"k4") is Added.FULL
    assert [n.event for n in it.purge("jobmgr", "s1", 2, 1)] == ["e0"]
    assert it.append("e4", b"k4") is Added.APPENDED
    assert [n.event for n in it.read(it.first, 10)] == ["e1", "e2", "e3", "e4"]


def test_the_other_client_holds_nothing_up_and_falls_off() -> None:
    it = filled(4)
    it.purge("jobmgr", "s1", 4, 4)
    assert it.first == 0, "resmgr may still read them while there is room"
    it.append("e4")
    assert it.first == 1
    with pytest.raises(OutOfRange) as caught:
        it.purge("resmgr", "s1", 0, 0)
    assert (caught.value.first, caught.value.end) == (1, 5)
    assert it.start("resmgr") == (1, 0)
    with pytest.raises(OutOfRange):
        it.read(0, 10)


def test_what_all_have_passed_is_dropped() -> None:
    it = filled(3)
    it.purge("jobmgr", "s1", 3, 2)
    it.purge("resmgr", "s1", 3, 1)
    assert it.first == 1


def test_duplicates_are_told_apart_by_whether_the_holder_passed_them() -> None:
    it = filled(2)
    assert it.append("again", b"k0") is Added.DUPLICATE
    it.purge("jobmgr", "s1", 1, 1)
    assert it.append("again", b"k0") is Added.PASSED
    assert it.append("no key") is it.append("no key") is Added.APPENDED


def test_refusals_change_nothing() -> None:
    it = filled(2)
    with pytest.raises(InvalidPurge):
        it.purge("jobmgr", "s1", 1, 2)
    with pytest.raises(StreamChanged) as caught:
        it.purge("jobmgr", "s0", 0, 0)
    assert caught.value.current == "s1"
    with pytest.raises(OutOfRange):
        it.purge("jobmgr", "s1", 3, 0)
    with pytest.raises(UnknownClient):
        it.start("archiver")
    assert (it.pending, it.first, it.end) == (2, 0, 2)


def test_a_lower_purge_offset_takes_nothing_back() -> None:
    it = filled(3)
    it.purge("jobmgr", "s1", 3, 3)
    assert it.purge("jobmgr", "s1", 3, 1) == []
    assert it.pending == 0


@given(st.lists(st.tuples(st.sampled_from(["append", "jobmgr", "resmgr"]), st.integers(0, 12)), max_size=60))
def test_the_holder_gets_every_accepted_event_once_and_in_order(steps: list[tuple[str, int]]) -> None:
    it = ring(capacity=5)
    accepted: list[str] = []
    passed: list[str] = []
    for n, (what, size) in enumerate(steps):
        if what == "append":
            if it.append(f"e{n}", b"k%d" % n) is Added.APPENDED:
                accepted.append(f"e{n}")
        else:
            first, purged = it.start(what)
            purge = min(it.end, max(first, purged) + size)
            gone = it.purge(what, "s1", purge, purge)
            passed += [numbered.event for numbered in gone] if what == "jobmgr" else []
        assert it.pending <= 5 and it.end - it.first <= 5
        assert it.end == len(accepted)
        assert accepted[it.first :] == [numbered.event for numbered in it.read(it.first, 99)]
    assert passed == accepted[: len(passed)]
    assert len(accepted) - len(passed) == it.pending


def test_what_is_passed_early_is_passed_once_and_stays_until_it_is_purged() -> None:
    it = filled(4)
    assert [n.offset for n in it.pass_early("s1", [3, 1, 1, 7])] == [1, 3]
    assert it.pass_early("s1", [1]) == []
    assert it.append("e1 again", b"k1") is Added.PASSED
    assert it.append("e2 again", b"k2") is Added.DUPLICATE
    assert it.append("e4", b"k4") is Added.FULL, "a new leader may have to read them"
    assert [n.offset for n in it.purge("jobmgr", "s1", 4, 3)] == [0, 2]
    assert it.pass_early("s1", [0, 2]) == []
    assert it.purge("jobmgr", "s1", 4, 4) == []
    with pytest.raises(StreamChanged):
        it.pass_early("s0", [3])
