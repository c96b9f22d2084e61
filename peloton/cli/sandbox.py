"""Read the files of a run from its Mesos agent: `/files/download` for all of it, `/files/read` to follow.

A Mesos agent answers at most 64 KiB to `/files/read`, and puts bytes that are not UTF-8 raw into its JSON.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from peloton.errors import NotFound, PelotonError, Unavailable

if TYPE_CHECKING:
    import httpx  # slow to import, so it is imported when a file is read

_CHUNK = 64 * 1024
_LARGEST_ANSWER = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SandboxFile:
    """One file of a run on the agent at `host:port`.

    `path` is the path by which the agent knows it; `timeout` is in seconds, for connecting and for each read.
    """

    host: str
    port: int
    path: str
    timeout: float

    def download(self) -> Iterator[bytes]:
        """Return the whole file in pieces. Raises NotFound or Unavailable."""
        return self._get("/files/download", {"path": self.path})

    def read(self, offset: int) -> bytes:
        """Return bytes from `offset` on, as many as the agent gives at once; empty at the end of the file.

        Raises NotFound or Unavailable.
        """
        query = {"path": self.path, "offset": str(offset), "length": str(_CHUNK)}
        body = bytearray()
        for piece in self._get("/files/read", query):
            body += piece
            if len(body) > _LARGEST_ANSWER:
                raise PelotonError(
                    f"{self._where()} answered more than {_LARGEST_ANSWER} bytes to /files/read"
                )
        return file_data(bytes(body), self._where())

    def _get(self, endpoint: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the body of an answer as it arrives."""
        import httpx

        failure = f"{self._where()} cannot be reached"
        try:
            url = httpx.URL(scheme="http", host=self.host, port=self.port, path=endpoint, params=query)
            with _client().stream("GET", url, timeout=self.timeout) as response:
                self._check(response.status_code, endpoint)
                failure = f"{self._where()}: the connection broke"
                yield from response.iter_bytes()
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise Unavailable(f"{failure}: {error}") from error

    def _check(self, status: int, endpoint: str) -> None:
        if status == 404:
            raise NotFound(f"{self._where()} has no file {self.path}")
        if status != 200:
            raise PelotonError(f"{self._where()} answered {status} to {endpoint}")

    def _where(self) -> str:
        return f"agent {self.host}:{self.port}"


@cache
def _client() -> httpx.Client:
    import httpx

    # Without `trust_env`: agents are not behind the user's proxy.
    return httpx.Client(trust_env=False, headers={"Connection": "close", "Accept-Encoding": "identity"})


def file_data(body: bytes, where: str = "agent") -> bytes:
    """Return the `data` of an answer of `/files/read`, byte for byte. Raises PelotonError for another."""
    try:
        data = json.loads(body.decode("utf-8", "surrogateescape"), strict=False)["data"]
        return str(data).encode("utf-8", "surrogateescape")
    except (ValueError, KeyError, TypeError) as error:
        raise PelotonError(f"{where} gave no file data: {error}") from error


def path_of(paths: list[str], name: str) -> str | None:
    """Return the path of a sandbox that ends in `name`, the shortest where more than one does."""
    parts = name.strip("/").split("/")
    found = [path for path in paths if path.rstrip("/").split("/")[-len(parts) :] == parts]
    return min(found, key=len) if found else None
