"""Stateful jobs on a whole cluster: volumes keep hosts and data, and are freed when they are deleted."""

from __future__ import annotations

from pathlib import Path

import grpc
import pytest

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.job import job_pb2
from peloton.api.v0.task import task_pb2
from peloton.api.v0.volume import volume_pb2
from peloton.api.v0.volume.svc import volume_svc_pb2 as pb

from .conftest import Harness, wait_for
from .test_cli_services import Peloton, peloton

__all__ = ["peloton"]

SECONDS = 60
SPEC = Path(__file__).resolve().parents[2] / "examples" / "stateful_service.yaml"
WRITES = "echo $PELOTON_TASK_ID >> data/runs; sleep 600"


class Database:
    """A stateful service, each of whose runs writes a line into its volume."""

    def __init__(self, harness: Harness, instances: int = 1) -> None:
        self.harness = harness
        config = harness.config(WRITES, instances, type=job_pb2.SERVICE)
        config.defaultConfig.ClearField("restartPolicy")
        config.defaultConfig.volume.CopyFrom(
            task_pb2.PersistentVolumeConfig(containerPath="data", sizeMB=100)
        )
        self.id = harness.create(config)

    def running(self, run: int, instance: int = 0) -> task_pb2.RuntimeInfo:
        """Waits until this run of the instance runs."""
        wanted = f"{self.id}-{instance}-{run}"
        self.seen: task_pb2.RuntimeInfo = task_pb2.RuntimeInfo()

        def runs() -> bool:
            self.seen = self.harness.running(self.id, instance)
            return self.seen.mesosTaskId.value == wanted

        wait_for(runs, SECONDS, lambda: str(self.seen))
        return self.seen

    def volumes(self) -> dict[str, volume_pb2.PersistentVolumeInfo]:
        request = pb.ListVolumesRequest(jobId=peloton_pb2.JobID(value=self.id))
        return dict(self.harness.client.volume_svc.ListVolumes(request, timeout=30).volumes)

    def delete(self, volume_id: str) -> None:
        request = pb.DeleteVolumeRequest(id=peloton_pb2.VolumeID(value=volume_id))
        self.harness.client.volume_svc.DeleteVolume(request, timeout=30)

    def act(self, method: str) -> None:
        """Starts, stops or restarts all instances."""
        request = getattr(task_pb2, f"{method}Request")(jobId=peloton_pb2.JobID(value=self.id))
        getattr(self.harness.client.task_svc, method)(request, timeout=30)

    def folders(self, volume_id: str) -> list[Path]:
        """The directories of a volume on all agents."""
        return list(self.harness.cluster.layout.root.glob(f"**/volumes/roles/*/{volume_id}"))

    def lines(self, volume_id: str) -> int:
        [folder] = self.folders(volume_id)
        return len((folder / "runs").read_text().splitlines())


def test_an_instance_comes_back_to_its_volume(harness: Harness) -> None:
    database = Database(harness)
    first = database.running(1)
    [volume] = database.volumes().values()
    assert (volume.hostname, volume.sizeMB, volume.containerPath) == (first.host, 100, "data")
    assert (volume.state, volume.goalState) == (volume_pb2.CREATED, volume_pb2.CREATED)
    assert first.volumeID == volume.id
    for run in (2, 3):
        database.act("Restart")
        again = database.running(run)
        assert (again.host, again.volumeID) == (first.host, volume.id)
        wait_for(lambda run=run: database.lines(volume.id.value) == run, SECONDS)  # type: ignore[misc]
    assert database.volumes() == {volume.id.value: volume}
    harness.cluster.kill(["jobmgr0"])
    harness.cluster.start(["jobmgr0"])
    assert database.running(3).host == first.host
    database.act("Restart")
    assert database.running(4).host == first.host
    wait_for(lambda: database.lines(volume.id.value) == 4, SECONDS)


def test_a_volume_is_deleted_only_while_nobody_uses_it(harness: Harness) -> None:
    database = Database(harness)
    host = database.running(1).host
    [volume_id] = database.volumes()
    with pytest.raises(grpc.RpcError) as used:
        database.delete(volume_id)
    assert used.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert f"volume {volume_id} is in use: run 1 of instance 0 is RUNNING on {host}" in str(
        used.value.details()
    )
    database.act("Stop")
    wait_for(lambda: harness.tasks(database.id)[0].runtime.state == task_pb2.KILLED, SECONDS)
    assert database.folders(volume_id)
    database.delete(volume_id)
    wait_for(
        lambda: database.volumes()[volume_id].state == volume_pb2.DELETED,
        SECONDS,
        lambda: str(database.volumes()),
    )
    assert not database.folders(volume_id)
    database.act("Start")
    database.running(2)
    assert set(database.volumes()) == {volume_id, f"{database.id}-0-2"}


class Walk:
    """The service of the user guide, steered from the command line."""

    def __init__(self, peloton: Peloton) -> None:
        self.peloton = peloton
        self.id = peloton("job", "stateless", "create", "/test", str(SPEC), "0").split()[1]

    def output(self, instance: int) -> list[str]:
        """The runs that an instance found in its volume, its own included."""
        return self.peloton("pod", "logs", f"{self.id}-{instance}").splitlines()

    def await_runs(self, instance: int, *runs: int) -> None:
        wanted = [f"{self.id}-{instance}-{run}" for run in runs]
        wait_for(lambda: self.output(instance) == wanted, SECONDS, lambda: str(self.output(instance)))

    def volumes(self) -> dict[int, list[str]]:
        """The newest volume of each instance: id, instance, host, state, goal state."""
        rows = self.peloton("volume", "list", self.id).splitlines()[1:]
        return {int(row.split()[1]): row.split()[:5] for row in rows}


def test_the_walk_of_the_user_guide(harness: Harness, peloton: Peloton) -> None:
    service = Walk(peloton)
    for instance in (0, 1):
        service.await_runs(instance, 1)
    volume, _, host, *states = service.volumes()[0]
    assert states == ["CREATED", "CREATED"]
    peloton("pod", "restart", f"{service.id}-0")
    service.await_runs(0, 1, 2)
    assert service.volumes()[0][:3] == [volume, "0", host]
    assert f"volume {volume} is in use" in peloton("volume", "delete", volume)

    peloton("pod", "stop", f"{service.id}-0")
    deleted = f"Volume {volume} is deleted\n"
    wait_for(lambda: peloton("volume", "delete", volume) == deleted, SECONDS)
    peloton("pod", "start", f"{service.id}-0")
    service.await_runs(0, 3)
    wait_for(
        lambda: [volume, "DELETED", "DELETED"] in rows_of(service), SECONDS, lambda: str(rows_of(service))
    )


def test_an_instance_whose_host_is_gone_waits_until_its_volume_is_deleted(
    harness: Harness, peloton: Peloton
) -> None:
    service = Walk(peloton)
    service.await_runs(0, 1)
    volume, _, host, *_ = service.volumes()[0]
    agent = f"mesos-agent{host[-1]}"
    harness.cluster.stop([agent])
    why = f"waits for host {host}, which has its volume"
    wait_for(
        lambda: why in peloton("pod", "get", f"{service.id}-0"),
        SECONDS,
        lambda: peloton("pod", "get", f"{service.id}-0"),
    )
    peloton("volume", "delete", volume)
    service.await_runs(0, 3)
    _, _, other, *states = service.volumes()[0]
    assert other != host
    assert states == ["CREATED", "CREATED"]
    assert [volume, "CREATED", "DELETED"] in rows_of(service)
    [folder] = harness.cluster.layout.root.glob(f"**/volumes/roles/*/{volume}")
    harness.cluster.start([agent])
    wait_for(
        lambda: [volume, "DELETED", "DELETED"] in rows_of(service), SECONDS, lambda: str(rows_of(service))
    )
    assert not folder.exists()


def rows_of(service: Walk) -> list[list[str]]:
    rows = [row.split() for row in service.peloton("volume", "list", service.id).splitlines()[1:]]
    return [[row[0], row[3], row[4]] for row in rows]


def test_volumes_outlive_masters_agents_and_leaders(harness: Harness) -> None:
    database = Database(harness)
    host = database.running(1).host
    [volume_id] = database.volumes()
    agent = f"mesos-agent{host[-1]}"
    for names in (["mesos-master"], [agent], ["hostmgr0", "resmgr0", "placement0"]):
        harness.cluster.kill(names)
        harness.cluster.start(names)
    database.act("Restart")
    assert database.running(2).host == host
    wait_for(lambda: database.lines(volume_id) == 2, SECONDS)
    assert set(database.volumes()) == {volume_id}
