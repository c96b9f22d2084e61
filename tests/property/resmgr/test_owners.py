"""Whatever owners do: a placement has one owner, and what is handed over is leased to that one."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from peloton.model.ids import Run
from peloton.model.shard import SHARDS, shard_of
from peloton.model.states import TaskState, TaskType
from resmgr.core.state.placements import Handover, Proposal
from tests.unit.resmgr.test_owners import job_in
from tests.unit.resmgr.world import World

NAMES = ("jobmgr/a", "jobmgr/b", "jobmgr/c")
JOBS = [job_in(range(first, first + 16)) for first in range(0, SHARDS, 16)]
STEPS = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 1_000_000)), max_size=60)


class Walk(World):
    """Jobs of four shards, whose owners change while they are placed and handed over."""

    def __init__(self) -> None:
        super().__init__()
        self.term = 0
        self.owner = {shard_of(job_id): "" for job_id in JOBS}
        self.waiting: list[Run] = []
        """Runs that an engine has."""
        self.offers = 0
        """Claims of hosts so far."""
        self.given: list[tuple[str, Handover]] = []
        """What each job manager has taken last."""
        self.owned: set[str] = set()
        """Claims of placements whose jobs were all of who took them."""

    def step(self, kind: int, seed: int) -> None:
        (self.enqueue_some, self.place_some, self.change_owner, self.take, self.take_back, self.go_away)[
            kind
        ](seed)

    def enqueue_some(self, seed: int) -> None:
        for job_id in JOBS:
            self.enqueue(seed % 5, job=job_id, run=1 + seed % 3)
        self.admit()
        self.waiting += [task.key for gang in self.dequeue() for task in gang.tasks]

    def place_some(self, seed: int) -> None:
        runs, self.waiting = tuple(self.waiting[: 1 + seed % 3]), self.waiting[1 + seed % 3 :]
        self.offers += 1
        proposal = Proposal(f"h{seed % 4}", "agent", f"offer-{self.offers}", TaskType.BATCH, runs, ())
        self.scheduler.propose(self.engine, [proposal], [], self.now)

    def change_owner(self, seed: int) -> None:
        self.term += 1
        shards = [shard for number, shard in enumerate(self.owner) if seed >> number & 1]
        name = NAMES[seed % 3]
        self.scheduler.take_claim(name, dict.fromkeys(shards, self.term), self.now)
        self.owner.update(dict.fromkeys(shards, name))
        for shard in shards:  # nothing that was taken in an older term is still LAUNCHING
            assert not any(
                task.state is TaskState.LAUNCHING
                for holder in self.scheduler.leases.holders
                for task in holder.tasks
                if shard_of(task.job.id) == shard
            )

    def take(self, seed: int) -> None:
        name = NAMES[seed % 3]
        holder = self.scheduler.leases.touch(name, self.now, owns=True)
        given = self.scheduler.hand_over(1 + seed % 2, holder, self.now, self.scheduler.owner(name))
        shared = self.scheduler.lifecycle.owners.shared
        for each in given:
            assert not shared or {self.owner[shard_of(run.job_id)] for run in each.runs} == {name}
            for run in each.runs:
                task = self.scheduler.registry.find(run)
                assert task is not None and task.state is TaskState.LAUNCHING and task.holder is holder
            self.given.append((name, each))
            if {self.owner[shard_of(run.job_id)] for run in each.runs} == {name}:
                self.owned.add(each.offer_id)
            else:
                self.owned.discard(each.offer_id)

    def take_back(self, seed: int) -> None:
        if self.given:
            name, handover = self.given.pop(seed % len(self.given))
            holder = self.scheduler.leases.touch(name, self.now, owns=True)
            self.scheduler.take_back_placements([handover], holder, self.now)

    def go_away(self, seed: int) -> None:
        self.now += 5.0
        self.call_again()
        self.scheduler.expire_leases(self.now, {"placement/one", NAMES[seed % 3]})
        self.admit()
        self.waiting += [task.key for gang in self.dequeue() for task in gang.tasks]

    def check(self) -> None:
        placements, owners = self.scheduler.placements, self.scheduler.lifecycle.owners
        assert len(placements) == len(list(placements))
        for placement in placements:
            assert placement.tasks
            assert {owners.of(task.job.id) for task in placement.tasks} == {placement.owner}
            assert all(task.placement is placement for task in placement.tasks)
            assert all(task.state is TaskState.PLACED for task in placement.tasks)
        for holder in self.scheduler.leases.holders:
            for handover in holder.unused():
                owners_now = {self.owner[shard_of(run.job_id)] for run in handover.runs}
                assert handover.offer_id not in self.owned or holder.name in owners_now, "a leaked claim"
        placed = sum(len(placement.tasks) for placement in placements)
        states = [task.state for task in self.scheduler.registry.iterate_in_steps()]
        assert placed == states.count(TaskState.PLACED)


@given(STEPS)
def test_placements_and_leases_follow_the_owners(steps: list[tuple[int, int]]) -> None:
    walk = Walk()
    for kind, seed in steps:
        walk.step(kind, seed)
        walk.check()
