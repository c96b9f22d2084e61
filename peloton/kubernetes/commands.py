"""Commands beside the container of a pod, over a WebSocket of the API server.

Source: Kubernetes' remote commands (`k8s.io/apimachinery/pkg/util/remotecommand`): the first byte of a
message is its channel. Version 5 can close standard input (API servers from 1.30 on), version 4 cannot.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from peloton.errors import Unavailable
from peloton.kubernetes.client import ApiClient
from peloton.plainjson import parse_json

if TYPE_CHECKING:
    from httpx2.websockets import AsyncWebSocketSession

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
_STDIN, _STDOUT, _STDERR, _STATUS, _RESIZE, _CLOSE = 0, 1, 2, 3, 4, 255
_NAMES = {_STDOUT: "STDOUT", _STDERR: "STDERR"}
_PIECE_BYTES = 32 * 1024


class RemoteCommand:
    """A command that runs."""

    def __init__(self, socket: AsyncWebSocketSession) -> None:
        self._socket = socket
        self.exit_code: int | None = None
        """128 and the number for a signal; None while it runs, and where it is not known."""
        self.failure = ""
        """Why it could not run to its end."""

    async def output(self) -> AsyncIterator[tuple[str, bytes]]:
        """Yield STDOUT or STDERR and what came from it, until the command has ended. Raises Unavailable."""
        from httpx2.websockets import WebSocketDisconnect

        while True:
            try:
                message = await self._socket.receive_bytes()
            except WebSocketDisconnect:
                return
            if not message:
                continue
            channel, data = message[0], message[1:]
            if channel == _STATUS and data:
                self._end(data)
                return
            if channel in _NAMES and data:
                yield _NAMES[channel], data

    def _end(self, data: bytes) -> None:
        self.exit_code, self.failure = end_of(data)

    async def feed(self, data: bytes) -> None:
        """Pass on standard input."""
        for at in range(0, len(data), _PIECE_BYTES):
            await self._socket.send_bytes(bytes([_STDIN]) + data[at : at + _PIECE_BYTES])

    async def close_input(self) -> None:
        """End standard input, where the API server is able to."""
        if self._socket.subprotocol == V5:
            await self._socket.send_bytes(bytes([_CLOSE, _STDIN]))

    async def resize(self, rows: int, columns: int) -> None:
        """Tell of the size of the terminal."""
        size = json.dumps({"Width": columns, "Height": rows}).encode()
        await self._socket.send_bytes(bytes([_RESIZE]) + size)


def end_of(data: bytes) -> tuple[int | None, str]:
    """Return the exit code that a Status tells, and why there is none. Raises Unavailable for no Status."""
    try:
        status: dict[str, Any] = parse_json(data)
        if status.get("status") == "Success":
            return 0, ""
        if status.get("reason") == "NonZeroExitCode":
            causes = (status.get("details") or {}).get("causes") or ()
            return next(int(each["message"]) for each in causes if each.get("reason") == "ExitCode"), ""
        return None, str(status.get("message") or "the command could not be run")
    except (ValueError, TypeError, AttributeError, KeyError, StopIteration):
        raise Unavailable("the API server tells the end of a command in an unknown form") from None


@asynccontextmanager
async def running(
    client: ApiClient, namespace: str, pod: str, container: str, command: Sequence[str], *, terminal: bool
) -> AsyncIterator[RemoteCommand]:
    """Run a command with standard input. Raises ApiError, Unavailable."""
    params = [("container", container), ("stdin", "true"), ("stdout", "true")]
    params += [("tty", "true")] if terminal else [("stderr", "true")]
    params += [("command", word) for word in command]
    path = f"/api/v1/namespaces/{namespace}/pods/{pod}/exec"
    async with client.websocket(path, (V5, V4), params) as socket:
        yield RemoteCommand(socket)
