"""Settings of the store that a daemon opens."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator, model_validator

from peloton.config.settings import Settings
from peloton.config.sources import Variable

Consistency = Literal["ONE", "TWO", "QUORUM", "LOCAL_QUORUM", "EACH_QUORUM", "ALL", "LOCAL_ONE"]


def _three_replicas() -> Mapping[str, str | int]:
    return {"class": "NetworkTopologyStrategy", "replication_factor": 3}


class SqliteSettings(Settings):
    """Which file, and how it is used. Processes on one machine share it."""

    kind: Literal["sqlite"] = "sqlite"
    """SQLite: a file on this machine."""
    path: Path
    """The database's file; its directory is made where it is missing."""
    busy_timeout: float = Field(default=10.0, gt=0)
    """Seconds that a write waits for another process's write before it is Unavailable."""
    readers: int = Field(default=2, ge=1, le=64)
    """Connections, each with a thread of its own, that answer reads."""
    max_queued_writes: int = Field(default=1024, ge=1)
    """Writes accepted and not yet committed; further callers wait."""


class CassandraTlsSettings(Settings):
    """TLS to Cassandra's servers. PEM files."""

    enabled: bool = False
    """Whether the servers are spoken to by TLS."""
    ca_file: Path | None = None
    """Certificates of the authorities that are trusted; the system's are without it."""
    check_names: bool = True
    """Whether a server's certificate must be for the address at which it is reached: for a contact point as
    it is given, for the others as the cluster tells it, by number."""
    certificate_file: Path | None = None
    """For servers that ask who Peloton is."""
    key_file: Path | None = None
    """Of the certificate, where its file does not hold the key too."""

    @model_validator(mode="after")
    def _used(self) -> CassandraTlsSettings:
        if not self.enabled and (self.ca_file or self.certificate_file or self.key_file):
            raise ValueError("tls: files are named, but enabled is not true")
        if self.key_file and not self.certificate_file:
            raise ValueError("tls: a key_file needs a certificate_file")
        return self


class CassandraSettings(Settings):
    """Which cluster, and how it is used."""

    kind: Literal["cassandra"] = "cassandra"
    """Cassandra."""
    contact_points: Annotated[tuple[str, ...], Variable("CASSANDRA_HOSTS")] = Field(
        default=("127.0.0.1",), min_length=1
    )
    """Some of the cluster's servers, from which the others are learnt. As text: separated by commas."""
    port: Annotated[int, Variable("CASSANDRA_PORT")] = Field(default=9042, ge=1, le=65535)
    """At which all servers answer."""
    keyspace: Annotated[str, Variable("CASSANDRA_STORE")] = Field(
        default="peloton", pattern=r"\A[a-z][a-z0-9_]{0,47}\z"
    )
    """What belongs to this cluster is kept there."""
    username: str = ""
    """Empty: without a password."""
    password_file: Path | None = None
    """A file that holds nothing but the password."""
    tls: CassandraTlsSettings = CassandraTlsSettings()
    """Whether and how the connections are encrypted."""
    datacenter: str = ""
    """The one to talk to. Empty: that of the first contact point that answers, which will do unless there are
    several and consistency is within one."""
    replication: Mapping[str, str | int] = Field(default_factory=_three_replicas)
    """What a keyspace is made with by `peloton-migrate up`. One that is there already keeps its own."""
    auto_migrate: bool = False
    """Whether a daemon makes keyspace and tables by itself, as `peloton-migrate up` does."""
    consistency: Consistency = "LOCAL_QUORUM"
    """How many replicas answer each read and each write."""
    serial_consistency: Literal["SERIAL", "LOCAL_SERIAL"] = "LOCAL_SERIAL"
    """Where those replicas are that agree on conditional writes: everywhere, or in the data center only."""
    connect_timeout: float = Field(default=5.0, gt=0)
    """Seconds."""
    request_timeout: float = Field(default=10.0, gt=0)
    """Seconds that one try of a request may take."""
    attempts: int = Field(default=3, ge=1, le=10)
    """Tries of a request that may be repeated, before it is Unavailable."""
    max_in_flight: int = Field(default=256, ge=1, le=16384)
    """Requests sent and not yet answered; further callers wait."""

    @field_validator("contact_points", mode="before")
    @classmethod
    def _separated_by_commas(cls, value: object) -> object:
        return [one.strip() for one in value.split(",") if one.strip()] if isinstance(value, str) else value

    @model_validator(mode="after")
    def _password_with_user(self) -> CassandraSettings:
        if bool(self.username) != (self.password_file is not None):
            raise ValueError("username and password_file go together")
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
