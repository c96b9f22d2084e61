"""Pods of others that Peloton binds: who follows them, and what their owners are told."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NoReturn

from hostmgr.kubernetes.core.cluster import KubernetesCluster
from hostmgr.kubernetes.core.foreign import ForeignRules, foreign_of
from hostmgr.kubernetes.core.foreign_book import ForeignBook
from hostmgr.kubernetes.core.nodes import Taint
from hostmgr.kubernetes.core.pod_groups import PodGroups, grouped
from hostmgr.kubernetes.core.pods import Key, group_of
from hostmgr.kubernetes.owner_events import OwnerEvents
from peloton.clock import Clock
from peloton.kubernetes.client import ApiClient
from peloton.kubernetes.reflector import Change, Changed, Replaced
from peloton.model.foreign_pod import ForeignPod, PodChanges, Told
from peloton.waking import Signal


class ForeignPods:
    """Follow the pods that name Peloton as their scheduler."""

    def __init__(
        self,
        client: ApiClient,
        core: KubernetesCluster,
        namespace: str,
        rules: ForeignRules,
        clock: Clock,
        fence: Callable[[], None],
    ) -> None:
        """Leave `namespace` aside, which has Peloton's own pods."""
        self._core = core
        self._namespace = namespace
        self._rules = rules
        self._book = ForeignBook(str(uuid.uuid4()))
        self._events = OwnerEvents(client, self._book, clock, fence)
        self._changed = Signal()
        self._groups = PodGroups()
        self._naming: dict[str, tuple[ForeignPod, str]] = {}
        """Pods that name a PodGroup, by their uids, as they are without it."""

    @property
    def enabled(self) -> bool:
        """Whether there are any."""
        return self._rules.enabled

    def get(self, uid: str) -> ForeignPod | None:
        """Return a pod; None where there is none."""
        return self._book.get(uid)

    @property
    def waiting(self) -> int:
        """How many Events are to be written yet."""
        return self._events.waiting

    def take(self, change: Change) -> None:
        """Follow a change of pods."""
        if not self.enabled:
            return
        before, taints = self._book.last, self._taints()
        if isinstance(change, Replaced):
            self._naming.clear()
            found = (self._read(each, taints) for each in change.objects)
            self._book.replace(each for each in found if each is not None)
        elif isinstance(change, Changed) and (pod := self._read(change.object, taints)) is not None:
            self._book.put(pod)
        else:
            uid = change.object["metadata"]["uid"]
            self._naming.pop(uid, None)
            self._book.remove(uid)
        self._tell_since(before)

    def take_groups(self, groups: PodGroups) -> None:
        """Follow a change of PodGroups."""
        before, changed = self._book.last, _changed(self._groups, groups)
        self._groups = groups
        for pod, group in self._naming.values():
            if changed is None or (pod.namespace, group) in changed:
                self._book.put(grouped(pod, group, groups))
        self._tell_since(before)

    def _tell_since(self, before: int) -> None:
        if self._book.last != before:
            self._changed.fire()

    def _read(self, wire: Mapping[str, Any], taints: Sequence[Taint]) -> ForeignPod | None:
        """Return a pod that is to be bound, as its PodGroup has it; None for another one."""
        pod, group = foreign_of(wire, self._namespace, self._rules, taints), group_of(wire)
        if pod is None or not group:
            self._naming.pop(wire["metadata"]["uid"], None)
            return pod
        self._naming[pod.uid] = pod, group
        return grouped(pod, group, self._groups)

    def _taints(self) -> list[Taint]:
        return [taint for node in self._core.nodes.values() for taint in node.taints]

    async def changes(self, stream: str, after: int, wait: float) -> PodChanges:
        """Return what has changed after a change of a stream, waiting for up to `wait` seconds."""
        if stream == self._book.stream and after == self._book.last:
            await self._changed.wait(wait)
        return self._book.changes(stream, after)

    def tell(self, told: Iterable[Told]) -> None:
        """Tell owners of pods what becomes of them."""
        self._events.add(told)

    async def write_events(self) -> NoReturn:
        """Write what owners are told, for ever. Raises Unavailable."""
        await self._events.run()


def _changed(before: PodGroups, after: PodGroups) -> set[Key] | None:
    """Return the PodGroups that have changed; None where that concerns all pods that name one."""
    if before.installed != after.installed:
        return None
    return {key for key in {*before.least, *after.least} if before.least.get(key) != after.least.get(key)}
