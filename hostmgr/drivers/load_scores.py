"""Load scores of hosts, 0 to 100, read periodically from a Prometheus or a file."""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

import yaml
from prometheus_client import Gauge

from hostmgr.core.table import HostTable
from peloton.errors import Unavailable
from peloton.model.backoff import exponential
from peloton.model.cluster import UNNAMED, in_cluster, mesos_hostname
from peloton.plainjson import parse_json

Scores = Mapping[str, float]
Source = Callable[[], Awaitable[Scores]]
LONGEST_PAUSE = 10
"""After failures, in intervals."""
KNOWN = Gauge("hostmgr_load_scores", "Hosts with a known load score.")
log = logging.getLogger(__name__)
_PORT = re.compile(r":\d+\Z")


class LoadScores:
    """Keep the scores in the table of hosts up to date."""

    def __init__(
        self,
        table: HostTable,
        source: Source,
        interval: float,
        keep: float,
        now: Callable[[], float],
        cluster: str = UNNAMED,
    ) -> None:
        """Read every `interval` seconds; forget scores that are older than `keep` seconds.

        The source names hosts as Mesos does, or as Peloton does in `cluster`.
        """
        self._table = table
        self._source = source
        self._interval = interval
        self._keep = keep
        self._cluster = cluster
        self._now = now
        self._failures = 0
        self._read_at = now()

    async def follow(self) -> NoReturn:
        """Read periodically."""
        while True:
            pause = await self.read()
            await asyncio.sleep(pause)

    async def read(self) -> float:
        """Read the scores; return the seconds until the next read. Where it fails the last ones stay."""
        try:
            scores = await self._source()
        except Unavailable as error:
            self._failures += 1
            log.warning("load scores cannot be read: %s", error)
            if self._now() - self._read_at >= self._keep:
                self._set({})
            return exponential(self._failures, self._interval, self._interval * LONGEST_PAUSE)
        self._failures, self._read_at = 0, self._now()
        self._set(scores)
        return self._interval

    def _set(self, scores: Scores) -> None:
        self._table.set_loads(
            {in_cluster(self._cluster, mesos_hostname(name)): score for name, score in scores.items()}
            if self._cluster
            else scores
        )
        KNOWN.set(len(scores))


def prometheus(address: str, query: str, label: str, timeout: float, max_bytes: int) -> Source:
    """Return what queries a Prometheus, and raises Unavailable where it does not answer as it should."""
    return partial(_query, f"{address.rstrip('/')}/api/v1/query", query, label, timeout, max_bytes)


async def _query(url: str, query: str, label: str, timeout: float, max_bytes: int) -> Scores:
    import httpx  # slow to import, and only this source needs it

    body = bytearray()
    try:
        async with (
            asyncio.timeout(timeout),
            httpx.AsyncClient(timeout=timeout, trust_env=False) as client,
            client.stream("POST", url, data={"query": query}) as answer,
        ):
            async for part in answer.aiter_bytes():
                body += part
                if len(body) > max_bytes:
                    raise Unavailable(f"{url}: the answer has more than load.max_bytes, {max_bytes}, bytes")
    except (httpx.HTTPError, httpx.InvalidURL, TimeoutError) as error:
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
    return _scores((_PORT.sub("", name), value) for name, value in pairs if isinstance(name, str))


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
    return _scores((str(name), value) for name, value in found.items())


def _scores(pairs: Any) -> Scores:
    scores: dict[str, float] = {}
    for name, value in pairs:
        try:
            score = float(value)
        except (TypeError, ValueError):
            continue
        if score == score:  # a number
            scores[name] = max(scores.get(name, 0.0), min(score, 100.0))
    return scores
