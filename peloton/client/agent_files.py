"""Files in sandboxes, read from their Mesos agents by the standard library alone."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator
from contextlib import suppress
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException, HTTPResponse, HTTPSConnection
from ssl import SSLEOFError, SSLError
from urllib.parse import urlencode

from peloton.client.driving import Driver
from peloton.client.failures import CODES, CallError
from peloton.config.agents import PLAIN, AgentAccess

BYTES_PER_READ = 64 * 1024
AGENT_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class AgentFile:
    """A file at an agent, by the agent's own path."""

    host: str
    port: int
    path: str
    access: AgentAccess = PLAIN

    async def download(self, driver: Driver) -> AsyncGenerator[bytes, None]:
        """Yield the file. Raises CallError."""
        question = _Question(self, "/files/download", {"path": self.path})
        try:
            await driver.blocking(question.ask, question.abort)
            while piece := await driver.blocking(question.read, question.abort):
                yield piece
        finally:
            question.close()

    async def read(self, driver: Driver, offset: int) -> bytes:
        """Return bytes from `offset` on, byte for byte. Raises CallError.

        Agents put what is not UTF-8 raw into their JSON.
        """
        query = {"path": self.path, "offset": str(offset), "length": str(BYTES_PER_READ)}
        question = _Question(self, "/files/read", query)
        try:
            body = await driver.blocking(question.whole, question.abort)
        finally:
            question.close()
        try:
            held = json.loads(body.decode("utf-8", "surrogateescape"), strict=False)
            return str(held["data"]).encode("utf-8", "surrogateescape")
        except (ValueError, KeyError, TypeError) as error:
            raise CallError(CODES.UNKNOWN, f"{self} gave no file data: {error}") from error

    def __str__(self) -> str:
        return f"agent {f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"


def _connection(file: AgentFile) -> HTTPConnection:
    tls = file.access.tls
    if tls is None:
        return HTTPConnection(file.host, file.port, timeout=AGENT_SECONDS)
    return HTTPSConnection(file.host, file.port, timeout=AGENT_SECONDS, context=tls())


class _Question:
    """One request to an agent; `abort` may be called by another thread."""

    def __init__(self, file: AgentFile, endpoint: str, query: dict[str, str]) -> None:
        self._file = file
        self._endpoint = endpoint
        self._query = query
        self._connection = _connection(file)
        self._socket: socket.socket | None = None
        self._answer: HTTPResponse | None = None

    def ask(self) -> None:
        headers = {"Connection": "close", "Accept-Encoding": "identity", **self._file.access.headers}
        try:
            self._connection.connect()
            self._socket = self._connection.sock  # the connection leaves it to the answer
            self._connection.request("GET", f"{self._endpoint}?{urlencode(self._query)}", headers=headers)
            self._answer = self._connection.getresponse()
        except (OSError, HTTPException) as error:
            refused = isinstance(error, SSLError) and not isinstance(error, SSLEOFError)
            code = CODES.UNAUTHENTICATED if refused else CODES.UNAVAILABLE
            raise CallError(code, f"{self._file} cannot be reached: {error}") from error
        if self._answer.status != 200:
            codes = {404: CODES.NOT_FOUND, 401: CODES.UNAUTHENTICATED}
            code = codes.get(self._answer.status, CODES.UNKNOWN)
            raise CallError(code, f"{self._file} answered {self._answer.status} to {self._endpoint}")

    def read(self, amount: int | None = BYTES_PER_READ) -> bytes:
        assert self._answer is not None
        try:
            return self._answer.read(amount)
        except (OSError, HTTPException) as error:
            raise CallError(CODES.UNAVAILABLE, f"{self._file}: the connection broke: {error}") from error

    def whole(self) -> bytes:
        self.ask()
        return self.read(None)

    def abort(self) -> None:
        """Let a read that goes on end at once."""
        with suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        if self._answer is not None:
            self._answer.close()
        self._connection.close()
