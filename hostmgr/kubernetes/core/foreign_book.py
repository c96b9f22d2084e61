"""The pods of others that Peloton is to bind, with their changes in order, for those who follow them."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from peloton.model.foreign_pod import ForeignPod, PodChanges

MOST_GONE = 10_000
"""Pods that are gone of which it is remembered when; who is further behind gets all pods."""


class ForeignBook:
    """The pods by their uids. `last` grows with each change."""

    def __init__(self, stream: str, most_gone: int = MOST_GONE) -> None:
        """Give changes numbers in a `stream`, which no other book has."""
        self.stream = stream
        self.last = 0
        self._pods: dict[str, tuple[int, ForeignPod]] = {}
        """With the numbers of their last changes."""
        self._gone: deque[tuple[int, str]] = deque(maxlen=most_gone)
        self._forgotten = 0
        """The last change that is not remembered any more."""

    def get(self, uid: str) -> ForeignPod | None:
        """Return a pod; None where there is none."""
        held = self._pods.get(uid)
        return None if held is None else held[1]

    def put(self, pod: ForeignPod) -> None:
        """Take over a pod that is new or has changed."""
        if self.get(pod.uid) != pod:
            self.last += 1
            self._pods[pod.uid] = self.last, pod

    def remove(self, uid: str) -> None:
        """Take over that a pod is gone."""
        if self._pods.pop(uid, None) is None:
            return
        self.last += 1
        if len(self._gone) == self._gone.maxlen:
            self._forgotten = self._gone[0][0]
        self._gone.append((self.last, uid))

    def replace(self, pods: Iterable[ForeignPod]) -> None:
        """Take over all pods: others are gone."""
        listed = {pod.uid: pod for pod in pods}
        for uid in [uid for uid in self._pods if uid not in listed]:
            self.remove(uid)
        for pod in listed.values():
            self.put(pod)

    def changes(self, stream: str, after: int) -> PodChanges:
        """Return what has changed after a change of a stream; of another stream, all pods."""
        whole = stream != self.stream or after < self._forgotten or after > self.last
        if whole:
            pods = tuple(pod for _, pod in self._pods.values())
            return PodChanges(self.stream, self.last, True, pods)
        pods = tuple(pod for number, pod in self._pods.values() if number > after)
        gone = tuple(uid for number, uid in self._gone if number > after)
        return PodChanges(self.stream, self.last, False, pods, gone)
