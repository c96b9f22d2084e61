"""Patches: strategic merge, merge (RFC 7386) and JSON (RFC 6902)."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from peloton.web.kube.core import plain
from peloton.web.kube.core.names import LONGEST_MANIFEST_CHARACTERS
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
MOST_COPIED_CHARACTERS = 3 * 1024 * 1024
"""Of all operations of a JSON patch: each may copy what the one before has copied."""


def check_type(content_type: str) -> None:
    """Raise Refusal for a patch of another type."""
    if content_type == APPLY:
        raise Refusal(415, "server-side apply is of whole objects: patch this part in another way")
    if content_type not in (STRATEGIC, MERGE, JSON):
        raise Refusal(415, f"{content_type!r} is not {STRATEGIC}, {MERGE} or {JSON}")


def patched(target: Object, patch: Any, content_type: str) -> Object:
    """Return an object with a patch laid over it. Raises Refusal for one that does not fit."""
    check_type(content_type)
    if plain.size(patch, LONGEST_MANIFEST_CHARACTERS) > LONGEST_MANIFEST_CHARACTERS:
        raise Refusal(413, f"the patch is longer than {LONGEST_MANIFEST_CHARACTERS:,} characters")
    if content_type == JSON:
        return _json_patched(target, patch)
    if not isinstance(patch, dict):
        raise Refusal(400, "the patch is not an object")
    if content_type == MERGE:
        found = _merge(copy.deepcopy(target), patch)
        assert isinstance(found, dict)
        return found
    try:
        return _strategic(copy.deepcopy(target), patch)
    except (TypeError, AttributeError) as error:
        # Lists where objects belong, and the like: nothing of the target was changed.
        raise Refusal(400, f"the patch does not fit the object: {str(error)[:500]}") from None


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


def _strategic(target: Any, patch: Any) -> Object:
    """Merge an object: lists of named elements are merged by their keys, and directives are followed."""
    if patch.get("$patch") == "replace":
        return {key: copy.deepcopy(value) for key, value in patch.items() if key != "$patch"}
    if patch.get("$patch") == "delete":
        return {}
    result = target if isinstance(target, dict) else {}
    if f"${_RETAIN}" in patch:
        retained = set(patch[f"${_RETAIN}"])
        result = {key: value for key, value in result.items() if key in retained}
    for key, value in patch.items():
        if key.startswith("$deleteFromPrimitiveList/"):
            name = key.partition("/")[2]
            gone = set(value)
            result[name] = [each for each in result.get(name) or [] if each not in gone]
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
    slots: list[Any] = list(target) if isinstance(target, list) else []
    places_of = {one.get(key): i for i, one in reversed([*enumerate(slots)])}
    for each in patch:
        if not isinstance(each, dict) or key not in each:
            raise Refusal(400, f"an element of the patch has no {key!r}")
        at = places_of.get(each[key])
        if each.get("$patch") == "delete":
            if at is not None:
                slots[at] = None
                del places_of[each[key]]
        elif at is None:
            places_of[each[key]] = len(slots)
            slots.append(_strategic({}, each))
        else:
            slots[at] = _strategic(slots[at], each)
    found = [one for one in slots if one is not None]
    if isinstance(order, list):
        places = {one.get(key): i for i, one in enumerate(order) if isinstance(one, dict)}
        found.sort(key=lambda one: places.get(one.get(key), len(places)))
    return found


def _json_patched(target: Object, patch: Any) -> Object:
    if not isinstance(patch, list) or len(patch) > MOST_OPERATIONS:
        raise Refusal(400, f"a JSON patch is a list of at most {MOST_OPERATIONS:,} operations")
    result: Any = copy.deepcopy(target)
    left = MOST_COPIED_CHARACTERS
    for i, operation in enumerate(patch):
        try:
            if operation["op"] == "copy":
                left -= plain.size(_read(result, _pointer(operation["from"])), left)
                if left < 0:
                    raise ValueError(f"more than {MOST_COPIED_CHARACTERS:,} characters are copied")
            result = _operated(result, operation)
        except (KeyError, IndexError, TypeError, ValueError, AttributeError, RecursionError) as error:
            text = f"operation {i} of the patch does not fit: {str(operation)[:500]}: {str(error)[:300]}"
            raise Refusal(422, text) from None
    try:
        plain.check(result)
    except ValueError as error:
        raise Refusal(422, f"the object with the patch: {error}") from None
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
        value = value[_index(part)] if isinstance(value, list) else value[part]
    return value


def _index(part: str) -> int:
    if not part.isascii() or not part.isdecimal() or len(part) > 9:
        raise ValueError(f"{part[:20]!r} is no place in a list")
    return int(part)


def _removed(root: Any, path: list[str]) -> Any:
    if not path:
        return None
    parent = _read(root, path[:-1])
    del parent[_index(path[-1]) if isinstance(parent, list) else path[-1]]
    return root


def _added(root: Any, path: list[str], value: Any) -> Any:
    if not path:
        return copy.deepcopy(value)
    parent = _read(root, path[:-1])
    if isinstance(parent, list):
        at = len(parent) if path[-1] == "-" else _index(path[-1])
        if not 0 <= at <= len(parent):
            raise IndexError(at)
        parent.insert(at, copy.deepcopy(value))
    else:
        parent[path[-1]] = copy.deepcopy(value)
    return root
