"""Types of numbers with bounds, for the settings of the cores.

Who makes such settings by hand keeps to the bounds; pydantic checks them in what is read from files.
"""

from __future__ import annotations

from typing import Annotated

from annotated_types import Ge, Gt, Le

Positive = Annotated[float, Gt(0)]
NotNegative = Annotated[float, Ge(0)]
Count = Annotated[int, Ge(0)]
Batch = Annotated[int, Ge(1), Le(50_000)]
"""A number of rows that are handled at once."""
