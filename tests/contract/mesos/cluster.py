"""Our master and agents as processes, started the way a recording says the real ones were."""

from __future__ import annotations

import asyncio
import json
import re
import shlex
import signal
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient

from minicluster.mesos.agent.cleanup import kill_tasks
from tests.servers.freezing import freeze
from tests.servers.zookeeper import ZooKeeperServer, new_zookeeper

PATIENCE_SECONDS = 60.0


@dataclass(slots=True)
class Member:
    """One process, with what it said in its ready file."""

    name: str
    process: asyncio.subprocess.Process
    ready: Path
    errors: Path

    async def wait_ready(self) -> dict[str, Any]:
        """Wait until it is ready, and return what it says."""
        async with asyncio.timeout(PATIENCE_SECONDS):
            while not self.ready.exists():
                if self.process.returncode is not None:
                    raise AssertionError(f"{self.name} ended: {self.errors.read_text()}")
                await asyncio.sleep(0.01)
        said: dict[str, Any] = json.loads(self.ready.read_text())
        return said


@dataclass(slots=True)
class Processes:
    """All processes of one test."""

    root: Path
    members: dict[str, Member] = field(default_factory=dict)
    work_dirs: set[Path] = field(default_factory=set)
    started: int = 0

    async def start(self, name: str, module: str, *flags: str) -> Member:
        """Start a master or an agent; ``flags`` are its own."""
        self.started += 1
        ready = self.root / f"{name}-{self.started}.ready"
        errors = self.root / f"{name}-{self.started}.log"
        with errors.open("wb") as log:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", f"minicluster.mesos.{module}", *flags),
                *("--ready-file", str(ready)),
                stdout=log,
                stderr=log,
            )
        member = Member(name, process, ready, errors)
        self.members[name] = member
        return member

    async def signal(self, name: str, number: signal.Signals) -> None:
        """Send a signal; wait for the end of a process that cannot but die of it."""
        member = self.members[name]
        if number == signal.SIGSTOP:
            freeze(member.process.pid)
        else:
            member.process.send_signal(number)
        if number == signal.SIGKILL:
            await member.process.wait()

    async def stop(self) -> None:
        """End everything, tasks included."""
        for member in self.members.values():
            if member.process.returncode is None:
                member.process.kill()
            await member.process.wait()
        for work_dir in self.work_dirs:
            await asyncio.to_thread(kill_tasks, work_dir)


_MASTER_FLAGS = {
    "registry": "--registry",
    "offer_timeout": "--offer-timeout",
    "agent_ping_timeout": "--agent-ping-timeout",
    "max_agent_ping_timeouts": "--max-agent-ping-timeouts",
    "zk_session_timeout": "--zk-session-timeout",
}
_SCALED = frozenset({"offer_timeout", "zk_session_timeout"})
MASTER_PORT, ZOOKEEPER_PORT = 5050, 2181
ELECTION = "/mesos"


def recorded_flags(command: str) -> dict[str, str]:
    """Return the flags of a recorded command line."""
    words = shlex.split(command)
    return dict(word[2:].partition("=")[::2] for word in words if word.startswith("--"))


def _seconds(text: str, scale: float) -> str:
    match = re.fullmatch(r"([\d.]+)secs", text)
    return str(float(match[1]) * scale) if match else text


@dataclass(slots=True)
class RecordedCluster:
    """The processes of a recording, in our version. ``scale`` shortens the master's times.

    ``ports``: ours by the recorded ones.
    """

    processes: Processes
    scale: float = 1.0
    master_flags: tuple[str, ...] = ()
    agent_flags: tuple[str, ...] = ()
    ports: dict[int, int] = field(default_factory=dict)
    zookeeper: ZooKeeperServer | None = None

    async def start(self, name: str, command: str) -> Member | None:
        """Start what a note of the recording says was started; None for ZooKeeper."""
        if name == "zookeeper":
            await self._start_zookeeper()
            return None
        flags = recorded_flags(command)
        if name.startswith("master"):
            return await self._start_master(name, flags)
        return await self._start_agent(name, flags)

    async def stop(self) -> None:
        """End everything."""
        await self.processes.stop()
        if self.zookeeper is not None:
            await asyncio.to_thread(self.zookeeper.kill)

    async def _start_zookeeper(self) -> None:
        if self.zookeeper is None:
            self.zookeeper = new_zookeeper(self.processes.root / "zookeeper")
            self.ports[ZOOKEEPER_PORT] = self.zookeeper.port
        await asyncio.to_thread(self.zookeeper.start)

    def announced(self) -> list[dict[str, Any]]:
        """What masters say of themselves in ZooKeeper, the leading one first.

        Raises AssertionError for nodes that are not as real ones' are.
        """
        assert self.zookeeper is not None
        client = KazooClient(self.zookeeper.address, timeout=4)
        client.start()
        try:
            names = client.get_children(ELECTION) if client.exists(ELECTION) else []
            found = [(name, *client.get(f"{ELECTION}/{name}")) for name in sorted(names) if "info" in name]
        finally:
            client.stop()
            client.close()
        for name, _, stat in found:
            assert re.fullmatch(r"json\.info_\d{10}", name) and stat.ephemeralOwner and not stat.version
        return [json.loads(value) for _, value, _ in found]

    async def _start_master(self, name: str, flags: dict[str, str]) -> Member:
        recorded = int(flags.get("port", MASTER_PORT))
        ours = ["--port", str(self.ports.get(recorded, 0)), "--hostname", flags.get("hostname", "master")]
        ours += ["--work-dir", str(self.processes.root / name)]
        for theirs, flag in _MASTER_FLAGS.items():
            if theirs in flags:
                scaled = self.scale if theirs in _SCALED else 1.0
                ours += [flag, _seconds(flags[theirs], scaled)]
        ours += ["--zk", self._election(flags["zk"])] if "zk" in flags else []
        member = await self.processes.start(name, "master", *ours, *self.master_flags)
        self.ports[recorded] = (await member.wait_ready())["port"]
        if "zk" in flags and self.zookeeper is not None:
            await self._contends(self.ports[recorded])
        return member

    async def _contends(self, port: int) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            while all(info["port"] != port for info in await asyncio.to_thread(self.announced)):  # noqa: ASYNC110 - it only answers
                await asyncio.sleep(0.02)

    def _election(self, recorded: str) -> str:
        servers = recorded.removeprefix("zk://").partition("/")[0]
        port = int(servers.rpartition(":")[2])
        return f"zk://127.0.0.1:{self.ports.get(port, port)}{ELECTION}"

    def work_dir(self, recorded: str) -> Path:
        """Return where we keep what the recording kept there."""
        return self.processes.root / Path(recorded).name

    async def _start_agent(self, name: str, flags: dict[str, str]) -> Member:
        work_dir = self.work_dir(flags["work_dir"])
        self.processes.work_dirs.add(work_dir)
        followed = flags["master"]
        elected = followed.startswith("zk://")
        ours = ["--master", self._election(followed) if elected else f"127.0.0.1:{self.ports[MASTER_PORT]}"]
        ours += ["--port", str(self.ports.get(int(flags["port"]), 0))]
        ours += ["--hostname", flags["hostname"], "--work-dir", str(work_dir), *self.agent_flags]
        ours += ["--resources", flags["resources"], "--attributes", flags.get("attributes", "")]
        return await self.processes.start(name, "agent", *ours)
