"""Bringing a Cassandra's schema up to date, where no server is needed."""

from __future__ import annotations

from typing import Any, cast

import pytest

from peloton.errors import PelotonError, Refused, Unavailable
from storage.cassandra.connection import Connection, NoKeyspace
from storage.cassandra.migrate import SELECT_VERSION, connect_patiently, execute_patiently
from storage.config import CassandraSettings


class Script:
    """A connection that answers with these, one after the other."""

    def __init__(self, *answers: PelotonError | list[tuple[Any, ...]]) -> None:
        self.answers = list(answers)

    def execute(self, statement: str, values: tuple[object, ...] = ()) -> list[tuple[Any, ...]]:
        answer = self.answers.pop(0)
        if isinstance(answer, PelotonError):
            raise answer
        return answer


def ask(*answers: PelotonError | list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    return execute_patiently(cast(Connection, Script(*answers)), SELECT_VERSION, pause=0)


def test_a_table_that_is_being_made_is_waited_for() -> None:
    assert ask(
        Unavailable('Cassandra ServerError: message="IllegalArgumentException: Unknown CF a226f405"'),
        Refused("Cassandra refused: table schema_version does not exist"),
        [(3,)],
    ) == [(3,)]


def test_a_keyspace_that_is_being_made_is_waited_for() -> None:
    answers: list[NoKeyspace | Connection] = [
        NoKeyspace("keyspace peloton does not exist"),
        cast(Connection, Script()),
    ]

    def connect(_: CassandraSettings, keyspace: str | None) -> Connection:
        answer = answers.pop(0)
        if isinstance(answer, NoKeyspace):
            raise answer
        return answer

    connect_patiently(CassandraSettings(), connect, pause=0)
    assert answers == []


@pytest.mark.parametrize("error", [Unavailable("Cassandra did not answer in time"), Refused("no permission")])
def test_what_else_goes_wrong_is_told_at_once(error: PelotonError) -> None:
    with pytest.raises(type(error)):
        ask(error, [(3,)])
