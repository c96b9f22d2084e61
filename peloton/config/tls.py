"""TLS to servers of others: settings, and the context of a connection."""

from __future__ import annotations

import ssl
from pathlib import Path

from peloton.config.config_error import ConfigError


def client_context(
    setting: str, ca: Path | None, certificate: Path | None, key: Path | None
) -> ssl.SSLContext:
    """Build a context that requires a certificate for the server's name. Raises ConfigError.

    It takes TLS 1.2 and later. The authority must be in `ca`, or without it among those of the system. All
    files are PEM. `setting` is the name of the settings in errors.
    """
    context = ssl.create_default_context()
    if ca is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        try:
            context.load_verify_locations(ca)
        except OSError as error:
            raise _unusable(f"{setting}.ca_file", ca, "certificates of authorities", error) from None
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    if certificate is not None:
        try:
            # Without a password for it an encrypted key would be requested at the terminal.
            context.load_cert_chain(certificate, key, password="")
        except OSError as error:
            raise _unusable(
                f"{setting}.certificate_file", certificate, "a certificate and its key", error
            ) from None
    return context


def _unusable(setting: str, file: Path, expected: str, error: OSError) -> ConfigError:
    why = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return ConfigError(f"{setting}: {file}: {why}: is not a PEM file with {expected}")


def describe(error: ssl.SSLError, server: str, setting: str) -> str:
    """Return why a TLS connection failed, in one line."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"the certificate of {server} is not trusted: {error.verify_message} (see {setting}.ca_file)"
    if error.reason == "WRONG_VERSION_NUMBER":
        return f"{server} does not speak TLS (see {setting}.enabled)"
    return f"TLS with {server}: {error.reason or error}"
