"""The calls that create and delete pods, a bounded number at a time, in order for each run."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from prometheus_client import Counter

from hostmgr.kubernetes.core.cluster import KubernetesCluster
from hostmgr.kubernetes.core.instructions import (
    Bind,
    Create,
    Delete,
    DeleteSecret,
    DeleteVolume,
    Evict,
    Instruction,
)
from hostmgr.kubernetes.core.pods import PELOTON, RUN, Key, pod_of
from hostmgr.kubernetes.core.states import RunState
from hostmgr.kubernetes.core.volumes import claim_of
from hostmgr.kubernetes.secrets import own
from peloton.errors import Unavailable
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.tasks import until_first_ends
from peloton.model.ids import MesosTaskId
from peloton.model.pod_template import MANAGED_BY

MOST_WAITING = 1000
"""Calls that are queued before callers wait."""
TRIES = 3
PAUSE_SECONDS = 0.3
CALLS = Counter("hostmgr_kubernetes_calls", "Calls that create and delete pods.", ["call", "result"])
log = logging.getLogger(__name__)
_CONFLICT, _NOT_FOUND, _FORBIDDEN, _GONE = 409, 404, 403, 410


@dataclass(frozen=True, slots=True)
class Described:
    """What is created for a run."""

    pod: dict[str, Any]
    secret: dict[str, Any] | None = None
    claim: dict[str, Any] | None = None
    """The PersistentVolumeClaim of a new volume."""
    strict: bool = False
    """Whether the pod is refused for a field that Kubernetes does not know, in place of leaving it out."""


class PodWriter:
    """Carry out the core's instructions. A call that is not answered is made again: names make it safe."""

    def __init__(
        self,
        client: ApiClient,
        core: KubernetesCluster,
        namespace: str,
        concurrency: int,
        fence: Callable[[], None],
        wake: Callable[[], None],
    ) -> None:
        """Call `wake` when the core has learnt something."""
        self._client = client
        self._core = core
        self._namespace = namespace
        self._path = f"/api/v1/namespaces/{namespace}/pods"
        self._secrets = f"/api/v1/namespaces/{namespace}/secrets"
        self._claims = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self._concurrency = concurrency
        self._fence = fence
        self._wake = wake
        self._described: dict[MesosTaskId, Described] = {}
        self._queue: deque[Instruction] = deque()
        self._added = asyncio.Event()
        self._roomy = asyncio.Event()
        self._roomy.set()

    def describe(self, run: MesosTaskId, described: Described) -> None:
        """Keep what belongs to a run until it is created."""
        self._described[run] = described

    def add(self, instructions: Iterable[Instruction]) -> None:
        """Queue instructions."""
        self._queue.extend(instructions)
        if self._queue:
            self._added.set()
        self._measure()

    async def room(self) -> None:
        """Wait until more may be queued."""
        await self._roomy.wait()

    def disconnected(self) -> None:
        """Forget what was not sent."""
        self._queue.clear()
        self._described.clear()
        self._roomy.set()

    def _measure(self) -> None:
        if len(self._queue) < MOST_WAITING:
            self._roomy.set()
        else:
            self._roomy.clear()

    async def work(self) -> None:
        """Make calls until one fails for want of a server. Raises Unavailable, and what the fence raises."""
        await until_first_ends(*(self._write() for _ in range(self._concurrency)))

    async def _write(self) -> NoReturn:
        while True:
            while not self._queue:
                self._added.clear()
                await self._added.wait()
            instruction = self._queue.popleft()
            self._measure()
            if isinstance(instruction, Create):
                await self._create(instruction.run)
            elif isinstance(instruction, Bind):
                await self._bind(instruction)
            elif isinstance(instruction, Evict):
                await self._evict(instruction)
            elif isinstance(instruction, DeleteSecret):
                await self._delete_secret(instruction.run)
            elif isinstance(instruction, DeleteVolume):
                await self._delete_volume(instruction)
            else:
                await self._delete(instruction)
            self._wake()

    async def _create(self, run: MesosTaskId) -> None:
        described = self._described.pop(run, None)
        if described is None or not self._core.wanted(run):
            self._core.dropped(run)
            return
        try:
            if described.claim is not None:
                await self._create_claim(described.claim)
            if described.secret is not None:
                await self._create_secret(described.secret)
            strict = {"fieldValidation": "Strict"} if described.strict else {}
            answer = await self._again("POST", self._path, described.pod, **strict)
        except ApiError as error:
            if not await self._exists(run, error) and described.secret is not None:
                await self._delete_secret(run)
            return
        CALLS.labels("create", "done").inc()
        self._core.created(pod_of(answer, self._namespace))
        if described.secret is not None:
            await own(self._client, self._namespace, answer)

    async def _bind(self, instruction: Bind) -> None:
        """Bind a pod of somebody else. The API server binds each once, so that a repetition does no harm."""
        run = instruction.run
        if not self._core.wanted(run):
            await self._delete(Delete(run, instruction.uid, None, instruction.pod))
            self._core.dropped(run)
            return
        path = self._pod_path(run, instruction.pod)
        try:
            await self._again("POST", f"{path}/binding", binding_of(instruction))
        except ApiError as error:
            if not await self._is_bound(path, instruction, error):
                return
        CALLS.labels("bind", "done").inc()
        self._core.bound(instruction)

    async def _is_bound(self, path: str, instruction: Bind, error: ApiError) -> bool:
        """Return whether a pod is bound by its run in spite of an error; report else its end."""
        CALLS.labels("bind", "refused").inc()
        run, text = instruction.run, f"Kubernetes has not bound the pod: {error}"
        if error.status in (_NOT_FOUND, _CONFLICT):
            try:
                found = await self._again("GET", path)
            except ApiError as missing:
                found, text = {}, f"the pod is gone: {missing}"
            metadata = found.get("metadata") or {}
            node = (found.get("spec") or {}).get("nodeName")
            same = metadata.get("uid") == instruction.uid
            if same and node and (metadata.get("annotations") or {}).get(RUN) == run:
                return True
            if not same or node or metadata.get("deletionTimestamp"):
                other = f"somebody else has bound the pod to {node}"
                text = other if same and node else "the pod was deleted before it was bound"
                self._core.refused(run, RunState.FAILED, "", text)
                return False
        log.warning("the pod of %s was not bound: %s", run, error)
        self._core.refused(run, RunState.LOST, "INVALID_OFFERS", text)
        return False

    def _pod_path(self, run: MesosTaskId, pod: Key | None) -> str:
        """Return the path of a pod; without `pod`, of the one that is named as its run."""
        return f"{self._path}/{run}" if pod is None else f"/api/v1/namespaces/{pod[0]}/pods/{pod[1]}"

    async def _create_claim(self, claim: dict[str, Any]) -> None:
        """Make a volume, of which an earlier try may have made the claim.

        One whose pod is not created stays: jobmgr has it deleted, as all volumes that were never used.
        """
        try:
            made = await self._again("POST", self._claims, claim)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise
            made = await self._again("GET", f"{self._claims}/{claim['metadata']['name']}")
        self._core.put_volume(claim_of(made))

    async def _delete_volume(self, instruction: DeleteVolume) -> None:
        options = {"preconditions": {"uid": instruction.uid}}
        try:
            await self._again("DELETE", f"{self._claims}/{instruction.name}", options)
        except ApiError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT):
                log.error("the volume %s was not deleted: %s", instruction.name, error)
                self._core.volume_kept(instruction.name)

    async def _create_secret(self, secret: dict[str, Any]) -> None:
        """Make a Secret; one of this name is there by an earlier try, as the namespace is Peloton's alone."""
        try:
            await self._again("POST", self._secrets, secret)
        except ApiError as error:
            if error.reason != "AlreadyExists":
                raise

    async def _delete_secret(self, run: MesosTaskId) -> None:
        try:
            await self._again("DELETE", f"{self._secrets}/{run}")
        except ApiError as error:
            if error.status != _NOT_FOUND:
                log.error("the secrets of %s were not deleted: %s", run, error)

    async def _exists(self, run: MesosTaskId, error: ApiError) -> bool:
        """Return whether there is a pod in spite of an error; report else that it was refused.

        Take over a pod of this name, which is ours by an earlier try.
        """
        if error.status == _CONFLICT and error.reason == "AlreadyExists":
            try:
                found = await self._again("GET", f"{self._path}/{run}")
            except ApiError as missing:
                error = missing
            else:
                if (found["metadata"].get("labels") or {}).get(MANAGED_BY) == PELOTON:
                    CALLS.labels("create", "exists").inc()
                    self._core.created(pod_of(found, self._namespace))
                    return True
        CALLS.labels("create", "refused").inc()
        log.warning("the pod of %s was not created: %s", run, error)
        text = f"Kubernetes has refused the pod: {error}"
        if error.status in (
            _FORBIDDEN,
            _NOT_FOUND,
            _CONFLICT,
        ):  # quotas, rights, namespaces: not the task's fault
            self._core.refused(run, RunState.LOST, "INVALID_OFFERS", text)
        else:
            self._core.refused(run, RunState.ERROR, "TASK_INVALID", text)
        return False

    async def _delete(self, instruction: Delete) -> None:
        options: dict[str, Any] = {"preconditions": {"uid": instruction.uid}} if instruction.uid else {}
        if instruction.grace is not None:
            options["gracePeriodSeconds"] = instruction.grace
        try:
            await self._again("DELETE", self._pod_path(instruction.run, instruction.pod), options)
        except ApiError as error:
            if error.status not in (_NOT_FOUND, _CONFLICT, _GONE):  # it is gone, or another one
                CALLS.labels("delete", "refused").inc()
                log.error("the pod of %s was not deleted: %s", instruction.run, error)
                return
        CALLS.labels("delete", "done").inc()

    async def _evict(self, instruction: Evict) -> None:
        """Evict a pod that is not deleted meanwhile. What is refused, or not answered, is tried again later.

        An API server answers 500 where two budgets are about one pod, so that this ends no connection.
        """
        run, uid = instruction.run, instruction.uid
        if run not in self._core.evictions:
            return
        self._fence()
        try:
            path = self._pod_path(run, instruction.pod)
            await self._client.call("POST", f"{path}/eviction", self._eviction(instruction))
        except Unavailable as error:
            self._core.eviction_refused(run, uid, str(error), answered=False)
        except ApiError as error:
            if error.status in (_NOT_FOUND, _CONFLICT, _GONE):  # it is gone, or another one
                self._core.evicted(run)
                return
            CALLS.labels("evict", "refused").inc()
            log.warning("the pod of %s is not evicted: %s", run, error)
            self._core.eviction_refused(run, uid, str(error), forbidden=error.status == _FORBIDDEN)
        else:
            CALLS.labels("evict", "done").inc()
            self._core.evicted(run)

    def _eviction(self, instruction: Evict) -> dict[str, Any]:
        namespace, name = instruction.pod or (self._namespace, instruction.run)
        return {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": name, "namespace": namespace},
            "deleteOptions": {"preconditions": {"uid": instruction.uid}},
        }

    async def _again(self, method: str, path: str, body: object = None, **params: str) -> dict[str, Any]:
        """Make a call, a few times where it is not answered. Raises ApiError, Unavailable."""
        for left in reversed(range(TRIES)):
            self._fence()
            try:
                return await self._client.call(method, path, body, **params)
            except Unavailable:
                if not left:
                    raise
                await asyncio.sleep(PAUSE_SECONDS)
        raise AssertionError("the last try returns or raises")


def binding_of(instruction: Bind) -> dict[str, Any]:
    """Return the Binding of a pod: with the node it gets the annotation that names its run."""
    namespace, name = instruction.pod
    return {
        "apiVersion": "v1",
        "kind": "Binding",
        "metadata": {
            "name": name,
            "namespace": namespace,
            "uid": instruction.uid,
            "annotations": {RUN: instruction.run},
        },
        "target": {"apiVersion": "v1", "kind": "Node", "name": instruction.node},
    }
