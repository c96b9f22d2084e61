"""Names: namespaces of pools, labels by which jobs are found again, names of pods.

The namespace of a pool is its path with `--` between the parts, without the first slash: that of `/ml/vision`
is `ml--vision`. A pool whose path is no such name, for the characters in it or for its length, has the
namespace `pool-` with its id. Only pools that take jobs are namespaces.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.api.v1alpha import peloton_pb2 as v1alpha_pb2
from peloton.web.kube.core import plain
from peloton.web.kube.core.values import Object

SEPARATOR = "--"
LONGEST_LABEL = 63
PREFIX = "kubernetes/"
"""Of the labels of jobs by which their objects are found again."""
KIND_LABEL, NAME_LABEL = f"{PREFIX}kind", f"{PREFIX}name"
MANIFEST_LABEL = f"{PREFIX}manifest."
"""The manifest as it was given, in pieces: labels have a longest value."""
MANAGERS_LABEL = f"{PREFIX}managers."
"""Who has said which fields, where that is known, likewise."""
ANNOTATION_LABEL = f"{PREFIX}annotation/"
"""Of the labels of pods that are annotations of the template."""
PIECE_CHARACTERS = 16_000
MOST_PIECES = 32
LONGEST_MANIFEST_CHARACTERS = PIECE_CHARACTERS * MOST_PIECES
ID_CHARACTERS = 5
"""How much of a job's id is in the names of its pods."""
_PART = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", re.ASCII)
_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", re.ASCII)
_POD = re.compile(r"(.+)-([0-9a-f]{5})-(0|[1-9]\d{0,9})-(0|[1-9]\d{0,18})", re.ASCII)
LONGEST_NAME = 253


@dataclass(frozen=True, slots=True)
class Pool:
    """A pool that takes jobs, as a namespace."""

    id: str
    path: str
    namespace: str
    info: respool_pb2.ResourcePoolInfo


def namespace_of(pool_id: str, path: str) -> str:
    """Return the namespace of a pool."""
    parts = path.strip("/").split("/")
    name = SEPARATOR.join(parts)
    plain = all(_PART.fullmatch(part) and SEPARATOR not in part for part in parts)
    if not plain or len(name) > LONGEST_LABEL or name.startswith("pool-"):
        return f"pool-{pool_id}"
    return name


def pools_of(infos: Iterable[respool_pb2.ResourcePoolInfo]) -> dict[str, Pool]:
    """Return the pools that take jobs, by their namespaces."""
    leaves = (
        Pool(info.id.value, info.path.value, namespace_of(info.id.value, info.path.value), info)
        for info in infos
        if not info.children and info.path.value.strip("/")
    )
    return {pool.namespace: pool for pool in sorted(leaves, key=lambda pool: pool.namespace)}


def is_name(text: str) -> bool:
    """Return whether objects may have this name: a DNS subdomain."""
    return len(text) <= LONGEST_NAME and _SUBDOMAIN.fullmatch(text) is not None


def run_of(task: str) -> int:
    """Return the number of a run by its Mesos task id; 0 where it has none."""
    number = task.rpartition("-")[2]
    return int(number) if number.isdecimal() else 0


def pod_name(owner: str, job_id: str, instance: int, run: int) -> str:
    """Return the name of the pod of an instance: each run has its own, as who waits for its end expects."""
    return f"{owner}-{job_id[:ID_CHARACTERS]}-{instance}-{run}"


def parse_pod_name(name: str) -> tuple[str, str, int, int] | None:
    """Return the owner's name, the beginning of the job's id, instance and run; None for no such name."""
    found = _POD.fullmatch(name)
    return (found[1], found[2], int(found[3]), int(found[4])) if found else None


def manifest_labels(manifest: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return the labels that keep a manifest. Raises ValueError for one that is too large."""
    text = json.dumps(manifest, ensure_ascii=False, separators=(",", ":"), sort_keys=True)
    pieces = [text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS)]
    if len(pieces) > MOST_PIECES:
        raise ValueError(f"the manifest is longer than {LONGEST_MANIFEST_CHARACTERS:,} characters")
    name, kind = manifest["metadata"]["name"], manifest["kind"]
    own = [(KIND_LABEL, str(kind)), (NAME_LABEL, str(name))]
    return own + [(f"{MANIFEST_LABEL}{i}", piece) for i, piece in enumerate(pieces)]


def managers_labels(text: str) -> list[tuple[str, str]]:
    """Return the labels that keep who has said which fields; none where the text is too long for them."""
    pieces = [text[at : at + PIECE_CHARACTERS] for at in range(0, len(text), PIECE_CHARACTERS)]
    return (
        [(f"{MANAGERS_LABEL}{i}", piece) for i, piece in enumerate(pieces)]
        if len(pieces) <= MOST_PIECES
        else []
    )


def managers_of(labels: Sequence[peloton_pb2.Label] | Sequence[v1alpha_pb2.Label]) -> str:
    """Return what `managers_labels` keep; empty for none."""
    pieces = {label.key: label.value for label in labels if label.key.startswith(MANAGERS_LABEL)}
    return "".join(pieces.get(f"{MANAGERS_LABEL}{i}", "") for i in range(len(pieces)))


def manifest_of(labels: Sequence[peloton_pb2.Label] | Sequence[v1alpha_pb2.Label]) -> Object | None:
    """Return the manifest that labels keep; None where they keep none, or not all of one."""
    pieces = {
        int(label.key.removeprefix(MANIFEST_LABEL)): label.value
        for label in labels
        if label.key.startswith(MANIFEST_LABEL) and label.key.removeprefix(MANIFEST_LABEL).isdigit()
    }
    if not pieces or set(pieces) != set(range(len(pieces))):
        return None
    try:
        found = plain.parse("".join(pieces[i] for i in range(len(pieces))))
    except ValueError:
        return None
    return found if has_form(found) else None


def has_form(found: Any) -> bool:
    """Return whether a manifest can be shown: other APIs set labels, too, and may say anything there."""
    metadata, spec = _part(found, "metadata"), _part(found, "spec")
    selector, template = _part(spec, "selector"), _part(spec, "template")
    of_pods, pod = _part(template, "metadata"), _part(template, "spec")
    texts = [_part(metadata, "labels"), _part(metadata, "annotations"), _part(selector, "matchLabels")]
    texts += [_part(of_pods, "labels"), _part(of_pods, "annotations")]
    containers = _part(pod, "containers", [])
    return (
        isinstance(found, dict)
        and isinstance(found.get("kind"), str)
        and all(isinstance(each, dict) for each in (metadata, spec, selector, template, of_pods, pod))
        and isinstance(metadata.get("name"), str)
        and is_name(metadata["name"])
        and all(
            isinstance(each, dict) and all(isinstance(one, str) for one in each.values()) for each in texts
        )
        and isinstance(containers, list)
        and all(isinstance(each, dict) for each in containers)
    )


def _part(value: Any, key: str, default: Any = None) -> Any:
    """Return a part; where it is missing or null, an empty one."""
    found = value.get(key) if isinstance(value, dict) else None
    return ({} if default is None else default) if found is None else found
