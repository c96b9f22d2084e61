"""TLS to the Mesos master: trusted authorities and the client certificate."""

from __future__ import annotations

import ssl
from collections.abc import Callable
from pathlib import Path

from peloton.config import tls

SETTING = "mesos.tls"
Tls = Callable[[], ssl.SSLContext]
"""Returns the context of a connection that is to be made now."""


def contexts(ca: Path | None, certificate: Path | None, key: Path | None) -> Tls:
    """Read the files, again whenever they have changed; they require a certificate for the master's hostname.

    Raises ConfigError.
    """
    return tls.Contexts(SETTING, ca, certificate, key)


def describe(error: ssl.SSLError, master: str) -> str:
    """Return why a TLS connection failed, in one line."""
    return tls.describe(error, master, SETTING)
