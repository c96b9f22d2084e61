"""The bodies of blocks of samples: names of subjects, and for each its values by column and time."""

from __future__ import annotations

import json
import logging
import zlib
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from peloton.model.history import HistoryBlock

Values = NDArray[np.float32]
"""Of one subject, of shape (samples, columns); NaN where nothing was measured."""
PartOf = Callable[[str], int]
MINUTE, HOUR, DAY = 60, 3600, 86_400
FINE = 5 * MINUTE
"""Seconds of a sample in blocks of an hour."""
PARTS = 16
"""Blocks of one begin, at most."""
log = logging.getLogger(__name__)


def part_of(subject: str) -> int:
    """Return the part of a subject where these are spread by their names."""
    return zlib.crc32(subject.encode()) % PARTS


def blocks_of(
    scope: str,
    columns: Sequence[str],
    step: int,
    start: int,
    values: Mapping[str, Values],
    part: PartOf = part_of,
) -> list[HistoryBlock]:
    """Return the blocks of one begin. Subjects without a value are left out."""
    parts: dict[int, list[str]] = {}
    for subject, some in values.items():
        if not np.isnan(some).all():
            parts.setdefault(part(subject), []).append(subject)
    return [
        HistoryBlock(scope, step, start, number, encoded(columns, {each: values[each] for each in some}))
        for number, some in sorted(parts.items())
    ]


def encoded(columns: Sequence[str], values: Mapping[str, Values]) -> bytes:
    """Return the body of a block: names as a line of JSON, then numbers by subject, column and time."""
    head = json.dumps({"columns": list(columns), "subjects": list(values)}, separators=(",", ":"))
    numbers = np.stack([each.T for each in values.values()]).astype("<f4")
    return zlib.compress(head.encode() + b"\n" + numbers.tobytes(), 1)


def decoded(block: HistoryBlock, columns: Sequence[str]) -> dict[str, Values]:
    """Return the values of a block by subject; NaN in columns that its writer did not have.

    A block that cannot be read is logged, and has none.
    """
    try:
        return _decoded(block.body, columns)
    except (ValueError, KeyError, TypeError, zlib.error) as error:
        log.warning("a block of the history of the %s cannot be read: %r", block.scope, error)
        return {}


def _decoded(body: bytes, columns: Sequence[str]) -> dict[str, Values]:
    head, _, numbers = zlib.decompress(body).partition(b"\n")
    names: dict[str, list[str]] = json.loads(head)
    held, subjects = names["columns"], names["subjects"]
    shaped = np.frombuffer(numbers, "<f4").reshape(len(subjects), len(held), -1)
    found = np.full((len(subjects), shaped.shape[2], len(columns)), np.nan, np.float32)
    for place, column in enumerate(columns):
        if column in held:
            found[:, :, place] = shaped[:, held.index(column), :]
    return dict(zip(subjects, found, strict=True))


def joined(
    rows: Sequence[HistoryBlock],
    columns: Sequence[str],
    starts: Sequence[int],
    each: int,
    subject: str | None = None,
) -> dict[str, Values]:
    """Return the values by subject of blocks with `each` samples that follow on each other.

    Where a subject is named, of that one alone.
    """
    places = {start: at * each for at, start in enumerate(starts)}
    found: dict[str, Values] = {}
    for row in rows:
        values = decoded(row, columns)
        if subject is not None:
            values = {subject: values[subject]} if subject in values else {}
        at = places[row.start]
        for name, some in values.items():
            if len(some) == each:
                if name not in found:
                    found[name] = np.full((len(starts) * each, len(columns)), np.nan, np.float32)
                found[name][at : at + each] = some
    return found


def hours_of(fine: Mapping[str, Values]) -> dict[str, Values]:
    """Return means of hours of means of five minutes; NaN where there is none."""
    found = {}
    for subject, values in fine.items():
        by_hour = values.reshape(-1, HOUR // FINE, values.shape[1])
        known = ~np.isnan(by_hour)
        counts = known.sum(axis=1)
        mean = np.full(counts.shape, np.nan, np.float32)
        np.divide(np.where(known, by_hour, 0).sum(axis=1), counts, out=mean, where=counts > 0)
        found[subject] = mean
    return found


def overlaid(known: Mapping[str, Values], newer: Mapping[str, Values]) -> dict[str, Values]:
    """Return the values that are known, and newer ones where there are some."""
    found = dict(known)
    for subject, values in newer.items():
        if subject in found and len(found[subject]) == len(values):
            values = np.where(np.isnan(values), found[subject], values)
        found[subject] = values
    return found
