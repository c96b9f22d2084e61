"""docker-compose.yml as a test reads it: variables filled with their defaults, commands as they are run."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[3]
Service = dict[str, Any]
_VARIABLE = re.compile(r"\$\{\w+:-([^}]*)\}")


def document() -> dict[str, Any]:
    text = _VARIABLE.sub(r"\1", (ROOT / "docker-compose.yml").read_text())
    loaded: dict[str, Any] = yaml.safe_load(text.replace("$$", "$"))
    return loaded


def services() -> dict[str, Service]:
    found: dict[str, Service] = document()["services"]
    return found


def health_test(service: Service) -> list[str]:
    """What a health check executes; empty where there is none."""
    kind, *command = service["healthcheck"].get("test", ["NONE"])
    assert kind in ("CMD", "NONE"), kind
    return list(command)
