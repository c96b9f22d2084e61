"""Derive a cluster's processes from its settings: names, ports, command lines, configuration files."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from minicluster.credentials import AGENT, MASTER, PRINCIPAL, TASK
from minicluster.layout import Layout
from minicluster.servers import cassandra, kubernetes, zookeeper
from minicluster.settings import OWN, Agent, ClusterSettings, NamedCluster, Simulated
from peloton.config.sources import Tree, merged

LOOPBACK = "127.0.0.1"
MASTER_SESSION_SECONDS = 5
"""ZooKeeper session of a Mesos master: how long the others wait for a leader that died."""
CONCURRENT_LAUNCHES = 1000
"""Runs that may be starting on one of our agents, where launches cost nothing."""
ZOOKEEPER = "zookeeper"
CASSANDRA = "cassandra"
DAEMONS = ("hostmgr", "resmgr", "jobmgr", "placement", "archiver")
"""In the order of starting; any order would do, since they wait for each other."""
PROCESS = "process"
"""What stands for the image of tasks that name none: kubelets of the minicluster run processes."""
WEB = "web"
MODULES = {**{daemon: daemon for daemon in DAEMONS}, WEB: "peloton.web"}
"""Python modules of the processes that have a configuration file."""
ETCD, API_SERVER, KUBELET = "etcd", "kube-apiserver", "kubelet"
SANDBOXES = "sandboxes"
"""The name of the port of hostmgr's by which logs of pods are read."""
PROTOCOLS = {ZOOKEEPER: "zk", CASSANDRA: "cql", API_SERVER: "https"}
"""Protocol of a component's first port, where that is not HTTP."""


@dataclass(frozen=True, slots=True)
class Component:
    """One process of a cluster."""

    name: str
    kind: str
    """zookeeper, cassandra, mesos-master, mesos-agent, web, or the name of a daemon."""
    http: int
    """Of ZooKeeper and Cassandra, the port for clients."""
    grpc: int
    """0 except for daemons."""
    settings: Tree
    """Content of the configuration file of a daemon or of the web UI."""
    flags: tuple[str, ...] = ()
    """Command line flags of a Mesos master or agent."""
    storage_port: int = 0
    """Of Cassandra, the port for other servers."""

    @property
    def configured(self) -> bool:
        """Whether it has a configuration file, and answers /health."""
        return self.kind in MODULES

    @property
    def cluster(self) -> str:
        """The name of the Mesos cluster of a hostmgr; empty for all other components."""
        return str(self.settings.get("mesos", {}).get("cluster", ""))

    @property
    def addresses(self) -> dict[str, str]:
        """HOST:PORT by protocol."""
        found = {PROTOCOLS.get(self.kind, "http"): f"{LOOPBACK}:{self.http}"} if self.http else {}
        if self.grpc:
            found["grpc"] = f"{LOOPBACK}:{self.grpc}"
        return found


Ports = Callable[[str, str, int], tuple[int, int]]
"""HTTP and gRPC port of a component: name, kind (for placement the task type), index among its kind."""


def components(cluster: ClusterSettings, layout: Layout, ports: Ports) -> tuple[Component, ...]:
    """Return all components of a cluster, in the order of starting."""
    found: list[Component] = []
    if cluster.membership == "zookeeper":
        found.append(Component(ZOOKEEPER, ZOOKEEPER, ports(ZOOKEEPER, ZOOKEEPER, 0)[0], 0, {}))
    if cluster.storage == CASSANDRA:
        port, storage_port = ports(CASSANDRA, CASSANDRA, 0)
        found.append(Component(CASSANDRA, CASSANDRA, port, 0, {}, storage_port=storage_port))
    master = cluster.mesos
    if cluster.kubernetes:
        found += _kubernetes(cluster, layout, ports)
    elif not master:
        found += (_master(i, cluster, layout, ports) for i in range(cluster.mesos_masters))
        master = _election(cluster, ports) or found[-1].addresses["http"]
        if cluster.simulated is None:
            found += (
                agent_component(
                    *(i, agent, master, layout, ports),
                    images=cluster.images,
                    launches=_agent_flags(cluster, layout, i),
                )
                for i, agent in enumerate(cluster.agents)
            )
    for number, further in enumerate(cluster.clusters):
        found += _further_mesos(number, further, cluster, layout, ports)
    if not cluster.bare:
        found += _daemons(cluster, layout, ports, master)
    return tuple(found)


def _kubernetes(cluster: ClusterSettings, layout: Layout, ports: Ports) -> Iterator[Component]:
    """Yield the servers of Kubernetes that are started along, and the kubelets."""
    if cluster.kubernetes == OWN:
        port, peer_port = ports(ETCD, ETCD, 0)
        yield Component(ETCD, ETCD, port, 0, {}, storage_port=peer_port)
        yield Component(API_SERVER, API_SERVER, ports(API_SERVER, API_SERVER, 0)[0], 0, {}, (str(port),))
    for i, agent in enumerate(cluster.agents if cluster.has_kubelets else ()):
        name = f"{KUBELET}{i}"
        scalars = {
            key: value for key, _, value in (each.partition(":") for each in agent.resources.split(";"))
        }
        labels = ",".join(each.replace(":", "=", 1) for each in agent.attributes.split(";") if each)
        node = agent.hostname.replace("peloton-mesos-agent", "node")
        flags = [
            f"--kubeconfig={kubeconfig(cluster, layout)}",
            f"--node={node}",
            f"--cpu={scalars.get('cpus', '4')}",
            f"--memory={scalars.get('mem', '2048')}Mi",
            f"--storage={scalars.get('disk', '20000')}Mi",
            f"--ports={scalars.get('ports', '').strip('[]')}",
            f"--work-dir={layout.work_of(name)}",
            f"--ready-file={layout.ready_of(name)}",
        ]
        if cluster.kubernetes == OWN:
            flags += kubernetes.kubelet_flags(layout.work_of(API_SERVER))
        yield Component(name, KUBELET, 0, 0, {}, (*flags, *([f"--labels={labels}"] if labels else [])))


def kubeconfig(cluster: ClusterSettings, layout: Layout) -> str:
    """Return the file by which the API server is called."""
    return str(layout.kubeconfig) if cluster.kubernetes == OWN else str(Path(cluster.kubernetes).absolute())


def _further_mesos(
    number: int, named: NamedCluster, cluster: ClusterSettings, layout: Layout, ports: Ports
) -> Iterator[Component]:
    """Yield the master and the agents of a further cluster; one of Kubernetes runs already."""
    if named.kubernetes:
        return
    master = _named(named, cluster, layout, ports, cluster.mesos_masters + number)
    yield master
    if named.simulated is not None:
        return
    first = len(cluster.agents) + sum(len(each.agents) for each in cluster.clusters[:number])
    for i, agent in enumerate(named.agents):
        yield agent_component(
            *(first + i, agent, master.addresses["http"], layout, ports),
            images=cluster.images,
            launches=_agent_flags(cluster, layout, first + i),
            name=f"mesos-agent{i}-{named.name}",
        )


def _master_of(name: str) -> str:
    return f"mesos-master-{name}"


def _named(
    named: NamedCluster, cluster: ClusterSettings, layout: Layout, ports: Ports, index: int
) -> Component:
    """Return the only master of a further cluster."""
    name = _master_of(named.name)
    http, _ = ports(name, "mesos-master", index)
    flags = [*_common(name, layout, http), *_master_security(cluster, layout), *cluster.master_flags]
    flags += _simulated(named.simulated, cluster)
    return Component(name, "mesos-master", http, 0, {}, tuple(flags))


def zookeeper_servers(cluster: ClusterSettings, ports: Ports) -> str:
    """Return the servers by which daemons find each other; empty where they do by a folder."""
    kind, _, servers = cluster.membership.partition("=")
    if kind != ZOOKEEPER:
        return ""
    return servers or f"{LOOPBACK}:{ports(ZOOKEEPER, ZOOKEEPER, 0)[0]}"


def storage_settings(cluster: ClusterSettings, layout: Layout, ports: Ports) -> Tree:
    """Return the setting `storage` of the daemons. Settings of one daemon are merged over it."""
    kind, _, given = cluster.storage.partition("=")
    keys: Tree = {"secret_keys_file": str(layout.secret_keys)} if cluster.secure else {}
    if kind != CASSANDRA:
        return {"kind": "sqlite", "path": str(layout.database), **keys}
    servers = given.split(",") if given else [f"{LOOPBACK}:{ports(CASSANDRA, CASSANDRA, 0)[0]}"]
    found: Tree = {
        "kind": CASSANDRA,
        "contact_points": [server.rpartition(":")[0] for server in servers],
        "port": int(servers[0].rpartition(":")[2]),
        # Three copies at most, and no more than there are servers to hold them.
        "replication": {"class": "NetworkTopologyStrategy", "replication_factor": min(3, len(servers))},
        **keys,
    }
    return merged(found, cluster.cassandra)


def external_servers(cluster: ClusterSettings) -> dict[str, dict[str, str]]:
    """Return the addresses of servers that are not the cluster's own, by kind and protocol."""
    found = {
        kind: {PROTOCOLS[kind]: servers}
        for kind, _, servers in (cluster.membership.partition("="), cluster.storage.partition("="))
        if servers
    }
    return {**found, "mesos-master": {"http": cluster.mesos}} if cluster.mesos else found


def embedded_servers(cluster: ClusterSettings) -> dict[str, Sequence[str]]:
    """Return the Maven artifacts of the servers that are started with the cluster, by kind."""
    wanted: tuple[tuple[str, str, Sequence[str]], ...] = (
        (cluster.membership, ZOOKEEPER, zookeeper.ARTIFACTS),
        (cluster.storage, CASSANDRA, cassandra.ARTIFACTS),
    )
    return {kind: artifacts for chosen, kind, artifacts in wanted if chosen == kind}


def command(component: Component, layout: Layout) -> list[str]:
    """Return the command line. Raise PelotonError where an embedded server lacks what it needs."""
    if component.kind == ZOOKEEPER:
        folder = layout.work_of(component.name)
        zookeeper.configure(folder, component.http)
        return zookeeper.command(folder)
    if component.kind == CASSANDRA:
        server = cassandra.Server(layout.work_of(component.name), component.http, component.storage_port)
        cassandra.configure(server)
        return cassandra.command(server)
    if component.kind == ETCD:
        layout.work_of(component.name).mkdir(parents=True, exist_ok=True)
        return kubernetes.etcd_command(layout.work_of(component.name), component.http, component.storage_port)
    if component.kind == API_SERVER:
        kubernetes.configure(layout.work_of(component.name))
        return kubernetes.command(layout.work_of(component.name), component.http, int(component.flags[0]))
    if component.kind == KUBELET:
        return [sys.executable, "-m", "minicluster.kubernetes.kubelet", *component.flags]
    if component.configured:
        return [sys.executable, "-m", MODULES[component.kind], "-c", str(layout.conf_of(component.name))]
    part = component.kind.removeprefix("mesos-")
    return [sys.executable, "-m", f"minicluster.mesos.{part}", *component.flags]


def agent_component(
    index: int,
    agent: Agent,
    master: str,
    layout: Layout,
    ports: Ports,
    *,
    images: str,
    launches: Sequence[str],
    name: str = "",
) -> Component:
    """Return the component of one agent; `launches` are its flags for the costs of launches, and others."""
    name = name or f"mesos-agent{index}"
    http, _ = ports(name, "mesos-agent", index)
    flags = [
        *_common(name, layout, http),
        f"--master={master}",
        f"--hostname={agent.hostname}",
        f"--resources={agent.resources}",
        f"--images={images}",
        *launches,
    ]
    flags += [f"--attributes={agent.attributes}"] if agent.attributes else []
    flags += [f"--revocable={agent.revocable}"] if agent.revocable else []
    return Component(name, "mesos-agent", http, 0, {}, tuple(flags))


def _election(cluster: ClusterSettings, ports: Ports) -> str:
    """Return the ZooKeeper path at which several masters elect a leader; empty for a single one."""
    return f"zk://{zookeeper_servers(cluster, ports)}/mesos" if cluster.mesos_masters > 1 else ""


def _master(index: int, cluster: ClusterSettings, layout: Layout, ports: Ports) -> Component:
    kind = "mesos-master"
    name = f"{kind}{index}" if index else kind
    http, _ = ports(name, kind, index)
    flags = _common(name, layout, http)
    if election := _election(cluster, ports):
        flags += [f"--zk={election}", f"--zk-session-timeout={MASTER_SESSION_SECONDS}"]
    flags += [*_master_security(cluster, layout), *cluster.master_flags]
    flags += _simulated(cluster.simulated, cluster)
    return Component(name, kind, http, 0, {}, tuple(flags))


def _simulated(simulated: Simulated | None, cluster: ClusterSettings) -> list[str]:
    """Return a master's flags for its simulated agents."""
    if simulated is None:
        return []
    flags = [
        f"--simulated-agents={simulated.agents}",
        f"--simulated-resources={simulated.resources}",
        f"--simulated-task-seconds={simulated.task_seconds}",
        *_launches(cluster, "simulated-"),
    ]
    return flags + ([f"--simulated-attributes={simulated.attributes}"] if simulated.attributes else [])


def _launches(cluster: ClusterSettings, prefix: str = "", seed: int = 0) -> list[str]:
    """Return what launches cost, as flags of an agent, or of the master for simulated agents."""
    return [
        f"--{prefix}launch-seconds={cluster.launch_seconds}",
        f"--{prefix}launch-seed={seed}",
        f"--{prefix}executor-starts-per-second={cluster.executor_starts_per_second}",
        f"--{prefix}executor-registration-timeout={cluster.executor_registration_timeout}",
        f"--{prefix}concurrent-launches={cluster.concurrent_launches}",
    ]


def _common(name: str, layout: Layout, port: int) -> list[str]:
    return [
        f"--ip={LOOPBACK}",
        f"--port={port}",
        f"--work-dir={layout.work_of(name)}",
        f"--ready-file={layout.ready_of(name)}",
    ]


def _daemons(cluster: ClusterSettings, layout: Layout, ports: Ports, master: str) -> Iterator[Component]:
    servers = zookeeper_servers(cluster, ports)
    membership: Tree = {"kind": "local", "directory": str(layout.membership)}
    if servers:
        membership = {"kind": "zookeeper", "servers": servers}
    shared: Tree = {"membership": membership, **_auth(cluster, layout)}
    store: Tree = {"storage": storage_settings(cluster, layout, ports)}
    images = cluster.images != "refuse" or cluster.runs_pods
    jobs: Tree = {**store, "images": images, "hosts_address": LOOPBACK}
    own: dict[str, Tree] = {
        "hostmgr": {
            **store,
            **_cluster_manager(master, cluster, layout, ports),
            **_launch_limit(cluster),
            **_agents(cluster, layout),
            **_sampling(cluster),
        },
        "resmgr": store,
        "jobmgr": {**jobs, **_secrets_and_tasks(layout), **_agents(cluster, layout)}
        if cluster.secure
        else jobs,
        "archiver": store,
    }
    for kind in ("hostmgr", "resmgr", "jobmgr", "archiver"):
        for i in range(getattr(cluster.instances, kind)):
            settings = {**shared, **_tls(kind, cluster, layout), **own[kind]}
            yield _daemon(f"{kind}{i}", kind, ports(f"{kind}{i}", kind, i), settings, cluster)
    for i, further in enumerate(cluster.clusters, cluster.instances.hostmgr):
        name, manager = f"hostmgr-{further.name}", _further_manager(further, cluster, layout, ports)
        settings = {**shared, **_tls("hostmgr", cluster, layout), **own["hostmgr"], **manager}
        yield _daemon(name, "hostmgr", ports(name, "hostmgr", i), settings, cluster)
    seen: Counter[str] = Counter()
    for i, task_types in enumerate(cluster.instances.placement):
        first = task_types[0]
        found = ports(f"placement{i}", first, seen[first])
        seen[first] += 1
        settings = {**shared, **_tls("placement", cluster, layout), "task_type": list(task_types)}
        yield _daemon(f"placement{i}", "placement", found, settings, cluster)
    for i in range(cluster.instances.web):
        http = ports(f"{WEB}{i}", WEB, i)[0]
        settings = {
            "host": LOOPBACK,
            "http_port": http,
            "membership": membership,
            **_tls(WEB, cluster, layout),
            **_agents(cluster, layout),
        }
        yield Component(f"{WEB}{i}", WEB, http, 0, merged(settings, cluster.settings.web))


def _master_security(cluster: ClusterSettings, layout: Layout) -> list[str]:
    if not cluster.masters_speak_tls:
        return []
    certificate, key = layout.certificate_of(MASTER)
    return [
        f"--tls-certificate={certificate}",
        f"--tls-key={key}",
        f"--tls-client-ca={layout.authority}",
    ]


def _cluster_manager(master: str, cluster: ClusterSettings, layout: Layout, ports: Ports) -> Tree:
    """Return the settings by which the first host manager calls Mesos, or Kubernetes."""
    if not cluster.kubernetes:
        return _mesos({"master": master}, cluster, layout)
    own: Tree = {"default_image": PROCESS} if cluster.has_kubelets else {}
    served = {"port": ports(SANDBOXES, SANDBOXES, 0)[0]}
    access = {"kubeconfig": kubeconfig(cluster, layout), "namespace": kubernetes.NAMESPACE}
    return {"kubernetes": {**access, "sandboxes": served, **own}}


def _further_manager(named: NamedCluster, cluster: ClusterSettings, layout: Layout, ports: Ports) -> Tree:
    """Return the settings by which the host manager of a further cluster calls Mesos, or Kubernetes."""
    if not named.kubernetes:
        http = ports(_master_of(named.name), "mesos-master", 0)[0]
        return _mesos({"master": f"{LOOPBACK}:{http}", "cluster": named.name}, cluster, layout)
    served = {"port": ports(f"{SANDBOXES}-{named.name}", SANDBOXES, 0)[0]}
    access = {"kubeconfig": str(Path(named.kubernetes).absolute()), "namespace": kubernetes.NAMESPACE}
    return {
        "kubernetes": {**access, "cluster": named.name, "default_image": PROCESS, "sandboxes": served},
    }


def _mesos(settings: Tree, cluster: ClusterSettings, layout: Layout) -> Tree:
    """Return the setting `mesos` of a host manager."""
    if not cluster.masters_speak_tls:
        return {"mesos": settings}
    certificate, key = map(str, layout.certificate_of("hostmgr"))
    files = {"ca_file": str(layout.authority), "certificate_file": certificate, "key_file": key}
    return {"mesos": {**settings, "tls": {"enabled": True, **files}}}


def _sampling(cluster: ClusterSettings) -> Tree:
    """Return whether agents are asked what tasks use: simulated ones where it is wished."""
    return {} if cluster.simulated is None or cluster.simulated.usage else {"usage": {"enabled": False}}


def _agent_flags(cluster: ClusterSettings, layout: Layout, seed: int) -> list[str]:
    return [*_launches(cluster, seed=seed), *_agent_security(cluster, layout), *cluster.agent_flags]


def _agent_security(cluster: ClusterSettings, layout: Layout) -> list[str]:
    certificate, key = layout.certificate_of(AGENT)
    link = [f"--master-ca={layout.authority}", f"--master-certificate={certificate}", f"--master-key={key}"]
    link = link if cluster.masters_speak_tls else []
    isolation = cluster.tasks_isolated
    link += [f"--isolation={isolation}", f"--hide={layout.root}"] if isolation != "none" else []
    if not cluster.agents_ask:
        return link
    return [
        *link,
        f"--tls-certificate={certificate}",
        f"--tls-key={key}",
        f"--credentials={layout.agent_credentials}",
    ]


def _agents(cluster: ClusterSettings, layout: Layout) -> Tree:
    """Return the setting by which a process calls agents."""
    if not cluster.agents_ask:
        return {}
    shown = {"principal": PRINCIPAL, "secret_file": str(layout.agent_secret)}
    return {"agents": {"tls": True, "ca_file": str(layout.authority), **shown}}


def _secrets_and_tasks(layout: Layout) -> Tree:
    """Return the settings by which a secure job manager takes secrets, and lets tasks call it."""
    certificate, key = layout.certificate_of(TASK)
    files = {"certificate_file": str(certificate), "key_file": str(key)}
    return {"enable_secrets": True, "task_access": {"keys_file": str(layout.task_keys), **files}}


def _auth(cluster: ClusterSettings, layout: Layout) -> Tree:
    """Return the settings by which the daemons ask who calls, and write down what is changed."""
    if not cluster.secure:
        return {}
    return {"auth": {"type": "BASIC", "config_file": str(layout.users)}, "audit": str(layout.audit)}


def _tls(kind: str, cluster: ClusterSettings, layout: Layout) -> Tree:
    """Return the settings by which a process shows its certificate and asks others for theirs."""
    if not cluster.secure:
        return {}
    certificate, key = layout.certificate_of(kind)
    files = {"certificate_file": str(certificate), "key_file": str(key)}
    return {"tls": {"ca_file": str(layout.authority), **files, "client_certificates": kind != WEB}}


def _launch_limit(cluster: ClusterSettings) -> Tree:
    """Raise hostmgr's limit, which is for real agents.

    These start a few executors a second, ours hundreds.
    """
    return {} if cluster.launches_cost else {"launches": {"concurrent": CONCURRENT_LAUNCHES}}


def _daemon(name: str, kind: str, ports: tuple[int, int], own: Tree, cluster: ClusterSettings) -> Component:
    settings = {
        "host": LOOPBACK,
        "http_port": ports[0],
        "grpc_port": ports[1],
        "instance": name,
        **own,
    }
    return Component(name, kind, *ports, merged(settings, getattr(cluster.settings, kind)))
