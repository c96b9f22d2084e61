"""Mesos' text notation of resources (``cpus:4;mem(role):512;ports:[1-9];slots:{a,b}``) and attributes.

Each error names the value and what would be right.
"""

from __future__ import annotations

import re

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import resources as res

_NAME = re.compile(r"^(?P<name>[^\s():;{}\[\]]+)(?:\((?P<role>[^()]*)\))?(?P<rev>\{REV\})?$")
_RIGHT = "for example cpus:4;mem:2048;mem(role):512;disk:20000;ports:[31000-32000];slots:{a,b}"
_RIGHT_ATTRIBUTES = "for example rack:r1;level:2.5;spans:[1-10,20-30]"


class NotationError(ValueError):
    """A resource or attribute string that cannot be read."""


def _split(text: str) -> list[str]:
    return [part.strip() for part in text.replace("\n", ";").split(";") if part.strip()]


def _ranges(value: str, whole: str) -> res.Ranges:
    pairs = []
    for part in value[1:-1].split(","):
        match = re.fullmatch(r"\s*(\d+)\s*-\s*(\d+)\s*", part)
        if match is None or int(match[1]) > int(match[2]):
            raise NotationError(
                f"'{whole}': '{part.strip()}' is no range; right is begin-end with begin <= end"
            )
        pairs.append((int(match[1]), int(match[2])))
    return res.merge(pairs)


def _scalar(value: str, whole: str) -> int:
    try:
        number = float(value)
    except ValueError:
        raise NotationError(f"'{whole}': '{value}' is no number; right is {_RIGHT}") from None
    if not 0 <= number < 1e15:
        raise NotationError(f"'{whole}': {value} is out of range; right is a number from 0 on")
    return res.thousandths(number)


def _quantity(value: str, whole: str) -> res.Quantity:
    if value.startswith("[") and value.endswith("]"):
        return _ranges(value, whole)
    if value.startswith("{") and value.endswith("}"):
        items = [item.strip() for item in value[1:-1].split(",")]
        if not all(items) or len(set(items)) != len(items):
            raise NotationError(f"'{whole}': '{value}' has empty or repeated items; right is {{a,b}}")
        return frozenset(items)
    return _scalar(value, whole)


def parse_resources(text: str, *, revocable: bool = False) -> res.Bundle:
    """Read a resource string.

    Raise NotationError with the part that is wrong.
    """
    out: res.Bundle = {}
    for part in _split(text):
        name, colon, value = part.partition(":")
        match = _NAME.match(name.strip())
        if not colon or match is None:
            raise NotationError(f"'{part}' is no resource; right is name:value, {_RIGHT}")
        role = match["role"] or "*"
        claims = () if role == "*" else (res.Reservation(res.STATIC, role),)
        kind = res.Kind(match["name"], claims, revocable or match["rev"] is not None)
        quantity = _quantity(value.strip(), part)
        if quantity:
            res.add(out, {kind: quantity})
    return out


def _attribute(part: str) -> mesos.Attribute:
    name, colon, value = part.partition(":")
    name, value = name.strip(), value.strip()
    if not colon or not name or not value:
        raise NotationError(f"'{part}' is no attribute; right is name:value, {_RIGHT_ATTRIBUTES}")
    attribute = mesos.Attribute(name=name)
    if value.startswith("{"):
        raise NotationError(f"Bad type for attribute '{name}': sets are for resources only")
    if value.startswith("[") and value.endswith("]"):
        attribute.type = mesos.Value.RANGES
        for begin, end in _ranges(value, part):
            attribute.ranges.range.add(begin=begin, end=end)
        return attribute
    if re.fullmatch(r"[-+]?(\d+(\.\d*)?|\.\d+)([eE][-+]?\d+)?", value):
        attribute.type = mesos.Value.SCALAR
        attribute.scalar.value = float(value)
    else:
        attribute.type = mesos.Value.TEXT
        attribute.text.value = value
    return attribute


def parse_attributes(text: str) -> list[mesos.Attribute]:
    """Read an attribute string: text, scalars or ranges.

    Raise NotationError; a set is refused, as it is by a Mesos agent (recording ``01-subscribe``).
    """
    return [_attribute(part) for part in _split(text)]
