"""Discovery and OpenAPI: what clients ask before they ask for objects."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response
from starlette.routing import BaseRoute, Route

from peloton import __version__
from peloton.web.kube.core import discovery
from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.values import Object
from peloton.web.kube.requests import discovery_form

Answer = Callable[[Request], Awaitable[Response]]
_EMPTY_OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


def routes(listing: Answer, guarded: Callable[[Answer], Answer]) -> list[BaseRoute]:
    """Return the routes; `listing` answers at /api for others than clients of Kubernetes.

    `guarded` returns a handler whose refusals are answered by Status objects.
    """

    async def root(request: Request) -> Response:
        form = discovery_form(request)
        return _discovered(discovery.aggregated(True, form), form) if form else await listing(request)

    answers: dict[str, Answer] = {
        "/api": root,
        "/version": _version,
        "/apis": _groups,
        "/apis/": _groups,
        "/openapi/v2": _openapi_v2,
        "/openapi/v3": _openapi_index,
        "/openapi/v3/{path:path}": guarded(_openapi_document),
        "/api/v1": guarded(_resources),
        "/apis/{group}": guarded(_group),
        "/apis/{group}/{version}": guarded(_resources),
    }
    return [Route(path, answer, methods=["GET"]) for path, answer in answers.items()]


async def _version(request: Request) -> Response:
    if "application/json" in request.headers.get("accept", ""):
        return JSONResponse(discovery.version())
    return PlainTextResponse(__version__)


def _discovered(document: Object, form: str) -> Response:
    kind = f"application/json;g=apidiscovery.k8s.io;v={form};as=APIGroupDiscoveryList"
    return Response(JSONResponse(document).body, media_type=kind, headers={"vary": "Accept"})


async def _groups(request: Request) -> Response:
    form = discovery_form(request)
    return _discovered(discovery.aggregated(False, form), form) if form else JSONResponse(discovery.groups())


async def _group(request: Request) -> Response:
    return _found(discovery.group(request.path_params["group"]))


async def _resources(request: Request) -> Response:
    parameters = request.path_params
    return _found(discovery.resources(parameters.get("group", ""), parameters.get("version", "v1")))


async def _openapi_index(request: Request) -> Response:
    from peloton.web.kube.core import openapi  # the descriptions of all fields, which few ask for

    return JSONResponse(openapi.index())


async def _openapi_document(request: Request) -> Response:
    from peloton.web.kube.core import openapi

    return _found(openapi.document(request.path_params["path"]))


async def _openapi_v2(request: Request) -> Response:
    """Answer older clients with a document without kinds: they then leave checks to the server."""
    if "protobuf" in request.headers.get("accept", ""):
        return Response(b"", media_type=_EMPTY_OPENAPI_V2)
    return JSONResponse({"swagger": "2.0", "info": {"title": "Peloton", "version": __version__}, "paths": {}})


def _found(document: Object | None) -> Response:
    if document is None:
        raise Refusal(404, "the server could not find the requested resource")
    return JSONResponse(document)
