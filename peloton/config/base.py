"""The base of all settings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any, get_args, get_type_hints

from pydantic import BaseModel, ConfigDict
from pydantic.fields import FieldInfo

SettingsClass = type[Any]
"""A class of settings: of pydantic's models, or a dataclass of a core that is read as it stands."""


class Settings(BaseModel):
    """Base of all settings: frozen, and an unknown key is an error."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def fields_of(cls: SettingsClass) -> Mapping[str, FieldInfo]:
    """Return the fields of a class of settings, by name."""
    if issubclass(cls, BaseModel):
        return cls.model_fields
    hints = get_type_hints(cls, include_extras=True)
    return {
        each.name: FieldInfo.from_annotated_attribute(hints[each.name], each.default) for each in fields(cls)
    }


def classes_in(annotation: Any) -> list[SettingsClass]:
    """Return the classes of settings in an annotation."""
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation] if issubclass(annotation, BaseModel) or is_dataclass(annotation) else []
    return [found for each in get_args(annotation) for found in classes_in(each)]
