"""Settings of the store that a daemon opens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from peloton.config.base import Settings
from peloton.config.encryption import ServerTlsSettings
from peloton.config.sources import Variable

Consistency = Literal["ONE", "TWO", "QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "ALL", "LOCAL_ONE"]


def _three_replicas() -> Mapping[str, str | int]:
    return {"class": "NetworkTopologyStrategy", "replication_factor": 3}


class SqliteSettings(Settings):
    """A store in one SQLite file, which the processes of one machine share."""

    kind: Literal["sqlite"] = "sqlite"
    """SQLite."""
    path: Path
    """The file of the database; a missing directory is created."""
    busy_timeout: float = Field(default=10.0, gt=0)
    """Seconds that a write waits for a write of another process before it fails as Unavailable."""
    readers: int = Field(default=2, ge=1, le=64)
    """Connections for reads, each with a thread of its own."""
    max_queued_writes: int = Field(default=1024, ge=1)
    """Most writes that are accepted and not yet committed; further callers wait."""
    cache_mb: int = Field(default=16, ge=1, le=65536)
    """Memory in MB in which a process keeps pages of the database: one half for writes, the other for reads.
    It fills as history is written."""
    secret_keys_file: Path | None = None
    """File, mode 0600, with the keys that encrypt the secrets of jobs: on each line 32 bytes in Base64. The
    first one encrypts, and all decrypt. Without it, secrets are stored as they are."""


class CassandraTlsSettings(ServerTlsSettings):
    """TLS to Cassandra's servers. PEM files, read again on changes."""

    check_names: bool = True
    """Whether the certificate of a server must be for its address: that of a contact point as configured,
    that of other servers as the cluster announces it, in numbers."""


class CassandraSettings(Settings):
    """A store in a Cassandra cluster."""

    kind: Literal["cassandra"] = "cassandra"
    """Cassandra."""
    contact_points: Annotated[tuple[str, ...], Variable("CASSANDRA_HOSTS")] = Field(
        default=("127.0.0.1",), min_length=1
    )
    """Some servers of the cluster, from which the others are discovered. As text: separated by commas."""
    port: Annotated[int, Variable("CASSANDRA_PORT")] = Field(default=9042, ge=1, le=65535)
    """The port of all servers."""
    keyspace: Annotated[str, Variable("CASSANDRA_STORE")] = Field(
        default="peloton", pattern=r"\A[a-z][a-z0-9_]{0,47}\z"
    )
    """The keyspace of this Peloton cluster."""
    username: str = ""
    """The user; empty: no authentication."""
    password_file: Path | None = None
    """A file, mode 0600, that contains only the password."""
    tls: CassandraTlsSettings = CassandraTlsSettings()
    """TLS to the servers."""
    secret_keys_file: Path | None = None
    """File, mode 0600, with the keys that encrypt the secrets of jobs: on each line 32 bytes in Base64. The
    first one encrypts, and all decrypt. Without it, secrets are stored as they are."""
    datacenter: str = ""
    """The data center to connect to. Empty: that of the first contact point that answers; required where
    there are several and the consistency is within one."""
    replication: Mapping[str, str | int] = Field(default_factory=_three_replicas)
    """Replication of a keyspace that `peloton-migrate up` creates; an existing one keeps its own."""
    auto_migrate: Annotated[bool, Variable("AUTO_MIGRATE")] = False
    """Whether a daemon creates keyspace and tables by itself, as `peloton-migrate up` does."""
    consistency: Consistency = "LOCAL_QUORUM"
    """Consistency of reads and writes: how many replicas must answer."""
    serial_consistency: Literal["SERIAL", "LOCAL_SERIAL"] = "LOCAL_SERIAL"
    """Consistency of conditional writes: over all data centers, or within one."""
    connect_timeout: float = Field(default=5.0, gt=0)
    """Longest time to connect to a server, in seconds."""
    request_timeout: float = Field(default=10.0, gt=0)
    """Longest time of one try of a request, in seconds."""
    attempts: int = Field(default=3, ge=1, le=10)
    """Most tries of a request that may be repeated, before it fails as Unavailable."""
    max_in_flight: int = Field(default=256, ge=1, le=16384)
    """Most requests that are sent and not yet answered; further callers wait."""

    @field_validator("contact_points", mode="before")
    @classmethod
    def _separated_by_commas(cls, value: object) -> object:
        return [one.strip() for one in value.split(",") if one.strip()] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _password_with_user(self) -> CassandraSettings:
        if bool(self.username) != (self.password_file is not None):
            raise ValueError("username and password_file must be given together")
        return self


def _kind(value: Any) -> str:
    """Return the kind of a mapping; where none is given, Cassandra if servers are, else SQLite."""
    if not isinstance(value, dict):
        return str(getattr(value, "kind", "sqlite"))
    return str(value.get("kind") or ("cassandra" if "contact_points" in value else "sqlite"))


StorageSettings = Annotated[
    Annotated[SqliteSettings, Tag("sqlite")] | Annotated[CassandraSettings, Tag("cassandra")],
    Discriminator(_kind),
]
