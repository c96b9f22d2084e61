"""Names that settings had in earlier versions, which an upgrade must not refuse."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any


def older_names(**names: str) -> Callable[[Any], Any]:
    """Return a function that gives values under an older name (`new="old"`) the new one.

    Where both are given, the old one stays, and is refused as unknown.
    """

    def renamed(values: Any) -> Any:
        if not isinstance(values, Mapping):
            return values
        new_of = {old: new for new, old in names.items() if new not in values}
        return {new_of.get(key, key): value for key, value in values.items()}

    return renamed
