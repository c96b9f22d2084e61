"""The OpenAPI 3.1 document of the JSON door, from the descriptors."""

from __future__ import annotations

from functools import cache
from typing import Any

from peloton import __version__
from peloton.web.api.listing import url
from peloton.web.api.methods import Method, public_methods
from peloton.web.api.schemas import Schemas, reference

_FAILURE = "Failure"
_DESCRIPTION = (
    "Every public gRPC method of Peloton, in protobuf's JSON form. Unset fields and those with their default "
    "value are left out of answers; unknown fields are refused. 64-bit integers are strings."
)


@cache
def document() -> dict[str, Any]:
    """Return the document; do not change it."""
    schemas = Schemas()
    paths = {url(method): {"post": _operation(method, schemas)} for method in public_methods().values()}
    services = sorted({method.service for method in public_methods().values()})
    return {
        "openapi": "3.1.0",
        "info": {"title": "Peloton", "version": __version__, "description": _DESCRIPTION},
        "servers": [{"url": "/"}],
        "tags": [{"name": name} for name in services],
        "security": [{}, {"basic": []}, {"bearer": []}],
        "paths": paths,
        "components": {
            "schemas": {**schemas.components(), _FAILURE: _failure()},
            "parameters": {"timeout": _timeout()},
            "responses": {"failure": _failed()},
            "securitySchemes": {
                "basic": {"type": "http", "scheme": "basic"},
                "bearer": {"type": "http", "scheme": "bearer"},
            },
        },
    }


def _operation(method: Method, schemas: Schemas) -> dict[str, Any]:
    asked = schemas.of_message(method.request.DESCRIPTOR)
    answered = schemas.of_message(method.response.DESCRIPTOR)
    return {
        "operationId": f"{method.service}.{method.name}",
        "tags": [method.service],
        "parameters": [{"$ref": "#/components/parameters/timeout"}],
        "requestBody": {"required": True, "content": {"application/json": {"schema": asked}}},
        "responses": {
            "200": _streamed(answered) if method.streams else _answered(answered),
            "default": {"$ref": "#/components/responses/failure"},
        },
    }


def _answered(schema: dict[str, Any]) -> dict[str, Any]:
    return {"description": "The answer.", "content": {"application/json": {"schema": schema}}}


def _streamed(schema: dict[str, Any]) -> dict[str, Any]:
    line = {
        "oneOf": [
            {"type": "object", "required": ["result"], "properties": {"result": schema}},
            {"type": "object", "required": ["error"], "properties": {"error": reference(_FAILURE)}},
        ]
    }
    text = "Lines with an answer each. Where the call fails, the last line has the error."
    return {"description": text, "content": {"application/x-ndjson": {"schema": line}}}


def _failed() -> dict[str, Any]:
    text = "The call failed; the HTTP status is that of the gRPC code."
    return {"description": text, "content": {"application/json": {"schema": reference(_FAILURE)}}}


def _failure() -> dict[str, Any]:
    return {
        "type": "object",
        "required": ["code", "message", "details"],
        "properties": {
            "code": {"type": "string", "description": "Name of the gRPC code, such as NOT_FOUND."},
            "message": {"type": "string"},
            "details": {"type": "array", "items": {"type": "object"}},
        },
    }


def _timeout() -> dict[str, Any]:
    return {
        "name": "Grpc-Timeout",
        "in": "header",
        "required": False,
        "description": "Time for the call: up to 8 digits and a unit of H, M, S, m, u, n. 20S without it.",
        "schema": {"type": "string", "pattern": "^[0-9]{1,8}[HMSmun]$"},
    }
