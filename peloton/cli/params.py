"""Types of arguments and flags: durations, ranges, labels, states."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable
from typing import Any

import click
from click.shell_completion import CompletionItem

from peloton.durations import parse_duration
from peloton.errors import shown
from peloton.present.times import parse_time
from peloton.quantities import parse_cores, parse_megabytes

_DAY = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DAY_SECONDS, _LONGEST_DAYS = 86400, 4000
_RANGE = re.compile(r"(\d{0,10}):(\d{0,10})\Z")
_NUMBER = re.compile(r"\d{1,10}\Z")
LAST_INSTANCE = 2**31 - 1
UINT32_MAX, UINT64_MAX = 2**32 - 1, 2**64 - 1
"""Largest numbers of fields of the wire interface."""


class WholeNumber(click.IntRange):
    """A whole number from `min` to `max`; a refusal names both bounds."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a number and check its bounds."""
        try:
            return int(super().convert(value, param, ctx))
        except click.BadParameter:
            self.fail(f"{shown(value)} is not a whole number from {self.min} to {self.max}", param, ctx)


class Offset(WholeNumber):
    """A number behind `-o`, where most commands take a form of the output."""

    def __init__(self) -> None:
        super().__init__(0, UINT32_MAX)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Parse a number; tell how to say what was meant otherwise."""
        if value in ("table", "wide", "json", "yaml", "name", "csv"):
            self.fail(f"-o is --offset here: give --output {value}", param, ctx)
        return super().convert(value, param, ctx)


COUNT = WholeNumber(1, UINT32_MAX)
INDEX = WholeNumber(0, UINT32_MAX)


class Duration(click.ParamType[float]):
    """Seconds from `20s`, `5m`, `1m30s`, `500ms` or a plain number."""

    name = "duration"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse a duration; a number is taken as seconds."""
        if isinstance(value, int | float):
            return float(value)
        try:
            seconds = parse_duration(str(value))
        except ValueError:
            self.fail(f"{value!r} is not a duration, such as 20s or 5m", param, ctx)
        if not 0 < seconds <= 10**7:
            self.fail(f"{value!r} is not longer than nothing and shorter than 115 days", param, ctx)
        return seconds


class Moment(click.ParamType[float]):
    """A time as seconds since 1970: `7d`, `12h` or `1d12h` ago, `2026-01-31`, `2026-01-31T12:00:00Z`."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse a time; a day begins at midnight in UTC."""
        if isinstance(value, int | float):
            return float(value)
        text = str(value).strip()
        if _DAY.fullmatch(text):
            text = f"{text}T00:00:00Z"
        if (at := parse_time(text)) is not None:
            return at
        days, _, rest = text.rpartition("d")
        try:
            ago = (int(days) if days else 0) * _DAY_SECONDS + (parse_duration(rest) if rest else 0.0)
        except ValueError:
            ago = -1.0
        if not 0 < ago <= _LONGEST_DAYS * _DAY_SECONDS:
            self.fail(
                f"{value!r} is not a time, such as 7d or 12h ago, up to {_LONGEST_DAYS} days, or 2026-01-31",
                param,
                ctx,
            )
        return time.time() - ago


class Amount(click.ParamType[float]):
    """An amount of a resource: 0 or more, and finite; `parse` reads one with a unit."""

    name = "amount"

    def __init__(self, parse: Callable[[str], float] = float, examples: str = "") -> None:
        self._parse = parse
        self._examples = examples

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse an amount."""
        try:
            amount = self._parse(str(value))
        except ValueError:
            amount = -1
        if not 0 <= amount < math.inf:
            self.fail(f"{value!r} is not a number of 0 or more{self._examples}", param, ctx)
        return amount


CORES = Amount(parse_cores, ", such as 0.5 or 500m")
MEGABYTES = Amount(parse_megabytes, ", in MB or with a unit, such as 512 or 2Gi")


class InstanceRange(click.ParamType[tuple[int, int]]):
    """`from:to`, `to` being the first one left out; `3` is `3:4`, `:5` begins at 0, `5:` goes to the end."""

    name = "from:to"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[int, int]:
        """Parse a range into its first instance and the one after its last."""
        if isinstance(value, tuple):
            return value
        text = str(value)
        if text.isascii() and _NUMBER.match(text):
            text = f"{text}:{int(text) + 1}"
        found = _RANGE.match(text)
        if found is None or not text.isascii():
            self.fail(f"{value!r} is not a range of instances, such as 0:10", param, ctx)
        low, high = int(found[1] or 0), int(found[2] or LAST_INSTANCE)
        if not low < high <= LAST_INSTANCE:
            self.fail(
                f"{value!r} is empty: `to` is the first instance left out and at most {LAST_INSTANCE}",
                param,
                ctx,
            )
        return low, high


class EnumName(click.ParamType[list[int]]):
    """A comma-separated list of an enum's names, without case and prefix; the enum is loaded when needed."""

    name = "states"

    def __init__(self, enum: Callable[[], Any]) -> None:
        self._enum = enum

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Parse names into the numbers of the enum."""
        if isinstance(value, list):
            return value
        from peloton.client.matching import enum_numbers, normalized, short_names, suggestion

        descriptor = self._enum()
        numbers, names = enum_numbers(descriptor), short_names(descriptor)
        found: list[int] = []
        for part in split(value):
            number = numbers.get(normalized(part))
            if number is None:
                hint = suggestion(part, names)
                self.fail(f"{part!r} is not one of {', '.join(names)}{hint}", param, ctx)
            found.append(number)
        return found

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """Complete the last name of the list."""
        from peloton.client.matching import short_names

        before, comma, last = incomplete.rpartition(",")
        names = short_names(self._enum())
        return [CompletionItem(f"{before}{comma}{each}") for each in names if each.startswith(last.upper())]


class Labels(click.ParamType[list[tuple[str, str]]]):
    """`key=value,key=value`."""

    name = "key=value,…"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[tuple[str, str]]:
        """Parse labels into pairs of key and value."""
        if isinstance(value, list):
            return value
        pairs = [part.partition("=") for part in split(value)]
        if any(not key or not equals for key, equals, _ in pairs):
            self.fail(f"{value!r} is not labels, such as team=data,tier=1", param, ctx)
        return [(key, text) for key, _, text in pairs]


class Words(click.ParamType[list[str]]):
    """A comma-separated list."""

    name = "a,b,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[str]:
        """Split the list."""
        return value if isinstance(value, list) else split(value)


class Instances(click.ParamType[list[int]]):
    """A comma-separated list of instance ids."""

    name = "0,1,…"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> list[int]:
        """Parse the ids."""
        if isinstance(value, list):
            return value
        words = split(value)
        for word in words:
            if not (word.isascii() and word.isdecimal()) or int(word) >= LAST_INSTANCE:
                self.fail(f"{word!r} is not the id of an instance, such as 0", param, ctx)
        return [int(word) for word in words]


def split(value: str) -> list[str]:
    """Return the parts of a comma-separated list, without blanks and empty ones."""
    return [part.strip() for part in value.split(",") if part.strip()]


DRY_RUN = click.option(
    "--dry-run",
    is_flag=True,
    help="Create nothing; show where instances would go, what would wait or be preempted, and until when.",
)
