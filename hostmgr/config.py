"""Settings of hostmgr."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, field_validator, model_validator

from hostmgr.core.agents.sampling import SamplingLimits
from hostmgr.core.hosts.all_hosts import HELD_SHARE
from hostmgr.core.reservations.queue import ReservationLimits
from hostmgr.core.runs.launches import LaunchLimits
from hostmgr.core.state.columns import CONCURRENT_LAUNCHES
from hostmgr.core.state.host_filter import Ranking
from hostmgr.kubernetes.core.nodes import parse_toleration
from peloton.config.addresses import is_loopback
from peloton.config.base import Settings
from peloton.config.encryption import AgentSettings, ServerTlsSettings
from peloton.config.settings import DaemonSettings
from peloton.config.sources import Variable
from peloton.errors import PelotonError
from peloton.mesos.detector import parse_master
from peloton.model.cluster import UNNAMED, in_cluster, is_cluster_name
from peloton.model.pod_template import check_field, check_template
from storage.config import StorageSettings

KUBERNETES = "kubernetes"
BinPacking = Literal["FIRST_FIT", "DEFRAG", "LOAD_AWARE"]


def _checked_cluster(value: str) -> str:
    """Return a cluster's name, which may be empty. Raises ValueError for what is none."""
    if value and not is_cluster_name(value):
        raise ValueError(f"{value!r} is not up to 63 letters, digits and _.-, with no sign at an end")
    return value


ClusterName = Annotated[str, AfterValidator(_checked_cluster)]


class MasterTlsSettings(ServerTlsSettings):
    """TLS to the Mesos master, whose certificate must be for the hostname that it announces.

    The files are PEM, and read again when they change.
    """

    enabled: bool = False
    """Whether connections to the master use TLS."""
    certificate_file: Path | None = None
    """The client certificate, for masters that require one."""


class MesosSettings(Settings):
    """The Mesos master, and the framework that hostmgr registers there."""

    master: Annotated[str, Variable("MESOS_MASTER"), Variable("MESOS_ZK_PATH")] = "127.0.0.1:5050"
    """HOST:PORT, or zk://HOST:PORT,HOST:PORT/PATH for the leading one of several."""
    cluster: Annotated[ClusterName, Variable("MESOS_CLUSTER")] = UNNAMED
    """The name of this Mesos cluster where there are several: its hostmgrs elect a leader of their own. Up to
    63 letters, digits and `_.-`. One cluster may be without a name."""
    encoding: Literal["protobuf", "json"] = "protobuf"
    """Encoding of the messages to and from the master."""
    user: str = "root"
    """The user that tasks run as."""
    name: str = "Peloton"
    """The framework's name in Mesos."""
    role: str = "peloton"
    """The role of the framework; resources reserved for it are used first."""
    principal: str = "peloton"
    """The principal by which the framework subscribes, reserves and authenticates."""
    secret_file: Annotated[Path | None, Variable("MESOS_SECRET_FILE")] = None
    """File, mode 0600, with the principal's secret for Basic authentication; without it there is no
    authentication."""
    tls: MasterTlsSettings = MasterTlsSettings()
    """TLS to the master."""
    failover_timeout: float = Field(6e7, ge=0)
    """Seconds for which the master keeps the tasks while no hostmgr is subscribed."""
    gpu_resources: bool = True
    """Whether Mesos offers hosts with GPUs; it withholds them from frameworks without this capability."""
    operator_timeout: float = Field(10.0, gt=0)
    """Longest time of a call of the master's operator API, in seconds."""
    agents_interval: float = Field(10.0, gt=0)
    """Seconds between two reads of the master's map of agents; 1 for every 1,000 agents at least."""
    longest_grace: int = Field(600, ge=0, le=7200)
    """Most seconds that a task has to save its work before it is killed, of those that its workload asks for
    (grace_seconds)."""
    max_record_bytes: int = Field(64 * 1024 * 1024, ge=1024)
    """Largest event from the master, in bytes."""

    @property
    def framework(self) -> str:
        """Return the name under which the framework's id is stored."""
        return in_cluster(self.cluster, self.name)

    @field_validator("master")
    @classmethod
    def _host_and_port(cls, value: str) -> str:
        try:
            parse_master(value)
        except PelotonError as error:
            raise ValueError(str(error)) from None
        return value


class SandboxSettings(Settings):
    """Where the leader serves logs and files of tasks, and runs commands, as an agent of Mesos does.

    Callers are asked for the credentials of `agents`, and it speaks TLS where `agents.tls` is true, with the
    certificate of `tls`.
    """

    port: int = Field(0, ge=0, le=65535)
    """Port; 0: they are not served."""
    host: str = Field("127.0.0.1", min_length=1)
    """Address to listen on."""
    advertise: str = ""
    """Address at which callers find it. Where empty: `host`."""

    @model_validator(mode="after")
    def _found(self) -> Self:
        if self.port and not self.advertise and self.host in ("0.0.0.0", "::"):
            raise ValueError(f"host {self.host} is no address that others find: give advertise, too")
        return self


class ForeignPodSettings(Settings):
    """Pods that others make for Peloton to schedule."""

    enabled: bool = False
    """Whether pods with `schedulerName: peloton` are queued, in the pool that their annotation `peloton/pool`
    names, and bound. hostmgr needs the rights of deploy/kubernetes/foreign-pods.yaml."""
    namespaces: dict[str, str] = Field(default_factory=dict)
    """The paths of the pools of pods without that annotation, by namespaces: {team-a: /team-a/batch}."""

    @field_validator("namespaces")
    @classmethod
    def _paths(cls, value: dict[str, str]) -> dict[str, str]:
        for namespace, path in value.items():
            if not path.startswith("/") or path == "/":
                raise ValueError(f"{namespace}: {path!r} is not the path of a pool, such as /team/batch")
        return value


class KubernetesSettings(Settings):
    """A Kubernetes cluster in place of a Mesos master."""

    kubeconfig: Path | None = None
    """File that says where the API server is, and the credentials; without it, hostmgr runs as a pod in the
    cluster and uses its service account."""
    context: str = ""
    """The context of the kubeconfig; empty: its current one."""
    cluster: ClusterName = UNNAMED
    """The name of this cluster where there are several, as `mesos.cluster`."""
    namespace: str = ""
    """The namespace of the pods that are tasks: Peloton's alone. Empty: that of the context or of the pod."""
    default_image: str = ""
    """Image of tasks that name none; without it they are refused."""
    ports: tuple[tuple[int, int], ...] = ((31_000, 31_999),)
    """Ports of each node that tasks may take: pairs of the first and the last one."""
    tolerations: tuple[str, ...] = ()
    """Taints of nodes that tasks tolerate: KEY, KEY=VALUE, either with :EFFECT, or * for all. Nodes with
    other taints of the effect NoSchedule or NoExecute take no tasks."""
    pod_template: dict[str, Any] = Field(default_factory=dict)
    """A pod over which Peloton merges what it says of a task: a service account, a runtime class, … Fields of
    Peloton's own are refused. At each connection the API server is asked by a dry run whether it takes it."""
    job_template_fields: tuple[str, ...] = ()
    """What the `podTemplate` of a task may set, such as spec.runtimeClassName or spec.containers.env: fields
    with all that is in them. Careful: a service account or a volume reaches secrets of others."""
    storage_class: str = ""
    """The StorageClass of persistent volumes of tasks, which waits for its first consumer; empty: the default
    one of the cluster."""
    cpu_limits: bool = False
    """Whether a task has no more CPU than it requests also where others are idle."""
    longest_grace: int = Field(600, ge=0, le=7200)
    """As `mesos.longest_grace`."""
    lost_after: float = Field(300.0, gt=0)
    """Seconds for which a node may be not ready until its tasks are lost and run elsewhere."""
    keep_finished: float = Field(300.0, ge=0)
    """Seconds for which the pod of a task that has ended is kept, with its logs."""
    concurrency: int = Field(32, ge=1, le=1000)
    """Most calls that create or delete pods at a time."""
    timeout: float = Field(30.0, gt=0)
    """Longest time of a call of the API server, in seconds."""
    foreign_pods: ForeignPodSettings = ForeignPodSettings()
    """Pods of others with `schedulerName: peloton`, which Peloton queues and binds to nodes."""
    sandboxes: SandboxSettings = SandboxSettings()
    """Logs and files of tasks, and commands beside them."""

    @field_validator("ports")
    @classmethod
    def _ranges(cls, value: tuple[tuple[int, int], ...]) -> tuple[tuple[int, int], ...]:
        for first, last in value:
            if not 1 <= first <= last <= 65_535:
                raise ValueError(f"{first} to {last} are no ports from 1 to 65535, the first one first")
        return value

    @field_validator("pod_template")
    @classmethod
    def _template(cls, value: dict[str, Any]) -> dict[str, Any]:
        try:
            check_template(value, "pod_template")
        except PelotonError as error:
            raise ValueError(str(error)) from None
        return value

    @field_validator("job_template_fields")
    @classmethod
    def _job_fields(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            check_field(each)
        return value

    @field_validator("tolerations")
    @classmethod
    def _tolerations(cls, value: tuple[str, ...]) -> tuple[str, ...]:
        for each in value:
            parse_toleration(each)
        return value


class ReconcileSettings(Settings):
    """When the states of tasks are reconciled with Mesos. Times are in seconds."""

    interval: float = Field(1800.0, gt=0)
    """Seconds between two reconciliations, which are alternately explicit and implicit."""
    repeat_after: float = Field(60.0, gt=0)
    """Seconds after a subscription until its explicit reconciliation is repeated, for tasks too young for the
    first."""
    launch_grace: float = Field(30.0, ge=0)
    """Seconds after its launch for which a LAUNCHED task is not reconciled: its ACCEPT may be under way."""
    agent_reregister: float = Field(600.0, ge=0)
    """Seconds within which agents register with a new master again."""
    batch: int = Field(1000, ge=1, le=10_000)
    """Most tasks whose states are requested with one call."""


class LaunchSettings(Settings):
    """How many launches a host takes at a time, and when it is passed over."""

    concurrent: int = Field(CONCURRENT_LAUNCHES, ge=1)
    """Most runs of one host that are LAUNCHED or STARTING at a time; a gang of several tasks may exceed
    it."""
    failures: int = Field(3, ge=1)
    """Consecutive launches that fail because of the host before it is passed over."""
    first_pause: float = Field(30.0, gt=0)
    """Seconds for which a host is passed over; doubled each time until a run starts there."""
    longest_pause: float = Field(600.0, gt=0)
    """Most seconds for which a host is passed over."""

    @property
    def limits(self) -> LaunchLimits:
        """Return these settings as the core takes them."""
        return LaunchLimits(self.concurrent, self.failures, self.first_pause, self.longest_pause)


class LoadSettings(Settings):
    """Where the load scores of hosts come from, 0 to 100, for the order LOAD_AWARE."""

    prometheus: str = ""
    """Address of a Prometheus, http://HOST:PORT, that is queried for load scores."""
    query: str = '100 * (1 - avg by (instance) (rate(node_cpu_seconds_total{mode="idle"}[5m])))'
    """The query to Prometheus; the answer is an instant vector with one element for each host."""
    host_label: str = "instance"
    """The label of an element that has the hostname. A port after it is ignored."""
    file: Path | None = None
    """In place of a Prometheus: a YAML or JSON file: a mapping of hostnames to scores."""
    interval: float = Field(30.0, gt=0)
    """Seconds between two reads; after failures up to ten times as long."""
    timeout: float = Field(10.0, gt=0)
    """Longest time of a query, in seconds."""
    max_bytes: int = Field(32 * 1024 * 1024, ge=1024)
    """Largest answer or file, in bytes."""
    keep: float = Field(300.0, gt=0)
    """Seconds for which scores count while they cannot be read again; after that, all hosts are unknown."""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.prometheus and self.file:
            raise ValueError("load: give prometheus or file, not both")
        if self.prometheus and not self.prometheus.startswith(("http://", "https://")):
            raise ValueError(
                f"load.prometheus: {self.prometheus!r} is not http://HOST:PORT or https://HOST:PORT"
            )
        return self


class ReservationSettings(Settings):
    """How hosts are reserved for tasks and gangs that find no place."""

    concurrent: int = Field(10, ge=1)
    """Most tasks and gangs that have hosts reserved at a time; the others wait in the order of their age."""
    share: float = Field(0.5, gt=0, le=1)
    """Most of all hosts that are reserved at a time, as a fraction; the oldest gang may have more."""
    candidates: int = Field(500, ge=1)
    """Most hosts that are compared for one task or gang, those with the fewest tasks first."""
    lease: float = Field(15.0, gt=0)
    """Seconds after which a reservation ends that no placement engine renews."""
    longest: float = Field(1800.0, gt=0)
    """Seconds after which a host is free again that was reserved by ReserveHosts, which is not renewed."""
    takeover: float = Field(3.0, ge=0)
    """Seconds after a change of leader in which no hosts are claimed, so that placement engines, which ask
    each second, renew their reservations before others take the hosts."""
    backfill_margin: float = Field(30.0, ge=0)
    """Seconds before the expected start of a gang by which other tasks on its hosts must have ended."""

    @property
    def limits(self) -> ReservationLimits:
        """Return these settings as the core takes them."""
        return ReservationLimits(
            self.concurrent, self.share, self.candidates, self.lease, self.longest, self.backfill_margin
        )


class UsageSettings(Settings):
    """How agents are asked what tasks use."""

    enabled: bool = True
    """Whether agents are asked at all. If not, only the ends of runs on our own agents are known."""
    interval: float = Field(30.0, ge=1)
    """Seconds between two requests to an agent with tasks."""
    most_requests: float = Field(200.0, gt=0)
    """Most requests a second; with more agents than this allows, the interval is longer."""
    concurrent: int = Field(16, ge=1, le=1000)
    """Most requests under way at a time."""

    @property
    def limits(self) -> SamplingLimits:
        """Return these settings as the core takes them."""
        return SamplingLimits(self.interval, self.most_requests, self.concurrent)


class HostmgrSettings(DaemonSettings):
    """Settings of hostmgr."""

    mesos: MesosSettings = MesosSettings()
    """The Mesos master and the framework."""
    kubernetes: KubernetesSettings | None = None
    """A Kubernetes cluster in place of the Mesos master; `mesos` does not count then."""
    storage: StorageSettings
    """The store of the framework id and the host pools."""
    reconcile: ReconcileSettings = ReconcileSettings()
    """When the states of tasks are reconciled with Mesos."""
    launches: LaunchSettings = LaunchSettings()
    """How many launches a host takes at a time, and when it is passed over."""
    reservations: ReservationSettings = ReservationSettings()
    """How hosts are reserved for tasks and gangs that find no place."""
    usage: UsageSettings = UsageSettings()
    """How agents are asked what tasks use."""
    agents: AgentSettings = AgentSettings()
    """How the HTTP servers of agents are called, for what tasks use."""
    bin_packing: Annotated[BinPacking, Variable("BIN_PACKING")] = "FIRST_FIT"
    """Order in which matching hosts are claimed: any, those with least free first, or the least loaded first.
    LOAD_AWARE needs scores; a host without one counts as fully loaded. Packed batch tasks with GPUs get
    those with least free first whatever is set."""
    load: LoadSettings = LoadSettings()
    """Where load scores come from."""
    enable_host_pool: Annotated[bool, Variable("ENABLE_HOST_POOL")] = False
    """Whether tasks run on hosts of the pool for their kind only, as far as `use_host_pools` of the placement
    engines is true, too. Pools can be managed in any case. resmgr learns of it from hostmgr."""
    enable_revocable_resources: Annotated[bool, Variable("ENABLE_REVOCABLE_RESOURCES")] = True
    """Whether revocable resources are offered to revocable tasks."""
    scarce_resource_types: Annotated[str, Variable("SCARCE_RESOURCE_TYPES")] = "GPU"
    """Comma-separated; hosts with such resources take only tasks that request some. GPU is the only known
    kind."""
    slack_resource_types: Annotated[str, Variable("SLACK_RESOURCE_TYPES")] = "CPU"
    """Comma-separated; resources that revocable tasks may have while their owners do not use them. CPU is the
    only known kind."""
    placing_seconds: float = Field(300.0, gt=0)
    """Seconds that a claim on a host lasts."""
    client_placing_seconds: float = Field(30.0, gt=0)
    """Seconds that a claim of a caller that is no daemon lasts; at most `placing_seconds`."""
    held_seconds: float = Field(180.0, gt=0)
    """Seconds that room of a host is held for the next run of an instance that is updated or restarted in
    place."""
    held_share: float = Field(HELD_SHARE, gt=0, le=1)
    """Most of all hosts that are held for updates and restarts in place at a time, as a fraction, but one at
    least. Beyond that, instances are restarted without a hold, and go to another host where somebody takes
    their room."""
    claim_grace: float = Field(10.0, ge=0)
    """Seconds after a subscription for which a launch waits until its host is offered again."""
    maintenance_interval: float = Field(60.0, gt=0)
    """Seconds between two comparisons of the hosts in maintenance with the master's maintenance schedule."""
    lost_host_keep: float = Field(259_200.0, gt=0)
    """Seconds for which a lost host, whose agent is gone, is listed; `host forget` ends it before."""
    event_ring: int = Field(100_000, ge=16)
    """Most events that are kept for jobmgr and resmgr."""

    @field_validator("scarce_resource_types")
    @classmethod
    def _scarce(cls, value: str) -> str:
        return _known_kinds(value, "GPU")

    @field_validator("slack_resource_types")
    @classmethod
    def _slack(cls, value: str) -> str:
        return _known_kinds(value, "CPU")

    @model_validator(mode="after")
    def _sandboxes_are_closed(self) -> Self:
        if self.kubernetes is None or not self.kubernetes.sandboxes.port:
            return self
        host = self.kubernetes.sandboxes.host
        if not (is_loopback(host) or self.agents.principal or self.insecure):
            raise ValueError(
                f"kubernetes.sandboxes.host {host} is beyond loopback: give agents.principal and "
                "agents.secret_file, since callers run commands beside tasks, or insecure: true"
            )
        return self

    @property
    def cluster_name(self) -> str:
        """Return the name of the cluster; empty for one without a name."""
        return self.mesos.cluster if self.kubernetes is None else self.kubernetes.cluster

    @property
    def framework(self) -> str:
        """Return the name under which the id of the framework, or of the namespace, is stored."""
        if self.kubernetes is None:
            return self.mesos.framework
        return in_cluster(self.kubernetes.cluster, KUBERNETES)

    @property
    def revocable(self) -> bool:
        """Return whether revocable resources are used."""
        return self.enable_revocable_resources and bool(self.slack_resource_types.strip())

    @property
    def ranking(self) -> Ranking:
        """Return the order in which hosts are offered."""
        return Ranking(self.bin_packing)

    @property
    def scarce_gpu(self) -> bool:
        """Return whether hosts with GPUs take only tasks that request some."""
        return "GPU" in (kind.strip().upper() for kind in self.scarce_resource_types.split(","))


def _known_kinds(value: str, known: str) -> str:
    """Raise ValueError for a kind of resource that this setting cannot be about."""
    kinds = [kind.strip() for kind in value.split(",") if kind.strip()]
    for kind in kinds:
        if kind.upper() != known:
            raise ValueError(f"{kind} is not {known}, the only kind that is known here")
    return value
