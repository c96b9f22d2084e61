"""When hosts are compared with what the master shows, and what is lost in between."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from hostmgr.core.agents.known_hosts import Change, KnownHosts
from hostmgr.core.agents.lost_hosts import REPEAT_SECONDS, LostHosts, check_lost_names
from hostmgr.core.agents.maintained_hosts import draining
from peloton.errors import InvalidArgument, NotFound, Refused
from peloton.model.known_host import KnownHost, LossReason
from peloton.model.states import HostState
from tests.interpreted import interpreted
from tests.unit.hostmgr.sight import Maintained

pytestmark = interpreted

WALL = 10**18


@dataclass
class World:
    maintained: Maintained
    known: KnownHosts
    lost: LostHosts

    def look(self, now: float) -> list[tuple[str, bool]] | None:
        """Return which hosts are lost or back; None where nothing was compared."""
        change = self.lost.plan(now, WALL)
        if change is None:
            return None
        return [(host.hostname, host.lost) for host in self.lost.carried_out(change, now)]


@pytest.fixture
def world() -> World:
    maintained, known = Maintained(2), KnownHosts(1000.0)
    made = World(
        maintained, known, LostHosts(known, maintained.sight, maintained.hosts, maintained.term.runs)
    )
    assert made.look(0.0) == [], "new hosts are no news"
    return made


def test_hosts_are_compared_when_something_has_changed_or_time_has_passed(world: World) -> None:
    sight = world.maintained.sight
    assert world.look(1.0) is None
    sight.version += 1
    assert world.look(1.0) == [] and world.look(2.0) is None
    sight.gone = frozenset({"S9"})
    assert world.look(2.0) == []
    assert world.look(2.0 + REPEAT_SECONDS - 1) is None
    assert world.look(2.0 + REPEAT_SECONDS) == []
    sight.known = False
    assert world.look(1e6) is None


def test_a_host_is_lost_and_back(world: World) -> None:
    world.maintained.term.runs.put("job-0-1", "S1")
    world.maintained.term.runs.lose("job-0-1", "S1")
    world.maintained.term.runs.remove("job-0-1")
    world.maintained.register(0)
    assert world.look(1.0) == [("host1", True)] and world.lost.count == 1
    (host,) = world.lost.lost(1.0)
    assert (host.hostname, host.reason, host.tasks) == ("host1", LossReason.REMOVED, ("job-0-1",))
    world.maintained.register(0, 1)
    assert world.lost.lost(2.0) == [], "before it is noted"
    assert world.look(2.0) == [("host1", False)] and world.lost.count == 0


def test_a_change_that_was_not_stored_is_planned_again(world: World) -> None:
    world.maintained.register(0)
    assert world.lost.plan(1.0, WALL) == world.lost.plan(1.0, WALL) != Change()
    assert world.lost.lost(1.0) == []


def test_a_host_that_did_not_return_after_its_maintenance_is_lost(world: World) -> None:
    it = world.maintained
    agent = it.sight.agents["S1"]
    change = it.records.plan("host1", lambda record: draining(record, agent, "", WALL))
    it.records.apply(change)
    it.register(0)
    assert world.look(1.0) == [] and world.lost.lost(1.0) == [], "it is in maintenance"
    up = it.records.plan("host1", lambda record: replace(record, state=HostState.UP, goal=HostState.UP))
    it.records.apply(up)
    it.hosts.moved(up.after, 2.0)
    (host,) = world.lost.lost(2.0)
    assert (host.hostname, host.reason) == ("host1", LossReason.NOT_BACK), "before it is noted"
    assert world.look(2.0) == [("host1", True)]
    forgotten = world.lost.forget(["host1"], 2.0)
    world.lost.forgotten(forgotten)
    assert world.lost.lost(2.0) == [] and it.hosts.returning(2.0) == []


def test_only_lost_hosts_are_forgotten(world: World) -> None:
    world.known.apply(Change((KnownHost("old", "", lost_since=1, reason=LossReason.REMOVED),)))
    with pytest.raises(Refused, match="host host0 is not lost"):
        world.lost.forget(["old", "host0"], 0.0)
    with pytest.raises(NotFound, match="host nosuch is unknown"):
        world.lost.forget(["nosuch"], 0.0)
    assert world.lost.forget(["old"], 0.0) == Change(forgotten=("old",))
    for names in ([], ["old", ""]):
        with pytest.raises(InvalidArgument, match="hostnames"):
            check_lost_names(names)
