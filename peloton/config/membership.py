"""Settings of how daemons find each other and elect leaders."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag, field_validator

from peloton.config.base import Settings
from peloton.config.encryption import ServerTlsSettings
from peloton.config.sources import Variable


class LocalMembershipSettings(Settings):
    """Daemons of one machine find each other and elect leaders by a folder."""

    kind: Literal["local"] = "local"
    """Daemons find each other by a folder, on one machine."""
    directory: Path = Path(".minicluster/membership")
    """Folder that the daemons share."""


class ZooKeeperTlsSettings(ServerTlsSettings):
    """TLS to ZooKeeper, whose certificates must be for the names in `servers`.

    The files are PEM, and read again for each connection.
    """

    enabled: bool = False
    """Whether connections to the servers use TLS; `servers` then names their secureClientPort."""
    certificate_file: Path | None = None
    """The client certificate, which servers ask for unless `ssl.clientAuth` says otherwise."""


class ZooKeeperMembershipSettings(Settings):
    """Daemons find each other and elect leaders by ZooKeeper."""

    kind: Literal["zookeeper"] = "zookeeper"
    """Daemons find each other by ZooKeeper."""
    servers: Annotated[str, Variable("ELECTION_ZK_SERVERS", selects_kind=True)]
    """host:port,host:port,…, followed by the path of a node where everything is to be below it."""
    root: str = "/peloton"
    """The node below which Peloton's nodes are."""
    session_seconds: float = Field(5.0, ge=1, le=60)
    """Seconds after which another leader follows one that vanished. The servers' maxSessionTimeout must not
    be shorter."""
    stuck_seconds: float = Field(30.0, ge=1, le=600)
    """Seconds after which a leader whose event loop does nothing is stuck, and gives up leadership. On a
    starved machine one step of work may take seconds."""
    credentials_file: Path | None = None
    """File, mode 0600, with one line, user:password. Only this user may then change the nodes; anybody may
    read them."""
    tls: ZooKeeperTlsSettings = ZooKeeperTlsSettings()
    """TLS to the servers."""

    @field_validator("servers")
    @classmethod
    def _hosts_and_ports(cls, value: str) -> str:
        hosts = value.split("/", 1)[0]
        if not all(re.fullmatch(r"\s*[^\s,/]+:\d{1,5}\s*", each) for each in hosts.split(",")):
            raise ValueError("is not host:port,host:port… with a path behind the last one where needed")
        return value

    @field_validator("root")
    @classmethod
    def _a_path(cls, value: str) -> str:
        if not re.fullmatch(r"(/[^/\s]+)+", value):
            raise ValueError("is not the path of a node, such as /peloton")
        return value


def _membership_kind(value: Any) -> str:
    """Return the kind of a mapping; where none is given, ZooKeeper if servers are, else local."""
    if not isinstance(value, dict):
        return str(getattr(value, "kind", "local"))
    return str(value.get("kind") or ("zookeeper" if "servers" in value else "local"))


MembershipSettings = Annotated[
    Annotated[LocalMembershipSettings, Tag("local")]
    | Annotated[ZooKeeperMembershipSettings, Tag("zookeeper")],
    Discriminator(_membership_kind),
]
