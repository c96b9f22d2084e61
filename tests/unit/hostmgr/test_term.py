"""The core of a term by itself: events and requests in, instructions out, without a loop or a fake."""

from __future__ import annotations

import math
from collections.abc import Iterator

import pytest

from hostmgr.core.claims.claim import Claim, InvalidOffers
from hostmgr.core.claims.holds import HoldRequest
from hostmgr.core.cluster_manager.acknowledgements import BATCH, Acknowledgements
from hostmgr.core.cluster_manager.events import (
    Acknowledgement,
    Address,
    AgentLost,
    BackendEvent,
    OfferRescinded,
    OffersMade,
    Registration,
    SecondLaunchRefused,
    StatusUpdate,
    UnreadableStatus,
)
from hostmgr.core.cluster_manager.instructions import (
    Decline,
    DestroyVolume,
    HandleStatuses,
    Kill,
    StoreFrameworkId,
)
from hostmgr.core.cluster_manager.kills import CALLS_AT_ONCE
from hostmgr.core.cluster_manager.volumes import CREATED_SECONDS
from hostmgr.core.hosts.all_hosts import HostLimits
from hostmgr.core.runs.run_info import RunInfo
from hostmgr.core.runs.stored import agent_of, of_cluster, started
from hostmgr.core.state.columns import Agent
from hostmgr.core.state.host_filter import HostFilter
from hostmgr.core.state.offer_book import OFFER_SECONDS
from hostmgr.core.state.offers import DISK, Entry, Need, Offer
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term, TermLimits
from peloton.errors import AlreadyExists, InvalidArgument, NotFound, Refused, Unavailable
from peloton.model.resources import Resources
from peloton.model.states import TaskState
from peloton.model.task import Launch, TaskRuntime, TaskStatus
from tests.property.hostmgr import invariants
from tests.unit.hostmgr.hosts import need, offer

S = TaskState
JOB = "1b4e28ba-2fa1-41d2-883f-0016d3cca427"
RUN = f"{JOB}-0-1"
FRAMEWORK = Registration("f1", Address("master", 5050), "m1")
GRACE = 10.0


@pytest.fixture
def term() -> Iterator[Term]:
    """A term with a connection since 100.0, whose parts keep their invariants."""
    made = Term(HostTable(room=1), TermLimits(HostLimits(held_share=1.0), claim_grace=GRACE), "f1")
    made.connected(FRAMEWORK, 100.0)
    yield made
    invariants.check(made.hosts)


def offered(term: Term, *offers: Offer, now: float = 100.0) -> None:
    assert term.on_events([OffersMade(offers)], now) == []


def claimed(term: Term, now: float = 100.0, ends_by: float | None = None) -> Claim:
    ids = iter([f"c{len(term.hosts.claims)}-{now}"])
    (claim,) = term.acquire(HostFilter(max_hosts=1), ids, now, "placement/1", ends_by).claims
    return claim


def launched(term: Term, *needs: Need, now: float = 100.0) -> Claim:
    claim = claimed(term, now)
    plan = term.launching.plan(claim.id, claim.hostname, claim.agent_id, needs)
    assert plan is not None
    term.launching.launched(plan, needs)
    return claim


def status(
    run: str, state: TaskState, agent: str = "S0", missing: bool = False, reason: str = ""
) -> StatusUpdate:
    return StatusUpdate(TaskStatus(run, state, 0, agent_id=agent, reason=reason), False, missing, None)


# The connection.


def test_a_new_framework_id_is_stored_before_the_connection_counts() -> None:
    term = Term(HostTable())
    assert term.connecting(FRAMEWORK) == StoreFrameworkId("f1")
    with pytest.raises(AssertionError, match="is not stored"):
        term.connected(FRAMEWORK, 1.0)
    assert not term.connection.up
    term.framework_stored("f1")
    term.connected(FRAMEWORK, 1.0)
    assert term.connection.since == 1.0 and term.connecting(FRAMEWORK) is None


def test_what_the_connection_tells() -> None:
    connection = Term(HostTable(), framework_id="f1").connection
    with pytest.raises(Unavailable, match="the address of the Mesos master is not known yet"):
        _ = connection.master
    assert connection.unhealthy == "not subscribed with the Mesos master"
    connection.begin(FRAMEWORK, 5.0)
    assert (connection.unhealthy, connection.since) == ("", 5.0)
    connection.require(ready=True)
    with pytest.raises(Unavailable):
        connection.require(ready=False)
    connection.end("reset by peer")
    assert connection.unhealthy == "not subscribed with the Mesos master: reset by peer"
    assert connection.since == math.inf and connection.master == FRAMEWORK.master
    with pytest.raises(Unavailable):
        connection.require(ready=True)


def test_offers_end_with_the_connection_and_launches_that_may_be_lost_are_asked_for(term: Term) -> None:
    offered(term, offer(1, 0), offer(2, 1))
    launched(term, need(RUN))
    term.disconnected("gone")
    assert list(term.hosts.offers) == [] and term.reconciler.due_retries(1e6) == []
    term.connected(FRAMEWORK, 200.0)
    assert term.reconciler.due_retries(200.0) == [(RUN, "S0")]


# Events.


def test_events_are_handled_in_order_and_statuses_come_back(term: Term) -> None:
    events: list[BackendEvent] = [
        OffersMade([offer(1, 0), offer(2, 0), offer(3, 1)]),
        status(RUN, S.RUNNING),
        OfferRescinded("O1"),
        OfferRescinded("nosuch"),
        AgentLost("S1"),
        SecondLaunchRefused(RUN),
    ]
    assert term.on_events(events, 100.0) == [events[1], events[5]]
    assert [each.id for each in term.hosts.offers] == ["O2"]
    assert term.reconciler.gone() == {"S1"} and term.hosts.table.row("S1") is None
    offered(term, offer(4, 1))
    assert not term.reconciler.gone(), "it is back"


def test_what_becomes_of_statuses(term: Term) -> None:
    offered(term, offer(1, 0))
    launched(term, need(RUN))
    unreadable = Acknowledgement("other", "S0", b"u")
    running, gone = status(RUN, S.RUNNING), status(RUN, S.LOST, missing=True)
    found = term.statuses.judge(
        [gone, running, SecondLaunchRefused(RUN), UnreadableStatus(unreadable)], 100.0
    )
    assert found == HandleStatuses((running,), (RUN,), (unreadable,), 1)
    assert term.runs.agent(RUN) == "S0" and not term.runs.is_unconfirmed(RUN)


def test_a_run_that_mesos_does_not_have_may_not_be_launched_later(term: Term) -> None:
    lost = status(RUN, S.LOST, missing=True)
    assert term.statuses.judge([lost], 100.0).publish == (lost,)
    offered(term, offer(1, 0))
    claim = claimed(term)
    with pytest.raises(InvalidOffers, match=f"reported as lost before the launch: {RUN}"):
        term.launching.plan(claim.id, "host0", "", [need(RUN)])


def test_a_status_that_the_full_stream_did_not_take_is_asked_for_if_it_is_not_repeated(term: Term) -> None:
    while term.reconciler.next_reconciliation(1e4) is not None:
        pass
    term.statuses.missed(Acknowledgement(RUN, "S0", b"u"), 1e4)
    assert term.reconciler.next_reconciliation(1e4 + 100) is None, "Mesos repeats it"
    term.statuses.missed(Acknowledgement(RUN, "S0", b""), 1e4)
    assert term.reconciler.next_reconciliation(1e4 + 100) is not None


# Launches.


def test_a_launch_uses_the_offers_and_follows_its_runs(term: Term) -> None:
    offered(term, offer(1, 0), offer(2, 0))
    claim = claimed(term)
    needs = [need(RUN), need(f"{JOB}-1-1")]
    plan = term.launching.plan(claim.id, "host0", "S0", needs)
    assert plan is not None and [each.id for each in plan.offers] == ["O1", "O2"]
    assert len(term.hosts.offers) == 2, "planning changes nothing"
    term.launching.launched(plan, needs)
    assert list(term.hosts.offers) == [] and term.hosts.claims.get(claim.id) is None
    assert sorted(term.runs.unconfirmed()) == [(RUN, "S0"), (f"{JOB}-1-1", "S0")]
    assert term.hosts.table.starting("S0") == 2
    assert term.launching.plan(claim.id, "host0", "S0", needs) is None, "it is repeated"


def test_runs_of_a_backfill_end_by_the_time_that_was_promised(term: Term) -> None:
    offered(term, offer(1, 0))
    claim = claimed(term, ends_by=60.0)
    plan = term.launching.plan(claim.id, "host0", "", [need(RUN, 1, 100)])
    assert plan is not None
    term.launching.launched(plan, [need(RUN, 1, 100)])
    assert term.runs.info(RUN) == RunInfo((1000, 100_000, 0, 0, 0, 0), 160.0)


@pytest.mark.parametrize(
    ("needs", "error"), [([need(RUN, 99)], InvalidOffers), ([need(RUN), need(RUN)], InvalidArgument)]
)
def test_a_refused_launch_frees_its_host(term: Term, needs: list[Need], error: type[Exception]) -> None:
    offered(term, offer(1, 0))
    claim = claimed(term)
    with pytest.raises(error):
        term.launching.plan(claim.id, "host0", "", needs)
    assert claim.agent_id in term.hosts.claims, "until the caller has been told"
    term.launching.refused(claim.id, "host1", 100.0)
    assert claim.agent_id in term.hosts.claims, "the claim is of another host"
    term.launching.refused(claim.id, "host0", 100.0)
    assert claim.agent_id not in term.hosts.claims


def test_a_launch_waits_for_the_offers_of_a_new_connection_for_so_long(term: Term) -> None:
    offered(term, offer(1, 0))
    claim = claimed(term)
    term.disconnected("gone")
    term.connected(FRAMEWORK, 200.0)
    with pytest.raises(Unavailable, match=r"host0 has not been offered again since .* 9 s ago"):
        term.launching.refused(claim.id, "host0", 200.0 + GRACE - 1)
    assert claim.agent_id in term.hosts.claims
    term.launching.refused(claim.id, "host0", 200.0 + GRACE)
    assert claim.agent_id not in term.hosts.claims


def test_operations_use_a_claim_once(term: Term) -> None:
    offered(term, offer(1, 0))
    claim = claimed(term)
    launch = Launch(RUN, Resources.of(1, 10), None)
    assert term.launching.claim_for(claim.id, "host0", [launch], "content") == claim
    term.launching.operated(claim, "content", [launch])
    assert term.runs.agent(RUN) == "S0" and term.hosts.table.starting("S0") == 1
    assert term.launching.claim_for(claim.id, "host0", [launch], "content") is None
    with pytest.raises(InvalidOffers, match="was used for other tasks"):
        term.launching.claim_for(claim.id, "host0", [launch], "other content")
    with pytest.raises(AssertionError, match="used twice"):
        term.launching.operated(claim, "content", [launch])


# Kills.


def test_kills_go_to_the_agents_that_are_known_and_are_repeated_while_the_runs_live(term: Term) -> None:
    term.runs.put(RUN, "S0")
    kill = term.kills.plan([RUN, "unknown"])
    assert kill == Kill(((RUN, "S0"), ("unknown", "")))
    assert list(term.kills.to_repeat()) == [], "it was not sent"
    term.kills.sent(kill)
    assert list(term.kills.to_repeat()) == [Kill(((RUN, "S0"),))]
    term.runs.remove(RUN)
    assert list(term.kills.to_repeat()) == []


def test_kills_are_repeated_so_many_at_a_time_without_those_that_end_meanwhile(term: Term) -> None:
    runs = [f"{JOB}-{number}-1" for number in range(CALLS_AT_ONCE + 2)]
    for run in runs:
        term.runs.put(run, "S0")
    term.kills.sent(term.kills.plan(runs))
    parts = term.kills.to_repeat()
    assert len(next(parts).runs) == CALLS_AT_ONCE
    term.runs.remove(runs[-1])
    assert list(parts) == [Kill(((runs[-2], "S0"),))]


def test_kills_for_maintenance_are_repeated_as_such_unless_the_run_is_killed_otherwise_too(
    term: Term,
) -> None:
    one, other, third = (f"{JOB}-{number}-1" for number in range(3))
    for run in (one, other, third):
        term.runs.put(run, "S0")
    kill = term.kills.plan([one, other, third], maintenance=True)
    assert kill.maintenance
    term.kills.sent(term.kills.plan([third]))
    term.kills.sent(kill)
    term.kills.sent(term.kills.plan([other]))
    runs = {again.maintenance: [run for run, _ in again.runs] for again in term.kills.to_repeat()}
    assert runs == {True: [one], False: [third, other]}


def test_disabled_kills_are_refused(term: Term) -> None:
    term.kills.require_enabled()
    term.kills.disabled = True
    with pytest.raises(Refused, match="a restart of hostmgr enables it"):
        term.kills.require_enabled()


def test_room_is_held_for_killed_runs_as_far_as_hosts_may_be_held() -> None:
    term = Term(HostTable(), TermLimits(HostLimits(held_share=0.5)), "f1")
    term.connected(FRAMEWORK, 0.0)
    offered(term, *(offer(number, number) for number in range(2)))
    term.runs.put(f"{JOB}-0-1", "S0")
    runs = {f"{JOB}-{n}-1": HoldRequest(f"{JOB}-{n}", f"host{n}") for n in range(2)}
    made = term.kills.hold(runs, 0.0)
    assert (made.held, made.refused) == (1, 1)
    (hold,) = term.hosts.holds
    assert (hold.hostname, hold.run) == ("host0", f"{JOB}-0-1")
    term.statuses.judge([status(f"{JOB}-0-1", S.KILLED)], 1.0)
    assert [each.run for each in term.hosts.holds] == [""], "the run has ended, the hold lasts"
    invariants.check(term.hosts)


# What the time brings.


def test_claims_are_postponed(term: Term) -> None:
    offered(term, offer(1, 0))
    term.postpone_claims(105.0)
    with pytest.raises(Unavailable, match=r"hosts are claimed in 1\.5 s: reserved ones"):
        claimed(term, 103.5)
    assert claimed(term, 105.0).hostname == "host0"


def test_what_is_over_is_named(term: Term) -> None:
    offered(term, offer(1, 0), offer(2, 1))
    claim = claimed(term)
    term.hosts.hold("host1", f"{JOB}-0", 100.0)
    alive = {"placement/1"}
    over = term.expire(alive, 100.0)
    assert (over.claims, over.holds, over.paused_agents) == ((), (), ())
    over = term.expire(alive, 1e6)
    assert [each.id for each in over.claims] == [claim.id]
    assert [each.task_id for each in over.holds] == [f"{JOB}-0"]
    assert term.expire(alive, 1e6).claims == ()


def test_the_claims_of_processes_that_are_gone_end_soon(term: Term) -> None:
    offered(term, offer(1, 0))
    claim = claimed(term)
    assert term.expire((), 100.0).claims == ()
    (over,) = term.expire((), 115.0).claims
    assert over.id == claim.id and claim.until > 115.0


def test_an_agent_takes_launches_again_after_its_pause(term: Term) -> None:
    offered(term, offer(1, 0))
    for number in range(3):
        failed = status(f"{JOB}-0-{number}", S.FAILED, reason="CONTAINER_LAUNCH_FAILED")
        term.statuses.judge([failed], 100.0)
    assert not term.acquire(HostFilter(), iter(["c"]), 100.0, "").claims
    assert term.expire((), 129.0).paused_agents == ()
    assert term.expire((), 130.0).paused_agents == ("S0",)


def test_old_offers_are_declined_with_a_connection_only(term: Term) -> None:
    offered(term, offer(1, 0))
    late = 100.0 + OFFER_SECONDS
    assert term.old_offers(late - 1) is None
    decline = term.old_offers(late)
    assert decline == Decline(("O1",)) and len(term.hosts.offers) == 1
    term.declined(decline)
    assert len(term.hosts.offers) == 0
    offered(term, offer(2, 0))
    term.connection.end("gone")
    assert term.old_offers(2 * late) is None


# Volumes.


def test_a_volume_is_created_once(term: Term) -> None:
    term.volumes.create("v1", 0.0)
    with pytest.raises(AlreadyExists, match="there is a volume v1 already"):
        term.volumes.create("v1", CREATED_SECONDS - 1)
    term.volumes.create("v1", CREATED_SECONDS)
    term.volumes.not_created("v1")
    term.volumes.create("v1", CREATED_SECONDS)
    term.hosts.set_agents([Agent("S0", "host0", volumes=frozenset({"v2"}))])
    with pytest.raises(AlreadyExists):
        term.volumes.create("v2", 0.0)


def test_a_volume_is_destroyed_where_it_is_offered_and_its_host_is_not_claimed(term: Term) -> None:
    with pytest.raises(NotFound, match="no agent has the volume v1"):
        term.volumes.destroy("v1")
    term.hosts.set_agents([Agent("S0", "host0", volumes=frozenset({"v1"}))])
    with pytest.raises(Refused, match="is in use, or not offered"):
        term.volumes.destroy("v1")
    offered(term, Offer("O1", "S0", "host0", (Entry(DISK, 1, amount=1000, volume="v1"),)))
    claim = claimed(term)
    with pytest.raises(Unavailable, match="host0 is claimed"):
        term.volumes.destroy("v1")
    term.hosts.claims.release(claim.id)
    instruction = term.volumes.destroy("v1")
    assert isinstance(instruction, DestroyVolume) and instruction.volume.offer.id == "O1"
    term.volumes.destroyed(instruction.volume)
    assert len(term.hosts.offers) == 0


# Requests of states, and what is stored of runs.


def test_states_are_requested_of_the_agents_that_are_known(term: Term) -> None:
    term.runs.put(RUN, "S0")
    request = term.request([(RUN, ""), ("other", "S9"), ("unknown", "")])
    assert request.runs == ((RUN, "S0"), ("other", "S9"), ("unknown", ""))
    term.requested(request)
    assert (term.runs.agent("other"), term.runs.agent("unknown")) == ("S9", "")


def test_which_stored_runs_have_begun_in_a_cluster() -> None:
    def row(state: TaskState, host: str, run: int = 1) -> TaskRuntime:
        return TaskRuntime(state, S.SUCCEEDED, run, 1, 1, run, host=host, agent_id="S0")

    page = {
        0: row(S.RUNNING, "east/host0"),
        1: row(S.LAUNCHED, "east/host0"),
        2: row(S.KILLING, "west/host0"),
        3: row(S.STARTING, "east/host1"),
        4: row(S.SUCCEEDED, "east/host1"),
    }
    assert list(of_cluster(page, "west")) == [2]
    assert list(started(JOB, page, "east")) == [(f"{JOB}-0-1", "S0"), (f"{JOB}-3-1", "S0")]
    assert agent_of(page[0], 1, "east") == "S0"
    assert agent_of(page[0], 2, "east") == "", "it is another run"
    assert agent_of(page[0], 1, "west") == ""


# Acknowledgements.


def test_acknowledgements_wait_for_a_connection_and_are_void_without_one() -> None:
    queue = Acknowledgements()
    one = Acknowledgement(RUN, "S0", b"1")
    assert not queue.add(one) and len(queue) == 0
    queue.connected()
    assert queue.add(one) and not queue.add(one._replace(uuid=b""))
    assert queue.batch() == [one] == queue.batch(), "what was not sent comes again"
    queue.disconnected()
    assert queue.batch() == []
    queue.connected()
    assert queue.batch() == []


def test_acknowledgements_are_sent_in_batches() -> None:
    queue = Acknowledgements()
    queue.connected()
    every = [Acknowledgement(f"{JOB}-{number}-1", "S0", b"u") for number in range(BATCH + 3)]
    for each in every:
        queue.add(each)
    sent = []
    while batch := queue.batch():
        sent += batch
        queue.sent(len(batch))
    assert sent == every
