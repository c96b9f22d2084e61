"""Reading JSON from a Mesos agent's HTTP server, within bounds of time and size."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import requests

from peloton.errors import NotFound, Unavailable

TIMEOUT = 10.0
"""Seconds for one answer, the connection included."""
MAX_ANSWER = 64 * 1024 * 1024
THREADS = 4
_CHUNK = 256 * 1024


class AgentHttp:
    """`requests` is not asyncio's: a few threads of its own bound how many agents are asked at once."""

    def __init__(self, timeout: float = TIMEOUT, max_answer: int = MAX_ANSWER) -> None:
        self._timeout = timeout
        self._max_answer = max_answer
        self._threads = ThreadPoolExecutor(THREADS, "agent-http")

    async def get(self, address: str, path: str, query: Mapping[str, str] | None = None) -> Any:
        """JSON from `http://<address><path>`. Raises NotFound for a 404, else Unavailable with the reason."""
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self._get, f"http://{address}{path}", query or {})

    def _get(self, url: str, query: Mapping[str, str]) -> Any:
        deadline = time.monotonic() + self._timeout
        try:
            with requests.Session() as session:
                session.trust_env = False  # agents are never behind the user's proxy
                with session.get(
                    url, params=query, timeout=self._timeout, stream=True, allow_redirects=False
                ) as answer:
                    return self._parsed(url, answer, deadline)
        except requests.RequestException as error:
            raise Unavailable(f"{url} cannot be reached: {type(error).__name__}") from error

    def _parsed(self, url: str, answer: requests.Response, deadline: float) -> Any:
        if answer.status_code == requests.codes.not_found:
            raise NotFound(f"{url}: 404")
        if answer.status_code != requests.codes.ok:
            raise Unavailable(f"{url} answered {answer.status_code}")
        held = bytearray()
        for chunk in answer.iter_content(_CHUNK):
            held += chunk
            if len(held) > self._max_answer:
                raise Unavailable(f"{url} answered more than {self._max_answer} bytes")
            if time.monotonic() > deadline:
                raise Unavailable(f"{url} did not end its answer within {self._timeout:g} s")
        try:
            return json.loads(held)
        except ValueError:
            raise Unavailable(f"{url} answered what is no JSON") from None
