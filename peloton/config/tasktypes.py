"""The task types that one placement engine serves, as settings name them."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, BeforeValidator

from peloton.model.states import PlacedTaskType


def _listed(value: object) -> object:
    """Split a text at its commas. Letters may be of any case."""
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if isinstance(value, list | tuple):
        return [part.lower() if isinstance(part, str) else part for part in value]
    return value


def _distinct(value: tuple[PlacedTaskType, ...]) -> tuple[PlacedTaskType, ...]:
    if not value:
        raise ValueError("at least one task type is needed")
    if len(set(value)) < len(value):
        raise ValueError(f"each task type once, not {', '.join(value)}")
    return value


PlacedTaskTypes = Annotated[tuple[PlacedTaskType, ...], BeforeValidator(_listed), AfterValidator(_distinct)]
"""One type, several in a list, or several in a text with commas."""
