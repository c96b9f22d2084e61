"""Patches: strategic merge, merge (RFC 7386) and JSON (RFC 6902)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.values import Object

STRATEGIC = "application/strategic-merge-patch+json"
MERGE = "application/merge-patch+json"
JSON = "application/json-patch+json"
APPLY = "application/apply-patch+yaml"
KEYS: Mapping[str, str] = {
    "containers": "name",
    "initContainers": "name",
    "env": "name",
    "ports": "containerPort",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "conditions": "type",
    "imagePullSecrets": "name",
    "ownerReferences": "uid",
}
"""By which field elements of a list are the same, by the name of the list; others are replaced whole."""
_RETAIN = "retainKeys"
MOST_OPERATIONS = 10_000


def check_type(content_type: str) -> None:
    """Raise Refusal for a patch of another type."""
    if content_type == APPLY:
        text = "server-side apply needs owners of fields, which Peloton does not keep: apply without it"
        raise Refusal(415, text)
    if content_type not in (STRATEGIC, MERGE, JSON):
        raise Refusal(415, f"{content_type!r} is not {STRATEGIC}, {MERGE} or {JSON}")


def patched(target: Object, patch: Any, content_type: str) -> Object:
    """Return an object with a patch laid over it. Raises Refusal for one that does not fit."""
    check_type(content_type)
    if content_type == JSON:
        return _json_patched(target, patch)
    if not isinstance(patch, dict):
        raise Refusal(400, "the patch is not an object")
    merge = _strategic if content_type == STRATEGIC else _merge
    found = merge(copy.deepcopy(target), patch)
    assert isinstance(found, dict)
    return found


def _merge(target: Any, patch: Any) -> Any:
    if not isinstance(patch, dict):
        return copy.deepcopy(patch)
    result = target if isinstance(target, dict) else {}
    for key, value in patch.items():
        if value is None:
            result.pop(key, None)
        else:
            result[key] = _merge(result.get(key), value)
    return result


def _strategic(target: Any, patch: Any) -> Any:
    """Merge an object: lists of named elements are merged by their keys, and directives are followed."""
    if patch.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    result = target if isinstance(target, dict) else {}
    if f"${_RETAIN}" in patch:
        result = {key: value for key, value in result.items() if key in patch[f"${_RETAIN}"]}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            result[name] = [each for each in result.get(name) or [] if each not in value]
        elif key.startswith("$"):
            continue
        elif value is None:
            result.pop(key, None)
        elif isinstance(value, dict):
            result[key] = _strategic(result.get(key), value)
        elif isinstance(value, list) and key in KEYS:
            order = patch.get(f"$setElementOrder/{key}")
            result[key] = _lists(result.get(key), value, KEYS[key], order)
        else:
            result[key] = copy.deepcopy(value)
    return result


def _lists(target: Any, patch: list[Any], key: str, order: Any) -> list[Any]:
    """Merge a list whose elements have a key."""
    if any(isinstance(each, dict) and each.get("$patch") == "replace" for each in patch):
        return [each for each in patch if not (isinstance(each, dict) and "$patch" in each)]
    found = list(target) if isinstance(target, list) else []
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise Refusal(400, f"an element of the patch has no {key!r}")
        at = next((i for i, one in enumerate(found) if one.get(key) == each[key]), None)
        if each.get("$patch") == "delete":
            if at is not None:
                del found[at]
        elif at is None:
            found.append(_strategic({}, each))
        else:
            found[at] = _strategic(found[at], each)
    if isinstance(order, list):
        places = {one.get(key): i for i, one in enumerate(order) if isinstance(one, dict)}
        found.sort(key=lambda one: places.get(one.get(key), len(places)))
    return found


def _json_patched(target: Object, patch: Any) -> Object:
    if not isinstance(patch, list) or len(patch) > MOST_OPERATIONS:
        raise Refusal(400, f"a JSON patch is a list of at most {MOST_OPERATIONS:,} operations")
    result: Any = copy.deepcopy(target)
    for i, operation in enumerate(patch):
        try:
            result = _operated(result, operation)
        except (KeyError, IndexError, TypeError, ValueError) as error:
            text = f"operation {i} of the patch does not fit: {operation!r}: {error!r}"
            raise Refusal(422, text[:1000]) from None
    if not isinstance(result, dict):
        raise Refusal(422, "the patch leaves no object")
    return result


def _operated(root: Any, operation: Mapping[str, Any]) -> Any:
    kind, path = operation["op"], _pointer(operation["path"])
    if kind == "test":
        if _read(root, path) != operation["value"]:
            raise ValueError("the value is another")
        return root
    if kind == "remove":
        return _removed(root, path)
    if kind == "replace":
        _read(root, path)
        return _added(_removed(root, path), path, operation["value"])
    if kind == "add":
        return _added(root, path, operation["value"])
    source = _pointer(operation["from"])
    value = copy.deepcopy(_read(root, source))
    if kind == "move":
        return _added(_removed(root, source), path, value)
    if kind == "copy":
        return _added(root, path, value)
    raise ValueError(f"{kind!r} is no operation")


def _pointer(text: str) -> list[str]:
    if text and not text.startswith("/"):
        raise ValueError(f"{text!r} is no JSON pointer")
    return [part.replace("~1", "/").replace("~0", "~") for part in text.split("/")[1:]]


def _read(value: Any, path: list[str]) -> Any:
    for part in path:
        value = value[int(part)] if isinstance(value, list) else value[part]
    return value


def _removed(root: Any, path: list[str]) -> Any:
    if not path:
        return None
    parent = _read(root, path[:-1])
    del parent[int(path[-1]) if isinstance(parent, list) else path[-1]]
    return root


def _added(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return copy.deepcopy(value)
    parent = _read(root, path[:-1])
    if isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else int(path[-1])
        if not 0 <= at <= len(parent):
            raise IndexError(at)
        parent.insert(at, copy.deepcopy(value))
    else:
        parent[path[-1]] = copy.deepcopy(value)
    return root
