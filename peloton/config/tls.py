"""TLS to servers of others: settings, and the contexts of connections."""

from __future__ import annotations

import logging
import ssl
import threading
from pathlib import Path

from peloton.config.config_error import ConfigError
from peloton.config.private import require_private_key

log = logging.getLogger(__name__)
Stamp = tuple[tuple[int, int, int] | None, ...]


def client_context(
    setting: str, ca: Path | None, certificate: Path | None, key: Path | None, check_names: bool = True
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
    context.check_hostname = check_names
    if certificate is not None:
        try:
            # Without a password for it an encrypted key would be requested at the terminal.
            context.load_cert_chain(certificate, key, password="")
        except OSError as error:
            raise _unusable(
                f"{setting}.certificate_file", certificate, "a certificate and its key", error
            ) from None
    return context


class Contexts:
    """The context of new connections, made anew when its files have changed. Threads may share it.

    Files that are wrong then change nothing.
    """

    def __init__(
        self,
        setting: str,
        ca: Path | None,
        certificate: Path | None = None,
        key: Path | None = None,
        check_names: bool = True,
    ) -> None:
        """Read the files. Raises ConfigError, also where others can read the key."""
        self._setting = setting
        self._files = (ca, certificate, key)
        self._check_names = check_names
        self._lock = threading.Lock()
        self._stamp = self._present()
        self._context = self._read()

    def __call__(self) -> ssl.SSLContext:
        """Return the context for a connection that is to be made now."""
        with self._lock:
            stamp = self._present()
            if stamp != self._stamp:
                self._stamp = stamp
                try:
                    self._context = self._read()
                    log.info("%s: certificates are read again", self._setting)
                except ConfigError as error:
                    log.error("certificates are as they were: %s", error)
            return self._context

    def _read(self) -> ssl.SSLContext:
        ca, certificate, key = self._files
        require_private_key(self._setting, certificate, key)
        return client_context(self._setting, ca, certificate, key, self._check_names)

    def _present(self) -> Stamp:
        return tuple(stamp_of(file) for file in self._files if file is not None)


def stamp_of(file: Path) -> tuple[int, int, int] | None:
    """Return what changes with a file; None where there is none."""
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


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
