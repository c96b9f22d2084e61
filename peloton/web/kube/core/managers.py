"""Server-side apply: which client has said which fields of an object, and what follows where they disagree.

A field is a path: names of fields, and of lists whose elements have a key (`patches.KEYS`) the key of one.
Owners are known of objects that were applied by the server, from then on: other changes make their clients
owners, too.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peloton.web.kube.core.manifests import LAST_APPLIED
from peloton.web.kube.core.patches import KEYS
from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.values import Object

APPLY, UPDATE = "Apply", "Update"
CLIENT_SIDE = {"kubectl": "kubectl-client-side-apply"}
"""Whose fields a manager takes over: kubectl moves from the one to the other."""
MOST_MANAGERS = 10
"""Of an object; of more, those that only update are one."""
OTHERS = "others"
LONGEST_MANAGER = 128
Path = tuple[str, ...]
"""Parts as FieldsV1 writes them: `f:NAME`, and `k:{"KEY":VALUE}` for an element."""
Fields = frozenset[Path]
_IDENTITY = (("f:apiVersion",), ("f:kind",), ("f:metadata", "f:name"), ("f:metadata", "f:namespace"))
_NOTED = ("f:metadata", "f:annotations", f"f:{LAST_APPLIED}")
_ITSELF = "."


@dataclass(frozen=True, slots=True)
class Manager:
    """A client, and the fields that it has said."""

    name: str
    operation: str
    time: str
    fields: Fields

    def plain(self, api_version: str) -> Object:
        """Return its entry in managedFields."""
        return {
            "manager": self.name,
            "operation": self.operation,
            "apiVersion": api_version,
            "time": self.time,
            "fieldsType": "FieldsV1",
            "fieldsV1": _nested(self.fields),
        }


Managers = tuple[Manager, ...]


def encoded(managers: Managers) -> str:
    """Return managers as they are kept."""
    rows = [[each.name, each.operation, each.time, _nested(each.fields)] for each in managers]
    return json.dumps(rows, separators=(",", ":"), ensure_ascii=False)


def decoded(text: str) -> Managers:
    """Return managers that are kept; none where the text is not one of theirs."""
    try:
        rows = json.loads(text) if text else []
        return tuple(
            Manager(str(name), str(operation), str(time), frozenset(_paths(nested, ())))
            for name, operation, time, nested in rows
        )
    except (ValueError, TypeError, AttributeError, RecursionError):
        return ()


def same_managers(one: Managers, other: Managers) -> bool:
    """Return whether both say the same, whenever that was."""

    def said(managers: Managers) -> set[tuple[str, str, Fields]]:
        return {(each.name, each.operation, each.fields) for each in managers}

    return said(one) == said(other)


def applied(
    live: Object, given: Object, managers: Managers, name: str, now: str, *, force: bool, api_version: str
) -> tuple[Object, Managers]:
    """Return an object with what a manager applies, and the managers then.

    What it had applied before and does not any more goes, where nobody else says it. Raises Refusal for a
    conflict: another manager has said another value, and `force` is not given.
    """
    said, there = _said(given), _said(live)
    own = frozenset(said)
    mine = [each for each in managers if _is_own(each, name)]
    others = [each for each in managers if each not in mine]
    told = {path: [each for each in others if path in each.fields] for path in sorted(own)}
    disputed = {path: by for path, by in told.items() if by and there.get(path) != said[path]}
    if disputed and not force:
        raise _conflict(disputed, api_version)
    result = merged(copy.deepcopy(live), given)
    kept = frozenset().union(*(each.fields for each in others))
    before = frozenset().union(*(each.fields for each in mine))
    result = _pruned(result, (), before - own - kept)
    left = [_without(each, frozenset(disputed)) for each in others]
    return result, _bounded([Manager(name, APPLY, now, own), *left])


def updated(before: Object, after: Object, managers: Managers, name: str, now: str) -> Managers:
    """Return the managers after a change in another way: who makes it owns what it changes."""
    if not managers:
        return ()
    was, is_now = _said(before), _said(after)
    gone = frozenset(was) - frozenset(is_now)
    changed = frozenset(path for path, value in is_now.items() if path not in was or was[path] != value)
    left = [_without(each, gone | changed) for each in managers]
    mine = [each for each in left if (each.name, each.operation) == (name, UPDATE)]
    rest = [each for each in left if each not in mine]
    own = changed.union(*(each.fields for each in mine))
    return _bounded([*rest, *([Manager(name, UPDATE, now, own)] if own else [])])


def _is_own(manager: Manager, name: str) -> bool:
    """Return whether a manager is one whose fields an apply by this name replaces."""
    applies = (manager.name, manager.operation) == (name, APPLY)
    return applies or (manager.operation == UPDATE and manager.name == CLIENT_SIDE.get(name))


def _without(manager: Manager, fields: Fields) -> Manager:
    return Manager(manager.name, manager.operation, manager.time, manager.fields - fields)


def _bounded(managers: Sequence[Manager]) -> Managers:
    """Leave out managers without fields; where too many update, make them one."""
    found = [each for each in managers if each.fields]
    if len(found) <= MOST_MANAGERS:
        return tuple(found)
    keep = [each for each in found if each.operation == APPLY][: MOST_MANAGERS - 1]
    rest = [each for each in found if each not in keep]
    fields = frozenset().union(*(each.fields for each in rest))
    return (*keep, Manager(OTHERS, UPDATE, rest[-1].time, fields))


def _conflict(disputed: Mapping[Path, Sequence[Manager]], api_version: str) -> Refusal:
    """Return the refusal, in Kubernetes' words."""
    causes = [
        (f'conflict with "{by.name}" using {api_version}', dotted(path))
        for path, owners in disputed.items()
        for by in owners
    ]
    count = f"{len(causes)} conflict{'s' * (len(causes) != 1)}"
    told = "; ".join(f"{message}: {field}" for message, field in causes)
    rows = [
        {"reason": "FieldManagerConflict", "message": message, "field": field} for message, field in causes
    ]
    return Refusal(409, f"Apply failed with {count}: {told}", "Conflict", {"causes": rows})


def dotted(path: Path) -> str:
    """Return a path as Kubernetes writes it, such as `.spec.containers[name="main"].image`."""
    pieces = []
    for part in path:
        if part.startswith("f:"):
            pieces.append(f".{part[2:]}")
        elif part.startswith("k:"):
            pieces.append(_told_element(part[2:]))
    return "".join(pieces)


def _told_element(text: str) -> str:
    try:
        ((key, value),) = json.loads(text).items()
    except (ValueError, TypeError, AttributeError):
        return f"[{text}]"  # of labels that another API has set
    return f"[{key}={json.dumps(value)}]"


def _said(found: Object) -> dict[Path, Any]:
    """Return the fields that an object says with their values, without those by which it is named."""
    return {path: value for path, value in _leaves(found, ()) if path not in _IDENTITY and path != _NOTED}


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    """Yield what has no parts of its own, with its path, and that there are elements of lists."""
    key = KEYS.get(path[-1][2:]) if path else None
    if isinstance(value, dict) and value:
        for name, each in value.items():
            if each is not None:
                yield from _leaves(each, (*path, f"f:{name}"))
    elif isinstance(value, list) and key and _is_keyed(value, key):
        for each in value:
            below = (*path, _element(key, each))
            yield (*below, _ITSELF), True
            yield from _leaves(each, below)
    elif path:
        yield path, value


def _is_keyed(value: list[Any], key: str) -> bool:
    return bool(value) and all(
        isinstance(each, dict) and isinstance(each.get(key), str | int) for each in value
    )


def _element(key: str, value: Mapping[str, Any]) -> str:
    return f"k:{json.dumps({key: value[key]}, separators=(',', ':'))}"


def merged(live: Any, given: Any, name: str = "") -> Any:
    """Return a value with another laid over it: objects and lists of keyed elements are merged."""
    if isinstance(given, dict) and isinstance(live, dict):
        for key, value in given.items():
            if value is not None:
                live[key] = merged(live.get(key), value, key)
        return live
    key = KEYS.get(name)
    if key and isinstance(given, list) and isinstance(live, list) and _is_keyed(given, key):
        places = {each.get(key): i for i, each in enumerate(live) if isinstance(each, dict)}
        for each in given:
            at = places.get(each[key])
            if at is None:
                live.append(copy.deepcopy(each))
            else:
                live[at] = merged(live[at], each)
        return live
    return copy.deepcopy(given)


def _pruned(value: Any, path: Path, gone: Fields) -> Any:
    """Return a value without some fields, and without what holds nothing else than these."""
    key = KEYS.get(path[-1][2:]) if path else None
    if isinstance(value, dict):
        return {
            name: left
            for name, each in value.items()
            if (below := (*path, f"f:{name}")) not in gone
            and ((left := _pruned(each, below, gone)) not in ({}, []) or each in ({}, []))
        }
    if isinstance(value, list) and key and _is_keyed(value, key):
        return [each for one in value if (each := _pruned_element(one, key, path, gone)) is not None]
    return value


def _pruned_element(one: Object, key: str, path: Path, gone: Fields) -> Object | None:
    """Return an element of a list without some fields; None for one that goes whole."""
    below = (*path, _element(key, one))
    # By its key it is found, which goes with all of it.
    left = _pruned({name: each for name, each in one.items() if name != key}, below, gone)
    return None if not left and (*below, _ITSELF) in gone else {key: one[key], **left}


def _nested(fields: Iterable[Path]) -> Object:
    """Return fields as FieldsV1 has them."""
    root: Object = {}
    for path in sorted(fields):
        at = root
        for part in path:
            at = at.setdefault(part, {})
    return root


def _paths(nested: Mapping[str, Any], path: Path) -> Iterator[Path]:
    for part, below in nested.items():
        if below:
            yield from _paths(below, (*path, part))
        else:
            yield (*path, part)
