"""Batches are what the driver itself would have sent."""

from __future__ import annotations

from typing import Any
from uuid import UUID

import pytest
from cassandra.cqltypes import BooleanType, BytesType, Int32Type, ListType, LongType, UUIDType, VarcharType
from cassandra.protocol import BatchMessage, ColumnMetadata, ProtocolHandler, QueryMessage
from cassandra.query import BatchStatement, BatchType, PreparedStatement

from storage.cassandra.batch_encoder import BatchEncoder, EncodedBatches

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


def sent(batch: BatchStatement) -> bytes:
    """The message that a server receives, but for its header."""
    message = BatchMessage(batch.batch_type, batch._statements_and_parameters, 6, 9, 1234, None)
    return bytes(EncodedBatches.encode_message(message, 5, 5, None, False))


@pytest.mark.parametrize(
    "rows", [ROWS, ROWS[:1], ROWS[1:], [ROWS[0], ROWS[0]]], ids=["all", "one", "nulls", "equal"]
)
def test_they_are_what_the_driver_sends(prepared: PreparedStatement, rows: list[tuple[Any, ...]]) -> None:
    expected = BatchStatement(BatchType.UNLOGGED)
    for row in rows:
        expected.add(prepared, row)
    batch = BatchEncoder({"put": prepared}).batch(("put", row) for row in rows)
    assert sent(batch) == sent(expected)
    assert (batch.routing_key, batch.keyspace) == (expected.routing_key, expected.keyspace)
    assert batch.is_idempotent and len(batch) == len(rows)


def test_statements_of_several_kinds_keep_their_order(prepared: PreparedStatement) -> None:
    columns = [ColumnMetadata("peloton", "t", "instances", ListType.apply_parameters([Int32Type]))]
    other = PreparedStatement(columns, b"another", [], "UPDATE", "peloton", 5, None, None)
    parts = [("put", ROWS[0]), ("change", ([1, 2**31 - 1],)), ("put", ROWS[1]), ("put", ROWS[2])]
    named = {"put": prepared, "change": other}
    expected = BatchStatement(BatchType.UNLOGGED)
    for name, values in parts:
        expected.add(named[name], values)
    assert sent(BatchEncoder(named).batch(parts)) == sent(expected)


def test_other_messages_are_those_of_the_driver() -> None:
    message = QueryMessage("SELECT", 6)
    arguments = (message, 5, 5, None, False)
    assert EncodedBatches.encode_message(*arguments) == ProtocolHandler.encode_message(*arguments)


@pytest.mark.parametrize("first", [True, False], ids=["in-the-first", "in-a-later-one"])
def test_a_value_too_few_is_an_error(prepared: PreparedStatement, *, first: bool) -> None:
    whole, short = ("put", ROWS[0]), ("put", ROWS[0][:-1])
    with pytest.raises(ValueError, match="shorter"):
        BatchEncoder({"put": prepared}).batch([short] if first else [whole, short])
