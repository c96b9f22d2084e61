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
MOST_NAMES = 30
"""Of files, in a message."""


@dataclass(frozen=True, slots=True)
class Agent:
    """The HTTP server of a Mesos agent; `timeout` in seconds is for each answer."""

    host: str
    port: int
    timeout: float

    def open(self, endpoint: str, query: dict[str, str]) -> http.client.HTTPResponse:
        """Raises NotFound, Unavailable, PelotonError for any other answer."""
        connection = http.client.HTTPConnection(self.host, self.port, timeout=self.timeout)
        try:
            connection.request("GET", f"{endpoint}?{urlencode(query)}", headers={"Connection": "close"})
            response = connection.getresponse()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            raise Unavailable(f"{self} cannot be reached: {error}") from error
        if response.status == 404:
            raise NotFound(f"{self} has no file {query['path']}")
        if response.status != 200:
            raise PelotonError(f"{self} answered {response.status} to {endpoint}")
        return response

    def browse(self, folder: str) -> list[Entry]:
        """What a folder holds. Raises NotFound where it is not there."""
        with self.open("/files/browse", {"path": folder}) as response:
            body = response.read(_LARGEST_ANSWER)
        try:
            return [Entry(str(one["path"]), str(one["mode"]).startswith("d")) for one in json.loads(body)]
        except (ValueError, KeyError, TypeError) as error:
            raise PelotonError(f"{self} lists files in an unknown form: {error!r}") from error

    def __str__(self) -> str:
        return f"agent {self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder, by the agent's own path."""

    path: str
    folder: bool

    @property
    def name(self) -> str:
        return self.path.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The directory of a run; `paths` are some of the files right in it."""

    agent: Agent
    paths: tuple[str, ...]

    def file(self, name: str) -> SandboxFile:
        """By its path inside of the sandbox. Raises NotFound with what is there instead."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if not parts or ".." in parts:
            raise NotFound(f"{name!r} is no path inside of the sandbox")
        return SandboxFile(self.agent, path_of(list(self.paths), name) or self._found(parts))

    def _found(self, parts: list[str]) -> str:
        if not self.paths:
            raise NotFound(f"no file {'/'.join(parts)!r} in the sandbox: it is empty")
        entries = self._entries(parts[:-1])
        entry = next((one for one in entries if one.name == parts[-1]), None)
        if entry is None:
            place = f"in {'/'.join(parts[:-1])}" if parts[1:] else "there"
            raise NotFound(f"no file {'/'.join(parts)!r} in the sandbox; {place}: {_names(entries)}")
        if entry.folder:
            raise NotFound(
                f"{'/'.join(parts)!r} is a folder of the sandbox; in it: {_names(self._entries(parts))}"
            )
        return entry.path

    def _entries(self, folder: list[str]) -> list[Entry]:
        root = min(self.paths, key=len).rpartition("/")[0]
        try:
            return self.agent.browse("/".join([root, *folder]))
        except NotFound:
            if not folder:
                raise
            there = _names(self.agent.browse(root))
            raise NotFound(f"no folder {'/'.join(folder)!r} in the sandbox; there: {there}") from None


def _names(entries: list[Entry]) -> str:
    names = sorted(one.name + "/" * one.folder for one in entries)
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return (", ".join(names[:MOST_NAMES]) or "nothing") + more


@dataclass(frozen=True, slots=True)
class SandboxFile:
    """One file of a run; `path` is the agent's own path of it."""

    agent: Agent
    path: str

    def download(self) -> Iterator[bytes]:
        """The whole file in pieces. Raises NotFound or Unavailable."""
        with self.agent.open("/files/download", {"path": self.path}) as response:
            while piece := self._piece(response):
                yield piece

    def read(self, offset: int) -> bytes:
        """Bytes from `offset` on, as many as the agent gives at once; empty at the end of the file."""
        query = {"path": self.path, "offset": str(offset), "length": str(_CHUNK)}
        with self.agent.open("/files/read", query) as response:
            body = response.read(_LARGEST_ANSWER)
        return file_data(body, str(self.agent))

    def _piece(self, response: http.client.HTTPResponse) -> bytes:
        try:
            return response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise Unavailable(f"{self.agent}: the connection broke: {error}") from error


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
