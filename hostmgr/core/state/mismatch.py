"""What hosts lack that a constraint requires, in words (docs/behaviour/placement.md)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np

from hostmgr.core.state.columns import Mask
from hostmgr.core.state.labels import HOSTNAME
from hostmgr.core.state.table import HostTable
from peloton.model.constraint import (
    AndConstraint,
    Condition,
    Constraint,
    Kind,
    LabelConstraint,
    contradiction,
)
from peloton.model.host_class import EXCLUSIVE
from peloton.model.host_pool import HOST_POOL
from peloton.model.plural import plural
from peloton.model.shortage import Lack, Shortage, counted_hosts

_LONGEST_TERM_CHARACTERS = 200
_SHOWN = 3
"""Values of a label, and terms of a constraint, that a text lists."""


def mismatch(table: HostTable, constraint: Constraint | None, mask: Mask) -> Shortage:
    """Return why the constraint allows none of the hosts of `mask`."""
    hosts = int(np.count_nonzero(mask))
    conflict = contradiction(constraint)
    if conflict:
        terms = " and ".join(map(str, conflict))
        return Shortage(
            Lack.CONTRADICTION,
            hosts=hosts,
            detail=f"its constraint contradicts itself: no host can have {terms}",
        )
    terms_held = [(term, mask & table.satisfies(term)) for term in _terms(constraint)]
    for term, held in terms_held:
        if not held.any():
            return _missing(table, term, mask, hosts)
    together = np.logical_and.reduce([mask, *(held for _, held in terms_held)])
    if together.any():
        would_do = counted_hosts(int(np.count_nonzero(together)))
        detail = f"{would_do} would do, but only for tasks with a host constraint on {EXCLUSIVE}"
    else:
        parts = [f"{_short(term)} on {int(np.count_nonzero(held))}" for term, held in terms_held[:_SHOWN]]
        detail = f"no host of {hosts} meets all of its constraint: {', '.join(parts)}"
    return Shortage(Lack.CONSTRAINT, hosts=hosts, detail=detail)


def _terms(constraint: Constraint | None) -> Iterator[Constraint]:
    """Iterate over the parts that must all hold."""
    if isinstance(constraint, AndConstraint):
        for part in constraint.parts:
            yield from _terms(part)
    elif constraint is not None:
        yield constraint


def _missing(table: HostTable, term: Constraint, mask: Mask, hosts: int) -> Shortage:
    """Describe a term that no host meets."""
    if not isinstance(term, LabelConstraint):
        return Shortage(Lack.CONSTRAINT, hosts=hosts, detail=f"no host of {hosts} meets {_short(term)}")
    key, value = term.label
    if not _requires_label(term):
        detail = f"its constraint excludes all {counted_hosts(hosts)}: {_short(term)}"
        return Shortage(Lack.CONSTRAINT, hosts=hosts, detail=detail)
    if key == HOSTNAME:
        detail = f"no host is named {value}: {counted_hosts(hosts)} compared"
    elif key == HOST_POOL:
        detail = f"no host is in host pool {value}: {_values(table, key, mask)}"
    else:
        detail = f"no host has {key}={value}: {_values(table, key, mask)}"
    if int(np.count_nonzero(mask & table.satisfies(_once(term)))):
        detail = f"no host of {hosts} meets {_short(term)}"
    return Shortage(Lack.CONSTRAINT, hosts=hosts, label=f"{key}={value}", detail=detail)


def _requires_label(term: LabelConstraint) -> bool:
    """Return whether only a host with the label may meet the term."""
    at_least = term.requirement + (term.condition is Condition.GREATER_THAN)
    return term.kind is Kind.HOST and term.condition is not Condition.LESS_THAN and at_least > 0


def _once(term: LabelConstraint) -> LabelConstraint:
    return LabelConstraint(term.kind, Condition.GREATER_THAN, term.label, 0)


def _values(table: HostTable, key: str, mask: Mask) -> str:
    """Describe the values that hosts have for a key, the most frequent first."""
    found: Counter[str] = Counter()
    without = 0
    for number, count in table.classes(mask).items():
        values = [value for name, value in table.labels_of_class(number) if name == key]
        found.update(dict.fromkeys(values, count))
        without += 0 if values else count
    parts = [f"{key} is {value} on {count}" for value, count in found.most_common(_SHOWN)]
    if len(found) > _SHOWN:
        parts.append(plural(len(found) - _SHOWN, "other value"))
    if without:
        parts.append(f"{counted_hosts(without)} without {key}")
    return ", ".join(parts)


def _short(term: Constraint) -> str:
    text = str(term)
    return text if len(text) <= _LONGEST_TERM_CHARACTERS else f"{text[:_LONGEST_TERM_CHARACTERS]}…"
