"""Who owns which jobs, where job managers share the work, as people read it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from peloton.model.plural import plural

if TYPE_CHECKING:
    from peloton.private.jobmgr.sharing.sharing_pb2 import ListOwnersResponse, Owner


def owner_lines(found: ListOwnersResponse) -> Iterator[str]:
    """Iterate over a line for each job manager, and one for shards without an owner."""
    width = max((len(each.address) for each in found.owners), default=0)
    for each in found.owners:
        yield f"{each.address:<{width}}  {owned_text(each)}"
    if found.without_owner:
        yield without_owner_text(found.without_owner)


def owned_text(owner: Owner) -> str:
    """Return how many shards a job manager owns, how many of them are to move, and whether it is to end."""
    moving = f", {owner.going} of them about to move" if owner.going else ""
    ending = ", about to end" if owner.leaving else ""
    return f"{plural(owner.count, 'shard')} of jobs{moving}{ending}"


def without_owner_text(shards: int) -> str:
    """Return how many shards have no owner."""
    return f"{plural(shards, 'shard')} of jobs without an owner"
