"""Events of Kubernetes by which owners of pods are told what Peloton does with them."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any, NoReturn

from hostmgr.kubernetes.core.foreign_book import ForeignBook
from peloton.clock import NANOSECONDS, Clock
from peloton.kubernetes.client import MERGE, ApiClient, ApiError
from peloton.model.foreign_pod import ForeignPod, Told

MOST_WAITING = 10_000
"""Events that wait to be written; beyond it the oldest are dropped."""
LONGEST_CHARACTERS = 1024
"""Of the message of an Event (Kubernetes API: `events.k8s.io`)."""
_LONGEST_NAME_CHARACTERS = 230
_NOT_FOUND, _CONFLICT = 404, 409
log = logging.getLogger(__name__)


class OwnerEvents:
    """Write what owners are told; the newest text of a pod and reason counts."""

    def __init__(self, client: ApiClient, book: ForeignBook, clock: Clock, fence: Callable[[], None]) -> None:
        self._client = client
        self._book = book
        self._clock = clock
        self._fence = fence
        self._waiting: dict[tuple[str, str], Told] = {}
        self._written: dict[str, None] = {}
        """Paths of Events that are there."""
        self._writing = 0
        self._added = asyncio.Event()

    @property
    def waiting(self) -> int:
        """How many Events are not written yet."""
        return len(self._waiting) + self._writing

    def add(self, told: Iterable[Told]) -> None:
        """Queue what owners are told."""
        for each in told:
            self._waiting[each.uid, each.reason] = each
            if len(self._waiting) > MOST_WAITING:
                self._waiting.pop(next(iter(self._waiting)))
        self._added.set()

    async def run(self) -> NoReturn:
        """Write for ever. Raises Unavailable."""
        while True:
            while not self._waiting:
                self._added.clear()
                await self._added.wait()
            told = self._waiting.pop(next(iter(self._waiting)))
            pod = self._book.get(told.uid)
            if pod is not None:
                self._writing = 1
                await self._write(pod, told)
                self._writing = 0

    async def _write(self, pod: ForeignPod, told: Told) -> None:
        event = event_of(pod, told, self._clock.wall())
        folder = f"/api/v1/namespaces/{pod.namespace}/events"
        path = f"{folder}/{event['metadata']['name']}"
        self._fence()
        try:
            if path not in self._written or not await self._change(path, event):
                await self._create(folder, path, event)
        except ApiError as error:
            log.warning("the owner of pod %s/%s is not told: %s", pod.namespace, pod.name, error)
            return
        self._written[path] = None
        if len(self._written) > MOST_WAITING:
            self._written.pop(next(iter(self._written)))

    async def _create(self, folder: str, path: str, event: dict[str, Any]) -> None:
        """Write a new Event, or change the one that an earlier leader has written. Raises ApiError."""
        try:
            await self._client.call("POST", folder, event)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
            await self._change(path, event)

    async def _change(self, path: str, event: dict[str, Any]) -> bool:
        """Change an Event; return whether it is still there. Raises ApiError."""
        change = {name: event[name] for name in ("message", "type", "lastTimestamp")}
        try:
            await self._client.call("PATCH", path, change, content_type=MERGE)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
            return False
        return True


def event_of(pod: ForeignPod, told: Told, wall: int) -> dict[str, Any]:
    """Return an Event about a pod. `wall`: nanoseconds since 1970."""
    now = datetime.fromtimestamp(wall // NANOSECONDS, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    digest = blake2b(f"{pod.uid}\n{told.reason}".encode(), digest_size=8).hexdigest()
    message = told.message
    if len(message) > LONGEST_CHARACTERS:
        message = message[: LONGEST_CHARACTERS - 1] + "…"
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {
            "name": f"{pod.name[:_LONGEST_NAME_CHARACTERS].rstrip('.-')}.{digest}",
            "namespace": pod.namespace,
        },
        "involvedObject": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": pod.namespace,
            "name": pod.name,
            "uid": pod.uid,
        },
        "reason": told.reason,
        "message": message,
        "type": "Warning" if told.warning else "Normal",
        "source": {"component": "peloton"},
        "reportingComponent": "peloton",
        "reportingInstance": "peloton",
        "firstTimestamp": now,
        "lastTimestamp": now,
        "count": 1,
    }
