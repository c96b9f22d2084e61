"""The routes of this API, and what each request is answered with."""

from __future__ import annotations

import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from secrets import token_hex
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, PlainTextResponse, Response, StreamingResponse
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.websockets import WebSocket

from peloton import __version__
from peloton.errors import PelotonError
from peloton.web.cluster import Cluster
from peloton.web.kube import applying, execs, logs, secrets
from peloton.web.kube.core import channels, discovery, openapi
from peloton.web.kube.core.cluster_objects import QUOTA_NAME, quota_object
from peloton.web.kube.core.kinds import POD, RESOURCE_QUOTA, SECRET
from peloton.web.kube.core.managers import Managers
from peloton.web.kube.core.manifests import stripped
from peloton.web.kube.core.objects import Held, scale_of
from peloton.web.kube.core.patches import APPLY, check_type, patched
from peloton.web.kube.core.refusals import Refusal, not_found, refusal_of, success
from peloton.web.kube.core.secrets import secret_object
from peloton.web.kube.core.tables import table
from peloton.web.kube.core.values import Object
from peloton.web.kube.paging import Asked
from peloton.web.kube.reading import Known, Reader
from peloton.web.kube.requests import (
    Target,
    as_table,
    auth_of,
    body_of,
    check_origin,
    content_type,
    discovery_form,
    dry_run,
    not_served,
    target,
)
from peloton.web.kube.watching import Collections, Selection, Watch, Watcher
from peloton.web.kube.writing import Writer
from peloton.web.live import Hub
from peloton.web.views.terminal.bridge import Terminals

log = logging.getLogger(__name__)
Answer = Callable[[Request], Awaitable[Response]]
_TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
_OF_LISTS = ("resourceVersion", "continue")
MOST_WARNINGS, LONGEST_WARNING_CHARACTERS = 10, 500
_TRIES = 3
"""How often a patch is laid over the newest object when others change it meanwhile."""
_EMPTY_OPENAPI_V2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"


class KubernetesDoor:
    """Answers clients of Kubernetes."""

    def __init__(self, cluster: Cluster, hub: Hub, terminals: Terminals) -> None:
        self._cluster = cluster
        self._hub = hub
        self._terminals = terminals
        self._known = Known()
        self._collections = Collections()
        self._writer = Writer(self._known)

    def routes(self, listing: Answer) -> list[BaseRoute]:
        """Return the routes; `listing` answers at /api for others than clients of Kubernetes."""

        async def root(request: Request) -> Response:
            form = discovery_form(request)
            return _discovered(discovery.aggregated(True, form), form) if form else await listing(request)

        async def version(request: Request) -> Response:
            if "application/json" in request.headers.get("accept", ""):
                return JSONResponse(discovery.version())
            return PlainTextResponse(__version__)

        methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
        return [
            Route("/api", root, methods=["GET"]),
            Route("/version", version, methods=["GET"]),
            Route("/apis", _groups, methods=["GET"]),
            Route("/apis/", _groups, methods=["GET"]),
            Route("/openapi/v2", _openapi_v2, methods=["GET"]),
            Route("/openapi/v3", _openapi_index, methods=["GET"]),
            Route("/openapi/v3/{path:path}", self._guarded(_openapi_document), methods=["GET"]),
            Route("/api/v1", self._guarded(_resources), methods=["GET"]),
            Route("/api/v1/{path:path}", self._guarded(self._resource), methods=methods),
            WebSocketRoute("/api/v1/{path:path}", self._connect),
            Route("/apis/{group}", self._guarded(_group), methods=["GET"]),
            Route("/apis/{group}/{version}", self._guarded(_resources), methods=["GET"]),
            Route("/apis/{group}/{version}/{path:path}", self._guarded(self._resource), methods=methods),
        ]

    async def close(self) -> None:
        """Leave off what is under way."""
        await self._writer.close()

    def _guarded(self, answer: Answer) -> Answer:
        """Return a handler whose refusals are answered by Status objects."""

        async def guarded(request: Request) -> Response:
            try:
                return await answer(request)
            except Refusal as error:
                return _refused(error)
            except PelotonError as error:
                return _refused(refusal_of(error))
            except Exception:
                log.exception("%s %s", request.method, request.url.path)
                return _refused(Refusal(500, "peloton-web has a defect here; its log says more"))

        return guarded

    async def _connect(self, socket: WebSocket) -> None:
        """Run a command for a WebSocket; what is refused before it begins is the answer to its request."""
        try:
            wanted = target("", "v1", socket.path_params["path"])
            version = channels.protocol(socket.scope["subprotocols"])
            if wanted.kind is not POD or wanted.subresource != "exec":
                raise Refusal(400, f"{wanted.kind.plural}/{wanted.subresource} is not served by WebSocket")
            reader = Reader(self._cluster.calls(auth_of(socket)), self._known)
            what = execs.Wanted.of(socket.query_params)
            place = await execs.place(reader, wanted.namespace, wanted.name, what)
        except Refusal as refusal:
            await socket.send_denial_response(_refused(refusal))
            return
        except PelotonError as error:
            await socket.send_denial_response(_refused(refusal_of(error)))
            return
        await socket.accept(subprotocol=version)
        await execs.serve(socket, version, reader, place, what, self._terminals)

    async def _resource(self, request: Request) -> Response:
        parameters = request.path_params
        wanted = target(parameters.get("group", ""), parameters.get("version", "v1"), parameters["path"])
        reader = Reader(self._cluster.calls(auth_of(request)), self._known)
        if wanted.subresource == "exec":
            # What a WebSocket was refused for, kubectl is told here: it then tries SPDY.
            await execs.place(reader, wanted.namespace, wanted.name, execs.Wanted.of(request.query_params))
            raise Refusal(400, f"exec is served by WebSocket, {channels.V5}: use kubectl 1.31 or newer")
        if request.method == "GET":
            return await self._get(request, reader, wanted)
        check_origin(request)
        if wanted.subresource == "scale" and request.method in ("PUT", "PATCH"):
            return await self._scale(request, reader, wanted)
        verb = {"POST": "create", "PUT": "update", "PATCH": "patch", "DELETE": "delete"}[request.method]
        if verb not in wanted.kind.verbs or wanted.subresource or bool(wanted.name) == (verb == "create"):
            raise not_served(request.method, wanted.kind)
        return await {
            "create": self._create, "update": self._update, "patch": self._patch, "delete": self._delete
        }[verb](request, reader, wanted)  # fmt: skip

    # Reading.

    async def _get(self, request: Request, reader: Reader, wanted: Target) -> Response:
        query = request.query_params
        if wanted.subresource == "log":
            pieces = await logs.pieces(reader, wanted.namespace, wanted.name, logs.Wanted.of(query))
            headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
            return StreamingResponse(self._hub.counted(pieces), media_type="text/plain", headers=headers)
        if query.get("watch") in ("true", "1"):
            return self._watch(request, reader, wanted)
        if wanted.subresource == "scale":
            job = await reader.job(wanted.kind, wanted.namespace, wanted.name)
            return JSONResponse(scale_of(job, self._version_of(reader, wanted, reader.shown(job))))
        if wanted.name:
            found = await reader.one(wanted.kind, wanted.namespace, wanted.name)
            observed = self._collections.versioned(reader, wanted.kind, found)
            return self._shown(request, wanted, [observed], observed)
        selection = Selection.of(wanted.kind, wanted.namespace, "", query)
        version, selected, token = await self._collections.listed(reader, selection, Asked.of(query))
        whole = {
            "kind": f"{wanted.kind.kind}List",
            "apiVersion": wanted.kind.api_version,
            "metadata": {"resourceVersion": version, **({"continue": token} if token else {})},
            "items": selected,
        }
        return self._shown(request, wanted, selected, whole)

    def _watch(self, request: Request, reader: Reader, wanted: Target) -> Response:
        query = request.query_params
        selection = Selection.of(wanted.kind, wanted.namespace, wanted.name, query)
        watch = Watch.of(query)
        watcher = Watcher(self._collections, reader, selection, watch, self._hub.poll_seconds)
        in_table = query.get("includeObject", "Metadata") if as_table(request) else ""
        lines: AsyncIterator[bytes] = self._hub.counted(watcher.lines(in_table, lambda: self._hub.closing))
        headers = {"cache-control": "no-store", "x-accel-buffering": "no"}
        return StreamingResponse(lines, media_type="application/json", headers=headers)

    def _versioned(self, reader: Reader, wanted: Target, found: Object) -> Object:
        return self._collections.versioned(reader, wanted.kind, found)

    def _version_of(self, reader: Reader, wanted: Target, found: Object) -> str:
        observed = self._collections.versioned(reader, wanted.kind, found)
        return str(observed["metadata"]["resourceVersion"])

    def _shown(self, request: Request, wanted: Target, found: Iterable[Object], whole: Object) -> Response:
        """Answer with objects, or with a table of them."""
        if not as_table(request):
            return JSONResponse(whole)
        include = request.query_params.get("includeObject", "Metadata")
        version = {key: text for key, text in whole["metadata"].items() if key in _OF_LISTS}
        shown = table(wanted.kind.plural, found, time.time(), version, include, True)
        return JSONResponse(shown, media_type=_TABLE)

    # Writing.

    async def _create(self, request: Request, reader: Reader, wanted: Target) -> Response:
        given, dry = _object(await body_of(request)), dry_run(request)
        _name_by_prefix(given)
        if wanted.kind is SECRET:
            found, warnings = await secrets.create(reader, wanted.namespace, given, dry)
            shown = found if dry else self._versioned(reader, wanted, found)
            return JSONResponse(shown, 201, _warned(warnings))
        job, manifest, warnings = await self._writer.create(reader, wanted.kind, wanted.namespace, given, dry)
        found = (
            manifest if job is None else self._collections.versioned(reader, wanted.kind, reader.shown(job))
        )
        return JSONResponse(found, 201, _warned(warnings))

    async def _update(self, request: Request, reader: Reader, wanted: Target) -> Response:
        given = _object(await body_of(request))
        return await self._replaced(request, reader, wanted, lambda current: given)

    async def _patch(self, request: Request, reader: Reader, wanted: Target) -> Response:
        kind = content_type(request)
        if kind != APPLY:
            check_type(kind)
        patch = await body_of(request)
        if kind == APPLY:
            return await self._apply(request, reader, wanted, applying.given(request, patch, wanted))
        for _ in range(_TRIES - 1):
            try:
                return await self._replaced(
                    request, reader, wanted, lambda current: patched(current, patch, kind)
                )
            except PelotonError as error:
                if refusal_of(error).code != 409:
                    raise
        return await self._replaced(request, reader, wanted, lambda current: patched(current, patch, kind))

    async def _replaced(
        self, request: Request, reader: Reader, wanted: Target, changed: Callable[[Object], Object]
    ) -> Response:
        """Bring a job, or a pool, to what `changed` makes of its object."""
        if wanted.kind is RESOURCE_QUOTA:
            return await self._resized(request, reader, wanted, changed)
        if wanted.kind is SECRET:
            return await self._rewritten(request, reader, wanted, changed)
        job = await reader.job(wanted.kind, wanted.namespace, wanted.name)
        current = self._collections.versioned(reader, wanted.kind, reader.shown(job))
        given = changed(current)
        managers = applying.noted(request, job, current, given)
        return await self._written(request, reader, wanted, job, given, managers)

    async def _written(
        self,
        request: Request,
        reader: Reader,
        wanted: Target,
        job: Held,
        given: Object,
        managers: Managers,
    ) -> Response:
        """Bring a job to another manifest, said by these."""
        current = self._collections.versioned(reader, wanted.kind, reader.shown(job))
        _check_version(given, current, wanted)
        found, manifest, warnings = await self._writer.replace(reader, job, given, dry_run(request), managers)
        if found is None:
            shown = _tried(reader.shown(replace(job, manifest=manifest)), manifest)
            shown["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        else:
            shown = self._collections.versioned(reader, wanted.kind, reader.shown(found))
        return JSONResponse(shown, 200, _warned(warnings))

    async def _apply(self, request: Request, reader: Reader, wanted: Target, given: Object) -> Response:
        """Make an object as it is applied, or lay that over the one that is there."""
        if wanted.kind in (RESOURCE_QUOTA, SECRET):  # owners of their fields are not kept
            try:
                return await self._replaced(
                    request, reader, wanted, lambda current: applying.laid_over(current, given)
                )
            except Refusal as refusal:
                if refusal.code != 404 or wanted.kind is RESOURCE_QUOTA:
                    raise
            found, warnings = await secrets.create(reader, wanted.namespace, given, dry_run(request))
            return JSONResponse(found, 201, _warned(warnings))
        try:
            job = await reader.job(wanted.kind, wanted.namespace, wanted.name)
        except Refusal as refusal:
            if refusal.code != 404:
                raise
            return await self._applied_anew(request, reader, wanted, given)
        whole, managers = applying.over(request, job, reader.shown(job), given)
        return await self._written(request, reader, wanted, job, whole, managers)

    async def _applied_anew(
        self, request: Request, reader: Reader, wanted: Target, given: Object
    ) -> Response:
        managers, dry = applying.first(request, given), dry_run(request)
        job, manifest, warnings = await self._writer.create(
            reader, wanted.kind, wanted.namespace, given, dry, managers
        )
        found = manifest if job is None else self._versioned(reader, wanted, reader.shown(job))
        return JSONResponse(found, 201, _warned(warnings))

    async def _resized(
        self, request: Request, reader: Reader, wanted: Target, changed: Callable[[Object], Object]
    ) -> Response:
        pool = await reader.pool_now(wanted.namespace)
        if wanted.name != QUOTA_NAME:
            raise not_found(wanted.kind.plural, wanted.name)
        current = self._versioned(reader, wanted, quota_object(pool))
        given = changed(current)
        _check_version(given, current, wanted)
        dry = dry_run(request)
        pool, warnings = await self._writer.resize(reader, pool, given, dry)
        shown = quota_object(pool)
        if dry:
            shown["metadata"]["resourceVersion"] = current["metadata"]["resourceVersion"]
        else:
            shown = self._versioned(reader, wanted, shown)
        return JSONResponse(shown, 200, _warned(warnings))

    async def _rewritten(
        self, request: Request, reader: Reader, wanted: Target, changed: Callable[[Object], Object]
    ) -> Response:
        """Bring a secret to what `changed` makes of its object, which has no contents."""
        pool, held = await secrets.one(reader, wanted.namespace, wanted.name)
        current = self._versioned(reader, wanted, secret_object(held, wanted.namespace))
        given, dry = changed(current), dry_run(request)
        _check_version(given, current, wanted)
        found, warnings = await secrets.replace(reader, pool, held, given, dry)
        shown = found if dry else self._versioned(reader, wanted, found)
        return JSONResponse(shown, 200, _warned(warnings))

    async def _scale(self, request: Request, reader: Reader, wanted: Target) -> Response:
        """Change how many pods a service has."""
        body, kind = _object(await body_of(request)), content_type(request)
        job = await reader.job(wanted.kind, wanted.namespace, wanted.name)
        current = self._collections.versioned(reader, wanted.kind, reader.shown(job))
        scale = scale_of(job, current["metadata"]["resourceVersion"])
        if request.method == "PATCH":
            body = patched(scale, body, kind)
        _check_version(body, current, wanted)
        replicas = _part(body, "spec").get("replicas", 0)
        given = stripped(current)
        given.setdefault("spec", {})["replicas"] = replicas
        managers = applying.noted(request, job, current, given)
        found, _, warnings = await self._writer.replace(reader, job, given, dry_run(request), managers)
        return JSONResponse(
            scale_of(found or job, scale["metadata"]["resourceVersion"]), 200, _warned(warnings)
        )

    async def _delete(self, request: Request, reader: Reader, wanted: Target) -> Response:
        options = _object(await body_of(request)) if await _has_body(request) else {}
        policy = options.get("propagationPolicy") or request.query_params.get("propagationPolicy")
        if policy == "Orphan":
            raise Refusal(422, "propagationPolicy: pods of Peloton are not left behind: use Background")
        dry = dry_run(request) or _dry_by(options)
        if wanted.kind is POD:
            pod = self._versioned(reader, wanted, await reader.pod(wanted.namespace, wanted.name))
            _check_uid(options, pod)
            if not dry:
                await self._writer.restart(reader, *await reader.instance(wanted.namespace, wanted.name))
            return JSONResponse(pod)
        if wanted.kind is SECRET:
            pool, held = await secrets.one(reader, wanted.namespace, wanted.name)
            uid = held.id
            _check_uid(options, self._versioned(reader, wanted, secret_object(held, wanted.namespace)))
            if not dry:
                await secrets.delete(reader, pool, held)
        else:
            job = await reader.job(wanted.kind, wanted.namespace, wanted.name)
            uid = job.job_id
            _check_uid(options, self._versioned(reader, wanted, reader.shown(job)))
            if not dry:
                await self._writer.delete(reader, job)
        details = {"name": wanted.name, "group": wanted.kind.group, "kind": wanted.kind.plural, "uid": uid}
        return JSONResponse(success(details))


def _tried(shown: Object, manifest: Object) -> Object:
    """Return an object as it would be with a manifest: what is said there of its state counts."""
    spec = manifest.get("spec")
    if isinstance(spec, dict) and "suspend" in spec:
        shown["spec"]["suspend"] = spec["suspend"]
    return shown


def _refused(refusal: Refusal) -> Response:
    headers = {"WWW-Authenticate": 'Basic realm="peloton"'} if refusal.code == 401 else {}
    return JSONResponse(refusal.status(), refusal.code, headers)


def _check_version(given: Mapping[str, Any], current: Object, wanted: Target) -> None:
    """Refuse a change of a version that is not the present one. Raises Refusal."""
    metadata = given.get("metadata")
    version = metadata.get("resourceVersion") if isinstance(metadata, Mapping) else None
    if version not in (None, "", current["metadata"]["resourceVersion"]):
        subject = f'{wanted.kind.plural} "{wanted.name}"'
        text = f"Operation cannot be fulfilled on {subject}: the object has been modified"
        raise Refusal(409, f"{text}; please apply your changes to the latest version and try again")


def _check_uid(options: Mapping[str, Any], found: Object) -> None:
    wanted, metadata = _part(options, "preconditions"), found["metadata"]
    if wanted.get("uid") not in (None, metadata["uid"]):
        raise Refusal(409, f"the uid is {metadata['uid']}, not {str(wanted['uid'])[:100]}")
    if wanted.get("resourceVersion") not in (None, metadata.get("resourceVersion")):
        raise Refusal(409, f"the resourceVersion is {metadata.get('resourceVersion')}")


def _dry_by(options: Mapping[str, Any]) -> bool:
    given = options.get("dryRun")
    if given not in (None, [], ["All"]):
        raise Refusal(400, f"dryRun: {str(given)[:100]} is not [All]")
    return bool(given)


def _part(given: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an object of a body, empty where it is not given. Raises Refusal for anything else."""
    found = given.get(key)
    if found is not None and not isinstance(found, dict):
        raise Refusal(400, f"{key}: not an object")
    return found or {}


def _name_by_prefix(given: Object) -> None:
    """Make a name where only its beginning is given."""
    metadata = given.get("metadata")
    if isinstance(metadata, dict) and metadata.get("generateName") and not metadata.get("name"):
        metadata["name"] = f"{metadata.pop('generateName')}{token_hex(3)}"
    elif isinstance(metadata, dict):
        metadata.pop("generateName", None)


def _object(found: Any) -> Object:
    if not isinstance(found, dict):
        raise Refusal(400, "the body is not an object")
    return found


async def _has_body(request: Request) -> bool:
    return request.headers.get("content-length", "0") != "0" or "transfer-encoding" in request.headers


def _warned(warnings: Iterable[str]) -> dict[str, str]:
    """Return the header by which clients are warned."""
    # Some texts have what a client gave in them: no line of a header ends there.
    plain = (" ".join(text.split())[:LONGEST_WARNING_CHARACTERS] for text in [*warnings][:MOST_WARNINGS])
    kept = ("".join(filter(str.isprintable, text)) for text in plain)
    texts = (text.replace("\\", "\\\\").replace('"', '\\"') for text in kept)
    value = ", ".join(f'299 - "{text}"' for text in texts)
    return {"Warning": value.encode("latin-1", "replace").decode("latin-1")} if value else {}


# Discovery and OpenAPI.


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
    return JSONResponse(openapi.index())


async def _openapi_document(request: Request) -> Response:
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
