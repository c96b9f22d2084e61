"""An agent that runs one shell, whose answers to what is typed a test chooses."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field

from peloton.recordio import RECORDIO, frame

Answer = Callable[["StandIn", asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


@dataclass
class StandIn:
    """An agent whose shell shows a prompt and goes on until `ended`."""

    on_input: Answer
    """Answers the request that carries what is typed, whose head has been read."""
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    last_words: bytes = b""
    """What the shell still shows when it has ended."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the first request of a connection."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
            if f"\r\ncontent-type: {RECORDIO}" in head:
                await self.on_input(self, reader, writer)
                return
            length = int(head.partition("content-length: ")[2].partition("\r\n")[0])
            call = json.loads(await reader.readexactly(length))
            await (self._launch if "LAUNCH" in call["type"] else self._wait)(writer)
        finally:
            writer.close()

    async def _launch(self, writer: asyncio.StreamWriter) -> None:
        head = f"HTTP/1.1 200 OK\r\nContent-Type: {RECORDIO}\r\nTransfer-Encoding: chunked\r\n\r\n"
        writer.write(head.encode() + chunk(shown(b"$ ")))
        await self.ended.wait()
        writer.write((chunk(shown(self.last_words)) if self.last_words else b"") + b"0\r\n\r\n")

    async def _wait(self, writer: asyncio.StreamWriter) -> None:
        await self.ended.wait()
        body = json.dumps({"wait_nested_container": {"exit_status": 3 << 8}})
        writer.write(answer(200, body))


def answer(status: int, body: str) -> bytes:
    return f"HTTP/1.1 {status} Any\r\nContent-Length: {len(body)}\r\n\r\n{body}".encode()


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


def shown(data: bytes) -> bytes:
    piece = {"type": "DATA", "data": {"type": "STDOUT", "data": base64.b64encode(data).decode()}}
    return frame(json.dumps(piece).encode())


async def ends(agent: StandIn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End the connection when the first record has come."""
    await reader.readuntil(b"CONTAINER_ID")


def refuses(status: int, text: str) -> Answer:
    async def refuse(agent: StandIn, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer before the request has ended, and leave the connection open."""
        writer.write(answer(status, text))
        await reader.read()

    return refuse
