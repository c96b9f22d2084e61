"""Jobs that are created as suspended, suspended while they run, and resumed."""

from __future__ import annotations

from typing import Any

import pytest

from peloton.api.v0.job import job_pb2
from peloton.web.kube.core.manifests import LAST_APPLIED
from peloton.web.kube.core.patches import MERGE

from .world import JOBS, POOL, World, job_manifest

HELLO = f"{JOBS}/hello"


@pytest.fixture
def world() -> World:
    return World()


def patch(world: World, path: str = HELLO, dry: bool = False, **changes: Any) -> Any:
    query = {"dryRun": "All"} if dry else {}
    return world.client.patch(path, json=changes, params=query, headers={"content-type": MERGE})


def suspended(world: World) -> bool:
    (runtime,) = world.runtimes.values()
    return bool(runtime.suspendedSince)


def test_a_job_is_created_as_suspended_and_resumed(world: World) -> None:
    made = world.create(JOBS, job_manifest(suspend=True))
    assert made.status_code == 201
    assert made.json()["spec"]["suspend"] is True
    assert suspended(world)
    condition = made.json()["status"]["conditions"][0]
    assert (condition["type"], condition["status"]) == ("Suspended", "True")
    assert "startTime" not in made.json()["status"]
    found = patch(world, spec={"suspend": False})
    assert found.status_code == 200
    assert found.json()["spec"]["suspend"] is False
    assert "conditions" not in found.json()["status"]
    assert not suspended(world)


def test_a_running_job_is_suspended(world: World) -> None:
    world.create(JOBS, job_manifest(completions=2, parallelism=2))
    found = patch(world, spec={"suspend": True}).json()
    assert suspended(world)
    assert "failed" not in found["status"]  # what was stopped is no failure
    assert patch(world, spec={"suspend": True}).status_code == 200


def test_a_file_that_says_otherwise_is_applied(world: World) -> None:
    """`kubectl apply` changes the annotation with what it has applied, too."""
    manifest = job_manifest(suspend=True)
    manifest["metadata"]["annotations"] = {LAST_APPLIED: "first"}
    world.create(JOBS, manifest)
    found = patch(world, metadata={"annotations": {LAST_APPLIED: "second"}}, spec={"suspend": False})
    assert found.status_code == 200
    assert not suspended(world)


def test_a_dry_run_suspends_nothing(world: World) -> None:
    world.create(JOBS, job_manifest())
    assert patch(world, dry=True, spec={"suspend": True}).json()["spec"]["suspend"] is True
    assert not suspended(world)


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"spec": {"suspend": True, "completions": 3}}, "spec"),
        ({"spec": {"suspend": "yes"}}, "spec.suspend"),
        ({"metadata": {"labels": {"app": "other"}}}, "metadata"),
    ],
)
def test_other_changes_are_refused(world: World, changes: dict[str, Any], field: str) -> None:
    world.create(JOBS, job_manifest())
    found = patch(world, **changes)
    assert found.status_code == 422
    assert [cause["field"] for cause in found.json()["details"]["causes"]] == [field]
    assert not suspended(world)


def test_a_job_that_has_ended_is_not_suspended(world: World) -> None:
    world.create(JOBS, job_manifest())
    world.end("SUCCEEDED")
    found = patch(world, spec={"suspend": True})
    assert found.status_code == 422
    (cause,) = found.json()["details"]["causes"]
    assert cause["field"] == "spec.suspend" and "has ended" in cause["message"]


def test_a_job_of_another_api_is_suspended(world: World) -> None:
    config = job_pb2.JobConfig(name="native", instanceCount=1)
    config.respoolID.value = POOL
    job_id = world.add(config)
    assert patch(world, f"{JOBS}/{job_id}", spec={"suspend": True}).json()["spec"]["suspend"] is True
    assert suspended(world)
