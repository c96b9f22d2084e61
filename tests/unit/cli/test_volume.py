"""`peloton volume list` and `delete`."""

from __future__ import annotations

import json

import grpc

from peloton.api.v0.volume import volume_pb2
from peloton.api.v0.volume.svc import volume_svc_pb2 as pb

from .conftest import Run
from .fakes import FakeDaemons

JOB = "a0000000-0000-4000-8000-00000000000a"


def volume(instance: int, run: int, state: int = volume_pb2.CREATED) -> volume_pb2.PersistentVolumeInfo:
    info = volume_pb2.PersistentVolumeInfo(
        instanceId=instance,
        hostname="host-1",
        state=state,  # type: ignore[arg-type]
        goalState=volume_pb2.CREATED,
        sizeMB=100,
        containerPath="data",
        createTime=f"2026-01-02T03:04:0{run}Z",
        updateTime="2026-01-02T03:04:09Z",
    )
    info.id.value, info.jobId.value = f"{JOB}-{instance}-{run}", JOB
    return info


def test_volumes_are_listed_by_instance_and_age(run: Run, daemons: FakeDaemons) -> None:
    found = [volume(10, 1), volume(2, 3), volume(2, 1, volume_pb2.DELETED)]
    daemons.answers["ListVolumes"] = pb.ListVolumesResponse(volumes={each.id.value: each for each in found})
    outcome = run("volume", "list", JOB)
    heads, *rows = outcome.out.splitlines()
    assert heads.startswith("ID ") and heads.endswith("Updated")
    assert [row.split()[:4] for row in rows] == [
        [f"{JOB}-2-1", "2", "host-1", "DELETED"],
        [f"{JOB}-2-3", "2", "host-1", "CREATED"],
        [f"{JOB}-10-1", "10", "host-1", "CREATED"],
    ]
    (request,) = daemons.requests("ListVolumes")
    assert request.jobId.value == JOB
    assert set(json.loads(run("-j", "volume", "list", JOB).out)["volumes"]) == {
        each.id.value for each in found
    }


def test_a_volume_is_deleted(run: Run, daemons: FakeDaemons) -> None:
    daemons.answers["DeleteVolume"] = pb.DeleteVolumeResponse()
    outcome = run("volume", "delete", f"{JOB}-2-1")
    assert (outcome.code, outcome.out) == (0, f"Volume {JOB}-2-1 is deleted\n")
    (request,) = daemons.requests("DeleteVolume")
    assert request.id.value == f"{JOB}-2-1"


def test_refusals_are_shown(run: Run, daemons: FakeDaemons) -> None:
    used = f"volume {JOB}-2-1 is in use: run 1 of instance 2 is RUNNING on host-1; stop the instance first"
    daemons.answers["DeleteVolume"] = (grpc.StatusCode.FAILED_PRECONDITION, used)
    outcome = run("volume", "delete", f"{JOB}-2-1")
    assert outcome.code == 1
    assert used in outcome.err
    daemons.answers["ListVolumes"] = (grpc.StatusCode.NOT_FOUND, "job not found")
    assert "job not found" in run("volume", "list", JOB).err
