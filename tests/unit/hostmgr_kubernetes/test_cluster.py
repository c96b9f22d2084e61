"""The core of the backend for Kubernetes: nodes, pods and launches in, rooms, statuses and calls out."""

from __future__ import annotations

from dataclasses import replace

from hostmgr.kubernetes.core.cluster import ClusterRules, KubernetesCluster
from hostmgr.kubernetes.core.instructions import Create, Delete, DeleteSecret, Turn
from hostmgr.kubernetes.core.nodes import Taint, parse_toleration
from hostmgr.kubernetes.core.pods import Container
from hostmgr.kubernetes.core.states import RunState
from peloton.model.resources import Resources
from tests.unit.hostmgr_kubernetes.objects import (
    NAMESPACE,
    ONE,
    RUN,
    connected,
    ended,
    node,
    pod,
    running,
    states,
)


def first_room(**rules: object) -> Resources:
    cluster = KubernetesCluster(ClusterRules(NAMESPACE))
    cluster.replace_nodes([node(**rules)], 0.0)  # type: ignore[arg-type]
    cluster.connected()
    (room,) = cluster.take().rooms
    return room.free


# Rooms.


def test_a_node_has_free_what_foreign_pods_and_own_ones_do_not_request() -> None:
    cluster = connected()
    cluster.put_pod(pod("foreign", namespace="kube-system", ours=False))
    cluster.put_pod(running())
    turn = cluster.take()
    assert [room.free for room in turn.rooms] == [Resources.of(cpu=2, memory=800, disk=5000)]
    assert turn.withdrawn == ("n1/1",)


def test_an_ended_pod_takes_nothing_though_it_is_still_there() -> None:
    cluster = connected()
    cluster.put_pod(running())
    cluster.take()
    cluster.put_pod(ended())
    (room,) = cluster.take().rooms
    assert room.free == node().total


def test_a_node_without_a_change_of_its_room_is_not_offered_again() -> None:
    cluster = connected()
    cluster.put_pod(running())
    assert cluster.take().rooms
    cluster.put_pod(running(container=Container("running", ready=True)))
    cluster.put_node(node(labels=(("zone", "a"),)), 1.0)
    assert not cluster.take().rooms


def test_nodes_that_take_no_tasks_are_not_offered() -> None:
    tainted = (Taint("dedicated", "ml", "NoSchedule"),)
    for changes in (
        {"ready": False}, {"cordoned": True}, {"maintenance": "draining"}, {"taints": tainted}, {"pods": 0},
    ):  # fmt: skip
        cluster = connected()
        cluster.put_node(node(**changes), 1.0)
        turn = cluster.take()
        assert (turn.withdrawn, turn.rooms) == (("n1/1",), ()), changes


def test_a_tolerated_taint_keeps_nobody_away() -> None:
    cluster = connected(tolerations=(parse_toleration("dedicated=ml"),))
    cluster.put_node(node(taints=(Taint("dedicated", "ml", "NoSchedule"),)), 1.0)
    assert not cluster.take().withdrawn
    cluster.put_node(node(taints=(Taint("dedicated", "web", "NoExecute"),)), 1.0)
    assert cluster.take().withdrawn


def test_ports_that_pods_use_are_not_offered() -> None:
    cluster = connected(ports=((31000, 31009),))
    cluster.put_pod(pod("foreign", ours=False, ports=frozenset({31003, 80})))
    cluster.launch("n1", RUN, ONE, [31000])
    (room,) = cluster.take().rooms
    assert room.ports == ((31001, 31002), (31004, 31009))


def test_a_node_that_is_full_of_pods_has_no_room() -> None:
    cluster = connected(node(pods=1))
    cluster.put_pod(running())
    assert cluster.take().withdrawn == ("n1/1",)


# Launches.


def test_a_launch_takes_its_room_before_its_pod_is_known() -> None:
    cluster = connected()
    cluster.launch("n1", RUN, ONE)
    turn = cluster.take()
    assert turn.instructions == (Create(RUN),)
    assert [room.free for room in turn.rooms] == [Resources.of(cpu=3, memory=900, disk=5000)]
    cluster.created(pod())
    assert not cluster.take().rooms, "the pod takes what its launch took"


def test_the_watch_may_be_faster_than_the_answer() -> None:
    cluster = connected()
    cluster.launch("n1", RUN, ONE)
    cluster.put_pod(running())
    cluster.put_pod(ended())
    cluster.remove_pod(ended())
    cluster.take()
    cluster.created(pod())
    turn = cluster.take()
    assert not turn.rooms, "a late answer does not bring back a pod that is gone"
    assert not turn.statuses


def test_a_run_that_is_killed_before_its_pod_exists_has_none() -> None:
    cluster = connected()
    cluster.launch("n1", RUN, ONE)
    cluster.kill(RUN)
    assert not cluster.wanted(RUN)
    cluster.dropped(RUN)
    turn = cluster.take()
    assert states(turn) == [(RUN, "KILLED", "TASK_KILLED_DURING_LAUNCH")]
    assert turn.rooms[0].free == node().total


def test_a_run_that_is_killed_while_its_pod_is_created_is_deleted_then() -> None:
    cluster = connected()
    cluster.launch("n1", RUN, ONE)
    cluster.take()
    cluster.kill(RUN)
    assert not cluster.take().instructions
    cluster.created(pod())
    assert cluster.take().instructions == (Delete(RUN, f"uid-{RUN}"),)


def test_a_refused_pod_ends_its_run() -> None:
    cluster = connected()
    cluster.launch("n1", RUN, ONE)
    cluster.take()
    cluster.refused(RUN, RunState.LOST, "INVALID_OFFERS", "exceeded quota")
    turn = cluster.take()
    assert states(turn) == [(RUN, "LOST", "INVALID_OFFERS")]
    assert turn.rooms[0].free == node().total


# Statuses.


def test_a_run_is_reported_once_for_each_state() -> None:
    cluster = connected()
    creating = pod(container=Container("waiting", "ContainerCreating"))
    for each in (pod(), pod(), creating, running(), running(), ended(3), ended(3)):
        cluster.put_pod(each)
    assert states(cluster.take()) == [(RUN, "STARTING", ""), (RUN, "RUNNING", ""), (RUN, "FAILED", "")]


def test_a_run_whose_pod_is_still_being_taken_down_goes_on_to_run() -> None:
    """A kubelet tells that the container has ended, and the phase of its pod only once all of it is gone."""
    cluster = connected()
    over = Container(
        "terminated", "Error", exit_code=3, at="2026-01-31T12:00:05Z", began="2026-01-31T12:00:01Z"
    )
    cluster.put_pod(pod(phase="Running", container=over, checked=True))
    (began,) = cluster.take().statuses
    assert (began.state.name, began.at, began.healthy) == ("RUNNING", "2026-01-31T12:00:01Z", None)
    other = f"{RUN}1"
    cluster.put_pod(running(other, checked=True, container=Container("running", ready=True)))
    (began,) = cluster.take().statuses
    cluster.put_pod(pod(other, phase="Running", container=over, checked=True))
    assert not cluster.take().statuses, "neither its state nor its health has changed"
    cluster.reconcile([other])
    assert states(cluster.take()) == [(other, "RUNNING", "")]
    cluster.put_pod(pod(other, phase="Failed", container=over))
    assert states(cluster.take()) == [(other, "FAILED", "")]


def test_a_run_that_is_never_seen_to_run_is_told_to_have_begun() -> None:
    cluster = connected()
    container = Container("terminated", "Completed", at="2026-01-31T12:00:05Z", began="2026-01-31T12:00:01Z")
    cluster.put_pod(pod(phase="Succeeded", container=container))
    began, end = cluster.take().statuses
    assert (began.state.name, began.at) == ("RUNNING", "2026-01-31T12:00:01Z")
    assert (end.state.name, end.at) == ("FINISHED", "2026-01-31T12:00:05Z")
    other = f"{RUN}1"
    cluster.put_pod(running(other))
    cluster.put_pod(pod(other, phase="Succeeded", container=container))
    assert states(cluster.take()) == [(other, "RUNNING", ""), (other, "FINISHED", "")], "it is told once"


def test_a_command_that_was_not_executed_has_not_begun() -> None:
    cluster = connected()
    container = Container("terminated", "StartError", exit_code=128, began="1970-01-01T00:00:00Z")
    cluster.put_pod(pod(phase="Failed", container=container))
    assert states(cluster.take()) == [(RUN, "FAILED", "CONTAINER_LAUNCH_FAILED")]


def test_an_end_is_reported_until_it_is_acknowledged() -> None:
    cluster = connected()
    cluster.put_pod(ended())
    (status,) = cluster.take().statuses
    for now in (1.0, 20.0):
        cluster.tick(now)
    assert not cluster.take().statuses
    cluster.tick(40.0)
    assert cluster.take().statuses == (status,)
    cluster.acknowledge(RUN, "of another pod", 41.0)
    cluster.tick(80.0)
    assert cluster.take().statuses == (status,)
    cluster.acknowledge(RUN, status.uid, 81.0)
    cluster.tick(200.0)
    assert not cluster.take()


def test_an_end_while_there_is_no_connection_is_reported_with_the_next_one() -> None:
    cluster = connected()
    cluster.put_pod(running())
    cluster.take()
    cluster.disconnected()
    cluster.replace_pods([ended(1)])
    assert not cluster.take()
    cluster.connected()
    assert states(cluster.take()) == [(RUN, "FAILED", "")]


def test_a_pod_is_deleted_some_time_after_its_end_was_acknowledged() -> None:
    cluster = connected(keep_finished=60.0)
    cluster.put_pod(ended())
    (status,) = cluster.take().statuses
    cluster.tick(500.0)
    assert not [each for each in cluster.take().instructions if isinstance(each, Delete)]
    cluster.acknowledge(RUN, status.uid, 500.0)
    cluster.tick(559.0)
    assert not cluster.take().instructions
    cluster.tick(560.0)
    assert cluster.take().instructions == (Delete(RUN, status.uid, 0),)
    cluster.remove_pod(ended())
    assert not cluster.take().statuses


def test_a_killed_run_is_killed_when_its_pod_has_ended() -> None:
    cluster = connected()
    cluster.put_pod(running())
    cluster.take()
    cluster.kill(RUN)
    turn = cluster.take()
    assert turn.instructions == (Delete(RUN, f"uid-{RUN}"),)
    assert not turn.statuses
    cluster.put_pod(running(deleting=True))
    assert not cluster.take().statuses
    cluster.put_pod(ended(143, deleting=True))
    (status,) = cluster.take().statuses
    assert (status.state, status.message) == (RunState.KILLED, "Command terminated with signal Terminated")
    cluster.remove_pod(ended(143, deleting=True))
    assert not cluster.take().statuses


def test_a_pod_that_somebody_else_deletes_is_no_failure_of_its_task() -> None:
    cluster = connected()
    cluster.put_pod(running())
    cluster.take()
    cluster.remove_pod(running(deleting=True))
    (status,) = cluster.take().statuses
    assert (status.state, status.message) == (RunState.KILLED, "the pod was deleted, and not by Peloton")


def test_an_eviction_is_no_failure_of_its_task() -> None:
    cluster = connected()
    cluster.put_pod(ended(143, disrupted=True, deleting=True))
    assert states(cluster.take()) == [(RUN, "LOST", "AGENT_DRAINING")]


def test_an_image_that_cannot_be_pulled_fails_the_run_once_its_pod_is_gone() -> None:
    cluster = connected()
    waiting = pod(container=Container("waiting", "ErrImagePull", "no such image"))
    cluster.put_pod(waiting)
    cluster.put_pod(replace(waiting, container=Container("waiting", "ImagePullBackOff")))
    turn = cluster.take()
    assert (turn.instructions, turn.statuses) == ((Delete(RUN, f"uid-{RUN}", 0),), ())
    cluster.remove_pod(waiting)
    (status,) = cluster.take().statuses
    assert (status.state, status.reason) == (RunState.FAILED, "CONTAINER_LAUNCH_FAILED")
    assert status.message == "the image cannot be pulled: no such image"


def test_health_is_reported_as_it_changes() -> None:
    cluster = connected()
    for ready in (False, True, True, False):
        cluster.put_pod(running(checked=True, container=Container("running", ready=ready)))
    assert [each.healthy for each in cluster.take().statuses] == [False, True, False]


def test_a_pod_of_the_same_name_that_is_another_one_ends_the_first() -> None:
    cluster = connected()
    cluster.put_pod(running())
    cluster.take()
    cluster.put_pod(running(uid="another"))
    assert states(cluster.take()) == [(RUN, "KILLED", ""), (RUN, "RUNNING", "")]


# Nodes that go.


def test_runs_of_a_deleted_node_are_lost_once_their_pods_are_gone() -> None:
    cluster = connected()
    cluster.put_pod(running())
    cluster.take()
    cluster.remove_node("n1")
    turn = cluster.take()
    assert (turn.lost, turn.withdrawn) == (("n1",), ("n1/2",))
    assert turn.instructions == (Delete(RUN, f"uid-{RUN}", 0),)
    cluster.remove_pod(running())
    assert states(cluster.take()) == [(RUN, "LOST", "AGENT_REMOVED")]


def test_a_node_that_is_not_ready_may_come_back() -> None:
    cluster = connected(lost_after=300.0)
    cluster.put_pod(running())
    cluster.put_node(node(ready=False), 10.0)
    cluster.take()
    cluster.tick(309.0)
    assert not cluster.take()
    assert cluster.listed() == ([], [node(ready=False)])
    cluster.put_node(node(), 309.5)
    cluster.tick(400.0)
    turn = cluster.take()
    assert (turn.lost, turn.instructions) == ((), ())
    assert turn.rooms


def test_a_node_that_stays_away_loses_its_runs() -> None:
    cluster = connected(lost_after=300.0)
    cluster.put_pod(running())
    cluster.put_node(node(ready=False), 10.0)
    cluster.take()
    cluster.tick(310.0)
    turn = cluster.take()
    assert (turn.lost, turn.instructions) == (("n1",), (Delete(RUN, f"uid-{RUN}", 0),))
    assert cluster.listed() == ([], [])
    cluster.remove_pod(running())
    assert states(cluster.take()) == [(RUN, "LOST", "AGENT_REMOVED")]
    cluster.put_node(node(), 400.0)
    assert cluster.take().rooms
    assert cluster.listed() == ([node()], [])


def test_a_node_whose_lease_is_not_renewed_is_not_ready() -> None:
    cluster = connected()
    cluster.silent({"n1", "a node that is not there"}, 50.0)
    assert cluster.take().withdrawn
    cluster.silent(set(), 60.0)
    assert cluster.take().rooms


def test_a_kill_on_a_lost_node_does_not_wait_for_it() -> None:
    cluster = connected(lost_after=1.0)
    cluster.put_node(node(ready=False), 0.0)
    cluster.put_pod(running())
    cluster.tick(1.0)
    cluster.take()
    cluster.kill(RUN)
    assert cluster.take().instructions == (Delete(RUN, f"uid-{RUN}", 0),)


# Reconciliation and a new leader.


def test_reconciliation_tells_what_there_is_and_what_is_not() -> None:
    cluster = connected()
    cluster.put_pod(running())
    cluster.take()
    cluster.launch("n1", f"{RUN}1", ONE)
    cluster.reconcile([RUN, f"{RUN}1", f"{RUN}2"])
    turn = cluster.take()
    assert states(turn) == [(RUN, "RUNNING", ""), (f"{RUN}2", "LOST", "RECONCILIATION")]
    assert [each.missing for each in turn.statuses] == [False, True]
    cluster.reconcile([])
    assert states(cluster.take()) == [(RUN, "RUNNING", "")]


def test_a_new_leader_learns_of_ends_while_nobody_led() -> None:
    cluster = KubernetesCluster(ClusterRules(NAMESPACE))
    cluster.replace_nodes([node()], 0.0)
    cluster.replace_pods([ended(2), running(f"{RUN}1")])
    cluster.connected()
    assert states(cluster.take()) == [(RUN, "FAILED", "")], "the others are told by reconciliation"


def test_what_was_not_sent_is_forgotten_with_the_connection() -> None:
    cluster = connected()
    cluster.launch("n1", RUN, ONE)
    cluster.disconnected()
    cluster.connected()
    turn = cluster.take()
    assert not turn.instructions
    assert turn.rooms[0].free == node().total


def test_deletions_that_were_lost_are_made_with_the_next_connection() -> None:
    cluster = connected()
    cluster.put_pod(running())
    cluster.put_pod(pod(f"{RUN}1", container=Container("waiting", "InvalidImageName")))
    cluster.remove_node("n1")
    cluster.take()
    cluster.disconnected()
    cluster.connected()
    deletes = {each.run for each in cluster.take().instructions if isinstance(each, Delete)}
    assert deletes == {RUN, f"{RUN}1"}


def test_a_pod_without_a_label_of_ours_is_never_touched() -> None:
    cluster = connected()
    foreign = pod("web-0", ours=False, phase="Running")
    cluster.put_pod(foreign)
    cluster.kill("web-0")
    cluster.remove_node("n1")
    turn = cluster.take()
    assert not turn.instructions
    assert states(turn) == [("web-0", "LOST", "RECONCILIATION")]


# Secrets.


def deletions(turn: Turn) -> list[str]:
    return [each.run for each in turn.instructions if isinstance(each, DeleteSecret)]


def test_secrets_go_when_their_run_has_ended() -> None:
    cluster = connected()
    cluster.put_pod(running(secret=True))
    assert not deletions(cluster.take()) and not cluster.needs_no_secret(RUN)
    cluster.put_pod(ended(secret=True))
    cluster.put_pod(ended(secret=True, reason="another change"))
    assert deletions(cluster.take()) == [RUN]
    assert cluster.needs_no_secret(RUN)
    cluster.remove_pod(ended(secret=True))
    assert not deletions(cluster.take())


def test_secrets_go_with_a_pod_that_is_deleted() -> None:
    cluster = connected()
    cluster.put_pod(running(secret=True))
    cluster.remove_pod(running(secret=True))
    assert deletions(cluster.take()) == [RUN]
    cluster.put_pod(running())
    cluster.remove_pod(running())
    assert not deletions(cluster.take())


def test_secrets_of_what_is_being_launched_are_needed() -> None:
    cluster = connected()
    assert cluster.needs_no_secret(RUN)
    cluster.launch("n1", RUN, ONE)
    assert not cluster.needs_no_secret(RUN)
