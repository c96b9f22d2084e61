"""Settings of a minicluster: the YAML of `peloton minicluster up --config FILE`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from minicluster.mesos.common.launch_costs import parse_seconds
from peloton.config.base import Settings
from peloton.config.loading import validated
from peloton.config.sources import Tree, read_yaml
from peloton.config.tasktypes import PlacedTaskTypes
from peloton.model.cluster import is_cluster_name

BASE_PORTS = {
    "zookeeper": (2181, 0),
    "cassandra": (9042, 7000),
    "mesos-master": (5050, 0),
    "etcd": (2379, 2380),
    "kube-apiserver": (6443, 0),
    "sandboxes": (5056, 0),
    "jobmgr": (5292, 5392),
    "resmgr": (5290, 5394),
    "hostmgr": (5291, 5391),
    "batch": (5293, 5393),
    "stateless": (5294, 5399),
    "stateful": (5296, 5398),
    "daemon": (5298, 5390),
    "archiver": (5295, 5395),
    "web": (5297, 0),
}
"""HTTP and gRPC port of the first instance; each further one on the machine takes 10 more. Of Cassandra: for
clients and for other servers."""

AGENT_PORT = 5051
OWN = "own"
"""For `kubernetes`: servers that are started along."""
MOST_CLUSTERS = 5
_ADDRESS = re.compile(r"[^:/\s]+:\d{1,5}")


class Agent(Settings):
    """One agent; resources and attributes in Mesos' own notation."""

    hostname: str
    """Its name, by which constraints and `peloton host` know it."""
    resources: str = "cpus:4;mem:2048;disk:20000;ports:[31000-31999]"
    """What it offers: cores, MB of memory and disk, ports. Agents on one machine need ports of their own."""
    attributes: str = ""
    """Labels of the host, such as `rack:r1;zone:a`."""
    revocable: str = ""
    """What it offers for revocable tasks, such as `cpus:2`."""


class Simulated(Settings):
    """Agents inside the master's process whose tasks only last: for benchmarks."""

    agents: int = Field(ge=1, le=50_000)
    """How many there are."""
    resources: str = "cpus:8;mem:16384;disk:100000;ports:[31000-31999]"
    """What each offers."""
    attributes: str = ""
    """Labels of each host. Where a value has several with `|` between, such as `rack:a|b|c`, hosts take these
    in turn; those that take an empty one do not have the label."""
    task_seconds: float = Field(1.0, ge=0)
    """Seconds after which a task succeeds."""
    usage: bool = False
    """Whether they are asked what their tasks use, as real ones are: a share of what each asks for."""


class Instances(Settings):
    """How many instances of each daemon and of the web UI run; of placement, the task types of each."""

    jobmgr: int = Field(1, ge=1, le=9)
    """Job managers: one leads, the others wait."""
    resmgr: int = Field(1, ge=1, le=9)
    """Resource managers, likewise."""
    hostmgr: int = Field(1, ge=1, le=9)
    """Host managers, likewise."""
    archiver: int = Field(0, ge=0, le=9)
    """Archivers of old jobs."""
    web: int = Field(0, ge=0, le=9)
    """Where none is given, `peloton minicluster up` starts one."""
    placement: tuple[PlacedTaskTypes, ...] = (("batch", "stateless", "stateful", "daemon"),)
    """Placement engines, each with the types of the tasks that it places."""

    @field_validator("placement")
    @classmethod
    def _some(cls, value: tuple[PlacedTaskTypes, ...]) -> tuple[PlacedTaskTypes, ...]:
        if not value:
            raise ValueError("at least one placement engine is needed")
        return value


class DaemonSettings(Settings):
    """Merged over each daemon's own configuration."""

    jobmgr: dict[str, Any] = Field(default_factory=dict)
    """Settings of the job managers, as docs/settings.md has them."""
    resmgr: dict[str, Any] = Field(default_factory=dict)
    """Settings of the resource managers, as docs/settings.md has them."""
    hostmgr: dict[str, Any] = Field(default_factory=dict)
    """Settings of the host managers, as docs/settings.md has them."""
    placement: dict[str, Any] = Field(default_factory=dict)
    """Settings of the placement engines, as docs/settings.md has them."""
    archiver: dict[str, Any] = Field(default_factory=dict)
    """Settings of the archivers, as docs/settings.md has them."""
    web: dict[str, Any] = Field(default_factory=dict)
    """Settings of the web UI, as docs/settings.md has them."""


def _three_agents(first_port: int = 31000) -> tuple[Agent, ...]:
    """They share 127.0.0.1, so they differ in ports."""
    return tuple(
        Agent(
            hostname=f"peloton-mesos-agent{i}",
            resources=f"cpus:4;mem:2048;disk:20000;ports:[{first}-{first + 999}]",
        )
        for i, first in enumerate(range(first_port, first_port + 3000, 1000))
    )


class NamedCluster(Settings):
    """A further cluster: a hostmgr, a Mesos master and agents. Its hosts are named `<name>/<hostname>`."""

    name: str
    """Up to 63 letters, digits and `_.-`, with no sign at an end."""
    agents: tuple[Agent, ...] = Field(default_factory=_three_agents)
    """Its agents; three where none is named."""
    simulated: Simulated | None = None
    """Simulated agents in place of `agents`, where those of the first cluster are simulated, too."""
    kubernetes: str = ""
    """In place of Mesos: the kubeconfig of a cluster of Kubernetes that runs already, with a namespace
    `peloton`. `agents` do not count then."""

    @field_validator("name")
    @classmethod
    def _a_name(cls, value: str) -> str:
        if not is_cluster_name(value):
            raise ValueError(f"{value!r} is not up to 63 letters, digits and _.-, with no sign at an end")
        return value


class ClusterSettings(Settings):
    """A whole cluster on one machine."""

    agents: tuple[Agent, ...] = Field(default_factory=_three_agents)
    """The agents; three with 4 cores and 2048 MB each where none is named."""
    bare: bool = False
    """Whether only Mesos and the servers run, without any daemon: `peloton deploy` can start these."""
    instances: Instances = Instances()
    """How many processes of each daemon run."""
    ports: Literal["default", "free"] = "default"
    """`default`, the usual ports, so that nothing else has to be said to find the cluster; `free`, any."""
    settings: DaemonSettings = DaemonSettings()
    """Settings of the daemons, such as `resmgr: {preemption: {strikes: 2}}`."""
    mesos: str = ""
    """HOST:PORT of a Mesos master that already runs, in place of an own one; the agents are then not ours."""
    kubernetes: str = ""
    """In place of Mesos: `own`, an etcd, an API server of Kubernetes and a kubelet for each of `agents`,
    which runs pods as processes; or the kubeconfig of a cluster that runs already."""
    kubelets: bool | None = None
    """Whether kubelets are started. Where not set: for an API server of one's own."""
    mesos_masters: int = Field(1, ge=1, le=5)
    """Several elect one among them through the ZooKeeper of `membership`."""
    membership: str = "local"
    """How daemons find each other: `local`, by a folder; `zookeeper`, by a server that is started along;
    `zookeeper=HOST:PORT,…`, by servers that run already."""
    storage: str = "sqlite"
    """Where daemons keep what lasts: `sqlite`, in a file of the cluster's folder; `cassandra`, on a server
    that is started along; `cassandra=HOST:PORT,…`, on servers that run already, all at one port."""
    cassandra: dict[str, Any] = Field(default_factory=dict)
    """Further settings of a Cassandra store, as a daemon's `storage` has them: keyspace, username, …"""
    secure: bool = False
    """Whether the daemons and the web UI speak TLS, know each other by certificates, encrypt secrets of jobs,
    and ask callers who they are, by users that are made with the cluster: admin may do everything, viewer may
    read. Their passwords are in the cluster's folder `auth`, the authority in `certificates`."""
    secure_master: bool | None = None
    """Whether the own masters of a secure cluster speak TLS, with those only that have a certificate of its
    authority, as its agents and host managers have. Where not set: unless agents are simulated, as for
    benchmarks of the daemons."""
    secure_agents: bool | None = None
    """Whether the own agents of a secure cluster speak TLS, too, and ask for a principal's secret. Where not
    set: unless agents are simulated, which serve nothing."""
    isolation: Literal["none", "auto", "require"] | None = None
    """Whether tasks of own agents run as users of their own (where the agents are root's) and in namespaces
    of their own, without the cluster's folder and each other's sandboxes and processes: `none`; `auto`, as
    far as the machine allows, and `up` says where it does not; `require`, or `up` refuses. Where not set:
    `auto` in a secure cluster, `none` in others."""
    clusters: tuple[NamedCluster, ...] = ()
    """Further clusters beside the first one, which has no name."""
    master_flags: tuple[str, ...] = ()
    """Further flags for the own master, as `python -m minicluster.mesos.master --help` lists them."""
    agent_flags: tuple[str, ...] = ()
    """Further flags for the own agents, as `python -m minicluster.mesos.agent --help` lists them."""
    simulated: Simulated | None = None
    """Simulated agents in place of real ones."""
    images: Literal["refuse", "docker", "plain"] = "refuse"
    """What becomes of a task that asks for an image: it fails as on an agent without docker; docker runs it;
    it is run as a plain process."""
    launch_seconds: str = "0"
    """How long a launch takes on an agent, MIN-MAX: drawn by a generator whose seed is the agent's number."""
    executor_starts_per_second: float = Field(0.0, ge=0, allow_inf_nan=False)
    """How many executors an agent can start; 0: no limit. A real one manages about 4."""
    executor_registration_timeout: float = Field(60.0, gt=0, allow_inf_nan=False)
    """Seconds after which a launch that is not done has failed."""
    concurrent_launches: int = Field(0, ge=0)
    """How many launches go on at a time on an agent; 0: no limit."""

    @property
    def masters_speak_tls(self) -> bool:
        """Whether the own masters do."""
        wanted = self.simulated is None if self.secure_master is None else self.secure_master
        return self.secure and wanted and not (self.mesos or self.kubernetes)

    @property
    def agents_ask(self) -> bool:
        """Whether the own agents speak TLS, and with those only that have credentials."""
        return self.secure and self._has_agents and self.secure_agents is not False

    @property
    def tasks_isolated(self) -> Literal["none", "auto", "require"]:
        """Whether the own agents isolate tasks."""
        if not self._has_agents:
            return "none"
        return self.isolation or ("auto" if self.secure else "none")

    @property
    def _has_agents(self) -> bool:
        return self.simulated is None and not (self.mesos or self.kubernetes)

    @property
    def runs_pods(self) -> bool:
        """Whether tasks may run on Kubernetes."""
        return bool(self.kubernetes) or any(each.kubernetes for each in self.clusters)

    @property
    def has_kubelets(self) -> bool:
        """Whether kubelets are started."""
        return self.kubernetes == OWN if self.kubelets is None else self.kubelets

    @property
    def launches_cost(self) -> bool:
        """Whether launches take time on the agents, or they are another's, of which nothing is known."""
        costs = (
            self.executor_starts_per_second
            or self.concurrent_launches
            or parse_seconds(self.launch_seconds)[1]
        )
        return bool(self.mesos or costs)

    @field_validator("launch_seconds")
    @classmethod
    def _a_range(cls, value: str) -> str:
        parse_seconds(value)
        return value

    @model_validator(mode="after")
    def _can_elect(self) -> Self:
        if self.mesos_masters > 1:
            if self.membership == "local":
                raise ValueError("mesos_masters: several need `membership: zookeeper`")
            if self.mesos or self.simulated is not None:
                raise ValueError("mesos_masters: only own masters without simulated agents can be several")
        return self

    @model_validator(mode="after")
    def _mesos_or_kubernetes(self) -> Self:
        others = self.mesos or self.clusters or self.simulated or self.mesos_masters > 1
        if self.kubernetes and others:
            raise ValueError("kubernetes: in place of `mesos`, `mesos_masters`, `simulated` and `clusters`")
        if self.kubelets and not self.kubernetes:
            raise ValueError("kubelets: counts with `kubernetes` only")
        return self

    @field_validator("mesos")
    @classmethod
    def _address(cls, value: str) -> str:
        if value and not _ADDRESS.fullmatch(value):
            raise ValueError("give the address of a Mesos master as HOST:PORT")
        return value

    @field_validator("membership")
    @classmethod
    def _known_membership(cls, value: str) -> str:
        _servers(value.partition("/")[0] if "=" in value else value, "local", "zookeeper")
        return value

    @field_validator("storage")
    @classmethod
    def _known_storage(cls, value: str) -> str:
        servers = _servers(value, "sqlite", "cassandra")
        if len({one.rpartition(":")[2] for one in servers}) > 1:
            raise ValueError("Cassandra's servers all listen at the same port")
        return value

    @model_validator(mode="after")
    def _where_it_counts(self) -> ClusterSettings:
        if self.cassandra and self.storage == "sqlite":
            raise ValueError("`cassandra` counts with `storage: cassandra` only")
        return self

    @field_validator("clusters", mode="before")
    @classmethod
    def _number_of_clusters(cls, value: Any) -> Any:
        """Take a number, of clusters in all, for further ones with the names cluster2, cluster3, …."""
        if isinstance(value, int) or (isinstance(value, str) and value.isascii() and value.isdigit()):
            if not 1 <= int(value) <= MOST_CLUSTERS:
                raise ValueError(f"should be 1 to {MOST_CLUSTERS} clusters in all, or a list of further ones")
            return [
                NamedCluster(name=f"cluster{i}", agents=_three_agents(28000 + 3000 * i))
                for i in range(2, int(value) + 1)
            ]
        return value

    @model_validator(mode="after")
    def _distinct_clusters(self) -> Self:
        names = [each.name for each in self.clusters]
        if len(set(names)) < len(names):
            raise ValueError(f"clusters: names must differ: {', '.join(names)}")
        if names and self.mesos:
            raise ValueError("clusters: further ones are started beside an own master only")
        if self.simulated is None and any(each.simulated for each in self.clusters):
            raise ValueError("clusters: simulated agents count only where those of the first one are, too")
        return self

    @model_validator(mode="after")
    def _agents_as_secure(self) -> Self:
        if self.secure_agents and not self.agents_ask:
            raise ValueError("secure_agents: counts for own agents with `secure: true` only")
        if self.isolation not in (None, "none") and not self._has_agents:
            raise ValueError(
                "isolation: counts for own agents only, not for those of `mesos` and `simulated`"
            )
        if self.secure_master and (not self.secure or self.mesos):
            raise ValueError("secure_master: counts for own masters with `secure: true` only")
        return self

    @field_validator("agents")
    @classmethod
    def _distinct(cls, value: tuple[Agent, ...]) -> tuple[Agent, ...]:
        names = [agent.hostname for agent in value]
        if len(set(names)) < len(names):
            raise ValueError(f"hostnames must differ: {', '.join(names)}")
        return value


def with_web(settings: ClusterSettings) -> ClusterSettings:
    """Return the settings with a web UI, unless they say how many. What counts as given stays the same."""
    if "web" in settings.instances.model_fields_set:
        return settings
    instances = settings.instances.model_copy(update={"web": 1})
    given = {**dict(settings), "instances": instances}
    return ClusterSettings.model_construct(_fields_set=settings.model_fields_set, **given)


def _servers(value: str, embedded: str, kind: str) -> Sequence[str]:
    """Those that are named. Raise ValueError where the value is none of its forms."""
    found, given, servers = value.partition("=")
    if given and found == kind:
        wrong = [one for one in servers.split(",") if not _ADDRESS.fullmatch(one)]
        if wrong:
            raise ValueError(f"give each {kind} server as HOST:PORT, not {wrong[0]!r}")
        return servers.split(",")
    if value not in (embedded, kind):
        raise ValueError(f"should be {embedded}, {kind} or {kind}=HOST:PORT,…")
    return ()


def read_cluster(file: Path | None, overrides: Tree | None = None) -> ClusterSettings:
    """Read settings from a file (or the defaults) with `overrides` on top. Raise ConfigError."""
    tree = read_yaml(file) if file is not None else {}
    given = {name: f"--{name.replace('_', '-')}" for name in overrides or ()}
    return validated(ClusterSettings, {**tree, **(overrides or {})}, str(file or "minicluster"), given)
