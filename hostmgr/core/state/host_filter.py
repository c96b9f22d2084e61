"""The values of host filtering: filters, reasons and rankings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum

from hostmgr.core.state.offers import Free
from peloton.fast_init import fast_init
from peloton.model.constraint import Constraint
from peloton.model.resources import ZERO, Resources


class Result(StrEnum):
    """The results of filtering a host: keys of the answer's counts (docs/behaviour/placement.md)."""

    MATCH = "match"
    NO_OFFER = "no_offer"
    INSUFFICIENT_OFFER_RESOURCES = "insufficient_offer_resources"
    INSUFFICIENT_RESOURCES = "insufficient_resources"
    MISMATCH_CONSTRAINTS = "mismatch_constraints"
    MISMATCH_GPU = "mismatch_gpu"
    MISMATCH_STATUS = "mismatch_status"
    MISMATCH_MAX_HOST_LIMIT = "mismatch_max_host_limit"
    SCARCE_RESOURCES = "scarce_resources"
    TOO_MANY_STARTING = "too_many_starting"
    """The limit of runs that start at a time is reached."""
    HELD = "held"
    """What the host has free is held for instances that come back to it."""
    FAILED_LAUNCHES = "failed_launches"
    """Several launches failed because of the host, which is passed over for a while."""


class Ranking(Enum):
    """The order in which hosts are chosen."""

    FIRST_FIT = "FIRST_FIT"
    """Any order. It starts at a cursor that moves with every call, so that engines do not compete."""
    DEFRAG = "DEFRAG"
    """Least free GPU, then CPU, memory, disk first."""
    LOAD_AWARE = "LOAD_AWARE"
    """Lowest load score first; those of equal score as in FIRST_FIT."""


@dataclass(frozen=True, slots=True)
class HostFilter:
    """What hosts must have, and how many are requested."""

    minimum: Resources = ZERO
    ports: int = 0
    revocable: bool = False
    """The CPU comes from revocable resources."""
    constraint: Constraint | None = None
    max_hosts: int = 0
    """0: all that match."""
    preferred: tuple[str, ...] = ()
    """Hostnames to take first where they match."""
    held_for: frozenset[str] = frozenset()
    """Instances to be placed, by task id: what is held for them of hosts is free for them."""
    closed: frozenset[str] = frozenset()
    """Hostnames that do not match, because they are held as a whole for other instances. `Hosts` fills it
    in."""
    own: Mapping[str, Free] = field(default_factory=dict)
    """What is held for the instances to be placed, by host. `Hosts` fills it in."""
    opened: frozenset[str] = frozenset()
    """Ids of agents that match although they are reserved."""
    ranking: Ranking | None = None
    """None: as configured."""


fast_init(HostFilter)
