"""At no time two leaders of one role act. Pure.

A leader's term begins when the store has taken it. From then on nothing that an earlier leader of the role
begins may come through: no write, and no launch or kill to a Mesos master, at whatever time it was sent. What
had been begun before and ends afterwards is judged by the store's own fence, which this record cannot see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.faults.history import Event
from tests.faults.leader_actions import Deed

Story = tuple[str, str]
"""Rule and story."""


def two_leaders(deeds: Sequence[Deed], events: Sequence[Event]) -> Iterator[Story]:
    terms = _terms(deeds)
    yield from _terms_one_by_one(deeds)
    for deed in deeds:
        if deed.kind == "write":
            yield from _outlived(terms, deed, deed.at, f"{deed.what} of {deed.who}")
    yield from _calls(terms, deeds, events)


def _terms(deeds: Sequence[Deed]) -> Mapping[str, Sequence[Deed]]:
    found: dict[str, list[Deed]] = defaultdict(list)
    for deed in deeds:
        if deed.kind == "term":
            found[deed.role].append(deed)
    return found


def _terms_one_by_one(deeds: Sequence[Deed]) -> Iterator[Story]:
    """A term is one process's, and comes after all lower ones."""
    for role, terms in _terms(deeds).items():
        for i, earlier in enumerate(terms):
            for later in terms[i + 1 :]:
                if earlier.term == later.term:
                    yield "two leaders", f"{role} term {earlier.term}: {earlier.who} and {later.who}"
                elif later.term < earlier.term and later.at > earlier.until:
                    yield "two leaders", f"{role} term {later.term} began after term {earlier.term}"


def _outlived(terms: Mapping[str, Sequence[Deed]], deed: Deed, when: float, told: str) -> Iterator[Story]:
    for later in terms.get(deed.role, ()):
        if later.term > deed.term and later.until < when:
            after = when - later.until
            story = f"{told} in {deed.role} term {deed.term}, {after:.3f} s after term {later.term} began"
            yield "fenced leader acts", story
            return


def _calls(
    terms: Mapping[str, Sequence[Deed]], deeds: Sequence[Deed], events: Sequence[Event]
) -> Iterator[Story]:
    """Launches and kills that came through, when they did. One that was sent several times came from whoever
    sent it last before."""
    sent: dict[tuple[str, str], list[Deed]] = defaultdict(list)
    for deed in deeds:
        if deed.kind in ("launch", "kill"):
            sent[deed.kind, deed.what].append(deed)
    for event in events:
        if event.kind in ("launch", "kill") and event.run is not None:
            before = [each for each in sent[event.kind, str(event.run)] if each.at <= event.at]
            if before:
                yield from _outlived(terms, before[-1], event.at, f"{event.kind} of {event.run}")
