"""Calls of a Kubernetes API server, as plain REST with JSON."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from http import HTTPStatus
from types import TracebackType
from typing import TYPE_CHECKING, Any

from peloton.config.errors import ConfigError
from peloton.errors import PelotonError, Unavailable
from peloton.kubernetes.access import Access
from peloton.model.amounts import byte_size
from peloton.plainjson import parse_json

if TYPE_CHECKING:
    import httpx2
    from httpx2.websockets import AsyncWebSocketSession

Object = Mapping[str, Any]
"""An object of Kubernetes, as JSON has it."""
CALL_SECONDS = 30.0
IDLE_SECONDS = 100.0
"""Longest silence of a watch: an API server sends a bookmark about every minute."""
MAX_EVENT_BYTES = 16 * 1024 * 1024
"""Largest event of a watch. etcd holds no object over 1.5 MiB by default."""
MAX_MESSAGE_BYTES = 1024 * 1024
"""Largest message of a WebSocket; an API server sends pieces of 32 KiB."""
MERGE = "application/merge-patch+json"
STRATEGIC = "application/strategic-merge-patch+json"
DISRUPTION_BUDGET = "DisruptionBudget"
"""The reason of an eviction that a PodDisruptionBudget forbids for now."""
_TEMPORARY = frozenset({401, 408, 429, 500, 502, 503, 504})


class ApiError(PelotonError):
    """The API server refused a call."""

    def __init__(self, status: int, reason: str, message: str) -> None:
        super().__init__(message or f"HTTP status {status}")
        self.status = status
        """HTTP status, or `code` of a Status object."""
        self.reason = reason
        """Machine-readable, such as AlreadyExists, NotFound, Expired; may be empty."""


class ApiClient:
    """A client of one API server. Use it as an asynchronous context manager."""

    def __init__(self, access: Access, connections: int = 64, timeout: float = CALL_SECONDS) -> None:
        """Open up to `connections` connections; a call takes `timeout` seconds at most."""
        self.access = access
        self._connections = connections
        self._timeout = timeout
        self._http: httpx2.AsyncClient | None = None

    @property
    def server(self) -> str:
        """The URL of the API server."""
        return self.access.server

    async def __aenter__(self) -> ApiClient:
        import httpx2  # slow to import, and only clusters of Kubernetes need it

        limits = httpx2.Limits(max_connections=self._connections, max_keepalive_connections=self._connections)
        self._http = httpx2.AsyncClient(
            base_url=self.access.server,
            verify=self.access.tls or False,
            timeout=self._timeout,
            limits=limits,
            trust_env=False,
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._http is not None
        await self._http.aclose()

    async def call(
        self,
        method: str,
        path: str,
        body: object = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        **params: str | int | bool,
    ) -> dict[str, Any]:
        """Make a call and return the object that answers it.

        Raises ApiError where the server refuses it, and Unavailable where it does not answer or cannot serve
        now: the call may have had its effect then.
        """
        import httpx2

        assert self._http is not None, "use the client as a context manager"
        content = None if body is None else json.dumps(body, separators=(",", ":")).encode()
        for may_renew in (self.access.renews, False):
            headers = {**await self._headers(), "Content-Type": content_type, "Accept": accept}
            try:
                answer = await self._http.request(
                    method,
                    path,
                    params=_query(params),
                    content=content,
                    headers=headers,
                    extensions=self._names(),
                )
            except (httpx2.HTTPError, OSError) as error:
                raise Unavailable(f"{self.server}: {str(error) or type(error).__name__}") from None
            if not (self._is_refused(answer.status_code, headers) and may_renew):
                break
        return _checked(self.server, answer.status_code, answer.content)

    async def watch(self, path: str, **params: str | int | bool) -> AsyncIterator[dict[str, Any]]:
        """Yield the events of a watch until the server ends it.

        Raises as `call`, and ApiError for an event of the type ERROR, such as 410 Expired.
        """
        import httpx2

        assert self._http is not None, "use the client as a context manager"
        timeout = httpx2.Timeout(self._timeout, read=IDLE_SECONDS)
        query = _query({**params, "watch": True, "allowWatchBookmarks": True})
        headers = await self._headers()
        stream = self._http.stream(
            "GET", path, params=query, headers=headers, timeout=timeout, extensions=self._names()
        )
        try:
            async with stream as answer:
                if answer.status_code != 200:
                    self._is_refused(answer.status_code, headers)
                    _checked(self.server, answer.status_code, await answer.aread())
                async for event in _lines(answer.aiter_bytes()):
                    if event.get("type") == "ERROR":
                        raise _error(event.get("object") or {}, 500)
                    yield event
        except (httpx2.HTTPError, OSError) as error:
            raise Unavailable(f"{self.server}: {str(error) or type(error).__name__}") from None

    async def stream(self, path: str, **params: str | int | bool) -> AsyncGenerator[bytes]:
        """Yield what is at a path as it comes, such as a log that is followed. Raises as `call`."""
        import httpx2

        assert self._http is not None, "use the client as a context manager"
        timeout = httpx2.Timeout(self._timeout, read=None)
        own = await self._headers()
        stream = self._http.stream(
            "GET",
            path,
            params=_query(params),
            headers={**own, "Accept": "*/*", "Accept-Encoding": "identity"},
            timeout=timeout,
            extensions=self._names(),
        )
        try:
            async with stream as answer:
                if answer.status_code != 200:
                    self._is_refused(answer.status_code, own)
                    _checked(self.server, answer.status_code, await answer.aread())
                async for piece in answer.aiter_raw():
                    yield piece
        except (httpx2.HTTPError, OSError) as error:
            raise Unavailable(f"{self.server}: {str(error) or type(error).__name__}") from None

    @asynccontextmanager
    async def websocket(
        self, path: str, protocols: Sequence[str], params: Sequence[tuple[str, str]]
    ) -> AsyncIterator[AsyncWebSocketSession]:
        """Open a WebSocket, with one of some protocols, the first best. Raises as `call`."""
        import httpx2
        from httpx2.websockets import HTTPXWSException, WebSocketUpgradeError

        assert self._http is not None, "use the client as a context manager"
        headers = await self._headers()
        opened = self._http.websocket(
            f"{self.server}{path}",
            max_message_size_bytes=MAX_MESSAGE_BYTES,
            subprotocols=list(protocols),
            params=httpx2.QueryParams(list(params)),
            headers=headers,
            extensions=self._names(),
        )
        try:
            async with opened as session:
                yield session
        except WebSocketUpgradeError as error:  # the library has closed what the answer says besides
            status = error.response.status_code
            self._is_refused(status, headers)
            text = f"{HTTPStatus(status).phrase}, HTTP status {status}, to {path}"
            if status in _TEMPORARY:
                raise Unavailable(f"{self.server}: {text}") from None
            raise ApiError(status, "", text) from None
        except (httpx2.HTTPError, OSError, HTTPXWSException) as error:
            raise Unavailable(f"{self.server}: {str(error) or type(error).__name__}") from None
        except BaseExceptionGroup as group:  # of the tasks of the session
            rest = group.split((httpx2.HTTPError, OSError, HTTPXWSException))[1]
            if rest is not None:
                raise rest from None
            raise Unavailable(f"{self.server}: the connection broke") from None

    def _is_refused(self, status: int, headers: Mapping[str, str]) -> bool:
        """Return whether the credentials of a call were refused; others are fetched for the next one."""
        refused = status == HTTPStatus.UNAUTHORIZED
        if refused:
            self.access.reject(headers.get("Authorization", "").removeprefix("Bearer "))
        return refused

    async def _headers(self) -> dict[str, str]:
        try:
            token = await self.access.present_token()
        except ConfigError as error:  # it may be written anew at the moment
            raise Unavailable(str(error)) from None
        accept = {"Accept": "application/json"}
        return {**accept, "Authorization": f"Bearer {token}"} if token else accept

    def _names(self) -> dict[str, Any]:
        return {"sni_hostname": self.access.server_name} if self.access.server_name else {}


async def _lines(parts: AsyncIterator[bytes]) -> AsyncIterator[dict[str, Any]]:
    """Yield the objects of a stream with one on each line. Raises Unavailable for anything else."""
    rest = bytearray()
    async for part in parts:
        rest += part
        if b"\n" not in part:
            if len(rest) > MAX_EVENT_BYTES:
                raise Unavailable(f"an event of a watch is over {byte_size(MAX_EVENT_BYTES)}")
            continue
        *lines, tail = bytes(rest).split(b"\n")
        rest = bytearray(tail)
        for line in lines:
            if line.strip():
                yield _object(line)


def _object(text: bytes) -> dict[str, Any]:
    try:
        value = parse_json(text)
    except ValueError as error:
        raise Unavailable(f"the API server answers with no JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unavailable("the API server answers with JSON that is no object")
    return value


def _query(params: Mapping[str, str | int | bool]) -> dict[str, str]:
    return {
        key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in params.items()
    }


def _checked(server: str, status: int, content: bytes) -> dict[str, Any]:
    """Return the object of an answer. Raises ApiError, and Unavailable where a later try may succeed."""
    if status == HTTPStatus.TOO_MANY_REQUESTS and (budget := _budget(content)):
        raise ApiError(status, DISRUPTION_BUDGET, budget)
    if status in _TEMPORARY:
        raise Unavailable(f"{server}: HTTP status {status}: {_message(content)}")
    if status >= 300:
        try:
            raise _error(_object(content), status)
        except Unavailable:
            raise ApiError(status, "", f"HTTP status {status}: {_message(content)}") from None
    return _object(content)


def _budget(content: bytes) -> str:
    """Return what a PodDisruptionBudget says against an eviction; empty where there is no such cause."""
    try:
        status = _object(content)
    except Unavailable:
        return ""
    causes = (status.get("details") or {}).get("causes") or ()
    texts = [str(each.get("message", "")) for each in causes if each.get("reason") == DISRUPTION_BUDGET]
    return " ".join([str(status.get("message", "")), *texts]) if texts else ""


def _message(content: bytes) -> str:
    try:
        return str(_object(content).get("message", ""))
    except Unavailable:
        return content[:200].decode("utf-8", "replace").strip()


def _error(status: Object, code: int) -> ApiError:
    """Return the error that a Status object describes."""
    number = status.get("code")
    return ApiError(
        number if isinstance(number, int) else code,
        str(status.get("reason") or ""),
        str(status.get("message") or ""),
    )
