"""Priority classes and quotas."""

from __future__ import annotations

import json
from typing import Any

import pytest

from peloton.api.v0.respool import respool_pb2
from peloton.calls.web import LIST_PRIORITY_CLASSES, UPDATE_POOL
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


QUOTA, MERGE = f"{QUOTAS}/pool", {"content-type": "application/merge-patch+json"}


def sized() -> World:
    world = World()
    world.resources = [
        respool_pb2.ResourceConfig(kind="cpu", reservation=2, limit=4, share=3, type=respool_pb2.STATIC),
        respool_pb2.ResourceConfig(kind="memory", reservation=0.25, limit=100, share=1),
    ]
    return world


def patch(world: World, given: Any, **query: str) -> Any:
    return world.client.patch(QUOTA, content=json.dumps(given), headers=MERGE, params=query)


def test_a_changed_quota_is_a_changed_pool() -> None:
    world = sized()
    found = patch(
        world,
        {"spec": {"hard": {"limits.cpu": "8", "requests.nvidia.com/gpu": 1, "limits.nvidia.com/gpu": 2}}},
    )
    assert found.status_code == 200
    assert found.json()["status"]["hard"]["limits.cpu"] == "8"
    cpu, memory, gpu = world.resources
    assert (cpu.reservation, cpu.limit, cpu.share, cpu.type) == (2, 8, 3, respool_pb2.STATIC)
    assert memory.reservation == 0.25, "what was not given anew keeps what is rounded where it is shown"
    assert (gpu.kind, gpu.reservation, gpu.limit, gpu.share) == ("gpu", 1, 2, 1)


def test_what_changes_nothing_or_is_tried_is_not_sent() -> None:
    world = sized()
    assert world.client.put(QUOTA, json=world.client.get(QUOTA).json()).status_code == 200
    tried = patch(world, {"spec": {"hard": {"limits.cpu": "8"}}}, dryRun="All").json()
    assert tried["spec"]["hard"]["limits.cpu"] == "8"
    assert world.client.get(QUOTA).json()["spec"]["hard"]["limits.cpu"] == "4"
    assert UPDATE_POOL not in [called for called, _, _ in world.cluster.asked]


@pytest.mark.parametrize(
    ("given", "field"),
    [
        ({"spec": {"hard": {"limits.cpu": "x"}}}, "spec.hard.limits.cpu"),
        ({"spec": {"hard": {"limits.cpu": None}}}, "spec.hard.limits.cpu"),
        ({"spec": {"hard": {"limits.nvidia.com/gpu": 1}}}, "spec.hard.requests.nvidia.com/gpu"),
        ({"spec": {"hard": {"pods": "5"}}}, "spec.hard.pods"),
        ({"spec": {"hard": [1]}}, "spec.hard"),
        ({"spec": {"scopes": ["BestEffort"]}}, "spec.scopes"),
        ({"metadata": {"labels": {"a": "b"}}}, "metadata.labels"),
        ({"metadata": {"name": "other"}}, "metadata.name"),
    ],
)
def test_what_a_pool_cannot_keep_is_refused_with_its_path(given: Any, field: str) -> None:
    world = sized()
    found = patch(world, given)
    assert found.status_code == 422
    assert field in [cause["field"] for cause in found.json()["details"]["causes"]]
    assert UPDATE_POOL not in [called for called, _, _ in world.cluster.asked]


def test_the_first_of_two_writers_wins() -> None:
    world = sized()
    seen = world.client.get(QUOTA).json()
    assert patch(world, {"spec": {"hard": {"limits.cpu": "8"}}}).status_code == 200
    seen["spec"]["hard"]["limits.cpu"] = "9"
    assert world.client.put(QUOTA, json=seen).status_code == 409


def test_what_the_caller_may_not_change_is_forbidden_and_what_does_not_fit_is_invalid() -> None:
    world = sized()
    world.cluster.answers[UPDATE_POOL] = PermissionDenied("ann may not")
    change = {"spec": {"hard": {"limits.cpu": "8"}}}
    assert patch(world, change).status_code == 403
    answer = respool_pb2.UpdateResponse()
    answer.error.invalidResourcePoolConfig.message = "more than the parent has"
    world.cluster.answers[UPDATE_POOL] = answer
    assert (patch(world, change).status_code, world.client.post(QUOTAS, json={}).status_code) == (422, 405)


def test_another_quota_of_the_pool_is_not_there() -> None:
    assert sized().client.put(f"{QUOTAS}/other", json={}).status_code == 404
