"""The log of a pod's container: a file of its sandbox, sent as an API server asks for it."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO
from urllib.parse import parse_qs

from minicluster.mesos.common.http import Connection

FOLLOW_SECONDS = 0.1
"""Time between two looks for more of a log."""
_PIECE_BYTES = 64 * 1024
_UNKNOWN = ("timestamps", "sinceTime", "sinceSeconds", "previous", "stream")


class CannotBeRead(ValueError):
    """This kubelet does not read logs in such a way; the text says why."""


@dataclass(frozen=True, slots=True)
class WantedLog:
    """What the query of a request asks for."""

    follow: bool
    limit: int | None
    """Most bytes."""
    tail: int | None
    """Lines from the end."""

    @classmethod
    def of(cls, query: str) -> WantedLog:
        """Read a query. Raise CannotBeRead."""
        found = {name: values[-1] for name, values in parse_qs(query).items()}
        for name in _UNKNOWN:
            if found.get(name, "false") != "false":
                raise CannotBeRead(f"{name}: a process kubelet knows neither times of lines nor earlier logs")
        try:
            limit, tail = (int(found[key]) if key in found else None for key in ("limitBytes", "tailLines"))
        except ValueError as error:
            raise CannotBeRead(str(error)) from None
        return cls(found.get("follow") == "true", limit, tail)


def tail_begin(file: BinaryIO, lines: int) -> int:
    """Return where the last lines of a file begin."""
    sizes = deque((len(line) for line in file), maxlen=lines)
    return file.tell() - sum(sizes)


async def send(connection: Connection, path: Path, wanted: WantedLog, over: Callable[[], bool]) -> None:
    """Send a log, and what is added to it until its process is over, where that is wanted."""
    connection.start_stream("text/plain")
    left = wanted.limit
    with path.open("rb") as file:
        if wanted.tail is not None:
            file.seek(tail_begin(file, wanted.tail))
        while left is None or left > 0:
            last = over()  # asked before the read: what was written until then is read
            piece = file.read(_PIECE_BYTES if left is None else min(left, _PIECE_BYTES))
            if piece:
                left = None if left is None else left - len(piece)
                connection.write(b"%x\r\n%b\r\n" % (len(piece), piece))
                await connection.writable()
            elif last or not wanted.follow:
                break
            else:
                await asyncio.sleep(FOLLOW_SECONDS)
    connection.end_stream()
