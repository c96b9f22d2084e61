"""Pods of others: what they ask for, how they are bound, and what their runs are told to be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from hostmgr.kubernetes.core.cluster import KubernetesCluster
from hostmgr.kubernetes.core.foreign import ForeignRules, foreign_of
from hostmgr.kubernetes.core.foreign_book import ForeignBook
from hostmgr.kubernetes.core.instructions import Bind, Delete, Evict
from hostmgr.kubernetes.core.nodes import Taint
from hostmgr.kubernetes.core.pod_groups import PodGroups, grouped
from hostmgr.kubernetes.core.pods import EARLIER_POD_GROUP, POD_GROUP, Key, Pod, group_of, pod_of
from hostmgr.kubernetes.core.states import RunState
from hostmgr.kubernetes.owner_events import LONGEST_CHARACTERS, event_of
from peloton.model.foreign_pod import ForeignPod, PodRef, Told, gang_job_id
from peloton.model.resources import Resources
from tests.unit.hostmgr_kubernetes.objects import NAMESPACE, ONE, connected, node, states

UID = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
RUN = f"{UID}-0-1"
REF = PodRef("", "team", "web", UID)
RULES = ForeignRules(True, {"mapped": "/mapped"})
Object = dict[str, Any]


def wire(**changes: Any) -> Object:
    """Return a pod of the API; `annotations`, `labels`, `spec`, `status` and `metadata` are merged."""
    container = {"name": "main", "resources": {"requests": {"cpu": "1", "memory": "100Mi"}}}
    spec = {"schedulerName": "peloton", "containers": [container], **changes.get("spec", {})}
    annotations = {"peloton/pool": "/team", **changes.get("annotations", {})}
    metadata = {"name": "web", "namespace": "team", "uid": UID, "annotations": annotations}
    metadata |= {"labels": changes.get("labels", {}), **changes.get("metadata", {})}
    return {"metadata": metadata, "spec": spec, "status": {"phase": "Pending", **changes.get("status", {})}}


def requests(**amounts: str) -> Object:
    return {"containers": [{"name": "main", "resources": {"requests": amounts}}]}


def read(taints: tuple[Taint, ...] = (), rules: ForeignRules = RULES, **changes: Any) -> ForeignPod:
    found = foreign_of(wire(**changes), NAMESPACE, rules, taints)
    assert found is not None
    return found


def bound(run: str = RUN, phase: str = "Pending", **changes: Any) -> Pod:
    """Return the pod after it was bound by a run."""
    spec = {"nodeName": "n1", **changes.pop("spec", {})}
    annotations = {"peloton/run": run, **changes.pop("annotations", {})}
    status = {"phase": phase, **changes.pop("status", {})}
    return pod_of(wire(spec=spec, annotations=annotations, status=status, **changes), NAMESPACE, True)


# What a pod asks for.


def test_a_pod_as_it_is_queued() -> None:
    found = read(spec={"priority": 7}, annotations={"peloton/preemptible": "false"})
    assert (found.pool, found.priority, found.preemptible) == ("/team", 7, False)
    assert found.resources == Resources.of(cpu=1, memory=100)
    assert found.waits
    assert found.refusal == ""


def test_the_pool_of_its_namespace_counts_where_a_pod_names_none() -> None:
    found = read(metadata={"namespace": "mapped", "annotations": {}})
    assert (found.pool, found.refusal) == ("/mapped", "")


def test_others_are_left_alone() -> None:
    assert foreign_of(wire(spec={"schedulerName": "default-scheduler"}), NAMESPACE, RULES) is None
    assert foreign_of(wire(metadata={"namespace": NAMESPACE}), NAMESPACE, RULES) is None
    assert foreign_of(wire(), NAMESPACE, ForeignRules()) is None


@pytest.mark.parametrize(
    "held",
    [
        {"spec": {"nodeName": "n1"}},
        {"spec": {"schedulingGates": [{"name": "wait"}]}},
        {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}},
        {"status": {"phase": "Succeeded"}},
    ],
)
def test_what_is_not_to_be_bound_does_not_wait(held: Object) -> None:
    assert not read(**held).waits


CLAIM = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"metadata": {"annotations": {}}}, "no pool is named: give the annotation peloton/pool"),
        ({"annotations": {"peloton/gang": "g"}}, "gang-size is missing: give the number of its pods"),
        ({"annotations": {"peloton/gang": "g", "peloton/gang-size": "0"}}, "gang-size is '0': give the"),
        ({"annotations": {"peloton/gang": "g", "peloton/gang-size": "10001"}}, "from 1 to 10000"),
        ({"annotations": {"peloton/gang-size": "2"}}, "without a gang: name it by peloton/gang"),
        ({"annotations": {"peloton/preemptible": "yes"}}, "is 'yes': give true or false"),
        (
            {"spec": requests(**{"cpu": "1", "a.com/b": "2"})},
            "requests[a.com/b] is '2': Peloton places by cpu",
        ),
        ({"spec": requests()}, "it requests nothing"),
        ({"spec": {"affinity": {"podAffinity": {REQUIRED: [{}]}}}}, "spec.affinity.podAffinity"),
        ({"spec": {"volumes": CLAIM}}, "spec.volumes[0].persistentVolumeClaim is not kept"),
    ],
)
def test_what_cannot_be_kept_is_refused_with_what_would_be_right(changes: Object, text: str) -> None:
    assert text in read(**changes).refusal


NAMED, EARLIER = {POD_GROUP: "g"}, {EARLIER_POD_GROUP: "g"}


def in_groups(groups: PodGroups, **changes: Any) -> ForeignPod:
    return grouped(read(**changes), group_of(wire(**changes)), groups)


@pytest.mark.parametrize("labels", [NAMED, EARLIER])
def test_a_pod_group_says_the_size_of_a_gang(labels: dict[str, str]) -> None:
    found = in_groups(PodGroups(True, {("team", "g"): 3}), labels=labels)
    assert (found.gang, found.gang_size, found.grows, found.refusal) == ("g", 3, True, "")


@pytest.mark.parametrize(
    ("least", "text"),
    [
        ({}, "there is no PodGroup 'g' in namespace team, which its label names: make it"),
        ({("other", "g"): 3}, "there is no PodGroup 'g' in namespace team"),
        ({("team", "g"): 0}, "spec.minMember of PodGroup g is 0: give a number from 1 to 10000"),
        ({("team", "g"): 10_001}, "spec.minMember of PodGroup g is 10001"),
    ],
)
def test_a_pod_group_that_says_no_size_is_told(least: dict[Key, int], text: str) -> None:
    assert text in in_groups(PodGroups(True, least), labels=NAMED).refusal


def test_what_is_wrong_with_the_pod_itself_is_told_first() -> None:
    found = in_groups(PodGroups(True), labels=NAMED, spec=requests())
    assert "it requests nothing" in found.refusal


def test_without_the_kind_a_gang_needs_its_size_and_the_earlier_label_means_nothing() -> None:
    assert "gang-size is missing: give the number" in in_groups(PodGroups(), labels=NAMED).refusal
    alone = in_groups(PodGroups(), labels=EARLIER)
    assert (alone.gang, alone.refusal, alone.grows) == ("", "", False)


@pytest.mark.parametrize("labels", [NAMED, EARLIER])
def test_annotations_of_a_gang_are_before_its_pod_group(labels: dict[str, str]) -> None:
    given = {"peloton/gang": "own", "peloton/gang-size": "2"}
    assert group_of(wire(annotations=given, labels=labels)) == ""
    assert read(annotations=given, labels=labels).gang_size == 2
    size = {"peloton/gang-size": "2"}
    assert (read(annotations=size, labels=NAMED).gang, group_of(wire(annotations=size, labels=NAMED))) == (
        "g",
        "",
    )


def test_a_pod_is_on_its_node_until_it_ends_or_is_deleted() -> None:
    assert not read().bound
    on_node = {"nodeName": "n1"}
    assert read(spec=on_node).bound
    assert not read(spec=on_node, status={"phase": "Failed"}).bound
    assert not read(spec=on_node, metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}).bound


@pytest.mark.parametrize("labels", [NAMED, EARLIER])
def test_a_pod_of_a_pod_group_is_found_by_its_run(labels: dict[str, str]) -> None:
    run = f"{gang_job_id('team', 'g', [UID])}-0-1"
    assert bound(run, labels=labels).run == run
    assert not bound(f"{gang_job_id('team', 'h', [UID])}-0-1", labels=labels).ours


def test_node_selector_taints_and_cluster_say_which_hosts_will_do() -> None:
    taints = (
        Taint("gpu", "yes", "NoSchedule"),
        Taint("own", "a", "NoExecute"),
        Taint("x", "", "PreferNoSchedule"),
    )
    tolerated = {"tolerations": [{"key": "own", "operator": "Exists"}], "nodeSelector": {"zone": "a"}}
    found = read(taints, replace(RULES, cluster="west"), spec=tolerated)
    assert str(found.constraint) == "(host cluster=west = 1 and host zone=a = 1 and host taint:gpu=yes = 0)"
    assert read().constraint is None
    everything = {"tolerations": [{"operator": "Exists"}]}
    assert read(taints, spec=everything).constraint is None


# Its changes.


def test_who_follows_the_pods_gets_each_change_once() -> None:
    book, web = ForeignBook("s"), read()
    book.put(web)
    all_of_it = book.changes("", 0)
    assert (all_of_it.whole, all_of_it.pods, all_of_it.last) == (True, (web,), 1)
    book.put(web)
    assert book.last == 1, "nothing has changed"
    book.put(replace(web, waits=False))
    later = book.changes("s", 1)
    assert (later.whole, later.pods) == (False, (replace(web, waits=False),))
    book.remove(UID)
    assert book.changes("s", 2).gone == (UID,)
    assert book.changes("another", 2).whole


def test_who_is_too_far_behind_gets_all_pods() -> None:
    book = ForeignBook("s", most_gone=1)
    for number in range(3):
        book.put(replace(read(), uid=str(number)))
    for number in range(2):
        book.remove(str(number))
    assert book.changes("s", 4).gone == ("1",)
    assert book.changes("s", 3).whole
    assert [each.uid for each in book.changes("s", 3).pods] == ["2"]


# Its run.


def launched() -> KubernetesCluster:
    cluster = connected()
    cluster.put_pod(pod_of(wire(), NAMESPACE, True))
    cluster.launch("n1", RUN, ONE, pod=REF)
    return cluster


def test_a_pod_is_bound_in_place_of_a_launch() -> None:
    cluster = launched()
    turn = cluster.take()
    assert turn.instructions == (Bind(RUN, ("team", "web"), UID, "n1"),)
    assert turn.rooms[0].free.cpu == 3000, "what it takes counts from now on"
    cluster.put_pod(bound())
    turn = cluster.take()
    assert states(turn) == [(RUN, "STARTING", "")]
    assert not turn.rooms, "and is not counted twice"
    cluster.put_pod(bound(phase="Running"))
    assert states(cluster.take()) == [(RUN, "RUNNING", "")]


def test_an_unbound_pod_takes_nothing_of_any_node() -> None:
    cluster = connected()
    cluster.put_pod(pod_of(wire(), NAMESPACE, True))
    assert not cluster.take().rooms
    assert cluster.allocated("n1") == Resources()


def test_a_pod_ends_as_its_containers_do() -> None:
    cluster = launched()
    cluster.put_pod(bound(phase="Running"))
    failed = {"name": "b", "state": {"terminated": {"exitCode": 3, "startedAt": "x"}}}
    well = {"name": "a", "state": {"terminated": {"exitCode": 0}}}
    cluster.put_pod(bound(phase="Failed", status={"containerStatuses": [well, failed]}))
    end = cluster.take().statuses[-1]
    assert (end.state, end.message) == (RunState.FAILED, "Command exited with status 3")
    cluster.acknowledge(RUN, UID, 0.0)
    cluster.tick(10_000.0)
    assert not cluster.take().instructions, "its owner deletes it"


def test_a_container_that_starts_again_and_again_is_left_to_its_owner() -> None:
    cluster = launched()
    waiting = {"name": "a", "state": {"waiting": {"reason": "ImagePullBackOff"}}}
    cluster.put_pod(bound(status={"containerStatuses": [waiting]}))
    turn = cluster.take()
    assert states(turn) == [(RUN, "STARTING", "")]
    assert not any(isinstance(each, Delete) for each in turn.instructions)


def test_a_new_leader_finds_the_pods_that_are_bound() -> None:
    cluster = connected()
    cluster.replace_pods([bound(phase="Running")])
    assert states(cluster.take()) == [(RUN, "RUNNING", "")]
    cluster.reconcile([RUN])
    assert states(cluster.take()) == [(RUN, "RUNNING", "")]


def test_a_kill_deletes_the_pod_with_its_own_grace() -> None:
    cluster = launched()
    cluster.put_pod(bound(phase="Running"))
    cluster.take()
    cluster.kill(RUN)
    assert cluster.take().instructions == (Delete(RUN, UID, None, ("team", "web")),)
    cluster.remove_pod(bound(phase="Running"))
    assert states(cluster.take()) == [(RUN, "KILLED", "")]


def test_a_kill_while_the_pod_is_being_bound_deletes_it() -> None:
    cluster = launched()
    (bind,) = cluster.take().instructions
    cluster.kill(RUN)
    assert not cluster.wanted(RUN)
    assert isinstance(bind, Bind)
    cluster.bound(bind)
    assert cluster.take().instructions == (Delete(RUN, UID, None, ("team", "web")),)


def test_maintenance_evicts_the_pod_in_its_namespace() -> None:
    cluster = launched()
    cluster.put_pod(bound(phase="Running"))
    cluster.take()
    cluster.evict(RUN)
    assert cluster.take().instructions == (Evict(RUN, UID, ("team", "web")),)


def test_a_node_that_is_gone_leaves_the_pod_to_kubernetes() -> None:
    cluster = launched()
    cluster.put_pod(bound(phase="Running"))
    cluster.take()
    cluster.remove_node("n1")
    assert not cluster.take().instructions
    cluster.remove_pod(bound(phase="Running"))
    assert states(cluster.take()) == [(RUN, "LOST", "AGENT_REMOVED")]


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"uid": "2b4e28ba-2fa1-41d2-883f-0016d3cca427"}},
        {"run": "nonsense"},
        {"run": f"{gang_job_id('other', 'g', [UID])}-0-1", "annotations": {"peloton/gang": "g"}},
        {"spec": {"schedulerName": "default-scheduler"}},
    ],
)
def test_nobody_passes_his_pod_off_as_the_run_of_another(changes: Object) -> None:
    assert not bound(**changes).ours


def test_of_two_pods_that_claim_a_run_the_first_one_has_it() -> None:
    run = f"{gang_job_id('team', 'g', [UID])}-0-1"
    gang = {"annotations": {"peloton/gang": "g"}}
    first, second = bound(run, "Running", **gang), bound(run, "Succeeded", **gang)
    cluster = connected(node())
    cluster.put_pod(first)
    cluster.put_pod(replace(second, name="forged", uid="other"))
    assert states(cluster.take()) == [(run, "RUNNING", "")]
    cluster.remove_pod(replace(second, name="forged", uid="other"))
    assert not cluster.take().statuses
    cluster.remove_pod(first)
    assert states(cluster.take()) == [(run, "KILLED", "")]


# What its owner is told.


def test_an_event_is_the_same_for_one_pod_and_reason() -> None:
    pod = read(metadata={"name": "a" * 253})
    first, second = (event_of(pod, Told(UID, "Waiting", text), 0) for text in ("a", "b" * 2000))
    assert first["metadata"]["name"] == second["metadata"]["name"]
    assert len(first["metadata"]["name"]) <= 253
    assert len(second["message"]) == LONGEST_CHARACTERS
    assert first["involvedObject"]["uid"] == UID
    assert (first["type"], first["firstTimestamp"]) == ("Normal", "1970-01-01T00:00:00Z")
    other = event_of(pod, Told(UID, "NotQueued", "a", warning=True), 0)
    assert other["metadata"]["name"] != first["metadata"]["name"]
    assert other["type"] == "Warning"
