"""Settings of TLS: of the daemons' own ports, and of servers of others."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from pydantic import model_validator

from peloton.config.base import Settings


class TlsSettings(Settings):
    """TLS of the gRPC and HTTP ports, and of calls to daemons. PEM files, read again on changes."""

    ca_file: Path | None = None
    """Certificates of the authorities that are trusted. Without it there is no TLS."""
    certificate_file: Path | None = None
    """The certificate of this process, for the address by which others find it; as a client, too."""
    key_file: Path | None = None
    """File with the key of `certificate_file`, mode 0600."""
    client_certificates: bool = False
    """Whether callers of the gRPC port need a certificate of the authorities."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if bool(self.certificate_file) != bool(self.key_file):
            raise ValueError("a certificate_file needs a key_file, and a key_file a certificate_file")
        if self.certificate_file and not self.ca_file:
            raise ValueError("a certificate needs a ca_file: whoever calls others must know them")
        if self.client_certificates and not self.certificate_file:
            raise ValueError("client_certificates needs ca_file, certificate_file and key_file")
        return self


class ServerTlsSettings(Settings):
    """TLS to servers of others. The files are PEM, and read again when they change."""

    enabled: bool = False
    """Whether connections to the servers use TLS."""
    ca_file: Path | None = None
    """Certificates of the trusted authorities; without it, those of the system are trusted."""
    certificate_file: Path | None = None
    """The client certificate, for servers that require one."""
    key_file: Path | None = None
    """The key of the client certificate, where its file does not contain it. Mode 0600."""

    @model_validator(mode="after")
    def _used(self) -> Self:
        if not self.enabled and (self.ca_file or self.certificate_file or self.key_file):
            raise ValueError("tls: files are given, but enabled is not true")
        if self.key_file and not self.certificate_file:
            raise ValueError("tls: a key_file needs a certificate_file")
        return self


class AgentSettings(Settings):
    """Calls of the HTTP servers of Mesos agents, which have the files of tasks."""

    tls: bool = False
    """Whether they speak TLS, with certificates for the addresses by which they register."""
    ca_file: Path | None = None
    """Certificates of the trusted authorities, PEM; without it, those of the system are trusted."""
    principal: str = ""
    """The principal for Basic authentication; empty: none."""
    secret_file: Path | None = None
    """File, mode 0600, with the principal's secret on one line."""

    @model_validator(mode="after")
    def _whole(self) -> Self:
        if self.ca_file and not self.tls:
            raise ValueError("ca_file is given, but tls is not true")
        if bool(self.principal) != bool(self.secret_file):
            raise ValueError("principal and secret_file must be given together")
        return self
