"""Whatever fails, a shard has one owner at most, and in the end each has one, fairly."""

from __future__ import annotations

from collections import Counter

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tests.property.sharding.world import SHARDS, Process, World

MOST_PROCESSES = 4
numbers = st.integers(0, 10_000)


class Shards(RuleBasedStateMachine):
    """Processes start, leave, die, freeze and are cut off; messages are late, out of order or lost."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()

    def pick(self, number: int, awake: bool = True) -> Process | None:
        found = [each for each in self.world.processes if not each.dead and not (awake and each.frozen)]
        return found[number % len(found)] if found else None

    @precondition(lambda self: len(self.world.processes) < MOST_PROCESSES)
    @rule(rate=st.floats(0.9, 1.1), offset=st.floats(-1000, 1000))
    def start(self, rate: float, offset: float) -> None:
        self.world.begin_session(self.world.start(rate, offset))

    @rule(number=numbers)
    def begin_again(self, number: int) -> None:
        """A session is begun again where the lease of the last one is over, as the real one does."""
        process = self.pick(number)
        if process is not None and not process.holds(self.world.now):
            self.world.begin_session(process)

    @rule(number=numbers)
    def renew(self, number: int) -> None:
        if process := self.pick(number):
            self.world.renew(process)

    @rule(number=numbers)
    def look(self, number: int) -> None:
        if process := self.pick(number):
            self.world.look(process)

    @rule(number=numbers)
    def plan(self, number: int) -> None:
        """Anybody may: that one process alone assigns is for peace, not for safety."""
        if process := self.pick(number):
            self.world.plan(process)

    @rule(number=numbers)
    def open(self, number: int) -> None:
        process = self.pick(number)
        if process is not None and process.opening:
            shards = sorted(process.opening)
            self.world.opened(process, shards[number % len(shards)])

    @rule(number=numbers)
    def drain(self, number: int) -> None:
        process = self.pick(number)
        if process is not None and process.draining:
            shards = sorted(process.draining)
            self.world.drained(process, shards[number % len(shards)])

    @rule(number=numbers)
    def leave(self, number: int) -> None:
        if process := self.pick(number):
            self.world.leave(process)

    @rule(number=numbers)
    def freeze_or_thaw(self, number: int) -> None:
        if process := self.pick(number, awake=False):
            process.frozen = not process.frozen

    @rule(number=numbers)
    def cut_or_heal(self, number: int) -> None:
        if process := self.pick(number):
            process.cut = not process.cut

    @rule(number=numbers)
    def kill(self, number: int) -> None:
        if process := self.pick(number, awake=False):
            process.dead = True

    @precondition(lambda self: self.world.messages)
    @rule(number=numbers)
    def deliver(self, number: int) -> None:
        self.world.deliver(number % len(self.world.messages))

    @precondition(lambda self: self.world.messages)
    @rule(count=st.integers(1, 8))
    def deliver_in_order(self, count: int) -> None:
        for _ in range(min(count, len(self.world.messages))):
            self.world.deliver(0)

    @precondition(lambda self: self.world.messages)
    @rule(number=numbers)
    def lose(self, number: int) -> None:
        self.world.messages.pop(number % len(self.world.messages))

    @rule(seconds=st.floats(0.1, 6))
    def advance(self, seconds: float) -> None:
        self.world.advance(seconds)

    @rule()
    def work(self) -> None:
        """Everything goes well for a while, so that there are shards to lose."""
        faults = [(each, each.frozen, each.cut) for each in self.world.processes]
        self.world.settle()
        for process, frozen, cut in faults:
            process.frozen, process.cut = frozen, cut

    @invariant()
    def one_owner(self) -> None:
        self.world.check()

    def teardown(self) -> None:
        self.world.settle()
        self.world.check()
        world = self.world
        staying = [each for each in world.processes if not each.dead and not each.leaving]
        if not staying:
            return
        owned = Counter[str]()
        for shard, row in enumerate(world.registry.table.shards):
            (owner,) = [each for each in world.processes if each.acts(shard, world.now)]
            assert row.owner == owner.ownership.session and not row.successor  # type: ignore[union-attr]
            owned[owner.name] += 1
        parts = [owned[each.name] for each in staying]
        assert sum(parts) == SHARDS and max(parts) - min(parts) <= 1, owned


TestShards = Shards.TestCase
TestShards.settings = settings(max_examples=60, stateful_step_count=60)
