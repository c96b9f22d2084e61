"""What the processes of a role say of themselves at /health, for the time when none of them leads."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from peloton.client.finding import Discovery, members

if TYPE_CHECKING:
    from peloton.client.tls import Tls
    from peloton.membership.interface import Address

HEALTH_SECONDS = 2.0
MOST_MEMBERS = 3
"""Processes that are asked."""
LONGEST_ANSWER_CHARACTERS = 500
"""Characters of an answer that are told."""


def ailing(discovery: Discovery, role: str, tls: Tls | None = None) -> list[str]:
    """Return what is wrong with the processes of a role, by what they say. Raises DiscoveryError."""
    return list(_ailing(role, members(discovery, role)[:MOST_MEMBERS], tls))


def _ailing(role: str, addresses: Sequence[Address], tls: Tls | None) -> Iterator[str]:
    context = None if tls is None else tls.context()
    for address in addresses:
        if said := _health(address, context):
            yield f"{role} {address.target} says: {said}"


def _health(address: Address, context: ssl.SSLContext | None) -> str:
    """Return what a process says is wrong; empty where nothing is, or it does not answer."""
    from requests import RequestException

    from peloton.client.blocking_http import answer, head_of, session  # slow to import

    host = address.target.rpartition(":")[0]
    url = f"{'http' if context is None else 'https'}://{host}:{address.http}/health"
    try:
        with (
            session(None if context is None else lambda: context) as made,
            answer(made, "GET", url, (HEALTH_SECONDS, HEALTH_SECONDS)) as told,
        ):
            if told.status_code < 400:
                return ""
            body = head_of(told, 4 * LONGEST_ANSWER_CHARACTERS)
    except RequestException:
        return ""
    return " ".join(body.decode(errors="replace").split())[:LONGEST_ANSWER_CHARACTERS]
