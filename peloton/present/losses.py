"""The work that the jobs of pools have lost since checkpoints, as programs show it."""

from __future__ import annotations

from collections.abc import Mapping

from peloton.model.amounts import duration


def summed(own: Mapping[str, float], paths: Mapping[str, str]) -> Mapping[str, float]:
    """Return seconds by the paths of all pools, each with the pools below. `own` has them by ids."""
    found = dict.fromkeys(paths.values(), 0.0)
    for pool_id, seconds in own.items():
        path = paths.get(pool_id)
        while path:
            found[path] = found.get(path, 0.0) + seconds
            path = None if path == "/" else path.rpartition("/")[0] or "/"
    return found


def loss_text(seconds: float | None) -> str:
    """Return lost seconds as text; `?` where they are not known, empty where none are."""
    if seconds is None:
        return "?"
    return duration(seconds) if seconds else ""
