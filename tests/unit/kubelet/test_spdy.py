"""SPDY/3.1 frames, as the client of an API server sends them."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping

import pytest

from minicluster.kubernetes.kubelet.spdy import MOST_STREAMS, SpdyConnection
from minicluster.kubernetes.kubelet.spdy_dictionary import DICTIONARY


class Peer:
    """Both ends: what was written, and what the receiver was told."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False
        self.told: list[object] = []
        self.connection = SpdyConnection(self, self)
        self._deflate = zlib.compressobj(zdict=DICTIONARY)

    def write(self, data: bytes) -> None:
        self.written += data

    def close(self) -> None:
        self.closed = True

    def on_stream(self, stream: int, headers: Mapping[str, str]) -> None:
        self.told.append((stream, dict(headers)))

    def on_data(self, stream: int, data: bytes, last: bool) -> None:
        self.told.append((stream, data, last))

    def on_lost(self) -> None:
        self.told.append("lost")

    def opening(self, stream: int, flags: int = 0, **headers: str) -> bytes:
        words = [word.encode() for pair in headers.items() for word in pair]
        block = struct.pack(">I", len(headers)) + b"".join(struct.pack(">I", len(w)) + w for w in words)
        packed = self._deflate.compress(block) + self._deflate.flush(zlib.Z_SYNC_FLUSH)
        return control(1, struct.pack(">IIBB", stream, 0, 0, 0) + packed, flags)


def control(kind: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">HHI", 0x8003, kind, flags << 24 | len(body)) + body


def data(stream: int, body: bytes, flags: int = 0) -> bytes:
    return struct.pack(">II", stream, flags << 24 | len(body)) + body


def test_streams_are_opened_and_replied_to() -> None:
    peer = Peer()
    frames = peer.opening(1, streamtype="error") + peer.opening(3, streamtype="stdin")
    for at in range(len(frames)):  # as a network may part them
        peer.connection.data_received(frames[at : at + 1])
    assert peer.told == [(1, {"streamtype": "error"}), (3, {"streamtype": "stdin"})]
    size = 8 + int.from_bytes(peer.written[5:8], "big")
    version, kind, stream = (
        *struct.unpack_from(">HH", peer.written),
        struct.unpack_from(">I", peer.written, 8)[0],
    )
    assert (version, kind, stream) == (0x8003, 2, 1)
    headers = zlib.decompressobj(zdict=DICTIONARY)
    assert headers.decompress(bytes(peer.written[12:size])) == struct.pack(">I", 0)


def test_data_and_its_end() -> None:
    peer = Peer()
    peer.connection.data_received(peer.opening(1, streamtype="stdin"))
    peer.connection.data_received(data(1, b"abc") + data(1, b"", flags=1) + data(9, b"of no stream"))
    assert peer.told[1:] == [(1, b"abc", False), (1, b"", True)]


def test_a_stream_that_is_reset_has_ended() -> None:
    peer = Peer()
    peer.connection.data_received(peer.opening(1) + control(3, struct.pack(">II", 1, 5)))
    peer.connection.data_received(data(1, b"late"))
    assert peer.told[1:] == [(1, b"", True)]


def test_a_ping_is_answered() -> None:
    peer = Peer()
    peer.connection.data_received(control(6, struct.pack(">I", 7)))
    assert bytes(peer.written) == control(6, struct.pack(">I", 7))


def test_what_is_sent() -> None:
    peer = Peer()
    peer.connection.send(5, b"out")
    peer.connection.send(5, b"", last=True)
    assert bytes(peer.written) == data(5, b"out") + data(5, b"", flags=1)


@pytest.mark.parametrize(
    "wrong",
    [
        struct.pack(">HHI", 0x8002, 1, 0),  # another version
        struct.pack(">II", 1, 0xFFFFFF),  # longer than any frame
        control(1, b""),
        control(1, struct.pack(">IIBB", 1, 0, 0, 0) + b"not compressed"),
    ],
)
def test_what_is_no_frame_closes_the_connection(wrong: bytes) -> None:
    peer = Peer()
    peer.connection.data_received(wrong)
    assert peer.closed and not peer.told


def test_headers_that_say_they_are_more_than_there_are() -> None:
    peer = Peer()
    deflate = zlib.compressobj(zdict=DICTIONARY)
    packed = deflate.compress(struct.pack(">II", 1, 1000) + b"x") + deflate.flush(zlib.Z_SYNC_FLUSH)
    peer.connection.data_received(control(1, struct.pack(">IIBB", 1, 0, 0, 0) + packed))
    assert peer.closed and not peer.told


def test_streams_are_bounded() -> None:
    peer = Peer()
    for number in range(MOST_STREAMS + 1):
        peer.connection.data_received(peer.opening(2 * number + 1))
    assert peer.closed and len(peer.told) == MOST_STREAMS
