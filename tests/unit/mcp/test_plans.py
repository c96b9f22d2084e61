"""When the token of a plan counts, and when it does not."""

from __future__ import annotations

import itertools
from typing import Any, cast

import pytest

from peloton.cli.session import Session
from peloton.errors import Refused, ResourceExhausted
from peloton.mcp.plans import MOST, MOST_OF_USER, Done, Plan, Plans, carry_out

SESSION = cast(Session, None)


def plans(seconds: float = 300.0) -> Plans:
    numbers = itertools.count()
    return Plans(lambda: f"token-{next(numbers)}", seconds)


def plan(state: str = "1-1-1", present: Any = None, apply: Any = None) -> Plan:
    return Plan("job web", state, present or (lambda session: state), apply or (lambda session: Done("done")))


def test_a_token_counts_once() -> None:
    held, shown = plans(), plan()
    token = held.add(shown, "ana", 0.0)
    assert held.take(token, "ana", 1.0) is shown
    with pytest.raises(Refused, match="no plan has this token: it was carried out, or is older than 5 min"):
        held.take(token, "ana", 1.0)


def test_a_token_that_was_never_given_does_not_count() -> None:
    held = plans()
    held.add(plan(), "ana", 0.0)
    for token in ("", "token-1", "token-0 "):
        with pytest.raises(Refused, match="no plan has this token"):
            held.take(token, "ana", 0.0)


def test_a_token_counts_for_its_user_only_and_stays_his() -> None:
    held, shown = plans(), plan()
    token = held.add(shown, "ana", 0.0)
    with pytest.raises(Refused, match="was shown to another"):
        held.take(token, "bob", 1.0)
    assert held.take(token, "ana", 1.0) is shown


@pytest.mark.parametrize(("after", "counts"), [(299.9, True), (300.0, False), (1e9, False)])
def test_a_token_counts_for_its_time(after: float, counts: bool) -> None:
    held = plans(300.0)
    token = held.add(plan(), "ana", 50.0)
    if counts:
        held.take(token, "ana", 50.0 + after)
        return
    with pytest.raises(Refused, match="make the plan again"):
        held.take(token, "ana", 50.0 + after)


def test_plans_of_a_user_and_of_all_are_bounded() -> None:
    held = plans()
    for _ in range(MOST_OF_USER):
        held.add(plan(), "ana", 0.0)
    with pytest.raises(ResourceExhausted, match=f"{MOST_OF_USER} plans are not carried out yet"):
        held.add(plan(), "ana", 1.0)
    held.add(plan(), "ana", 301.0)  # the others are over
    first = held.add(plan(), "first", 302.0)
    for number in range(MOST - 1):
        held.add(plan(), f"user {number}", 303.0)
    with pytest.raises(Refused):
        held.take(held.add(plan(), "last", 304.0) and first, "first", 304.0)


def test_what_has_changed_since_the_plan_is_left_alone() -> None:
    applied: list[Session] = []

    def apply(session: Session) -> Done:
        applied.append(session)
        return Done("")

    changed = plan(present=lambda session: "2-1-1", apply=apply)
    with pytest.raises(
        Refused, match=r"job web is not as it was .* it was 1-1-1, and is 2-1-1; make the plan"
    ):
        carry_out(changed, SESSION)
    assert applied == []


def test_what_is_as_it_was_is_carried_out() -> None:
    assert carry_out(plan(), SESSION) == Done("done")
