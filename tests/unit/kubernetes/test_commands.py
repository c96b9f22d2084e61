"""How the API server tells the end of a command."""

from __future__ import annotations

import asyncio
import json

import pytest

from peloton.errors import Unavailable
from peloton.kubernetes.access import Access
from peloton.kubernetes.client import ApiClient, ApiError
from peloton.kubernetes.commands import end_of, running


def test_ends() -> None:
    failed = {
        "status": "Failure",
        "reason": "NonZeroExitCode",
        "details": {"causes": [{"reason": "ExitCode", "message": "7"}]},
    }
    assert end_of(b'{"metadata":{},"status":"Success"}') == (0, "")
    assert end_of(json.dumps(failed).encode()) == (7, "")
    assert end_of(b'{"status":"Failure","message":"no such container"}') == (None, "no such container")


@pytest.mark.parametrize("wrong", [b"", b"[]", b'{"reason":"NonZeroExitCode"}', b'"x"', b"\xff"])
def test_what_is_no_status(wrong: bytes) -> None:
    with pytest.raises(Unavailable):
        end_of(wrong)


@pytest.mark.parametrize(
    ("status", "kind"), [(401, Unavailable), (403, ApiError), (404, ApiError), (503, Unavailable)]
)
async def test_a_command_that_is_refused(status: int, kind: type[Exception]) -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(f"HTTP/1.1 {status} X\r\nContent-Length: 2\r\n\r\nno".encode())
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        async with ApiClient(Access(f"http://127.0.0.1:{port}")) as client:
            with pytest.raises(kind, match=f"HTTP status {status}"):
                async with running(client, "n", "pod", "task", ["true"], terminal=False):
                    pass
