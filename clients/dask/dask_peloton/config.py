"""Settings: the section `peloton` of Dask's configuration, and what a program says instead."""

from __future__ import annotations

import math
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

import dask.config
import yaml
from dask.utils import parse_bytes, parse_timedelta

FILE = Path(__file__).with_name("peloton.yaml")
DEFAULT_POOL = "/DefaultResPool"
LOOPBACK = "127.0.0.1"

dask.config.ensure_file(source=str(FILE))
dask.config.update_defaults(yaml.safe_load(FILE.read_text()))


@dataclass(frozen=True, slots=True)
class Settings:
    """What a cluster is made by. Times are in seconds, memory and disk in bytes."""

    name: str
    pool: str
    team: str
    priority: int
    preemptible: bool
    revocable: bool
    spec: Mapping[str, Any] | str | Path | None
    cores: float
    nthreads: int
    memory: int
    disk: int
    gpus: float
    env: Mapping[str, str]
    python: str
    nanny: bool
    worker_extra_args: Sequence[str]
    local_directory: str
    """Empty: the sandbox."""
    death_timeout: float
    max_failures: int
    grace: float
    host: str
    """Empty: loopback, or all interfaces where TLS is required."""
    scheduler_options: Mapping[str, Any]
    client: Mapping[str, Any]
    close_timeout: float
    explain_after: float


def read_settings(given: Mapping[str, Any]) -> Settings:
    """Return the settings: what is given and not None, else what Dask's configuration says.

    Raises TypeError for an unknown name, ValueError for a value that is wrong.
    """
    names = [field.name for field in fields(Settings)]
    if unknown := sorted(set(given) - set(names)):
        raise TypeError(f"{', '.join(unknown)}: no settings of a cluster; there are {', '.join(names)}")
    found = {name: dask.config.get(f"peloton.{name.replace('_', '-')}") for name in names}
    found.update({name: value for name, value in given.items() if value is not None})
    cores = _number("cores", found["cores"])
    threads = found["nthreads"]
    extra = found["worker_extra_args"]
    return Settings(
        **{
            **found,
            "pool": found["pool"] or os.environ.get("PELOTON_POOL") or DEFAULT_POOL,
            "cores": cores,
            "nthreads": max(1, math.floor(cores)) if threads is None else _whole("nthreads", threads, 1),
            "gpus": _number("gpus", found["gpus"], least=0.0),
            "memory": _bytes("memory", found["memory"], least=1),
            "disk": _bytes("disk", found["disk"], least=0),
            "priority": _whole("priority", found["priority"], 0),
            "max_failures": _whole("max-failures", found["max_failures"], 0),
            "env": _texts(found["env"]),
            "python": found["python"] or sys.executable,
            "worker_extra_args": shlex.split(extra) if isinstance(extra, str) else [*map(str, extra)],
            "local_directory": found["local_directory"] or "",
            "host": found["host"] or "",
            **{
                name: _seconds(name, found[name])
                for name in ("death_timeout", "grace", "close_timeout", "explain_after")
            },
        }
    )


def _number(name: str, value: object, least: float | None = None) -> float:
    """Return a number: at least `least`, or more than 0 where that is None."""
    fits = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not fits or (value <= 0 if least is None else value < least):  # type: ignore[operator]
        raise ValueError(f"{name}: {value!r} is not a number {'above 0' if least is None else f'>= {least}'}")
    return float(value)  # type: ignore[arg-type]


def _whole(name: str, value: object, least: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise ValueError(f"{name}: {value!r} is not a whole number >= {least}")
    return value


def _bytes(name: str, value: object, least: int) -> int:
    try:
        found = parse_bytes(value)
    except (ValueError, TypeError, AttributeError):
        found = -1
    if found < least:
        raise ValueError(f"{name}: {value!r} is not an amount such as '4 GiB'")
    return int(found)


def _seconds(name: str, value: object) -> float:
    try:
        found = parse_timedelta(value)
    except (ValueError, TypeError, KeyError, AttributeError):
        found = None
    if found is None or found < 0:
        raise ValueError(f"{name.replace('_', '-')}: {value!r} is not a time such as '30 s'")
    return float(found)


def _texts(env: object) -> dict[str, str]:
    if not isinstance(env, Mapping) or not all(isinstance(key, str) for key in env):
        raise ValueError(f"env: {env!r} is not a mapping of names to values")
    return {key: str(value) for key, value in env.items()}
