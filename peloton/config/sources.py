"""Sources of settings for pydantic-settings: YAML files, and variables of the environment or of flags.

The library's own sources are not used. That of the environment reads every field by its name (`HOST`,
`INSTANCE`) and has no names for nested ones; that of YAML skips files that do not exist.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import Discriminator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, PydanticBaseSettingsSource

from peloton.config.base import SettingsClass, classes_in, fields_of
from peloton.config.errors import ConfigError

Tree = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Variable:
    """Annotation of a setting: the environment variable, and the flag, that fill it."""

    name: str
    switch: str = ""
    """Flag without a value that sets it to true, in place of one named after the variable."""
    selects_kind: bool = False
    """Whether a value replaces settings of another kind by those to which this one belongs."""

    @property
    def flag(self) -> str:
        """The flag that does the same: `--http-port` for `HTTP_PORT`."""
        return self.switch or "--" + self.name.lower().replace("_", "-")


@dataclass(frozen=True, slots=True)
class VariableTarget:
    """A setting that a variable fills."""

    variable: Variable
    path: tuple[str, ...]
    kind: str
    """The kind of settings to which it belongs, empty where there is one kind only."""

    @property
    def dotted(self) -> str:
        """The path as users write it."""
        return ".".join(self.path)

    def tree(self, value: str) -> Tree:
        """Return the value as nested settings."""
        *outer, name = self.path
        tree: Tree = {name: value}
        if self.variable.selects_kind:
            tree["kind"] = self.kind
        for part in reversed(outer):
            tree = {part: tree}
        return tree


def variable_targets(cls: SettingsClass, path: tuple[str, ...] = ()) -> Iterator[VariableTarget]:
    """Yield the variables of a settings class and of the classes nested in it."""
    kind = fields_of(cls).get("kind")
    for name, field in fields_of(cls).items():
        for rule in field.metadata:
            if isinstance(rule, Variable):
                yield VariableTarget(rule, (*path, name), str(kind.default) if kind is not None else "")
        for part in classes_in(field.annotation):
            yield from variable_targets(part, (*path, name))


class _Source(PydanticBaseSettingsSource):
    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:
        return self().get(field_name), field_name, False


class Variables(_Source):
    """Settings from variables by name, as the environment or flags have them."""

    def __init__(self, cls: type[BaseSettings], values: Mapping[str, str]) -> None:
        super().__init__(cls)
        self._values = values

    def __call__(self) -> Tree:
        """Return the settings that are given."""
        tree: Tree = {}
        for target in variable_targets(self.settings_cls):
            if (value := self._values.get(target.variable.name)) is not None:
                tree = merged(tree, target.tree(value))
        return tree


class Files(_Source):
    """Settings from YAML files, merged left to right. Comes after the sources that win over files."""

    def __init__(self, cls: type[BaseSettings], files: Sequence[Path]) -> None:
        """Read the files. Raises ConfigError."""
        super().__init__(cls)
        self._tree: Tree = {}
        for file in files:
            self._tree = merged(self._tree, read_yaml(file))

    def __call__(self) -> Tree:
        """Return the settings, without those that another source replaces by settings of another kind."""
        return {str(name): value for name, value in self._tree.items() if not self._is_replaced(name, value)}

    def _is_replaced(self, name: str, value: Any) -> bool:
        given = self.current_state.get(name)
        kind = given.get("kind") if isinstance(given, dict) else None
        if kind is None or not isinstance(value, dict):
            return False
        rules = self.settings_cls.model_fields[name].metadata
        found = next(rule.discriminator for rule in rules if isinstance(rule, Discriminator))
        return bool((found(value) if callable(found) else value.get(found)) != kind)


class _UniqueKeys(yaml.SafeLoader):
    """Refuses a key that a mapping has twice: the first value would be lost without a message."""

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


def read_yaml(file: Path, secret: bool = False) -> Tree:
    """Read a YAML file that holds a mapping. Raises ConfigError, without a part of the file if `secret`."""
    try:
        content = yaml.load(file.read_text(), _UniqueKeys)
    except OSError as error:
        raise ConfigError(f"{file}: {error.strerror}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not YAML: {_where(error) if secret else _in_line(error)}") from None
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ConfigError(f"{file}: a {type(content).__name__} is not a mapping of settings")
    return content


def _in_line(error: Exception) -> str:
    return " ".join(str(error).split())


def _where(error: Exception) -> str:
    mark = getattr(error, "problem_mark", None)
    return f"line {mark.line + 1}, column {mark.column + 1}" if mark is not None else "wrong bytes"


def merged(base: Tree, over: Tree) -> Tree:
    """Return a new tree: mappings are merged key by key, anything else is replaced."""
    result = dict(base)
    for key, value in over.items():
        held = result.get(key)
        result[key] = merged(held, value) if isinstance(held, dict) and isinstance(value, dict) else value
    return result
