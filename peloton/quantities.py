"""Amounts as text with a unit: memory and disk in MB (`32Mi`, `2Gi`, `1.5GB`), cores (`500m`).

MB are those of Mesos, of 1,048,576 bytes, and a GB has 1,024 of them, as everywhere in Peloton. `512M` is
refused: it has 512 * 10^6 bytes with Kubernetes, and 512 * 2^20 with Docker.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

_QUANTITY = re.compile(r"(\d+(?:\.\d*)?|\.\d+) ?([A-Za-z]*)", re.ASCII)
_MEGABYTES = {
    "": 1.0,
    "Ki": 1 / 1024,
    "Mi": 1.0,
    "Gi": 1024.0,
    "Ti": 1024.0**2,
    "KB": 1 / 1024,
    "MB": 1.0,
    "GB": 1024.0,
    "TB": 1024.0**2,
}
_CORES = {"": 1.0, "m": 0.001}


def parse_megabytes(text: str) -> float:
    """Return an amount of memory or disk in MB; a plain number has this unit. Raises ValueError."""
    return _parse(text, _MEGABYTES, "an amount in MB, such as 512, 512Mi or 2Gi")


def parse_cores(text: str) -> float:
    """Return a number of cores: `0.5`, or `500m` for 500 thousandths. Raises ValueError."""
    return _parse(text, _CORES, "a number of cores, such as 0.5 or 500m")


def _parse(text: str, units: Mapping[str, float], expected: str) -> float:
    found = _QUANTITY.fullmatch(text.strip())
    if found is None or found[2] not in units:
        raise ValueError(f"{text!r} is not {expected}")
    return float(found[1]) * units[found[2]]
