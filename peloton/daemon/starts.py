"""Follow how often daemons start again, by the membership."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NoReturn

from peloton.clock import Clock
from peloton.membership.interface import Group, Membership
from peloton.membership.starts import Starts
from peloton.model.problems import Problem


class FollowedStarts:
    """Looks whenever the membership changes, and tells what starts often."""

    def __init__(self, membership: Membership, groups: Callable[[], Iterable[Group]], clock: Clock) -> None:
        """Follow the processes of `groups`, which may change."""
        self._membership = membership
        self._groups = groups
        self._clock = clock
        self._starts = Starts()

    async def run(self) -> NoReturn:
        """Look until cancelled."""
        while True:
            found = (self._membership.members(*group) for group in self._groups())
            self._starts.look((process for members in found for process in members), self._clock.monotonic())
            await self._membership.changed()

    async def problems(self) -> list[Problem]:
        """Return what starts often."""
        return self._starts.problems(self._clock.monotonic())
