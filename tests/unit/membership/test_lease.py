"""A leader that believes its lease is right to: by examples, and against a model of the registry."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from peloton.membership.lease import MARGIN, Lease, Standing


def test_lease_begins_at_the_stamp() -> None:
    lease = Lease(session=5, stamp=100)
    lease.renew(stamp=101, now=103.5)
    assert lease.until == 105
    assert lease.standing(104.99) is Standing.HELD
    assert lease.standing(105) is Standing.OVER


def test_late_answer_does_not_renew_an_expired_lease() -> None:
    lease = Lease(session=5, stamp=100)
    lease.renew(stamp=103, now=104)
    assert lease.standing(104) is Standing.OVER
    lease.renew(stamp=104.5, now=104.6)
    assert lease.standing(104.6) is Standing.OVER


def test_answer_out_of_order_does_not_shorten_the_lease() -> None:
    lease = Lease(session=5, stamp=100)
    lease.renew(stamp=102, now=102.1)
    lease.renew(stamp=101, now=102.2)
    assert lease.until == 106


def test_suspended_until_a_call_made_later_is_answered() -> None:
    lease = Lease(session=5, stamp=100)
    lease.suspend(101)
    assert lease.standing(101) is Standing.SUSPENDED
    lease.renew(stamp=100.9, now=101.1)
    assert lease.standing(101.1) is Standing.SUSPENDED
    lease.renew(stamp=101.2, now=101.3)
    assert lease.standing(101.3) is Standing.HELD


def test_ended_is_over() -> None:
    lease = Lease(session=5, stamp=100)
    lease.end()
    assert lease.standing(100) is Standing.OVER
    lease.renew(stamp=100.1, now=100.2)
    assert lease.standing(100.2) is Standing.OVER


def test_a_session_that_is_granted_for_less_shortens_it_from_the_last_renewal_on() -> None:
    lease = Lease(session=60, stamp=100)
    lease.renew(stamp=101, now=102)
    lease.shorten(60)
    assert lease.until == 149
    lease.shorten(10)
    assert lease.until == 109
    lease.renew(stamp=103, now=104)
    assert lease.until == 111


@dataclass(frozen=True)
class Turn:
    """One renewal: how long until it is sent, until the registry hears of it, until the answer is read."""

    pause: float
    way: float
    back: float
    answered: bool
    """Else the answer is lost, and `back` is time without any."""
    drops: bool
    """Whether the connection is found broken before the answer is read."""


seconds = st.floats(0, 4)
turns = st.lists(st.builds(Turn, seconds, seconds, seconds, st.booleans(), st.booleans()), max_size=12)
drift = st.floats(1 - MARGIN, 1 / (1 - MARGIN))


@given(turns, drift)
def test_nobody_else_leads_while_it_is_held(plan: list[Turn], rate: float) -> None:
    """The registry ends a session `session` seconds after it last heard of it, by its own clock, which runs
    at another rate within the margin. Then another leads; until then the lease may be held, not after."""
    session = 5.0
    now, lease, heard = 0.0, Lease(session, 0.0), 0.0
    was_over = False

    def look(at: float) -> None:
        nonlocal was_over
        standing = lease.standing(at)
        if (at - heard) * rate > session:
            assert standing is Standing.OVER
        assert not (was_over and standing is not Standing.OVER)
        was_over = standing is Standing.OVER

    for turn in plan:
        look(now := now + turn.pause)
        stamp = now
        look(now := now + turn.way)
        if (now - heard) * rate > session:
            break  # the session has ended: the registry answers no more
        heard = now
        look(now := now + turn.back)
        if turn.drops:
            lease.suspend(now)
            assert lease.standing(now) is not Standing.HELD
        if turn.answered:
            lease.renew(stamp, now)
            look(now)
    look(now + session / (1 - MARGIN))
    look(now + 2 * session)
