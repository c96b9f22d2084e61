"""Calls of job managers name their shards, and are refused where another one has called as an owner."""

from __future__ import annotations

import pytest

from peloton.errors import Fenced, InvalidArgument
from peloton.rpc.caller import EPOCH, SHARDS, Terms, caller_of


def call(terms: Terms, term: int = 0, shards: str = "", role: str = "jobmgr") -> None:
    metadata = [(EPOCH, f"{role}:{term}")] if term else []
    terms.check(caller_of(metadata + ([(SHARDS, shards)] if shards else [])))


def test_an_owner_whose_shard_has_moved_is_refused() -> None:
    terms = Terms()
    call(terms, shards="4:0-31")
    call(terms, shards="3:32-63")
    call(terms, shards="5:31")
    with pytest.raises(Fenced, match="shard 31: term 4 is over, the newest is 5"):
        call(terms, shards="4:0-31")
    call(terms, shards="4:0-30")
    call(terms, shards="3:32-63")


def test_a_leader_of_a_version_before_shards_has_them_in_its_own_term() -> None:
    """The terms of shards are one above that of the leader who gave them to itself."""
    terms = Terms()
    call(terms, 4, "5:0-63")
    with pytest.raises(Fenced, match="term 4 is over"):
        call(terms, 4)
    call(terms, 5)
    call(terms, 6, "7:0-63")
    call(terms, 9, role="resmgr")
    call(terms)


def test_nothing_of_a_call_that_is_refused_counts() -> None:
    terms = Terms()
    call(terms, 4, "5:0-63")
    with pytest.raises(Fenced, match="term 3 of jobmgr"):
        call(terms, 3, "9:0-63")
    with pytest.raises(Fenced, match="shard 0"):
        call(terms, 8, "4:0-63")
    with pytest.raises(InvalidArgument, match="peloton-shards"):
        call(terms, 8, "all")
    call(terms, 4, "5:0-63")
