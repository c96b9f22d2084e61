"""The files of a run, read from its Mesos agent without blocking, within bounds of memory."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from http import HTTPStatus
from typing import TYPE_CHECKING

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.task import task_pb2
from peloton.calls.web import BROWSE_SANDBOX
from peloton.client.sandbox import NOT_FOLLOWED, file_data
from peloton.config.agents import PLAIN, AgentAccess
from peloton.errors import InvalidArgument, NotFound, PelotonError, Refused, Unavailable
from peloton.model.amounts import byte_size
from peloton.plainjson import parse_json
from peloton.present.refusals import check
from peloton.web.cluster import Calls
from peloton.withheld import LEFT_OUT, LONGEST_BODY_BYTES, WITHHELD, reason_in

if TYPE_CHECKING:
    import httpx2

CHUNK_BYTES = 64 * 1024
"""Bytes of one read: as many as a Mesos agent gives."""
LARGEST_LISTING_BYTES = 4 * 1024 * 1024
LARGEST_READ_BYTES = 6 * CHUNK_BYTES + 1024
"""Bytes of an answer to a read, with every byte escaped."""
MOST_ENTRIES = 5000
SANDBOX_SECONDS = 5.0
"""How long the place of a sandbox is used again."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A file or folder of a sandbox."""

    name: str
    folder: bool
    size: int
    modified: float
    mode: str


@dataclass(frozen=True, slots=True)
class Folder:
    """What a folder of a sandbox holds, folders first."""

    entries: Sequence[Entry]
    left_out: str = ""
    """Why it is not whole; empty: it is."""


def inner_path(text: str) -> str:
    """Return a path inside of a sandbox, `a/b`, empty for the sandbox itself. Raises InvalidArgument."""
    parts = [part for part in text.split("/") if part not in ("", ".")]
    if ".." in parts or "\0" in text:
        raise InvalidArgument("path", text, "a path inside of the sandbox, without `..`")
    return "/".join(parts)


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The folder of a run at its agent."""

    host: str
    port: int
    root: str
    """The agent's path of the folder; empty where the sandbox has no file that would tell."""
    seconds: float
    """Time-out of connecting, and of each read."""
    access: AgentAccess = PLAIN

    async def browse(self, path: str) -> Folder:
        """Return what a folder holds. Raises NotFound, Unavailable, Refused as `read`."""
        async with self._explained(path):
            return await self._browse(path)

    async def _browse(self, path: str) -> Folder:
        query = {"path": self._at(path)}
        async with self._answer("/files/browse", query) as answer:
            body = await self._held(answer, "/files/browse", LARGEST_LISTING_BYTES)
            left_out = answer.headers.get(LEFT_OUT, "")
        try:
            found = [
                Entry(
                    str(one["path"]).rstrip("/").rpartition("/")[2],
                    str(one["mode"]).startswith("d"),
                    int(one["size"]),
                    float(one["mtime"]),
                    str(one["mode"]),
                )
                for one in parse_json(body)[:MOST_ENTRIES]
            ]
        except (ValueError, KeyError, TypeError) as error:
            raise PelotonError(f"{self} lists files in an unknown form: {error!r}") from error
        return Folder(sorted(found, key=lambda entry: (not entry.folder, entry.name)), left_out)

    async def entry(self, path: str) -> Entry:
        """Return a file or folder. Raises NotFound where there is none."""
        folder, _, name = path.rpartition("/")
        found = await self.browse(folder)
        for each in found.entries:
            if each.name == name:
                return each
        if found.left_out:
            raise Refused(found.left_out)
        raise NotFound(f"there is no file {path!r} in the sandbox")

    async def size(self, path: str) -> int:
        """Return the size of a file now. Raises as `read`."""
        async with self._explained(path):
            body = await self._body("/files/read", {"path": self._at(path)}, LARGEST_READ_BYTES)
        try:
            return int(parse_json(body)["offset"])
        except (ValueError, KeyError, TypeError) as error:
            raise PelotonError(f"{self} gave no size: {error!r}") from error

    async def read(self, path: str, offset: int, length: int = CHUNK_BYTES) -> bytes:
        """Return bytes of a file, CHUNK at most; empty at its end.

        Raises NotFound, Unavailable, and Refused for a link that leads out of the sandbox.
        """
        query = {"path": self._at(path), "offset": str(offset), "length": str(min(length, CHUNK_BYTES))}
        async with self._explained(path):
            return file_data(await self._body("/files/read", query, LARGEST_READ_BYTES), str(self))

    async def download(self, path: str) -> AsyncGenerator[bytes]:
        """Yield the whole file in pieces. Raises as `read`."""
        async with self._explained(path), self._answer("/files/download", {"path": self._at(path)}) as answer:
            async for piece in answer.aiter_bytes(CHUNK_BYTES):
                yield piece

    @asynccontextmanager
    async def _explained(self, path: str) -> AsyncIterator[None]:
        """Raise Refused where the body fails because a part of the path is a link that is not followed."""
        try:
            yield
        except (NotFound, Refused):
            if link := await self._link_in(path):
                raise Refused(f"{link!r} {NOT_FOLLOWED}") from None
            raise

    async def _link_in(self, path: str) -> str:
        """Return the first link among the folders of a path and what it names; empty where there is none."""
        parts = inner_path(path).split("/")
        with suppress(PelotonError):
            for at, name in enumerate(parts):
                folder = await self._browse("/".join(parts[:at]))
                if any(each.name == name and each.mode.startswith("l") for each in folder.entries):
                    return "/".join(parts[: at + 1])
        return ""

    async def _body(self, endpoint: str, query: Mapping[str, str], most: int) -> bytes:
        async with self._answer(endpoint, query) as answer:
            return await self._held(answer, endpoint, most)

    async def _held(self, answer: httpx2.Response, endpoint: str, most: int) -> bytes:
        held = bytearray()
        async for piece in answer.aiter_bytes():
            held += piece
            if len(held) > most:
                raise PelotonError(f"{self} answered more than {byte_size(most)} to {endpoint}")
        return bytes(held)

    @asynccontextmanager
    async def _answer(self, endpoint: str, query: Mapping[str, str]) -> AsyncIterator[httpx2.Response]:
        import httpx2  # slow to import, and only who looks at files needs it

        host = f"[{self.host}]" if ":" in self.host else self.host
        url = f"{self.access.scheme}://{host}:{self.port}{endpoint}"
        headers = {"accept-encoding": "identity", **self.access.headers}
        try:
            # Without `trust_env`: agents are not behind a proxy of the environment.
            async with (
                httpx2.AsyncClient(
                    trust_env=False, verify=self.access.verify, timeout=self.seconds
                ) as client,
                client.stream("GET", url, params=query, headers=headers) as answer,
            ):
                if answer.status_code == HTTPStatus.NOT_FOUND:
                    raise NotFound(
                        f"there is no file {query['path'].removeprefix(self.root)!r} in the sandbox"
                    )
                if answer.status_code == WITHHELD:
                    raise Refused(reason_in(await anext(answer.aiter_bytes(LONGEST_BODY_BYTES), b"")))
                if answer.status_code == HTTPStatus.BAD_REQUEST:
                    inner = query["path"].removeprefix(self.root)
                    raise Refused(f"{inner!r} cannot be read: it is a folder, or no plain file")
                if answer.status_code != HTTPStatus.OK:
                    raise PelotonError(f"{self} answered {answer.status_code} to {endpoint}")
                yield answer
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise Unavailable(f"{self} cannot be reached: {type(error).__name__}") from error

    def _at(self, path: str) -> str:
        inner = inner_path(path)
        return f"{self.root}/{inner}" if inner else self.root

    def __str__(self) -> str:
        return f"the agent at {self.host}:{self.port}"


def known_instance(number: int) -> int:
    """Return the number of an instance. Raises NotFound where none can have it."""
    if number >= 2**32:
        raise NotFound(f"there is no instance {number}: a job has far fewer")
    return number


async def find(calls: Calls, job_id: str, instance: int, run: str) -> Sandbox:
    """Return the sandbox of a run, which the job manager finds for this user.

    `run` is a number, or empty for the last launched one. Raises Refused where there is none.
    """
    task_id = f"{job_id}-{instance}-{run}" if run else ""
    request = task_pb2.BrowseSandboxRequest(
        jobId=peloton_pb2.JobID(value=job_id), instanceId=known_instance(instance), taskId=task_id
    )
    key = (calls.auth, "sandbox", request.SerializeToString(deterministic=True))
    answer = await calls.cluster.shared.get(
        key, SANDBOX_SECONDS, lambda: calls.call_unchecked(BROWSE_SANDBOX, request)
    )
    error = answer.error
    if error.HasField("notRunning") or error.HasField("failure"):
        text = error.notRunning.message or error.failure.message
        raise Refused(text or f"instance {instance} has no sandbox: it was not launched")
    check(answer)
    root = min(answer.paths, key=len).rpartition("/")[0] if answer.paths else ""
    if not root:
        raise Refused("the sandbox is empty")
    cluster = calls.cluster
    return Sandbox(answer.hostname, int(answer.port or 5051), root, cluster.call_seconds, cluster.agents)
