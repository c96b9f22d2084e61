"""The maintenance calls of hostmgr: against the recorded answers of a real master, and against our own."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from hostmgr.core.agents.draining import Machine, MasterStatus
from hostmgr.mesos.agents import AgentReader
from hostmgr.mesos.host_names import HostNames
from hostmgr.mesos.maintenance import MaintenanceCalls
from peloton.errors import Unavailable
from tests.contract.mesos.cluster import Processes
from tests.contract.mesos.test_agent import Cluster
from tests.contract.mesos_driver import recordings
from tests.contract.mesos_driver.test_operator import client, http

FIRST, SECOND = Machine("agent-1", "127.0.0.1"), Machine("agent-2", "127.0.0.1")
NOW = 1_795_217_187_750_860_544


def exchange(since: float) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """The recorded operator calls from a moment on, each with its reply."""
    called: dict[str, dict[str, Any]] = {}
    found = []
    for line in recordings.lines("11-maintenance"):
        if line["kind"] == "request" and line["path"] == "/api/v1" and line["t"] >= since:
            called[line["conn"]] = line
        elif line["kind"] == "reply" and line["conn"] in called:
            found.append((called.pop(line["conn"]), line))
    return found


@asynccontextmanager
async def recorded(since: float, *kinds: str) -> AsyncIterator[tuple[MaintenanceCalls, list[dict[str, Any]]]]:
    """Calls to a server that answers each of `kinds` as the real master did at its first one since then."""
    requests: list[dict[str, Any]] = []
    left = list(kinds)

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
        length = int(head.partition("content-length:")[2].partition("\r\n")[0])
        requests.append(json.loads(await reader.readexactly(length)))
        kind = left.pop(0)
        assert requests[-1]["type"] == kind
        reply = next(reply for request, reply in exchange(since) if request["body"].get("type") == kind)
        body = recordings.body_of(reply) if reply["body"] else b""
        writer.write(http(f"{reply['status']} {reply['reason']}", body))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    try:
        port = server.sockets[0].getsockname()[1]
        yield MaintenanceCalls(client(port, "json"), lambda: NOW), requests
    finally:
        server.close()


@recordings.needed
async def test_the_recorded_states() -> None:
    async with recorded(1.0, "GET_MAINTENANCE_STATUS") as (calls, _):
        assert await calls.status() == MasterStatus()
    async with recorded(3.4, "GET_MAINTENANCE_STATUS") as (calls, _):
        assert await calls.status() == MasterStatus(draining=(FIRST,))
    async with recorded(14.5, "GET_MAINTENANCE_STATUS") as (calls, _):
        assert await calls.status() == MasterStatus(draining=(Machine("agent-2", ""), FIRST))
    async with recorded(17.0, "GET_MAINTENANCE_STATUS") as (calls, _):
        assert await calls.status() == MasterStatus(down=(FIRST,))


@recordings.needed
async def test_machines_of_others_stay_in_the_schedule() -> None:
    kinds = ("GET_MAINTENANCE_SCHEDULE", "UPDATE_MAINTENANCE_SCHEDULE")
    async with recorded(3.4, *kinds) as (calls, requests):
        await calls.change_schedule([SECOND], [])
    (old, new) = requests[1]["update_maintenance_schedule"]["schedule"]["windows"]
    ((_, reply),) = [pair for pair in exchange(3.4) if pair[0]["body"]["type"] == kinds[0]][:1]
    assert [old] == reply["body"]["get_maintenance_schedule"]["schedule"]["windows"]
    assert new == {
        "machine_ids": [{"hostname": "agent-2", "ip": "127.0.0.1"}],
        "unavailability": {"start": {"nanoseconds": NOW}},
    }
    async with recorded(3.4, *kinds) as (calls, requests):
        await calls.change_schedule([], [FIRST])
    assert requests[1]["update_maintenance_schedule"]["schedule"] == {}


@recordings.needed
async def test_what_the_real_master_accepts_and_refuses() -> None:
    async with recorded(1.4, "START_MAINTENANCE") as (calls, requests):
        with pytest.raises(Unavailable, match=r"START_MAINTENANCE: 400 .*is not in DRAINING mode"):
            await calls.take_down([FIRST])
    assert requests == [exchange(1.43)[0][0]["body"]], "byte for byte what the recording has"
    async with recorded(1.44, "STOP_MAINTENANCE") as (calls, _):
        with pytest.raises(Unavailable, match=r"STOP_MAINTENANCE: 400 .*is not in DOWN mode"):
            await calls.bring_up([FIRST])
    async with recorded(15.0, "START_MAINTENANCE") as (calls, _):
        await calls.take_down([FIRST])
    async with recorded(21.0, "STOP_MAINTENANCE") as (calls, _):
        await calls.bring_up([FIRST])


@pytest.mark.parametrize(("encoding", "cluster"), [("protobuf", ""), ("json", "east")])
async def test_a_machine_of_our_own_master_goes_down_and_comes_back(
    tmp_path: Path, encoding: str, cluster: str
) -> None:
    processes = Processes(tmp_path)
    made = Cluster(processes)
    try:
        await made.start_master()
        await made.start_agent()
        names = HostNames(cluster)
        operator = client(made.master_port, encoding, timeout=60.0)
        calls, agents = (
            MaintenanceCalls(operator, lambda: NOW, names),
            AgentReader(operator, "peloton", names),
        )
        (agent,) = (await agents.agents()).agents
        machine = Machine(agent.hostname, agent.ip)
        other = Machine(f"{cluster}/other" if cluster else "other", "10.0.0.1")
        with pytest.raises(Unavailable, match="not in DRAINING mode"):
            await calls.take_down([machine])
        await calls.change_schedule([machine, other], [])
        assert set((await calls.status()).draining) == {machine, other}
        await calls.take_down([machine])
        assert await calls.status() == MasterStatus((other,), (machine,))
        with pytest.raises(Unavailable, match="is deactivated and cannot be removed"):
            await calls.change_schedule([], [machine])
        assert not (await agents.agents()).agents, "the agent has ended"
        await calls.change_schedule([], [other])
        await calls.bring_up([machine])
        assert await calls.status() == MasterStatus()
    finally:
        await processes.stop()
