"""Amounts over time, such as cores and memory in use, in a bounded number of points."""

from __future__ import annotations

from array import array
from collections.abc import Iterator, Sequence

MOST_POINTS = 60


class Course:
    """Mean amounts over spans of time that follow on each other.

    Where there are more than `most` points, each two become one: so the course is always whole, from its
    begin on, and its points are the longer the older it is.
    """

    __slots__ = ("_most", "_rows", "_width", "begin", "span")

    def __init__(self, begin: float, width: int, most: int = MOST_POINTS, span: float = 0.0) -> None:
        """Begin at a time in seconds since 1970, with `width` amounts. Points are `span` seconds at least."""
        assert most >= 2 and width >= 1, f"{most} points of {width} amounts are no course"
        self.begin = begin
        self.span = span
        self._width = width + 1
        self._most = most
        self._rows = array("f")
        """Of each point, the seconds from the begin to its end, and its amounts."""

    def add(self, until: float, amounts: Sequence[float]) -> None:
        """Take the mean amounts from the end of the last span to `until`; what is not later is left out."""
        assert len(amounts) == self._width - 1, f"{len(amounts)} amounts are not {self._width - 1}"
        end = until - self.begin
        last = len(self) - 1
        if end <= self._end(last):
            return
        if last >= 0 and end - self._end(last - 1) <= self.span:
            self._widen(last, end, amounts)
            return
        self._rows.extend((end, *amounts))
        if len(self) > self._most:
            self._halve()

    def __len__(self) -> int:
        return len(self._rows) // self._width

    def points(self) -> Iterator[tuple[float, list[float]]]:
        """Yield the points in order: when each ends, in seconds since 1970, and its amounts."""
        for at in range(0, len(self._rows), self._width):
            yield self.begin + self._rows[at], list(self._rows[at + 1 : at + self._width])

    def _end(self, point: int) -> float:
        return self._rows[point * self._width] if point >= 0 else 0.0

    def _widen(self, point: int, end: float, amounts: Sequence[float]) -> None:
        """Let a point reach to a later end."""
        start, old = self._end(point - 1), self._end(point)
        part = (end - old) / (end - start)
        first = point * self._width
        self._rows[first] = end
        for place, amount in enumerate(amounts, first + 1):
            self._rows[place] += (amount - self._rows[place]) * part

    def _halve(self) -> None:
        """Make one point of each two; a last one without a partner stays as it is."""
        rows, width = self._rows, self._width
        self._rows = array("f")
        for at in range(0, len(rows), 2 * width):
            self._rows.extend(rows[at : at + width])
            second = at + width
            if second < len(rows):
                self._widen(len(self) - 1, rows[second], rows[second + 1 : second + width])
        self.span = 2 * max(self.span, self._end(len(self) - 1) / self._most)
