"""Placements, preemptions and reasons go to the owners of the jobs."""

from __future__ import annotations

import asyncio

from peloton.model.ids import JobId, Run
from peloton.model.shard import SHARDS, shard_of
from peloton.model.states import TaskState, TaskType
from peloton.private.resmgr.waiting import waiting_pb2
from peloton.private.resmgrsvc import resmgrsvc_pb2 as pb
from resmgr.core.state.owners import Owners
from resmgr.core.state.placements import Proposal
from tests.unit.resmgr.shell import Context, Shell, wire_gang
from tests.unit.resmgr.test_preemption_service import crowded
from tests.unit.resmgr.world import JOB, World

A, B = "jobmgr/a", "jobmgr/b"
HALF = SHARDS // 2
LOWER, UPPER = range(HALF), range(HALF, SHARDS)


def job_in(shards: range, which: int = 0) -> JobId:
    """A job of one of these shards, another one for each `which`."""
    found = [
        job_id
        for number in range(200)
        if shard_of(job_id := f"0f3f5c2a-0000-4000-8000-{number:012}") in shards
    ]
    return found[which]


OF_A, OF_B = job_in(LOWER), job_in(UPPER)


def naming(instance: str, shards: str) -> Context:
    """Calls of an instance that names shards."""
    context = Context(instance)
    context.metadata += (("peloton-shards", shards),)
    return context


class Shared(World):
    """A scheduler whose jobs A and B share, and an engine that places on the hosts it is told."""

    def __init__(self) -> None:
        super().__init__()
        self.claim(A, 2, LOWER)
        self.claim(B, 3, UPPER)

    def claim(self, name: str, term: int, shards: range) -> int:
        return self.scheduler.take_claim(name, dict.fromkeys(shards, term), self.now)

    def ready(self, *jobs: JobId, instances: int = 1) -> None:
        """Gangs of one that are PLACING."""
        for job_id in jobs:
            for instance in range(instances):
                self.enqueue(instance, job=job_id)
        self.admit()
        self.dequeue()

    def place_on(self, host: str, *runs: Run) -> None:
        given = Proposal(host, f"agent-{host}", f"offer-{host}", TaskType.BATCH, runs, ())
        assert not self.scheduler.propose(self.engine, [given], [], self.now)

    def taken(self, name: str, shards: range | None = None) -> list[Run]:
        """What a job manager gets that names shards, or all."""
        holder = self.scheduler.leases.touch(name, self.now, owns=True)
        owner = self.scheduler.owner(name)
        given = self.scheduler.hand_over(100, holder, self.now, owner, shards)
        return [run for placement in given for run in placement.runs]

    def of(self, job_id: JobId, instance: int = 0) -> TaskState:
        return self.task(instance, job_id).state


def test_one_owner_of_all_shards_is_nobody_in_particular() -> None:
    owners = Owners()
    assert owners.of(OF_A) == ""
    assert owners.claim(A, dict.fromkeys(range(SHARDS), 1)) == set(range(SHARDS))
    assert (owners.shared, owners.of(OF_A)) == (False, "")
    assert owners.claim(B, dict.fromkeys(UPPER, 2)) == set(UPPER)
    assert (owners.of(OF_A), owners.of(OF_B)) == (A, B)
    assert not owners.claim(A, dict.fromkeys(range(SHARDS), 1)), "a claim that came late changes nothing"
    assert owners.of(OF_B) == B
    assert owners.claim(A, dict.fromkeys(UPPER, 4)) == set(UPPER)
    assert owners.of(OF_B) == "", "one has all again"


def test_shards_are_kept_until_a_newer_term_is_claimed() -> None:
    owners = Owners()
    owners.claim(A, {1: 5, 2: 5})
    assert owners.kept({1: 5, 2: 5, 3: 4}) == {1, 2, 3}
    owners.claim(B, {2: 6})
    assert owners.kept({1: 5, 2: 5}) == {1}
    assert owners.kept({2: 6}) == {2}


def test_each_owner_gets_its_placements() -> None:
    world = Shared()
    world.ready(OF_A, OF_B)
    world.place_on("h1", Run(OF_A, 0, 1))
    world.place_on("h2", Run(OF_B, 0, 1))
    assert world.taken(B) == [Run(OF_B, 0, 1)]
    assert world.taken(B) == []
    assert world.taken("jobmgr/c") == []
    assert world.taken(A) == [Run(OF_A, 0, 1)]
    assert not world.scheduler.placements


def test_an_owner_gets_no_placements_of_shards_that_it_does_not_name() -> None:
    """It does not know their jobs yet."""
    world = Shared()
    other = job_in(LOWER, 1)
    assert shard_of(other) != shard_of(OF_A)
    world.ready(OF_A, other)
    world.place_on("h1", Run(OF_A, 0, 1))
    world.place_on("h2", Run(other, 0, 1))
    shard = shard_of(other)
    assert world.taken(A, range(shard, shard + 1)) == [Run(other, 0, 1)]
    assert len(world.scheduler.placements) == 1
    assert world.taken(A, LOWER) == [Run(OF_A, 0, 1)]


def test_a_placement_of_several_owners_is_the_first_ones() -> None:
    """The engine placed them before one of them changed owners; a claim is for one launch."""
    world = Shared()
    world.ready(OF_A, OF_B)
    world.place_on("h1", Run(OF_A, 0, 1), Run(OF_B, 0, 1))
    assert (world.of(OF_A), world.of(OF_B)) == (TaskState.PLACED, TaskState.READY)
    assert world.taken(B) == []
    assert world.taken(A) == [Run(OF_A, 0, 1)]
    world.dequeue()
    world.place_on("h2", Run(OF_B, 0, 1))
    assert world.taken(B) == [Run(OF_B, 0, 1)]


def test_what_an_owner_had_taken_returns_when_its_shard_has_another_one() -> None:
    world = Shared()
    other = job_in(UPPER, 1)
    world.ready(OF_A, OF_B, other)
    world.place_on("h1", Run(OF_A, 0, 1))
    world.place_on("h2", Run(OF_B, 0, 1))
    world.place_on("h3", Run(other, 0, 1))
    world.taken(A)
    world.taken(B)
    world.scheduler.observe(Run(other, 0, 1), TaskState.LAUNCHED, world.now)
    assert world.claim(A, 9, UPPER) == 1
    assert (world.of(OF_A), world.of(OF_B)) == (TaskState.LAUNCHING, TaskState.READY)
    assert world.of(other) is TaskState.LAUNCHED, "it was launched already"
    assert [each.offer_id for each in world.scheduler.take_abandoned()] == ["offer-h2"]
    world.dequeue()
    world.place_on("h4", Run(OF_B, 0, 1))
    assert world.taken(A) == [Run(OF_B, 0, 1)]


def test_a_claim_is_abandoned_when_its_runs_have_got_several_other_owners() -> None:
    """The shards of an owner that died are divided among the others."""
    world = Shared()
    first = next(job_id for which in range(9) if shard_of(job_id := job_in(UPPER, which)) != shard_of(OF_B))
    world.ready(OF_B, first)
    world.place_on("h1", Run(OF_B, 0, 1), Run(first, 0, 1))
    assert len(world.taken(B)) == 2
    world.claim(A, 9, range(shard_of(OF_B), shard_of(OF_B) + 1))
    assert not world.scheduler.take_abandoned(), "it may launch the other one"
    world.claim("jobmgr/c", 9, range(shard_of(first), shard_of(first) + 1))
    assert [each.offer_id for each in world.scheduler.take_abandoned()] == ["offer-h1"]
    assert (world.of(OF_B), world.of(first)) == (TaskState.READY, TaskState.READY)


def test_what_a_process_had_taken_returns_when_it_owns_the_shard_anew() -> None:
    """Its session was over, and it has forgotten what it had taken."""
    world = Shared()
    world.ready(OF_B)
    world.place_on("h2", Run(OF_B, 0, 1))
    world.taken(B)
    assert world.claim(B, 3, UPPER) == 0, "the same claim again"
    assert world.of(OF_B) is TaskState.LAUNCHING
    assert world.claim(B, 5, UPPER) == 1
    assert world.of(OF_B) is TaskState.READY


def test_queued_placements_follow_their_owner() -> None:
    world = Shared()
    lower = job_in(LOWER, 1)
    world.ready(OF_A, OF_B, lower)
    world.place_on("h1", Run(OF_A, 0, 1), Run(lower, 0, 1))
    world.place_on("h2", Run(OF_B, 0, 1))
    shard = shard_of(lower)
    world.claim(B, 7, range(shard, shard + 1))
    assert (world.of(OF_A), world.of(lower)) == (TaskState.PLACED, TaskState.READY)
    world.claim(A, 8, UPPER)
    assert len(world.scheduler.placements) == 2
    assert world.taken(A) == [Run(OF_A, 0, 1), Run(OF_B, 0, 1)]


def test_owners_hold_leases_whatever_the_term_of_the_leader() -> None:
    world = Shared()
    world.ready(OF_A, OF_B)
    world.place_on("h1", Run(OF_A, 0, 1))
    world.place_on("h2", Run(OF_B, 0, 1))
    world.taken(A)
    world.taken(B)
    for term in (5, 6):
        assert world.scheduler.leases.touch(A, world.now, term, owns=True) is not None
    assert world.scheduler.expire_leases(world.now, {A, B}) == 0
    world.now += 3.0
    world.scheduler.leases.touch(A, world.now, owns=True)
    assert world.scheduler.expire_leases(world.now, {A}) == 1, "B is gone"
    assert (world.of(OF_A), world.of(OF_B)) == (TaskState.LAUNCHING, TaskState.READY)


def test_the_claim_of_a_placement_whose_launch_comes_too_late_is_abandoned() -> None:
    """Its answer was lost, or its shard was being drained, and stayed: nobody else ends the claim."""
    world = Shared()
    other = job_in(LOWER, 1)
    world.ready(OF_A, other)
    world.place_on("h1", Run(OF_A, 0, 1), Run(other, 0, 1))
    assert len(world.taken(A)) == 2
    world.now += world.scheduler.lifecycle.limits.launching + 1
    world.scheduler.leases.touch(A, world.now, owns=True)
    world.scheduler.expire(world.now)
    assert (world.of(OF_A), world.of(other)) == (TaskState.READY, TaskState.READY)
    assert [each.offer_id for each in world.scheduler.take_abandoned()] == ["offer-h1"]


def test_the_claim_of_a_placement_that_was_launched_in_part_is_not_abandoned() -> None:
    world = Shared()
    other = job_in(LOWER, 1)
    world.ready(OF_A, other)
    world.place_on("h1", Run(OF_A, 0, 1), Run(other, 0, 1))
    world.taken(A)
    world.scheduler.observe(Run(other, 0, 1), TaskState.LAUNCHED, world.now)
    world.now += world.scheduler.lifecycle.limits.launching + 1
    world.scheduler.leases.touch(A, world.now, owns=True)
    world.scheduler.expire(world.now)
    assert world.of(OF_A) is TaskState.READY
    assert not world.scheduler.take_abandoned()


async def moved_and_back(shell: Shell, shard: int) -> None:
    """Let a shard of A get another owner, and A get it back. B has another one all the time."""
    none, other = pb.GetPlacementsRequest(limit=1), (shard + 1) % SHARDS
    await shell.tasks.GetPlacements(none, naming(B, f"6:{shard},{other}"))
    await shell.tasks.GetPlacements(none, naming(B, f"6:{other}"))
    await shell.tasks.GetPlacements(none, naming(A, f"7:{shard}"))


async def test_a_call_that_waits_gets_no_placements_of_a_term_that_is_over(shell: Shell) -> None:
    """Its caller has forgotten the shard since, and opened it anew: it would not launch what comes now."""
    shard, ask = shard_of(JOB), pb.GetPlacementsRequest(limit=10, timeout=60_000)
    before = asyncio.create_task(shell.tasks.GetPlacements(ask, naming(A, f"5:{shard}")))
    await asyncio.sleep(0)
    await moved_and_back(shell, shard)
    await shell.enqueue(await shell.pool(limit=100), wire_gang(0))
    await shell.place(*await shell.dequeue())
    assert not (await asyncio.wait([before], timeout=0.1))[0]
    [placement] = (await shell.tasks.GetPlacements(ask, naming(A, f"7:{shard}"))).placements
    assert placement.hostname == "h1"
    before.cancel()


async def test_a_call_that_waits_gets_no_preempted_tasks_of_a_term_that_is_over(shell: Shell) -> None:
    shard, ask = shard_of(JOB), pb.GetPreemptibleTasksRequest(limit=10, timeout=60_000)
    await crowded(shell)
    before = asyncio.create_task(shell.tasks.GetPreemptibleTasks(ask, naming(A, f"5:{shard}")))
    await asyncio.sleep(0)
    await moved_and_back(shell, shard)
    assert len(await shell.driver.preempt()) == 1
    assert not (await asyncio.wait([before], timeout=0.1))[0]
    answer = await shell.tasks.GetPreemptibleTasks(ask, naming(A, f"7:{shard}"))
    assert len(answer.preemptionCandidates) == 1
    before.cancel()


async def test_a_call_that_waits_gets_what_comes_in_a_term_that_lasts(shell: Shell) -> None:
    shard, ask = shard_of(JOB), pb.GetPlacementsRequest(limit=10, timeout=60_000)
    waiting = asyncio.create_task(shell.tasks.GetPlacements(ask, naming(A, f"5:{shard}")))
    await asyncio.sleep(0)
    await shell.tasks.GetPlacements(pb.GetPlacementsRequest(), naming(B, f"6:{(shard + 1) % SHARDS}"))
    await shell.enqueue(await shell.pool(limit=100), wire_gang(0))
    await shell.place(*await shell.dequeue())
    assert len((await asyncio.wait_for(waiting, 60)).placements) == 1


async def test_preempted_tasks_go_to_who_names_their_shard(shell: Shell) -> None:
    await crowded(shell)
    assert len(await shell.driver.preempt()) == 1
    request = pb.GetPreemptibleTasksRequest(limit=10)
    shard = shard_of(JOB)
    answer = await shell.tasks.GetPreemptibleTasks(request, naming(A, f"5:{(shard + 1) % SHARDS}"))
    assert not answer.preemptionCandidates
    answer = await shell.tasks.GetPreemptibleTasks(request, naming(B, f"5:{shard}"))
    assert len(answer.preemptionCandidates) == 1


async def test_reasons_go_to_who_names_their_shard_in_one_stream(shell: Shell) -> None:
    pool = await shell.pool(limit=100)
    await shell.enqueue(pool, wire_gang(0, cpu=60), wire_gang(1, cpu=60))
    shell.driver.cycle()
    shard = shard_of(JOB)
    mine, others = naming(A, f"5:{shard}"), naming(B, f"5:{(shard + 1) % SHARDS}")
    ask = waiting_pb2.WaitForDeltasRequest
    got = await shell.waiting.WaitForDeltas(ask(), mine)
    assert got.deltas and got.last == len(got.deltas)
    none = await shell.waiting.WaitForDeltas(ask(), others)
    assert not none.deltas and (none.last, none.stream_id) == (got.last, got.stream_id)
    for caller in (others, mine):
        again = await shell.waiting.WaitForDeltas(ask(stream_id="of a leader before", after=7), caller)
        assert again.stream_id == got.stream_id, "no caller's beginning ends the stream of the others"
        assert len(again.deltas) == (len(got.deltas) if caller is mine else 0)


def test_what_an_owner_was_handed_and_does_not_launch_is_placed_anew() -> None:
    """Its shard was being drained, and stays in the same term."""
    world = Shared()
    world.ready(OF_A, OF_B)
    world.place_on("h1", Run(OF_A, 0, 1))
    world.place_on("h2", Run(OF_B, 0, 1))
    assert world.taken(A) == [Run(OF_A, 0, 1)]
    assert world.scheduler.take_unlaunched(Run(OF_A, 0, 1), world.now)
    assert world.of(OF_A) == TaskState.READY
    assert world.scheduler.placements.take_abandoned()
    assert not world.scheduler.take_unlaunched(Run(OF_A, 0, 1), world.now), "it waits already"
    assert not world.scheduler.take_unlaunched(Run(OF_B, 0, 1), world.now), "it was not handed over yet"
    assert not world.scheduler.take_unlaunched(Run(OF_A, 9, 1), world.now), "it is not known"
    world.dequeue()
    world.place_on("h3", Run(OF_A, 0, 1))
    assert world.taken(A) == [Run(OF_A, 0, 1)]
    world.scheduler.observe(Run(OF_A, 0, 1), TaskState.LAUNCHED, world.now)
    assert not world.scheduler.take_unlaunched(Run(OF_A, 0, 1), world.now), "it is launched by now"
    assert world.of(OF_A) == TaskState.LAUNCHED
