"""Queues of the core's instructions for the drivers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, TypeVar

from jobmgr.core.state.instructions import (
    Compare,
    DestroyVolume,
    Enqueue,
    FollowHosts,
    Instruction,
    Keep,
    Kill,
    Launch,
    Prune,
    Reconcile,
    Release,
    ReleaseHolds,
    RenewHolds,
    Retire,
    Settle,
    ShutDown,
    Withdraw,
)
from jobmgr.engine.lockdown import Gate, Lockdown
from peloton.model.cluster import UNNAMED, cluster_of
from peloton.model.ids import JobId, Run, TaskId, parse_task_id
from peloton.model.lockdown import Component
from peloton.model.states import TaskState
from peloton.model.volume import Volume

T = TypeVar("T")


class Queue(Generic[T]):
    """A queue that is drained in batches. The number of active tasks bounds it."""

    def __init__(self, gate: Gate | None = None) -> None:
        """Make a queue that holds its items back while `gate` is closed."""
        self._items: deque[T] = deque()
        self._some = asyncio.Event()
        self._gate = gate

    def __len__(self) -> int:
        return len(self._items)

    @property
    def held(self) -> bool:
        """Whether the items are held back."""
        return self._gate is not None and self._gate.closed

    def any(self, wanted: Callable[[T], bool]) -> bool:
        """Return whether there is such an item."""
        return any(map(wanted, self._items))

    def put(self, items: Iterable[T]) -> None:
        """Append items."""
        self._items.extend(items)
        if self._items:
            self._some.set()

    def drop(self, dropped: Callable[[T], bool]) -> list[T]:
        """Remove and return items that are not to be carried out any more."""
        out = [item for item in self._items if dropped(item)]
        if out:
            self._items = deque(item for item in self._items if not dropped(item))
        return out

    async def take(self, limit: int) -> list[T]:
        """Wait for items; remove and return at most `limit` of them, in order."""
        while not self._items or self.held:
            if self._gate is not None:
                await self._gate.opened()
            if not self._items:
                self._some.clear()
                await self._some.wait()
        items = self._items  # no await from here on: `drop` may replace it
        return [items.popleft() for _ in range(min(limit, len(items)))]


class ClusterOutbox:
    """The queues of instructions that the host manager of one Mesos cluster carries out."""

    def __init__(self, launching: Gate | None = None, killing: Gate | None = None) -> None:
        self.launch: Queue[Launch] = Queue(launching)
        self.release: Queue[Release] = Queue()
        self.kill: Queue[Run] = Queue(killing)
        self.kill_and_hold: Queue[tuple[Run, str]] = Queue(killing)
        self.release_holds: Queue[TaskId] = Queue()
        self.renew_holds: Queue[RenewHolds] = Queue()
        self.shut_down: Queue[tuple[Run, str]] = Queue(killing)
        self.reconcile: Queue[tuple[Run, str]] = Queue()
        self.destroy: Queue[Volume] = Queue(killing)

    def drop(self, dropped: Callable[[JobId], bool]) -> None:
        """Forget what is to be done for jobs, except launches, which may have runs of others."""
        self.kill.drop(lambda run: dropped(run.job_id))
        for runs in (self.kill_and_hold, self.shut_down, self.reconcile):
            runs.drop(lambda each: dropped(each[0].job_id))
        self.release_holds.drop(lambda each: dropped(parse_task_id(each)[0]))
        self.renew_holds.drop(lambda each: dropped(each.job_id))
        self.destroy.drop(lambda each: dropped(each.job_id))


class Outbox:
    """One queue for each kind of instruction. Those that a lockdown halts are held back.

    What goes to a host manager has queues for each Mesos cluster, so that a cluster that does not answer
    delays no other.
    """

    def __init__(self, lockdown: Lockdown | None = None) -> None:
        def gate(*components: Component) -> Gate | None:
            return None if lockdown is None else lockdown.gate(Component.GOAL_STATE_ENGINE, *components)

        driving, killing, launching = gate(), gate(Component.KILL), gate(Component.LAUNCH)
        self._gates = launching, killing
        self._clusters: dict[str, ClusterOutbox] = {}
        unnamed = self.of_cluster(UNNAMED)
        self.launch = unnamed.launch
        self.kill, self.kill_and_hold = unnamed.kill, unnamed.kill_and_hold
        self.release_holds, self.renew_holds = unnamed.release_holds, unnamed.renew_holds
        self.shut_down, self.reconcile = unnamed.shut_down, unnamed.reconcile
        self.destroy = unnamed.destroy
        self.enqueue: Queue[Enqueue] = Queue(driving)
        self.enqueue_again: Queue[Enqueue] = Queue(driving)
        self.compare: Queue[Compare] = Queue()
        self.withdraw: Queue[Withdraw] = Queue(killing)
        self.keep: Queue[Run] = Queue()
        self.settle: Queue[tuple[Run, TaskState]] = Queue()
        self.retire: Queue[JobId] = Queue()
        self.delete: Queue[JobId] = Queue(driving)
        self.prune: Queue[Prune] = Queue()
        self.follow: Queue[JobId] = Queue()
        self._routes: Mapping[type, Callable[[Any], None]] = {
            Enqueue: lambda it: (self.enqueue_again if it.again else self.enqueue).put([it]),
            Compare: lambda it: self.compare.put([it]),
            Withdraw: lambda it: self.withdraw.put([it]),
            Launch: lambda it: self._of_host(it.hostname).launch.put([it]),
            Release: lambda it: self._of_host(it.hostname).release.put([it]),
            Kill: self._put_kill,
            ReleaseHolds: lambda it: self.of_cluster(it.cluster).release_holds.put(it.instances),
            RenewHolds: lambda it: self.of_cluster(it.cluster).renew_holds.put([it]),
            ShutDown: lambda it: self.of_cluster(it.cluster).shut_down.put(it.runs),
            Keep: lambda it: self.keep.put(it.runs),
            Settle: lambda it: self.settle.put(it.runs),
            Reconcile: lambda it: self.of_cluster(it.cluster).reconcile.put(it.runs),
            Retire: lambda it: (self.delete if it.delete else self.retire).put([it.job_id]),
            Prune: lambda it: self.prune.put([it]),
            DestroyVolume: lambda it: self._of_host(it.volume.hostname).destroy.put([it.volume]),
            FollowHosts: lambda it: self.follow.put([it.job_id]),
        }

    def of_cluster(self, cluster: str) -> ClusterOutbox:
        """Return the queues of a Mesos cluster."""
        if cluster not in self._clusters:
            self._clusters[cluster] = ClusterOutbox(*self._gates)
        return self._clusters[cluster]

    def _of_host(self, hostname: str) -> ClusterOutbox:
        return self.of_cluster(cluster_of(hostname))

    def _put_kill(self, kill: Kill) -> None:
        held = {run for run, _ in kill.held}
        outbox = self.of_cluster(kill.cluster)
        outbox.kill.put(run for run in kill.runs if run not in held)
        outbox.kill_and_hold.put(kill.held)

    def drop(self, dropped: Callable[[JobId], bool]) -> list[Compare]:
        """Forget what is to be done for jobs; return the comparisons among it, which somebody waits for.

        The launch of a host stays, since it may have runs of other jobs.
        """
        for cluster in self._clusters.values():
            cluster.drop(dropped)
        self.keep.drop(lambda run: dropped(run.job_id))
        self.settle.drop(lambda each: dropped(each[0].job_id))
        for enqueuing in (self.enqueue, self.enqueue_again):
            enqueuing.drop(lambda each: dropped(each.job_id))
        self.withdraw.drop(lambda each: dropped(each.job_id))
        self.prune.drop(lambda each: dropped(each.job_id))
        for ids in (self.retire, self.delete, self.follow):
            ids.drop(dropped)
        return self.compare.drop(lambda each: dropped(each.job_id))

    def send(self, instructions: Iterable[Instruction]) -> None:
        """Put instructions into their queues."""
        for instruction in instructions:
            self._routes[type(instruction)](instruction)
