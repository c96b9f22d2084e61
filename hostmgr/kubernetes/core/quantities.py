"""Amounts of Kubernetes: `500m`, `1.5Gi`, `12e6` (Kubernetes API: `Quantity`)."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from fractions import Fraction
from functools import lru_cache

from peloton.model.resources import MILLI, Resources

_QUANTITY = re.compile(
    r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:[eE]([+-]?\d{1,3})|([numkMGTPE]|[KMGTPE]i)?)", re.ASCII
)
_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}
MEGABYTE = 2**20
CPU, MEMORY, DISK, GPU = "cpu", "memory", "ephemeral-storage", "nvidia.com/gpu"
"""Names in Kubernetes of the resources that Peloton counts; others are ignored."""
_UNITS = ((CPU, 1), (MEMORY, MEGABYTE), (DISK, MEGABYTE), (GPU, 1))


@lru_cache(10_000)
def quantity(text: str) -> Fraction:
    """Return an amount. Raises ValueError for anything else."""
    found = _QUANTITY.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is not a quantity of Kubernetes, such as 500m or 2Gi")
    number, exponent, suffix = Fraction(found[1]), found[2], found[3] or ""
    if exponent is not None:
        return number * Fraction(10) ** int(exponent)
    return number * (2 ** _BINARY[suffix] if suffix in _BINARY else Fraction(10) ** _DECIMAL[suffix])


def offered(amounts: Mapping[str, object]) -> Resources:
    """Return amounts that can be had, rounded down to thousandths. Raises ValueError."""
    return Resources(*(math.floor(_thousandths(amounts, name, unit)) for name, unit in _UNITS))


def requested(amounts: Mapping[str, object]) -> Resources:
    """Return amounts that are taken, rounded up to thousandths. Raises ValueError."""
    return Resources(*(math.ceil(_thousandths(amounts, name, unit)) for name, unit in _UNITS))


def limits_of(hard: Iterable[Mapping[str, object]]) -> dict[str, int]:
    """Return the least of what ResourceQuotas allow to request: thousandths by kind. Raises ValueError.

    A quota names `requests.cpu`, or `cpu` for the same.
    """
    found: dict[str, int] = {}
    for each in hard:
        for kind, (name, unit) in zip(("cpu", "memory", "disk", "gpu"), _UNITS, strict=True):
            for key in (f"requests.{name}", name):
                if key in each:
                    amount = math.floor(_thousandths(each, key, unit))
                    found[kind] = min(amount, found.get(kind, amount))
    return found


def amounts_of(resources: Resources) -> dict[str, str]:
    """Return amounts as a pod requests them, without zeros."""
    cpu, memory, disk, gpu = resources.values()
    found = {CPU: f"{cpu}m"} if cpu else {}
    for name, amount in ((MEMORY, memory), (DISK, disk)):
        if amount:
            found[name] = str(math.ceil(Fraction(amount * MEGABYTE, MILLI)))
    if gpu:
        found[GPU] = str(math.ceil(Fraction(gpu, MILLI)))
    return found


def _thousandths(amounts: Mapping[str, object], name: str, unit: int) -> Fraction:
    return quantity(str(amounts.get(name, "0"))) * MILLI / unit
