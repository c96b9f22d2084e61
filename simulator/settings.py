"""The options of the daemons, by files of settings of the real resource manager and placement engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

import yaml

from peloton.config.loading import validated
from peloton.config.settings import DaemonSettings
from peloton.errors import InvalidArgument
from placement.config import PlacementSettings
from resmgr.config import ResmgrSettings
from simulator.daemons.resmgr_term import ResmgrOptions
from simulator.simulation import Options

_NO_STORE = {"storage": {"path": "unused"}}
_Daemon = TypeVar("_Daemon", bound=DaemonSettings)


def options_of(resmgr: Path | None, placement: Path | None = None) -> Options:
    """Return the options; those that ship where no file is given.

    Raises InvalidArgument, ConfigError, OSError.
    """
    settings = _settings(ResmgrSettings, resmgr, "the resource manager", _NO_STORE)
    engine = _settings(PlacementSettings, placement, "a placement engine", {})
    return Options(
        placement=engine.rules,
        resmgr=ResmgrOptions(
            limits=settings.limits,
            rules=settings.preemption.rules,
            policies=settings.policies,
            admission_interval=settings.admission.interval,
            admission_pause=settings.admission.pause,
            entitlement_interval=settings.entitlement_interval,
            preemption_period=settings.preemption.period,
            preemption_limit=settings.preemption.queue_limit,
        ),
    )


def _settings(cls: type[_Daemon], path: Path | None, whose: str, fixed: dict[str, Any]) -> _Daemon:
    try:
        given: Any = (yaml.safe_load(path.read_text()) if path is not None else None) or {}
        if not isinstance(given, dict):
            raise InvalidArgument(str(path), given, f"a mapping of settings of {whose}")
        return validated(cls, {**given, **fixed}, str(path))
    except yaml.YAMLError as error:
        raise InvalidArgument(str(path), " ".join(str(error).split()), "YAML") from None
