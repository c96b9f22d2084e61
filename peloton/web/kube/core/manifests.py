"""What manifests of all kinds have in common: their kind, their metadata, the labels that keep them."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from peloton.web.kube.core import plain
from peloton.web.kube.core.fields import Node, Problems
from peloton.web.kube.core.kinds import Kind
from peloton.web.kube.core.names import LONGEST_MANIFEST_CHARACTERS, PREFIX, is_name, manifest_labels
from peloton.web.kube.core.refusals import INVALID, REQUIRED, Refusal, invalid
from peloton.web.kube.core.secret_uses import Keys
from peloton.web.kube.core.values import Object

OWNER, TEAM = "peloton/owner", "peloton/owning-team"
PREEMPTIBLE = "peloton/preemptible"
"""Annotations that say of a job what Kubernetes has no field for."""
_FILLED = (
    "uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink",
    "deletionTimestamp", "deletionGracePeriodSeconds", "ownerReferences",
)  # fmt: skip
"""What the server fills in of the metadata."""
LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"
NATIVE = "peloton/native"
"""The annotation of objects of jobs that were not made by this API."""


@dataclass(slots=True)
class Reading:
    """A manifest on its way."""

    kind: Kind
    manifest: Object
    root: Node
    problems: Problems
    name: str
    namespace: str
    pool_id: str = ""
    secrets: Keys = field(default_factory=dict)
    """The Secrets that there are."""
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)

    @classmethod
    def of(
        cls,
        kind: Kind,
        given: Mapping[str, Any],
        namespace: str,
        pool_id: str = "",
        secrets: Keys | None = None,
    ) -> Reading:
        """Begin to read a manifest. Raises Refusal for one of another kind or namespace."""
        if plain.size(given, LONGEST_MANIFEST_CHARACTERS) > LONGEST_MANIFEST_CHARACTERS:
            # Nothing else is read of it: that would hold up all others.
            raise Refusal(413, f"the object is longer than {LONGEST_MANIFEST_CHARACTERS:,} characters")
        manifest = stripped(given)
        for key, usual in (("apiVersion", kind.api_version), ("kind", kind.kind)):
            if manifest.get(key) in (None, ""):  # the path says it, too: some clients leave it at that
                manifest[key] = usual
        problems = Problems()
        root = Node(manifest, "", problems)
        found = (root.text("apiVersion"), root.text("kind"))
        if found != (kind.api_version, kind.kind):
            wanted = f"{kind.api_version} {kind.kind}"
            raise Refusal(400, f"the object is {' '.join(found).strip() or 'of no kind'}, not {wanted}")
        metadata = root.node("metadata")
        name, own = metadata.text("name"), metadata.text("namespace") or namespace
        if own != namespace:
            text = f"the namespace of the object, {own!r}, is not that of the request, {namespace!r}"
            raise Refusal(400, text)
        if isinstance(manifest.get("metadata"), dict):
            manifest["metadata"]["namespace"] = namespace
        reading = cls(kind, manifest, root, problems, name, namespace, pool_id, secrets or {})
        reading.labels = metadata.mapping("labels")
        reading.annotations = metadata.mapping("annotations")
        reading._check(metadata)
        return reading

    def _check(self, metadata: Node) -> None:
        if not self.name:
            metadata.refuse("name", "give a name; generateName is made to one before", REQUIRED)
        elif not is_name(self.name):
            text = "lowercase letters, digits, `-` and `.`, which begins and ends with a letter or digit"
            metadata.refuse("name", f"{self.name!r} is not {text}", INVALID)
        for key in [*self.labels, *self.annotations]:
            if key.startswith(PREFIX):
                path = metadata.at("labels" if key in self.labels else "annotations")
                self.problems.refuse(f"{path}[{key}]", f"keys that begin with {PREFIX} are Peloton's own")
        metadata.close({"finalizers": "Peloton deletes without finalizers"})

    @property
    def preemptible(self) -> bool:
        """Return whether the job may be evicted for others."""
        given = self.annotations.get(PREEMPTIBLE, "false")
        if given not in ("true", "false"):
            self.problems.refuse(f"metadata.annotations[{PREEMPTIBLE}]", "give true or false", INVALID)
        return given == "true"

    def kept_labels(self) -> list[tuple[str, str]]:
        """Return the labels of the job: the manifest's own, and those that keep it. Raises Refusal."""
        try:
            return sorted(self.labels.items()) + manifest_labels(self.manifest)
        except ValueError as error:
            raise Refusal(413, str(error)) from None

    def close(self) -> None:
        """End the reading. Raises Refusal where anything cannot be kept."""
        self.root.close()
        if self.problems.causes:
            raise invalid(self.kind.kind, self.name, self.problems.causes)


def without_applied(manifest: Object) -> Object:
    """Return a manifest without what kubectl notes of the one that it applied last."""
    metadata = dict(manifest.get("metadata") or {})
    annotations = metadata.pop("annotations", None) or {}
    if isinstance(annotations, dict):
        annotations = {key: text for key, text in annotations.items() if key != LAST_APPLIED}
    if annotations:
        metadata["annotations"] = annotations
    return {**manifest, "metadata": metadata}


def stripped(given: Mapping[str, Any]) -> Object:
    """Return a copy of an object without what the server fills in."""
    manifest = copy.deepcopy(dict(given))
    manifest.pop("status", None)
    metadata = manifest.get("metadata")
    if isinstance(metadata, dict):
        for key in _FILLED:
            metadata.pop(key, None)
        annotations = metadata.get("annotations")
        if isinstance(annotations, dict):
            annotations.pop(NATIVE, None)
            if not annotations:
                del metadata["annotations"]
    return manifest
