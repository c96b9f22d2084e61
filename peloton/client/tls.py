"""Encryption of a client's connections, by PEM files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from peloton.errors import InvalidArgument

if TYPE_CHECKING:
    import ssl

    import grpc


@dataclass(frozen=True, slots=True)
class Tls:
    """The authorities to trust (where `ca` is empty, those of the system); a certificate for mutual TLS."""

    ca: str = ""
    cert: str = ""
    key: str = ""

    def context(self) -> ssl.SSLContext:
        """Read the files, for connections that are not gRPC's. Raises ConfigError."""
        from peloton.config.tls import client_context

        files = (Path(file) if file else None for file in (self.ca, self.cert, self.key))
        return client_context("tls", *files)

    def credentials(self) -> grpc.ChannelCredentials:
        """Read the files. Raises InvalidArgument."""
        import grpc

        if bool(self.cert) != bool(self.key):
            raise InvalidArgument(
                "tls.cert", self.cert, f"given together with tls.key, which is {self.key!r}"
            )
        return grpc.ssl_channel_credentials(
            _read("ca", self.ca), _read("key", self.key), _read("cert", self.cert)
        )


def _read(name: str, file: str) -> bytes | None:
    try:
        return Path(file).read_bytes() if file else None
    except OSError as error:
        raise InvalidArgument(f"tls.{name}", file, f"a readable file: {error.strerror}") from error
