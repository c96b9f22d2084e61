"""Read the files of a run from its Mesos agent: `/files/download` for all of it, `/files/read` to follow.

A Mesos agent answers at most 64 KiB to `/files/read`, and puts bytes that are not UTF-8 raw into its JSON.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from peloton.config.agents import PLAIN, AgentAccess
from peloton.errors import NotFound, PelotonError, Refused, Unauthenticated, Unavailable
from peloton.model.amounts import byte_size
from peloton.plainjson import parse_json
from peloton.withheld import WITHHELD, reason_in

if TYPE_CHECKING:
    import requests

_CHUNK_BYTES = 64 * 1024
_LARGEST_ANSWER_BYTES = 16 * 1024 * 1024
NOT_FOLLOWED = "is a link that leads out of the sandbox, or to nothing: it is not followed"
"""Said of a link that an agent does not resolve; it follows those whose targets are in the sandbox."""
MOST_NAMES = 30
"""Files that a message names."""


class AgentUnreachable(Unavailable):
    """A Mesos agent does not answer; it may be restarting, or its host is gone."""


@dataclass(frozen=True, slots=True)
class Agent:
    """The HTTP server of a Mesos agent; `timeout` is in seconds, for connecting and for each read."""

    host: str
    port: int
    timeout: float
    access: AgentAccess = PLAIN

    def stream(self, endpoint: str, query: Mapping[str, str]) -> Iterator[bytes]:
        """Yield the body of an answer as it arrives.

        Raises NotFound, Unavailable, Refused where the agent says why a file is not shown, and PelotonError
        for any other answer.
        """
        from requests import RequestException

        from peloton.client.blocking_http import address_of, answer, reason_of

        failure = f"{self} cannot be reached"
        address = address_of(self.access.scheme, self.host, self.port, endpoint, query)
        try:
            with answer(_session(self.access), "GET", address, (self.timeout, self.timeout)) as response:
                if response.status_code == WITHHELD:
                    raise Refused(reason_in(next(response.iter_content(_CHUNK_BYTES), b"")))
                self._check(response.status_code, endpoint, query["path"])
                failure = f"{self}: the connection broke"
                yield from response.iter_content(_CHUNK_BYTES)
        except RequestException as error:
            raise AgentUnreachable(f"{failure}: {reason_of(error)}") from error

    def read(self, endpoint: str, query: Mapping[str, str]) -> bytes:
        """Return the body of an answer, which is bounded. Raises as `stream`."""
        body = bytearray()
        for piece in self.stream(endpoint, query):
            body += piece
            if len(body) > _LARGEST_ANSWER_BYTES:
                raise PelotonError(
                    f"{self} answered more than {byte_size(_LARGEST_ANSWER_BYTES)} to {endpoint}"
                )
        return bytes(body)

    def browse(self, folder: str) -> list[Entry]:
        """Return what a folder holds. Raises NotFound where there is none."""
        body = self.read("/files/browse", {"path": folder})
        try:
            return [Entry(str(one["path"]), str(one["mode"])) for one in parse_json(body)]
        except (ValueError, KeyError, TypeError) as error:
            raise PelotonError(f"{self} lists files in an unknown form: {error!r}") from error

    def _check(self, status: int, endpoint: str, path: str) -> None:
        if status == 404:
            raise NotFound(f"{self} has no file {path}")
        if status == 401:
            raise Unauthenticated(f"{self} asks for credentials: give --agentAuth FILE, or right ones")
        if status != 200:
            raise PelotonError(f"{self} answered {status} to {endpoint}")

    def __str__(self) -> str:
        return f"agent {self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder, by the agent's own path."""

    path: str
    mode: str
    """As `ls -l` shows it."""

    @property
    def folder(self) -> bool:
        """Whether it is a folder."""
        return self.mode.startswith("d")

    @property
    def link(self) -> bool:
        """Whether it is a symbolic link."""
        return self.mode.startswith("l")

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rstrip("/").rpartition("/")[2]


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The directory of a run; `paths` are some of the files right in it."""

    agent: Agent
    paths: tuple[str, ...]

    def file(self, name: str) -> SandboxFile:
        """Return the file with this path in the sandbox. Raises NotFound with what is there instead."""
        parts = [part for part in name.split("/") if part not in ("", ".")]
        if not parts or ".." in parts:
            raise NotFound(f"{name!r} is no path inside of the sandbox")
        return SandboxFile(self.agent, path_of(list(self.paths), name) or self._find(parts))

    def _find(self, parts: list[str]) -> str:
        if not self.paths:
            raise NotFound(f"no file {'/'.join(parts)!r} in the sandbox: it is empty")
        entries = self._entries(parts[:-1])
        entry = next((one for one in entries if one.name == parts[-1]), None)
        if entry is None:
            self._ask_why(parts)
            place = f"in {'/'.join(parts[:-1])}" if parts[1:] else "there"
            raise NotFound(f"no file {'/'.join(parts)!r} in the sandbox; {place}: {_names(entries)}")
        if entry.folder:
            raise NotFound(
                f"{'/'.join(parts)!r} is a folder of the sandbox; in it: {_names(self._entries(parts))}"
            )
        return entry.path

    def _ask_why(self, parts: list[str]) -> None:
        """Raise Refused where a file is not listed because it cannot be shown, as at the end of a pod."""
        root = min(self.paths, key=len).rpartition("/")[0]
        try:
            self.agent.read("/files/read", {"path": "/".join([root, *parts])})
        except Refused:
            raise
        except PelotonError:
            return  # that it is not listed is what is known

    def _entries(self, folder: list[str]) -> list[Entry]:
        root = min(self.paths, key=len).rpartition("/")[0]
        try:
            return self.agent.browse("/".join([root, *folder]))
        except NotFound:
            if not folder:
                raise
            entries = self.agent.browse(root)
            if any(each.name == folder[0] and each.link for each in entries):
                raise Refused(f"{folder[0]!r} {NOT_FOLLOWED}") from None
            there = _names(entries)
            raise NotFound(f"no folder {'/'.join(folder)!r} in the sandbox; there: {there}") from None


def _names(entries: list[Entry]) -> str:
    names = sorted(one.name + "/" * one.folder for one in entries)
    more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
    return (", ".join(names[:MOST_NAMES]) or "nothing") + more


@dataclass(frozen=True, slots=True)
class SandboxFile:
    """One file of a run; `path` is the path by which its agent knows it."""

    agent: Agent
    path: str

    def download(self) -> Iterator[bytes]:
        """Yield the whole file in pieces. Raises as `read`."""
        with self._explained():
            yield from self.agent.stream("/files/download", {"path": self.path})

    def read(self, offset: int) -> bytes:
        """Return bytes from `offset` on, as many as the agent gives at once; empty at the end of the file.

        Raises NotFound or Unavailable, Refused for a link that leads out of the sandbox.
        """
        query = {"path": self.path, "offset": str(offset), "length": str(_CHUNK_BYTES)}
        with self._explained():
            return file_data(self.agent.read("/files/read", query), str(self.agent))

    def size(self) -> int:
        """Return the bytes of the file now. Raises as `read`."""
        with self._explained():
            body = self.agent.read("/files/read", {"path": self.path})
        try:
            return int(parse_json(body)["offset"])
        except (ValueError, KeyError, TypeError) as error:
            raise PelotonError(f"{self.agent} gave no size: {error!r}") from error

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Raise Refused where the body fails because this is a link that the agent does not follow."""
        try:
            yield
        except (Unavailable, Unauthenticated, Refused):
            raise
        except PelotonError:
            if self._is_link():
                raise Refused(f"{self.path.rpartition('/')[2]!r} {NOT_FOLLOWED}") from None
            raise

    def _is_link(self) -> bool:
        with suppress(PelotonError):
            folder = self.agent.browse(self.path.rpartition("/")[0])
            return any(each.path == self.path and each.link for each in folder)
        return False


@cache
def _session(access: AgentAccess) -> requests.Session:
    from peloton.client.blocking_http import session  # slow to import

    return session(access.tls, access.headers)


def file_data(body: bytes, where: str = "agent") -> bytes:
    """Return the `data` of an answer of `/files/read`, byte for byte. Raises PelotonError for another."""
    try:
        data = parse_json(body.decode("utf-8", "surrogateescape"), strict=False)["data"]
        return str(data).encode("utf-8", "surrogateescape")
    except (ValueError, KeyError, TypeError) as error:
        raise PelotonError(f"{where} gave no file data: {error}") from error


def path_of(paths: list[str], name: str) -> str | None:
    """Return the path of a sandbox that ends in `name`, the shortest where more than one does."""
    parts = name.strip("/").split("/")
    found = [path for path in paths if path.rstrip("/").split("/")[-len(parts) :] == parts]
    return min(found, key=len) if found else None
