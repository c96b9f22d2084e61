"""Errors in settings, one line each: path, value, and what is valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel

from peloton.config.config_error import ConfigError as ConfigError
from peloton.errors import shown

C = TypeVar("C", bound=BaseModel)
_REWORDED = (("Value error, ", ""), ("Input should be", "should be"), ("String should", "should"))


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a setting: its dotted path, the class that has it, and the kind of that class."""

    path: str
    owner: type[BaseModel] | None
    kind: str


def describe_error(cls: type[BaseModel], source: str, given: Mapping[str, str], error: Any) -> str:
    """Describe one of pydantic's errors in a line.

    `given` names the origin of a setting, by its path, where it is not `source`.
    """
    place = _place(cls, error["loc"])
    where = f"{given.get(place.path, source)}: {place.path or '(all of it)'}"
    match error["type"]:
        case "extra_forbidden":
            return f"{where}: unknown setting{_with_kind(place)}{_suggestion(place)}"
        case "missing":
            return f"{where}: is needed{_with_kind(place)}, and not given"
        case "union_tag_invalid":
            right = " or ".join(error["ctx"]["expected_tags"].split(", "))
            return f"{where}.kind: {shown(error['ctx']['tag'])}: should be {right}"
        case "model_type" | "dict_type" | "mapping_type":
            return f"{where}: {shown(error['input'])}: should be a mapping of settings"
    return f"{where}: {shown(error['input'])}: {_reworded(error['msg'])}"


def classes_in(annotation: Any, base: type[C]) -> list[type[C]]:
    """Return the settings classes in an annotation."""
    if isinstance(annotation, type) and not get_args(annotation):
        return [annotation] if issubclass(annotation, base) else []
    return [found for each in get_args(annotation) for found in classes_in(each, base)]


def _place(cls: type[BaseModel], loc: Sequence[str | int]) -> _Place:
    """Return the place of one of pydantic's locations, which name the kind of settings in the path."""
    owner, kind, path = cls, "", []
    candidates: list[type[BaseModel]] = [cls]
    for part in loc:
        if len(candidates) > 1:
            kind = str(part)
            candidates = [each for each in candidates if each.model_fields["kind"].default == part]
            continue
        path.append(str(part))
        if isinstance(part, int) or not candidates:
            continue
        (owner,) = candidates
        field = owner.model_fields.get(part)
        candidates = classes_in(field.annotation, BaseModel) if field is not None else []
    return _Place(".".join(path), owner, kind)


def _with_kind(place: _Place) -> str:
    return f" with kind {place.kind}" if place.kind else ""


def _suggestion(place: _Place) -> str:
    if place.owner is None:
        return ""
    near = get_close_matches(place.path.rpartition(".")[2], place.owner.model_fields, 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(place.owner.model_fields)}"


def _reworded(message: str) -> str:
    for theirs, ours in _REWORDED:
        message = message.replace(theirs, ours, 1)
    return message
