"""Frozen dataclasses that are cheap to make."""

from __future__ import annotations

from dataclasses import MISSING, Field, field, fields, make_dataclass
from typing import Any, TypeVar

T = TypeVar("T")


def fast_init(cls: type[T]) -> type[T]:
    """Let a frozen slotted dataclass set its fields directly.

    The ``__init__`` of a frozen dataclass uses ``object.__setattr__``, because the class refuses assignments:
    with 16 fields it takes four times as long. This removes the refusal at run time; mypy still refuses them.
    It is for classes of which one is made at each step of each run.

    Raises TypeError for a class with ``__post_init__``.
    """
    if hasattr(cls, "__post_init__"):
        raise TypeError(f"{cls.__name__} has __post_init__, which fast_init would leave out")
    same = [(each.name, Any, _same(each)) for each in fields(cls)]  # type: ignore[arg-type]  # it is a dataclass
    plain = make_dataclass(cls.__name__, same, slots=True)
    type.__setattr__(cls, "__init__", vars(plain)["__init__"])
    for name in ("__setattr__", "__delattr__"):
        type.__delattr__(cls, name)
    return cls


def _same(one: Field[Any]) -> Any:
    if one.default_factory is not MISSING:
        return field(default_factory=one.default_factory, init=one.init, kw_only=bool(one.kw_only))
    return field(default=one.default, init=one.init, kw_only=bool(one.kw_only))
