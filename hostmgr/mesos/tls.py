"""TLS to the Mesos master: trusted authorities and the client certificate."""

from __future__ import annotations

import ssl
from pathlib import Path

from peloton.config.errors import ConfigError

SETTING = "mesos.tls"


def client_context(ca: Path | None, certificate: Path | None, key: Path | None) -> ssl.SSLContext:
    """Build a context that requires a certificate for the master's hostname. Raises ConfigError.

    Its authority must be in `ca`, or without it among those of the system. All files are PEM.
    """
    context = ssl.create_default_context()
    if ca is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(ca)
        except OSError as error:
            raise _unusable("ca_file", ca, "certificates of authorities", error) from None
    if certificate is not None:
        try:
            # Without a password for it an encrypted key would be requested at the terminal.
            context.load_cert_chain(certificate, key, password="")
        except OSError as error:
            raise _unusable("certificate_file", certificate, "a certificate and its key", error) from None
    return context


def _unusable(setting: str, file: Path, expected: str, error: OSError) -> ConfigError:
    why = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return ConfigError(f"{SETTING}.{setting}: {file}: {why}: is not a PEM file with {expected}")


def describe(error: ssl.SSLError, master: str) -> str:
    """Return why a TLS connection failed, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of {master} is not trusted: {error.verify_message} (see {SETTING}.ca_file)"
    if error.reason == "WRONG_VERSION_NUMBER":
        return f"{master} does not speak TLS (see {SETTING}.enabled)"
    return f"TLS with {master}: {error.reason or error}"
