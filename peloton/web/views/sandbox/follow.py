"""The output of a run as it is written, as a stream of events."""

from __future__ import annotations

import asyncio
import codecs
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from peloton.errors import InvalidArgument, NotFound, PelotonError
from peloton.present.why import ENDED
from peloton.web import sandbox
from peloton.web.cluster import Calls
from peloton.web.live import TROUBLE, EventStream, Hub, event
from peloton.web.requests import calls, parts
from peloton.web.sandbox import CHUNK_BYTES, Sandbox
from peloton.web.views.sandbox.files import BASE, read_owner
from peloton.web.views.sandbox.log_search import LogSearch, plain

TEXT, OVER = "text", "over"
"""Events of a stream: more text of a file; the run has ended, and all of it was sent."""
TAIL_SECONDS = 0.7
"""How long what was read at the end of a file is used for others who follow it."""
OWNER_SECONDS = 3.0
"""How late it may be seen that a run has ended: its history costs the job manager more than its output."""
CHECK_READS = 10
"""Reads without anything new, after which it is looked whether the file was cut."""
QUIET_READS = 3
"""Reads without anything new of a run that has ended, after which its output counts as complete."""
KEEPALIVE_READS = 15
"""Reads after which something is sent, so that a connection that is gone is noticed."""


@dataclass(slots=True)
class Tail:
    """A file that is followed."""

    name: str
    offset: int
    quiet: int = 0
    """Reads in a row that brought nothing."""
    behind: bool = False
    """Whether there may be more to read at once."""
    _decoder: codecs.IncrementalDecoder = field(
        default_factory=lambda: codecs.getincrementaldecoder("utf-8")("replace")
    )

    async def more(self, client: Calls, found: Sandbox) -> str:
        """Return what was written since. Raises PelotonError."""
        try:
            data = await self._read(client, found)
        except NotFound:
            data = b""
        self.quiet = 0 if data else self.quiet + 1
        if not data and self.offset and self.quiet % CHECK_READS == 0:
            await self._check(found)
        self.offset += len(data)
        self.behind = len(data) > CHUNK_BYTES // 2
        return plain(self._decoder.decode(data))

    async def _read(self, client: Calls, found: Sandbox) -> bytes:
        # Who follows a file is at its end, so that browsers share these reads.
        key = ("tail", found, self.name, self.offset)
        return await client.cluster.shared.get(key, TAIL_SECONDS, lambda: found.read(self.name, self.offset))

    async def _check(self, found: Sandbox) -> None:
        """Begin anew where the file has become shorter."""
        with suppress(NotFound):
            if await found.size(self.name) < self.offset:
                self.offset = 0


async def follow(request: Request) -> Response:
    """Answer with the text that is written from now on, as events."""
    job_id, number = request.path_params["job_id"], request.path_params["instance"]
    search = LogSearch.of(job_id, number, request.query_params)
    given = request.headers.get("last-event-id") or request.query_params.get("offsets", "")
    tails = [
        Tail(name, offset)
        for name, offset in zip(search.names, offsets_of(given, len(search.names)), strict=True)
    ]
    hub = parts(request).hub
    return EventStream(hub.counted(_followed(calls(request), search, tails, hub)))


def offsets_of(text: str, wanted: int) -> list[int]:
    """Return the bytes at which files go on. Raises InvalidArgument."""
    found = text.split(",") if text else ["0"] * wanted
    if len(found) != wanted or not all(
        each.isascii() and each.isdigit() and len(each) < 19 for each in found
    ):
        raise InvalidArgument("offsets", text, f"{wanted} numbers of bytes with commas between them")
    return [int(each) for each in found]


async def _followed(
    client: Calls, search: LogSearch, tails: Sequence[Tail], hub: Hub
) -> AsyncGenerator[bytes]:
    """Yield the text of files as it is written, until the run has ended."""
    trouble, reads = "", 0
    while not hub.closing:
        text = ""
        try:
            owner = await read_owner(client, search.job_id, search.instance, OWNER_SECONDS)
            run = owner.run(search.run)
            if run is not None:
                # Offsets are those of one run: the next one's output is another page's.
                search = replace(search, run=run.number)
            found = await sandbox.find(client, search.job_id, search.instance, search.run)
            for tail in tails:
                if added := await tail.more(client, found):
                    yield _text(tail, tails, added)
            if run is not None and run.state in ENDED and all(tail.quiet >= QUIET_READS for tail in tails):
                yield event(OVER, {"state": run.state})
                return
        except PelotonError as error:
            text = str(error)
            for tail in tails:
                tail.behind = False
        if text != trouble:
            trouble = text
            yield event(TROUBLE, {"text": text})
        elif reads % KEEPALIVE_READS == KEEPALIVE_READS - 1:
            yield b": still here\n\n"
        reads += 1
        # What was written faster than it was read is read on at once.
        await asyncio.sleep(0 if any(tail.behind for tail in tails) else hub.poll_seconds)


def _text(tail: Tail, tails: Sequence[Tail], added: str) -> bytes:
    """Return the event of a text; its id tells where to go on after a broken connection."""
    places = ",".join(str(each.offset) for each in tails)
    return f"id: {places}\n".encode() + event(TEXT, {"file": tail.name, "text": added})


ROUTES = (Route(f"{BASE}/logs/stream", follow),)
