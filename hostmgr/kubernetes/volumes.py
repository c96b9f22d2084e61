"""Persistent volumes of tasks: each is one PersistentVolumeClaim, with the id of the volume as its name.

It is made before the pod of its first run, and its storage by the provisioner of its class. No pod owns it:
it stays until the volume is deleted.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NoReturn

from hostmgr.kubernetes.core.cluster import KubernetesCluster
from hostmgr.kubernetes.core.pods import PELOTON
from hostmgr.kubernetes.core.quantities import MEGABYTE
from hostmgr.kubernetes.core.volumes import NODE, SELECTED_NODE, claim_of
from hostmgr.kubernetes.secrets import SANDBOX
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.following import follow
from peloton.kubernetes.reflector import Change, Changed, Replaced
from peloton.model.ids import parse_mesos_task_id
from peloton.model.pod_template import MANAGED_BY
from peloton.model.resources import MILLI
from peloton.model.system_labels import INSTANCE_LABEL, JOB_ID_LABEL
from peloton.model.task import Launch

VOLUME = "persistent"
"""The name of the persistent volume within its pod."""
RIGHT_SECONDS = 30.0
"""Seconds between two tries to follow claims, where there is no right to."""
_FORBIDDEN = 403
Manifest = dict[str, Any]
log = logging.getLogger(__name__)


def claim_manifest(launch: Launch, node: str, namespace: str, storage_class: str) -> Manifest | None:
    """Return the claim that is to be made for a launch; None where the launch needs no new volume.

    Without a `storage_class` it is that which the cluster has as its default.
    """
    volume = launch.volume
    if volume is None or not volume.create:
        return None
    run = parse_mesos_task_id(launch.mesos_task_id)
    labels = {MANAGED_BY: PELOTON, JOB_ID_LABEL: run.job_id, INSTANCE_LABEL: str(run.instance)}
    size = math.ceil(Fraction(volume.size * MEGABYTE, MILLI))
    spec: Manifest = {
        "accessModes": ["ReadWriteOnce"],
        "resources": {"requests": {"storage": str(size)}},
    }
    if storage_class:
        spec["storageClassName"] = storage_class
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolumeClaim",
        "metadata": {
            "name": volume.id,
            "namespace": namespace,
            "labels": labels,
            "annotations": {NODE: node, SELECTED_NODE: node},
        },
        "spec": spec,
    }


def volume_of(claim: str) -> Manifest:
    """Return the volume of a pod that is a claim."""
    return {"name": VOLUME, "persistentVolumeClaim": {"claimName": claim}}


def mount_of(container_path: str) -> Manifest:
    """Return where the volume is in the container; a relative path begins where Mesos has the sandbox."""
    path = container_path if container_path.startswith("/") else f"{SANDBOX}/{container_path}"
    return {"name": VOLUME, "mountPath": path}


class ClaimFollower:
    """Follow the claims of the namespace."""

    def __init__(
        self, client: ApiClient, core: KubernetesCluster, namespace: str, wake: Callable[[], None]
    ) -> None:
        """Call `wake` when the core has learnt something."""
        self._client = client
        self._core = core
        self._path = f"/api/v1/namespaces/{namespace}/persistentvolumeclaims"
        self._wake = wake
        self.listed = asyncio.Event()
        """Set once the claims are known, or it is known that they cannot be."""

    async def run(self) -> NoReturn:
        """Follow them, once that is allowed. Raises Unavailable."""
        await self._await_right()
        await follow(self._client, self._path, self._take, labelSelector=f"{MANAGED_BY}={PELOTON}")

    async def _await_right(self) -> None:
        """Wait for the right to read claims: without it, hostmgr works for tasks without volumes."""
        while True:
            try:
                await self._client.call("GET", self._path, limit=1)
                return
            except ApiError as error:
                if error.status != _FORBIDDEN:
                    raise
                if not self.listed.is_set():
                    log.warning("there are no persistent volumes: %s", error)
                self.listed.set()
            await asyncio.sleep(RIGHT_SECONDS)

    def _take(self, change: Change) -> None:
        if isinstance(change, Replaced):
            self._core.replace_volumes(map(claim_of, change.objects))
            self.listed.set()
        elif isinstance(change, Changed):
            self._core.put_volume(claim_of(change.object))
        else:
            self._core.remove_volume(change.object["metadata"]["name"])
        self._wake()
