"""A cluster of Kubernetes as the backend knows it: what becomes of changes, calls and time.

Each entry point takes what happened; `take` returns what follows, to be carried out in order. What a node has
free is what it can allocate, less what the pods on it request, what is being launched there, and persistent
volumes.

Invariants: a node has at most one room that stands; a run is launched, known by its pod, or neither; the end
of a run is reported once its pod cannot run any more, and again until it is acknowledged.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from hostmgr.kubernetes.core.evictions import Evictions
from hostmgr.kubernetes.core.instructions import (
    Bind,
    Create,
    Delete,
    DeleteSecret,
    DeleteVolume,
    Evict,
    Instruction,
    Room,
    Turn,
)
from hostmgr.kubernetes.core.launches import Launches, Starting
from hostmgr.kubernetes.core.node_states import NodeStates
from hostmgr.kubernetes.core.nodes import DOWN, Node, Toleration, repels
from hostmgr.kubernetes.core.pods import Key, Pod
from hostmgr.kubernetes.core.ports import PortRange, without
from hostmgr.kubernetes.core.reports import Reports
from hostmgr.kubernetes.core.rooms import Free, Rooms
from hostmgr.kubernetes.core.states import (
    LAUNCH_FAILED,
    RunState,
    RunStatus,
    begun,
    hopeless,
    judge,
    removed,
)
from hostmgr.kubernetes.core.volumes import VolumeClaim, VolumeClaims
from peloton.model.foreign_pod import PodRef
from peloton.model.ids import MesosTaskId
from peloton.model.resources import ZERO, Resources
from peloton.model.volume import VolumeMount


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """How nodes and pods are treated. Times are in seconds."""

    namespace: str
    tolerations: tuple[Toleration, ...] = ()
    ports: tuple[PortRange, ...] = ()
    """Ports of each node that tasks may take."""
    lost_after: float = 300.0
    """How long a node may be not ready until its runs are lost."""
    keep_finished: float = 300.0
    """How long a pod is kept after the end of its run was acknowledged."""


@dataclass(slots=True)
class _Out:
    withdrawn: list[str] = field(default_factory=list)
    lost: list[str] = field(default_factory=list)
    statuses: list[RunStatus] = field(default_factory=list)
    instructions: list[Instruction] = field(default_factory=list)


class KubernetesCluster:
    """Nodes, pods and launches of one cluster. `now` is seconds on the monotonic clock."""

    def __init__(self, rules: ClusterRules) -> None:
        self._rules = rules
        self._states = NodeStates()
        self._volumes = VolumeClaims()
        self._pods: dict[Key, Pod] = {}
        self._bound: dict[MesosTaskId, Key] = {}
        """The pods of others by the runs that have bound them."""
        self._on: dict[str, set[Key]] = {}
        self._launches = Launches()
        self._killed: set[MesosTaskId] = set()
        """Runs of which we have asked that they end."""
        self.evictions = Evictions()
        """Of those that are to end for maintenance, what was refused."""
        self._failing: dict[MesosTaskId, str] = {}
        """Runs that never start, with the reason: they have failed when their pods are gone."""
        self._reports = Reports()
        self._rooms = Rooms()
        self._connected = False
        self._held_back = False
        self._out = _Out()

    # The connection.

    def hold_back(self, held_back: bool) -> None:
        """Offer no nodes, or offer them again."""
        if held_back is not self._held_back:
            self._held_back = held_back
            self._rooms.change(self.nodes)

    def connected(self) -> None:
        """Begin a connection: rooms are offered anew, and ends that nobody acknowledged reported again."""
        self._connected = True
        self._rooms.clear()
        self._rooms.change(self.nodes)
        self._out = _Out()
        self._out.statuses += self._reports.unacknowledged()
        for name in {node for node in self._on if node not in self.nodes} | self._states.lost:
            self._end_all_on(name)
        for run in self._failing:
            if (pod := self._pod_of(run)) is not None:
                self._delete(pod)

    def disconnected(self) -> None:
        """End the connection. What was not sent is not: its runs are reconciled."""
        self._connected = False
        self._rooms.clear()
        self._launches.clear()
        self._volumes.forget_calls()
        self.evictions.interrupt()
        self._out = _Out()

    # Nodes.

    @property
    def nodes(self) -> Mapping[str, Node]:
        """The nodes that there are, by their names."""
        return self._states.nodes

    def replace_nodes(self, nodes: Iterable[Node], now: float) -> None:
        """Take over all nodes: others are gone."""
        listed = {node.name: node for node in nodes}
        for name in [name for name in self.nodes if name not in listed]:
            self.remove_node(name)
        for node in listed.values():
            self.put_node(node, now)

    def put_node(self, node: Node, now: float) -> None:
        """Take over a node that is new or has changed."""
        before = self.nodes.get(node.name)
        if before == node:
            return
        if before is not None and before.uid != node.uid:
            self.remove_node(node.name)
        self._states.put(node, now)
        if node.maintenance == DOWN and before is not None and before.maintenance != DOWN:
            self._out.lost.append(node.name)
        self._rooms.change([node.name])

    def remove_node(self, name: str) -> None:
        """Forget a node that was deleted; its runs are lost, and their pods are deleted."""
        if not self._states.remove(name):
            return
        self._out.withdrawn += self._rooms.withdraw(name)
        self._out.lost.append(name)
        self._end_all_on(name)

    def silent(self, names: Iterable[str], now: float) -> None:
        """Take over which nodes do not renew their leases."""
        self._rooms.change(self._states.silence(names, now))

    def ready(self, name: str) -> bool:
        """Return whether a node says that it is ready, and shows that it lives."""
        return self._states.ready(name)

    def listed(self) -> tuple[list[Node], list[Node]]:
        """Return the nodes that are there, and those that are not ready and may come back."""
        return self._states.listed()

    def ports(self, node: Node) -> tuple[PortRange, ...]:
        """Return the ports of a node that tasks may take."""
        return self._rules.ports if node.ports is None else node.ports

    def allocated(self, name: str) -> Resources:
        """Return what runs and persistent volumes have of a node."""
        pods = (self._pods[key] for key in self._on.get(name, ()))
        ours = sum((pod.requests for pod in pods if pod.ours), Resources(disk=self._volumes.size_on(name)))
        return ours + sum((each.resources for each in self._launches.on(name)), ZERO)

    def _end_all_on(self, name: str) -> None:
        """Delete all pods on a node that cannot end them itself."""
        for key in sorted(self._on.get(name, ())):
            pod = self._pods[key]
            if pod.ours and not pod.foreign:  # those of others are left to Kubernetes' controllers
                self._delete(pod, grace=0)

    # Persistent volumes.

    def replace_volumes(self, claims: Iterable[VolumeClaim]) -> None:
        """Take over all persistent volumes: others are gone."""
        self._rooms.change(self._volumes.replace(claims))

    def put_volume(self, claim: VolumeClaim) -> None:
        """Take over a persistent volume that is new or has changed."""
        self._rooms.change(self._volumes.put(claim))

    def remove_volume(self, name: str) -> None:
        """Take over that a persistent volume is gone."""
        self._rooms.change(self._volumes.remove(name))

    def destroy_volume(self, name: str) -> None:
        """Delete a persistent volume that no run uses; its room stands no more."""
        claim = self._volumes.destroy(name)
        if claim is not None:
            self._out.instructions.append(DeleteVolume(name, claim.uid))
            self._rooms.void(claim.node)

    def volume_kept(self, name: str) -> None:
        """Take over that the API server has refused to delete a persistent volume."""
        self._rooms.change(self._volumes.keep(name))

    def volumes_on(self, node: str) -> frozenset[str]:
        """Return the persistent volumes of a node."""
        return self._volumes.on(node)

    # Pods.

    def replace_pods(self, pods: Iterable[Pod]) -> None:
        """Take over all pods: others are gone."""
        listed = {pod.key: pod for pod in pods}
        for key in [key for key in self._pods if key not in listed]:
            self.remove_pod(self._pods[key])
        for pod in listed.values():
            self.put_pod(pod)

    def put_pod(self, pod: Pod) -> None:
        """Take over a pod that is new or has changed."""
        before = self._pods.get(pod.key)
        if before is not None and before.uid != pod.uid:
            self.remove_pod(before)
        pod = self._settled(pod)
        self._forget_launch(pod.run if pod.ours else "")
        if pod.secret and pod.over and (before is None or not before.over):
            self._out.instructions.append(DeleteSecret(pod.name))
        self._pods[pod.key] = pod
        if before is not None and before.node != pod.node:
            self._on.get(before.node, set()).discard(pod.key)
            self._rooms.change([before.node])
        on = self._on.setdefault(pod.node, set())
        on.discard(pod.key)
        if not pod.over:
            on.add(pod.key)
        if before is None or before.over != pod.over or before.requests != pod.requests:
            self._rooms.change([pod.node])
        if pod.ours:
            self._follow(pod)

    def _settled(self, pod: Pod) -> Pod:
        """Note which pod of somebody else has a run: the first that claims it, where several do."""
        if pod.foreign and self._bound.setdefault(pod.run, pod.key) != pod.key:
            return replace(pod, ours=False, bound_by="")
        return pod

    def _pod_of(self, run: MesosTaskId) -> Pod | None:
        """Return the pod of a run; None where there is none."""
        pod = self._pods.get(self._bound.get(run) or (self._rules.namespace, run))
        return None if pod is None or not pod.ours else pod

    def remove_pod(self, pod: Pod) -> None:
        """Take over that a pod is gone; `pod` is its last form."""
        pod = self._settled(pod)
        self._pods.pop(pod.key, None)
        self._on.get(pod.node, set()).discard(pod.key)
        self._rooms.change([pod.node])
        if not pod.ours:
            return
        run = pod.run
        self._bound.pop(run, None)
        if pod.secret and not pod.over:
            self._out.instructions.append(DeleteSecret(run))
        reason = self._failing.pop(run, "")
        self.evictions.end(run)
        if not self._reports.ended(run):
            self._report(self._last(pod, reason))
        self._reports.forget(run)
        self._killed.discard(run)

    def _last(self, pod: Pod, failing: str) -> RunStatus:
        """Return the end of a run whose pod is gone."""
        killed = pod.run in self._killed
        if failing and not killed:
            return RunStatus(pod.run, RunState.FAILED, pod.node, LAUNCH_FAILED, failing, uid=pod.uid)
        ended = judge(pod, killed) if pod.over else None
        if ended is None and not killed and self._states.gone(pod.node):
            text = self._states.why_gone(pod.node)
            ended = RunStatus(pod.run, RunState.LOST, pod.node, "AGENT_REMOVED", text)
        return replace(ended or removed(pod, killed), uid=pod.uid)

    def _follow(self, pod: Pod) -> None:
        """Report what a change of a pod means for its run."""
        status = judge(pod, pod.run in self._killed)
        if status is None:
            if pod.run not in self._failing:
                self._failing[pod.run] = hopeless(pod)
                self._delete(pod)
            return
        if self._reports.ended(pod.run):
            return
        if status.state is RunState.STAGING:
            return
        if pod.run in self._failing:
            return  # it fails when the pod is gone, whatever becomes of its container meanwhile
        before = self._reports.last(pod.run)
        # No health is told of a container that has ended.
        if before is None or before.state is not status.state or status.healthy not in (None, before.healthy):
            if status.state.terminal and (before is None or before.state is not RunState.RUNNING):
                self._report_begin(pod)
            self._report(replace(status, uid=pod.uid) if status.state.terminal else status)

    def _report_begin(self, pod: Pod) -> None:
        """Report that a run began which has ended since: a short one is never seen to run."""
        status = begun(pod)
        if status is not None:
            self._report(status)

    def _report(self, status: RunStatus) -> None:
        self._reports.note(status)
        if self._connected:
            self._out.statuses.append(status)

    def over(self, run: MesosTaskId) -> bool | None:
        """Return whether the container of a run has ended; None where there is no pod of it."""
        pod = self._pods.get((self._rules.namespace, run))
        return None if pod is None or not pod.ours else pod.over or pod.container.state == "terminated"

    def needs_no_secret(self, run: MesosTaskId) -> bool:
        """Return whether there is neither a pod that may read the secrets of a run, nor will there be one."""
        pod = self._pods.get((self._rules.namespace, run))
        return run not in self._launches and (pod is None or pod.over)

    # Launches.

    def launch(
        self,
        node: str,
        run: MesosTaskId,
        resources: Resources,
        ports: Iterable[int] = (),
        volume: VolumeMount | None = None,
        pod: PodRef | None = None,
    ) -> None:
        """Launch a run, or bind the pod that it stands for; its room stands no more."""
        self._launches.begin(run, Starting(node, resources, frozenset(ports), volume, pod))
        bind = None if pod is None else Bind(run, (pod.namespace, pod.name), pod.uid, node)
        self._out.instructions.append(bind or Create(run))
        self._rooms.void(node)

    def void(self, node: str) -> None:
        """Forget the room of a node, which was used or declined: it is offered anew."""
        self._rooms.void(node)

    def room(self, room_id: str) -> Room | None:
        """Return a room that stands."""
        return self._rooms.find(room_id)

    def wanted(self, run: MesosTaskId) -> bool:
        """Return whether a pod is still to be created: its run was not killed meanwhile."""
        return run in self._launches and run not in self._killed

    def created(self, pod: Pod) -> None:
        """Take over that the pod of a run exists: it was created now, or by an earlier try."""
        if pod.key not in self._pods and pod.run in self._launches:
            self.put_pod(pod)
        if pod.run in self._killed and pod.key in self._pods:
            self._delete(self._pods[pod.key])

    def bound(self, instruction: Bind) -> None:
        """Take over that a pod is bound by a run; the watch tells what becomes of it."""
        run = instruction.run
        if run in self._killed:
            self._out.instructions.append(Delete(run, instruction.uid, None, instruction.pod))

    def refused(self, run: MesosTaskId, state: RunState, reason: str, message: str) -> None:
        """Take over that the API server has refused a pod; it does not exist."""
        node = self._forget_launch(run)
        if node is not None:
            self._killed.discard(run)
            self._report(RunStatus(run, state, node, reason, message, uid=run))
            self._reports.forget(run)

    def dropped(self, run: MesosTaskId) -> None:
        """Take over that the pod of a run was not created, because the run was killed before."""
        self.refused(run, RunState.KILLED, "TASK_KILLED_DURING_LAUNCH", "killed before its pod was created")

    def _forget_launch(self, run: MesosTaskId) -> str | None:
        node = self._launches.end(run)
        if node is not None:
            self._rooms.change([node])
        return node

    # Requests.

    def evict(self, run: MesosTaskId) -> None:
        """End a run as soon as no PodDisruptionBudget forbids it; as `kill` where none can."""
        pod = self._pod_of(run)
        if pod is None or pod.over or run in self._failing or self._states.gone(pod.node):
            self.kill(run)
        elif self.evictions.begin(run, pod.uid, pod.node):
            self._evict(run, pod.uid)

    def _evict(self, run: MesosTaskId, uid: str) -> None:
        self._killed.add(run)
        self._out.instructions.append(Evict(run, uid, self._bound.get(run)))

    def evicted(self, run: MesosTaskId) -> None:
        """Take over that the pod of a run is being deleted, or is gone."""
        self.evictions.end(run)

    def eviction_refused(
        self, run: MesosTaskId, uid: str, text: str, answered: bool = True, forbidden: bool = False
    ) -> None:
        """Take over that a pod stays for now. What was not `answered` may have had its effect."""
        if self.evictions.refuse(run, uid, text, forbidden) and answered:
            self._killed.discard(run)

    def kill(self, run: MesosTaskId) -> None:
        """End a run, which may wait for its eviction; of one that is not known the state is told."""
        self.evictions.end(run)
        pod = self._pod_of(run)
        if pod is None:
            if run in self._launches:
                self._killed.add(run)
            else:
                self._answer(run)
            return
        if not pod.over:
            self._killed.add(run)
            self._delete(pod, 0 if self._states.gone(pod.node) and not pod.foreign else None)

    def reconcile(self, runs: Sequence[MesosTaskId]) -> None:
        """Tell the states of runs; without runs, of all that are known."""
        if runs:
            for run in runs:
                self._answer(run)
        else:
            for pod in [pod for pod in self._pods.values() if pod.ours]:
                self._answer(pod.run)

    def acknowledge(self, run: MesosTaskId, uid: str, now: float) -> None:
        """Take over that the end of a run is stored; its pod is deleted after some time."""
        if self._reports.acknowledge(run, uid) and (self._rules.namespace, run) in self._pods:
            self._reports.keep(run, now)  # pods of others are kept as their owners want it

    def _answer(self, run: MesosTaskId) -> None:
        """Tell the state of a run; of one that is being launched, nothing is known yet."""
        if run in self._launches:
            return
        pod = self._pod_of(run)
        if pod is not None:
            status = judge(pod, run in self._killed)
            if status is not None:
                self._out.statuses.append(replace(status, uid=""))
        elif (end := self._reports.end_of(run)) is not None:
            self._out.statuses.append(end)
        else:
            text = "no pod has the name of this run"
            self._out.statuses.append(
                RunStatus(run, RunState.LOST, reason="RECONCILIATION", message=text, missing=True)
            )

    def _delete(self, pod: Pod, grace: int | None = None) -> None:
        if pod.run in self._failing and grace is None:
            grace = 0 if pod.container.state != "running" else None
        self._out.instructions.append(Delete(pod.run, pod.uid, grace, pod.key if pod.foreign else None))

    # Time, and what follows.

    def tick(self, now: float) -> None:
        """Let time pass: nodes are lost, ends are repeated, and pods of ended runs are deleted."""
        for name in self._states.lose(now, self._rules.lost_after):
            self._out.lost.append(name)
            self._out.withdrawn += self._rooms.withdraw(name)
            self._end_all_on(name)
        self._out.statuses += self._reports.repeat(now, self._connected)
        for run, uid in self.evictions.take_due(now) if self._connected else ():
            self._evict(run, uid)
        for run in self._reports.expire(now, self._rules.keep_finished):
            pod = self._pods.get((self._rules.namespace, run))
            if pod is not None:
                self._out.instructions.append(Delete(run, pod.uid, 0))

    def take(self) -> Turn:
        """Return what follows from the events since the last call."""
        withdrawn, rooms = self._rooms.offer(self._free) if self._connected else ([], ())
        out, self._out = self._out, _Out()
        return Turn(
            (*out.withdrawn, *withdrawn), tuple(out.lost), rooms, tuple(out.statuses), tuple(out.instructions)
        )

    def _free(self, name: str) -> Free | None:
        """Return what a node has free; None where nothing may be launched there."""
        node = self.nodes.get(name)
        if self._held_back or node is None or not self.ready(name) or node.cordoned or node.maintenance:
            return None
        pods = [self._pods[key] for key in self._on.get(name, ())]
        starting = list(self._launches.on(name))
        if repels(node, self._rules.tolerations) or len(pods) + len(starting) >= node.pods:
            return None
        used = sum((pod.requests for pod in pods), ZERO) + sum((each.resources for each in starting), ZERO)
        mounts = [each.volume for each in starting if each.volume is not None]
        used += Resources(disk=self._volumes.size_on(name) + self._size_of_new(mounts))
        free = Resources(*(max(0, each) for each in (node.total - used).values()))
        if not (free.cpu or free.memory):
            return None
        taken = frozenset().union(*(pod.ports for pod in pods), *(each.ports for each in starting))
        mounted = frozenset().union(*(pod.claims for pod in pods), (mount.id for mount in mounts))
        return free, without(self.ports(node), taken), self._volumes.free_on(name, mounted)

    def _size_of_new(self, mounts: Iterable[VolumeMount]) -> int:
        """Return the size of the volumes that are about to be made, and are not known yet."""
        return sum(each.size for each in mounts if each.create and self._volumes.get(each.id) is None)
