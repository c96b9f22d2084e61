"""Reads JSON from the HTTP servers of Mesos agents, within bounds of time, size and number."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from peloton.config.agents import PLAIN, AgentAccess
from peloton.errors import NotFound, Refused, Unavailable
from peloton.model.amounts import byte_size, duration
from peloton.plainjson import parse_json
from peloton.withheld import LONGEST_BODY_BYTES, WITHHELD, reason_in

TIMEOUT = 10.0
"""Seconds for one answer, the connection included."""
MAX_ANSWER_BYTES = 64 * 1024 * 1024
CONCURRENT_REQUESTS = 4


class AgentHttp:
    """A client of any agent's HTTP server."""

    def __init__(
        self, timeout: float = TIMEOUT, max_answer_bytes: int = MAX_ANSWER_BYTES, access: AgentAccess = PLAIN
    ) -> None:
        self._access = access
        self._timeout = timeout
        self._max_answer_bytes = max_answer_bytes
        self._slots = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def get(self, address: str, path: str, query: Mapping[str, str] | None = None) -> object:
        """Return the JSON at `<address><path>`. Raise NotFound for a 404, Refused, else Unavailable."""
        return _parsed(f"{address}{path}", await self.read(address, path, query))

    async def read(self, address: str, path: str, query: Mapping[str, str] | None = None) -> bytes:
        """Return what is at `<address><path>`. Raise NotFound for a 404, Refused, else Unavailable."""
        import httpx2  # slow to import, and most job managers never ask an agent

        url = f"{self._access.scheme}://{address}{path}"
        async with self._slots:
            try:
                async with asyncio.timeout(self._timeout):
                    return await self._body(url, dict(query or {}))
            except httpx2.HTTPError as error:
                raise Unavailable(f"{url} cannot be reached: {type(error).__name__}") from error
            except TimeoutError:
                raise Unavailable(f"{url} did not end its answer within {duration(self._timeout)}") from None

    async def _body(self, url: str, query: dict[str, str]) -> bytes:
        import httpx2

        # Without `trust_env`: agents are never behind the user's proxy.
        async with (
            httpx2.AsyncClient(trust_env=False, timeout=self._timeout, verify=self._access.verify) as client,
            client.stream("GET", url, params=query, headers=self._access.headers) as answer,
        ):
            if answer.status_code == httpx2.codes.NOT_FOUND:
                raise NotFound(f"{url}: 404")
            if answer.status_code == WITHHELD:
                raise Refused(reason_in(await anext(answer.aiter_bytes(LONGEST_BODY_BYTES), b"")))
            if answer.status_code != httpx2.codes.OK:
                raise Unavailable(f"{url} answered {answer.status_code}")
            held = bytearray()
            async for chunk in answer.aiter_bytes():
                held += chunk
                if len(held) > self._max_answer_bytes:
                    raise Unavailable(f"{url} answered more than {byte_size(self._max_answer_bytes)}")
            return bytes(held)


def _parsed(url: str, body: bytes) -> Any:
    try:
        return parse_json(body)
    except ValueError:
        raise Unavailable(f"{url} answered something that is not JSON") from None
