"""Credentials and TLS of connections to Cassandra. Reads files, connects to nothing."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from peloton.errors import Refused
from storage.config import CassandraSettings, CassandraTlsSettings


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials, and the TLS context if TLS is on."""

    username: str
    password: str = field(repr=False)
    tls: ssl.SSLContext | None


def access(settings: CassandraSettings) -> Access:
    """Read credentials and certificates. Raises Refused where a file is not usable."""
    password = "" if settings.password_file is None else _password(settings.password_file)
    return Access(settings.username, password, _context(settings.tls) if settings.tls.enabled else None)


def _password(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise Refused(f"password file {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise Refused(f"password file {file}: is not text in UTF-8") from None


def _context(tls: CassandraTlsSettings) -> ssl.SSLContext:
    context = ssl.create_default_context() if tls.ca_file is None else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = tls.check_names
    if tls.ca_file is not None:
        try:
            context.load_verify_locations(tls.ca_file)
        except OSError as error:
            raise _unusable("ca_file", tls.ca_file, "certificates of authorities", error) from None
    own = tls.certificate_file
    if own is not None:
        try:
            # Without a password here, that of an encrypted key would be requested at the terminal.
            context.load_cert_chain(own, tls.key_file, password="")
        except OSError as error:
            raise _unusable("certificate_file", own, "a certificate and its key", error) from None
    return context


def _unusable(setting: str, file: Path, expected: str, error: OSError) -> Refused:
    why = error.reason if isinstance(error, ssl.SSLError) else error.strerror
    return Refused(f"storage.tls.{setting}: {file}: {why}: is not a PEM file with {expected}")
