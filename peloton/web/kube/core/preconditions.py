"""What a request that changes an object says in its body: parts, and on what the change depends."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.values import Object


def object_of(body: Any) -> Object:
    """Return a body that is an object. Raises Refusal for anything else."""
    if not isinstance(body, dict):
        raise Refusal(400, "the body is not an object")
    return body


def part_of(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object of a body, empty where it is not given. Raises Refusal for anything else."""
    found = given.get(key)
    if found is not None and not isinstance(found, dict):
        raise Refusal(400, f"{key}: not an object")
    return found or {}


def check_version(given: Mapping[str, Any], current: Object, plural: str, name: str) -> None:
    """Refuse a change of a version that is not the present one. Raises Refusal."""
    metadata = given.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    if version not in (None, "", current["metadata"]["resourceVersion"]):
        text = f'Operation cannot be fulfilled on {plural} "{name}": the object has been modified'
        raise Refusal(409, f"{text}; please apply your changes to the latest version and try again")


def check_uid(options: Mapping[str, Any], found: Object) -> None:
    """Refuse to delete another object than the one that is meant. Raises Refusal."""
    wanted, metadata = part_of(options, "preconditions"), found["metadata"]
    if wanted.get("uid") not in (None, metadata["uid"]):
        raise Refusal(409, f"the uid is {metadata['uid']}, not {str(wanted['uid'])[:100]}")
    if wanted.get("resourceVersion") not in (None, metadata.get("resourceVersion")):
        raise Refusal(409, f"the resourceVersion is {metadata.get('resourceVersion')}")


def dry_by(options: Mapping[str, Any]) -> bool:
    """Return whether options of a deletion say that nothing is to be done. Raises Refusal."""
    given = options.get("dryRun")
    if given not in (None, [], ["All"]):
        raise Refusal(400, f"dryRun: {str(given)[:100]} is not [All]")
    return bool(given)
