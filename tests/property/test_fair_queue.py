"""Fair queueing of calls by principal: the limits hold, no place stays free, nobody is passed over."""

from __future__ import annotations

from collections import Counter, deque
from itertools import pairwise

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from peloton.rpc.fair_queue import Arrival, Bounds, Counts, FairQueue, Overload, Pacer

PRINCIPALS = ("ann", "bob", "cay", "dan", "eve")
keys = st.sampled_from(PRINCIPALS)
BOUNDS = Bounds(running=3, principal_running=2, waiting=12, principal_waiting=5, principal_bytes=100)


class Calls(RuleBasedStateMachine):
    """Calls come, end and are given up in any order; a model in plain lists says what is to be."""

    def __init__(self) -> None:
        super().__init__()
        self.queue: FairQueue[int] = FairQueue(BOUNDS)
        self.running: dict[int, str] = {}
        self.waiting: dict[str, deque[int]] = {key: deque() for key in PRINCIPALS}
        self.sizes: dict[int, int] = {}
        self.now = 0.0
        self.made = 0

    @rule(key=keys, size=st.integers(0, 60))
    def come(self, key: str, size: int) -> None:
        held = self.held(key)
        turn = self.queue.arrive(key, size, self.now)
        if isinstance(turn, Overload):
            full = {
                "principal_bytes": held > 0 and held + size > BOUNDS.principal_bytes,
                "principal_waiting": len(self.waiting[key]) == BOUNDS.principal_waiting,
                "waiting": self.waits() == BOUNDS.waiting,
            }
            assert full[turn.limit] and turn.value == getattr(BOUNDS, turn.limit)
            assert 0.1 <= turn.seconds <= 60
            return
        assert held + size <= BOUNDS.principal_bytes or not held
        self.made += 1
        self.sizes[self.made] = size
        if turn is Arrival.BEGIN:
            self.running[self.made] = key
        else:
            self.queue.wait(key, self.made, size)
            self.waiting[key].append(self.made)

    @precondition(lambda self: self.running)
    @rule(data=st.data(), cost=st.floats(1, 1000), seconds=st.floats(0, 10))
    def end(self, data: st.DataObject, cost: float, seconds: float) -> None:
        self.now += seconds
        call = data.draw(st.sampled_from(sorted(self.running)))
        key = self.running.pop(call)
        for begun in self.queue.end(key, self.sizes[call], cost):
            owner = next(each for each in PRINCIPALS if begun in self.waiting[each])
            assert self.waiting[owner].popleft() == begun, "out of order"
            self.running[begun] = owner

    @precondition(lambda self: self.waits())
    @rule(data=st.data())
    def give_up(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from([key for key in PRINCIPALS if self.waiting[key]]))
        call = data.draw(st.sampled_from(list(self.waiting[key])))
        self.waiting[key].remove(call)
        self.queue.withdraw(key, call)

    def waits(self) -> int:
        return sum(map(len, self.waiting.values()))

    def held(self, key: str) -> int:
        runs = [call for call, owner in self.running.items() if owner == key]
        return sum(self.sizes[call] for call in (*runs, *self.waiting[key]))

    @invariant()
    def limits_hold(self) -> None:
        each = Counter(self.running.values())
        assert max(each.values(), default=0) <= BOUNDS.principal_running
        assert len(self.running) <= 2 * BOUNDS.running
        assert self.waits() <= BOUNDS.waiting
        assert max(map(len, self.waiting.values())) <= BOUNDS.principal_waiting

    @invariant()
    def no_place_stays_free(self) -> None:
        each = Counter(self.running.values())
        for key in PRINCIPALS:
            if self.waiting[key] and len(self.running) < BOUNDS.running:
                assert each[key] == BOUNDS.principal_running
            if self.waiting[key] and not each[key]:
                assert len(self.running) == 2 * BOUNDS.running

    @invariant()
    def sums_are_right(self) -> None:
        assert (self.queue.running, self.queue.waiting) == (len(self.running), self.waits())

    @invariant()
    def who_is_gone_is_forgotten(self) -> None:
        there = {key for key in PRINCIPALS if self.waiting[key]} | set(self.running.values())
        assert self.queue.principals() == len(there)


TestCalls = Calls.TestCase
TestCalls.settings = settings(max_examples=30, stateful_step_count=40)


def served(queued: dict[str, int], bounds: Bounds, costs: dict[str, float], ends: int) -> list[str]:
    """Let so many calls of each principal come, then end the oldest one again and again: who begins?"""
    queue: FairQueue[tuple[str, int]] = FairQueue(bounds)
    running: deque[str] = deque()
    for key, count in queued.items():
        for number in range(count):
            turn = queue.arrive(key, 0, 0.0)
            if turn is Arrival.BEGIN:
                running.append(key)
            else:
                assert turn is Arrival.WAIT
                queue.wait(key, (key, number), 0)
    begun = []
    for _ in range(min(ends, sum(queued.values()))):
        key = running.popleft()
        for next_key, _number in queue.end(key, 0, costs.get(key, 1.0)):
            running.append(next_key)
            begun.append(next_key)
    return begun


AMPLE = Bounds(running=20, principal_running=40, waiting=10_000, principal_waiting=5_000, principal_bytes=1)


@given(
    flood=st.integers(50, 300),
    others=st.dictionaries(st.sampled_from(PRINCIPALS), st.integers(1, 30), min_size=1),
)
def test_who_floods_waits_for_its_turn(flood: int, others: dict[str, int]) -> None:
    begun = served({"flooder": flood, **others}, AMPLE, {}, 10_000)
    for key, count in others.items():
        places = [at for at, each in enumerate(begun) if each == key]
        assert len(places) >= count - 1  # the first one may have begun at once
        for before, after in pairwise(places):
            between = Counter(begun[before + 1 : after])
            assert all(number <= 2 for number in between.values()), between  # one in its own place


@given(cost=st.integers(2, 20), count=st.integers(200, 400))
def test_who_costs_more_gets_fewer_turns(cost: int, count: int) -> None:
    """Beside the call that each may have in its own place."""
    begun = Counter(served({"dear": count, "cheap": count}, AMPLE, {"dear": float(cost)}, count))
    own = count / AMPLE.running + 1  # as many calls as end in the place of its own
    assert begun["cheap"] / max(begun["dear"] - own, 1) >= cost * 0.7
    assert begun["dear"] >= 1


@given(keys=st.lists(keys), most=st.integers(0, 3))
def test_counts(keys: list[str], most: int) -> None:
    counts, held = Counts("principal_streams", most), Counter[str]()
    for key in keys:
        refusal = counts.take(key)
        assert (refusal is None) == (held[key] < most)
        if refusal is None:
            held[key] += 1
        elif held[key]:
            counts.give_back(key)
            held[key] -= 1
    assert len(counts) == sum(1 for number in held.values() if number)


@given(times=st.lists(st.floats(0, 0.2), min_size=1, max_size=300), burst=st.integers(1, 20))
def test_refusals_are_spread(times: list[float], burst: int) -> None:
    """In no second do more go out than the burst and the rate, as long as none waits for longest."""
    rate, longest = 10.0, 1000.0
    pacer, now, out = Pacer(rate, burst, longest, 1000), 0.0, []
    for pause in times:
        now += pause
        out.append(now + pacer.delay("ann", now))
    assert out == sorted(out)
    for first in range(len(out)):
        within = [at for at in out[first:] if at < out[first] + 1]
        assert len(within) <= burst + rate + 1


def test_no_refusal_waits_for_longer_nor_more_than_so_many() -> None:
    pacer = Pacer(10.0, 1, 0.5, 100)
    delays = [pacer.delay("ann", 0.0) for _ in range(20)]
    assert delays[0] == 0.0 and max(delays) == 0.5 and delays[-1] == 0.5
    assert pacer.delay("bob", 0.0) == 0.0
    pacer.held = 100
    assert pacer.delay("ann", 0.0) == 0.0
