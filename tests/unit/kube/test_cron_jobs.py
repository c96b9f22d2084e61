"""CronJobs: jobs with a schedule, and their runs as Jobs."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from peloton.api.scheduling import scheduling_pb2
from peloton.api.v0.job import job_pb2
from peloton.web.kube.core.cronjobs import cron_config
from peloton.web.kube.core.patches import MERGE
from peloton.web.kube.core.refusals import Refusal

from .world import CRON_JOBS, JOBS, PODS, POOL, World, cron_manifest, job_manifest

NIGHTLY = f"{CRON_JOBS}/nightly"
TIME = int(datetime(2026, 11, 27, 2, 30, tzinfo=UTC).timestamp())
RUN = "nightly-20261127t0230z"


@pytest.fixture
def world() -> World:
    return World()


def config(manifest: dict[str, Any]) -> job_pb2.JobConfig:
    found = cron_config(manifest, "team", POOL).config
    assert isinstance(found, job_pb2.JobConfig)
    return found


def refused(manifest: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(Refusal) as caught:
        cron_config(manifest, "team", POOL)
    assert caught.value.code == 422
    return {cause["field"]: cause["message"] for cause in caught.value.details["causes"]}


def patch(world: World, **changes: Any) -> Any:
    return world.client.patch(NIGHTLY, json=changes, headers={"content-type": MERGE})


def test_a_cron_job_is_a_job_with_a_schedule() -> None:
    found = config(cron_manifest({"completions": 2, "parallelism": 2}, timeZone="Europe/Berlin"))
    assert (found.type, found.instanceCount, found.name) == (job_pb2.BATCH, 2, "nightly")
    wanted = scheduling_pb2.JobSchedule(cron="30 3 * * *", time_zone="Europe/Berlin", catch_up=1, keep_runs=4)
    assert found.schedule == wanted
    assert list(found.defaultConfig.command.arguments) == ["echo", "hello"]


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        ({"concurrencyPolicy": "Replace"}, {"overlap": scheduling_pb2.OVERLAP_REPLACE}),
        ({"startingDeadlineSeconds": 200}, {"catch_up": 0}),
        ({"successfulJobsHistoryLimit": 10}, {"keep_runs": 11}),
        ({"successfulJobsHistoryLimit": 0, "failedJobsHistoryLimit": 0}, {"keep_runs": 1}),
        ({"schedule": "@daily"}, {"cron": "@daily"}),
    ],
)
def test_fields_of_a_schedule(spec: dict[str, Any], expected: dict[str, Any]) -> None:
    found = config(cron_manifest(**spec)).schedule
    assert {name: getattr(found, name) for name in expected} == expected


@pytest.mark.parametrize(
    ("spec", "field", "text"),
    [
        ({"concurrencyPolicy": "Allow"}, "spec.concurrencyPolicy", "Forbid or Replace"),
        ({"schedule": "every day"}, "spec.schedule", "'every day' is not"),
        ({"schedule": ""}, "spec.schedule", "give the times"),
        ({"schedule": None}, "spec.schedule", "give the times"),
        ({"schedule": 5}, "spec.schedule", "an integer is not a string"),
        ({"schedule": "0 0 31 2 *"}, "spec.schedule", "'0 0 31 2 *' is not"),
        ({"timeZone": "Mars/Olympus"}, "spec.timeZone", "'Mars/Olympus' is not"),
        ({"suspend": "no"}, "spec.suspend", "a string is not a boolean"),
        ({"jobTemplate": None}, "spec.jobTemplate", "give the Job"),
        ({"successfulJobsHistoryLimit": -1}, "spec.successfulJobsHistoryLimit", "-1 is not between"),
        ({"shedule": "@daily"}, "spec.shedule", "does not keep"),
    ],
)
def test_what_is_refused(spec: dict[str, Any], field: str, text: str) -> None:
    assert text in refused(cron_manifest(**spec))[field]


def test_fields_of_the_template_are_refused_with_their_path() -> None:
    found = refused(cron_manifest({"suspend": True, "maxFailedIndexes": 1}))
    assert set(found) == {"spec.jobTemplate.spec.suspend", "spec.jobTemplate.spec.maxFailedIndexes"}


def test_what_is_kept_in_another_way_is_a_warning() -> None:
    manifest = cron_manifest(startingDeadlineSeconds=10, failedJobsHistoryLimit=5)
    del manifest["spec"]["concurrencyPolicy"]
    warnings = cron_config(manifest, "team", POOL).warnings
    assert [text.partition(":")[0] for text in warnings] == [
        "spec.concurrencyPolicy", "spec.startingDeadlineSeconds", "spec.failedJobsHistoryLimit"
    ]  # fmt: skip


def test_a_schedule_and_its_runs(world: World) -> None:
    assert world.create(CRON_JOBS, cron_manifest()).status_code == 201
    (cron,) = world.jobs
    run = world.run_of(cron, TIME)
    found = world.client.get(NIGHTLY).json()
    assert found["spec"] == {**cron_manifest()["spec"], "suspend": False}
    assert found["status"]["lastScheduleTime"] == "2026-11-27T02:30:00Z"
    assert [(each["name"], each["uid"]) for each in found["status"]["active"]] == [(RUN, run)]
    (job,) = world.client.get(JOBS).json()["items"]
    assert world.client.get(f"{JOBS}/{RUN}").json() == job
    assert (job["metadata"]["uid"], job["metadata"]["labels"]) == (run, {"app": "nightly"})
    assert [(each["kind"], each["uid"]) for each in job["metadata"]["ownerReferences"]] == [("CronJob", cron)]
    (pod,) = world.client.get(PODS, params={"labelSelector": f"job-name={RUN}"}).json()["items"]
    assert world.client.get(f"{PODS}/{pod['metadata']['name']}").json() == pod
    assert len(world.client.get(PODS).json()["items"]) == 1
    assert len(world.client.get(CRON_JOBS).json()["items"]) == 1


def test_a_schedule_is_suspended_and_goes_on(world: World) -> None:
    made = world.create(CRON_JOBS, cron_manifest(suspend=True)).json()
    assert made["spec"]["suspend"] is True
    (cron,) = world.jobs
    assert world.runtimes[cron].schedule.paused_since
    assert patch(world, spec={"suspend": False}).json()["spec"]["suspend"] is False
    assert not world.runtimes[cron].schedule.paused_since
    changed = patch(world, spec={"schedule": "@hourly"})
    assert changed.status_code == 422
    assert "a CronJob keeps what it was created with" in changed.json()["message"]


def test_a_deleted_schedule_takes_its_runs_with_it(world: World) -> None:
    with world.client as client:
        world.create(CRON_JOBS, cron_manifest())
        world.create(JOBS, job_manifest())
        (cron, other) = world.jobs
        run = world.run_of(cron, TIME)
        assert client.delete(NIGHTLY).status_code == 200
        for _ in range(100):
            if not world.client.get(CRON_JOBS).json()["items"] and run not in world.jobs:
                break
        assert [*world.jobs] == [other]


def test_a_table(world: World) -> None:
    world.create(CRON_JOBS, cron_manifest(timeZone="UTC"))
    accept = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json"
    (row,) = world.client.get(CRON_JOBS, headers={"accept": accept}).json()["rows"]
    assert row["cells"][:6] == ["nightly", "30 3 * * *", "UTC", False, 0, "<none>"]
