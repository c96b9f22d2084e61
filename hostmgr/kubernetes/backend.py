"""The backend for Kubernetes: its API behind the port to a cluster manager."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NoReturn
from urllib.parse import urlsplit

from hostmgr.backend.interface import AgentMap, Listener
from hostmgr.core.agents.draining import Machine, MasterStatus
from hostmgr.core.claims.claim import LaunchPlan
from hostmgr.core.cluster_manager.events import (
    Acknowledgement,
    Address,
    AgentLost,
    BackendEvent,
    OfferRescinded,
    OffersMade,
    Registration,
    StatusEvent,
)
from hostmgr.core.state.offers import Offer, OfferedVolume, need_of, take
from hostmgr.core.state.operations import HostOperation, LaunchTasks
from hostmgr.kubernetes.core.cluster import ClusterRules, KubernetesCluster
from hostmgr.kubernetes.core.foreign import NO_PODS, ForeignRules
from hostmgr.kubernetes.core.instructions import Turn
from hostmgr.kubernetes.core.nodes import node_of
from hostmgr.kubernetes.core.pods import Pod, pod_of
from hostmgr.kubernetes.foreign import ForeignPods
from hostmgr.kubernetes.leases import Leases
from hostmgr.kubernetes.maintenance import NodeMaintenance
from hostmgr.kubernetes.manifest import TRIAL, PodRules, claim_of, has_template, pod_manifest, secret_of
from hostmgr.kubernetes.messages import HostMessages, killed_with_namespace, status_update
from hostmgr.kubernetes.pod_groups import PodGroupFollower
from hostmgr.kubernetes.problems import eviction_problems, template_problems
from hostmgr.kubernetes.quotas import read_quota
from hostmgr.kubernetes.sandboxes.serving import NOT_SERVED, Sandboxes, SandboxRules
from hostmgr.kubernetes.secrets import SecretSweeper
from hostmgr.kubernetes.trial import TemplateTrial, tried
from hostmgr.kubernetes.volumes import ClaimFollower
from hostmgr.kubernetes.writing import Described, PodWriter
from peloton.clock import Clock
from peloton.config.errors import ConfigError
from peloton.errors import InvalidArgument, Unavailable
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.following import follow
from peloton.kubernetes.reflector import Change, Changed, Removed, Replaced
from peloton.kubernetes.tasks import until_first_ends
from peloton.model.backoff import exponential
from peloton.model.foreign_pod import PodRef, may_be_of
from peloton.model.ids import MesosTaskId, parse_mesos_task_id
from peloton.model.problems import Problem
from peloton.model.task import Launch
from peloton.wire.pod_ref import foreign_pod

TICK_SECONDS = 1.0
LEASE_SECONDS = 10.0
"""Seconds between two reads of the leases of nodes; kubelets renew them as often."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 10.0
"""Seconds between two tries to connect."""
LIST_SECONDS = 60.0
"""Longest time until all nodes and pods are listed."""
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
log = logging.getLogger(__name__)


class KubernetesBackend:
    """Interpret the core of one cluster: follow nodes and pods, and make its calls."""

    def __init__(
        self,
        client: ApiClient,
        cluster: str,
        framework_id: str,
        rules: ClusterRules,
        pods: PodRules,
        clock: Clock,
        concurrency: int = 32,
        fence: Callable[[], None] = lambda: None,
        sandboxes: SandboxRules = NOT_SERVED,
        foreign: ForeignRules = NO_PODS,
    ) -> None:
        """`framework_id` is the stored one: the uid of the namespace; empty: none is known.

        At most `concurrency` calls are made at a time. `fence` is called before each that changes something,
        and raises to prevent it.
        """
        self._client = client
        self._framework_id = framework_id
        self._rules = rules
        self._pods = pods
        self._clock = clock
        self._fence = fence
        self._core = KubernetesCluster(rules)
        self._messages = HostMessages(cluster, framework_id, sandboxes.pid)
        self._sandboxes = self._sandboxes_of(sandboxes) if sandboxes.port else None
        self._writer = PodWriter(client, self._core, rules.namespace, concurrency, fence, self._wake_up)
        self._leases = Leases(client)
        self._trial = TemplateTrial(client, self._core, pods, self._wake_up)
        self._sweeper = SecretSweeper(client, self._core, rules.namespace, fence)
        self._maintenance = NodeMaintenance(client, self._core, self._messages, fence)
        self.foreign = ForeignPods(client, self._core, rules.namespace, foreign, clock, fence)
        self._listener: Listener | None = None
        self._wake = asyncio.Event()
        self._up = False

    # The port: the connection.

    @property
    def ready(self) -> bool:
        """Return whether calls can be made now."""
        return self._up

    def attach(self, listener: Listener) -> None:
        """Set the receiver of events."""
        self._listener = listener

    def _sandboxes_of(self, rules: SandboxRules) -> Sandboxes:
        framework, now = lambda: self._framework_id, self._clock.monotonic
        return Sandboxes(rules, self._client.access, self._rules.namespace, self._core, framework, now)

    async def run(self) -> NoReturn:
        """Follow the cluster, again after each interruption, and serve the sandboxes of its runs."""
        works = [self._follow()] if self._sandboxes is None else [self._follow(), self._sandboxes.serve()]
        await until_first_ends(*works)
        raise AssertionError("these works do not end")

    async def _follow(self) -> NoReturn:
        failures = 0
        async with self._client:
            while True:
                reason = await self._until_broken()
                failures = 1 if self._up else failures + 1
                self._disconnect(reason)
                pause = exponential(failures, FIRST_PAUSE, LONGEST_PAUSE) * random.uniform(0.5, 1.0)
                log.warning("Kubernetes: %s; trying again in %.1f s", reason, pause)
                await asyncio.sleep(pause)

    def _disconnect(self, reason: str) -> None:
        self._up = False
        self._core.disconnected()
        self._writer.disconnected()
        self._receiver.on_disconnected(reason)

    async def _until_broken(self) -> str:
        """Be connected once; return why that, or the try, ended."""
        try:
            await self._connection()
        except (Unavailable, ConfigError) as error:
            return str(error)
        except ApiError as error:
            return f"{self._client.server}: {error}"
        except TimeoutError:
            return f"{self._client.server}: nodes and pods were not listed within {LIST_SECONDS:.0f} s"
        return f"{self._client.server}: the connection ended"

    async def _connection(self) -> None:
        framework_id = await self._framework()
        nodes, pods = asyncio.Event(), asyncio.Event()
        bound = {} if self.foreign.enabled else {"fieldSelector": "spec.nodeName!="}
        claims = ClaimFollower(self._client, self._core, self._rules.namespace, self._wake_up)
        groups = PodGroupFollower(self._client, self.foreign.enabled, self.foreign.take_groups)
        followers = [
            follow(self._client, NODES, lambda change: self._on_node(change, nodes)),
            follow(self._client, PODS, lambda change: self._on_pod(change, pods), **bound),
            claims.run(),
            groups.run(),
        ]
        listed = (nodes, pods, claims.listed, groups.listed)
        await until_first_ends(*followers, self._work(framework_id, listed))

    async def _framework(self) -> str:
        """Return the uid of the namespace, which is the id under which pods are created.

        With a namespace all its pods are deleted, as tasks are with a framework of Mesos.
        """
        path = f"/api/v1/namespaces/{self._rules.namespace}"
        found = str((await self._client.call("GET", path))["metadata"]["uid"])
        if self._framework_id not in ("", found):
            await self._receiver.on_framework_removed()
        self._framework_id = self._messages.framework_id = found
        return found

    async def _work(self, framework_id: str, listed: Iterable[asyncio.Event]) -> None:
        async with asyncio.timeout(LIST_SECONDS):
            for each in listed:
                await each.wait()
        await self._trial.once()
        parts = urlsplit(self._client.server)
        address = Address(parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80))
        await self._receiver.on_connected(Registration(framework_id, address, framework_id))
        self._up = True
        self._core.connected()
        self._wake.set()
        await until_first_ends(
            self._take_turns(),
            self._let_time_pass(),
            self._read_leases(),
            self._writer.work(),
            self._sweeper.run(),
            self._trial.run(),
            self.foreign.write_events(),
        )

    # What the API server reports.

    def _on_node(self, change: Change, listed: asyncio.Event) -> None:
        now = self._clock.monotonic()
        if isinstance(change, Replaced):
            self._core.replace_nodes(map(node_of, change.objects), now)
            listed.set()
        elif isinstance(change, Changed):
            self._core.put_node(node_of(change.object), now)
        else:
            self._core.remove_node(change.object["metadata"]["name"])
        self._wake.set()

    def _on_pod(self, change: Change, listed: asyncio.Event) -> None:
        if isinstance(change, Replaced):
            self._core.replace_pods(map(self._pod, change.objects))
            listed.set()
        elif isinstance(change, Changed):
            self._core.put_pod(self._pod(change.object))
        elif isinstance(change, Removed):
            self._core.remove_pod(self._pod(change.object))
        self.foreign.take(change)
        self._wake.set()

    def _pod(self, wire: Mapping[str, Any]) -> Pod:
        return pod_of(wire, self._rules.namespace, self.foreign.enabled)

    async def _take_turns(self) -> NoReturn:
        """Carry out what follows from events, calls and time."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            if turn := self._core.take():
                self._report(turn)
                self._writer.add(turn.instructions)
            await asyncio.sleep(0)

    def _report(self, turn: Turn) -> None:
        events: list[BackendEvent] = [OfferRescinded(each) for each in turn.withdrawn]
        events += map(AgentLost, turn.lost)
        nodes = self._core.nodes
        if turn.rooms:
            events.append(OffersMade([self._messages.offer(room, nodes[room.node]) for room in turn.rooms]))
        wall = self._clock.wall() if turn.statuses else 0
        events += (status_update(each, wall) for each in turn.statuses)
        if events:
            self._receiver.on_events(events)

    async def _let_time_pass(self) -> NoReturn:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._core.tick(self._clock.monotonic())
            self._wake.set()

    async def _read_leases(self) -> NoReturn:
        """Find nodes that live no more, also where no controller marks them as not ready."""
        while True:
            silent = await self._leases.silent(self._clock.monotonic())
            self._core.silent(silent, self._clock.monotonic())
            self._wake.set()
            await asyncio.sleep(LEASE_SECONDS)

    def _wake_up(self) -> None:
        self._wake.set()

    @property
    def _receiver(self) -> Listener:
        assert self._listener is not None, "attach comes before run"
        return self._listener

    # The port: calls.

    def launch(self, plan: LaunchPlan, launches: Sequence[Launch]) -> None:
        """Create a pod for each launch. Raises InvalidArgument, Unavailable."""
        self._require_connection()
        self._create(plan.claim.agent_id, launches)

    def operate(self, agent_id: str, offers: Sequence[Offer], operations: Sequence[HostOperation]) -> None:
        """Launch tasks; there are no other operations here.

        Raises InvalidArgument for these, InsufficientOffers and Unavailable.
        """
        self._require_connection()
        launches = list(_launches(operations))
        take(offers, map(need_of, launches))
        self._create(agent_id, launches)

    def _create(self, node: str, launches: Sequence[Launch]) -> None:
        rules, bound = self._pods, list(map(self._bound_pod, launches))
        for launch, pod in zip(launches, bound, strict=True):
            if pod is not None:
                self._core.launch(node, launch.mesos_task_id, launch.resources, pod=pod)
        launches = [launch for launch, pod in zip(launches, bound, strict=True) if pod is None]
        described = [
            Described(
                pod_manifest(each, node, rules),
                secret_of(each, rules),
                claim_of(each, node, rules),
                has_template(each),
            )
            for each in launches
        ]
        for launch, each in zip(launches, described, strict=True):
            run, ports = launch.mesos_task_id, launch.ports.values()
            self._writer.describe(run, each)
            self._core.launch(node, run, launch.resources, ports, launch.volume)
        self._wake.set()

    def _bound_pod(self, launch: Launch) -> PodRef | None:
        """Return the pod that a launch binds; None where it creates one. Raises InvalidArgument."""
        pod, job_id = foreign_pod(launch.payload), parse_mesos_task_id(launch.mesos_task_id).job_id
        if pod is None:
            return None
        held = self.foreign.get(pod.uid)
        if not self.foreign.enabled or held is None:
            wanted = "a pod that is there, and the setting kubernetes.foreign_pods of hostmgr"
            raise InvalidArgument("foreignPod", f"{pod.namespace}/{pod.name}", wanted)
        if not may_be_of(job_id, pod.uid, held.namespace, held.gang):
            raise InvalidArgument("foreignPod", f"{pod.namespace}/{pod.name}", f"a pod of job {job_id}")
        return PodRef(pod.cluster, held.namespace, held.name, held.uid)

    def destroy_volume(self, volume: OfferedVolume) -> None:
        """Delete the claim of a persistent volume, and so its storage. Raises Unavailable."""
        self._require_connection()
        self._core.destroy_volume(volume.entry.volume)
        self._wake.set()

    async def try_task(self, launch: Launch) -> str:
        """Ask the API server by a dry run whether it takes the pod of a task. Raises Unavailable."""
        self._require_connection()
        try:
            pod = pod_manifest(launch, TRIAL, self._pods)
        except InvalidArgument as error:
            return str(error)
        return await tried(self._client, self._rules.namespace, pod)

    def decline(self, offer_ids: Iterable[str]) -> None:
        """Forget offers; what they hold is offered anew. Raises Unavailable."""
        self._require_connection()
        for offer_id in offer_ids:
            room = self._core.room(offer_id)
            if room is not None:
                self._core.void(room.node)
        self._wake.set()

    def kill(self, runs: Iterable[tuple[MesosTaskId, str]], maintenance: bool = False) -> None:
        """Delete the pods of runs, or evict them for maintenance. Raises Unavailable."""
        self._require_connection()
        for run, _ in runs:
            if maintenance:
                self._core.evict(run)
            else:
                self._core.kill(run)
        self._wake.set()

    def shut_down(self, executors: Iterable[tuple[str, str]]) -> None:
        """Raise InvalidArgument for any executor: pods have none."""
        for executor_id, _ in executors:
            raise InvalidArgument("executor_id", executor_id, "no executor: Kubernetes runs containers only")

    def reconcile(self, runs: Iterable[tuple[MesosTaskId, str]]) -> None:
        """Tell the states of runs as the watches have them. Raises Unavailable."""
        self._require_connection()
        self._core.reconcile([run for run, _ in runs])
        self._wake.set()

    def acknowledge(self, statuses: Iterable[Acknowledgement]) -> None:
        """Let the pods of ended runs be deleted. Raises Unavailable."""
        self._require_connection()
        now = self._clock.monotonic()
        for each in statuses:
            self._core.acknowledge(each.run, each.uuid.decode(), now)

    def killed_with_framework(
        self, runs: Iterable[tuple[MesosTaskId, str]], framework_id: str, at: int
    ) -> Sequence[StatusEvent]:
        """Return the statuses of runs whose namespace was deleted."""
        return [killed_with_namespace(*run, self._rules.namespace, at) for run in runs]

    def problems(self) -> Sequence[Problem]:
        """Return the evictions that wait, and what is wrong with the site's template of pods."""
        evictions = eviction_problems(self._core.evictions.waiting(), self._messages.hostname)
        return (*template_problems(self._trial.refusal), *evictions)

    async def drain(self) -> None:
        """Wait for room for more calls. Raises Unavailable."""
        self._require_connection()
        self._wake.set()
        await self._writer.room()
        self._require_connection()

    def _require_connection(self) -> None:
        """Raise Unavailable without a connection, and what the fence raises."""
        self._fence()
        if not self._up:
            raise Unavailable("not subscribed with the API server of Kubernetes at the moment")

    # The port: reads and maintenance.

    async def agents(self) -> AgentMap:
        """Return the nodes as the watch has them. Raises Unavailable."""
        self._require_connection()
        there, others = self._core.listed()
        core, agent = self._core, self._messages.agent
        return AgentMap(
            [
                agent(each, core.allocated(each.name), core.ports(each), core.volumes_on(each.name))
                for each in there
            ],
            complete=True,
            disconnected=frozenset(self._messages.hostname(node.name) for node in others),
        )

    async def quota(self) -> Mapping[str, int]:
        """Read the ResourceQuotas of the namespace. Raises Unavailable, InvalidArgument."""
        return await read_quota(self._client, self._rules.namespace)

    async def maintenance(self) -> MasterStatus:
        """Return the nodes in maintenance. Raises Unavailable."""
        self._require_connection()
        return self._maintenance.status()

    async def change_schedule(self, add: Sequence[Machine], remove: Sequence[Machine]) -> None:
        """Cordon nodes, and uncordon others. Raises Unavailable."""
        await self._maintenance.change(add, remove)

    async def take_down(self, machines: Sequence[Machine]) -> None:
        """Mark cordoned nodes as down. Raises Unavailable."""
        await self._maintenance.take_down(machines)

    async def bring_up(self, machines: Sequence[Machine]) -> None:
        """Uncordon nodes that are down. Raises Unavailable."""
        await self._maintenance.change((), machines)


def _launches(operations: Iterable[HostOperation]) -> Iterator[Launch]:
    for each in operations:
        if not isinstance(each, LaunchTasks):
            raise InvalidArgument(
                "operations", type(each).__name__, "LaunchTasks: on Kubernetes nothing is reserved"
            )
        yield from each.launches
