"""Where load scores of hosts are read: a Prometheus, or a file."""

from __future__ import annotations

import asyncio
import re
from functools import partial
from pathlib import Path

import yaml

from hostmgr.core.agents.load_scores import Scores, scores_of
from hostmgr.drivers.load_scores import Source
from peloton.errors import Unavailable
from peloton.plainjson import parse_json

_PORT = re.compile(r":\d+\Z")


def prometheus(address: str, query: str, label: str, timeout: float, max_bytes: int) -> Source:
    """Return what queries a Prometheus, and raises Unavailable where it does not answer as it should."""
    return partial(_query, f"{address.rstrip('/')}/api/v1/query", query, label, timeout, max_bytes)


async def _query(url: str, query: str, label: str, timeout: float, max_bytes: int) -> Scores:
    import httpx2  # slow to import, and only this source needs it

    body = bytearray()
    try:
        async with (
            asyncio.timeout(timeout),
            httpx2.AsyncClient(timeout=timeout, trust_env=False) as client,
            client.stream("POST", url, data={"query": query}) as answer,
        ):
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > max_bytes:
                    raise Unavailable(f"{url}: the answer has more than load.max_bytes, {max_bytes}, bytes")
    except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
        raise Unavailable(f"{url}: {str(error) or type(error).__name__}") from None
    if answer.status_code != 200:
        raise Unavailable(f"{url}: {answer.status_code} {bytes(body[:200]).decode(errors='replace')}")
    return scores_from_query(bytes(body), label, url)


def scores_from_query(body: bytes, label: str, url: str) -> Scores:
    """Return the scores in an answer of Prometheus; of several of one host, the highest.

    Elements without the label, and values that are no numbers, are unknown. Raises Unavailable for an answer
    that is no instant vector.
    """
    try:
        answer = parse_json(body)
        data = answer["data"]
        if data["resultType"] != "vector":
            raise Unavailable(f"{url}: the answer is a {data['resultType']}, not an instant vector")
        pairs = [(each["metric"].get(label), each["value"][1]) for each in data["result"]]
    except (ValueError, LookupError, TypeError, AttributeError):
        raise Unavailable(f"{url}: the answer is not one of Prometheus: {body[:100]!r}") from None
    return scores_of((_PORT.sub("", name), value) for name, value in pairs if isinstance(name, str))


def score_file(path: Path, max_bytes: int) -> Source:
    """Return what reads a file, and raises Unavailable where it has no mapping of hostnames to scores."""

    async def read() -> Scores:
        return await asyncio.to_thread(_read, path, max_bytes)

    return read


def _read(path: Path, max_bytes: int) -> Scores:
    try:
        with path.open("rb") as file:
            body = file.read(max_bytes + 1)
        if len(body) > max_bytes:
            raise Unavailable(f"{path}: the file has more than load.max_bytes, {max_bytes}, bytes")
        found = yaml.load(body, yaml.CSafeLoader)
    except (OSError, yaml.YAMLError, UnicodeDecodeError) as error:
        raise Unavailable(f"{path}: {error}") from None
    if not isinstance(found, dict):
        raise Unavailable(f"{path}: the file is not a mapping of hostnames to scores")
    return scores_of((str(name), value) for name, value in found.items())
