"""Reads the files of a run from its Mesos agent: `/files/download` for all of it, `/files/read` to follow.

A Mesos agent answers at most 64 KiB to `/files/read`, and puts bytes that are not UTF-8 raw into its JSON.
"""

from __future__ import annotations

import http.client
import json
from collections.abc import Iterator
from dataclasses import dataclass
from urllib.parse import urlencode

from peloton.errors import NotFound, PelotonError, Unavailable

_CHUNK = 64 * 1024
_LARGEST_ANSWER = 16 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class SandboxFile:
    """One file of a run on the agent at `host:port`; `path` is the agent's own path of it."""

    host: str
    port: int
    path: str
    timeout: float

    def download(self) -> Iterator[bytes]:
        """The whole file in pieces. Raises NotFound or Unavailable."""
        with self._open("/files/download", {"path": self.path}) as response:
            while piece := self._piece(response):
                yield piece

    def read(self, offset: int) -> bytes:
        """Bytes from `offset` on, as many as the agent gives at once; empty at the end of the file."""
        query = {"path": self.path, "offset": str(offset), "length": str(_CHUNK)}
        with self._open("/files/read", query) as response:
            body = response.read(_LARGEST_ANSWER)
        return file_data(body, self._where())

    def _piece(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{self._where()}: the connection broke: {error}") from error

    def _open(self, endpoint: str, query: dict[str, str]) -> http.client.HTTPResponse:
        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        try:
            connection.request("GET", f"{endpoint}?{urlencode(query)}", headers={"Connection": "close"})
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unavailable(f"{self._where()} cannot be reached: {error}") from error
        if response.status == 404:
            raise NotFound(f"{self._where()} has no file {self.path}")
        if response.status != 200:
            raise PelotonError(f"{self._where()} answered {response.status} to {endpoint}")
        return response

    def _where(self) -> str:
        return f"agent {self.host}:{self.port}"


def file_data(body: bytes, where: str = "agent") -> bytes:
    """The `data` of an answer of `/files/read`, byte for byte. Raises PelotonError for any other answer."""
    try:
        data = json.loads(body.decode("utf-8", "surrogateescape"), strict=False)["data"]
        return str(data).encode("utf-8", "surrogateescape")
    except (ValueError, KeyError, TypeError) as error:
        raise PelotonError(f"{where} gave no file data: {error}") from error


def path_of(paths: list[str], name: str) -> str | None:
    """The path among those of a sandbox that ends in `name`, the shortest where more than one does."""
    parts = name.strip("/").split("/")
    found = [path for path in paths if path.rstrip("/").split("/")[-len(parts) :] == parts]
    return min(found, key=len) if found else None
