"""Rate limits of a server: token buckets by method (docs/behaviour/operation.md)."""

from __future__ import annotations

import time
from collections.abc import Callable
from fnmatch import fnmatchcase

from peloton.config.settings import Rate, RateLimitSettings
from peloton.errors import ResourceExhausted
from peloton.identity.methods import split

MAX_PATHS = 10_000


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


class RateLimits:
    """The buckets of all methods."""

    def __init__(self, settings: RateLimitSettings, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        now = clock()
        self._buckets = [(each.methods, Bucket(each, now)) for each in settings.methods]
        self._default = Bucket(settings.default, now)
        self._of_path: dict[str, Bucket] = {}

    @staticmethod
    def needed(settings: RateLimitSettings) -> bool:
        """Return whether there is any limit."""
        return settings.default.rate >= 0 or any(each.rate >= 0 for each in settings.methods)

    def take(self, path: str) -> None:
        """Count a call. Raises ResourceExhausted."""
        bucket = self._of_path.get(path)
        if bucket is None:
            bucket = self._find(path)
            if len(self._of_path) < MAX_PATHS:
                self._of_path[path] = bucket
        if not bucket.take(self._clock()):
            raise ResourceExhausted(
                f"{path.lstrip('/')}: more than {bucket.rate:g} calls a second (rate_limit): try again later"
            )

    def _find(self, path: str) -> Bucket:
        service, method = split(path)
        for pattern, bucket in self._buckets:
            of_service, _, of_method = pattern.partition(":")
            if fnmatchcase(service, of_service) and fnmatchcase(method, of_method):
                return bucket
        return self._default
