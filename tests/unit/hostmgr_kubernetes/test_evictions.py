"""Runs that end for maintenance: they are evicted, and wait while that is refused."""

from __future__ import annotations

from collections.abc import Sequence

from hostmgr.kubernetes.core.cluster import KubernetesCluster
from hostmgr.kubernetes.core.evictions import WaitingEviction
from hostmgr.kubernetes.core.instructions import Delete, Evict, Instruction
from hostmgr.kubernetes.problems import eviction_problems
from tests.unit.hostmgr_kubernetes.objects import JOB, RUN, connected, ended, pod, running, states

UID = f"uid-{RUN}"
EVICT = Evict(RUN, UID)
BUDGET = "The disruption budget web needs 2 healthy pods and has 2 currently"


def draining() -> KubernetesCluster:
    """Return a cluster with a run that is being evicted."""
    cluster = connected()
    cluster.put_pod(running())
    cluster.take()
    cluster.evict(RUN)
    assert done(cluster) == [EVICT]
    return cluster


def done(cluster: KubernetesCluster) -> Sequence[Instruction]:
    return list(cluster.take().instructions)


def refused(cluster: KubernetesCluster, now: float) -> float:
    """Refuse an eviction; return the seconds until it is tried again."""
    cluster.eviction_refused(RUN, UID, BUDGET)
    cluster.tick(now)
    for seconds in range(1, 100):
        cluster.tick(now + seconds)
        if done(cluster) == [EVICT]:
            return seconds
    raise AssertionError("it is not tried again")


def test_an_eviction_ends_its_run() -> None:
    cluster = draining()
    cluster.evicted(RUN)
    cluster.remove_pod(running(deleting=True))
    assert states(cluster.take()) == [(RUN, "KILLED", "")]
    assert not list(cluster.evictions.waiting())


def test_an_eviction_that_is_refused_is_tried_again_ever_more_rarely() -> None:
    cluster = draining()
    now, pauses = 100.0, []
    for _ in range(7):
        pauses.append(refused(cluster, now))
        now += pauses[-1]
    assert pauses == [2, 4, 8, 16, 32, 60, 60]
    assert list(cluster.evictions.waiting()) == [WaitingEviction(RUN, "n1", BUDGET, False)]


def test_an_eviction_that_is_asked_for_again_goes_on_waiting() -> None:
    cluster = draining()
    cluster.evict(RUN)
    cluster.eviction_refused(RUN, UID, BUDGET)
    cluster.evict(RUN)
    cluster.tick(100.0)
    cluster.evict(RUN)
    assert done(cluster) == []


def test_a_run_that_waits_for_its_eviction_and_ends_by_itself_has_its_own_end() -> None:
    cluster = draining()
    cluster.eviction_refused(RUN, UID, BUDGET)
    cluster.put_pod(ended())
    assert states(cluster.take()) == [(RUN, "FINISHED", "")]
    cluster.remove_pod(ended())
    assert RUN not in cluster.evictions


def test_a_kill_ends_a_run_that_waits_for_its_eviction() -> None:
    cluster = draining()
    cluster.eviction_refused(RUN, UID, BUDGET)
    cluster.kill(RUN)
    cluster.tick(1000.0)
    assert done(cluster) == [Delete(RUN, UID)] and not list(cluster.evictions.waiting())
    cluster.eviction_refused(RUN, UID, BUDGET)
    cluster.remove_pod(running(deleting=True))
    assert states(cluster.take()) == [(RUN, "KILLED", "")], "an answer that comes late changes nothing"


def test_an_eviction_without_an_answer_may_have_had_its_effect() -> None:
    cluster = draining()
    cluster.eviction_refused(RUN, UID, "HTTP status 503", answered=False)
    cluster.put_pod(ended(143, disrupted=True, deleting=True))
    assert states(cluster.take()) == [(RUN, "KILLED", "")]


def test_an_eviction_that_was_under_way_is_made_again_by_the_next_connection() -> None:
    cluster = draining()
    cluster.disconnected()
    cluster.connected()
    cluster.tick(1.0)
    assert done(cluster) == [EVICT]
    cluster.tick(2.0)
    assert done(cluster) == []


def test_where_no_budget_counts_the_pod_is_deleted() -> None:
    cluster = connected()
    cluster.put_pod(running())
    cluster.remove_node("n1")
    cluster.take()
    cluster.evict(RUN)
    assert done(cluster) == [Delete(RUN, UID, 0)], "its node is gone"
    cluster.evict(f"{JOB}-9-1")
    assert states(cluster.take()) == [(f"{JOB}-9-1", "LOST", "RECONCILIATION")]


def test_a_foreign_pod_is_not_evicted() -> None:
    cluster = connected()
    cluster.put_pod(pod(namespace="peloton", ours=False, phase="Running"))
    cluster.take()
    cluster.evict(RUN)
    assert done(cluster) == [] and RUN not in cluster.evictions


def test_another_pod_of_the_name_is_evicted_anew() -> None:
    cluster = draining()
    cluster.put_pod(running(uid="other"))
    cluster.take()
    cluster.evict(RUN)
    assert done(cluster) == [Evict(RUN, "other")]


def test_problems_tell_what_the_budget_says_and_what_helps() -> None:
    waiting = [WaitingEviction(f"{JOB}-{i}-1", "n1", BUDGET, i == 1) for i in range(7)]
    first, second, *_, last = eviction_problems(waiting, lambda node: f"west/{node}")
    assert first.text == f"{JOB}-0 stays on west/n1, which is in maintenance: {BUDGET}"
    assert first.link == "/hosts/west/n1" and f"`peloton task stop {JOB} 0`" in first.remedy
    assert "deploy/kubernetes/rbac.yaml" in second.remedy
    assert last.text == "2 further evictions waiting"
