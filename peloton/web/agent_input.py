"""What is typed, on its way to an agent: a request whose body goes on, and whose answer ends it.

httpx2 reads an answer only when the body has ended or can no longer be written: of an agent that refuses what
is typed, or has gone, nothing would be known before the second key that is pressed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

from peloton.client.agent_calls import INPUT_HEADERS, LARGEST_ANSWER_BYTES, PATH
from peloton.config.agents import AgentAccess
from peloton.mesos.detector import MasterAddress
from peloton.mesos.http import READ_BYTES, BrokenHttp, HttpResponse, ResponseParser, connect


@dataclass(frozen=True, slots=True)
class AgentInput:
    """A connection for one request."""

    host: str
    port: int
    seconds: float
    """Time-out of connecting."""
    access: AgentAccess

    async def send(self, records: AsyncIterator[bytes]) -> HttpResponse:
        """Send records until the request is answered, which the agent may do at any time.

        Raises OSError, TimeoutError among them, where the connection cannot be made or ends without one.
        """
        tls = self.access.tls() if self.access.tls is not None else None
        reader, writer = await connect(MasterAddress(self.host, self.port), self.seconds, tls)
        answering = asyncio.create_task(_answer(reader))
        writing = asyncio.create_task(self._write(writer, records))
        try:
            await asyncio.wait((answering, writing), return_when=asyncio.FIRST_COMPLETED)
            if not answering.done():
                writing.result()  # raises what keeps the body from being written
            return await answering
        finally:
            answering.cancel()
            writing.cancel()
            await asyncio.gather(answering, writing, return_exceptions=True)
            writer.close()

    async def _write(self, writer: asyncio.StreamWriter, records: AsyncIterator[bytes]) -> None:
        headers = {"Host": str(MasterAddress(self.host, self.port)), "Transfer-Encoding": "chunked"}
        lines = [
            f"{name}: {value}" for name, value in {**headers, **INPUT_HEADERS, **self.access.headers}.items()
        ]
        writer.write("\r\n".join([f"POST {PATH} HTTP/1.1", *lines, "", ""]).encode("ascii"))
        async for record in records:
            writer.write(b"%x\r\n%b\r\n" % (len(record), record))
            await writer.drain()
        writer.write(b"0\r\n\r\n")
        await writer.drain()


async def _answer(reader: asyncio.StreamReader) -> HttpResponse:
    parser = ResponseParser(LARGEST_ANSWER_BYTES)
    while piece := await reader.read(READ_BYTES):
        if answers := parser.feed(piece):
            return answers[0]
    if parser.current.has_head:  # its body ends with the connection
        return parser.current
    raise BrokenHttp("the connection has ended")
