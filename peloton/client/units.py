"""Which fields of a spec take a value with a unit: `maxRunningTime: 5m`, `memLimitMb: 2Gi`, `cpuLimit: 500m`.

A field is known by its name, which in Uber's messages says the unit, or by the kind of resource beside it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from google.protobuf.descriptor import FieldDescriptor
from yaml.nodes import MappingNode, ScalarNode

from peloton.client.matching import normalized
from peloton.client.yamltree import entries
from peloton.durations import parse_duration
from peloton.quantities import parse_cores, parse_megabytes


class Unit(NamedTuple):
    """What a field is counted in."""

    parse: Callable[[str], float]
    """Reads a value with or without its unit. Raises ValueError."""
    one: str
    """The unit of a plain number."""
    examples: str


SECONDS = Unit(parse_duration, "seconds", "300, 5m or 1h30m")
MEGABYTES = Unit(parse_megabytes, "MB", "512, 512Mi or 2Gi")
CORES = Unit(parse_cores, "cores", "0.5 or 500m")
_BY_NAME = {"maxrunningtime": SECONDS, "cpulimit": CORES, "cpu": CORES}
_BY_END = {"secs": SECONDS, "seconds": SECONDS, "mb": MEGABYTES}
_BY_KIND = {"cpu": CORES, "memory": MEGABYTES, "disk": MEGABYTES}
_OF_POOLS = ("reservation", "limit")
"""Amounts of a pool, in the unit of the kind of resource that stands beside them."""


def unit_of(field: FieldDescriptor, around: MappingNode | None) -> Unit | None:
    """Return the unit of a number; None for a plain one. `around` is the mapping that holds the field."""
    name = normalized(field.name)
    if name in _OF_POOLS and "kind" in field.containing_type.fields_by_name:
        return _BY_KIND.get(_kind(around))
    by_end = (unit for end, unit in _BY_END.items() if name.endswith(end))
    return _BY_NAME.get(name) or next(by_end, None)


def _kind(around: MappingNode | None) -> str:
    pairs = entries(around) if around is not None else ()
    named = {normalized(key.value): value for key, value in pairs if isinstance(key, ScalarNode)}
    found = named.get("kind")
    return str(found.value) if isinstance(found, ScalarNode) else ""
