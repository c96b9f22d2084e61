"""hostmgr as a process against the project's own master: launches, statuses, crashes of either side."""

from __future__ import annotations

from collections.abc import AsyncIterator
from itertools import groupby
from pathlib import Path

import grpc
import pytest

from mesos.v1 import mesos_pb2
from peloton.config.private import write_private
from peloton.private.eventstream import eventstream_pb2 as events_pb
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from tests.contract.mesos_driver.processes import Client, Processes, connected
from tests.waiting import until

STARTING, RUNNING, FINISHED = mesos_pb2.TASK_STARTING, mesos_pb2.TASK_RUNNING, mesos_pb2.TASK_FINISHED


@pytest.fixture
async def idle(tmp_path: Path) -> AsyncIterator[Processes]:
    held = Processes(tmp_path)
    try:
        yield held
    finally:
        held.stop()


@pytest.fixture
async def processes(idle: Processes) -> Processes:
    await idle.start_master()
    await idle.start_hostmgr()
    return idle


def states(client: Client, run: str) -> list[int]:
    """Of a run, each once: no jobmgr stores it here, so hostmgr asks Mesos for its state now and then."""
    return [state for state, _ in groupby(state for seen, state in client.seen if seen == run)]


async def test_a_task_from_claim_to_its_end(processes: Processes) -> None:
    client = await connected(processes)
    await client.open_stream()
    (offer,) = await client.acquire()
    assert {each.name for each in offer.resources} >= {"cpus", "mem", "disk", "ports"}
    request = client.launch_request(offer, tasks=3)
    await client.hosts.LaunchTasks(request)
    await client.hosts.LaunchTasks(request)
    runs = [task.taskId.value for task in request.tasks]
    await client.pull_until(lambda: all(states(client, run)[-1:] == [FINISHED] for run in runs))
    for run in runs:
        assert states(client, run) == [STARTING, RUNNING, FINISHED]
    del request.tasks[0]
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await client.hosts.LaunchTasks(request)
    assert caught.value.code() is grpc.StatusCode.FAILED_PRECONDITION
    assert "invalid offers" in (caught.value.details() or "")
    await client.close()


async def test_json_and_a_secret(idle: Processes, tmp_path: Path) -> None:
    secret, credentials = tmp_path / "secret", tmp_path / "credentials.json"
    write_private(secret, "s3cret\n")
    credentials.write_text('{"credentials": [{"principal": "peloton", "secret": "s3cret"}]}')
    await idle.start_master(f"--credentials={credentials}")
    await idle.start_hostmgr(encoding="json", secret_file=str(secret))
    client = await connected(idle)
    await client.open_stream()
    (offer,) = await client.acquire()
    request = client.launch_request(offer)
    await client.hosts.LaunchTasks(request)
    run = request.tasks[0].taskId.value
    await client.pull_until(lambda: states(client, run) == [STARTING, RUNNING, FINISHED])
    assert "s3cret" not in idle.log("hostmgr")
    await client.close()


async def test_health_names_why_the_master_refuses(idle: Processes, tmp_path: Path) -> None:
    """What /health says is also what `minicluster up` reports while it waits."""
    secret, credentials = tmp_path / "secret", tmp_path / "credentials.json"
    write_private(secret, "wrong\n")
    credentials.write_text('{"credentials": [{"principal": "peloton", "secret": "s3cret"}]}')
    await idle.start_master(f"--credentials={credentials}")
    await idle.start_hostmgr(secret_file=str(secret))
    await until(lambda: "SUBSCRIBE was answered with 401" in idle.health(), "health tells of the refusal")
    assert "the master does not accept mesos.principal or mesos.secret_file" in idle.health()


async def test_only_statuses_that_jobmgr_has_passed_are_acknowledged(processes: Processes) -> None:
    client = await connected(processes)
    await client.open_stream()
    (offer,) = await client.acquire()
    request = client.launch_request(offer)
    run = request.tasks[0].taskId.value
    await client.hosts.LaunchTasks(request)
    await client.pull_until(lambda: bool(client.seen), purge=False)
    await client.pull(purge=False, timeout_ms=1500)
    assert states(client, run) == [STARTING], "RUNNING waits for the acknowledgement"
    await client.pull_until(lambda: states(client, run) == [STARTING, RUNNING, FINISHED])
    await client.close()


async def test_a_new_hostmgr_gets_what_was_not_acknowledged(processes: Processes) -> None:
    client = await connected(processes)
    before = await client.open_stream()
    (offer,) = await client.acquire()
    request = client.launch_request(offer)
    run = request.tasks[0].taskId.value
    await client.hosts.LaunchTasks(request)
    await client.pull_until(lambda: states(client, run) == [STARTING], purge=False)
    processes.kill("hostmgr")
    await client.close()
    await processes.start_hostmgr()
    successor = await connected(processes)
    after = await successor.open_stream()
    assert after.streamID != before.streamID
    await successor.pull_until(lambda: states(successor, run)[-1:] == [FINISHED])
    assert states(successor, run)[0] == STARTING, "sent again, since nobody had stored it"
    assert "subscribed" in processes.log("hostmgr")
    ids = {line.rsplit(" ", 1)[1] for line in processes.log("hostmgr").splitlines() if " as " in line}
    assert len(ids) == 1, "the framework id was stored and used again"
    stale = await successor.events.WaitForEvents(
        events_pb.WaitForEventsRequest(streamID=before.streamID, clientName="jobmgr")
    )
    assert stale.error.invalidStreamID.currentStreamID == after.streamID
    await successor.close()


async def test_the_master_stops_and_starts_again(processes: Processes) -> None:
    client = await connected(processes)
    await client.open_stream()
    (offer,) = await client.acquire()
    processes.kill("master")
    request = client.launch_request(offer)

    async def refused() -> bool:
        try:
            await client.hosts.LaunchTasks(request)
        except grpc.aio.AioRpcError as error:
            return error.code() is grpc.StatusCode.UNAVAILABLE
        return False

    assert await refused() or await refused()
    assert not (await client.hosts.GetOutstandingOffers(pb.GetOutstandingOffersRequest())).offers
    await processes.start_master()
    await (await connected(processes)).close()
    (offer,) = await client.acquire()
    request = client.launch_request(offer)
    await client.hosts.LaunchTasks(request)
    run = request.tasks[0].taskId.value
    await client.pull_until(lambda: states(client, run)[-1:] == [FINISHED])
    await client.close()


async def test_killing_and_what_operators_see(processes: Processes) -> None:
    client = await connected(processes)
    await client.open_stream()
    answer = await client.hosts.KillTasks(pb.KillTasksRequest())
    assert "at least one" in answer.error.invalidTaskIDs.message
    unknown = "6f7d1b0e-9a3e-4a4b-8f4e-7b1d8f9a0c11-0-1"
    await client.hosts.KillTasks(pb.KillTasksRequest(taskIds=[mesos_pb2.TaskID(value=unknown)]))
    capacity = await client.hosts.ClusterCapacity(pb.ClusterCapacityRequest())
    total = {each.kind: each.capacity for each in capacity.physicalResources}
    assert total["cpu"] == 24 and set(total) == {"cpu", "memory", "disk", "gpu"}
    master = await client.hosts.GetMesosMasterHostPort(pb.MesosMasterHostPortRequest())
    assert (master.hostname, master.port) == ("127.0.0.1", str(processes.master_port))
    info = await client.hosts.GetMesosAgentInfo(pb.GetMesosAgentInfoRequest())
    assert len(info.agents) == 3
    nobody = await client.hosts.GetMesosAgentInfo(pb.GetMesosAgentInfoRequest(hostname="nosuch"))
    assert "nosuch" in nobody.error.hostNotFound.message
    await client.acquire(1)
    hosts = (await client.hosts.GetHostsByQuery(pb.GetHostsByQueryRequest())).hosts
    assert sorted(host.status for host in hosts) == ["placing", "ready", "ready"]
    await client.close()
