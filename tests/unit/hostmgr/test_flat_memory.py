"""Runs that are launched, killed and ended leave nothing in a term but what it remembers of a fixed size."""

from __future__ import annotations

import pytest

from hostmgr.core.claims import use
from hostmgr.core.runs import launches, on_agents
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term, TermLimits
from peloton.model.states import TaskState
from tests.reachable import reachable
from tests.unit.hostmgr.hosts import need, offer
from tests.unit.hostmgr.test_term import FRAMEWORK, JOB, launched, offered, status

S = TaskState
REMEMBERED = 20
"""Of each kind, in place of tens of thousands."""


def churn(term: Term, first: int, runs: int) -> None:
    """Launch runs one after another; each is killed and ends before the next one."""
    for number in range(first, first + runs):
        run, now = f"{JOB}-1-{number}", 100.0 + number
        offered(term, offer(number, 0), now=now)
        launched(term, need(run), now=now)
        term.statuses.judge([status(run, S.RUNNING)], now)
        term.kills.sent(term.kills.plan([run]))
        term.statuses.judge([status(run, S.KILLED)], now)


def test_runs_that_have_ended_leave_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(use, "MAX_REMEMBERED", REMEMBERED)
    monkeypatch.setattr(launches, "MAX_JOBS", REMEMBERED)
    monkeypatch.setattr(on_agents, "MAX_ENDED", REMEMBERED)
    term = Term(HostTable(room=1), TermLimits(), "f1")
    term.connected(FRAMEWORK, 100.0)
    churn(term, 1, 200)
    before = reachable(term)
    churn(term, 201, 1000)
    assert reachable(term) - before <= REMEMBERED, "nothing of 1000 runs more"
    assert list(term.kills.to_repeat()) == []


def test_a_kill_that_comes_after_the_end_is_not_remembered() -> None:
    term = Term(HostTable(room=1), TermLimits(), "f1")
    term.runs.put(f"{JOB}-1-1", "S0")
    kill = term.kills.plan([f"{JOB}-1-1"])
    term.runs.remove(f"{JOB}-1-1")
    before = reachable(term)
    term.kills.sent(kill)
    assert reachable(term) == before
