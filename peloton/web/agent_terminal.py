"""A command beside a task: a nested container session of its agent, without blocking."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from peloton.client.agent_calls import (
    LARGEST_ANSWER_BYTES,
    PATH,
    PLAIN_HEADERS,
    STREAM_HEADERS,
    Json,
    Nested,
    Output,
    Size,
    command_info,
    exit_code,
    no_more_input,
    refusal,
)
from peloton.config.agents import PLAIN, AgentAccess
from peloton.errors import NotFound, PelotonError, Unavailable
from peloton.web.agent_input import AgentInput

if TYPE_CHECKING:
    import httpx2

SHELL = command_info(
    ["export TERM=xterm-256color; if command -v bash >/dev/null 2>&1; then exec bash; else exec sh; fi"]
)
_CREDENTIALS = "the web UI's settings `agents` give it some"
Write = Callable[[str, bytes], Awaitable[None]]
"""Takes output: the name of its stream, and bytes. A terminal has one stream, STDOUT."""


@dataclass(frozen=True, slots=True)
class AgentTerminal:
    """Where a command runs: the container of a run at its agent."""

    host: str
    port: int
    nested: Nested
    seconds: float
    """Time-out of connecting, and of answers that come at once."""
    access: AgentAccess = PLAIN

    async def run(
        self, size: Size | None, records: AsyncIterator[bytes], write: Write, command: Json = SHELL
    ) -> int:
        """Run a command to its end and return its exit code, 128 and the number for a signal.

        Without a `size` it has no terminal. `records` are what `agent_calls.typed` and `resized` return; they
        go on after the end of the input. The command ends where this is cancelled. Raises NotFound where the
        task is not there, Unavailable, and PelotonError for a refusal.
        """
        import httpx2  # slow to import, and only who opens a terminal needs it

        timeout = httpx2.Timeout(self.seconds, read=None, write=None)
        try:
            # Without `trust_env`: agents are not behind a proxy of the environment.
            async with httpx2.AsyncClient(
                trust_env=False, verify=self.access.verify, timeout=timeout, headers=self.access.headers
            ) as client:
                await self._copied(client, self.nested.launch(command, size), records, write)
                return await self._end(client)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unavailable(f"{self} cannot be reached: {type(error).__name__}") from error

    async def _copied(
        self, client: httpx2.AsyncClient, call: Json, records: AsyncIterator[bytes], write: Write
    ) -> None:
        async with client.stream("POST", self._url, json=call, headers=STREAM_HEADERS) as answer:
            if answer.status_code != HTTPStatus.OK:
                raise self._refusal(answer.status_code, await _head(answer))
            typing = asyncio.create_task(self._typed(records))
            showing = asyncio.create_task(self._shown(answer, write))
            try:
                await asyncio.wait((typing, showing), return_when=asyncio.FIRST_COMPLETED)
                if not showing.done() and not await self._has_ended(client):
                    raise typing.result()
                await showing
            finally:
                typing.cancel()
                showing.cancel()
                await asyncio.gather(typing, showing, return_exceptions=True)

    async def _shown(self, answer: httpx2.Response, write: Write) -> None:
        output = Output(self)
        async for piece in answer.aiter_raw():
            for stream, data in output.feed(piece):
                await write(stream, data)

    async def _typed(self, records: AsyncIterator[bytes]) -> PelotonError:
        """Pass on what is typed; return why the agent takes no more of it, which its shell's end may be."""

        async def body() -> AsyncIterator[bytes]:
            yield self.nested.first_record()
            async for record in records:
                yield record

        try:
            answer = await AgentInput(self.host, self.port, self.seconds, self.access).send(body())
        except OSError as error:
            return self._deaf(str(error) or type(error).__name__)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            return self._refusal(answer.status, b"")
        if answer.status == HTTPStatus.OK:
            return self._deaf("it was answered early")
        return self._deaf(" ".join(answer.text.split()) or f"status {answer.status}")

    def _deaf(self, why: str) -> PelotonError:
        return Unavailable(no_more_input(self, why))

    async def _has_ended(self, client: httpx2.AsyncClient) -> bool:
        """Return whether the shell has ended, or ends within the time of a call."""
        import httpx2

        try:
            await self._end(client)
        except httpx2.TimeoutException:
            return False
        except NotFound:  # its task has ended, and it with it
            return True
        return True

    async def _end(self, client: httpx2.AsyncClient) -> int:
        call: Json = self.nested.wait()
        async with client.stream(
            "POST", self._url, json=call, headers=PLAIN_HEADERS, timeout=self.seconds
        ) as answer:
            body = await _head(answer)
        if answer.status_code != HTTPStatus.OK:
            raise self._refusal(answer.status_code, body)
        return exit_code(body, self)

    def _refusal(self, status: int, body: bytes) -> PelotonError:
        return refusal(self, status, body, _CREDENTIALS)

    @property
    def _url(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.access.scheme}://{host}:{self.port}{PATH}"

    def __str__(self) -> str:
        return f"the agent at {self.host}:{self.port}"


async def _head(answer: httpx2.Response) -> bytes:
    """Return the beginning of a body."""
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > LARGEST_ANSWER_BYTES:
            break
    return bytes(body[:LARGEST_ANSWER_BYTES])
