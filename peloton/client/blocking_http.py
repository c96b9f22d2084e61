"""HTTP requests that block, by requests: nothing is taken from the environment, and no redirect is followed.

Slow to import: import it where a request is made.
"""

from __future__ import annotations

import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.client import HTTPResponse
from typing import Any
from urllib.parse import quote, urlencode

import requests
from requests.adapters import HTTPAdapter

HEADERS = {"Connection": "close", "Accept-Encoding": "identity"}
"""Of every request: an agent is asked seldom, and what it sends is read as it is."""
MOST_THREADS = 128
"""Threads that may make requests by one session: of more, urllib3 would warn the user."""
Timeout = tuple[float | None, float | None]
"""Seconds for connecting, and for each read; None waits without end."""


def session(
    tls: Callable[[], ssl.SSLContext] | None = None,
    headers: Mapping[str, str] | None = None,
    connected: Callable[[socket.socket], object] | None = None,
) -> requests.Session:
    """Return what makes requests, by HTTPS with a context where there is one.

    `connected` is given the socket of each connection, for another thread to end it.
    """
    made = requests.Session()
    made.trust_env = False  # agents and daemons are not behind the user's proxy
    made.headers.update({**HEADERS, **(headers or {})})
    made.mount("http://", _Adapter(None, connected))
    made.mount("https://", _Adapter(tls() if tls is not None else None, connected))
    return made


@contextmanager
def answer(
    made: requests.Session,
    method: str,
    address: str,
    timeout: tuple[float | None, float | None],
    **named: Any,
) -> Iterator[requests.Response]:
    """Make a request, and return the answer whose body is still to be read; it is closed in the end.

    Raises requests.RequestException.
    """
    found = made.request(method, address, timeout=timeout, stream=True, allow_redirects=False, **named)
    try:
        yield found
    finally:
        found.close()


def head_of(found: requests.Response, most: int) -> bytes:
    """Return the first bytes of an answer, `most` at most. Raises requests.RequestException."""
    head = bytearray()
    for piece in found.iter_content(most):
        head += piece
        if len(head) >= most:
            break
    return bytes(head[:most])


def address_of(scheme: str, host: str, port: int, path: str, query: Mapping[str, str] | None = None) -> str:
    """Return the address of a page; the host may be one of IPv6."""
    told = f"?{urlencode(query, quote_via=quote)}" if query else ""
    return f"{scheme}://{f'[{host}]' if ':' in host else host}:{port}{path}{told}"


def cause_of(error: BaseException) -> BaseException:
    """Return what a request failed of: requests and urllib3 wrap it several times."""
    found: BaseException = error
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, ConnectionError) or (isinstance(inner, OSError) and inner.errno is not None):
            found = inner
        inner = inner.__cause__ or inner.__context__
    return found


def reason_of(error: requests.RequestException) -> str:
    """Return why a request failed, in a few words."""
    cause = cause_of(error)
    if isinstance(error, requests.Timeout) or isinstance(cause, TimeoutError):
        return "timed out"
    return (cause.strerror if isinstance(cause, OSError) else "") or str(cause)


class _Adapter(HTTPAdapter):
    """Connections by a given context, to which requests' own authorities are not added."""

    def __init__(
        self, context: ssl.SSLContext | None, connected: Callable[[socket.socket], object] | None
    ) -> None:
        self._context = context
        self._connected = connected
        super().__init__(pool_maxsize=MOST_THREADS)

    def build_connection_pool_key_attributes(self, *arguments: Any, **named: Any) -> Any:
        """Return where to connect to, and the context, which alone decides what is accepted."""
        host, own = super().build_connection_pool_key_attributes(*arguments, **named)
        return host, own if self._context is None else {"ssl_context": self._context}

    def cert_verify(self, *arguments: Any, **named: Any) -> None:
        """Leave the context as it is."""
        if self._context is None:
            super().cert_verify(*arguments, **named)

    def get_connection_with_tls_context(self, *arguments: Any, **named: Any) -> Any:
        """Return the pool, whose connections serve one request each, and are told of."""
        pool = super().get_connection_with_tls_context(*arguments, **named)
        if not issubclass(pool.ConnectionCls, _OneRequest):
            pool.ConnectionCls = _one_request(pool.ConnectionCls, self._connected)
        return pool


class _LastAnswer(HTTPResponse):
    """An answer that ends its connection, as was asked for.

    Mesos closes the connection without a header that says so. Another request over it would meet a reset
    where it comes before the end of the connection is seen.
    """

    def begin(self) -> None:
        """Read the head, and let the connection be closed once the body is read."""
        super().begin()
        self.will_close = True


class _OneRequest:
    """Marks the connections that serve one request each."""

    response_class = _LastAnswer


def _one_request(kind: Any, connected: Callable[[socket.socket], object] | None) -> Any:
    def connect(connection: Any) -> None:
        kind.connect(connection)
        if connected is not None:
            connected(connection.sock)

    return type(kind.__name__, (_OneRequest, kind), {"connect": connect})
