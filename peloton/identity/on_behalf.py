"""Calls that a job manager passes on for callers with certificates: the names in these.

The owner of a job sees the certificate of the job manager that passes the call on. It takes the names for
those of the caller only where that certificate is a job manager's: nobody else may say for whom a call is.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence

from peloton.errors import PermissionDenied, Unauthenticated
from peloton.identity.principal import Kind, Principal

ON_BEHALF = "peloton-on-behalf"
"""Key of the metadata entry."""
ROLE = "jobmgr"
"""The role of the daemons that pass calls on."""


def written(names: Iterable[str]) -> str:
    """Return names as the value of the entry, in ASCII: those of a certificate may be any text."""
    return json.dumps(list(names))


def read(value: str) -> Sequence[str]:
    """Return the names in a value. Raises Unauthenticated for what is no list of names."""
    try:
        names = json.loads(value)
    except ValueError:
        names = None
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise Unauthenticated(f"{ON_BEHALF} is no list of names of a certificate")
    return names


def check_passing(shown: Principal | None, believed: bool) -> None:
    """Raise PermissionDenied unless the certificate that is shown may pass on calls of others.

    `shown` is whom it shows, None for nobody; `believed` says whether calls are passed on to this daemon.
    """
    if not believed:
        raise PermissionDenied(f"{ON_BEHALF}: no calls are passed on to this daemon")
    if shown is None or shown.kind is not Kind.DAEMON or shown.name != ROLE:
        whose = "nobody's" if shown is None else f"that of {shown}"
        raise PermissionDenied(f"{ON_BEHALF} is for job managers: the certificate is {whose}")
