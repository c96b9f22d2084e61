"""TLS to the Mesos master: trusted authorities and the client certificate."""

from __future__ import annotations

import ssl
from pathlib import Path

from peloton.config import tls

SETTING = "mesos.tls"


def client_context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    """Build a context that requires a certificate for the master's hostname. Raises ConfigError."""
    return tls.client_context(SETTING, ca, certificate, key)


def describe(error: ssl.SSLError, master: str) -> str:
    """Return why a TLS connection failed, in one line."""
    return tls.describe(error, master, SETTING)
