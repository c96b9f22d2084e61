"""Amounts, nodes, pods and what a pod's state means, as the API writes them."""

from __future__ import annotations

from typing import Any

import pytest

from hostmgr.kubernetes.core import quantities
from hostmgr.kubernetes.core.nodes import Taint, Toleration, node_of, parse_toleration, repels
from hostmgr.kubernetes.core.pods import Container, pod_of, requests_of
from hostmgr.kubernetes.core.states import NEVER_STARTS, RunState, hopeless, judge, removed
from peloton.model.resources import ZERO, Resources
from tests.unit.hostmgr_kubernetes.objects import ended, node, pod, running


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("1", 1),
        ("500m", 0.5),
        ("1.5Gi", 1.5 * 2**30),
        ("12e6", 12e6),
        ("2k", 2000),
        (".5", 0.5),
        ("1E", 1e18),
        ("3Ki", 3072),
    ],
)
def test_quantities(text: str, wanted: float) -> None:
    assert quantities.quantity(text) == wanted


@pytest.mark.parametrize("text", ["", "1 Gi", "Gi", "1GiB", "one", "1e", "0x10", "1e9999"])
def test_what_is_no_quantity(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        quantities.quantity(text)


def test_capacity_is_rounded_down_and_requests_up() -> None:
    amounts = {"cpu": "100u", "memory": "1", "pods": "10", "example.com/fpga": "2"}
    assert quantities.offered(amounts) == ZERO
    assert quantities.requested(amounts) == Resources(1, 1, 0, 0)


def test_amounts_of_a_pod_are_read_back_the_same() -> None:
    given = Resources.of(cpu=0.25, memory=64.5, disk=8, gpu=2)
    written = quantities.amounts_of(given)
    assert written == {
        "cpu": "250m",
        "memory": "67633152",
        "ephemeral-storage": "8388608",
        "nvidia.com/gpu": "2",
    }
    assert quantities.requested(written) == given
    assert quantities.amounts_of(ZERO) == {}


def test_the_least_of_all_quotas_counts() -> None:
    hard = [{"requests.cpu": "4", "pods": "10"}, {"cpu": "2500m", "requests.memory": "1Gi"}]
    assert quantities.limits_of(hard) == {"cpu": 2500, "memory": 1024_000}
    assert quantities.limits_of([]) == {}


def wire_node(**spec: Any) -> dict[str, Any]:
    return {
        "metadata": {
            "name": "n1",
            "uid": "u",
            "labels": {"zone": "a"},
            "annotations": {"peloton/ports": "1-2, 5-6"},
        },
        "spec": spec,
        "status": {
            "capacity": {"cpu": "8", "memory": "8Gi"},
            "allocatable": {"cpu": "4", "memory": "1000Mi", "pods": "110", "ephemeral-storage": "5000Mi"},
            "conditions": [
                {"type": "MemoryPressure", "status": "False"},
                {"type": "Ready", "status": "True"},
            ],
            "addresses": [
                {"type": "Hostname", "address": "n1"},
                {"type": "InternalIP", "address": "10.0.0.1"},
            ],
        },
    }


def test_a_node() -> None:
    taints = [
        {"key": "gpu", "value": "a100", "effect": "NoSchedule"},
        {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"},
    ]
    found = node_of(wire_node(taints=taints, unschedulable=True))
    assert found == node(
        uid="u",
        pods=110,
        labels=(("zone", "a"), ("taint:gpu", "a100")),
        taints=(Taint("gpu", "a100", "NoSchedule"),),
        cordoned=True,
        ip="10.0.0.1",
        ports=((1, 2), (5, 6)),
    )


@pytest.mark.parametrize("status", ["False", "Unknown", None])
def test_a_node_whose_kubelet_is_away_is_not_ready(status: str | None) -> None:
    wire = wire_node()
    wire["status"]["conditions"] = [{"type": "Ready", "status": status}] if status else []
    assert not node_of(wire).ready


def test_many_pods_of_a_node_as_the_api_server_writes_them() -> None:
    """It shortens amounts: 2000 becomes 2k."""
    assert node_of({"metadata": {"name": "n"}, "status": {"allocatable": {"pods": "2k"}}}).pods == 2000


def test_a_node_that_has_just_been_made() -> None:
    assert node_of({"metadata": {"name": "n"}}).total == ZERO


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("*", Toleration()),
        ("gpu", Toleration("gpu")),
        ("gpu=a100", Toleration("gpu", "a100")),
        ("gpu=a100:NoExecute", Toleration("gpu", "a100", "NoExecute")),
        ("gpu:NoSchedule", Toleration("gpu", "", "NoSchedule")),
    ],
)
def test_tolerations(text: str, wanted: Toleration) -> None:
    assert parse_toleration(text) == wanted


@pytest.mark.parametrize("text", ["", ":NoSchedule", "=x", "gpu:Never", "gpu:"])
def test_what_is_no_toleration(text: str) -> None:
    with pytest.raises(ValueError, match="is not KEY"):
        parse_toleration(text)


def test_which_taints_repel() -> None:
    taints = (Taint("a", "1", "NoSchedule"), Taint("b", "", "PreferNoSchedule"))
    tainted = node(taints=taints)
    assert repels(tainted, ())
    assert repels(tainted, [parse_toleration("a=2"), parse_toleration("a:NoExecute")])
    assert not repels(tainted, [parse_toleration("a")])
    assert not repels(tainted, [parse_toleration("*")])


def container(cpu: str, **more: Any) -> dict[str, Any]:
    return {"resources": {"requests": {"cpu": cpu}}, **more}


def test_what_a_pod_requests() -> None:
    """Kubernetes' rule: init containers one by one, sidecars from their start on, overhead on top."""
    spec = {
        "initContainers": [container("3"), container("1", restartPolicy="Always"), container("2500m")],
        "containers": [container("1"), container("1"), {}],
    }
    assert requests_of(spec).cpu == 3500
    assert requests_of({**spec, "initContainers": []}).cpu == 2000
    assert requests_of({**spec, "overhead": {"cpu": "100m"}}).cpu == 3600
    whole = {**spec, "resources": {"requests": {"cpu": "5"}}}
    assert requests_of(whole).cpu == 5000


def wire_pod(**status: Any) -> dict[str, Any]:
    labels = {"app.kubernetes.io/managed-by": "peloton"}
    return {
        "metadata": {"name": "r", "namespace": "peloton", "uid": "u", "labels": labels},
        "spec": {
            "nodeName": "n1",
            "containers": [container("1", name="task", ports=[{"hostPort": 31000, "containerPort": 80}])],
        },
        "status": status,
    }


def test_a_pod() -> None:
    state = {"terminated": {"exitCode": 3, "reason": "Error", "finishedAt": "2026-01-01T00:00:00Z"}}
    statuses = [{"name": "sidecar", "state": {"running": {}}}, {"name": "task", "state": state}]
    found = pod_of(wire_pod(phase="Failed", containerStatuses=statuses), "peloton")
    assert (found.ours, found.node, found.requests.cpu, found.ports) == (True, "n1", 1000, frozenset({31000}))
    assert found.container == Container("terminated", "Error", "", 3, 0, "2026-01-01T00:00:00Z")
    assert found.over


def test_a_pod_is_ours_in_our_namespace_and_with_our_label_only() -> None:
    assert not pod_of(wire_pod(), "another").ours
    unlabelled = wire_pod()
    del unlabelled["metadata"]["labels"]
    assert not pod_of(unlabelled, "peloton").ours


def test_ports_of_a_pod_on_the_network_of_its_host() -> None:
    wire = wire_pod()
    wire["spec"] |= {"hostNetwork": True, "containers": [{"ports": [{"containerPort": 8080}]}]}
    assert pod_of(wire, "peloton").ports == {8080}
    wire["spec"]["hostNetwork"] = False
    assert pod_of(wire, "peloton").ports == frozenset()


@pytest.mark.parametrize(
    ("changes", "state", "reason", "message"),
    [
        ({"code": 0}, "FINISHED", "", "Command exited with status 0"),
        ({"code": 3}, "FAILED", "", "Command exited with status 3"),
        ({"code": 137}, "FAILED", "", "Command terminated with signal Killed"),
        ({"code": 255}, "FAILED", "", "Command exited with status 255"),
        (
            {"code": 1, "reason": "OutOfcpu"},
            "LOST",
            "INVALID_OFFERS",
            "the node has refused the pod: OutOfcpu",
        ),
        ({"code": 1, "reason": "Shutdown"}, "LOST", "AGENT_DRAINING", None),
        ({"code": 143, "disrupted": True}, "LOST", "AGENT_DRAINING", None),
        ({"code": 143, "deleting": True}, "KILLED", "", "the pod was deleted, and not by Peloton"),
        (
            {"code": 1, "reason": "Evicted", "message": "usage of ephemeral-storage exceeds"},
            "FAILED",
            "CONTAINER_LIMITATION_DISK",
            "evicted: usage of ephemeral-storage exceeds",
        ),
    ],
)
def test_ends(changes: dict[str, Any], state: str, reason: str, message: str | None) -> None:
    status = judge(ended(**changes), killed=False)
    assert status is not None
    assert (status.state.name, status.reason) == (state, reason)
    assert message is None or status.message == message


@pytest.mark.parametrize(
    ("container", "state", "reason"),
    [
        (Container("terminated", "OOMKilled", exit_code=137), "FAILED", "CONTAINER_LIMITATION_MEMORY"),
        (Container("terminated", "StartError", "no such file", 128), "FAILED", "CONTAINER_LAUNCH_FAILED"),
        (Container("terminated", "ContainerStatusUnknown", exit_code=137), "LOST", "AGENT_RESTARTED"),
        (Container(), "FAILED", "CONTAINER_LAUNCH_FAILED"),
    ],
)
def test_ends_of_containers(container: Container, state: str, reason: str) -> None:
    status = judge(ended(1, container=container), killed=False)
    assert status is not None
    assert (status.state.name, status.reason) == (state, reason)


@pytest.mark.parametrize(
    "each", [ended(0), ended(1), ended(137, disrupted=True), ended(1, reason="OutOfcpu")]
)
def test_what_was_killed_is_killed_however_it_ended(each: Any) -> None:
    status = judge(each, killed=True)
    assert status is not None
    assert status.state is RunState.KILLED


def test_containers_that_never_start() -> None:
    for reason in NEVER_STARTS:
        waiting = pod(container=Container("waiting", reason, "said so"))
        assert hopeless(waiting).endswith(": said so")
        assert judge(waiting, killed=False) is None
        assert judge(waiting, killed=True) is not None
    for reason in ("ContainerCreating", "PodInitializing", ""):
        assert judge(pod(container=Container("waiting", reason)), killed=False) is not None


def test_pods_that_are_gone_before_their_ends_were_seen() -> None:
    assert removed(running(), killed=True).state is RunState.KILLED
    assert removed(running(), killed=False).state is RunState.KILLED
    assert removed(running(disrupted=True), killed=False).reason == "AGENT_DRAINING"
