"""Whatever happens to nodes, pods, calls and the connection: what the core says stays true."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from hostmgr.kubernetes.core.cluster import ClusterRules, KubernetesCluster
from hostmgr.kubernetes.core.instructions import Delete, DeleteVolume, Instruction, Room, Turn
from hostmgr.kubernetes.core.pods import Container, Key, Pod
from hostmgr.kubernetes.core.states import RunState, RunStatus
from hostmgr.kubernetes.core.volumes import VolumeClaim
from peloton.model.resources import ZERO, Resources
from peloton.model.volume import VolumeMount
from tests.unit.hostmgr_kubernetes.objects import NAMESPACE, ONE, ended, node, pod, running

MOVES = (
    "launch",
    "launch stateful",
    "destroy volume",
    "call",
    "lost call",
    "kill",
    "run",
    "end",
    "fail",
    "stuck",
    "remove",
    "foreign",
    "node away",
    "node back",
    "node gone",
    "cut",
    "connect",
    "acknowledge",
    "tick",
    "reconcile",
    "watch",
)
VOLUME = 1_000_000
"""The size of volumes, in thousandths of a MB."""


class World:
    """An API server in the model's terms, and a core that follows it with delay."""

    def __init__(self) -> None:
        self.core = KubernetesCluster(ClusterRules(NAMESPACE, lost_after=20.0, keep_finished=5.0))
        self.nodes = {name: node(name) for name in ("n1", "n2")}
        self.pods: dict[Key, Pod] = {}
        self.claims: dict[str, VolumeClaim] = {}
        self.mounts: dict[str, VolumeMount] = {}
        """The volumes of runs that have one."""
        self.news: list[tuple[str, Pod | VolumeClaim]] = []
        """Events of the watch that the core has not seen yet."""
        self.calls: list[Instruction] = []
        self.rooms: dict[str, Room] = {}
        self.placed: dict[str, str] = {}
        self.told: dict[str, list[RunStatus]] = {}
        self.missing: set[str] = set()
        self.begun: set[str] = set()
        """Runs whose pods were created."""
        self.up = False
        self.now = 0.0
        self.number = 0
        self.connect()

    # The server.

    def put(self, each: Pod) -> None:
        self.pods[each.key] = each
        self.news.append(("put", each))

    def drop(self, key: Key) -> None:
        self.news.append(("remove", self.pods.pop(key)))

    def ours(self) -> list[Pod]:
        return sorted((each for each in self.pods.values() if each.ours), key=lambda each: each.name)

    # The core.

    def connect(self) -> None:
        if self.up:
            return
        self.news.clear()
        self.core.replace_nodes(self.nodes.values(), self.now)
        self.core.replace_pods(self.pods.values())
        self.core.replace_volumes(self.claims.values())
        self.core.connected()
        self.rooms.clear()
        self.up = True
        self.turn()

    def cut(self) -> None:
        self.core.disconnected()
        self.calls.clear()
        self.rooms.clear()
        self.news.clear()
        self.up = False

    def watch(self, count: int = 1) -> None:
        for kind, each in self.news[:count]:
            if isinstance(each, VolumeClaim):
                if kind == "put":
                    self.core.put_volume(each)
                else:
                    self.core.remove_volume(each.name)
            elif kind == "put":
                self.core.put_pod(each)
            else:
                self.core.remove_pod(each)
        del self.news[:count]

    def turn(self) -> Turn:
        turn = self.core.take()
        for each in turn.withdrawn:
            assert self.rooms.pop(each, None) is not None, "only what stands is withdrawn"
        for room in turn.rooms:
            assert all(room.node != other.node for other in self.rooms.values()), "one room for a node"
            self.rooms[room.id] = room
        self.calls += turn.instructions
        for status in turn.statuses:
            if status.missing:
                self.missing.add(status.run)
            else:
                self.told.setdefault(status.run, []).append(status)
        return turn

    # What may happen.

    def do(self, move: str, pick: int) -> None:
        getattr(self, f"_{move.replace(' ', '_')}")(pick)

    def _launch(self, pick: int) -> None:
        rooms = [room for room in self.rooms.values() if ONE.fits(room.free)]
        if self.up and rooms:
            room = rooms[pick % len(rooms)]
            self.number += 1
            run = f"run-{self.number}"
            self.core.launch(room.node, run, ONE)
            self.placed[run] = room.node
            del self.rooms[room.id]

    def _launch_stateful(self, pick: int) -> None:
        """Launch a run with a volume that is offered, or with a new one."""
        rooms = [room for room in self.rooms.values() if ONE.fits(room.free)]
        if not self.up or not rooms:
            return
        room = rooms[pick % len(rooms)]
        self.number += 1
        run = f"run-{self.number}"
        if room.volumes and pick % 3:
            name, size = room.volumes[pick % len(room.volumes)]
            mount = VolumeMount(name, size, "data", create=False)
        elif room.free.disk >= VOLUME:
            mount = VolumeMount(run, VOLUME, "data", create=True)
        else:
            return
        self.mounts[run] = mount
        self.core.launch(room.node, run, ONE, (), mount)
        self.placed[run] = room.node
        del self.rooms[room.id]

    def _destroy_volume(self, pick: int) -> None:
        offered = [(room, name) for room in self.rooms.values() for name, _ in room.volumes]
        if self.up and offered:
            room, name = offered[pick % len(offered)]
            self.core.destroy_volume(name)
            del self.rooms[room.id]

    def _delete_volume(self, call: DeleteVolume) -> None:
        held = self.claims.get(call.name)
        if held is not None and held.uid == call.uid:
            assert call.name not in self.used_volumes(), "no volume of a pod is deleted"
            self.news.append(("remove", self.claims.pop(call.name)))

    def used_volumes(self) -> list[str]:
        """Return the volumes of pods that have not ended."""
        return [name for each in self.pods.values() if not each.over for name in each.claims]

    def _call(self, pick: int) -> None:
        self._make_call(pick, answered=True)

    def _lost_call(self, pick: int) -> None:
        self._make_call(pick, answered=False)

    def _make_call(self, pick: int, answered: bool) -> None:
        if not self.calls:
            return
        call = self.calls.pop(pick % len(self.calls))
        if isinstance(call, DeleteVolume):
            self._delete_volume(call)
            return
        key = (NAMESPACE, call.run)
        if isinstance(call, Delete):
            held = self.pods.get(key)
            if held is not None and held.uid == call.uid:
                if call.grace == 0 or held.over:
                    self.drop(key)
                else:
                    self.put(replace(held, deleting=True))
            return
        if not self.core.wanted(call.run):
            self.core.dropped(call.run)
            return
        assert key not in self.pods, "no run is created twice"
        assert call.run not in self.begun, "no run is created again"
        self.begun.add(call.run)
        mount = self.mounts.get(call.run)
        if mount is not None and mount.create:
            claim = VolumeClaim(mount.id, f"uid-{mount.id}", self.placed[call.run], mount.size)
            self.claims[claim.name] = claim
            self.news.append(("put", claim))
            if answered:
                self.core.put_volume(claim)
        claims = frozenset() if mount is None else frozenset({mount.id})
        assert not claims & set(self.used_volumes()), "a volume has one run at a time"
        made = pod(call.run, node=self.placed[call.run], claims=claims)
        self.put(made)
        if answered:
            self.core.created(made)

    def _kill(self, pick: int) -> None:
        if self.up and self.placed:
            self.core.kill(sorted(self.placed)[pick % len(self.placed)])

    def _change(self, pick: int, changed: Pod | None) -> None:
        live = [each for each in self.ours() if not each.over]
        if live and changed is not None:
            held = live[pick % len(live)]
            self.put(replace(held, phase=changed.phase, container=changed.container))

    def _run(self, pick: int) -> None:
        self._change(pick, running())

    def _end(self, pick: int) -> None:
        self._change(pick, ended())

    def _fail(self, pick: int) -> None:
        self._change(pick, ended(3))

    def _stuck(self, pick: int) -> None:
        self._change(pick, pod(container=Container("waiting", "ErrImagePull")))

    def _remove(self, pick: int) -> None:
        deleting = [each for each in self.ours() if each.deleting]
        if deleting:
            self.drop(deleting[pick % len(deleting)].key)

    def _foreign(self, pick: int) -> None:
        key = ("other", f"f{pick % 3}")
        if key in self.pods:
            self.drop(key)
        else:
            self.put(pod(key[1], namespace="other", ours=False, uid=f"f{pick}", node=f"n{pick % 2 + 1}"))

    def _node_away(self, pick: int) -> None:
        self._set_node(pick, ready=False)

    def _node_back(self, pick: int) -> None:
        self._set_node(pick, ready=True)

    def _set_node(self, pick: int, ready: bool) -> None:
        name = f"n{pick % 2 + 1}"
        self.nodes[name] = node(name, ready=ready)
        if self.up:
            self.core.put_node(self.nodes[name], self.now)

    def _node_gone(self, pick: int) -> None:
        name = f"n{pick % 2 + 1}"
        self.nodes.pop(name, None)
        if self.up:
            self.core.remove_node(name)

    def _cut(self, pick: int) -> None:
        if self.up:
            self.cut()

    def _connect(self, pick: int) -> None:
        self.connect()

    def _acknowledge(self, pick: int) -> None:
        ends = [each[-1] for each in self.told.values() if each[-1].state.terminal]
        if self.up and ends:
            status = ends[pick % len(ends)]
            self.core.acknowledge(status.run, status.uid, self.now)

    def _tick(self, pick: int) -> None:
        self.now += 1 + pick % 15
        self.core.tick(self.now)

    def _reconcile(self, pick: int) -> None:
        if self.up:
            self.core.reconcile(sorted(self.placed))

    def _watch(self, pick: int) -> None:
        if self.up:
            self.watch(1 + pick % 3)

    # What must hold.

    def check(self) -> None:
        for room in self.rooms.values():
            held = self.nodes.get(room.node)
            assert held is not None, "a room is of a node that is there"
            assert held.ready, "a room is of a node that is ready"
            assert room.free.fits(held.total)
        offered = [name for room in self.rooms.values() for name, _ in room.volumes]
        assert len(offered) == len(set(offered)), "a volume is offered once"
        for run, statuses in self.told.items():
            terminal = [each.state.terminal for each in statuses]
            assert terminal == sorted(terminal), f"{run} has ended and is reported to live: {statuses}"
            ends = {(each.state, each.reason) for each in statuses if each.state.terminal}
            assert len(ends) <= 1, f"{run} has ended in one way: {ends}"
            if ends and run in {each.name for each in self.pods.values()}:
                assert self.pods[NAMESPACE, run].over, f"{run} has ended and its pod may run"

    def settle(self) -> None:
        """Let everything come to rest: calls are made, the watch is read, time passes."""
        self.connect()
        for _ in range(40):
            while self.news or self.calls:
                self.watch(len(self.news))
                self.turn()
                for _ in range(len(self.calls)):
                    self._make_call(0, answered=True)
                for each in [each for each in self.ours() if each.deleting]:
                    self.drop(each.key)
            self.now += 1.0
            self.core.tick(self.now)
            self.turn()
        self.core.reconcile(sorted(self.placed))
        self.turn()
        self.check()

    def check_rest(self) -> None:
        for run in self.placed:
            held = self.pods.get((NAMESPACE, run))
            last = self.told[run][-1] if run in self.told else None
            if held is None:
                over = last is not None and last.state.terminal
                assert over or run in self.missing, f"nobody is told that {run} is over"
            elif held.over:
                assert last is not None
                assert last.state.terminal, f"the end of {run} is told"
            else:
                assert last is not None
                assert last.state in (RunState.STAGING, RunState.STARTING, RunState.RUNNING)
        for name, held_node in self.nodes.items():
            used = [each.requests for each in self.pods.values() if each.node == name and not each.over]
            claims = [each for each in self.claims.values() if each.node == name]
            free = held_node.total - sum(used, ZERO) - Resources(disk=sum(each.size for each in claims))
            rooms = [room for room in self.rooms.values() if room.node == name]
            if held_node.ready and max(free.cpu, free.memory) > 0:
                assert [room.free for room in rooms] == [Resources(*(max(0, each) for each in free.values()))]
                unused = {each.name for each in claims} - set(self.used_volumes())
                assert {volume for room in rooms for volume, _ in room.volumes} == unused
            else:
                assert not rooms


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 29)), max_size=60))
def test_the_core_tells_the_truth(moves: list[tuple[str, int]]) -> None:
    world = World()
    for move, pick in moves:
        world.do(move, pick)
        if world.up:
            world.turn()
        world.check()
    world.settle()
    world.check_rest()
