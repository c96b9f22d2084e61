"""Errors in settings, one line each: path, value, and what is valid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from pydantic import BaseModel

from peloton.config.base import SettingsClass, classes_in, fields_of
from peloton.config.config_error import ConfigError as ConfigError
from peloton.errors import shown

_REWORDED = (("Value error, ", ""), ("Input should be", "should be"), ("String should", "should"))


@dataclass(frozen=True, slots=True)
class _Place:
    """The place of a setting: its dotted path, the class that has it, and the kind of that class."""

    path: str
    owner: SettingsClass | None
    kind: str


def describe_error(cls: type[BaseModel], source: str, given: Mapping[str, str], error: Any) -> str:
    """Describe one of pydantic's errors in a line.

    `given` names the origin of a setting, by its path, where it is not `source`.
    """
    place = _place(cls, error["loc"])
    where = f"{given.get(place.path, source)}: {place.path or '(all of it)'}"
    match error["type"]:
        case "extra_forbidden" | "unexpected_keyword_argument":
            return f"{where}: unknown setting{_with_kind(place)}{_suggestion(place)}"
        case "missing":
            return f"{where}: is needed{_with_kind(place)}, and not given"
        case "union_tag_invalid":
            right = " or ".join(error["ctx"]["expected_tags"].split(", "))
            return f"{where}.kind: {shown(error['ctx']['tag'])}: should be {right}"
        case "model_type" | "dataclass_type" | "dict_type" | "mapping_type":
            return f"{where}: {shown(error['input'])}: should be a mapping of settings"
    return f"{where}: {shown(error['input'])}: {_reworded(error['msg'])}"


def _place(cls: SettingsClass, loc: Sequence[str | int]) -> _Place:
    """Return the place of one of pydantic's locations, which name the kind of settings in the path."""
    owner, kind, path = cls, "", []
    candidates: list[SettingsClass] = [cls]
    for part in loc:
        if len(candidates) > 1:
            kind = str(part)
            candidates = [each for each in candidates if fields_of(each)["kind"].default == part]
            continue
        path.append(str(part))
        if isinstance(part, int) or not candidates:
            continue
        (owner,) = candidates
        field = fields_of(owner).get(part)
        candidates = classes_in(field.annotation) if field is not None else []
    return _Place(".".join(path), owner, kind)


def _with_kind(place: _Place) -> str:
    return f" with kind {place.kind}" if place.kind else ""


def _suggestion(place: _Place) -> str:
    if place.owner is None:
        return ""
    near = get_close_matches(place.path.rpartition(".")[2], fields_of(place.owner), 1)
    return f"; did you mean {near[0]}?" if near else f"; there are {', '.join(fields_of(place.owner))}"


def _reworded(message: str) -> str:
    for theirs, ours in _REWORDED:
        message = message.replace(theirs, ours, 1)
    return message
