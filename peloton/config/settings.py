"""Settings: YAML files merged left to right, then environment, then flags; validated as one frozen object."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Discriminator, Field, Tag, ValidationError, field_validator

from peloton import __version__
from peloton.config.errors import told
from peloton.errors import PelotonError

Tree = dict[str, Any]


class ConfigError(PelotonError):
    """A setting is wrong; the message names it, its value and what would be right, one line per setting."""


class Settings(BaseModel):
    """Base of all settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)


class LocalMembershipSettings(Settings):
    """Daemons of one machine find each other and elect leaders by a folder."""

    kind: Literal["local"] = "local"
    """By a folder."""
    directory: Path = Path(".minicluster/membership")
    """They share it."""


class ZooKeeperMembershipSettings(Settings):
    """Daemons find each other and elect leaders by ZooKeeper."""

    kind: Literal["zookeeper"] = "zookeeper"
    """By ZooKeeper."""
    servers: str
    """host:port,host:port,… and, where everything is to lie below a node, its path behind the last one."""
    root: str = "/peloton"
    """The node below which all of ours are."""
    session_seconds: float = Field(5.0, ge=1, le=60)
    """A leader that vanished is followed by another after that long. The servers' maxSessionTimeout must not
    be shorter."""
    credentials_file: Path | None = None
    """Holds one line, user:password. The nodes are then ours alone to change, and everybody's to read."""

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
    """Where no kind is given: ZooKeeper if servers are, else local."""
    if not isinstance(value, dict):
        return str(getattr(value, "kind", "local"))
    return str(value.get("kind") or ("zookeeper" if "servers" in value else "local"))


MembershipSettings = Annotated[
    Annotated[LocalMembershipSettings, Tag("local")]
    | Annotated[ZooKeeperMembershipSettings, Tag("zookeeper")],
    Discriminator(_membership_kind),
]


class DaemonSettings(Settings):
    """What every daemon is told."""

    host: str = Field("127.0.0.1", min_length=1)
    """Address to listen on."""
    advertise: str = ""
    """Address at which others find this daemon. Where empty: the one listened on; if that is any
    (0.0.0.0, ::), the best of the host's."""
    http_port: int = Field(0, ge=0, le=65535)
    """0 takes any free port."""
    grpc_port: int = Field(0, ge=0, le=65535)
    """0 takes any free port."""
    grpc_health: bool = True
    """Whether the gRPC port answers grpc.health.v1.Health, with what /health says."""
    grpc_reflection: bool = True
    """Whether the gRPC port describes its services to tools such as grpcurl."""
    instance: str = ""
    """Name of this instance in logs and in the membership; a new one is made where empty."""
    cluster: str = ""
    """The cluster's name, for people."""
    debug: bool = False
    """Whether what is told at level debug is logged too."""
    membership: MembershipSettings = LocalMembershipSettings()
    """How daemons find each other and elect leaders."""

    environment: ClassVar[Mapping[str, str]] = {
        "HTTP_PORT": "http_port",
        "GRPC_PORT": "grpc_port",
        "CLUSTER": "cluster",
        "ENABLE_DEBUG_LOGGING": "debug",
        "ELECTION_ZK_SERVERS": "membership[kind=zookeeper].servers",
    }
    """Environment variables by name, with the dotted path of the setting that they fill; [key=value] behind a
    name replaces what is there by settings of that kind, unless it is of it already. Each is a flag as well:
    HTTP_PORT is --http-port. Subclasses add theirs."""


S = TypeVar("S", bound=DaemonSettings)


def parse_arguments(cls: type[S], program: str, argv: Sequence[str] | None = None) -> tuple[S, bool]:
    """Read settings from the command line of a daemon; return whether only to check them too.

    -c FILE (repeated), --check, --debug, a flag per environment variable. Raises ConfigError. --help and
    --version print, and end the process with 0.
    """
    given = vars(_parser(cls, program).parse_args(argv))
    flags = {name: value for name in cls.environment if (value := given.get(name)) is not None}
    settings = load(cls, given["config"], {**_from(os.environ, cls.environment), **flags})
    return settings, bool(given["check"])


def _parser(cls: type[DaemonSettings], program: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program,
        allow_abbrev=False,
        description="A daemon of the Peloton cluster scheduler.",
        epilog="Flags win over environment variables, those over files. docs/settings.md lists all settings.",
    )
    parser.add_argument("--version", action="version", version=f"{program} {__version__}")
    parser.add_argument(
        "-c",
        "--config",
        action="append",
        default=[],
        type=Path,
        metavar="FILE",
        help="YAML file of settings; several are merged left to right",
    )
    parser.add_argument("--check", action="store_true", help="say whether the settings are right, and end")
    for name, setting in cls.environment.items():
        told = f"sets {_plain(setting)}; environment {name}"
        if name == "ENABLE_DEBUG_LOGGING":
            parser.add_argument("--debug", action="store_const", const="true", dest=name, help=told)
        else:
            parser.add_argument(flag_of(name), dest=name, metavar="VALUE", help=told)
    return parser


def _plain(path: str) -> str:
    """Return the path of a setting without its [key=value]."""
    return re.sub(r"\[.*?\]", "", path)


def flag_of(variable: str) -> str:
    """Return the flag that does the same as an environment variable."""
    return "--debug" if variable == "ENABLE_DEBUG_LOGGING" else "--" + variable.lower().replace("_", "-")


def load(cls: type[S], files: Sequence[Path], variables: Mapping[str, str] | None = None) -> S:
    """Read and validate. Raises ConfigError."""
    tree: Tree = {}
    for file in files:
        tree = merged(tree, read_yaml(file))
    given: dict[str, str] = {}
    for name, value in (variables or {}).items():
        tree = _filled(tree, cls.environment[name].split("."), value)
        given[_plain(cls.environment[name])] = f"{name} or {flag_of(name)}"
    return validated(cls, tree, ", ".join(map(str, files)) or "settings", given)


M = TypeVar("M", bound=BaseModel)


def validated(cls: type[M], tree: Tree, source: str, given: Mapping[str, str] | None = None) -> M:
    """Validate a tree as a settings object.

    `given` names what filled a setting, by its dotted path, where the source did not. Raises ConfigError,
    with a line for each error.
    """
    try:
        return cls.model_validate(tree)
    except ValidationError as error:
        wrong = [told(cls, source, given or {}, item) for item in error.errors()]
        raise ConfigError("\n".join(wrong)) from None


class _Once(yaml.SafeLoader):
    """Takes no key twice: all but the last would be lost without a word."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:
        seen: set[str] = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.tag != "tag:yaml.org,2002:merge":
                if key.value in seen:
                    raise yaml.constructor.ConstructorError(
                        None, None, f"{key.value} is given twice", key.start_mark
                    )
                seen.add(key.value)
        return super().construct_mapping(node, deep)


def read_yaml(file: Path) -> Tree:
    """Read a YAML file that holds a mapping. Raises ConfigError."""
    try:
        content = yaml.load(file.read_text(), _Once)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not YAML: {' '.join(str(error).split())}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: a {type(content).__name__} is not a mapping of settings")
    return content


def merged(base: Tree, over: Tree) -> Tree:
    """Return a new tree: mappings are merged key by key, anything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        held = result.get(key)
        result[key] = merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return result


def _from(variables: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {name: variables[name] for name in names if variables.get(name)}


def _filled(tree: Tree, path: Sequence[str], value: object) -> Tree:
    """Return the tree with the value at the path."""
    name, _, choice = path[0].rstrip("]").partition("[")
    if len(path) == 1:
        return {**tree, name: value}
    held = tree.get(name)
    inner = held if isinstance(held, dict) else {}
    if choice:
        key, _, chosen = choice.partition("=")
        inner = inner if inner.get(key) == chosen else {key: chosen}
    return {**tree, name: _filled(inner, path[1:], value)}
