"""Messages of `exec`: the first byte of each is the channel, as in the protocols `vN.channel.k8s.io`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from peloton.web.kube.core.refusals import Refusal
from peloton.web.kube.core.values import Object

V5, V4 = "v5.channel.k8s.io", "v4.channel.k8s.io"
STDIN, STDOUT, STDERR, ERROR, RESIZE, CLOSE = 0, 1, 2, 3, 4, 255
STREAMS = {"STDOUT": STDOUT, "STDERR": STDERR}
LARGEST_SIZE = 1000
"""Rows, and columns."""
MOST_WORDS, LONGEST_COMMAND_CHARACTERS = 1000, 32_000
Size = tuple[int, int]
"""Rows and columns of a terminal."""


def protocol(offered: Sequence[str]) -> str:
    """Return the protocol that is used of those that are offered. Raises Refusal where none is known."""
    for each in (V5, V4):
        if each in offered:
            return each
    told = ", ".join(offered)[:200] or "none"
    raise Refusal(400, f"Sec-WebSocket-Protocol: {told} is not {V5} or {V4}")


def check_command(words: Sequence[str]) -> None:
    """Raise Refusal for no command, and for one that is too long."""
    if not words or not words[0]:
        raise Refusal(400, "command: give the command that is to run")
    if len(words) > MOST_WORDS or sum(map(len, words)) > LONGEST_COMMAND_CHARACTERS:
        text = f"at most {MOST_WORDS:,} words and {LONGEST_COMMAND_CHARACTERS:,} characters"
        raise Refusal(400, f"command: {text}")


def given(message: bytes, version: str) -> bytes | Size | None:
    """Return what a client sends: input, empty at its end, or another size of the terminal; None for nothing.

    Only the newer protocol tells the end of input. Raises ValueError for what is no such message.
    """
    if not message:
        return None
    channel, data = message[0], message[1:]
    if channel == STDIN:
        return data or None
    if channel == RESIZE:
        return _size(data)
    if channel == CLOSE and version == V5:
        return b"" if data[:1] == bytes([STDIN]) else None
    raise ValueError(f"channel {channel} is not one that clients write to")


def _size(data: bytes) -> Size | None:
    found = json.loads(data)
    sides = [_side(found, key) for key in ("Height", "Width")]
    return (sides[0], sides[1]) if all(sides) else None


def _side(found: Any, key: str) -> int:
    side = found.get(key) if isinstance(found, dict) else None
    if not isinstance(side, int) or isinstance(side, bool) or side < 0:
        raise ValueError("a size has Height and Width")
    return min(side, LARGEST_SIZE)


def ended(exit_code: int) -> Object:
    """Return the status of a command that has ended."""
    if not exit_code:
        return {"metadata": {}, "status": "Success"}
    cause = {"reason": "ExitCode", "message": str(exit_code)}
    return {
        "metadata": {},
        "status": "Failure",
        "message": f"command terminated with non-zero exit code: exit status {exit_code}",
        "reason": "NonZeroExitCode",
        "details": {"causes": [cause]},
    }


def message_of(channel: int, data: bytes) -> bytes:
    """Return a message to the client."""
    return bytes([channel]) + data


def status_message(status: Object) -> bytes:
    """Return the message that tells how a command has ended."""
    return message_of(ERROR, json.dumps(status, ensure_ascii=False).encode())
