"""A Mesos master with simulated agents and a hostmgr, as processes, and a client for them."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import yaml

from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.membership.interface import Address
from peloton.private.eventstream import eventstream_pb2 as events_pb
from peloton.private.eventstream.eventstream_pb2_grpc import EventStreamServiceStub
from peloton.private.hostmgr.hostsvc import hostsvc_pb2 as pb
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import InternalHostServiceStub
from tests.waiting import until

CONFIG = task_pb2.TaskConfig(
    resource=task_pb2.ResourceConfig(cpuLimit=1, memLimitMb=64),
    command=mesos_pb2.CommandInfo(shell=True, value="true"),
)


class Processes:
    """In one folder; `stop` ends all of them."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._mesos: dict[str, Any] = {}
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.master_port = 0

    def _start(self, name: str, command: Sequence[str]) -> None:
        with (self._root / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                [sys.executable, "-m", *command], stdout=log, stderr=log, cwd=Path(__file__).parents[3]
            )

    async def start_master(self, *flags: str, agents: int = 3, task_seconds: float = 0.2) -> None:
        """On the port of before, with the registry of before."""
        ready = self._root / "master.ready"
        ready.unlink(missing_ok=True)
        command = [
            "minicluster.mesos.master",
            f"--port={self.master_port}",
            f"--work-dir={self._root / 'master'}",
            f"--ready-file={ready}",
            f"--simulated-agents={agents}",
            f"--simulated-task-seconds={task_seconds}",
            "--allocation-interval=0.1",
            *flags,
        ]
        self._start("master", command)
        await until(ready.exists, "the master is ready")
        self.master_port = int(json.loads(ready.read_text())["port"])

    async def start_hostmgr(self, **mesos: Any) -> None:
        """With these settings of Mesos beside the address."""
        self._mesos = mesos
        settings = self._root / "hostmgr.yaml"
        settings.write_text(
            yaml.safe_dump(
                {
                    "membership": {"kind": "local", "directory": str(self._root / "membership")},
                    "storage": {"kind": "sqlite", "path": str(self._root / "store.db")},
                    "mesos": {
                        "master": f"127.0.0.1:{self.master_port}",
                        "agents_interval": 0.2,
                        **self._mesos,
                    },
                    "reconcile": {"repeat_after": 1.0, "launch_grace": 0.5},
                }
            )
        )
        self._start("hostmgr", ["hostmgr", "-c", str(settings)])

    def kill(self, name: str) -> None:
        process = self._running.pop(name)
        process.kill()
        process.wait()

    def stop(self) -> None:
        for process in self._running.values():
            process.terminate()
        for name, process in self._running.items():
            assert process.wait(60) == 0, f"{name} ended with {process.returncode}: {self.log(name)}"

    def log(self, name: str) -> str:
        return (self._root / f"{name}.log").read_text()

    def address(self) -> Address:
        return Address.from_json((self._root / "membership" / "hostmanager" / "leader").read_text())

    def health(self) -> str:
        """What hostmgr's /health says; empty before it is elected."""
        try:
            leader = self.address()
        except (FileNotFoundError, ValueError):  # the file is there before the address is in it
            return ""
        try:
            with urllib.request.urlopen(f"http://{leader.ip}:{leader.http}/health", timeout=60) as answer:
                return str(answer.read().decode())
        except urllib.error.HTTPError as refused:
            with refused:
                return refused.read().decode()


class Client:
    """jobmgr and placement in one."""

    def __init__(self, target: str) -> None:
        self._channel = grpc.aio.insecure_channel(target)
        self.hosts = InternalHostServiceStub(self._channel)
        self.events = EventStreamServiceStub(self._channel)
        self.stream_id = ""
        self.offset = 0
        self.seen: list[tuple[str, int]] = []
        """(run, Mesos' state) in order."""

    async def close(self) -> None:
        await self._channel.close()

    async def acquire(self, hosts: int = 1) -> list[pb.HostOffer]:
        """As many hosts, as soon as they can be had."""
        request = pb.AcquireHostOffersRequest()
        request.filter.resourceConstraint.minimum.CopyFrom(CONFIG.resource)
        request.filter.quantity.maxHosts = hosts
        found: list[pb.HostOffer] = []
        async with asyncio.timeout(60):
            while len(found) < hosts:
                request.filter.quantity.maxHosts = hosts - len(found)
                found += (await self.hosts.AcquireHostOffers(request)).hostOffers
                await asyncio.sleep(0.05)
        return found

    def launch_request(self, offer: pb.HostOffer, tasks: int = 1) -> pb.LaunchTasksRequest:
        job = uuid.uuid4()
        return pb.LaunchTasksRequest(
            hostname=offer.hostname,
            agentId=offer.agentId,
            id=offer.id,
            tasks=[
                pb.LaunchableTask(taskId=mesos_pb2.TaskID(value=f"{job}-{n}-1"), config=CONFIG)
                for n in range(tasks)
            ],
        )

    async def open_stream(self, name: str = "jobmgr") -> events_pb.InitStreamResponse:
        request = events_pb.InitStreamRequest(clientName=name)
        answer: events_pb.InitStreamResponse = await self.events.InitStream(request)
        self.stream_id, self.offset = answer.streamID, answer.minOffset
        return answer

    async def pull(self, purge: bool = True, timeout_ms: int = 500) -> int:
        """One read; how many events came. `purge` says that those of before are done with."""
        answer = await self.events.WaitForEvents(
            events_pb.WaitForEventsRequest(
                streamID=self.stream_id,
                clientName="jobmgr",
                beginOffset=self.offset,
                purgeOffset=self.offset if purge else 0,
                limit=1000,
                timeoutMs=timeout_ms,
            )
        )
        assert not answer.HasField("error"), answer.error
        for event in answer.events:
            assert event.offset == self.offset
            self.offset += 1
            self.seen.append((event.mesosTaskStatus.task_id.value, event.mesosTaskStatus.state))
        return len(answer.events)

    async def pull_until(self, condition: Callable[[], bool], purge: bool = True) -> None:
        async with asyncio.timeout(60):
            while not condition():
                await self.pull(purge)


async def connected(processes: Processes) -> Client:
    """To the hostmgr that leads, once it can serve."""

    def healthy() -> bool:
        try:
            address = processes.address()
            with urllib.request.urlopen(f"http://{address.ip}:{address.http}/health", timeout=1) as answer:
                return bool(answer.status == 200)
        except (OSError, ValueError):
            return False

    await until(healthy, "hostmgr is healthy")
    return Client(processes.address().target)
