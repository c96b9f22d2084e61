"""Shortages: why a gang could not be placed even if all hosts were empty."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from peloton.model.resources import MILLI


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

    def __str__(self) -> str:
        return _TEXTS[self.lack].format(
            kind=self.kind,
            needed=f"{self.needed / MILLI:g}",
            largest=f"{self.largest / MILLI:g}",
            hosts=f"{self.hosts} {'host' if self.hosts == 1 else 'hosts'}",
        )


_TEXTS = {
    Lack.HOSTS: "the cluster has no hosts",
    Lack.RESOURCE: "needs {needed} {kind} on one host; the largest of {hosts} has {largest}",
    Lack.COMBINATION: "needs more on one host than any of {hosts} has, each kind being there on some host",
    Lack.CONSTRAINT: "no host matches its constraint: {hosts} compared",
    Lack.PLAIN_HOST: "all {hosts} have GPUs and are kept for tasks that ask for some",
    Lack.ROOM: "needs room for {needed} tasks at a time; {hosts} have room for {largest} when empty",
    Lack.CAPACITY: "needs {needed} {kind} at a time; the cluster has {largest}",
}
