"""A small API server of Kubernetes in memory, for tests that need faults at will: no Kubernetes is installed.

It has what hostmgr and kubelets use: lists in pages, watches with bookmarks, versions that expire, names that
exist once, graceful deletion, merge patches.
"""

from __future__ import annotations

import asyncio
import contextlib
import copy
import json
import threading
import uuid
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from minicluster.ports import FreePorts

Object = dict[str, Any]
BOOKMARK_SECONDS = 0.5
Key = tuple[str, str, str]
"""Plural, namespace, name."""


class Refusal(Exception):
    """A call is answered by a Status object."""

    def __init__(self, code: int, reason: str, message: str, details: Object | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.status = {
            "kind": "Status", "apiVersion": "v1", "status": "Failure",
            "code": code, "reason": reason, "message": message, "details": details or {},
        }  # fmt: skip


class ApiServer:
    """Objects, their history, and the faults that a test asks for. It runs in a thread of its own."""

    def __init__(self, namespace: str = "peloton") -> None:
        self.port = FreePorts().take()
        self.objects: dict[Key, Object] = {}
        self.history: list[tuple[int, str, Key, Object]] = []
        self.version = 0
        self.compacted = 0
        self.fail_next: list[tuple[str, int, str]] = []
        """Calls of `faulty` to be refused: method, HTTP status, message."""
        self.faulty = "pods"
        self.forbidden: set[str] = set()
        """Kinds to which the caller has no right, by their plurals; subresources as `pods/eviction`."""
        self.unknown = {"podgroups"}
        """Kinds that are not installed."""
        self.budgets: dict[str, str] = {}
        """What a PodDisruptionBudget says against evictions, by the name of the pod, or by "*"."""
        self.judge: Callable[[Object], str] = lambda pod: ""
        """Returns why a new pod is refused; empty: it is not."""
        self.after_effect: list[str] = []
        """Methods of which the next call has its effect, and is answered with 503."""
        self.calls: list[tuple[str, str]] = []
        self.cuts = 0
        self.watches = 0
        self._news = asyncio.Event()
        self._server: uvicorn.Server | None = None
        self.put(("namespaces", "", namespace), {"metadata": {"name": namespace}})

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    # The store.

    def put(self, key: Key, wire: Object) -> Object:
        """Store an object, new or changed."""
        held = self.objects.get(key)
        self.version += 1
        metadata = wire.setdefault("metadata", {})
        metadata["name"], metadata["resourceVersion"] = key[2], str(self.version)
        if key[1]:
            metadata["namespace"] = key[1]
        metadata["uid"] = held["metadata"]["uid"] if held else str(uuid.uuid4())
        self.objects[key] = wire
        self._note("MODIFIED" if held else "ADDED", key, wire)
        return wire

    def remove(self, key: Key) -> Object:
        """Remove an object."""
        wire = copy.deepcopy(self.objects.pop(key))
        self.version += 1
        wire["metadata"]["resourceVersion"] = str(self.version)
        self._note("DELETED", key, wire)
        return wire

    def change(self, key: Key, change: Object) -> Object:
        """Merge a change into an object."""
        return self.put(key, merge(self.objects[key], change))

    def pods(self) -> list[Object]:
        return [wire for key, wire in list(self.objects.items()) if key[0] == "pods"]

    def compact(self) -> None:
        """Forget the history: watches from earlier versions are expired."""
        self.compacted = self.version

    def cut(self) -> None:
        """End all watches without a word."""
        self.cuts += 1
        self._tell()

    def _note(self, kind: str, key: Key, wire: Object) -> None:
        self.history.append((self.version, kind, key, copy.deepcopy(wire)))
        self._tell()

    def _tell(self) -> None:
        if self._server is not None:
            self._loop.call_soon_threadsafe(self._news_event)

    def _news_event(self) -> None:
        self._news.set()
        self._news = asyncio.Event()

    # HTTP.

    async def answer(self, request: Request) -> Response:
        try:
            return await self._answer(request)
        except Refusal as refusal:
            return JSONResponse(refusal.status, refusal.code)

    async def _answer(self, request: Request) -> Response:
        plural, namespace, name = key = _key(request.url.path)
        method, query = request.method, request.query_params
        self.calls.append((method, request.url.path))
        kind = "/".join([plural, *_subresource(request.url.path)])
        if kind in self.forbidden:
            raise Refusal(403, "Forbidden", f"{kind} is forbidden: no right to {method}")
        if plural in self.unknown:
            raise Refusal(404, "NotFound", "the server could not find the requested resource")
        for fault in self.fail_next:
            if fault[0] == method and plural == self.faulty:
                self.fail_next.remove(fault)
                raise Refusal(fault[1], "Forbidden" if fault[1] == 403 else "", fault[2])
        if method == "GET" and query.get("watch") == "true":
            return StreamingResponse(self._watch(plural, namespace, query), media_type="application/json")
        if method == "GET" and not name:
            return JSONResponse(self._list(plural, namespace, query))
        body = json.loads(await request.body() or b"{}")
        if kind == "pods/eviction":
            return JSONResponse(self._evict(key, body), 201)
        if kind == "pods" and method == "POST" and (wrong := self.judge(body)):
            raise Refusal(422, "Invalid", wrong)
        if query.get("dryRun") == "All":
            return JSONResponse(body, 201)
        done = self._bind(key, body) if kind == "pods/binding" else self._carry_out(method, key, body)
        if method in self.after_effect:
            self.after_effect.remove(method)
            raise Refusal(503, "ServiceUnavailable", "the answer is lost")
        return JSONResponse(done, 201 if method == "POST" else 200)

    def _carry_out(self, method: str, key: Key, body: Object) -> Object:
        plural, namespace, name = key
        if method == "POST":
            made = (plural, namespace, body["metadata"]["name"])
            if made in self.objects:
                raise Refusal(409, "AlreadyExists", f'{plural} "{made[2]}" already exists')
            body.setdefault("status", {"phase": "Pending"} if plural == "pods" else {})
            return self.put(made, body)
        if key not in self.objects:
            raise Refusal(404, "NotFound", f'{plural} "{name}" not found')
        if method == "GET":
            return self.objects[key]
        if method == "DELETE":
            return self._delete(key, body)
        return self.change(key, body) if method == "PATCH" else self.put(key, body)

    def _bind(self, key: Key, binding: Object) -> Object:
        """Bind a pod to a node, once."""
        wire = self.objects.get(key)
        if wire is None:
            raise Refusal(404, "NotFound", f'pods "{key[2]}" not found')
        uid, spec = binding["metadata"].get("uid"), wire.get("spec") or {}
        if uid and uid != wire["metadata"]["uid"]:
            raise Refusal(409, "Conflict", "the UID in the precondition does not match")
        if wire["metadata"].get("deletionTimestamp"):
            raise Refusal(409, "Conflict", f"pod {key[2]} is being deleted, cannot be assigned to a host")
        if spec.get("nodeName"):
            raise Refusal(409, "Conflict", f"pod {key[2]} is already assigned to node {spec['nodeName']}")
        annotations = binding["metadata"].get("annotations") or {}
        self.change(
            key, {"metadata": {"annotations": annotations}, "spec": {"nodeName": binding["target"]["name"]}}
        )
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _evict(self, key: Key, eviction: Object) -> Object:
        """Delete a pod, unless a PodDisruptionBudget forbids it."""
        budget = self.budgets.get(key[2]) or self.budgets.get("*")
        if key not in self.objects:
            raise Refusal(404, "NotFound", f'pods "{key[2]}" not found')
        if budget and not self.objects[key]["metadata"].get("deletionTimestamp"):
            text = "Cannot evict pod as it would violate the pod's disruption budget."
            causes = [{"reason": "DisruptionBudget", "message": budget}]
            raise Refusal(429, "TooManyRequests", text, {"causes": causes})
        self._delete(key, eviction.get("deleteOptions") or {})
        return {"kind": "Status", "apiVersion": "v1", "status": "Success"}

    def _delete(self, key: Key, options: Object) -> Object:
        wire = self.objects[key]
        uid = (options.get("preconditions") or {}).get("uid")
        if uid and uid != wire["metadata"]["uid"]:
            raise Refusal(409, "Conflict", "the UID in the precondition does not match")
        spec, status = wire.get("spec") or {}, wire.get("status") or {}
        grace = options.get("gracePeriodSeconds", spec.get("terminationGracePeriodSeconds", 30))
        if (
            key[0] != "pods"
            or not grace
            or not spec.get("nodeName")
            or status.get("phase") in ("Succeeded", "Failed")
        ):
            return self.remove(key)
        change = {"deletionTimestamp": "2026-01-01T00:00:00Z", "deletionGracePeriodSeconds": grace}
        return self.change(key, {"metadata": change})

    def _list(self, plural: str, namespace: str, query: Mapping[str, str]) -> Object:
        found = [self.objects[key] for key in sorted(self.objects) if _selected(key, plural, namespace)]
        found = [wire for wire in found if _matches(wire, query)]
        start, limit = int(query.get("continue") or 0), int(query.get("limit") or 10**6)
        metadata = {"resourceVersion": str(self.version)}
        if start + limit < len(found):
            metadata["continue"] = str(start + limit)
        return {"kind": "List", "metadata": metadata, "items": found[start : start + limit]}

    async def _watch(self, plural: str, namespace: str, query: Mapping[str, str]) -> AsyncIterator[bytes]:
        version, cuts = int(query["resourceVersion"]), self.cuts
        self.watches += 1
        while cuts == self.cuts:
            if version < self.compacted:
                yield _line(
                    "ERROR", {"kind": "Status", "code": 410, "reason": "Expired", "message": "too old"}
                )
                return
            news = self._news
            for at, kind, key, wire in [each for each in self.history if each[0] > version]:
                if _selected(key, plural, namespace) and _matches(wire, query):
                    yield _line(kind, wire)
                version = at
            try:
                await asyncio.wait_for(news.wait(), BOOKMARK_SECONDS)
            except TimeoutError:
                if self.history and self.history[-1][0] > version:
                    continue
                yield _line("BOOKMARK", {"metadata": {"resourceVersion": str(version)}})

    # The process' side.

    @contextlib.contextmanager
    def running(self) -> Iterator[ApiServer]:
        """Serve during the context."""
        started = threading.Event()

        async def serve() -> None:
            self._loop, self._news = asyncio.get_running_loop(), asyncio.Event()
            methods = ["GET", "POST", "PATCH", "PUT", "DELETE"]
            application = Starlette(routes=[Route("/{path:path}", self.answer, methods=methods)])
            config = uvicorn.Config(
                application, port=self.port, log_level="error", timeout_graceful_shutdown=1
            )
            self._server = uvicorn.Server(config)
            self._server.install_signal_handlers = lambda: None  # type: ignore[attr-defined]
            task = asyncio.create_task(self._server.serve())
            while not self._server.started:  # noqa: ASYNC110 - it has no event for it
                await asyncio.sleep(0.01)
            started.set()
            await task

        thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
        thread.start()
        assert started.wait(10), "the API server for tests has not started"
        try:
            yield self
        finally:
            assert self._server is not None
            self.cut()
            self._server.should_exit = True
            thread.join(10)
            self._server = None


def merge(base: Object, change: Mapping[str, Any]) -> Object:
    """Return a merge patch applied (RFC 7386)."""
    result = copy.deepcopy(base)
    for name, value in change.items():
        if value is None:
            result.pop(name, None)
        elif isinstance(value, dict):
            held = result.get(name)
            result[name] = merge(held if isinstance(held, dict) else {}, value)
        else:
            result[name] = value
    return result


def _key(path: str) -> Key:
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    namespace = ""
    if parts[0] == "namespaces" and len(parts) > 2:
        namespace, parts = parts[1], parts[2:]
    return parts[0], namespace, parts[1] if len(parts) > 1 else ""


def _subresource(path: str) -> list[str]:
    """Return the name of the subresource of a path, in a list; an empty one without it."""
    parts = path.strip("/").split("/")
    parts = parts[2:] if parts[0] == "api" else parts[3:]
    if parts[0] == "namespaces" and len(parts) > 2:
        parts = parts[2:]
    return parts[2:3]


def _selected(key: Key, plural: str, namespace: str) -> bool:
    return key[0] == plural and namespace in ("", key[1])


def _matches(wire: Object, query: Mapping[str, str]) -> bool:
    node = (wire.get("spec") or {}).get("nodeName", "")
    selector = query.get("fieldSelector", "")
    if selector == "spec.nodeName!=":
        return bool(node)
    return not selector or f"spec.nodeName={node}" == selector


def _line(kind: str, wire: Object) -> bytes:
    return json.dumps({"type": kind, "object": wire}).encode() + b"\n"
