"""The users of a cluster that asks callers who they are, and the certificates of its daemons and clients."""

from __future__ import annotations

import base64
import datetime
import json
import secrets
import shutil
import ssl
from pathlib import Path
from typing import TYPE_CHECKING

from minicluster.layout import Layout
from peloton.config.private import make_folder, write_private

if TYPE_CHECKING:
    from peloton.client.extensions import Identity

ADMIN, VIEWER = "admin", "viewer"
CLIENT = "client"
"""The name of the certificate that clients show. It is nobody's: who they are, they say by a password."""
TASK = "task"
"""The name of the certificate that tasks show, which is nobody's either: they have tokens."""
MASTER, AGENT, PRINCIPAL = "mesos-master", "mesos-agent", "peloton"
"""The names of the certificates of masters and agents, and the principal that the latter let in."""
CERTIFIED = ("jobmgr", "resmgr", "hostmgr", "placement", "archiver")
"""Daemons that know each other by their certificates."""
READING = ("Get", "List", "Lookup", "Query", "Browse", "Watch", "Cancel", "Explain", "Check", "Find", "Plan")
"""What the names of methods begin with that change nothing."""
ROLES = [
    {"role": ADMIN, "accept": ["*"]},
    {"role": VIEWER, "accept": [f"*:{verb}*" for verb in READING]},
]
DAYS = 825


def make_credentials(layout: Layout, agents: bool = False) -> None:
    """Make users, keys and certificates, only for this user to read, unless they are there.

    With `agents`, credentials for these too.
    """
    if not layout.users.exists():
        _make_users(layout)
    if not layout.task_keys.exists():
        write_private(layout.task_keys, _new_key())
    if not layout.authority.exists():
        _make_authority(layout)
    _issue_certificates(layout)
    if not agents:
        layout.agent_auth.unlink(missing_ok=True)
    elif not layout.agent_auth.exists():
        _make_agent_credentials(layout)


def remove_certificates(layout: Layout) -> None:
    """Remove the certificates: clients take a cluster that has some for a secure one."""
    shutil.rmtree(layout.certificates, ignore_errors=True)


def client_identity(directory: Path) -> Identity:
    """Return what the administrator of the cluster in a folder shows; nothing where it is not secure."""
    layout = Layout(directory)
    if not layout.authority.exists():
        return {}
    from peloton.client.auth import read_auth
    from peloton.client.tls import Tls

    certificate, key = layout.certificate_of(CLIENT)
    found: Identity = {
        "auth": read_auth(layout.credentials_of(ADMIN)),
        "tls": Tls(str(layout.authority), str(certificate), str(key)),
    }
    if layout.agent_auth.exists():
        from peloton.client.agents import agents_by

        found["agents"] = agents_by(str(layout.authority), str(layout.agent_auth))
    return found


def https_context(layout: Layout) -> ssl.SSLContext | None:
    """Return what HTTP requests to a secure cluster trust; None where it is not secure."""
    if not layout.authority.exists():
        return None
    return ssl.create_default_context(cafile=layout.authority)


def _make_users(layout: Layout) -> None:
    import yaml

    from peloton.identity.passwords import hashed

    def dump(file: Path, content: object) -> None:
        write_private(file, yaml.safe_dump(content, sort_keys=False))

    make_folder(layout.auth)
    write_private(layout.secret_keys, _new_key())
    users = []
    for name in (ADMIN, VIEWER):
        password = secrets.token_urlsafe(18)
        dump(layout.credentials_of(name), {"username": name, "password": password})
        users.append({"username": name, "password": str(hashed(password)), "role": name})
    certificates = [{"name": name, "daemon": name} for name in CERTIFIED]
    dump(layout.users, {"users": users, "certificates": certificates, "roles": ROLES})


def _new_key() -> str:
    """Return the content of a file with one key."""
    return base64.b64encode(secrets.token_bytes(32)).decode() + "\n"


def _make_agent_credentials(layout: Layout) -> None:
    secret = secrets.token_urlsafe(24)
    allowed = {"credentials": [{"principal": PRINCIPAL, "secret": secret}]}
    write_private(layout.agent_credentials, json.dumps(allowed))
    write_private(layout.agent_secret, secret + "\n")
    write_private(layout.agent_auth, json.dumps({"username": PRINCIPAL, "password": secret}))  # JSON is YAML


def _make_authority(layout: Layout) -> None:
    """Make an authority: its certificate and key, or neither."""
    from peloton.identity.certs import make_authority

    draft = layout.root / f".{layout.certificates.name}"
    shutil.rmtree(draft, ignore_errors=True)
    make_authority(draft, "minicluster", datetime.datetime.now(datetime.UTC))
    draft.rename(layout.certificates)


def _issue_certificates(layout: Layout) -> None:
    """Issue a certificate for each kind of component and for clients, where it is missing."""
    from peloton.identity.certs import LOOPBACK, issue

    for name in (*CERTIFIED, "web", MASTER, AGENT, CLIENT, TASK):
        certificate, key = layout.certificate_of(name)
        if not certificate.exists():  # it is written last
            key.unlink(missing_ok=True)
            issue(layout.certificates, name, LOOPBACK, DAYS, datetime.datetime.now(datetime.UTC))
