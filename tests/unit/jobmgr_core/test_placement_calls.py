"""Calls for placements: an answer that resmgr has sent is never lost, whatever shards open meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import cast

import pytest

from jobmgr.core.state.events import Event, Placed, Placement
from jobmgr.drivers.launch import Placements
from jobmgr.engine.held_shards import HeldShards, Opened
from jobmgr.engine.lanes import Lanes
from jobmgr.engine.lockdown import Gate
from jobmgr.ports.resmgr import PlacedTasks
from peloton.errors import PelotonError
from peloton.model.ids import JobId, Run
from peloton.model.states import TaskState
from tests.unit.jobmgr_core.sharing import job_in
from tests.waiting import until

FIRST, SECOND = job_in(1), job_in(2)


class Resmgr:
    """Answers when it is told to."""

    def __init__(self) -> None:
        self.calls: list[asyncio.Future[Sequence[Placement]]] = []
        self.settled: list[tuple[Run, TaskState]] = []
        self.trouble: PelotonError | None = None
        """Why the next report of states fails."""

    async def settle(self, states: Sequence[tuple[Run, TaskState]]) -> None:
        if self.trouble is not None:
            trouble, self.trouble = self.trouble, None
            raise trouble
        self.settled += states

    async def placements(self, limit: int, wait: float) -> Sequence[Placement]:
        self.calls.append(asyncio.get_running_loop().create_future())
        return await self.calls[-1]


class Taken:
    """Lanes that keep what they are given."""

    def __init__(self) -> None:
        self.runs: list[Run] = []
        self.released: list[str] = []
        """Offers of placements without runs: their claims are released."""

    def job(self, job_id: JobId) -> None:
        return None

    def submit(self, event: Event) -> Mapping[int, asyncio.Future[object]]:
        assert isinstance(event, Placed)
        self.runs += [run for placement in event.placements for run in placement.runs]
        self.released += [placement.offer_id for placement in event.placements if not placement.runs]
        stored = asyncio.get_running_loop().create_future()
        stored.set_result(None)
        return {0: stored}


class Shell:
    """The driver, for an engine that has the shard of the first job."""

    def __init__(self) -> None:
        self.resmgr = Resmgr()
        self.lanes = Taken()
        self.held = HeldShards(whole=False)
        self.open(1)
        self.placements = Placements(
            cast(PlacedTasks, self.resmgr), cast(Lanes, self.lanes), cast(Gate, AlwaysOpen())
        )
        self.running = [
            asyncio.create_task(self.placements.run_left()),
            asyncio.create_task(self.held.while_open(self._run)),
        ]

    async def _run(self, opened: Opened) -> None:
        await self.placements.run(None, opened)

    def open(self, shard: int) -> None:
        self.held.begin(shard)
        self.held.opened(self.held.reading)

    async def asked(self, times: int) -> None:
        await until(lambda: len(self.resmgr.calls) == times, f"{times} calls")

    async def close(self) -> None:
        for task in self.running:
            task.cancel()
        await asyncio.gather(*self.running, return_exceptions=True)


class AlwaysOpen:
    async def opened(self) -> None:
        return None


def placed(*jobs: JobId) -> list[Placement]:
    return [Placement("host", "agent", "offer", (), tuple(Run(job_id, 0, 1) for job_id in jobs))]


async def test_a_call_is_not_broken_off_where_more_shards_open() -> None:
    shell = Shell()
    await shell.asked(1)
    shell.open(2)
    await shell.asked(2)
    assert not shell.resmgr.calls[0].cancelled()
    shell.resmgr.calls[0].set_result(placed(FIRST))
    await until(lambda: shell.lanes.runs == [Run(FIRST, 0, 1)], "the placement is handed over")
    shell.resmgr.calls[1].set_result(placed(SECOND))
    await until(lambda: shell.lanes.runs[1:] == [Run(SECOND, 0, 1)], "the other one is, too")
    await shell.close()


async def test_what_was_asked_for_a_shard_that_was_dropped_since_does_not_count() -> None:
    """It has returned to resmgr, which may have it placed elsewhere."""
    shell = Shell()
    await shell.asked(1)
    shell.open(2)
    await shell.asked(2)
    shell.held.drop(2)
    shell.open(2)
    await shell.asked(3)
    shell.resmgr.calls[1].set_result(placed(SECOND, FIRST))
    await until(lambda: shell.lanes.runs == [Run(FIRST, 0, 1)], "only the first one is handed over")
    assert not shell.lanes.released, "its claim is for the first one"
    await shell.close()


async def test_the_claim_of_a_placement_is_released_where_nothing_of_it_counts() -> None:
    """The shard may stay, and is opened anew in the same term: resmgr ends no claim then."""
    shell = Shell()
    await shell.asked(1)
    shell.held.drain(1)
    shell.resmgr.calls[0].set_result(placed(FIRST))
    await until(lambda: shell.lanes.released == ["offer"], "the claim is released")
    assert not shell.lanes.runs
    await shell.close()


async def test_what_was_not_taken_while_a_shard_was_drained_is_placed_anew_where_it_stays() -> None:
    """Its term goes on, so resmgr has no other reason to take its runs back."""
    shell = Shell()
    await shell.asked(1)
    shell.held.drain(1)
    shell.resmgr.calls[0].set_result(placed(FIRST))
    await until(lambda: shell.lanes.released == ["offer"], "the claim is released")
    assert not shell.resmgr.settled, "the next owner's term takes it back, if there is to be one"
    shell.held.resume(1)
    await shell.asked(2)
    assert shell.resmgr.settled == [(Run(FIRST, 0, 1), TaskState.READY)]
    await shell.close()


async def test_it_is_placed_anew_where_the_shard_was_forgotten_and_read_again() -> None:
    shell = Shell()
    await shell.asked(1)
    shell.held.drain(1)
    shell.resmgr.calls[0].set_result(placed(FIRST))
    await until(lambda: shell.lanes.released == ["offer"], "the claim is released")
    shell.held.drop(1)
    shell.open(1)
    await shell.asked(2)
    assert shell.resmgr.settled == [(Run(FIRST, 0, 1), TaskState.READY)]
    await shell.close()


async def test_what_is_answered_after_the_shard_is_open_again_is_placed_anew_at_once() -> None:
    shell = Shell()
    await shell.asked(1)
    shell.held.drain(1)
    shell.held.resume(1)
    await shell.asked(2)
    shell.resmgr.calls[0].set_result(placed(FIRST))
    await until(lambda: shell.resmgr.settled == [(Run(FIRST, 0, 1), TaskState.READY)], "it is returned")
    await shell.close()


async def test_a_report_that_fails_is_made_again() -> None:
    shell = Shell()
    await shell.asked(1)
    shell.held.drain(1)
    shell.held.resume(1)
    await shell.asked(2)
    shell.resmgr.trouble = PelotonError("not now")
    shell.resmgr.calls[0].set_result(placed(FIRST))
    await until(lambda: shell.resmgr.trouble is None, "the report has failed")
    shell.resmgr.calls[1].set_result([])
    await until(lambda: shell.resmgr.settled == [(Run(FIRST, 0, 1), TaskState.READY)], "it is returned")
    await shell.close()


async def test_a_call_that_is_left_and_fails_ends_nothing(caplog: pytest.LogCaptureFixture) -> None:
    shell = Shell()
    await shell.asked(1)
    shell.open(2)
    await shell.asked(2)
    shell.resmgr.calls[0].set_exception(PelotonError("not now"))
    await until(lambda: "not now" in caplog.text, "the failure is logged")
    assert not any(task.done() for task in shell.running)
    await shell.close()


async def test_calls_end_with_the_driver() -> None:
    shell = Shell()
    await shell.asked(1)
    shell.open(2)
    await shell.asked(2)
    await shell.close()
    await until(lambda: all(call.cancelled() for call in shell.resmgr.calls), "both calls are cancelled")
