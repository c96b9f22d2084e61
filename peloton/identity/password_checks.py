"""Passwords that wait to be hashed: which one is next, and threads for no other work.

A hash takes some 0.1 s of a core, so a flood of guesses would delay everybody's. Names that have logged in
before have a line each, all others share one; lines take turns, and each is bounded. So guesses delay the
first login of a name since the start of this process, and logins of the names that are guessed at.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from peloton.errors import ResourceExhausted
from peloton.identity.passwords import Kept

HASHES_AT_ONCE = 2
MAX_WAITING = 20
"""Passwords of a line that wait to be hashed; further ones are refused."""
OTHERS = ""
"""The line of names that have not logged in before."""
_THREADS = ThreadPoolExecutor(HASHES_AT_ONCE, "passwords")
"""Of the process: a changed file of users makes new checks, but no more threads."""


@dataclass(frozen=True, slots=True, eq=False)
class Guess:
    """A password that is to be compared with those that are kept."""

    password: str = field(repr=False)
    against: tuple[Kept, ...]
    """It is right where it matches the last; those before cost the time only."""
    answer: asyncio.Future[bool]

    def right(self) -> bool:
        """Compare it; takes a while."""
        return [kept.matches(self.password) for kept in self.against][-1]


class PasswordLines:
    """The guesses that wait, by line."""

    def __init__(self) -> None:
        self._lines: OrderedDict[str, deque[Guess]] = OrderedDict()

    def push(self, line: str, guess: Guess) -> None:
        """Add a guess at the end of its line. Raises ResourceExhausted where the line is full."""
        waiting = self._lines.setdefault(line, deque())
        if len(waiting) >= MAX_WAITING:
            raise ResourceExhausted(f"{MAX_WAITING} passwords wait to be checked: try later")
        waiting.append(guess)

    def pop(self) -> Guess | None:
        """Take the first guess of the line whose turn it is."""
        if not self._lines:
            return None
        line, waiting = self._lines.popitem(last=False)
        guess = waiting.popleft()
        if waiting:
            self._lines[line] = waiting
        return guess


class PasswordChecks:
    """Compares passwords in turn, apart from the event loop."""

    def __init__(self) -> None:
        self._lines = PasswordLines()
        self._trusted: set[str] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._working = 0
        """Tasks that look for guesses: one that has found none ends, and counts no more."""

    async def matches(self, name: str, password: str, against: tuple[Kept, ...]) -> bool:
        """Return whether a password is right, when its turn has come. Raises ResourceExhausted."""
        answer: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._lines.push(name if name in self._trusted else OTHERS, Guess(password, against, answer))
        if self._working < HASHES_AT_ONCE:
            self._working += 1
            task = asyncio.create_task(self._work())
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)
        return await answer

    def trust(self, name: str) -> None:
        """Give a name a line of its own: somebody knew its password."""
        self._trusted.add(name)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        try:
            while (guess := self._lines.pop()) is not None:
                try:
                    right = await loop.run_in_executor(_THREADS, guess.right)
                except Exception as error:  # noqa: BLE001 - it is the caller's, and others go on
                    if not guess.answer.done():
                        guess.answer.set_exception(error)
                else:
                    if not guess.answer.done():  # its caller may be gone
                        guess.answer.set_result(right)
        finally:
            self._working -= 1
