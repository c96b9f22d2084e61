"""Batches of prepared statements.

Binding values here takes less than half of the time that the driver needs; a large job has hundreds of
thousands of rows of tasks and events.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from struct import Struct
from typing import Any

from cassandra.cqltypes import Int32Type, LongType, UTF8Type, VarcharType
from cassandra.query import BatchStatement, BatchType, BoundStatement, PreparedStatement

Bound = tuple[str, Sequence[object]]
"""A named statement and its values."""
Encode = Callable[[Any], bytes]
_QUICK: Mapping[Any, Encode] = {
    UTF8Type: str.encode,
    VarcharType: str.encode,
    Int32Type: Struct(">i").pack,
    LongType: Struct(">q").pack,
}
"""Encoders of the types in rows of tasks and events."""


class BatchEncoder:
    """Encode batches of the named statements of one connection."""

    def __init__(self, prepared: Mapping[str, PreparedStatement]) -> None:
        self._prepared = prepared
        self._encoders = {name: _encoders(statement) for name, statement in prepared.items()}

    def batch(self, parts: Iterable[Bound]) -> BatchStatement:
        """Build a batch of statements that belong to one partition."""
        batch = BatchStatement(BatchType.UNLOGGED)
        bound: dict[str, BoundStatement] = {}
        for name, values in parts:
            if name not in bound:
                bound[name] = BoundStatement(self._prepared[name])
            # The batch copies the values, so that one bound statement serves all its rows.
            bound[name].values = [
                None if value is None else encode(value)
                for encode, value in zip(self._encoders[name], values, strict=True)
            ]
            batch.add(bound[name])
        batch.is_idempotent = True
        return batch


def _encoders(statement: PreparedStatement) -> tuple[Encode, ...]:
    return tuple(_encoder(column.type, statement.protocol_version) for column in statement.column_metadata)


def _encoder(kind: Any, version: int) -> Encode:
    return _QUICK.get(kind) or (lambda value: bytes(kind.serialize(value, version)))
