"""An installation as its file describes it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, Literal, Self

from pydantic import Field, field_validator, model_validator

from peloton.config.base import Settings
from peloton.config.encryption import ServerTlsSettings
from peloton.config.loading import validated
from peloton.config.membership import ZooKeeperMembershipSettings
from peloton.config.sources import Tree, read_yaml
from peloton.errors import InvalidArgument
from peloton.mesos.detector import parse_master

RoleName = Literal["hostmgr", "resmgr", "placement", "jobmgr", "archiver", "web"]
ORDER: tuple[RoleName, ...] = ("hostmgr", "resmgr", "placement", "jobmgr", "archiver", "web")
"""The order in which roles are changed: those that are called come before those that call them."""
LED: frozenset[RoleName] = frozenset({"hostmgr", "resmgr", "jobmgr", "archiver"})
STORED: frozenset[RoleName] = frozenset({"hostmgr", "resmgr", "jobmgr", "archiver"})
"""Roles that have the setting `storage`."""
SECRET = "secret:"
"""A setting that begins so is replaced by the path of the secret that it names."""
MOST_DAEMONS = 100
_NAME = re.compile(r"[a-z][a-z0-9-]{0,39}")
_HEX = re.compile(r"[0-9a-f]{64}")


class Version(Settings):
    """What daemons are run from: exactly one of `environment`, `wheel` and `image`."""

    environment: str = ""
    """A virtual environment that each host has, by its path."""
    wheel: str = ""
    """A wheel of Peloton: its path on each host, or an https:// address. Each host makes a virtual
    environment of it once."""
    image: str = ""
    """A container image that each host has, or can pull."""
    sha256: str = ""
    """The digest of the wheel, which each host compares."""
    environments: str = "/var/lib/peloton/environments"
    """Folder of the hosts for environments made of wheels."""
    python: str = "python3"
    """The Python that makes them."""
    pip: tuple[str, ...] = ()
    """Further arguments of `pip install`, such as --no-index and --find-links=FOLDER."""

    @model_validator(mode="after")
    def _exactly_one(self) -> Self:
        if sum(map(bool, (self.environment, self.wheel, self.image))) != 1:
            raise ValueError("needs exactly one of environment, wheel and image")
        if self.sha256 and not (self.wheel and _HEX.fullmatch(self.sha256)):
            raise ValueError("sha256 goes with wheel, and has 64 hexadecimal digits")
        return self

    @field_validator("environment", "environments")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if value and not PurePosixPath(value).is_absolute():
            raise ValueError(f"{value!r} is not an absolute path")
        return value

    @property
    def name(self) -> str:
        """Return what people call it."""
        return self.environment or self.image or PurePosixPath(self.wheel).name


class Mesos(Settings):
    """The Mesos cluster, and the framework whose tasks the daemons are."""

    master: str
    """HOST:PORT, or zk://HOST:PORT,…/PATH."""
    role: str = Field("peloton-deploy", min_length=1)
    """Role of the framework. Resources that agents reserve for it are always there for the daemons."""
    user: str = "root"
    """User as whom the daemons run on the hosts; a container's image has its own."""
    principal: str = ""
    secret_file: Path | None = None
    """File, mode 0600, with the secret of the principal."""
    tls: ServerTlsSettings = ServerTlsSettings()
    """TLS to the master."""

    @field_validator("master")
    @classmethod
    def _an_address(cls, value: str) -> str:
        try:
            parse_master(value)
        except InvalidArgument as error:
            raise ValueError(error.what) from None
        return value

    @model_validator(mode="after")
    def _secret_of_principal(self) -> Self:
        if self.secret_file is not None and not self.principal:
            raise ValueError("secret_file needs a principal")
        return self


class Daemons(Settings):
    """Daemons of one role that are alike."""

    role: RoleName | None = None
    """Where it is not the name of the group."""
    count: int = Field(2, ge=0, le=20)
    cpus: float = Field(0.5, ge=0.01, le=1000)
    mem: float = Field(512, ge=32, le=1e7)
    """In MiB."""
    hosts: tuple[str, ...] = ()
    """Hosts that may have them, by name; empty: any."""
    attributes: dict[str, str] = Field(default_factory=dict)
    """Attributes that their hosts must have."""
    settings: dict[str, Any] = Field(default_factory=dict)
    """Merged over those of all daemons."""


class Secret(Settings):
    """A secret, which stays in a file of the hosts."""

    file: str
    """Its path on each host."""

    @field_validator("file")
    @classmethod
    def _absolute(cls, value: str) -> str:
        if not PurePosixPath(value).is_absolute():
            raise ValueError(f"{value!r} is not an absolute path")
        return value


class Upgrade(Settings):
    """How daemons are replaced. Times in seconds."""

    healthy_within: float = Field(120.0, gt=0, le=3600)
    """How long a daemon may take from its start until it is healthy."""
    settle: float = Field(1.0, ge=0, le=3600)
    """How long each new daemon must have been healthy before the one that it replaces ends."""
    canary: float = Field(5.0, ge=0, le=3600)
    """The same for the first daemon of each group."""
    tries: int = Field(2, ge=1, le=10)
    """How many new daemons of a group may fail before the installation goes back to what it was."""


class HealthTls(ServerTlsSettings):
    """TLS to the HTTP ports of the daemons."""

    enabled: bool = False
    """Whether the daemons' HTTP ports speak TLS."""


class Installation(Settings):
    """A Peloton that is deployed on Mesos."""

    name: str
    mesos: Mesos
    zookeeper: ZooKeeperMembershipSettings
    """Where the daemons elect leaders. Its own record is in `deployments/NAME` below `root`."""
    version: Version
    storage: dict[str, Any]
    """The setting `storage` of the daemons: Cassandra, or a file of SQLite on the only host."""
    daemons: dict[str, Daemons]
    settings: dict[str, Any] = Field(default_factory=dict)
    """Settings of all daemons."""
    secrets: dict[str, Secret] = Field(default_factory=dict)
    """Files of the hosts; a setting names one by `secret:NAME`. Containers have them read-only."""
    health: HealthTls = HealthTls()
    upgrade: Upgrade = Upgrade()

    @field_validator("name")
    @classmethod
    def _a_name(cls, value: str) -> str:
        return _named(value)

    @model_validator(mode="after")
    def _a_store_in_reach(self) -> Self:
        if self.version.image and self.storage.get("kind", "sqlite") == "sqlite":
            raise ValueError(
                "storage.kind is sqlite, and version an image: a container has no folder of its host for the "
                "file; take cassandra"
            )
        return self

    @model_validator(mode="after")
    def _roles(self) -> Self:
        if sum(each.count for each in self.daemons.values()) > MOST_DAEMONS:
            raise ValueError(f"has more than {MOST_DAEMONS} daemons")
        for name, each in self.daemons.items():
            _named(name)
            if each.role is None and name not in ORDER:
                raise ValueError(f"daemons.{name} needs a role, one of {', '.join(ORDER)}")
        roles = [self.role_of(name) for name in self.daemons]
        for role in LED:
            if roles.count(role) > 1:
                raise ValueError(
                    f"has {role} in more than one group of daemons: give one group a higher count"
                )
        for value in _strings([self.settings, self.storage, *(d.settings for d in self.daemons.values())]):
            if value.startswith(SECRET) and value.removeprefix(SECRET) not in self.secrets:
                known = ", ".join(sorted(self.secrets)) or "none"
                raise ValueError(f"{value} names no secret of the installation, which has {known}")
        return self

    def role_of(self, group: str) -> RoleName:
        """Return the role of a group of daemons."""
        found = self.daemons[group].role
        return found if found is not None else next(role for role in ORDER if role == group)

    @property
    def groups(self) -> list[str]:
        """Return the groups in the order in which they are changed."""
        return sorted(self.daemons, key=lambda name: (ORDER.index(self.role_of(name)), name))


def read_installation(file: Path) -> Installation:
    """Read the file of an installation. Raises ConfigError."""
    return installation_from(read_yaml(file), str(file))


def installation_from(tree: Tree, source: str) -> Installation:
    """Check a tree. Raises ConfigError, which names `source`."""
    return validated(Installation, tree, source)


def with_secrets(value: Any, secrets: Mapping[str, Secret]) -> Any:
    """Return settings with the paths of the secrets that they name."""
    if isinstance(value, dict):
        return {key: with_secrets(each, secrets) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [with_secrets(each, secrets) for each in value]
    if isinstance(value, str) and value.startswith(SECRET):
        return secrets[value.removeprefix(SECRET)].file
    return value


def _named(value: str) -> str:
    if not _NAME.fullmatch(value):
        raise ValueError(f"{value!r} is not a name of up to 40 lower-case letters, digits and dashes")
    return value


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _strings(each)
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _strings(each)
