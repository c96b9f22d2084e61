"""JSON objects."""

from __future__ import annotations

from typing import Any

Object = dict[str, Any]
"""An object of Kubernetes, or a part of one."""
