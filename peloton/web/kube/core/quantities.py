"""Quantities of Kubernetes: `500m` cores, `64Mi` or `1G` bytes."""

from __future__ import annotations

import re
from decimal import Decimal

MEGABYTE_BYTES = 2**20
"""Bytes of a MB as Peloton counts them."""
MOST_DIGITS = 64
LARGEST, LARGEST_TEXT = 10**18, "1E"
_FORM = re.compile(r"([+-]?(?:\d+(?:\.\d*)?|\.\d+))(?:([KMGTPE]i|[numkMGTPE])|[eE]([+-]?\d{1,3}))?", re.ASCII)
_FACTORS = {
    **{f"{unit}i": Decimal(1024) ** power for power, unit in enumerate("KMGTPE", 1)},
    **{unit: Decimal(1000) ** power for power, unit in enumerate("kMGTPE", 1)},
    "m": Decimal("0.001"), "u": Decimal("0.000001"), "n": Decimal("0.000000001"),
}  # fmt: skip


def quantity(value: object) -> float:
    """Return a quantity. Raises ValueError for what is none, or negative."""
    found = _FORM.fullmatch(str(value)) if isinstance(value, str | int | float) else None
    if found is None or isinstance(value, bool):
        raise ValueError(f"{value!r} is no quantity, such as 500m, 64Mi or 2")
    if len(found[1]) > MOST_DIGITS:
        raise ValueError(f"a quantity has at most {MOST_DIGITS} digits")
    number = Decimal(found[1])
    if found[2]:
        number *= _FACTORS[found[2]]
    elif found[3]:
        number = number.scaleb(int(found[3]))
    if number < 0:
        raise ValueError(f"{value!r} is negative")
    if number > LARGEST:
        raise ValueError(f"{value!r} is more than {LARGEST_TEXT}")
    return float(number)


def megabytes(value: object) -> float:
    """Return a quantity of bytes in MB. Raises ValueError."""
    return quantity(value) / MEGABYTE_BYTES


def cores_text(cores: float) -> str:
    """Return a number of cores as Kubernetes writes it: `2`, `500m`."""
    thousandths = round(cores * 1000)
    return f"{thousandths}m" if thousandths % 1000 else str(thousandths // 1000)


def megabytes_text(amount: float) -> str:
    """Return MB as Kubernetes writes bytes: `64Mi`, `2Gi`."""
    whole = round(amount)
    return f"{whole // 1024}Gi" if whole and whole % 1024 == 0 else f"{whole}Mi"
