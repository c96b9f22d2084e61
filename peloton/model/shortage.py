"""Shortages: why a gang could not be placed even if all hosts were empty, and what changes of hosts offer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from peloton.model.amounts import amount, amount_of, number
from peloton.model.plural import plural
from peloton.model.resources import KINDS, MILLI


class Lack(Enum):
    """The kind of a shortage."""

    HOSTS = "hosts"
    """There are no hosts."""
    RESOURCE = "resource"
    """No host that would do otherwise has so much of one kind."""
    COMBINATION = "combination"
    """Each kind is there in that amount, but on different hosts."""
    CONSTRAINT = "constraint"
    """No host matches the constraint."""
    PLAIN_HOST = "plain host"
    """All hosts have a scarce resource that is not asked for."""
    ROOM = "room"
    """Hosts have room for some of the gang's tasks only."""
    CAPACITY = "capacity"
    """The gang is larger than the whole cluster."""
    CONTRADICTION = "contradiction"
    """The constraint cannot hold on any host, whatever the hosts are like."""


@dataclass(frozen=True, slots=True)
class Shortage:
    """What is needed and the most there is, in thousandths of `kind`.

    The amounts are on one host or, for CAPACITY, in the cluster. For ROOM they are thousandths of tasks and
    `kind` is empty.
    """

    lack: Lack
    kind: str = ""
    needed: int = 0
    largest: int = 0
    hosts: int = 0
    """How many hosts were compared: those that would do otherwise."""
    label: str = ""
    """For CONSTRAINT: the label, `key=value`, that a host must have and that none has; empty where it is not
    about one label."""
    detail: str = ""
    """What is missing, for users, where the other fields do not tell, as for CONSTRAINT and CONTRADICTION."""

    def __str__(self) -> str:
        if self.detail:
            return self.detail
        return _TEXTS[self.lack].format(
            amount=amount_of(self.needed / MILLI, self.kind),
            largest=amount(self.largest / MILLI, self.kind),
            needed=plural(self.needed // MILLI, "task"),
            room=number(self.largest / MILLI),
            hosts=counted_hosts(self.hosts),
        )

    @property
    def remedy(self) -> str:
        """Return what would have to change, as `a host with ...`."""
        if self.lack is Lack.CONSTRAINT and self.label:
            return f"a host with {self.label}"
        if self.lack is Lack.COMBINATION and self.detail:
            return "a host that takes it"
        return _REMEDIES[self.lack].format(amount=amount_of(self.needed / MILLI, self.kind))

    @property
    def explained(self) -> str:
        """Return what is missing and what would have to change, as one line."""
        ending = "" if self.lack is Lack.CONTRADICTION else "waits for "
        return f"{self}; {ending}{self.remedy}"


def counted_hosts(count: int) -> str:
    """Return a text such as `1 host` or `12 hosts`."""
    return plural(count, "host")


_TEXTS = {
    Lack.HOSTS: "the cluster has no hosts",
    Lack.RESOURCE: "needs {amount} on one host; the largest of {hosts} has {largest}",
    Lack.COMBINATION: "needs more on one host than any of {hosts} has, each kind being there on some host",
    Lack.CONSTRAINT: "no host matches its constraint: {hosts} compared",
    Lack.PLAIN_HOST: "all {hosts} have GPUs and are kept for tasks that ask for some",
    Lack.ROOM: "needs room for {needed} at a time; {hosts} have room for {room} when empty",
    Lack.CAPACITY: "needs {amount} at a time; the cluster has {largest}",
    Lack.CONTRADICTION: "its constraint contradicts itself: no host can match it",
}
_REMEDIES = {
    Lack.HOSTS: "the first host",
    Lack.RESOURCE: "a host with at least {amount}",
    Lack.COMBINATION: "a host that has enough of each",
    Lack.CONSTRAINT: "a host that meets the constraint",
    Lack.PLAIN_HOST: "a host without GPUs",
    Lack.ROOM: "more hosts that take such a task",
    Lack.CAPACITY: "a cluster with at least {amount}",
    Lack.CONTRADICTION: "change the constraint",
}
assert _TEXTS.keys() == _REMEDIES.keys() == set(Lack), "each lack has a text and a remedy"


@dataclass(frozen=True, slots=True)
class HostGains:
    """What the hosts offer that were added or changed since some version: upper bounds over all of them.

    A gang that did not fit before fits now only where one of these hosts takes one of its tasks.
    """

    hosts: int = 0
    """How many were added or changed."""
    largest: tuple[int, ...] = (0,) * len(KINDS)
    """The most of each kind on one of them, in thousandths, in the order of `KINDS`."""
    revocable_cpu: int = 0
    """The most revocable CPU on one of them."""
    ports: int = 0
    """The most ports on one of them, in thousandths."""
    plain: bool = False
    """Whether one of them has no scarce resource."""
    relabelled: int = 0
    """How many of them are new or have other labels than before."""
    labels: frozenset[str] | None = frozenset()
    """The labels of those, as `key=value`; None where there are too many to list."""

    def amount(self, kind: str) -> int:
        """Return the most of a kind, named as in `Shortage.kind`."""
        if kind == PORTS:
            return self.ports
        return self.revocable_cpu if kind == REVOCABLE_CPU else self.largest[KINDS.index(kind)]


PORTS = "ports"
"""Name of the number of dynamic ports among the kinds."""
REVOCABLE_CPU = "revocable cpu"
"""Name of the kind that revocable tasks request in place of `cpu`."""
