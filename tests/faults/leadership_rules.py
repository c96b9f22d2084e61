"""The rule that no two leaders of one role act at a time. Pure.

A leader's term begins when the store has taken it. From then on nothing that an earlier leader of the role
begins may come through: no write, and no launch or kill to a Mesos master, at whatever time it was sent. What
had been begun before and ends afterwards is judged by the store's own fence, which this record cannot see.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

from tests.faults.history import Event
from tests.faults.leader_actions import LeaderAction

Finding = tuple[str, str]
"""Rule and story."""


def overlapping_leaders(actions: Sequence[LeaderAction], events: Sequence[Event]) -> Iterator[Finding]:
    terms = _terms(actions)
    yield from _terms_one_by_one(actions)
    for action in actions:
        if action.kind == "write" and action.term:
            yield from _outlived(terms, action, action.at, f"{action.what} of {action.who}")
    yield from _calls(terms, actions, events)


def _terms(actions: Sequence[LeaderAction]) -> Mapping[str, Sequence[LeaderAction]]:
    found: dict[str, list[LeaderAction]] = defaultdict(list)
    for action in actions:
        if action.kind == "term":
            found[action.role].append(action)
    return found


def _terms_one_by_one(actions: Sequence[LeaderAction]) -> Iterator[Finding]:
    """A term is one process's, and comes after all lower ones."""
    for role, terms in _terms(actions).items():
        for i, earlier in enumerate(terms):
            for later in terms[i + 1 :]:
                if earlier.term == later.term:
                    yield "two leaders", f"{role} term {earlier.term}: {earlier.who} and {later.who}"
                elif later.term < earlier.term and later.at > earlier.until:
                    yield "two leaders", f"{role} term {later.term} began after term {earlier.term}"


def _outlived(
    terms: Mapping[str, Sequence[LeaderAction]], action: LeaderAction, when: float, call: str
) -> Iterator[Finding]:
    for later in terms.get(action.role, ()):
        if later.term > action.term and later.until < when:
            after = when - later.until
            story = f"{call} in {action.role} term {action.term}, {after:.3f} s after term {later.term} began"
            yield "fenced leader acts", story
            return


def _calls(
    terms: Mapping[str, Sequence[LeaderAction]], actions: Sequence[LeaderAction], events: Sequence[Event]
) -> Iterator[Finding]:
    """Launches and kills that came through, when they did. One that was sent several times came from whoever
    sent it last before."""
    sent: dict[tuple[str, str], list[LeaderAction]] = defaultdict(list)
    for action in actions:
        if action.kind in ("launch", "kill"):
            sent[action.kind, action.what].append(action)
    for event in events:
        if event.kind in ("launch", "kill") and event.run is not None:
            before = [each for each in sent[event.kind, str(event.run)] if each.at <= event.at]
            if before:
                yield from _outlived(terms, before[-1], event.at, f"{event.kind} of {event.run}")
