"""What each backend promises, in the port's terms; a module that imports this has a fixture `system`."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from hostmgr.core.agents.draining import Machine
from hostmgr.core.state.offers import PORTS
from peloton.errors import InvalidArgument, Unavailable
from peloton.model.resources import Resources, milli
from peloton.model.states import TaskState
from peloton.model.task import Launch
from peloton.model.volume import VolumeMount
from tests.contract.backend.recorder import Recorder, leading
from tests.contract.backend.systems import HOSTS, System

__all__ = [
    "leader",
    "test_runs_from_their_launch_to_their_ends",
    "test_what_a_run_takes_is_not_offered",
    "test_a_persistent_volume_keeps_what_its_runs_write",
    "test_a_killed_run_has_its_grace",
    "test_a_run_is_killed_for_maintenance",
    "test_a_run_is_launched_once",
    "test_reconciliation",
    "test_another_leader_takes_over",
    "test_calls_without_a_connection_have_no_effect",
    "test_a_server_that_is_away_and_back",
    "test_a_task_that_cannot_be_described_is_refused_without_effect",
    "test_maintenance",
    "test_a_host_that_is_gone_loses_its_runs",
]
"""In the order in which they run: the last one takes a host from the cluster for good."""

STARTING, RUNNING, SUCCEEDED = TaskState.STARTING, TaskState.RUNNING, TaskState.SUCCEEDED
FAILED, KILLED, LOST = TaskState.FAILED, TaskState.KILLED, TaskState.LOST
WHOLE = Resources.of(cpu=8, memory=4096, disk=40000)


@pytest.fixture
async def leader(system: System) -> AsyncIterator[Recorder]:
    async with leading(system) as it:
        yield it


async def test_runs_from_their_launch_to_their_ends(leader: Recorder, tmp_path: Path) -> None:
    """States in order, exit codes and signals in words, variables and ports, and room before and after."""
    await leader.until(lambda: leader.free() == WHOLE, "all is offered")
    (offer, *_) = leader.on_host()
    assert ("zone", "a") in offer.labels
    assert offer.hostname in HOSTS
    told = tmp_path / "told"
    port = next(each.ranges[0][0] for each in offer.entries if each.name == PORTS) + 7
    leader.launch(
        leader.task("exit 0", 0),
        leader.task("exit 3", 1),
        leader.task("kill -9 $$", 2),
        leader.task(
            f'echo "$PELOTON_JOB_ID $PELOTON_INSTANCE_ID $HTTP $(printf x)" > {told}',
            3,
            ports={"http": port},
        ),
    )
    ends = [await leader.ends(leader.run(number)) for number in range(4)]
    assert [each.status.state for each in ends] == [SUCCEEDED, FAILED, FAILED, SUCCEEDED], leader.summary()
    assert leader.states(leader.run(0))[-2:] in ([RUNNING, SUCCEEDED], [STARTING, SUCCEEDED])
    assert ends[1].status.message == "Command exited with status 3"
    assert ends[2].status.message == "Command terminated with signal Killed"
    assert told.read_text().split() == [leader.job, "3", str(port), "x"]
    await leader.until(lambda: leader.free() == WHOLE, "all is offered again")


async def test_what_a_run_takes_is_not_offered(leader: Recorder) -> None:
    await leader.until(lambda: leader.free() == WHOLE, "all is offered")
    run = leader.run(0)
    agent = leader.launch(leader.task("sleep 1000"))
    await leader.runs(run)
    rest = Resources.of(cpu=7.5, memory=4032, disk=40000)
    await leader.until(lambda: leader.free() == rest, "the rest is offered")
    found = {each.id: each for each in (await leader.backend.agents()).agents}
    assert found[agent].total == Resources.of(cpu=4, memory=2048, disk=20000)
    assert sum((each.allocated for each in found.values()), Resources()).cpu in (500, 8000)
    leader.backend.kill([(run, agent)])
    end = await leader.ends(run)
    assert end.status.state is KILLED
    await leader.until(lambda: leader.free() == WHOLE, "all is offered again")


async def test_a_persistent_volume_keeps_what_its_runs_write(system: System, leader: Recorder) -> None:
    """It is made with its first run, offered while no run uses it, found by another leader, and destroyed."""
    await leader.until(lambda: leader.free() == WHOLE, "all is offered")
    volume = leader.run()
    rest = WHOLE - Resources.of(disk=100)

    def stateful(command: str, number: int, create: bool) -> Launch:
        mount = VolumeMount(volume, milli(100), "data", create)
        return replace(leader.task(command), mesos_task_id=leader.run(number=number), volume=mount)

    agent = leader.launch(stateful("echo $MESOS_TASK_ID >> data/runs; sleep 1000", 1, create=True))
    await leader.runs(volume)
    used = rest - Resources.of(cpu=0.5, memory=64)
    await leader.until(lambda: leader.free() == used, "disk and volume are not offered")
    assert leader.volume(volume) is None
    leader.backend.kill([(volume, agent)])
    await leader.ends(volume)
    await leader.until(lambda: leader.volume(volume), "the volume is offered")
    assert leader.free() == rest
    listed = {each.id: each.volumes for each in (await leader.backend.agents()).agents}
    assert {name: set(each) for name, each in listed.items() if each} == {agent: {volume}}

    wanted = f'[ "$(cat data/runs)" = {volume} ]'
    leader.launch(stateful(wanted, 2, create=False), on=agent)
    assert (await leader.ends(leader.run(number=2))).status.state is SUCCEEDED, leader.summary()
    async with leading(system, leader.registrations[0].framework_id) as other:
        found = await other.until(lambda: other.volume(volume), "another leader is offered the volume")
        assert found is not None
        assert (found.offer.agent_id, found.entry.amount) == (agent, milli(100))
        other.backend.destroy_volume(found)
        other.offers.pop(found.offer.id)
        await other.until(lambda: other.free() == WHOLE, "its disk is free")
        assert other.volume(volume) is None


async def test_a_killed_run_has_its_grace(leader: Recorder, tmp_path: Path) -> None:
    polite, stubborn, begun = leader.run(0), leader.run(1), tmp_path / "begun"
    saved = tmp_path / "saved"
    agent = leader.launch(
        leader.task(
            f"trap 'echo bye > {saved}; exit 0' TERM; touch {begun}0; while :; do sleep 0.05; done", 0
        ),
        leader.task(
            f"trap '' TERM; touch {begun}1; while :; do sleep 0.05; done", 1, killGracePeriodSeconds=1
        ),
    )
    await leader.until(lambda: Path(f"{begun}0").exists() and Path(f"{begun}1").exists(), "both have begun")
    leader.backend.kill([(polite, agent), (stubborn, "")])
    leader.backend.kill([(polite, agent)])
    assert (await leader.ends(polite)).status.state is KILLED
    assert saved.read_text() == "bye\n"
    end = await leader.ends(stubborn)
    assert (end.status.state, end.status.message) == (KILLED, "Command terminated with signal Killed")


async def test_a_run_is_killed_for_maintenance(leader: Recorder, tmp_path: Path) -> None:
    """No rule of the cluster keeps it; a kill of a run that nobody knows is answered."""
    run, unknown, begun = leader.run(0), leader.run(9), tmp_path / "begun"
    agent = leader.launch(leader.task(f"touch {begun}; sleep 1000", 0))
    await leader.until(begun.exists, "it has begun")
    leader.backend.kill([(run, agent), (unknown, agent)], maintenance=True)
    assert (await leader.ends(run)).status.state is KILLED
    await leader.ends(unknown)
    assert leader.backend.problems() == ()


async def test_a_run_is_launched_once(leader: Recorder, tmp_path: Path) -> None:
    """A launch that is made again, because its answer was lost, starts nothing."""
    run, count = leader.run(0), tmp_path / "count"
    one = leader.task(f"echo x >> {count}; sleep 1000")
    agent = leader.launch(one)
    await leader.runs(run)
    await leader.until(lambda: leader.offers, "the rest is offered")
    await leader.until(lambda: leader.on_host(agent), "the rest of this host is offered")
    leader.offers = {each.id: each for each in leader.on_host(agent)}
    leader.launch(one, leader.task(f"echo y > {count}.other", 1))
    await leader.ends(leader.run(1))
    assert count.read_text() == "x\n"
    assert not any(each.status.state.terminal for each in leader.of(run))
    leader.backend.kill([(run, agent)])
    assert (await leader.ends(run)).status.state is KILLED


async def test_reconciliation(leader: Recorder) -> None:
    alive, unknown = leader.run(0), leader.run(9)
    agent = leader.launch(leader.task("sleep 1000"))
    await leader.runs(alive)
    leader.statuses.clear()
    leader.backend.reconcile([(alive, agent), (unknown, "")])
    await leader.until(lambda: leader.of(alive) and leader.of(unknown), "both are answered")
    assert leader.states(alive) == [RUNNING]
    (answer,) = leader.of(unknown)
    assert (answer.status.state, answer.missing, answer.status.uuid) == (LOST, True, b"")
    leader.statuses.clear()
    leader.backend.reconcile([])
    await leader.until(lambda: leader.of(alive), "all are told")
    leader.backend.kill([(unknown, "")])
    await leader.until(lambda: leader.of(unknown), "a kill of what is unknown is answered")
    assert leader.of(unknown)[0].status.state is LOST


async def test_another_leader_takes_over(system: System, tmp_path: Path) -> None:
    """It finds the runs, and learns of what ended while nobody led, or was not acknowledged."""
    go = tmp_path / "go"
    async with leading(system, acknowledging=False) as first:
        alive, ended, later = map(first.run, range(3))
        agent = first.launch(
            first.task("sleep 1000", 0),
            first.task("exit 5", 1),
            first.task(f"while [ ! -e {go} ]; do sleep 0.05; done; exit 6", 2),
        )
        await first.until(lambda: all(map(first.of, (alive, ended, later))), "all are told")
        framework_id = first.registrations[0].framework_id
    go.touch()
    async with leading(system, framework_id) as second:
        assert second.registrations[0].framework_id == framework_id
        assert (await second.ends(ended)).status.message == "Command exited with status 5"
        assert (await second.ends(later)).status.message == "Command exited with status 6"
        second.backend.reconcile([(alive, agent)])
        await second.runs(alive)
        second.backend.kill([(alive, agent)])
        assert (await second.ends(alive)).status.state is KILLED


async def test_calls_without_a_connection_have_no_effect(system: System) -> None:
    async with system.backend() as backend:
        assert not backend.ready
        with pytest.raises(Unavailable):
            backend.kill([("1b4e28ba-2fa1-41d2-883f-0016d3cca427-0-1", "")])
        with pytest.raises(Unavailable):
            backend.reconcile([])
        with pytest.raises(Unavailable):
            await backend.drain()


async def test_a_server_that_is_away_and_back(system: System, leader: Recorder) -> None:
    run = leader.run(0)
    agent = leader.launch(leader.task("sleep 1000"))
    await leader.runs(run)
    await asyncio.to_thread(system.stop_server)
    await leader.until(lambda: leader.disconnections, "the end of the connection is told")
    assert not leader.offers
    with pytest.raises(Unavailable):
        leader.backend.kill([(run, agent)])
    await asyncio.to_thread(system.start_server)
    await leader.until(lambda: len(leader.registrations) == 2 and leader.offers, "it is connected again")
    assert leader.registrations[1].framework_id == leader.registrations[0].framework_id
    leader.statuses.clear()

    def told() -> bool:
        if not leader.of(run):
            leader.backend.reconcile([(run, agent)])
        return any(each.status.state is RUNNING for each in leader.of(run))

    await leader.until(told, "the run is told")
    leader.backend.kill([(run, agent)])
    await leader.until(lambda: any(each.status.state is KILLED for each in leader.of(run)), "it is killed")


async def test_a_task_that_cannot_be_described_is_refused_without_effect(leader: Recorder) -> None:
    wrong = leader.task("true")
    config = wrong.payload
    config.healthCheck.enabled = True  # type: ignore[attr-defined]
    config.healthCheck.type = 0  # type: ignore[attr-defined]
    with pytest.raises(InvalidArgument, match=r"healthCheck\.type"):
        leader.launch(leader.task("true", 1), wrong)
    await asyncio.sleep(0)
    assert not leader.of(leader.run(1))


async def test_maintenance(leader: Recorder) -> None:
    listed = {each.hostname: each for each in (await leader.backend.agents()).agents}
    machine = Machine("host0", listed["host0"].ip)
    assert await leader.backend.maintenance() == type(await leader.backend.maintenance())()
    await leader.backend.change_schedule([machine], [])

    async def stage() -> tuple[list[str], list[str]]:
        status = await leader.backend.maintenance()
        return [each.hostname for each in status.draining], [each.hostname for each in status.down]

    async def reaches(wanted: tuple[list[str], list[str]]) -> None:
        async with asyncio.timeout(60):
            while await stage() != wanted:  # noqa: ASYNC110 - the master has no event for it
                await asyncio.sleep(0.05)

    await reaches((["host0"], []))
    await leader.backend.take_down([machine])
    await reaches(([], ["host0"]))
    await leader.until(lambda: listed["host0"].id in leader.lost, "a host that is down is lost")
    await leader.backend.bring_up([machine])
    await reaches(([], []))


async def test_a_host_that_is_gone_loses_its_runs(system: System, leader: Recorder) -> None:
    run = leader.run(0)
    agent = leader.launch(leader.task("sleep 1000"))
    await leader.runs(run)
    host = next(each.hostname for each in (await leader.backend.agents()).agents if each.id == agent)
    await asyncio.to_thread(system.kill_host, host)
    await leader.until(lambda: agent in leader.lost, "the agent is lost")
    assert (await leader.ends(run)).status.state is LOST
    listed = (await leader.backend.agents()).agents
    assert agent not in {each.id for each in listed}
