"""A registry and processes with clocks of their own; messages between them take any time, in any order."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from peloton.membership.lease import Lease, Standing
from peloton.sharding.assignment import assign
from peloton.sharding.ownership import Drain, Drop, HandOver, Instruction, Open, Ownership, Resume
from peloton.sharding.table import ShardTable

SHARDS = 7
SESSION = 10.0
"""Seconds without a message after which the registry ends a session."""
ROUNDS = 40
"""More than enough for all hand-overs when nothing fails."""


@dataclass
class Registry:
    """Sessions, and the table with its version."""

    table: ShardTable = field(default_factory=lambda: ShardTable.unowned(SHARDS))
    version: int = 0
    heard: dict[str, float] = field(default_factory=dict)
    """When each living session was heard last."""
    leaving: set[str] = field(default_factory=set)

    def expire(self, now: float) -> None:
        for session in [each for each, heard in self.heard.items() if now - heard >= SESSION]:
            del self.heard[session]

    def replace(self, session: str, version: int, table: ShardTable) -> bool:
        """Write as the adapters do: by a living session, over this version; who loses a shard is gone."""
        dead = not (self.table.dispossessed(table) - {session}) & self.heard.keys()
        if session not in self.heard or version != self.version or not dead:
            return False
        self.table, self.version = table, version + 1
        return True


@dataclass
class Process:
    """A job manager, as far as it owns shards."""

    name: str
    rate: float
    """Seconds of its clock in a second."""
    offset: float
    frozen: bool = False
    cut: bool = False
    dead: bool = False
    leaving: bool = False
    sessions: int = 0
    ownership: Ownership | None = None
    lease: Lease | None = None
    opening: set[int] = field(default_factory=set)
    draining: set[int] = field(default_factory=set)
    living: set[str] = field(default_factory=set)
    """The sessions as last seen, maybe older than the table: the two are read one after the other."""

    def clock(self, now: float) -> float:
        return now * self.rate + self.offset

    def holds(self, now: float) -> bool:
        return self.lease is not None and self.lease.standing(self.clock(now)) is Standing.HELD

    def acts(self, shard: int, now: float) -> bool:
        """Return whether it may do something for a shard; a frozen one might thaw at this moment."""
        return not self.dead and self.ownership is not None and self.ownership.acts(shard) and self.holds(now)


class World:
    """Everything, and the messages that are under way."""

    def __init__(self) -> None:
        self.now = 100.0
        self.registry = Registry()
        self.processes: list[Process] = []
        self.messages: list[Callable[[], None]] = []
        self.owners: dict[tuple[int, int], str] = {}
        """Which session has acted for a shard in a term."""

    def start(self, rate: float = 1.0, offset: float = 0.0) -> Process:
        process = Process(chr(ord("a") + len(self.processes)), rate, offset)
        self.processes.append(process)
        return process

    # What a process does. Each step checks the lease, as the real one does before each call.

    def begin_session(self, process: Process) -> None:
        """Begin a session: the answer is the first sign of it, and counts from before the call."""
        process.sessions += 1
        session, stamp = f"{process.name}-{process.sessions}", process.clock(self.now)
        process.ownership, process.lease = None, None
        process.opening.clear()
        process.draining.clear()

        def answered() -> None:
            process.ownership, process.lease = Ownership(session), Lease(SESSION, stamp)

        def called() -> None:
            for earlier in [each for each in self.registry.heard if each.startswith(f"{process.name}-")]:
                del self.registry.heard[earlier]
            self.registry.heard[session] = self.now
            if process.leaving:
                self.registry.leaving.add(session)
            self.send(process, answered)

        self.send(process, called)

    def renew(self, process: Process) -> None:
        if process.ownership is None or process.lease is None or not process.holds(self.now):
            return
        session, lease, stamp = process.ownership.session, process.lease, process.clock(self.now)

        def called() -> None:
            if session in self.registry.heard:
                self.registry.heard[session] = self.now
                self.send(process, lambda: lease.renew(stamp, process.clock(self.now)))

        self.send(process, called)

    def look(self, process: Process) -> None:
        """Read the table; the answer may come late, and after that of a later look."""

        def called() -> None:
            ownership, table, version = process.ownership, self.registry.table, self.registry.version
            living = set(self.registry.heard)
            self.send(process, lambda: self.see(process, ownership, table, version))
            self.send(process, lambda: setattr(process, "living", living))

        self.send(process, called)

    def plan(self, process: Process) -> None:
        """Assign by the sessions that were seen last; the write may arrive late."""
        if process.ownership is None or not process.holds(self.now):
            return
        session, table, version = process.ownership.session, self.registry.table, self.registry.version
        planned = assign(table, process.living, set(self.registry.leaving))
        if planned is not table:
            self.send(process, lambda: void(self.registry.replace(session, version, planned)))

    def leave(self, process: Process) -> None:
        process.leaving = True
        if process.ownership is not None:
            self.registry.leaving.add(process.ownership.session)

    def opened(self, process: Process, shard: int) -> None:
        process.opening.discard(shard)
        if process.ownership is not None:
            self.carry_out(process, process.ownership.opened(shard))

    def drained(self, process: Process, shard: int) -> None:
        process.draining.discard(shard)
        if process.ownership is not None:
            self.carry_out(process, process.ownership.drained(shard))

    def see(self, process: Process, ownership: Ownership | None, table: ShardTable, version: int) -> None:
        if ownership is not None and ownership is process.ownership:
            self.carry_out(process, ownership.see(table, version))

    def carry_out(self, process: Process, instructions: list[Instruction]) -> None:
        ownership = process.ownership
        assert ownership is not None
        for instruction in instructions:
            match instruction:
                case Open(shard):
                    assert shard not in process.opening
                    process.opening.add(shard)
                case Drain(shard):
                    process.draining.add(shard)
                case Resume(shard):
                    process.draining.discard(shard)
                case Drop(shard):
                    process.opening.discard(shard)
                    process.draining.discard(shard)
                case HandOver(table, version):
                    self.send(process, self.writing(ownership.session, version, table))

    def writing(self, session: str, version: int, table: ShardTable) -> Callable[[], None]:
        return lambda: void(self.registry.replace(session, version, table))

    # What happens.

    def send(self, process: Process, message: Callable[[], None]) -> None:
        """Put a message under way; one of a process that is cut off is lost."""
        if not process.cut:
            self.messages.append(message)

    def deliver(self, number: int) -> None:
        self.messages.pop(number)()

    def advance(self, seconds: float) -> None:
        self.now += seconds
        self.registry.expire(self.now)

    # What always holds.

    def check(self) -> None:
        for shard in range(SHARDS):
            acting = [each for each in self.processes if each.acts(shard, self.now)]
            assert len(acting) <= 1, f"shard {shard}: {[each.name for each in acting]} own it"
            for each in acting:
                assert each.ownership is not None
                key = shard, each.ownership.terms[shard]
                assert self.owners.setdefault(key, each.ownership.session) == each.ownership.session

    def settle(self) -> None:
        """Let everything work without faults until nothing changes: each message arrives at once."""
        for process in self.processes:
            process.frozen = process.cut = False
        for _ in range(ROUNDS):
            self.flush()
            self.advance(SESSION / 5)
            living = [each for each in self.processes if not each.dead]
            for process in living:
                if not process.holds(self.now):
                    self.begin_session(process)
                self.flush()
                if process.leaving:
                    self.leave(process)
                self.renew(process)
                self.look(process)
                self.flush()
                for shard in sorted(process.opening):
                    self.opened(process, shard)
                for shard in sorted(process.draining):
                    self.drained(process, shard)
                self.flush()
                self.check()
            if living:
                self.plan(living[0])

    def flush(self) -> None:
        while self.messages:
            self.deliver(0)


def void(_: object) -> None:
    """Let an outcome be unknown to the caller."""
