"""What a plan is made from: what is wanted, and what there is."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Group:
    """Daemons that are alike."""

    name: str
    count: int
    digest: str
    """Of all that one of them is started with: version, settings, resources, constraints."""
    led: bool = False
    """Whether one of them has to lead."""


@dataclass(frozen=True, slots=True)
class Gate:
    """When the next daemon may be replaced. Times in seconds."""

    healthy_within: float = 120.0
    """How long a daemon may take from its start until it is healthy."""
    settle: float = 1.0
    """How long a new daemon must have been healthy."""
    canary: float = 5.0
    """The same for the first one of a group that is changed."""
    tries: int = 2
    """How many daemons of a group may fail before the change counts as failed."""
    longest_pause: float = 60.0
    """Longest pause before a daemon is started again that has failed repeatedly."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """An installation as it is to be. Groups are in the order in which they are changed."""

    revision: int
    groups: tuple[Group, ...]
    gate: Gate = field(default_factory=Gate)
    schema: str = ""
    """Digest of the version and the store whose schema must be there first; empty: none is needed."""
    fallback: int | None = None
    """The revision to go back to where a gate fails; None: there is none."""


@dataclass(frozen=True, slots=True)
class Instance:
    """A daemon that was started, or is about to be. Times are seconds since 1970."""

    id: str
    group: str
    digest: str
    host: str
    started: float
    ending: bool = False
    """Whether it was told to end."""
    healthy_since: float | None = None
    """None while it is not healthy."""
    leads: bool = False
    problem: str = ""
    """What is wrong with it, as it says itself."""


@dataclass(frozen=True, slots=True)
class Failures:
    """Daemons of a group that ended by themselves, or did not become healthy, one after another."""

    digest: str
    count: int
    last: float
    """When; seconds since 1970."""
    why: str


@dataclass(frozen=True, slots=True)
class Situation:
    """What there is."""

    instances: tuple[Instance, ...] = ()
    failures: Mapping[str, Failures] = field(default_factory=dict)
    """By group; those of another digest than the wanted one count no more."""
    schemas: frozenset[str] = frozenset()
    """The schemas that were brought about."""
    schema_failure: str = ""
    """Why the wanted schema could not be brought about; empty where it was not tried."""
    converged: bool = False
    """Whether the wanted revision was whole before: then nothing goes back because of a failure."""
