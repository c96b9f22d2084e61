"""How leaders are followed, step by step: events in, decisions out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.leaders import (
    CLIENT,
    DAEMON,
    DOUBT_SECONDS,
    IDLE_SECONDS,
    LEAST_SECONDS,
    MOST_FORMER,
    NOT_BEGUN,
    PROGRAM,
    Doubts,
    Failure,
    Leaders,
    Patience,
    Server,
    Tries,
    failure_of,
    instead,
    left,
    may_be_handshake,
)


def current(leaders: Leaders) -> Server:
    assert leaders.current is not None
    return leaders.current


@pytest.mark.parametrize(
    ("code", "details", "trailing", "failure"),
    [
        ("UNAVAILABLE", "Socket closed", (), Failure.GONE),
        ("CANCELLED", "", (), Failure.GONE),
        ("UNAVAILABLE", "another leads", (NOT_BEGUN,), Failure.NOT_BEGUN),
        ("UNAVAILABLE", "failed to connect to all addresses", (), Failure.NOT_BEGUN),
        ("DEADLINE_EXCEEDED", "", (), Failure.SILENT),
        ("UNAUTHENTICATED", "no token", (), Failure.TURNED_AWAY),
        ("PERMISSION_DENIED", "not a daemon", (), Failure.TURNED_AWAY),
        ("NOT_FOUND", "job", (), Failure.ANSWERED),
        ("NOT_FOUND", "job", (NOT_BEGUN,), Failure.ANSWERED),
    ],
)
def test_what_a_status_tells(code: str, details: str, trailing: tuple[str, ...], failure: Failure) -> None:
    assert failure_of(code, details, trailing) is failure


def test_a_connection_that_was_cut_may_be_a_refused_certificate() -> None:
    text = "failed to connect to all addresses; last error: ipv4:127.0.0.1:1: Ssl handshake failed"
    assert may_be_handshake("UNAVAILABLE", text)
    assert not may_be_handshake("UNKNOWN", text)
    assert not may_be_handshake("UNAVAILABLE", "failed to connect to all addresses; Connection refused")


@pytest.mark.parametrize(
    ("patience", "failure", "repeatable", "again"),
    [
        (CLIENT, Failure.NOT_BEGUN, False, True),
        (CLIENT, Failure.GONE, False, False),
        (CLIENT, Failure.GONE, True, True),
        (CLIENT, Failure.SILENT, True, False),
        (CLIENT, Failure.TURNED_AWAY, True, False),
        (PROGRAM, Failure.SILENT, True, True),
        (PROGRAM, Failure.TURNED_AWAY, True, False),
        (DAEMON, Failure.TURNED_AWAY, True, True),
        (DAEMON, Failure.ANSWERED, True, False),
    ],
)
def test_which_failures_are_followed_by_another_try(
    patience: Patience, failure: Failure, repeatable: bool, again: bool
) -> None:
    tries = Tries(patience, 0.0, 10.0, repeatable=repeatable)
    assert (tries.failed(failure, 0.0) is not None) is again


def test_pauses_grow_and_begin_again_with_another_leader() -> None:
    tries = Tries(CLIENT, 0.0, None)
    assert [tries.failed(Failure.NOT_BEGUN, 0.0) for _ in range(4)] == [0.1, 0.2, 0.4, 0.5]
    tries.hear()
    assert tries.failed(Failure.NOT_BEGUN, 0.0) == 0.1
    assert tries.seconds(1e9) is None


def test_there_is_no_try_after_the_end_of_the_call() -> None:
    tries = Tries(CLIENT, 100.0, 1.0)
    assert tries.seconds(100.4) == pytest.approx(0.6)
    assert tries.failed(Failure.NOT_BEGUN, 100.5) == 0.1
    assert tries.failed(Failure.NOT_BEGUN, 100.8) is None
    assert tries.seconds(101.5) == LEAST_SECONDS


def test_one_try_only() -> None:
    assert Tries(DAEMON, 0.0, 10.0, repeats=False).failed(Failure.NOT_BEGUN, 0.0) is None


def test_a_later_try_says_that_an_earlier_one_may_have_been_carried_out() -> None:
    tries = Tries(CLIENT, 0.0, 10.0)
    tries.failed(Failure.NOT_BEGUN, 0.0)
    assert not tries.lost
    tries.failed(Failure.GONE, 0.0)
    tries.failed(Failure.NOT_BEGUN, 0.0)
    assert tries.lost


def test_a_long_poll_is_bounded_from_its_first_failure_on() -> None:
    tries = Tries(DAEMON, 0.0, 1.0, waits=30.0)
    assert tries.seconds(500.0) == 31.0
    assert tries.failed(Failure.GONE, 600.0) == 0.05
    assert tries.seconds(600.5) == pytest.approx(30.5)
    assert tries.failed(Failure.GONE, 600.95) is None


def test_a_server_that_is_gone_is_looked_up_again_and_may_lead_still() -> None:
    leaders = Leaders()
    leaders.find("a")
    first = current(leaders)
    assert list(leaders.fail(first, Failure.ANSWERED)) == []
    assert leaders.current is first
    leaders.fail(first, Failure.GONE)
    assert leaders.current is None
    leaders.find("a")
    assert current(leaders) is first  # its connections are used again


def test_calls_go_on_at_who_is_told_and_end_at_who_led_before() -> None:
    leaders = Leaders()
    leaders.find("a")
    first = current(leaders)
    assert leaders.tell("a").leader is first
    assert not leaders.tell("").left  # nobody else is known to lead: what is under way may succeed
    assert leaders.current is None
    turn = leaders.tell("b")
    assert turn.left == [first] and first.deposed
    assert turn.leader is leaders.current and current(leaders).address == "b"
    assert leaders.tell("b").leader is None  # that is no news
    leaders.tell("a")
    assert current(leaders).address == "a" and current(leaders) is not first


def test_a_failure_at_a_former_leader_does_not_concern_the_present_one() -> None:
    leaders = Leaders()
    leaders.find("a")
    first = current(leaders)
    leaders.tell("b")
    leaders.fail(first, Failure.GONE)
    assert current(leaders).address == "b"


def test_nobody_is_called_after_the_end() -> None:
    leaders = Leaders()
    leaders.find("a")
    leaders.end()
    leaders.find("b")
    assert leaders.tell("c").leader is None and leaders.current is None


@given(st.lists(st.tuples(st.sampled_from("tgf"), st.sampled_from(["", *map(str, range(20))])), max_size=60))
def test_connections_are_bounded_and_at_most_one_leads(steps: list[tuple[str, str]]) -> None:
    leaders = Leaders()
    open_: set[Server] = set()
    for kind, address in steps:
        closed: list[Server] = []
        if kind == "t":
            turn = leaders.tell(address)
            closed += turn.closed
            assert all(each.deposed and each is not leaders.current for each in turn.left)
        elif kind == "g" and address:
            leaders.find(address)
        elif leaders.current is not None:
            closed += leaders.fail(leaders.current, Failure.GONE)
        if leaders.current is not None:
            open_.add(leaders.current)
            assert not leaders.current.deposed
        assert open_ >= set(closed)
        open_ -= set(closed)
        assert len(open_) <= MOST_FORMER + 1


def test_calls_end_at_those_that_a_registry_does_not_name() -> None:
    assert left(["a", "b", "c"], {"b", "d"}) == ["a", "c"]


def test_a_server_is_doubted_once_a_call_has_waited() -> None:
    doubts = Doubts(0.0)
    call = doubts.begin("a", 0.0)
    doubts.begin("b", DOUBT_SECONDS)
    assert doubts.doubted(DOUBT_SECONDS) == set()
    assert doubts.doubted(DOUBT_SECONDS + 0.1) == {"a"}
    doubts.end(call)
    assert doubts.doubted(DOUBT_SECONDS + 0.1) == set()


def test_doubts_are_idle_a_while_after_the_last_call() -> None:
    doubts = Doubts(0.0)
    call = doubts.begin("a", 10.0)
    assert not doubts.idle(10.1 + IDLE_SECONDS)
    doubts.end(call)
    assert not doubts.idle(10.0 + IDLE_SECONDS)
    assert doubts.idle(10.1 + IDLE_SECONDS)


@pytest.mark.parametrize(("leading", "found"), [("", ""), ("b", "b"), ("bc", "b"), ("ab", ""), ("a", "")])
def test_who_leads_in_place_of_a_silent_server(leading: str, found: str) -> None:
    asked: Iterator[int] = itertools.count()

    def leads(address: str) -> bool:
        next(asked)
        return address in leading

    assert instead("a", "abc", leads) == found
    assert next(asked) <= 3
