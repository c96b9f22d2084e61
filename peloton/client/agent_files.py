"""Files in sandboxes, read from their Mesos agents."""

from __future__ import annotations

import json
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterator
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from ssl import SSLEOFError, SSLError
from typing import TYPE_CHECKING, Any

from peloton.client.failures import CODES, CallError
from peloton.client.sync_async import Driver
from peloton.config.agents import PLAIN, AgentAccess
from peloton.withheld import WITHHELD, reason_in

if TYPE_CHECKING:
    from requests import RequestException

BYTES_PER_READ = 64 * 1024
LARGEST_ANSWER_BYTES = 6 * BYTES_PER_READ + 1024
"""Bytes of an answer to a read, with every byte escaped."""
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


@dataclass(frozen=True, slots=True)
class JobmgrFile:
    """A file of a run that the job manager reads: tasks have no credentials for agents."""

    call: Callable[[Any], Awaitable[Any]]
    """Calls GetSandboxFile. Raises CallError."""
    job_id: str
    instance: int
    run: str
    path: str

    async def read(self, driver: Driver, offset: int) -> bytes:
        """Return bytes from `offset` on. Raises CallError."""
        from peloton.private.jobmgr.access import access_pb2

        request = access_pb2.GetSandboxFileRequest(
            instance=self.instance, run=self.run, path=self.path, offset=offset
        )
        request.job_id.value = self.job_id
        return bytes((await self.call(request)).data)

    async def download(self, driver: Driver) -> AsyncGenerator[bytes, None]:
        """Yield the file. Raises CallError."""
        offset = 0
        while piece := await self.read(driver, offset):
            yield piece
            offset += len(piece)


class _Question:
    """One request to an agent; `abort` may be called by another thread."""

    def __init__(self, file: AgentFile, endpoint: str, query: dict[str, str]) -> None:
        self._file = file
        self._endpoint = endpoint
        self._query = query
        self._socket: socket.socket | None = None
        self._open = ExitStack()
        self._pieces: Iterator[bytes] = iter(())

    def ask(self) -> None:
        from requests import RequestException

        from peloton.client.blocking_http import address_of, answer, session  # slow to import

        file = self._file
        made = session(file.access.tls, file.access.headers, self._connected)
        self._open.callback(made.close)
        address = address_of(file.access.scheme, file.host, file.port, self._endpoint, self._query)
        try:
            told = self._open.enter_context(answer(made, "GET", address, (AGENT_SECONDS, AGENT_SECONDS)))
        except RequestException as error:
            raise self._unreachable(error) from error
        if told.status_code != 200:
            if told.status_code == WITHHELD:
                reason = reason_in(next(told.iter_content(BYTES_PER_READ), b""))
                raise CallError(CODES.FAILED_PRECONDITION, reason)
            codes = {404: CODES.NOT_FOUND, 401: CODES.UNAUTHENTICATED}
            code = codes.get(told.status_code, CODES.UNKNOWN)
            raise CallError(code, f"{file} answered {told.status_code} to {self._endpoint}")
        self._pieces = told.iter_content(BYTES_PER_READ)

    def _connected(self, connection: socket.socket) -> None:
        self._socket = connection

    def _unreachable(self, error: RequestException) -> CallError:
        from peloton.client.blocking_http import cause_of, reason_of

        cause = cause_of(error)
        refused = isinstance(cause, SSLError) and not isinstance(cause, SSLEOFError)
        code = CODES.UNAUTHENTICATED if refused else CODES.UNAVAILABLE
        return CallError(code, f"{self._file} cannot be reached: {reason_of(error)}")

    def read(self) -> bytes:
        from requests import RequestException

        from peloton.client.blocking_http import reason_of

        try:
            return next(self._pieces, b"")
        except RequestException as error:
            broke = f"{self._file}: the connection broke: {reason_of(error)}"
            raise CallError(CODES.UNAVAILABLE, broke) from error

    def whole(self) -> bytes:
        """Ask, and return the body. Raises CallError, also where it is longer than an agent's answers are."""
        self.ask()
        body = bytearray()
        while piece := self.read():
            body += piece
            if len(body) > LARGEST_ANSWER_BYTES:
                raise CallError(
                    CODES.UNKNOWN,
                    f"{self._file} answered more than {LARGEST_ANSWER_BYTES} bytes to {self._endpoint}",
                )
        return bytes(body)

    def abort(self) -> None:
        """Let a read that goes on end at once."""
        with suppress(OSError):
            if self._socket is not None:
                self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self._open.close()
