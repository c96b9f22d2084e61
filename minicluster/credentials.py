"""The users of a cluster that asks callers who they are, and the token of its daemons."""

from __future__ import annotations

import base64
import secrets
from pathlib import Path

from minicluster.layout import Layout

ADMIN, VIEWER = "admin", "viewer"
READING = ("Get", "List", "Lookup", "Query", "Browse", "Watch", "Cancel", "Explain", "Check", "Find", "Plan")
"""What the names of methods begin with that change nothing."""
ROLES = [
    {"role": ADMIN, "accept": ["*"]},
    {"role": VIEWER, "accept": [f"*:{verb}*" for verb in READING]},
]


def make_credentials(layout: Layout) -> None:
    """Make the files, only for this user to read, unless they are there."""
    import yaml

    from peloton.identity.passwords import hashed

    if layout.users.exists():
        return

    def dump(file: Path, content: object) -> None:
        _write(file, yaml.safe_dump(content, sort_keys=False))

    layout.auth.mkdir(mode=0o700, parents=True, exist_ok=True)
    _write(layout.token, secrets.token_hex(32) + "\n")
    _write(layout.secret_keys, base64.b64encode(secrets.token_bytes(32)).decode() + "\n")
    users = []
    for name in (ADMIN, VIEWER):
        password = secrets.token_urlsafe(18)
        dump(layout.credentials_of(name), {"username": name, "password": password})
        users.append({"username": name, "password": str(hashed(password)), "role": name})
    dump(layout.users, {"users": users, "roles": ROLES})


def admin_of(membership: Path) -> Path | None:
    """Return the administrator's credentials of the cluster with this folder of the membership."""
    file = Layout(membership.parent).credentials_of(ADMIN)
    return file if file.exists() else None


def _write(file: Path, text: str) -> None:
    file.touch(0o600)
    file.write_text(text)
