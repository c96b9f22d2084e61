"""The rule that each step of a job is done by the owner of its shard alone. Pure.

A shard's term begins when the store has taken it. From then on nothing that an earlier owner begins for the
shard's jobs may come through: no write, and no launch that the host manager takes. Nor may anything that is
begun for a shard that its process does not own. A run is launched by one process, whoever owns it later: the
next owner asks what became of a launch, and does not repeat it. What had been begun before and ends
afterwards is judged by the fences of the store and of the host manager, which this record cannot see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from peloton.model.shard import shard_of
from peloton.sharding.claims import terms_of
from tests.faults.leader_actions import LeaderAction

Finding = tuple[str, str]
"""Rule and story."""


@dataclass(frozen=True, slots=True)
class Term:
    """The term of a shard, and when the store had taken it."""

    number: int
    who: str
    until: float


def overlapping_owners(actions: Sequence[LeaderAction]) -> Iterator[Finding]:
    terms = _terms(actions)
    yield from _one_owner_a_term(terms)
    for action in actions:
        if action.job and action.role == "jobmgr":
            yield from _outlived(terms, action)
    yield from _launched_by_two(actions)


def _terms(actions: Sequence[LeaderAction]) -> Mapping[int, Sequence[Term]]:
    found: dict[int, list[Term]] = defaultdict(list)
    for action in actions:
        if action.kind == "shards":
            for shard, number in terms_of(action.what).items():
                found[shard].append(Term(number, action.who, action.until))
    return found


def _one_owner_a_term(terms: Mapping[int, Sequence[Term]]) -> Iterator[Finding]:
    for shard, several in terms.items():
        owners: dict[int, str] = {}
        for term in several:
            other = owners.setdefault(term.number, term.who)
            if other != term.who:
                yield "two owners", f"shard {shard} in term {term.number}: {other} and {term.who}"


def _outlived(terms: Mapping[int, Sequence[Term]], action: LeaderAction) -> Iterator[Finding]:
    shard = shard_of(action.job)
    step = f"{action.kind} {action.what} of job {action.job} by {action.who}"
    if not action.owned:
        yield "acts without owning", f"{step}: shard {shard} is not its own"
        return
    for later in terms.get(shard, ()):
        if later.number > action.owned and later.until < action.at:
            since = f"{action.at - later.until:.3f} s after term {later.number} of {later.who} began"
            yield "fenced owner acts", f"{step} in term {action.owned} of shard {shard}, {since}"
            return


def _launched_by_two(actions: Sequence[LeaderAction]) -> Iterator[Finding]:
    asked: dict[str, str] = {}
    for action in actions:
        if action.kind == "asked":
            other = asked.setdefault(action.what, action.who)
            if other != action.who:
                yield "launched by two", f"run {action.what}: {other} and {action.who}"
