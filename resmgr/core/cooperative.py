"""Long decisions in steps, so that whoever drives them can let others have a turn between two."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Ends with a T. Each step takes some ten milliseconds, whatever the number of tasks."""
