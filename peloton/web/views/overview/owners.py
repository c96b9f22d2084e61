"""Who owns which jobs, where job managers share the work."""

from __future__ import annotations

from dataclasses import dataclass

from peloton.calls.web import LIST_OWNERS
from peloton.errors import PelotonError, Unauthenticated
from peloton.present.owners import owned_text, without_owner_text
from peloton.private.jobmgr.sharing import sharing_pb2
from peloton.web.cluster import Calls

OWNERS_AGE = 1.8
"""How old the table may be, in seconds."""


@dataclass(frozen=True, slots=True)
class OwnerRow:
    """A job manager, or none, and what it owns."""

    address: str
    text: str


async def read_owners(calls: Calls) -> list[OwnerRow]:
    """Return what each job manager owns; nothing where one leads and has all, or where it is not known."""
    try:
        found = await calls.read(LIST_OWNERS, sharing_pb2.ListOwnersRequest(), OWNERS_AGE)
    except Unauthenticated:
        raise  # who has to log in is led to the login
    except PelotonError:
        return []  # an older one, or none: the problems say which daemons do not answer
    if not found.shared:
        return []
    rows = [OwnerRow(each.address, owned_text(each)) for each in found.owners]
    if found.without_owner:
        rows.append(OwnerRow("nobody", without_owner_text(found.without_owner)))
    return rows
