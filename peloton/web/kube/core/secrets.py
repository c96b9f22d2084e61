"""v1 Secret: a secret of a pool. Its contents are written, and never shown: each key has an empty value."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterable
from dataclasses import dataclass

from peloton.private.jobmgr.secrets import secrets_pb2 as pb
from peloton.web.kube.core.fields import Node
from peloton.web.kube.core.kinds import SECRET
from peloton.web.kube.core.manifests import LAST_APPLIED, Reading
from peloton.web.kube.core.refusals import INVALID
from peloton.web.kube.core.values import Object

OPAQUE = "Opaque"


@dataclass(frozen=True, slots=True)
class GivenSecret:
    """What a manifest came to."""

    info: pb.SecretInfo
    contents: dict[str, bytes]
    """By their keys. An empty one is to stay as it is."""
    warnings: tuple[str, ...]

    def __repr__(self) -> str:
        """Return the secret without its contents."""
        return f"GivenSecret({self.info.name!r})"


def given_secret(given: Object, namespace: str, known: Iterable[str] = (), kind: str = "") -> GivenSecret:
    """Read a Secret. `known` are the keys that it has already, `kind` its type. Raises Refusal."""
    reading = Reading.of(SECRET, given, namespace)
    root = reading.root
    contents = _data(root.node("data"), frozenset(known))
    plain = root.node("stringData")
    for key in plain.keys():  # noqa: SIM118 - no dict
        text = plain.text(key)
        if plain.value(key) == "":
            plain.refuse(key, "empty: a part of a secret has at least one byte", INVALID)
        contents[key] = text.encode()
    wanted = root.text("type") or kind or OPAQUE
    if kind and wanted != kind:
        root.refuse("type", "field is immutable", INVALID)
    immutable = root.flag("immutable")
    reading.close()
    # kubectl notes the whole manifest there, contents among it.
    reading.annotations.pop(LAST_APPLIED, None)
    info = pb.SecretInfo(
        name=reading.name,
        type=wanted,
        labels=reading.labels,
        annotations=reading.annotations,
        immutable=immutable,
    )
    return GivenSecret(info, contents, tuple(reading.problems.warnings))


def _data(node: Node, known: frozenset[str]) -> dict[str, bytes]:
    found = {}
    for key in node.keys():  # noqa: SIM118 - no dict
        text = node.text(key)
        try:
            found[key] = base64.b64decode("".join(text.split()), validate=True)
        except (binascii.Error, ValueError):
            node.refuse(key, "it is not base64: give plain text in stringData", INVALID)
            continue
        if not found[key] and key not in known:
            node.refuse(key, "empty: a part of a secret has at least one byte", INVALID)
    return found


def secret_object(info: pb.SecretInfo, namespace: str) -> Object:
    """Return a secret as it is shown: without contents."""
    metadata: Object = {
        "name": info.name,
        "namespace": namespace,
        "uid": info.id,
        "generation": info.revision,
        "creationTimestamp": f"{info.creation_time[:19]}Z" if info.creation_time else None,
    }
    for key, of in (("labels", info.labels), ("annotations", info.annotations)):
        if of:
            metadata[key] = dict(sorted(of.items()))
    found: Object = {
        "apiVersion": SECRET.api_version,
        "kind": SECRET.kind,
        "metadata": metadata,
        "type": info.type or OPAQUE,
        "data": dict.fromkeys(info.keys, ""),
    }
    return {**found, "immutable": True} if info.immutable else found
