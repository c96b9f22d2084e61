"""When states are requested from Mesos, and when a TASK_UNKNOWN counts."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hostmgr.core.cluster_manager.reconciliation import (
    ReconcileKind,
    Reconciler,
    ReconciliationLimits,
    Verdict,
)
from peloton.model.states import TaskState
from peloton.model.task import TaskRuntime

JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
POLICY = ReconciliationLimits(interval=1800, repeat_after=60, launch_grace=30, reregister=600)


def subscribed(master: str = "m1", now: float = 0.0) -> Reconciler:
    reconciler = Reconciler(POLICY)
    reconciler.subscribed(master, now)
    return reconciler


def rounds(
    reconciler: Reconciler, until: float, step: float = 10.0, start: float = 0.0
) -> list[tuple[float, ReconcileKind]]:
    found = []
    now = start
    while now <= until:
        kind = reconciler.next_reconciliation(now)
        if kind is not None:
            found.append((now, kind))
        else:
            now += step
    return found


def test_reconciliations_after_an_election_and_alternately_later() -> None:
    assert rounds(subscribed(), 6100) == [
        (0, ReconcileKind.EXPLICIT),
        (60, ReconcileKind.EXPLICIT),
        (660, ReconcileKind.EXPLICIT),
        (2460, ReconcileKind.IMPLICIT),
        (4260, ReconcileKind.EXPLICIT),
        (6060, ReconcileKind.IMPLICIT),
    ]


def test_a_subscription_with_the_same_master_reconciles_again_and_settles_no_later() -> None:
    reconciler = subscribed()
    reconciler.subscribed("m1", 5000.0)
    assert not reconciler.settled(599.0) and reconciler.settled(600.0)
    assert [at for at, _ in rounds(reconciler, 5100, start=5000.0)] == [5000, 5060]
    reconciler.subscribed("m2", 6000.0)
    assert not reconciler.settled(6599.0) and reconciler.settled(6600.0)


def test_nothing_is_requested_while_disconnected() -> None:
    reconciler = subscribed()
    reconciler.judge("t", "a", True, 1.0)
    reconciler.disconnected()
    assert rounds(reconciler, 4000) == [] and reconciler.due_retries(4000.0) == []


def test_unknown_is_requested_again_with_growing_pauses_until_agents_registered() -> None:
    reconciler = subscribed()
    requested = []
    now = 0.0
    verdict = reconciler.judge("t", "a1", True, now)
    while verdict is Verdict.RETRY:
        now += 1
        for run, agent_id in reconciler.due_retries(now):
            assert (run, agent_id) == ("t", "a1")
            requested.append(now)
            verdict = reconciler.judge("t", "a1", True, now)
        assert now < 700
    assert now >= 600
    pauses = [later - earlier for earlier, later in zip([0.0, *requested], requested, strict=False)]
    assert pauses[0] == 2 and max(pauses) <= 61 and pauses == sorted(pauses)
    assert reconciler.due_retries(10_000.0) == []


def test_launches_that_may_be_lost_are_reconciled_until_they_are_reported() -> None:
    reconciler = Reconciler(POLICY)
    reconciler.subscribed("m1", 0.0, [("t", "a1"), ("u", "a2")])
    assert reconciler.due_retries(0.0) == [("t", "a1"), ("u", "a2")]
    assert reconciler.judge("t", "a1", False, 1.0) is Verdict.PASS_ON
    assert reconciler.due_retries(1.0) == []
    assert reconciler.due_retries(10.0) == [("u", "a2")]


def test_unknown_counts_when_the_agent_is_known_to_be_lost() -> None:
    reconciler = subscribed()
    reconciler.agent_gone("a1")
    assert reconciler.judge("t", "a1", True, 1.0) is Verdict.PASS_ON
    reconciler.agent_seen("a1")
    assert reconciler.judge("t", "a1", True, 1.0) is Verdict.RETRY


def test_any_other_answer_ends_the_requests() -> None:
    reconciler = subscribed()
    reconciler.judge("t", "a1", True, 0.0)
    assert reconciler.judge("t", "a1", False, 1.0) is Verdict.PASS_ON
    assert reconciler.due_retries(100.0) == []


def test_a_missed_status_leads_to_an_explicit_reconciliation_soon() -> None:
    reconciler = subscribed()
    rounds(reconciler, 1000)
    reconciler.reconcile_soon(1000.0)
    reconciler.reconcile_soon(1001.0)
    assert rounds(reconciler, 1100, start=1000.0) == [(1060, ReconcileKind.EXPLICIT)]


RUNTIME = TaskRuntime(TaskState.RUNNING, TaskState.SUCCEEDED, 2, 1, 1, 2, agent_id="a1", updated_at=0)


@pytest.mark.parametrize(
    ("runtime", "requested"),
    [
        (RUNTIME, True),
        (replace(RUNTIME, state=TaskState.STARTING), True),
        (replace(RUNTIME, state=TaskState.KILLING), True),
        (replace(RUNTIME, state=TaskState.PENDING), False),
        (replace(RUNTIME, state=TaskState.SUCCEEDED), False),
        (replace(RUNTIME, run=0), False),
        (replace(RUNTIME, state=TaskState.LAUNCHED), True),
        (replace(RUNTIME, state=TaskState.LAUNCHED, updated_at=71_000_000_000), False),
        (replace(RUNTIME, state=TaskState.LAUNCHED, updated_at=70_000_000_000), True),
        (replace(RUNTIME, updated_at=99_000_000_000), True),
        # Stamped before the clock was set back: it is not young until the clock is there again.
        (replace(RUNTIME, state=TaskState.LAUNCHED, updated_at=30 * 86400 * 10**9), True),
    ],
)
def test_which_runs_to_reconcile(runtime: TaskRuntime, requested: bool) -> None:
    found = Reconciler(POLICY).to_reconcile(JOB, {7: runtime}, 0.0, wall=100_000_000_000)
    assert found == ([(f"{JOB}-7-2", "a1")] if requested else [])


def test_a_launch_that_was_put_off_is_not_taken_for_lost() -> None:
    reconciler = Reconciler(POLICY)
    reconciler.postpone([f"{JOB}-7-2"], 0.0)
    assert reconciler.to_reconcile(JOB, {7: RUNTIME, 8: RUNTIME}, 59.0, 0) == [(f"{JOB}-8-2", "a1")]
    assert len(reconciler.to_reconcile(JOB, {7: RUNTIME, 8: RUNTIME}, 60.0, 0)) == 2
