"""Dataclasses made by ``fast_init`` are as they would be without it."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from peloton.fast_init import fast_init


@dataclass(frozen=True, slots=True)
class _Slow:
    name: str
    number: int = 3
    texts: list[str] = field(default_factory=list)
    hidden: int = field(default=5, init=False)
    only: str = field(default="k", kw_only=True)


@fast_init
@dataclass(frozen=True, slots=True)
class _Fast:
    name: str
    number: int = 3
    texts: list[str] = field(default_factory=list)
    hidden: int = field(default=5, init=False)
    only: str = field(default="k", kw_only=True)


@fast_init
@dataclass(frozen=True, slots=True)
class _Key:
    name: str


def test_fields_and_defaults_are_the_same() -> None:
    assert repr(_Fast("a")) == repr(_Slow("a")).replace("_Slow", "_Fast")
    changed = _Fast("a", 4, ["x"], only="z")
    assert (changed.name, changed.number, changed.texts, changed.hidden, changed.only) == (
        "a",
        4,
        ["x"],
        5,
        "z",
    )
    assert replace(_Key("a"), name="b") == _Key("b")
    assert _Fast("a").texts is not _Fast("a").texts


def test_equal_records_are_one_key() -> None:
    assert {_Key("a"): 1}[_Key("a")] == 1
    assert _Key("a") != _Key("b")


@pytest.mark.parametrize("arguments", [(), ("a", 1, [], 5)], ids=["too few", "too many"])
def test_arguments_are_checked(arguments: tuple[object, ...]) -> None:
    with pytest.raises(TypeError):
        _Fast(*arguments)  # type: ignore[arg-type]


def test_post_init_is_refused() -> None:
    @dataclass(frozen=True, slots=True)
    class Checked:
        name: str

        def __post_init__(self) -> None:
            raise ValueError(self.name)

    with pytest.raises(TypeError, match="Checked has __post_init__"):
        fast_init(Checked)
