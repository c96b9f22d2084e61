"""What becomes of messages and of calls to the store while faults last."""

from __future__ import annotations

from random import Random

from simulator.world.kernel import Kernel


class Weather:
    """The fates of messages: losses, repetitions, delays and partitions, as long as they last."""

    def __init__(self, kernel: Kernel, random: Random) -> None:
        self._kernel = kernel
        self._random = random
        self._loss = self._repetition = 0.0
        self._loss_until = self._repetition_until = 0.0
        self._delay = self._delay_until = 0.0
        self._cut: dict[tuple[str, str], float] = {}
        """Pairs of roles of which the first does not reach the other, with the end of that."""

    def lose(self, share: float, seconds: float) -> None:
        """Lose a share of the messages for a while."""
        self._loss, self._loss_until = share, self._kernel.now + seconds

    def repeat(self, share: float, seconds: float) -> None:
        """Repeat a share of the messages for a while."""
        self._repetition, self._repetition_until = share, self._kernel.now + seconds

    def delay(self, share: float, seconds: float) -> None:
        """Delay a share of the messages for a while, beyond the time for which their senders wait, too."""
        self._delay, self._delay_until = share, self._kernel.now + seconds

    def cut(self, one: str, other: str, seconds: float) -> None:
        """Cut two roles off from each other for a while."""
        self.silence(one, other, seconds)
        self.silence(other, one, seconds)

    def silence(self, sender: str, receiver: str, seconds: float) -> None:
        """Lose what a role sends to another one for a while."""
        self._cut[sender, receiver] = self._kernel.now + seconds

    def delays(self, sender: str, receiver: str) -> tuple[float, ...]:
        """Return when copies of a message arrive."""
        now, random = self._kernel.now, self._random
        pair = sender.partition("/")[0], receiver.partition("/")[0]
        if self._cut and self._cut.get(pair, 0.0) > now:
            return ()
        if now < self._loss_until and random.random() < self._loss:
            return ()
        first = random.uniform(0.0005, 0.003)
        if now < self._delay_until and random.random() < self._delay:
            first += random.choice([0.1, 1.0, 5.0, 40.0]) * random.random()
        if now < self._repetition_until and random.random() < self._repetition:
            return first, random.choice([0.01, 0.1, 3.0, 12.0]) * random.random() + first
        return (first,)


class StoreWeather:
    """The fates of writes: some are not applied, of some the outcome is unknown."""

    def __init__(self, kernel: Kernel, random: Random) -> None:
        self._kernel = kernel
        self._random = random
        self._share = self._until = 0.0

    def fail(self, share: float, seconds: float) -> None:
        """Let a share of the writes fail for a while."""
        self._share, self._until = share, self._kernel.now + seconds

    def write(self) -> tuple[bool, bool]:
        """Return whether a write is applied, and whether its outcome is told."""
        if self._kernel.now >= self._until or self._random.random() >= self._share:
            return True, True
        return self._random.random() < 0.5, False

    def seconds(self) -> float:
        """Return how long a call takes: seconds, while calls fail."""
        slow = self._kernel.now < self._until
        return self._random.uniform(0.001, 3.0 if slow else 0.01)
