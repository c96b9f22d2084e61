"""Basic authentication of HTTP requests, by the credentials of a file."""

from __future__ import annotations

import base64
import binascii
import hmac
import json
from pathlib import Path

from minicluster.mesos.common.http_messages import Request, Response, refuse
from minicluster.mesos.common.server_process import CannotRun

Credentials = dict[str, str]
"""Secrets by principal."""


def read_credentials(path: Path | None) -> Credentials | None:
    """Read the file of `--credentials`; None without one. Raise CannotRun."""
    if path is None:
        return None
    try:
        entries = json.loads(path.read_text())["credentials"]
        return {str(item["principal"]): str(item["secret"]) for item in entries}
    except (OSError, ValueError, KeyError, TypeError) as error:
        right = '{"credentials": [{"principal": "p", "secret": "s"}]}'
        raise CannotRun(f"--credentials {path}: {error!r}; right is {right}") from error


def unauthorized(realm: str) -> Response:
    """Return the 401 of one of Mesos' realms, such as ``mesos-master-scheduler``."""
    return refuse(401, "401 Unauthorized.", ("WWW-Authenticate", f'Basic realm="{realm}"'))


def principal_of(request: Request, credentials: Credentials) -> str | None:
    """Return who sends a request with right Basic credentials, None for anybody else."""
    scheme, _, encoded = request.headers.get("authorization", "").partition(" ")
    if scheme != "Basic":
        return None
    try:
        name, _, secret = base64.b64decode(encoded, validate=True).decode().partition(":")
    except (binascii.Error, UnicodeDecodeError):
        return None
    right = hmac.compare_digest(credentials.get(name, "").encode(), secret.encode())
    return name if name in credentials and right else None
