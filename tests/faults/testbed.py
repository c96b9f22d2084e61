"""A cluster of real processes with its servers and proxies, into which faults are injected."""

from __future__ import annotations

import json
import random
import shutil
import signal
import threading
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc

from minicluster.cluster import Cluster
from minicluster.components import Component
from minicluster.credentials import CLIENT, client_identity, https_context
from minicluster.mesos.agent.cleanup import kill_tasks
from minicluster.processes import Process
from minicluster.progress import Progress
from minicluster.servers.cassandra import Lasting
from minicluster.settings import ClusterSettings, DaemonSettings, Instances, Simulated
from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.client import Discovery, LocalDiscovery, PelotonClient
from peloton.client.discovery import DiscoveryError, ZooKeeperDiscovery
from peloton.config.sources import Tree
from storage.cassandra.migrate import up
from tests.faults.containers import Containers
from tests.faults.history import Event, EventLog, Run
from tests.faults.leader_actions import ActionLog
from tests.faults.proxy import Proxy
from tests.faults.status_filter import Rates, UpdateMangler
from tests.faults.takeover import QUESTIONS, Takeover
from tests.faults.triggers import Trigger, set_trigger
from tests.servers.cassandra import CassandraServer, cassandra_server
from tests.servers.freezing import freeze
from tests.servers.store import settings_for
from tests.servers.zookeeper import ZooKeeperServer, zookeeper_server

LEADERS = ("jobmgr", "resmgr", "hostmgr")
DAEMONS = (*LEADERS, "placement")
POOL = "faults"
LIVE = frozenset({"TASK_STAGING", "TASK_STARTING", "TASK_RUNNING", "TASK_KILLING"})
"""States of what Mesos' agents have; the master lists what has ended, too, until that is acknowledged."""
ROWS = 20
"""A job's tasks that jobmgr makes at once: larger jobs can be cut off half-way."""
END_SECONDS = 60.0
"""Until a container that was told to end has ended."""
PING_SECONDS, PINGS = 1.5, 4
"""An agent that does not answer for their product is unreachable."""


@dataclass(frozen=True, slots=True)
class Setup:
    """Which servers a cluster stands on."""

    zookeeper: bool = False
    cassandra: bool = False
    session_seconds: float = 5.0
    masters: int = 1
    """Of Mesos. Several elect one among them in ZooKeeper, where hostmgr finds it: no proxy is in between."""
    launch_seconds: str = "0"
    """How long an agent takes for a launch, MIN-MAX."""
    secure: bool = False
    """Whether daemons and clients speak TLS and show who they are."""
    image: str = ""
    """Of the containers that daemons run in; empty: they are processes of this machine."""
    sharing: int = 0
    """How many job managers share the work; 0: one of two leads, and does all of it."""
    simulated: int = 0
    """Agents inside the master that run nothing; 0: three real ones."""

    def __str__(self) -> str:
        store = "cassandra" if self.cassandra else "sqlite"
        several = f", {self.masters} Mesos masters" if self.masters > 1 else ""
        slow = f", launches of {self.launch_seconds} s" if self.launch_seconds != "0" else ""
        members = "zookeeper" if self.zookeeper else "local"
        secure = ", secure" if self.secure else ""
        contained = ", daemons in containers" if self.image else ""
        sharing = f", {self.sharing} job managers that share the work" if self.sharing else ""
        simulated = f", {self.simulated} simulated agents" if self.simulated else ""
        return f"{store} and {members} membership{several}{slow}{secure}{contained}{sharing}{simulated}"


class _Cluster(Cluster):
    """With agents that send updates again soon, and daemons that record what they do, in `actions`."""

    def __init__(
        self,
        directory: Path,
        actions: Path,
        started: Callable[[_Cluster], None],
        containers: Containers | None = None,
        zookeepers: Mapping[str, Proxy] | None = None,
    ) -> None:
        super().__init__(directory)
        self._zookeepers = zookeepers or {}
        self.actions = actions
        self._started = started
        self._containers = containers

    def components(self) -> tuple[Component, ...]:
        flags = ("--status-update-retry-interval=1",)
        return tuple(
            replace(part, flags=(*part.flags, *flags))
            if part.kind == "mesos-agent"
            else replace(part, settings=self._by_proxy(part.name, _of_one_kind(part.settings)))
            for part in super().components()
        )

    def _by_proxy(self, name: str, settings: Tree) -> Tree:
        """With the way to ZooKeeper that this component has for itself, where it has one."""
        if name not in self._zookeepers:
            return settings
        own = {"servers": self._zookeepers[name].address}
        return {**settings, "membership": {**settings["membership"], **own}}

    def _command(self, part: Component) -> list[str]:
        argv = super()._command(part)
        if part.kind in LEADERS:
            python, option, *rest = argv
            argv = [python, option, "tests.faults.recording_daemon", str(self.actions), *rest]
        if self._containers is not None and part.kind in DAEMONS:
            return self._containers.command(part.name, argv)
        return argv

    def _wait_until_ready(self, parts: Sequence[Component], tell: Progress) -> None:
        self._started(self)
        super()._wait_until_ready(parts, tell)


def _of_one_kind(settings: Tree) -> Tree:
    """Without what is left of the minicluster's own membership and store where others are set."""
    found = dict(settings)
    for name, kind, own in (("membership", "local", "directory"), ("storage", "sqlite", "path")):
        if name in found and found[name].get("kind") != kind:
            found[name] = {key: value for key, value in found[name].items() if key != own}
    return found


@dataclass(slots=True)
class Probe:
    """Asks one leader over and over; `served`: when it answered, seconds since the epoch."""

    ask: Callable[[], bool]
    served: list[float] = field(default_factory=list)
    leaders: list[tuple[float, str]] = field(default_factory=list)
    """Addresses that led, and since when."""

    def longest_gap(self, since: float, until: float) -> float:
        """Seconds between two answers, less what lies between two questions."""
        times = [since, *(each for each in self.served if since <= each <= until), until]
        return max(b - a for a, b in pairwise(times))


class Testbed:
    """One cluster, from `up` to `down`, and the operations that faults use."""

    __test__ = False  # no test class of pytest

    def __init__(self, folder: Path, setup: Setup, seed: int) -> None:
        self.folder = folder.resolve()  # servers run in folders of their own
        self.setup = setup
        self.chances = Rates()
        self.actions = ActionLog(self.folder / "actions")
        self.mesos = Proxy("127.0.0.1", 0, lambda: UpdateMangler(random.Random(seed), self.chances))
        self.store: Proxy | None = None
        self.zookeeper: ZooKeeperServer | None = None
        self.zookeepers: dict[str, Proxy] = {}
        """The way to ZooKeeper of each job manager that shares the work, by its name."""
        self.cassandra: CassandraServer | None = None
        self.containers: Containers | None = None
        self.probes: dict[str, Probe] = {}
        self._events = EventLog(self.folder / "mesos.jsonl")
        self._dead: list[Event] = []
        self._stack = ExitStack()
        self._over = threading.Event()

    # From up to down.

    def up(self) -> None:
        try:
            self._up()
        except BaseException:
            self.down()
            raise

    def _up(self) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        self.mesos.start()
        self._stack.callback(self.mesos.close)
        settings = self._settings()
        directory = self.folder / "cluster"
        self.discovery: Discovery = (
            ZooKeeperDiscovery(self.zookeeper.address)
            if self.zookeeper is not None
            else LocalDiscovery(directory / "membership")
        )
        self._stack.callback(self.discovery.close)
        self.actions.folder.mkdir()
        if self.setup.image:
            self.containers = Containers(self.setup.image, self.folder)
            self._stack.callback(self.containers.remove)
        self.cluster = _Cluster(directory, self.actions.folder, self._aim, self.containers, self.zookeepers)
        self._stack.callback(self.cluster.down)
        self.cluster.up(settings)
        self.client = self.new_client("faults")
        self._stack.callback(self.client.close)
        self.pool = self._make_pool()
        self._watch()

    def new_client(self, name: str, discovery: Discovery | None = None) -> PelotonClient:
        own = client_identity(self.cluster.directory)
        return PelotonClient(name, discovery=discovery or self.discovery, **own)

    def down(self) -> None:
        self._over.set()
        self._stack.close()

    def _aim(self, cluster: Cluster) -> None:
        master = next(part for part in cluster.components() if part.kind == "mesos-master")
        self.mesos.target = ("127.0.0.1", master.http)

    def _settings(self) -> ClusterSettings:
        common = {**self._membership(), **self._storage()}
        jobmgr = {**common, "shared": self.setup.sharing > 0}
        if not self.setup.simulated:
            jobmgr["goal_state"] = {"rows_per_cycle": ROWS}
        placement = {name: tree for name, tree in common.items() if name == "membership"}
        proxied = {"master": self.mesos.address} if self.setup.masters == 1 else {}
        mesos = {"mesos": {**proxied, "agents_interval": 2.0}}
        reconcile = {"reconcile": {"repeat_after": 5.0, "interval": 15.0, "launch_grace": 5.0}}
        return ClusterSettings(
            ports="free",
            instances=Instances(
                jobmgr=self.setup.sharing or 2,
                resmgr=2,
                hostmgr=2,
                placement=(("batch",), ("stateless", "stateful", "daemon")),
            ),
            simulated=Simulated(agents=self.setup.simulated) if self.setup.simulated else None,
            master_flags=(
                f"--history={self.folder / 'mesos.jsonl'}",
                f"--agent-ping-timeout={PING_SECONDS}",
                f"--max-agent-ping-timeouts={PINGS}",
                "--agent-reregister-timeout=20",
                f"--zk-session-timeout={self.setup.session_seconds}",
            ),
            mesos_masters=self.setup.masters,
            launch_seconds=self.setup.launch_seconds,
            secure=self.setup.secure,
            # The proxy of a single one repeats and loses what it says.
            secure_master=None if self.setup.masters > 1 else False,
            membership=f"zookeeper={self.zookeeper.address}" if self.zookeeper is not None else "local",
            settings=DaemonSettings(
                jobmgr=jobmgr, resmgr=common, hostmgr={**common, **mesos, **reconcile}, placement=placement
            ),
        )

    def _membership(self) -> Tree:
        if not self.setup.zookeeper:
            return {}
        self.zookeeper = self._stack.enter_context(zookeeper_server(self.folder / "zookeeper"))
        for number in range(self.setup.sharing):
            proxy = self.zookeepers[f"jobmgr{number}"] = Proxy("127.0.0.1", self.zookeeper.port)
            proxy.start()
            self._stack.callback(proxy.close)
        session = self.setup.session_seconds
        tree = {"kind": "zookeeper", "servers": self.zookeeper.address, "session_seconds": session}
        return {"membership": tree}

    def _storage(self) -> Tree:
        if not self.setup.cassandra:
            return {}
        folder = self.folder / "cassandra"
        self.cassandra = self._stack.enter_context(cassandra_server(folder, lasting=Lasting.ALL))
        self.store = Proxy("127.0.0.1", self.cassandra.port)
        self.store.start()
        self._stack.callback(self.store.close)
        found = settings_for(self.cassandra, folder)
        up(found)  # on a busy machine it takes longer than daemons may take to be ready
        settings = found.model_dump(mode="json")
        own = {"port": self.store.port, "auto_migrate": True, "request_timeout": 5.0, "connect_timeout": 5.0}
        return {"storage": {**settings, **own}}

    def _make_pool(self) -> str:
        amounts = (("cpu", 12), ("memory", 6144), ("disk", 60000), ("gpu", 0))
        config = respool_pb2.ResourcePoolConfig(
            name=POOL,
            parent=peloton_pb2.ResourcePoolID(value="root"),
            resources=[
                respool_pb2.ResourceConfig(kind=kind, limit=1e6, share=1, reservation=reserved)
                for kind, reserved in amounts
            ],
        )
        request = respool_pb2.CreateRequest(config=config)
        made: list[str] = []

        def answers() -> bool:
            try:
                made.append(self.client.respool_svc.CreateResourcePool(request, timeout=10).result.value)
            except grpc.RpcError:
                return False
            return bool(made[-1])

        until(answers, 60, "a resource pool")
        return made[-1]

    # What is seen of it.

    def events(self, since: float) -> list[Event]:
        sent = self._events.since(since)
        return sorted([*sent, *(each for each in self._dead if each.at >= since)], key=lambda each: each.at)

    def live(self) -> list[tuple[Run, str]]:
        """Runs that Mesos' agents have."""
        return [
            (Run.of(task["id"]), task["slave_id"])
            for framework in self._state()["frameworks"]
            for task in framework["tasks"]
            if task["state"] in LIVE
        ]

    def launching(self, job_id: str, since: float) -> list[str]:
        """Ids of the agents to which runs of the job were sent, and that have sent no update of these yet."""
        events = [each for each in self.events(since) if each.run is not None and each.run.job == job_id]
        started = {each.run for each in events if each.kind == "update"}
        return [each.agent for each in events if each.kind == "launch" and each.run not in started]

    def agent(self, agent_id: str) -> str:
        """Name of the component that is the agent."""
        agents = [part.name for part in self.cluster.components() if part.kind == "mesos-agent"]
        return next(name for name in agents if self._agent_id(name) == agent_id)

    def _agent_id(self, name: str) -> str:
        return str(json.loads(self.cluster.layout.ready_of(name).read_text())["agent_id"])

    def leading_master(self) -> str | None:
        """Name of the component; None while none leads that can be reached."""
        try:
            port = self._state()["leader_info"]["port"]
        except OSError:
            return None
        return next(part.name for part in self._masters() if part.http == port)

    def _state(self) -> Any:
        """Return the state of the leading Mesos master, to which the others redirect. Raise OSError."""
        context = https_context(self.cluster.layout) if self.setup.secure and self.setup.masters > 1 else None
        if context is not None:
            context.load_cert_chain(*self.cluster.layout.certificate_of(CLIENT))
        scheme = "http" if context is None else "https"
        for part in self._masters():
            url = f"{scheme}://{part.addresses['http']}/state"
            try:
                with urllib.request.urlopen(url, timeout=10, context=context) as answer:
                    return json.load(answer)
            except OSError as error:
                missed = error
        raise missed

    def _masters(self) -> list[Component]:
        return [part for part in self.cluster.components() if part.kind == "mesos-master"]

    def leader(self, role: str) -> str:
        """Name of the component that leads. Raises DiscoveryError."""
        target = self.discovery.address(role)
        found = [part.name for part in self.cluster.components() if part.addresses.get("grpc") == target]
        return found[0]

    def takeover(self, role: str, before: str = "") -> Takeover:
        """To make just before the role's leader goes; or just after, with its address."""
        return Takeover(self.discovery, role, before or self.discovery.address(role), self.new_client)

    def _watch(self) -> None:
        client = self.new_client("probe")
        self.probes = {role: Probe(partial(ask, client)) for role, ask in QUESTIONS.items()}
        for role, probe in self.probes.items():
            arguments = (role, probe)
            thread = threading.Thread(target=self._probe, args=arguments, name=f"probe-{role}", daemon=True)
            thread.start()
            self._stack.callback(thread.join, 10)
        self._stack.callback(self._over.set)

    def _probe(self, role: str, probe: Probe) -> None:
        while not self._over.wait(0.1):
            try:
                leader = self.discovery.address(role)
                if not probe.leaders or probe.leaders[-1][1] != leader:
                    probe.leaders.append((time.time(), leader))
                served = probe.ask()
            except (grpc.RpcError, DiscoveryError):
                continue
            if served:
                probe.served.append(time.time())

    # Faults.

    def kill(self, name: str) -> None:
        if self._contained(name):
            self._end_container(name, signal.SIGKILL)
        else:
            self.cluster.kill([name])

    def _end_container(self, name: str, number: signal.Signals) -> None:
        process = self._process(name)
        self.signal(name, number)
        until(lambda: not process.alive(), END_SECONDS, f"the end of {name}", 0.02)

    def _contained(self, name: str) -> bool:
        return self.containers is not None and self.containers.has(name)

    def trigger(self, role: str, point: str, trigger: Trigger) -> Path:
        """Set a trigger for the role's leader at a point of `tests.faults.recording_daemon`.

        The file is removed when the trigger fires.
        """
        return set_trigger(self.actions.folder, role, point, trigger)

    def pid(self, name: str) -> int:
        assert not self._contained(name), f"{name} has another pid where its container is seen from"
        process = self._process(name)
        return process.pid

    def ended(self, name: str) -> bool:
        return not self._process(name).alive()

    def stop(self, name: str) -> None:
        """In good order."""
        if self._contained(name):
            self._end_container(name, signal.SIGTERM)
        else:
            self.cluster.stop([name])

    def start(self, name: str) -> None:
        self.cluster.start([name])

    def signal(self, name: str, number: signal.Signals) -> None:
        if self.containers is not None and self._contained(name):
            self.containers.signal(name, number)
        else:
            process = self._process(name)
            if number == signal.SIGSTOP:
                freeze(process.pid)
            else:
                process.signal(number)

    def _process(self, name: str) -> Process:
        part = next(part for part in self.cluster.components() if part.name == name)
        process = self.cluster._process(part)
        assert process is not None, f"{name} does not run"
        return process

    def start_dead(self) -> list[str]:
        """Start what does not run, as a supervisor would; returns what that was."""
        dead = [each.name for each in self.cluster.status() if each.state in ("stopped", "dead")]
        if dead:
            self.cluster.start(dead)
        return dead

    def lose_agent(self, name: str) -> None:
        """With all that it runs and knows: what is started under its name afterwards is another."""
        agent_id = self._agent_id(name)
        self.kill(name)
        work = self.cluster.layout.work_of(name)
        kill_tasks(work)
        self._dead.append(Event(time.time(), "dead", agent=agent_id))
        shutil.rmtree(work, ignore_errors=True)

    def unreachable_since(self, since: float) -> bool:
        """Return whether the framework got the FAILURE event of an agent."""
        return any(event.kind == "failure" for event in self.events(since) if event.at >= since)


def until(holds: Callable[[], bool], seconds: float, what: str, pause: float = 0.1) -> None:
    """Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what}: not within {seconds:g} s")
        time.sleep(pause)
