"""The pods of one node: what is to be run, what is to end, and the statuses that are to be written."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, NoReturn

from minicluster.kubernetes.kubelet.pod_status import Progress, exit_code_of, status_of
from minicluster.kubernetes.kubelet.processes import Listener, Processes
from minicluster.kubernetes.kubelet.translation import (
    CannotBeRun,
    Object,
    Sources,
    claims_of,
    requested,
    sources_of,
    task_of,
)
from minicluster.kubernetes.kubelet.volumes import LocalVolumes
from peloton.errors import Unavailable
from peloton.kubernetes.client import MERGE, ApiClient, ApiError
from peloton.kubernetes.reflector import Change, Changed, Removed, Replaced

WRITERS = 8
RETRY_SECONDS = 1.0
_OVER = ("Succeeded", "Failed")


@dataclass(slots=True)
class _Held:
    """A pod that this kubelet runs or has run."""

    wire: Object
    progress: Progress = field(default_factory=Progress)
    stopping: bool = False
    waiting: asyncio.Task[None] | None = None
    """What waits for its Secrets, ConfigMaps and volumes; its process has not begun then."""


class Pods(Listener):
    """Follow the pods of a node, run them, and write their statuses."""

    def __init__(
        self, client: ApiClient, allocatable: Mapping[str, Fraction], ip: str, tell: Callable[[str], None]
    ) -> None:
        """Refuse pods that request more than is left of `allocatable`. `attach` comes first."""
        self._client = client
        self._allocatable = allocatable
        self._ip = ip
        self._tell = tell
        self._held: dict[str, _Held] = {}
        self._dirty: dict[str, None] = {}
        self._writing: set[str] = set()
        self._news = asyncio.Event()
        self._forgetting: set[asyncio.Task[None]] = set()
        self._processes: Processes | None = None
        self._volumes: LocalVolumes | None = None

    def attach(self, processes: Processes, volumes: LocalVolumes) -> None:
        """Set what runs the processes, and what makes volumes."""
        self._processes = processes
        self._volumes = volumes

    @property
    def _running(self) -> Processes:
        assert self._processes is not None, "attach comes first"
        return self._processes

    def uses(self, namespace: str, claim: str) -> bool:
        """Return whether a pod that has not ended uses a claim."""
        return any(
            held.wire["metadata"]["namespace"] == namespace
            and held.progress.phase not in _OVER
            and claim in claims_of(held.wire).values()
            for held in self._held.values()
        )

    # What the API server reports.

    def take(self, change: Change) -> None:
        """Follow a change of the pods of this node."""
        if isinstance(change, Replaced):
            known = {each["metadata"]["uid"]: each for each in change.objects}
            for uid in (self._running.recorded() | set(self._held)) - set(known):
                self._remove(uid)
            for each in known.values():
                self._put(each)
        elif isinstance(change, Changed):
            self._put(change.object)
        elif isinstance(change, Removed):
            self._remove(change.object["metadata"]["uid"])

    def uid_of(self, namespace: str, name: str, container: str) -> str:
        """Return the uid of a pod with this container; empty where it is not on this node."""
        for uid, held in self._held.items():
            metadata = held.wire["metadata"]
            if (metadata["namespace"], metadata["name"]) == (namespace, name):
                names = [each["name"] for each in held.wire["spec"]["containers"]]
                return uid if container in names else ""
        return ""

    def _put(self, wire: Object) -> None:
        uid = wire["metadata"]["uid"]
        held = self._held.get(uid)
        if held is None:
            if (wire.get("status") or {}).get("phase") in _OVER:
                return
            held = self._held[uid] = _Held(wire)
            self._begin(uid, held)
        held.wire = wire
        if wire["metadata"].get("deletionTimestamp") and not held.stopping:
            held.stopping = True
            grace = wire["metadata"].get("deletionGracePeriodSeconds") or 0
            if held.waiting is not None:
                held.waiting.cancel()
                self._ended(uid, 137, "Error", "deleted before it began")
            self._running.stop(uid, float(grace))
            self._write(uid)

    def _begin(self, uid: str, held: _Held) -> None:
        names, claims = sources_of(held.wire), set(claims_of(held.wire).values())
        if (names or claims) and not self._running.known(uid):
            held.waiting = asyncio.get_running_loop().create_task(self._begin_with(uid, held, names, claims))
            self._write(uid)
        else:
            self._start(uid, held, None if names else {})

    async def _begin_with(self, uid: str, held: _Held, names: set[str], claims: set[str]) -> None:
        """Start a pod once its Secrets, ConfigMaps and volumes are there, however long that takes."""
        assert self._volumes is not None, "attach comes first"
        namespace = held.wire["metadata"]["namespace"]
        sources = {name: await self._source(held, f"/api/v1/namespaces/{namespace}/{name}") for name in names}
        for claim in claims:
            await self._volumes.bound(namespace, claim)
        held.waiting = None
        self._start(uid, held, sources)

    async def _source(self, held: _Held, path: str) -> dict[str, bytes]:
        """Return what a Secret or a ConfigMap holds, once it is there."""
        while True:
            try:
                data = (await self._client.call("GET", path)).get("data") or {}
                if "/configmaps/" in path:
                    return {key: text.encode() for key, text in data.items()}
                return {key: base64.b64decode(text) for key, text in data.items()}
            except (ApiError, Unavailable) as error:
                self._tell(f"pod {held.wire['metadata']['name']} waits for {path}: {error}")
                await asyncio.sleep(RETRY_SECONDS)

    def _start(self, uid: str, held: _Held, sources: Sources | None) -> None:
        try:
            task = task_of(held.wire, sources)
            self._admit(uid, held)
        except CannotBeRun as error:
            held.progress.refusal = ("UnexpectedAdmissionError", str(error))
            self._write(uid)
            return
        if held.progress.refusal is None:
            self._running.start(uid, task)
        self._write(uid)

    def _admit(self, uid: str, held: _Held) -> None:
        """Refuse a pod for which there is no room, as a kubelet does."""
        others = [
            each.wire for key, each in self._held.items() if key != uid and each.progress.phase not in _OVER
        ]
        for name, wanted in requested(held.wire).items():
            used = sum((requested(each).get(name, Fraction(0)) for each in others), Fraction(0))
            most = self._allocatable.get(name, Fraction(0))
            if wanted + used > most:
                text = f"it requests {float(wanted):g} of {name}, and {float(most - used):g} are left"
                held.progress.refusal = (f"OutOf{name}", text)
                return

    def _remove(self, uid: str) -> None:
        """Forget a pod that is gone; what still runs of it is killed."""
        held = self._held.pop(uid, None)
        if held is not None and held.waiting is not None:
            held.waiting.cancel()
        if self._volumes is not None:
            self._volumes.look_again()
        task = asyncio.get_running_loop().create_task(self._running.forget(uid))
        self._forgetting.add(task)
        task.add_done_callback(self._forgetting.discard)

    # What the processes report.

    def on_running(self, uid: str) -> None:
        """Write that a pod runs."""
        if (held := self._held.get(uid)) is not None:
            held.progress.began = held.progress.began or time.time()
            self._write(uid)

    def on_health(self, uid: str, healthy: bool, kill: bool) -> None:
        """Write whether a pod is ready; end one that fails its probe."""
        if (held := self._held.get(uid)) is not None:
            held.progress.healthy = healthy
            self._write(uid)
            if kill:
                grace = held.wire["spec"].get("terminationGracePeriodSeconds", 30)
                self._running.stop(uid, float(grace))

    def on_end(self, uid: str, outcome: dict[str, Any]) -> None:
        """Write how a pod has ended."""
        code = exit_code_of(int(outcome["status"]))
        reason = "OOMKilled" if outcome.get("oom") else "Error" if code else "Completed"
        self._ended(uid, code, "ContainerStatusUnknown" if outcome.get("lost") else reason)

    def on_failure(self, uid: str, reason: str) -> None:
        """Write why a pod was not started."""
        self._ended(uid, 128, "StartError", reason)

    def _ended(self, uid: str, code: int, reason: str, message: str = "") -> None:
        if (held := self._held.get(uid)) is not None:
            progress = held.progress
            progress.began = progress.began or time.time()
            progress.ended, progress.exit_code = time.time(), code
            progress.reason, progress.message = reason, message
            self._write(uid)

    # Statuses.

    def _write(self, uid: str) -> None:
        self._dirty[uid] = None
        self._news.set()
        held = self._held.get(uid)
        if held is not None and held.progress.phase in _OVER and self._volumes is not None:
            self._volumes.look_again()

    async def write(self) -> NoReturn:
        """Write statuses, several at a time; only the newest of a pod counts."""
        async with asyncio.TaskGroup() as group:
            for _ in range(WRITERS):
                group.create_task(self._write_one_by_one())
        raise AssertionError("writers do not end")

    async def _write_one_by_one(self) -> NoReturn:
        while True:
            while (uid := self._next()) is None:
                self._news.clear()
                await self._news.wait()
            del self._dirty[uid]
            held = self._held.get(uid)
            if held is None:
                continue
            self._writing.add(uid)
            try:
                await self._try_to_write(uid, held)
            finally:
                self._writing.discard(uid)
                self._news.set()

    def _next(self) -> str | None:
        """Return a pod whose status is to be written. One call at a time: a late one would undo a newer."""
        return next((uid for uid in self._dirty if uid not in self._writing), None)

    async def _try_to_write(self, uid: str, held: _Held) -> None:
        try:
            await self._write_status(uid, held)
        except Unavailable as error:
            self._tell(f"statuses wait: {error}")
            await asyncio.sleep(RETRY_SECONDS)
            self._write(uid)
        except ApiError as error:
            if error.status not in (404, 409):  # it is gone, or another one
                self._tell(f"pod {held.wire['metadata']['name']}: its status was refused: {error}")

    async def _write_status(self, uid: str, held: _Held) -> None:
        metadata = held.wire["metadata"]
        path = f"/api/v1/namespaces/{metadata['namespace']}/pods/{metadata['name']}"
        over = held.progress.phase in _OVER
        body = {"metadata": {"uid": uid}, "status": status_of(held.wire, held.progress, self._ip)}
        await self._client.call("PATCH", f"{path}/status", body, content_type=MERGE)
        if over and held.stopping:
            options = {"gracePeriodSeconds": 0, "preconditions": {"uid": uid}}
            await self._client.call("DELETE", path, options)
