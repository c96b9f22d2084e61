"""Long decisions as generators of short steps, so that other work can run between two steps."""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeVar

T = TypeVar("T")
Steps = Generator[None, None, T]
"""Returns a T. Each step takes about ten milliseconds, whatever the number of tasks."""
