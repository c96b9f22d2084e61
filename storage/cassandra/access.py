"""Credentials and TLS of connections to Cassandra. Reads files, connects to nothing."""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from peloton.config.config_error import ConfigError
from peloton.config.private import require_private
from peloton.config.tls import Contexts
from peloton.errors import Refused
from storage.config import CassandraSettings, CassandraTlsSettings


@dataclass(frozen=True, slots=True)
class ReadAgain:
    """What the driver takes for a context: it makes each connection with what the files say then."""

    contexts: Contexts
    check_hostname: bool

    def wrap_socket(self, *arguments: Any, **named: Any) -> ssl.SSLSocket:
        """Encrypt a connection."""
        return self.contexts().wrap_socket(*arguments, **named)


@dataclass(frozen=True, slots=True)
class Access:
    """Credentials, and what encrypts connections if TLS is on."""

    username: str
    password: str = field(repr=False)
    tls: ReadAgain | None


def access(settings: CassandraSettings) -> Access:
    """Read credentials and certificates. Raises Refused where a file is not usable."""
    password = "" if settings.password_file is None else _password(settings.password_file)
    return Access(settings.username, password, tls_of(settings.tls) if settings.tls.enabled else None)


def _password(file: Path) -> str:
    try:
        require_private(file, "storage.password_file")
        return file.read_text(encoding="utf-8").strip()
    except ConfigError as error:
        raise Refused(str(error)) from None
    except OSError as error:
        raise Refused(f"storage.password_file: {file}: {error.strerror}") from error
    except UnicodeDecodeError:
        raise Refused(f"storage.password_file: {file}: is not text in UTF-8") from None


def tls_of(tls: CassandraTlsSettings) -> ReadAgain:
    """Read certificates. Raises Refused where a file is not usable."""
    try:
        found = Contexts(
            "storage.tls", tls.ca_file, tls.certificate_file, tls.key_file, check_names=tls.check_names
        )
    except ConfigError as error:
        raise Refused(str(error)) from None
    return ReadAgain(found, tls.check_names)
