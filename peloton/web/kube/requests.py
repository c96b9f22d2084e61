"""Requests of this API: what their path, parameters, headers and body say."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import yaml
from starlette.requests import HTTPConnection, Request

from peloton.client.auth import Auth, BasicAuth, BearerAuth
from peloton.errors import Unauthenticated
from peloton.identity.authorization_header import metadata_of
from peloton.model.amounts import byte_size
from peloton.offload import run_by_size
from peloton.web.kube.core import plain, protobufs
from peloton.web.kube.core.advice import NOT_BUILT, NOT_DONE, NOT_SERVED
from peloton.web.kube.core.kinds import Kind, find
from peloton.web.kube.core.patches import APPLY, JSON, MERGE, STRATEGIC
from peloton.web.kube.core.protobufs import PROTOBUF
from peloton.web.kube.core.refusals import Refusal

LARGEST_BODY_BYTES = 3 * 1024 * 1024
"""As Kubernetes' own limit."""
LARGEST_YAML_BYTES = 256 * 1024
"""YAML is read slowly: this takes about a second."""
_JSON, _YAML = "application/json", "application/yaml"
_PATCHES = (STRATEGIC, MERGE, JSON, APPLY)


class _Loader(yaml.SafeLoader):
    """YAML without aliases, by which a short text may be a huge tree."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise ValueError("YAML with aliases is not read")
        return super().compose_node(parent, index)


@dataclass(frozen=True, slots=True)
class Target:
    """What a path names."""

    kind: Kind
    namespace: str
    name: str
    subresource: str


def target(group: str, version: str, path: str) -> Target:
    """Return what a path names below a group's version. Raises Refusal for what is not served."""
    parts = [part for part in path.split("/") if part]
    namespace = ""
    if len(parts) > 2 and parts[0] == "namespaces":
        namespace, parts = parts[1], parts[2:]
    kind = find(group, version, parts[0]) if parts else None
    if kind is not None and len(parts) > 2 and parts[2] in NOT_BUILT:
        raise Refusal(501, f"{kind.plural}/{parts[2]} is not built: {NOT_BUILT[parts[2]]}")
    if kind is None and parts and parts[0] in NOT_SERVED:
        raise Refusal(404, f"the server could not find the requested resource: {NOT_SERVED[parts[0]]}")
    if kind is None or len(parts) > 3 or (namespace and not kind.namespaced):
        raise Refusal(404, "the server could not find the requested resource")
    name, subresource = [*parts[1:], "", ""][:2]
    if subresource and subresource not in [each[0] for each in kind.subresources]:
        raise Refusal(404, f"{kind.plural}/{subresource} is not served")
    if name and kind.namespaced and not namespace:
        raise Refusal(404, "the server could not find the requested resource")
    return Target(kind, namespace, name, subresource)


def not_served(method: str, kind: Kind) -> Refusal:
    """Return the refusal of what is not done with a kind."""
    text, advice = f"{method} of {kind.plural} is not served", NOT_DONE.get((kind.plural, method))
    return Refusal(405, f"{text}: {advice}" if advice else text, details={"kind": kind.plural})


def auth_of(request: HTTPConnection) -> Auth | None:
    """Return the user whom the header Authorization names. Nothing is read from cookies. Raises Refusal."""
    try:
        metadata = dict(metadata_of(request.headers.get("authorization")))
    except Unauthenticated as error:
        raise Refusal(401, str(error)) from None
    if "username" in metadata:
        return BasicAuth(metadata["username"], metadata["password"])
    return BearerAuth(metadata["authorization"].removeprefix("Bearer ")) if metadata else None


def check_origin(request: Request) -> None:
    """Refuse what a page of another site sends. Raises Refusal."""
    origin = request.headers.get("origin")
    if origin is not None and origin.partition("://")[2] != request.headers.get("host"):
        raise Refusal(403, f"Origin: {origin!r} is not this site")


def content_type(request: Request) -> str:
    """Return the type of the body, without its parameters."""
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


async def body_of(request: Request) -> Any:
    """Return the body: JSON, YAML or protobuf. Other types are refused: pages of other sites can send them.

    The official Python client names no type. A page can do so too, but not without its origin.
    """
    kind = content_type(request)
    if not kind and request.method != "PATCH" and "origin" not in request.headers:
        kind = _JSON
    known = _PATCHES if request.method == "PATCH" else (_JSON, _YAML, PROTOBUF)
    if kind not in known:
        raise Refusal(415, f"Content-Type: {kind!r} is not {' or '.join(known)}")
    data = await read(request)
    try:
        return await run_by_size(len(data), _parsed, data, kind)
    except (ValueError, TypeError, RecursionError, yaml.YAMLError) as error:
        raise Refusal(400, f"the body cannot be read: {str(error)[:500]}") from None


def has_body(request: Request) -> bool:
    """Return whether there is a body."""
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


async def read(request: Request) -> bytes:
    """Return the bytes of the body. Raises Refusal for too many."""
    data = bytearray()
    async for part in request.stream():
        data += part
        if len(data) > LARGEST_BODY_BYTES:
            raise Refusal(413, f"the body is larger than {byte_size(LARGEST_BODY_BYTES)}")
    return bytes(data)


def _parsed(data: bytes, kind: str) -> Any:
    if kind == PROTOBUF:
        return protobufs.parse(data)
    text = data.decode()
    if kind not in (_YAML, APPLY):
        return plain.parse(text)
    if len(data) > LARGEST_YAML_BYTES:
        raise ValueError(f"YAML of more than {byte_size(LARGEST_YAML_BYTES)}: send JSON")
    found = yaml.load(text, _Loader)  # a safe loader
    plain.check(found)
    return found


def dry_run(request: Request) -> bool:
    """Return whether nothing is to be done. Raises Refusal for an unknown way of it."""
    given = request.query_params.getlist("dryRun")
    if any(each not in ("", "All") for each in given):
        raise Refusal(400, f"dryRun: {given!r} is not All")
    return "All" in given


def as_table(request: Request) -> bool:
    """Return whether the client wants a table. The first form in Accept that is known counts."""
    for each in request.headers.get("accept", "").split(","):
        kind, *parameters = (part.strip() for part in each.split(";"))
        if kind in (_JSON, "*/*"):
            if "as=Table" in parameters:
                if "v=v1" in parameters:
                    return True
            elif not any(part.startswith("as=") for part in parameters):
                return False
    return False


def discovery_form(request: Request) -> str:
    """Return the version of the aggregated discovery that the client knows; empty for none."""
    accept = request.headers.get("accept", "").replace(" ", "")
    for form in ("v2", "v2beta1"):
        if f"g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList" in accept:
            return form
    return ""
