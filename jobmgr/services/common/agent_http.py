"""Reads JSON from the HTTP servers of Mesos agents, within bounds of time, size and number."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from peloton.config.agents import PLAIN, AgentAccess
from peloton.errors import NotFound, Unavailable
from peloton.plainjson import parse_json

TIMEOUT = 10.0
"""Seconds for one answer, the connection included."""
MAX_ANSWER = 64 * 1024 * 1024
CONCURRENT_REQUESTS = 4


class AgentHttp:
    """A client of any agent's HTTP server."""

    def __init__(
        self, timeout: float = TIMEOUT, max_answer: int = MAX_ANSWER, access: AgentAccess = PLAIN
    ) -> None:
        self._access = access
        self._timeout = timeout
        self._max_answer = max_answer
        self._slots = asyncio.Semaphore(CONCURRENT_REQUESTS)

    async def get(self, address: str, path: str, query: Mapping[str, str] | None = None) -> Any:
        """Return the JSON at `<address><path>`. Raise NotFound for a 404, else Unavailable."""
        import httpx  # slow to import, and most job managers never ask an agent

        url = f"{self._access.scheme}://{address}{path}"
        async with self._slots:
            try:
                async with asyncio.timeout(self._timeout):
                    return _parsed(url, await self._body(url, dict(query or {})))
            except httpx.HTTPError as error:
                raise Unavailable(f"{url} cannot be reached: {type(error).__name__}") from error
            except TimeoutError:
                raise Unavailable(f"{url} did not end its answer within {self._timeout:g} s") from None

    async def _body(self, url: str, query: dict[str, str]) -> bytes:
        import httpx

        # Without `trust_env`: agents are never behind the user's proxy.
        async with (
            httpx.AsyncClient(trust_env=False, timeout=self._timeout, verify=self._access.verify) as client,
            client.stream("GET", url, params=query, headers=self._access.headers) as answer,
        ):
            if answer.status_code == httpx.codes.NOT_FOUND:
                raise NotFound(f"{url}: 404")
            if answer.status_code != httpx.codes.OK:
                raise Unavailable(f"{url} answered {answer.status_code}")
            held = bytearray()
            async for chunk in answer.aiter_bytes():
                held += chunk
                if len(held) > self._max_answer:
                    raise Unavailable(f"{url} answered more than {self._max_answer} bytes")
            return bytes(held)


def _parsed(url: str, body: bytes) -> Any:
    try:
        return parse_json(body)
    except ValueError:
        raise Unavailable(f"{url} answered something that is not JSON") from None
