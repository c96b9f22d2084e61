"""Columns of numbers that a function of a plug-in returns, one for each row that it was given."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Column = NDArray[np.int64] | NDArray[np.float64]


def column(values: ArrayLike, rows: int, what: str) -> Column:
    """Return values as a column of `rows` numbers: int64 or float64.

    `what` names them in errors. Raises ValueError for another shape, for what is no number, and for NaN.
    """
    found = np.asarray(values)
    if found.shape != (rows,):
        raise ValueError(
            f"{what}: an array of shape {found.shape}: should be ({rows},), a number for each row"
        )
    if found.dtype.kind in "bi":
        return found.astype(np.int64)
    if found.dtype.kind not in "uf":
        raise ValueError(f"{what}: an array of {found.dtype}: should be numbers")
    numbers = found.astype(np.float64)
    if np.isnan(numbers).any():
        at = int(np.flatnonzero(np.isnan(numbers))[0])
        raise ValueError(f"{what}: NaN in row {at}: should be numbers that can be compared")
    return numbers
