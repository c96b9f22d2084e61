"""Settings: YAML files merged left to right, then environment, then flags; validated as one frozen object."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Literal, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from peloton.errors import PelotonError

Tree = dict[str, Any]


class ConfigError(PelotonError):
    """A setting is wrong; the message names it, its value and what would be right, one line per setting."""


class Settings(BaseModel):
    """Base of all settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class MembershipSettings(Settings):
    """How the daemons find each other and elect leaders."""

    kind: Literal["local"] = "local"
    directory: Path = Path(".minicluster/membership")
    """For kind local: a folder that all daemons of the one machine share."""


class DaemonSettings(Settings):
    """What every daemon is told."""

    host: str = "127.0.0.1"
    """Address to listen on, and to advertise."""
    http_port: int = Field(0, ge=0, le=65535)
    """0 takes any free port."""
    grpc_port: int = Field(0, ge=0, le=65535)
    instance: str = ""
    """Name of this instance in logs and in the membership; a new one is made where empty."""
    cluster: str = ""
    debug: bool = False
    membership: MembershipSettings = MembershipSettings()

    environment: ClassVar[Mapping[str, str]] = {
        "HTTP_PORT": "http_port",
        "GRPC_PORT": "grpc_port",
        "CLUSTER": "cluster",
        "ENABLE_DEBUG_LOGGING": "debug",
    }
    """Environment variables by name, with the dotted path of the setting that they fill. Each is a flag as
    well: HTTP_PORT is --http-port. Subclasses add theirs."""


S = TypeVar("S", bound=DaemonSettings)


def parse_arguments(cls: type[S], program: str, argv: Sequence[str] | None = None) -> S:
    """Settings from a daemon's command line: -c FILE (repeated), --debug, a flag per environment variable."""
    parser = argparse.ArgumentParser(prog=program, allow_abbrev=False)
    parser.add_argument("-c", "--config", action="append", default=[], type=Path, metavar="FILE")
    parser.add_argument("--debug", action="store_const", const="true", dest="ENABLE_DEBUG_LOGGING")
    for name in cls.environment:
        if name != "ENABLE_DEBUG_LOGGING":
            parser.add_argument("--" + name.lower().replace("_", "-"), dest=name, metavar="VALUE")
    given = vars(parser.parse_args(argv))
    flags = {name: value for name in cls.environment if (value := given.get(name)) is not None}
    return load(cls, given["config"], {**_from(os.environ, cls.environment), **flags})


def load(cls: type[S], files: Sequence[Path], variables: Mapping[str, str] | None = None) -> S:
    """Read and validate. Raises ConfigError."""
    tree: Tree = {}
    for file in files:
        tree = merged(tree, read_yaml(file))
    for name, value in (variables or {}).items():
        tree = merged(tree, _nested(cls.environment[name].split("."), value))
    return validated(cls, tree, ", ".join(map(str, files)) or "settings")


M = TypeVar("M", bound=BaseModel)


def validated(cls: type[M], tree: Tree, source: str) -> M:
    """The tree as a settings object. Raises ConfigError, a line for each thing that is wrong."""
    try:
        return cls.model_validate(tree)
    except ValidationError as error:
        raise ConfigError("\n".join(_told(source, item) for item in error.errors())) from None


def read_yaml(file: Path) -> Tree:
    """A YAML file that holds a mapping. Raises ConfigError."""
    try:
        content = yaml.safe_load(file.read_text())
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
    """A new tree: mappings are merged key by key, anything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        held = result.get(key)
        result[key] = merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return result


def _from(variables: Mapping[str, str], names: Mapping[str, str]) -> dict[str, str]:
    return {name: variables[name] for name in names if variables.get(name)}


def _nested(path: Sequence[str], value: object) -> Tree:
    return {path[0]: value if len(path) == 1 else _nested(path[1:], value)}


def _told(source: str, item: Any) -> str:
    path = ".".join(map(str, item["loc"])) or "(all of it)"
    if item["type"] == "extra_forbidden":
        return f"{source}: {path}: unknown setting"
    return f"{source}: {path}: {item['input']!r}: {item['msg']}"
