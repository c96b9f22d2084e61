"""Rate limits of a server: token buckets by method, of all callers and of each principal.

docs/behaviour/operation.md, Rate limits.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from fnmatch import fnmatchcase

from cachetools import LRUCache

from peloton.config.limits import MethodRate, Rate, RateLimitSettings
from peloton.errors import ResourceExhausted
from peloton.identity.methods import split
from peloton.model.amounts import duration, number

MAX_PATHS = 10_000
MAX_PRINCIPALS = 10_000
"""Buckets of principals that are kept; those of who has not called for longest are dropped."""


class Bucket:
    """A token bucket. A negative rate is no limit."""

    def __init__(self, rate: Rate, now: float) -> None:
        self.rate, self.burst = rate.rate, rate.burst
        self._left, self._at = float(rate.burst), now

    def take(self, now: float) -> bool:
        """Return whether a call may be served now, and count it."""
        if self.rate < 0:
            return True
        self._left = min(self.burst, self._left + (now - self._at) * self.rate)
        self._at = now
        if self._left < 1:
            return False
        self._left -= 1
        return True

    @property
    def seconds(self) -> float | None:
        """After how many seconds another call may be served; None for never."""
        return (1 - self._left) / self.rate if self.rate > 0 and self.burst >= 1 else None


def in_words(seconds: float | None) -> str:
    """Return when to try again, for messages."""
    if seconds is None:
        return "after the setting has been changed"
    return f"in {duration(max(seconds, 0.01))}"


class _Rules:
    """Which rule is a method's: the first one that matches, or the default."""

    def __init__(self, methods: tuple[MethodRate, ...], default: Rate, setting: str) -> None:
        self._patterns = [each.methods.partition(":")[::2] for each in methods]
        self.rates: list[tuple[str, Rate]] = [
            *((f"rate_limit.{setting}methods: {each.methods}", each) for each in methods),
            (f"rate_limit.{setting}default", default),
        ]
        self._of_path: dict[str, int] = {}

    def find(self, path: str) -> int:
        """Return the rule's place."""
        found = self._of_path.get(path)
        if found is None:
            found = self._match(*split(path))
            if len(self._of_path) < MAX_PATHS:
                self._of_path[path] = found
        return found

    def _match(self, service: str, method: str) -> int:
        for at, (of_service, of_method) in enumerate(self._patterns):
            if fnmatchcase(service, of_service) and fnmatchcase(method, of_method):
                return at
        return len(self._patterns)

    def refuse(self, path: str, at: int, bucket: Bucket, whose: str = "") -> ResourceExhausted:
        """Return the refusal of a call."""
        return ResourceExhausted(
            f"{whose}{path.lstrip('/')}: more than {number(bucket.rate)} calls a second, "
            f"{bucket.burst} at once ({self.rates[at][0]}): try again {in_words(bucket.seconds)}"
        )


class RateLimits:
    """The buckets of all methods, which all callers share."""

    def __init__(self, settings: RateLimitSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._rules = _Rules(settings.methods, settings.default, "")
        now = clock()
        self._buckets = [Bucket(rate, now) for _, rate in self._rules.rates]

    @staticmethod
    def needed(settings: RateLimitSettings) -> bool:
        """Return whether there is any limit."""
        return settings.default.rate >= 0 or any(each.rate >= 0 for each in settings.methods)

    def take(self, path: str) -> None:
        """Count a call. Raises ResourceExhausted."""
        at = self._rules.find(path)
        bucket = self._buckets[at]
        if not bucket.take(self._clock()):
            raise self._rules.refuse(path, at, bucket)


class PrincipalRates:
    """The buckets of each principal."""

    def __init__(self, settings: RateLimitSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        each = settings.principal
        self._rules = _Rules(each.methods, each.default, "principal.")
        self._buckets: LRUCache[tuple[str, int], Bucket] = LRUCache(MAX_PRINCIPALS)

    @staticmethod
    def needed(settings: RateLimitSettings) -> bool:
        """Return whether there is any limit."""
        each = settings.principal
        return each.default.rate >= 0 or any(rate.rate >= 0 for rate in each.methods)

    def take(self, principal: str, path: str) -> None:
        """Count a call of a principal. Raises ResourceExhausted."""
        at, now = self._rules.find(path), self._clock()
        bucket = self._buckets.get((principal, at))
        if bucket is None:
            bucket = self._buckets[principal, at] = Bucket(self._rules.rates[at][1], now)
        if not bucket.take(now):
            raise self._rules.refuse(path, at, bucket, f"{principal}: ")
