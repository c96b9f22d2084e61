"""Claims on hosts, and what launches take of the offers of claimed hosts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hostmgr.core.state.host_filter import Result
from hostmgr.core.state.offers import Offer, Taken
from peloton.errors import Refused
from peloton.fast_init import fast_init


class InvalidOffers(Refused):
    """The host-offer id is unknown, expired, or was used for other tasks."""


@dataclass(frozen=True, slots=True)
class Claim:
    """A host that is reserved for one placement."""

    id: str
    agent_id: str
    hostname: str
    since: float
    """When it was acquired, in seconds on the monotonic clock, like `until`."""
    until: float
    """When it ends by itself."""
    owner: str = ""
    """The process that claimed it, `<role>/<id>`; empty for callers that are no daemon."""
    ends_by: float | None = None
    """For backfill of a reserved host: when the tasks that are launched by it end at the latest."""


fast_init(Claim)


@dataclass(frozen=True, slots=True)
class Acquired:
    """The claims of one request, and the number of other hosts by reason."""

    claims: tuple[Claim, ...]
    counts: Mapping[Result, int]


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """One launch: all offers of the host, and what each task takes from them, in the order of the tasks."""

    claim: Claim
    offers: tuple[Offer, ...]
    taken: tuple[tuple[Taken, ...], ...]
    task_ids: frozenset[str]
