"""The persistent volumes of a node: folders below its work directory.

Around a kubelet, a cluster has a provisioner, which makes a volume for a claim, and controllers, which bind
both and keep a claim from being deleted while a pod uses it. Here each node does this for the claims for
which a scheduler has chosen it (Kubernetes: "Persistent Volumes").
"""

from __future__ import annotations

import asyncio
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from minicluster.kubernetes.kubelet.translation import Object
from minicluster.mesos.agent.layout import Layout
from peloton.config.private import FOLDER
from peloton.errors import Unavailable
from peloton.kubernetes.client import MERGE, ApiClient, ApiError
from peloton.kubernetes.following import follow
from peloton.kubernetes.reflector import Change, Changed, Replaced

CLAIMS, VOLUMES = "/api/v1/persistentvolumeclaims", "/api/v1/persistentvolumes"
SELECTED_NODE = "volume.kubernetes.io/selected-node"
BOUND = "pv.kubernetes.io/bind-completed"
PROVISIONER = "peloton.minicluster/folders"
RETRY_SECONDS = 1.0
_NOT_FOUND, _CONFLICT = 404, 409
Key = tuple[str, str]
"""Namespace and name of a claim."""


def folder_of(layout: Layout, namespace: str, claim: str) -> Path:
    """Return the folder of a claim's volume, where the launcher of tasks looks for it."""
    return layout.volumes / "roles" / namespace / claim


class LocalVolumes:
    """Make, bind and remove the volumes of one node."""

    def __init__(
        self,
        client: ApiClient,
        node: str,
        layout: Layout,
        used: Callable[[str, str], bool],
        tell: Callable[[str], None],
    ) -> None:
        """Ask `used` whether a pod that has not ended uses a claim, by namespace and name."""
        self._client = client
        self._node = node
        self._layout = layout
        self._used = used
        self._tell = tell
        self._claims: dict[Key, Object] = {}
        self._bound: set[Key] = set()
        self._news = asyncio.Event()

    async def bound(self, namespace: str, name: str) -> None:
        """Wait until a claim has its volume on this node."""
        while (namespace, name) not in self._bound:
            await self._news.wait()

    def look_again(self) -> None:
        """Take over that a pod has ended, which may have used a claim."""
        self._wake()

    async def run(self) -> NoReturn:
        """Follow the claims, and work on them."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._follow())
            group.create_task(self._work())
        raise AssertionError("both do not end")

    async def _follow(self) -> NoReturn:
        while True:
            try:
                await follow(self._client, CLAIMS, self._take)
            except (ApiError, Unavailable) as error:
                self._tell(f"claims of volumes are not followed: {error}")
                await asyncio.sleep(RETRY_SECONDS)

    def _take(self, change: Change) -> None:
        if isinstance(change, Replaced):
            self._claims = {_key(each): each for each in change.objects if self._is_here(each)}
            known = {folder_of(self._layout, *key) for key in self._claims}
            for path in self._layout.volumes.glob("roles/*/*"):
                if path not in known:
                    shutil.rmtree(path)
        elif isinstance(change, Changed):
            if self._is_here(change.object):
                self._claims[_key(change.object)] = change.object
        elif self._claims.pop(key := _key(change.object), None) is not None:
            self._remove_folder(key)
        self._wake()

    def _is_here(self, claim: Object) -> bool:
        return (claim["metadata"].get("annotations") or {}).get(SELECTED_NODE) == self._node

    def _remove_folder(self, key: Key) -> None:
        self._bound.discard(key)
        shutil.rmtree(folder_of(self._layout, *key), ignore_errors=True)

    def _wake(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    async def _work(self) -> NoReturn:
        while True:
            news = self._news
            try:
                for key, claim in list(self._claims.items()):
                    await self._settle(key, claim)
            except (ApiError, Unavailable) as error:
                self._tell(f"volumes wait: {error}")
                await asyncio.sleep(RETRY_SECONDS)
                continue
            await news.wait()

    async def _settle(self, key: Key, claim: Object) -> None:
        if claim["metadata"].get("deletionTimestamp"):
            if not self._used(*key):
                await self._delete(key, claim)
        elif key not in self._bound:
            await self._provide(key, claim)

    async def _provide(self, key: Key, claim: Object) -> None:
        """Make the volume of a claim and bind both; what is there already stays as it is."""
        folder = folder_of(self._layout, *key)
        folder.mkdir(FOLDER, parents=True, exist_ok=True)
        volume = _volume_object(claim, self._node, folder)
        try:
            await self._client.call("POST", VOLUMES, volume)
        except ApiError as error:
            if error.status != _CONFLICT:
                raise
        name, path = (
            volume["metadata"]["name"],
            f"/api/v1/namespaces/{key[0]}/persistentvolumeclaims/{key[1]}",
        )
        chosen = {"metadata": {"annotations": {BOUND: "yes"}}, "spec": {"volumeName": name}}
        capacity = volume["spec"]["capacity"]
        status = {"phase": "Bound", "capacity": capacity, "accessModes": volume["spec"]["accessModes"]}
        await self._patch(path, chosen)
        await self._patch(f"{path}/status", {"status": status})
        await self._patch(f"{VOLUMES}/{name}/status", {"status": {"phase": "Bound"}})
        self._bound.add(key)
        self._wake()

    async def _delete(self, key: Key, claim: Object) -> None:
        """Let a claim that nobody uses go, and then its volume."""
        free = {"metadata": {"finalizers": None}}
        await self._patch(f"/api/v1/namespaces/{key[0]}/persistentvolumeclaims/{key[1]}", free)
        self._remove_folder(key)
        path = f"{VOLUMES}/{_volume_name(claim)}"
        try:
            await self._client.call("DELETE", path)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise
        await self._patch(path, free)
        self._claims.pop(key, None)

    async def _patch(self, path: str, change: dict[str, Any]) -> None:
        """Change an object; one that is gone needs no change."""
        try:
            await self._client.call("PATCH", path, change, content_type=MERGE)
        except ApiError as error:
            if error.status != _NOT_FOUND:
                raise


def _key(claim: Object) -> Key:
    return claim["metadata"]["namespace"], claim["metadata"]["name"]


def _volume_name(claim: Object) -> str:
    return f"pvc-{claim['metadata']['uid']}"


def _volume_object(claim: Object, node: str, folder: Path) -> dict[str, Any]:
    """Return the volume of a claim: a folder, which is on its node only."""
    metadata, spec = claim["metadata"], claim["spec"]
    expression = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    reference = {
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "namespace": metadata["namespace"], "name": metadata["name"], "uid": metadata["uid"],
    }  # fmt: skip
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": _volume_name(claim),
            "annotations": {"pv.kubernetes.io/provisioned-by": PROVISIONER},
        },
        "spec": {
            "capacity": {"storage": spec["resources"]["requests"]["storage"]},
            "accessModes": spec["accessModes"],
            "persistentVolumeReclaimPolicy": "Delete",
            "storageClassName": spec.get("storageClassName") or "",
            "local": {"path": str(folder)},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [expression]}]}},
            "claimRef": reference,
        },
    }
