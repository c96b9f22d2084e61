"""Logs of pods: what a run wrote to its standard output and error, read from its host."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from dataclasses import dataclass

from starlette.datastructures import QueryParams

from peloton.errors import NotFound, Refused
from peloton.web import sandbox
from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.reading import Reader
from peloton.web.sandbox import CHUNK_BYTES, Sandbox

STREAMS = {"All": ("stdout", "stderr"), "Stdout": ("stdout",), "Stderr": ("stderr",)}
POLL_SECONDS = 0.5
QUIET_READS = 2
"""Reads without anything new of a run that has ended, after which its output counts as complete."""
TAIL_BYTES = 1024 * 1024
"""How much of the end of a file is looked at for the last lines."""
_ENDED = ("Succeeded", "Failed")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is asked for of a log."""

    follow: bool = False
    previous: bool = False
    tail_lines: int | None = None
    limit_bytes: int | None = None
    files: tuple[str, ...] = STREAMS["All"]

    @classmethod
    def of(cls, query: QueryParams) -> Wanted:
        """Read the parameters. Raises Refusal for those that cannot be kept."""
        for name in ("sinceSeconds", "sinceTime"):
            if query.get(name):
                raise Refusal(400, f"{name}: output has no times in Peloton")
        if query.get("timestamps") == "true":
            raise Refusal(400, "timestamps: output has no times in Peloton")
        files = STREAMS.get(query.get("stream", "All"))
        if files is None:
            raise Refusal(400, f"stream: {query['stream']!r} is not {', '.join(STREAMS)}")
        return cls(
            query.get("follow") == "true",
            query.get("previous") == "true",
            _number(query, "tailLines"),
            _number(query, "limitBytes"),
            files,
        )


def _number(query: QueryParams, name: str) -> int | None:
    text = query.get(name, "")
    if not text:
        return None
    if not text.isascii() or not text.isdigit() or len(text) > 15:
        raise Refusal(400, f"{name}: {text!r} is no number")
    return int(text)


async def pieces(reader: Reader, namespace: str, name: str, wanted: Wanted) -> AsyncGenerator[bytes]:
    """Return the output of a pod, in pieces: standard output first, then standard error.

    What is followed comes as it is written. Raises Refusal where the pod has no output yet.
    """
    job, instance = await reader.instance(namespace, name)
    pod = await reader.pod(namespace, name)
    run = pod["metadata"]["uid"].rpartition("-")[2]
    if wanted.previous:
        if not run.isdigit() or int(run) < 2:
            raise Refusal(400, f'previous terminated container in pod "{name}" not found')
        run = str(int(run) - 1)
    try:
        found = await sandbox.find(reader.calls, job.job_id, instance, run)
        offsets = [await _begin(found, file, wanted) for file in wanted.files]
    except Refused as error:
        raise Refusal(400, f'container in pod "{name}" is waiting to start: {error}') from None

    async def ended() -> bool:
        try:
            now = await reader.pod(namespace, name)
        except Refusal:
            return True
        return now["metadata"]["uid"] != pod["metadata"]["uid"] or now["status"]["phase"] in _ENDED

    return _read(found, wanted, offsets, ended)


async def _begin(found: Sandbox, file: str, wanted: Wanted) -> int:
    """Return where reading begins: at the last lines, where they are asked for."""
    try:
        size = await found.size(file)
    except NotFound:
        return 0
    if wanted.tail_lines is None:
        return 0
    begin = max(0, size - TAIL_BYTES)
    held = bytearray()
    while begin + len(held) < size:
        part = await found.read(file, begin + len(held))
        if not part:
            break
        held += part
    lines = held.splitlines(keepends=True)
    kept = lines[-wanted.tail_lines :] if wanted.tail_lines else []
    return begin + len(held) - sum(map(len, kept))


async def _read(
    found: Sandbox, wanted: Wanted, offsets: list[int], ended: Callable[[], Awaitable[bool]]
) -> AsyncGenerator[bytes]:
    left = wanted.limit_bytes
    quiet, over = 0, not wanted.follow
    while True:
        new = False
        for i, file in enumerate(wanted.files):
            while part := await _part(found, file, offsets[i]):
                new = True
                offsets[i] += len(part)
                if left is not None:
                    part, left = part[:left], left - min(left, len(part))
                yield part
                if left == 0:
                    return
        if not wanted.follow:
            return
        quiet = 0 if new else quiet + 1
        if over and quiet >= QUIET_READS:
            return
        if not over:
            over = await ended()
        await asyncio.sleep(POLL_SECONDS)


async def _part(found: Sandbox, file: str, offset: int) -> bytes:
    try:
        return await found.read(file, offset, CHUNK_BYTES)
    except NotFound:
        return b""
