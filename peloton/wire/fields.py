"""Fields of text and of messages, encoded by hand: parts that are encoded once are joined to whole messages.

Fields that are encoded apart and joined are one message.
"""

from __future__ import annotations


def key(number: int) -> bytes:
    """Encode the key of a length-delimited field, whose number is below 16."""
    return bytes([number << 3 | 2])


def field(key: bytes, body: bytes) -> bytes:
    """Encode a field of text or of a message."""
    size = len(body)
    return key + (_LENGTHS[size] if size < len(_LENGTHS) else _varint(size)) + body


def _varint(number: int) -> bytes:
    """Encode a length as protobuf does: seven bits in each byte, the lowest first."""
    encoded = bytearray()
    while number > 127:
        encoded.append(number & 127 | 128)
        number >>= 7
    encoded.append(number)
    return bytes(encoded)


_LENGTHS = tuple(_varint(number) for number in range(2048))
