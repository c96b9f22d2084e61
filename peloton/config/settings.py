"""The settings that all daemons have."""

from __future__ import annotations

from typing import Annotated, Self
from urllib.parse import urlsplit

from pydantic import Field, field_validator, model_validator

from peloton.config.addresses import is_loopback
from peloton.config.auth import AuthSettings
from peloton.config.base import Settings
from peloton.config.encryption import TlsSettings
from peloton.config.limits import CallLimitSettings, HttpLimitSettings, RateLimitSettings
from peloton.config.loading import SourcedSettings
from peloton.config.membership import LocalMembershipSettings, MembershipSettings
from peloton.config.sources import Variable


class TracingSettings(Settings):
    """Traces of jobs from their creation until their tasks run, for OpenTelemetry."""

    endpoint: str = ""
    """Where a collector takes traces by OTLP over HTTP, such as http://127.0.0.1:4318/v1/traces. Where empty,
    nothing is traced."""
    ratio: float = Field(0.01, ge=0, le=1)
    """The part of the jobs that is traced, as a fraction. All daemons must have the same one, to choose the
    same jobs."""
    instances: int = Field(10, ge=1, le=10_000)
    """How many instances of a job are traced, the first ones. All daemons must have the same number."""

    @field_validator("endpoint")
    @classmethod
    def _an_address(cls, value: str) -> str:
        parts = urlsplit(value)
        if value and not (parts.scheme in ("http", "https") and parts.hostname):
            raise ValueError("is not the address of a collector, such as http://127.0.0.1:4318/v1/traces")
        return value


class ProcessSettings(SourcedSettings):
    """Settings of every process that serves HTTP and finds the daemons: of these, and of the web UI."""

    host: str = Field("127.0.0.1", min_length=1)
    """Address to listen on."""
    http_port: Annotated[int, Variable("HTTP_PORT")] = Field(0, ge=0, le=65535)
    """Port of HTTP: health, metrics, log level; 0 takes any free port."""
    cluster: Annotated[str, Variable("CLUSTER")] = ""
    """The cluster's name, for people."""
    debug: Annotated[bool, Variable("ENABLE_DEBUG_LOGGING", switch="--debug")] = False
    """Whether messages of level debug are logged too."""
    membership: MembershipSettings = LocalMembershipSettings()
    """How daemons find each other and elect leaders."""
    tls: TlsSettings = TlsSettings()
    """Encryption."""
    http_limits: HttpLimitSettings = HttpLimitSettings()
    """How much clients of the HTTP port may take."""
    insecure: bool = False
    """Whether it may listen beyond loopback though nobody is asked who they are (auth.type is NOOP)."""


class DaemonSettings(ProcessSettings):
    """Settings of every daemon."""

    advertise: str = ""
    """Address at which others find this daemon. Where empty: the one listened on; if that is any
    (0.0.0.0, ::), the best of the host's."""
    grpc_port: Annotated[int, Variable("GRPC_PORT")] = Field(0, ge=0, le=65535)
    """Port of gRPC; 0 takes any free port."""
    grpc_health: bool = True
    """Whether the gRPC port answers grpc.health.v1.Health, with what /health says."""
    grpc_reflection: bool = True
    """Whether the gRPC port describes its services to tools such as grpcurl."""
    instance: str = ""
    """Name of this instance in logs and in the membership; a new one is made where empty."""
    auth: AuthSettings = AuthSettings()
    """Who may call this daemon."""
    rate_limit: RateLimitSettings = RateLimitSettings()
    """How many calls are served."""
    call_limits: CallLimitSettings = CallLimitSettings()
    """How many calls run and wait."""
    tracing: TracingSettings = TracingSettings()
    """Where traces of jobs go."""
    audit: str = ""
    """File to which a JSON line is written for each call of a user that changes something, or is refused;
    `-` for standard output. Where empty: none is written. Created with mode 0600."""

    @model_validator(mode="after")
    def _serves_tls(self) -> Self:
        if self.tls.ca_file and not self.tls.certificate_file:
            raise ValueError("a daemon needs tls.certificate_file and tls.key_file too, to serve TLS")
        return self

    @model_validator(mode="after")
    def _knows_daemons(self) -> Self:
        auth = self.auth
        if auth.type != "NOOP" and auth.token_file is None and not self.tls.client_certificates:
            raise ValueError(
                f"auth.type {auth.type} needs a token_file, by which the daemons know each other, or "
                "certificates (tls.client_certificates)"
            )
        return self

    @property
    def exposed(self) -> bool:
        """Whether this daemon listens beyond loopback, and asks nobody who they are."""
        return self.auth.type == "NOOP" and not is_loopback(self.host)
