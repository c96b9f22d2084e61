"""TLS of gRPC: credentials from PEM files, which are read again when they change.

gRPC takes TLS 1.2 and later only.
"""

from __future__ import annotations

import logging
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc

from peloton.config.encryption import TlsSettings
from peloton.config.errors import ConfigError
from peloton.config.private import require_private
from peloton.config.tls import Stamp, stamp_of

log = logging.getLogger(__name__)
PAUSE_SECONDS = 1.0
"""Seconds between two looks at the files."""


@dataclass(frozen=True, slots=True)
class Material:
    """What the files contain."""

    ca: bytes
    certificate: bytes | None = None
    key: bytes | None = field(default=None, repr=False)


class Tls:
    """The credentials of servers and channels. Threads may share it."""

    def __init__(
        self, ca_file: Path, certificate_file: Path | None = None, key_file: Path | None = None
    ) -> None:
        """Read the files. Raises ConfigError."""
        self._files = (ca_file, certificate_file, key_file)
        self._lock = threading.Lock()
        self._stamp = self._present()
        self._next = time.monotonic() + PAUSE_SECONDS
        self._contexts: list[ssl.SSLContext] = []
        self._client: tuple[int, ssl.SSLContext] | None = None
        self._material = _read(*self._files)
        self.generation = 0
        """Grows with each change of the files."""
        self.trouble = ""
        """What is wrong with the files since they were changed; empty if nothing."""

    def refresh(self) -> bool:
        """Read the files again if they have changed. Files that are wrong then change nothing."""
        with self._lock:
            if time.monotonic() < self._next:
                return False
            self._next = time.monotonic() + PAUSE_SECONDS
            stamp = self._present()
            if stamp == self._stamp:
                return False
            self._stamp = stamp
            try:
                self._material = _read(*self._files)
            except ConfigError as error:
                self.trouble = f"certificates are as they were: {error}"
                log.error("%s", self.trouble)
                return False
            self.trouble = ""
            self.generation += 1
            for context in self._contexts:
                context.load_cert_chain(*self._pair())
            log.info("certificates are read again")
            return True

    @property
    def paths(self) -> tuple[str, ...]:
        """The files: of the authorities, of the certificate and of its key; empty where there is none."""
        return tuple("" if file is None else str(file) for file in self._files)

    def channel(self) -> Any:
        """Return the credentials of a new channel."""
        self.refresh()
        held = self._material
        return grpc.ssl_channel_credentials(held.ca, held.key, held.certificate)

    def server(self, client_certificates: bool) -> Any:
        """Return the credentials of a server, whose certificate follows the files."""

        def changed() -> Any:
            return self._configuration() if self.refresh() else None

        return grpc.dynamic_ssl_server_credentials(self._configuration(), changed, client_certificates)

    def http(self) -> ssl.SSLContext:
        """Return the context of an HTTPS server, whose certificate follows the files."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.load_cert_chain(*self._pair())
        context.sni_callback = lambda *_: self._before_handshake()
        self._contexts.append(context)
        return context

    def https_client(self) -> ssl.SSLContext:
        """Return the context of HTTPS calls, with authorities and certificate as the files have them."""
        self.refresh()
        if self._client is None or self._client[0] != self.generation:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            context.load_verify_locations(cadata=self._material.ca.decode())
            if self._material.certificate is not None:
                context.load_cert_chain(*self._pair())
            self._client = self.generation, context
        return self._client[1]

    def _before_handshake(self) -> None:
        """Look at the files. Anything but None would refuse the connection."""
        self.refresh()

    def _pair(self) -> tuple[Path, Path | None]:
        _, certificate, key = self._files
        assert certificate is not None, "the settings check it"
        return certificate, key

    def _configuration(self) -> Any:
        held = self._material
        assert held.key is not None and held.certificate is not None, "the settings check it"
        return grpc.ssl_server_certificate_configuration([(held.key, held.certificate)], held.ca)

    def _present(self) -> Stamp:
        return tuple(stamp_of(file) for file in self._files if file is not None)


def _read(ca_file: Path, certificate_file: Path | None, key_file: Path | None) -> Material:
    """Read the files, and check that certificate and key belong together. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _checked(
        "tls.ca_file", ca_file, "certificates of authorities", lambda: context.load_verify_locations(ca_file)
    )
    if certificate_file is None or key_file is None:
        return Material(ca_file.read_bytes())
    require_private(key_file, "tls.key_file")
    _checked(
        "tls.certificate_file",
        certificate_file,
        f"a certificate, whose key is in {key_file}",
        # Without a password here, that of an encrypted key would be requested at the terminal.
        lambda: context.load_cert_chain(certificate_file, key_file, password=""),
    )
    return Material(ca_file.read_bytes(), certificate_file.read_bytes(), key_file.read_bytes())


def _checked(setting: str, file: Path, expected: str, load: Callable[[], object]) -> None:
    try:
        load()
    except OSError as error:
        why = error.reason if isinstance(error, ssl.SSLError) else error.strerror
        raise ConfigError(f"{setting}: {file}: {why}: is not a PEM file with {expected}") from None


def tls_of(settings: TlsSettings) -> Tls | None:
    """Return the credentials that the settings name; None without TLS. Raises ConfigError."""
    if settings.ca_file is None:
        return None
    return Tls(settings.ca_file, settings.certificate_file, settings.key_file)
