"""Batches carry what the driver itself would have bound."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from cassandra.cqltypes import BooleanType, BytesType, Int32Type, LongType, UUIDType, VarcharType
from cassandra.protocol import ColumnMetadata
from cassandra.query import BatchStatement, PreparedStatement

from storage.cassandra.batch_encoder import BatchEncoder

COLUMNS = {
    "job_id": VarcharType,
    "bucket": Int32Type,
    "at": LongType,
    "stamp": UUIDType,
    "active": BooleanType,
    "payload": BytesType,
}
ROWS = [
    ("job", 7, 1_700_000_000_000_000_000, UUID(int=5), True, b"\x00\xff"),
    ("grün", -1, -(2**63), None, None, None),
    ("", 2**31 - 1, 2**63 - 1, UUID(int=0), False, b""),
]


@pytest.fixture
def prepared() -> PreparedStatement:
    columns = [ColumnMetadata("peloton", "t", name, kind) for name, kind in COLUMNS.items()]
    return PreparedStatement(columns, b"id", [0, 1], "INSERT", "peloton", 5, None, None)


def bound(batch: BatchStatement) -> tuple[Any, ...]:
    return batch._statements_and_parameters, batch.routing_key, batch.keyspace


def test_they_are_what_the_driver_binds(prepared: PreparedStatement) -> None:
    expected = BatchStatement()
    for row in ROWS:
        expected.add(prepared, row)
    batch = BatchEncoder({"put": prepared}).batch([("put", row) for row in ROWS])
    assert bound(batch) == bound(expected)
    assert batch.is_idempotent


def test_a_value_too_few_is_an_error(prepared: PreparedStatement) -> None:
    with pytest.raises(ValueError, match="shorter"):
        BatchEncoder({"put": prepared}).batch([("put", ROWS[0][:-1])])
