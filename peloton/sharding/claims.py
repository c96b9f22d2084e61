"""What a call says of the shards that its sender owns, and the check of its receiver.

A claim is a text such as `7:0-9,11 9:10`: shards 0 to 9 and 11 in term 7, shard 10 in term 9. It names all
shards of the sender, so that it is the same from call to call and is read once. A receiver keeps the newest
term of each shard, and refuses a claim with an older one: another instance has called as the owner since.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping

from peloton.errors import Fenced, InvalidArgument

KEY = "peloton-shards"
"""Of the metadata."""
_CLAIM = re.compile(r"(\d{1,18}:\d{1,4}(-\d{1,4})?(,\d{1,4}(-\d{1,4})?)*( |\Z))+", re.ASCII)
_LONGEST_CHARACTERS = 4000
"""Characters of a claim. One with a term of its own for each of 64 shards has a third of that."""
_MOST_SHARDS = 1024
_MOST_KEPT = 1000
"""Claims that are kept read. There are as many as senders, until an owner changes."""


def claim_of(terms: Mapping[int, int]) -> str:
    """Return the claim to shards, given their terms; empty for none."""
    by_term: dict[int, list[int]] = {}
    for shard in sorted(terms):
        by_term.setdefault(terms[shard], []).append(shard)
    return " ".join(f"{term}:{','.join(ranges_of(by_term[term]))}" for term in sorted(by_term))


def terms_of(claim: str) -> dict[int, int]:
    """Return the terms of the shards in a claim. Raises InvalidArgument."""
    if claim and (len(claim) > _LONGEST_CHARACTERS or not _CLAIM.fullmatch(claim)):
        raise InvalidArgument(KEY, claim[:200], "<term>:<shard>-<shard>,… …")
    terms: dict[int, int] = {}
    for part in claim.split():
        term, _, shards = part.partition(":")
        for each in shards.split(","):
            first, _, last = each.partition("-")
            if int(last or first) >= _MOST_SHARDS:
                raise InvalidArgument(KEY, each, f"shards below {_MOST_SHARDS}")
            terms.update(dict.fromkeys(range(int(first), int(last or first) + 1), int(term)))
    return terms


def ranges_of(shards: Iterable[int]) -> Iterator[str]:
    """Iterate over the ranges of ascending numbers."""
    first = last = -1
    for shard in shards:
        if first >= 0 and shard == last + 1:
            last = shard
            continue
        if first >= 0:
            yield _range(first, last)
        first = last = shard
    if first >= 0:
        yield _range(first, last)


def _range(first: int, last: int) -> str:
    return str(first) if first == last else f"{first}-{last}"


class NewestClaims:
    """The newest term of each shard that callers have named."""

    def __init__(self) -> None:
        self._newest: dict[int, int] = {}
        self._read: dict[str, Mapping[int, int]] = {}
        """Claims that no newer term contradicts."""

    def term(self, shard: int) -> int:
        """Return the newest term of a shard, 0 before the first claim."""
        return self._newest.get(shard, 0)

    def check_all(self, term: int) -> None:
        """Take that a caller has all shards in a term, as leaders before there were shards do.

        Raises Fenced for an older term than the newest of any shard.
        """
        shard = max(self._newest, key=self._newest.__getitem__, default=-1)
        if term < self.term(shard):
            raise Fenced(f"shard {shard}: term {term} is over, the newest is {self.term(shard)}")

    def check(self, claim: str) -> Mapping[int, int]:
        """Take a claim; return the terms of its shards. Raises Fenced for an older term than the newest.

        Nothing of a claim that is refused counts.
        """
        known = self._read.get(claim)
        if known is not None:
            return known
        terms = terms_of(claim)
        for shard, term in terms.items():
            if term < self.term(shard):
                raise Fenced(f"shard {shard}: term {term} is over, the newest is {self.term(shard)}")
        if any(term > self.term(shard) for shard, term in terms.items()) or len(self._read) >= _MOST_KEPT:
            self._read.clear()
        self._newest |= terms
        self._read[claim] = terms
        return terms
