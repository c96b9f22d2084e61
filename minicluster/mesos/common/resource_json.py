"""Resources and attributes as the ``/state`` endpoints of master and agent show them.

Source: recording ``12-operator``.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from mesos.v1 import mesos_pb2 as mesos
from minicluster.mesos.common import resources as res

Json = dict[str, Any]


def flat(bundle: res.Bundle) -> Json:
    """Return the sums of a bundle by name; ranges and sets as text."""
    out: Json = {"disk": 0.0, "mem": 0.0, "gpus": 0.0, "cpus": 0.0}
    for kind, quantity in bundle.items():
        if isinstance(quantity, int):
            out[kind.name] = out.get(kind.name, 0.0) + quantity / 1000
        else:
            out[kind.name] = res.quantity_text(quantity)
    return out


def attributes(items: Iterable[mesos.Attribute]) -> Json:
    """Return attributes by name, ranges as text."""
    out: Json = {}
    for item in items:
        if item.type == mesos.Value.SCALAR:
            out[item.name] = item.scalar.value
        elif item.type == mesos.Value.RANGES:
            ranges = tuple((each.begin, each.end) for each in item.ranges.range)
            out[item.name] = res.quantity_text(ranges)
        else:
            out[item.name] = item.text.value
    return out
