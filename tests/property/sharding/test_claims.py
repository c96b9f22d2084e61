"""Claims are read as they are written, and those that are over are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peloton.errors import Fenced, InvalidArgument
from peloton.sharding.claims import NewestClaims, claim_of, terms_of

claims = st.dictionaries(st.integers(0, 63), st.integers(1, 6), max_size=64)


@given(claims)
def test_a_claim_is_read_as_it_was_written(terms: dict[int, int]) -> None:
    assert terms_of(claim_of(terms)) == terms


def test_a_claim_is_short() -> None:
    assert claim_of(dict.fromkeys(range(64), 5)) == "5:0-63"
    assert claim_of({0: 7, 1: 7, 3: 7, 2: 9}) == "7:0-1,3 9:2"
    assert claim_of({}) == ""


@pytest.mark.parametrize("claim", ["1:1024", "1:0-9999", " ".join(f"{term}:5" for term in range(1000, 2000))])
def test_a_claim_is_bounded(claim: str) -> None:
    with pytest.raises(InvalidArgument, match="peloton-shards"):
        terms_of(claim)


@given(claims, st.integers(0, 7))
def test_a_leader_before_there_were_shards_has_all_in_its_term(terms: dict[int, int], term: int) -> None:
    seen = NewestClaims()
    seen.check(claim_of(terms))
    if any(newest > term for newest in terms.values()):
        with pytest.raises(Fenced, match=f"term {term} is over"):
            seen.check_all(term)
    else:
        seen.check_all(term)


@given(st.text("0123456789:,- ", max_size=12))
def test_what_is_no_claim_is_refused(text: str) -> None:
    try:
        terms = terms_of(text)
    except InvalidArgument as error:
        assert "peloton-shards" in str(error)
    else:
        assert terms_of(claim_of(terms)) == terms


@given(st.lists(claims, max_size=12))
def test_a_term_that_is_over_is_refused_whoever_says_what_else(sequence: list[dict[int, int]]) -> None:
    seen, newest = NewestClaims(), dict[int, int]()
    for terms in sequence:
        if any(term < newest.get(shard, 0) for shard, term in terms.items()):
            with pytest.raises(Fenced):
                seen.check(claim_of(terms))
        else:
            assert seen.check(claim_of(terms)) == terms
            newest |= terms
        assert all(seen.term(shard) == term for shard, term in newest.items())
