"""The options of the daemons, by a file of settings of the real resource manager."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError

from peloton.errors import InvalidArgument
from resmgr.config import ResmgrSettings
from simulator.daemons.resmgr_term import ResmgrOptions
from simulator.simulation import Options

_NO_STORE = {"storage": {"path": "unused"}}


def options_of(path: Path | None) -> Options:
    """Return the options; those that ship where no file is given. Raises InvalidArgument, and OSError."""
    settings = _settings(path)
    return Options(
        resmgr=ResmgrOptions(
            limits=settings.limits,
            rules=settings.preemption.rules,
            admission_interval=settings.admission.interval,
            admission_pause=settings.admission.pause,
            entitlement_interval=settings.entitlement_interval,
            preemption_period=settings.preemption.period,
            preemption_limit=settings.preemption.queue_limit,
        )
    )


def _settings(path: Path | None) -> ResmgrSettings:
    given: Any = {}
    try:
        given = yaml.safe_load(path.read_text()) if path is not None else {}
        if not isinstance(given or {}, dict):
            raise InvalidArgument(str(path), given, "a mapping of settings of the resource manager")
        return ResmgrSettings.model_validate({**(given or {}), **_NO_STORE})
    except yaml.YAMLError as error:
        raise InvalidArgument(str(path), " ".join(str(error).split()), "YAML") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"]))
        raise InvalidArgument(f"{path}: {field}", first.get("input"), first["msg"]) from None
