"""OpenAPI v3 of what is served: by it kubectl explains kinds, and finds that the server checks fields."""

from __future__ import annotations

import hashlib
import json
from functools import cache

from peloton import __version__
from peloton.web.kube.core.kinds import KINDS, Kind
from peloton.web.kube.core.schemas import DESCRIPTIONS, KIND_FIELDS, META, SCHEMAS, Fields
from peloton.web.kube.core.values import Object

_GVK = "x-kubernetes-group-version-kind"
_ACTIONS = {"create": "post", "update": "put", "patch": "patch", "delete": "delete", "get": "get"}
_CHECKED = ("dryRun", "fieldManager", "fieldValidation")


def index() -> Object:
    """Return the document at /openapi/v3, which names the others."""
    return {
        "paths": {path: {"serverRelativeURL": f"/openapi/v3/{path}?hash={_hash(path)}"} for path in _paths()}
    }


@cache
def document(path: str) -> Object | None:
    """Return the document of a group's version, such as `apis/batch/v1`; None where it is not served."""
    kinds = _paths().get(path)
    if kinds is None:
        return None
    schemas = {_reference(name): _schema(fields) for name, fields in SCHEMAS.items()}
    operations: Object = {}
    for kind in kinds:
        own = _schema({**_common(), **KIND_FIELDS[kind.kind]}, DESCRIPTIONS[kind.kind])
        schemas[_reference(kind.kind)] = {**own, _GVK: [_gvk(kind)]}
        operations |= _operations(f"/{path}", kind)
    return {
        "openapi": "3.0.0",
        "info": {"title": "Peloton", "version": f"v{__version__}"},
        "paths": operations,
        "components": {"schemas": schemas},
    }


def _paths() -> dict[str, list[Kind]]:
    found: dict[str, list[Kind]] = {}
    for kind in KINDS:
        found.setdefault(f"{'apis' if kind.group else 'api'}/{kind.api_version}", []).append(kind)
    return found


@cache
def _hash(path: str) -> str:
    return hashlib.sha256(json.dumps(document(path), sort_keys=True).encode()).hexdigest()[:32].upper()


def _common() -> Fields:
    return {
        "apiVersion": ("string", "Group and version of the kind."),
        "kind": ("string", "The kind."),
        "metadata": (META, "Name, labels and the like."),
    }


def _reference(name: str) -> str:
    return f"peloton.{name}"


def _schema(fields: Fields, description: str = "") -> Object:
    properties = {}
    for name, (kind, text) in fields.items():
        found = _type(kind)
        # Beside a reference nothing else counts.
        properties[name] = {"description": text, "allOf": [found], "default": {}} if "$ref" in found else {
            "description": text, **found
        }  # fmt: skip
    return {
        "type": "object",
        "properties": properties,
        **({"description": description} if description else {}),
    }


def _type(kind: str) -> Object:
    if kind.startswith("["):
        return {"type": "array", "items": _inner(kind[1:-1])}
    if kind.startswith("{"):
        return {"type": "object", "additionalProperties": _inner(kind[1:-1])}
    return _inner(kind)


def _inner(kind: str) -> Object:
    if kind == "any":
        return {"x-kubernetes-preserve-unknown-fields": True}
    if kind == "quantity":
        return {"type": "string", "description": "An amount, such as 500m or 64Mi."}
    if kind in SCHEMAS:
        return {"$ref": f"#/components/schemas/{_reference(kind)}"}
    return {"type": kind}


def _gvk(kind: Kind) -> Object:
    return {"group": kind.group, "version": kind.version, "kind": kind.kind}


def _operations(base: str, kind: Kind) -> Object:
    scope = "/namespaces/{namespace}" if kind.namespaced else ""
    many, one = f"{base}{scope}/{kind.plural}", f"{base}{scope}/{kind.plural}/{{name}}"
    found: Object = {many: {"get": _operation(kind, "list")}, one: {}}
    for verb in kind.verbs:
        if verb in _ACTIONS:
            path = many if verb == "create" else one
            found[path][_ACTIONS[verb]] = _operation(kind, verb)
    return found


def _operation(kind: Kind, verb: str) -> Object:
    schema = {"$ref": f"#/components/schemas/{_reference(kind.kind)}"}
    found: Object = {
        "operationId": f"{verb}{kind.kind}",
        "x-kubernetes-action": verb,
        _GVK: _gvk(kind),
        "responses": {"200": {"description": "OK", "content": {"application/json": {"schema": schema}}}},
    }
    if verb in ("create", "update", "patch"):
        found["parameters"] = [
            {"name": name, "in": "query", "schema": {"type": "string", "uniqueItems": True}}
            for name in _CHECKED
        ]
        found["requestBody"] = {"content": {"*/*": {"schema": schema}}}
    if verb == "delete":
        found["parameters"] = [{"name": "dryRun", "in": "query", "schema": {"type": "string"}}]
    return found
