"""A server's side of SPDY/3.1, as far as an API server uses it to reach into a pod.

An API server translates WebSockets of its clients to this protocol, which kubelets speak. Source: the draft
"SPDY Protocol", draft-mbelshe-httpbis-spdy-00, sections 2.2 to 2.6; there is no flow control in practice:
the client of Kubernetes ignores windows.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from typing import Protocol

from minicluster.kubernetes.kubelet.spdy_dictionary import DICTIONARY

MOST_STREAMS = 16
LARGEST_FRAME_BYTES = 1024 * 1024
"""The longest frame that is taken; the client of Kubernetes sends 32 KiB of data in one."""
LARGEST_HEADER_BYTES = 64 * 1024
_VERSION = 3
_SYN_STREAM, _SYN_REPLY, _RST_STREAM, _PING, _GOAWAY = 1, 2, 3, 6, 7
_CONTROL = 0x8000
_FIN = 1
_NUMBER = 0x7FFFFFFF


class Malformed(ValueError):
    """The bytes are not SPDY/3.1, or too many."""


class Transport(Protocol):
    """Where frames are written to."""

    def write(self, data: bytes) -> None:
        """Write bytes."""

    def close(self) -> None:
        """Close the connection after what was written."""


class Receiver(Protocol):
    """What takes the streams of a connection."""

    def on_stream(self, stream: int, headers: Mapping[str, str]) -> None:
        """Take a new stream; its reply is sent."""

    def on_data(self, stream: int, data: bytes, last: bool) -> None:
        """Take data of a stream; `last`: no more comes."""

    def on_lost(self) -> None:
        """Handle the end of the connection."""


class SpdyConnection:
    """One connection: parses frames, and writes them."""

    def __init__(self, transport: Transport, receiver: Receiver) -> None:
        self._transport = transport
        self._receiver = receiver
        self._buffer = bytearray()
        self._inflate = zlib.decompressobj(zdict=DICTIONARY)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)
        self._streams: set[int] = set()
        self._broken = False

    # What comes.

    def data_received(self, data: bytes) -> None:
        """Take bytes as they come; close the connection where they are no frames."""
        if self._broken:
            return
        self._buffer += data
        try:
            while (size := self._size()) is not None:
                frame = bytes(self._buffer[:size])
                del self._buffer[:size]
                self._take(frame)
        except (Malformed, struct.error, zlib.error):
            self._broken = True
            self._transport.close()

    def connection_lost(self) -> None:
        """Tell of the loss of the connection."""
        self._receiver.on_lost()

    def _size(self) -> int | None:
        """Return the bytes of the first frame; None while it is not complete."""
        if len(self._buffer) < 8:
            return None
        size = 8 + int.from_bytes(self._buffer[5:8], "big")
        if size > LARGEST_FRAME_BYTES:
            raise Malformed(f"a frame of {size} bytes")
        return size if len(self._buffer) >= size else None

    def _take(self, frame: bytes) -> None:
        first, kind, flags_and_length = struct.unpack_from(">HHI", frame)
        body = frame[8:]
        if not first & _CONTROL:
            stream = struct.unpack_from(">I", frame)[0]
            if stream in self._streams:
                self._receiver.on_data(stream, body, bool(flags_and_length >> 24 & _FIN))
        elif first & ~_CONTROL != _VERSION:
            raise Malformed("not version 3")
        elif kind == _SYN_STREAM:
            self._open(body, bool(flags_and_length >> 24 & _FIN))
        elif kind == _RST_STREAM:
            self._close_stream(struct.unpack_from(">I", body)[0] & _NUMBER)
        elif kind == _PING:
            self._write_control(_PING, body[:4])

    def _open(self, body: bytes, last: bool) -> None:
        stream = struct.unpack_from(">I", body)[0] & _NUMBER
        headers = self._headers(body[10:])
        if len(self._streams) >= MOST_STREAMS:
            raise Malformed(f"over {MOST_STREAMS} streams")
        self._streams.add(stream)
        self._write_control(_SYN_REPLY, struct.pack(">I", stream) + self._packed({}))
        self._receiver.on_stream(stream, headers)
        if last:
            self._receiver.on_data(stream, b"", True)

    def _close_stream(self, stream: int) -> None:
        if stream in self._streams:
            self._streams.remove(stream)
            self._receiver.on_data(stream, b"", True)

    def _headers(self, block: bytes) -> dict[str, str]:
        plain = self._inflate.decompress(block, LARGEST_HEADER_BYTES)
        if self._inflate.unconsumed_tail:
            raise Malformed("headers that are too long")
        (count,), at, words = struct.unpack_from(">I", plain), 4, []
        for _ in range(2 * count):
            (size,) = struct.unpack_from(">I", plain, at)
            words.append(plain[at + 4 : at + 4 + size].decode("latin-1"))
            at += 4 + size
            if at > len(plain):
                raise Malformed("headers that end too early")
        return dict(zip(words[::2], words[1::2], strict=True))

    # What goes.

    def send(self, stream: int, data: bytes, last: bool = False) -> None:
        """Send data of a stream; `last`: no more follows."""
        flags = _FIN if last else 0
        self._transport.write(struct.pack(">II", stream, flags << 24 | len(data)) + data)

    def _write_control(self, kind: int, body: bytes) -> None:
        self._transport.write(struct.pack(">HHI", _CONTROL | _VERSION, kind, len(body)) + body)

    def _packed(self, headers: Mapping[str, str]) -> bytes:
        words = [word.encode("latin-1") for pair in headers.items() for word in pair]
        plain = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(w)) + w for w in words)
        return self._deflate.compress(plain) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
