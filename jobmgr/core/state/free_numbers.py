"""The numbers of a batch job that have no instance: those of instances that were released and have ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator

from sortedcontainers import SortedList


class FreeNumbers:
    """Free numbers in order. Jobs that release nothing have none, and no list of them."""

    __slots__ = ("_numbers",)

    def __init__(self) -> None:
        self._numbers: SortedList[int] | None = None

    def __len__(self) -> int:
        return 0 if self._numbers is None else len(self._numbers)

    def __iter__(self) -> Iterator[int]:
        return iter(self._numbers or ())

    def add(self, numbers: Iterable[int]) -> None:
        """Add numbers that are not free yet."""
        if self._numbers is None:
            self._numbers = SortedList()
        self._numbers.update(numbers)

    def take(self, numbers: Collection[int]) -> None:
        """Remove numbers that are free. Raises ValueError for another one."""
        held = self._numbers
        for number in numbers:
            if held is None:
                raise ValueError(f"{number} is not free: no number is")
            held.remove(number)
        if not held:
            self._numbers = None
