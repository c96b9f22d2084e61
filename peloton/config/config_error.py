"""The error of a wrong setting, for what the Python client takes along too: without pydantic."""

from __future__ import annotations

from peloton.errors import PelotonError


class ConfigError(PelotonError):
    """A setting is wrong; the message names it, its value and what would be right, one line per setting."""
