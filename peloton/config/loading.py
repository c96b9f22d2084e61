"""How settings are read. Variables win over YAML files, of which the last wins."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource, SettingsConfigDict

from peloton.config.base import Settings
from peloton.config.errors import ConfigError, describe_error
from peloton.config.sources import Files, Tree, Variable, Variables, variable_targets


class SourcedSettings(Settings, BaseSettings):
    """Base of settings that `load` reads from files and variables; made directly, they read neither."""

    model_config = SettingsConfigDict(validate_default=False)

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the arguments as the only source."""
        return (init_settings,)


S = TypeVar("S", bound=SourcedSettings)
M = TypeVar("M", bound=BaseModel)


def environment(cls: type[SourcedSettings]) -> Mapping[str, str]:
    """Return the environment variables of a settings class that are set and not empty."""
    names = (target.variable.name for target in variable_targets(cls))
    return {name: value for name in names if (value := os.environ.get(name))}


def _variable_and_flag(variable: Variable) -> str:
    return f"{variable.name} or {variable.flag}"


def load(
    cls: type[S],
    files: Sequence[Path],
    *variables: Mapping[str, str],
    named: Callable[[Variable], str] = _variable_and_flag,
) -> S:
    """Read settings from variables, the first mapping winning, and from files, the last winning.

    `named` names a variable in errors. Raises ConfigError, with a line for each error.
    """
    sources = (*(Variables(cls, values) for values in variables), Files(cls, files))
    given = {
        target.dotted: named(target.variable)
        for target in variable_targets(cls)
        if any(target.variable.name in values for values in variables)
    }
    try:
        return cls(_build_sources=(sources, {}))
    except ValidationError as error:
        raise _config_error(error, cls, ", ".join(map(str, files)) or "settings", given) from None


def validated(cls: type[M], tree: Tree, source: str, given: Mapping[str, str] | None = None) -> M:
    """Validate a tree as a settings object.

    `given` names the origin of a setting, by its dotted path, where it is not `source`. Raises ConfigError,
    with a line for each error.
    """
    try:
        return cls.model_validate(tree)
    except ValidationError as error:
        raise _config_error(error, cls, source, given or {}) from None


def _config_error(
    error: ValidationError, cls: type[BaseModel], source: str, given: Mapping[str, str]
) -> ConfigError:
    return ConfigError("\n".join(describe_error(cls, source, given, item) for item in error.errors()))
