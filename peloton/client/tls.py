"""Encryption of a client's connections, by PEM files."""

from __future__ import annotations

import socket
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

        ca, certificate, key = (Path(file) if file else None for file in (self.ca, self.cert, self.key))
        return client_context("tls", ca, certificate, key)

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


def handshake_trouble(target: str, tls: Tls | None, seconds: float) -> str:
    """Return why a handshake with `host:port` fails for good; empty where it does not, or nobody answers.

    gRPC tells no more than that there is no connection, and tries again for ever.
    """
    found = _handshake(target, tls, seconds)
    if found and _handshake(target, tls, seconds):
        return found
    return ""  # a server that ends may cut a connection too, but then nobody answers the second time


def _handshake(target: str, tls: Tls | None, seconds: float) -> str:
    import ssl

    host, _, port = target.rpartition(":")
    name = host.strip("[]")
    try:
        with (
            socket.create_connection((name, int(port)), timeout=seconds) as connection,
            _context(tls).wrap_socket(connection, server_hostname=name) as encrypted,
        ):
            if tls is None:
                return "the server speaks TLS, and the client was given no `tls`"
            # In TLS 1.3 the server judges our certificate later. HTTP/2 servers speak first.
            return "" if encrypted.recv(1) else _refused(tls)
    except ssl.SSLCertVerificationError as error:
        return f"the certificate of the server is not accepted: {error.verify_message}"
    except ssl.SSLError as error:
        return "" if tls is None else _said(tls, str(error.reason or error))
    except ConnectionResetError:
        return "" if tls is None else _refused(tls)
    except (OSError, ValueError):
        return ""


def _context(tls: Tls | None) -> ssl.SSLContext:
    import ssl

    context = ssl.create_default_context(cafile=tls.ca or None if tls else None)
    if tls is None:
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE  # nothing is sent
    elif tls.cert:
        context.load_cert_chain(tls.cert, tls.key)
    context.set_alpn_protocols(["h2"])
    return context


def _refused(tls: Tls) -> str:
    return f"the server does not accept the certificate of the client, {tls.cert or 'none was given'}"


def _said(tls: Tls, reason: str) -> str:
    words = reason.lower().replace("_", " ")
    if "alert" in words or "eof" in words:
        return f"{_refused(tls)} ({words})"
    if reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST"):
        return "the server does not speak TLS"
    return f"the handshake failed: {words}"


def _read(name: str, file: str) -> bytes | None:
    try:
        return Path(file).read_bytes() if file else None
    except OSError as error:
        raise InvalidArgument(f"tls.{name}", file, f"a readable file: {error.strerror}") from error
