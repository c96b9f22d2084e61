"""Secrets of runs: each run that has some has one Secret of Kubernetes, with the name of its pod.

It is made before the pod, which owns it from then on. It is deleted when the pod has ended, and where the pod
is gone. Nothing else of Kubernetes has the contents: the pod names the Secret.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from hostmgr.kubernetes.core.cluster import KubernetesCluster
from hostmgr.kubernetes.core.pods import PELOTON
from mesos.v1 import mesos_pb2
from peloton.api.v0.task import task_pb2
from peloton.errors import InvalidArgument
from peloton.kubernetes.client import MERGE, ApiClient, ApiError
from peloton.model.amounts import byte_size
from peloton.model.pod_template import MANAGED_BY
from peloton.model.task import Launch

SANDBOX = "/mnt/mesos/sandbox"
"""Where relative paths begin: where Mesos has the sandbox of a container with an image."""
VOLUME = "secrets"
SWEEP_SECONDS = 60.0
MOST_BYTES = 1024 * 1024
"""Bytes of a Secret (Kubernetes: "Restriction on Secret size")."""
_METADATA = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"
"""Asks for lists without contents."""
_NOT_FOUND, _FORBIDDEN = 404, 403
Manifest = dict[str, Any]
log = logging.getLogger(__name__)


def secret_manifest(launch: Launch, config: task_pb2.TaskConfig, namespace: str) -> Manifest | None:
    """Return the Secret of a run; None where it has no secrets.

    Raises InvalidArgument where they are too long, or Mesos would have to resolve them.
    """
    contents = {
        **{key: volume.source.secret for key, volume in secret_volumes(config)},
        **{key: variable.secret for key, variable in secret_variables(config)},
    }
    for key, secret in contents.items():
        if secret.type == mesos_pb2.Secret.REFERENCE or not secret.HasField("value"):
            raise InvalidArgument(key, "a reference", "the secret itself: Kubernetes resolves none of Mesos")
    size = sum(len(secret.value.data) for secret in contents.values())
    if size > MOST_BYTES:
        raise InvalidArgument("secrets", byte_size(size), f"at most {byte_size(MOST_BYTES)}, on Kubernetes")
    if not contents:
        return None
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {
            "name": launch.mesos_task_id,
            "namespace": namespace,
            "labels": {MANAGED_BY: PELOTON},
        },
        "immutable": True,
        "data": {key: base64.b64encode(each.value.data).decode() for key, each in contents.items()},
    }


def secret_volumes(config: task_pb2.TaskConfig) -> Iterator[tuple[str, mesos_pb2.Volume]]:
    """Yield the volumes that are secrets, with their keys in the Secret."""
    for number, volume in enumerate(config.container.volumes):
        if volume.source.type == mesos_pb2.Volume.Source.SECRET:
            yield f"file-{number}", volume


def secret_variables(
    config: task_pb2.TaskConfig,
) -> Iterator[tuple[str, mesos_pb2.Environment.Variable]]:
    """Yield the variables that are secrets, with their keys in the Secret."""
    for number, variable in enumerate(config.command.environment.variables):
        if variable.type == mesos_pb2.Environment.Variable.SECRET:
            yield f"variable-{number}", variable


def mount_of(key: str, volume: mesos_pb2.Volume) -> Manifest:
    """Return where a secret file is in the container."""
    path = volume.container_path
    if not path.startswith("/"):
        path = f"{SANDBOX}/{path}"
    return {"name": VOLUME, "mountPath": path, "subPath": key, "readOnly": True}


def volume_of(run: str) -> Manifest:
    """Return the volume of a pod with its Secret. The container's user reads it, whoever that is."""
    return {"name": VOLUME, "secret": {"secretName": run, "defaultMode": 0o444}}


def owned_by(pod: Manifest) -> Manifest:
    """Return the patch by which a Secret goes when its pod does."""
    metadata = pod["metadata"]
    owner = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    return {"metadata": {"ownerReferences": [owner]}}


class SecretSweeper:
    """Delete what an earlier leader has left: Secrets whose pods were never made, or are gone."""

    def __init__(
        self, client: ApiClient, core: KubernetesCluster, namespace: str, fence: Callable[[], None]
    ) -> None:
        self._client = client
        self._core = core
        self._path = f"/api/v1/namespaces/{namespace}/secrets"
        self._fence = fence
        self._without_pod: set[str] = set()

    async def run(self) -> NoReturn:
        """Sweep now and then. Raises Unavailable."""
        while True:
            try:
                await self.sweep()
            except ApiError as error:
                if error.status != _FORBIDDEN:
                    raise
                log.warning("secrets that were left behind are not found: %s", error)
            await asyncio.sleep(SWEEP_SECONDS)

    async def sweep(self) -> None:
        """Delete what had no pod the last time either: it may be under way. Raises ApiError, Unavailable."""
        selector = f"{MANAGED_BY}={PELOTON}"
        listed = await self._client.call("GET", self._path, accept=_METADATA, labelSelector=selector)
        names = {str(each["metadata"]["name"]) for each in listed.get("items") or ()}
        gone = {name for name in names if self._core.needs_no_secret(name)}
        for name in gone & self._without_pod:
            self._fence()
            try:
                await self._client.call("DELETE", f"{self._path}/{name}")
            except ApiError as error:
                if error.status != _NOT_FOUND:
                    raise
        self._without_pod = gone


async def own(client: ApiClient, namespace: str, pod: Manifest) -> None:
    """Let a pod own its Secret. One that does not is swept. Raises Unavailable."""
    run = pod["metadata"]["name"]
    path = f"/api/v1/namespaces/{namespace}/secrets/{run}"
    try:
        await client.call("PATCH", path, owned_by(pod), content_type=MERGE)
    except ApiError as error:
        log.warning("the secrets of %s do not belong to its pod: %s", run, error)
