"""The core of maintenance: refusals with their reasons, and what follows from each change of a record."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from itertools import product

import pytest

from hostmgr.core.agents.maintained_hosts import RETURN_SECONDS, draining, moved, rising
from hostmgr.core.agents.maintenance_records import RecordChange, Records
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.states import LIFE, LifeCause
from peloton.errors import Conflict, InvalidArgument, NotFound, PelotonError, Refused, Unavailable
from peloton.model.host import HostInfo
from peloton.model.resources import Resources
from peloton.model.states import HostState
from tests.interpreted import interpreted
from tests.unit.hostmgr.hosts import ids, offer
from tests.unit.hostmgr.sight import Maintained

pytestmark = interpreted

S, L = HostState, LifeCause
WALL = 10**18


@pytest.fixture
def it() -> Maintained:
    return Maintained(3)


def start(it: Maintained, name: str = "host0", by: str = "ann") -> RecordChange:
    agent = it.hosts.to_start([name])[name]
    change = it.records.plan(name, lambda record: draining(record, agent, by, WALL))
    it.records.apply(change)
    assert it.hosts.begun(change).new
    return change


def happen(it: Maintained, cause: LifeCause, name: str = "host0", now: float = 0.0) -> HostInfo:
    change = it.records.plan(name, lambda record: moved(record, cause, WALL + 1))
    it.records.apply(change)
    it.hosts.moved(change.after, now)
    return change.after


# Records.


def test_what_becomes_of_a_record(it: Maintained) -> None:
    up = HostInfo("host0", "", S.UP, S.UP)
    agent = it.sight.agents["S0"]
    begun = draining(up, agent, "ann", WALL)
    expected = HostInfo("host0", "10.0.0.0", S.DRAINING, S.DOWN, (("rack", "r"),), since=WALL, begun_by="ann")
    assert begun == expected
    assert draining(begun, agent, "bob", WALL + 1) is begun, "another request came first"
    assert rising(begun) is begun, "it is not DOWN"
    down = replace(begun, state=S.DOWN)
    assert rising(down) == replace(down, goal=S.UP)
    up_again = moved(replace(down, goal=S.UP), L.COMPLETE_MAINTENANCE, WALL + 2)
    assert up_again == replace(down, state=S.UP, goal=S.UP, since=WALL + 2, begun_by="")


@pytest.mark.parametrize(("state", "cause"), list(product(S, L)))
def test_a_record_moves_as_the_table_of_states_says(state: HostState, cause: LifeCause) -> None:
    record = HostInfo("host0", "", state, S.DOWN)
    after = moved(record, cause, WALL)
    assert after.state is LIFE.table.get((state, cause), state)
    assert (after is record) == ((state, cause) not in LIFE.table)


def test_the_record_of_a_host_that_is_up_is_deleted_and_other_clusters_are_left_out() -> None:
    records = Records("east")
    host = HostInfo("east/host0", "10.0.0.0", S.DOWN, S.UP, since=1)
    records.load([host, HostInfo("west/host0", "", S.DOWN, S.DOWN), HostInfo("host0", "", S.DOWN, S.DOWN)])
    assert records.all() == [host]
    change = records.plan("east/host0", lambda record: moved(record, L.COMPLETE_MAINTENANCE, WALL))
    assert change and change.deletes and records.get("east/host0") == host, "until it is stored"
    records.apply(change)
    assert records.all() == []
    assert not records.plan("east/host1", lambda record: record), "a host without a record is UP"


# The start.


def test_a_start_ends_the_claims_on_the_host(it: Maintained) -> None:
    for number in range(2):
        it.term.hosts.add_offer(offer(number, number), 0.0)
    claims = it.term.acquire(HostFilter(), ids(), 0.0, "placement/1").claims
    agent = it.hosts.to_start(["host0"])["host0"]
    change = it.records.plan("host0", lambda record: draining(record, agent, "", WALL))
    it.records.apply(change)
    begun = it.hosts.begun(change)
    assert begun.new and begun.ended == tuple(each for each in claims if each.hostname == "host0")
    assert it.term.hosts.table.life_of("host0") is S.DRAINING
    again = it.hosts.begun(it.records.plan("host0", lambda record: draining(record, agent, "", WALL)))
    assert again == it.hosts.already("host0") and not again.new
    assert it.hosts.to_start(["host0", "host1"]).keys() == {"host1"}


def test_agents_are_read_again_for_hosts_that_are_not_among_them(it: Maintained) -> None:
    assert not it.hosts.are_unseen(["host0", "host2"])
    assert it.hosts.are_unseen(["host0", "host9"])
    start(it)
    it.register(1, 2)
    assert not it.hosts.are_unseen(["host0"]), "it is in maintenance"
    it.sight.known = False
    assert not it.hosts.are_unseen(["host9"]), "they are about to be read"


def refusals_of_start(it: Maintained, name: str) -> str:
    with pytest.raises(PelotonError) as refused:
        it.hosts.to_start([name])
    assert isinstance(refused.value, Conflict)
    return str(refused.value)


def test_why_no_maintenance_begins(it: Maintained) -> None:
    assert refusals_of_start(it, "host9") == (
        "host host9 is unknown: no agent of this name is registered; 3 hosts are, such as host0, host1, host2"
    )
    it.hosts.describe_missing = lambda name: "LOST since noon: its agent was removed"
    assert refusals_of_start(it, "host9").startswith("host host9 is LOST since noon: its agent was removed; ")
    it.sight.disconnected = frozenset({"host9"})
    assert refusals_of_start(it, "host9").startswith("host host9 is not connected to the Mesos master")
    it.sight.known = False
    with pytest.raises(Unavailable, match="the agents have not been read"):
        it.hosts.to_start(["host9"])
    for names in ([], ["host0", ""]):
        with pytest.raises(InvalidArgument, match="hostname"):
            it.hosts.to_start(names)


def test_of_many_hosts_three_are_named(it: Maintained) -> None:
    it.register(*range(5))
    assert refusals_of_start(it, "x").endswith("5 hosts are, such as host0, host1, host2, …")
    it.register()
    assert refusals_of_start(it, "x").endswith("no agent of this name is registered; 0 hosts are")


def test_a_host_that_is_being_brought_up_is_not_drained_again(it: Maintained) -> None:
    start(it)
    for cause in (L.LAST_TASK_ENDED, L.TAKE_DOWN):
        happen(it, cause)
    it.records.apply(it.records.plan("host0", rising))
    assert refusals_of_start(it, "host0").startswith("host host0 is being brought up at the moment")


# The way down and back.


def test_what_is_left_keeps_a_host_draining(it: Maintained) -> None:
    with pytest.raises(NotFound, match="host host0 is not in maintenance"):
        it.hosts.check_drained("host0")
    start(it)
    it.term.runs.put("run", "S0")
    with pytest.raises(Refused, match="host host0 is not drained: 1 task is left"):
        it.hosts.check_drained("host0")
    it.term.runs.remove("run")
    it.sight.agents = {"S0": replace(it.sight.agents["S0"], allocated=Resources.of(1))}
    with pytest.raises(Refused, match="Mesos has 1 core allocated there"):
        it.hosts.check_drained("host0")
    it.sight.agents = {"S0": replace(it.sight.agents["S0"], allocated=Resources.of(0))}
    assert it.hosts.check_drained("host0")
    happen(it, L.LAST_TASK_ENDED)
    assert not it.hosts.check_drained("host0"), "it is DRAINED already"


def test_an_old_map_of_agents_says_nothing_of_what_is_left(it: Maintained) -> None:
    start(it)
    unknown = "Mesos has not told yet what runs there"
    it.term.connection.since = 5.0
    assert it.hosts.occupied("host0") == unknown, "the map is older than the connection"
    it.sight.read_began = 5.0
    assert it.hosts.occupied("host0") == ""
    it.register(1, 2)
    assert it.hosts.occupied("host0") == "", "its agent is gone"
    it.sight.disconnected = frozenset({"host0"})
    assert it.hosts.occupied("host0") == unknown
    it.sight.disconnected, it.sight.complete = frozenset(), False
    assert it.hosts.occupied("host0") == unknown


def test_only_a_host_that_is_down_is_brought_up(it: Maintained) -> None:
    texts = []
    for cause in (None, L.LAST_TASK_ENDED, L.TAKE_DOWN):
        if cause is None:
            start(it)
        else:
            happen(it, cause)
        try:
            it.hosts.check_complete(["host0"])
        except NotFound as error:
            texts.append(str(error))
    assert texts == [
        "host host0 is DRAINING, not DOWN: it is about to be DRAINED; maintenance ends once it is DOWN",
        "host host0 is DRAINED, not DOWN: it has no maintenance to complete",
    ]
    with pytest.raises(NotFound, match="host host1 is UP, not DOWN"):
        it.hosts.check_complete(["host0", "host1"])
    with pytest.raises(NotFound, match="host host9 is unknown"):
        it.hosts.check_complete(["host9"])
    it.hosts.describe_missing = lambda name: "LOST"
    with pytest.raises(NotFound, match="host host9 is LOST; it has no maintenance to complete"):
        it.hosts.check_complete(["host9"])


def test_a_host_is_listed_until_its_agent_is_back(it: Maintained) -> None:
    start(it)
    it.register(1, 2)
    for cause in (L.LAST_TASK_ENDED, L.TAKE_DOWN, L.COMPLETE_MAINTENANCE):
        assert [each.hostname for each in it.hosts.listed(0.0)] == ["host0"]
        happen(it, cause, now=10.0)
    assert [(each.hostname, each.state) for each in it.hosts.listed(10.0)] == [("host0", S.UP)]
    assert it.hosts.returning(10.0 + RETURN_SECONDS - 1) != []
    assert it.hosts.returning(10.0 + RETURN_SECONDS) == []


@pytest.mark.parametrize("ending", ["registered", "forgotten"])
def test_a_host_is_no_longer_awaited(it: Maintained, ending: str) -> None:
    start(it)
    it.register(1, 2)
    for cause in (L.LAST_TASK_ENDED, L.TAKE_DOWN, L.COMPLETE_MAINTENANCE):
        happen(it, cause)
    if ending == "registered":
        it.register(0, 1, 2)
    else:
        it.hosts.forget_returning(["host0"])
    assert it.hosts.listed(1.0) == []


def test_hosts_come_in_the_order_in_which_they_began(it: Maintained) -> None:
    for at, name in enumerate(("host2", "host0", "host1")):
        agent = it.hosts.to_start([name])[name]
        begin = partial(draining, agent=agent, by="", wall=WALL + at)
        it.records.apply(it.records.plan(name, begin))
    assert it.hosts.hosts_in(S.DRAINING) == ["host2", "host0", "host1"]
    assert it.hosts.hosts_in(S.DRAINING, 2) == ["host2", "host0"]
    assert it.hosts.hosts_in(S.DOWN) == [] and it.hosts.counts() == {S.DRAINING: 3}


def test_a_new_leader_shows_what_is_stored() -> None:
    it = Maintained(2)
    it.records.load([HostInfo("host1", "", S.DOWN, S.DOWN), HostInfo("host0", "", S.UP, S.UP)])
    it.hosts.show()
    table = it.term.hosts.table
    assert (table.life_of("host0"), table.life_of("host1")) == (S.UP, S.DOWN)
