"""Priority classes and quotas."""

from __future__ import annotations

from peloton.api.v0.respool import respool_pb2
from peloton.calls.web import LIST_PRIORITY_CLASSES
from peloton.errors import PermissionDenied

from .world import World

CLASSES, QUOTAS = "/apis/scheduling.k8s.io/v1/priorityclasses", "/api/v1/namespaces/team/resourcequotas"
TABLE = {"accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}


def test_priority_classes_are_those_of_the_settings() -> None:
    world = World()
    (found,) = world.client.get(CLASSES).json()["items"]
    assert (found["metadata"]["name"], found["value"], found["description"]) == (
        "high", 100, "what cannot wait"
    )  # fmt: skip
    assert world.client.get(f"{CLASSES}/high").json() == found
    assert world.client.get(f"{CLASSES}/low").status_code == 404
    assert world.client.get(CLASSES, headers=TABLE).json()["rows"][0]["cells"][:2] == ["high", 100]
    assert world.client.delete(f"{CLASSES}/high").status_code == 405


def test_who_may_not_list_priority_classes_is_told() -> None:
    world = World()
    world.cluster.answers[LIST_PRIORITY_CLASSES] = PermissionDenied("ann may not")
    assert world.client.get(CLASSES, auth=("ann", "secret")).status_code == 403


def test_a_quota_is_reservation_and_limit_of_the_pool() -> None:
    world = World()
    world.resources = [
        respool_pb2.ResourceConfig(kind="cpu", reservation=2, limit=4.5),
        respool_pb2.ResourceConfig(kind="memory", reservation=1024, limit=1e6),
        respool_pb2.ResourceConfig(kind="other", reservation=1, limit=1),
    ]
    world.usage = [respool_pb2.ResourceUsage(kind="cpu", allocation=1, slack=0.5)]
    (found,) = world.client.get(QUOTAS).json()["items"]
    assert found["spec"]["hard"] == {
        "requests.cpu": "2", "limits.cpu": "4500m", "requests.memory": "1Gi", "limits.memory": "1000000Mi"
    }  # fmt: skip
    assert found["status"]["used"]["requests.cpu"] == "1500m"
    assert world.client.get(f"{QUOTAS}/pool").json() == found
    cells = world.client.get(QUOTAS, headers=TABLE).json()["rows"][0]["cells"]
    assert cells[1] == "requests.cpu: 1500m/2, requests.memory: 0Mi/1Gi"
    everywhere = world.client.get("/api/v1/resourcequotas").json()["items"]
    assert [each["metadata"]["namespace"] for each in everywhere] == ["team"]


def test_a_pool_without_resources_has_an_empty_quota() -> None:
    (found,) = World().client.get(QUOTAS).json()["items"]
    assert found["spec"]["hard"] == {}
