"""Batches of prepared statements, encoded as they are sent.

The driver binds and writes value by value; a large job has hundreds of thousands of rows of tasks and events.
Encoding column by column here takes a fifth of that time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from io import BytesIO
from itertools import groupby, repeat
from operator import itemgetter
from struct import Struct
from typing import Any

from cassandra.cqltypes import Int32Type, LongType, UTF8Type, VarcharType
from cassandra.protocol import BatchMessage, ProtocolHandler
from cassandra.query import BatchStatement, BatchType, PreparedStatement

Bound = tuple[str, Sequence[object]]
"""A named statement and its values."""
Column = Callable[[Sequence[Any]], Iterable[Iterable[bytes]]]
"""Encodes the values of one column; returns parts that follow each other, each of all values."""
_LENGTH = Struct(">i").pack
_NULL = _LENGTH(-1)
_SHORT = Struct(">H").pack
_PREPARED = b"\1"
_EMPTY_BATCH_BYTES = 3
"""What the driver writes before the consistency of a batch without statements: type and number."""
_MOST_STATEMENTS = 0xFFFF


@dataclass(frozen=True, slots=True)
class Encoded:
    """The statements of a batch as they are sent, in place of the driver's list of them."""

    count: int
    data: bytes

    def __post_init__(self) -> None:
        assert self.count <= _MOST_STATEMENTS, "a batch counts its statements in 16 bits"

    def __len__(self) -> int:
        return self.count


class EncodedBatches(ProtocolHandler):  # type: ignore[misc]
    """The driver's protocol, with batches that are encoded already."""

    @classmethod
    def encode_message(cls, msg: Any, *arguments: Any, **named: Any) -> bytes:
        """Encode a message."""
        if isinstance(msg, BatchMessage) and isinstance(msg.queries, Encoded):
            msg.send_body = _body(msg)
        encoded: bytes = super().encode_message(msg, *arguments, **named)
        return encoded


class BatchEncoder:
    """Encode batches of the named statements of one connection."""

    def __init__(self, prepared: Mapping[str, PreparedStatement]) -> None:
        self._prepared = prepared
        self._columns = {
            name: tuple(_column(column.type, each.protocol_version) for column in each.column_metadata)
            for name, each in prepared.items()
        }

    def batch(self, parts: Iterable[Bound]) -> BatchStatement:
        """Build a batch of statements that belong to one partition."""
        parts = list(parts)
        batch = BatchStatement(BatchType.UNLOGGED)
        name, values = parts[0]
        batch.add(self._prepared[name], values)  # for the server to which it goes
        statements: list[bytes] = []
        for name, some in groupby(parts, itemgetter(0)):
            statements += self._statements(name, [values for _, values in some])
        batch._statements_and_parameters = Encoded(len(parts), b"".join(statements))
        batch.is_idempotent = True
        return batch

    def _statements(self, name: str, rows: Sequence[Sequence[Any]]) -> Iterable[bytes]:
        """Encode rows of one statement."""
        id_ = self._prepared[name].query_id
        fixed = b"".join((_PREPARED, _SHORT(len(id_)), id_, _SHORT(len(rows[0]))))
        parts: list[Iterable[bytes]] = []
        for encode, values in zip(self._columns[name], zip(*rows, strict=True), strict=True):
            if values.count(values[0]) == len(values):  # as all that tells the partition
                fixed += b"".join(part for (part,) in map(tuple, encode(values[:1])))
                continue
            parts += (repeat(fixed), *encode(values))
            fixed = b""
        if not parts:
            return [fixed] * len(rows)
        return map(b"".join, zip(*parts, repeat(fixed), strict=False))


def _body(message: BatchMessage) -> Callable[[BytesIO, int], None]:
    """Return what writes a message, in place of its `send_body`."""

    def write(file: BytesIO, version: int) -> None:
        encoded, rest = message.queries, BytesIO()
        BatchMessage(
            message.batch_type,
            (),
            message.consistency_level,
            message.serial_consistency_level,
            message.timestamp,
            message.keyspace,
        ).send_body(rest, version)
        file.write(bytes((message.batch_type.value,)) + _SHORT(encoded.count))
        file.write(encoded.data)
        file.write(rest.getvalue()[_EMPTY_BATCH_BYTES:])

    return write


def _column(kind: Any, version: int) -> Column:
    def slow(values: Sequence[Any]) -> Iterable[Iterable[bytes]]:
        return ([_value(None if each is None else kind.serialize(each, version)) for each in values],)

    quick = _QUICK.get(kind, slow)
    return lambda values: slow(values) if None in values else quick(values)


def _value(data: bytes | None) -> bytes:
    return _NULL if data is None else _LENGTH(len(data)) + data


def _texts(values: Sequence[str]) -> Iterable[Iterable[bytes]]:
    encoded = list(map(str.encode, values))
    return map(_LENGTH, map(len, encoded)), encoded


def _fixed(kind: str) -> Column:
    pack = Struct(f">i{kind}")
    length = pack.size - len(_NULL)
    return lambda values: (map(pack.pack, repeat(length), values),)


_QUICK: Mapping[Any, Column] = {
    UTF8Type: _texts,
    VarcharType: _texts,
    Int32Type: _fixed("i"),
    LongType: _fixed("q"),
}
"""Encoders of the types in rows of tasks and events."""
