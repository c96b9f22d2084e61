"""A round by itself: events in, instructions out."""

from __future__ import annotations

from dataclasses import replace

import pytest

from peloton.errors import IllegalTransition
from peloton.model.constraint import Condition, Kind, LabelConstraint
from peloton.model.shortage import Lack, Shortage
from peloton.model.states import TaskType
from placement.core.batch import Batch
from placement.core.events import (
    CallFailed,
    Event,
    GivenBack,
    HostsClaimed,
    LabelsKnown,
    Rejection,
    Reported,
    ReservedTried,
    ShortagesKnown,
    Tick,
)
from placement.core.giving_up import Rules
from placement.core.host_estimates import FIRST_GUESS, HostEstimates
from placement.core.instructions import (
    AskLabels,
    Claim,
    Compare,
    FreeSlot,
    GiveBack,
    GiveBackLater,
    Instruction,
    Instructions,
    LeaveDesiredHost,
    Release,
    Report,
    TakeSlot,
    TryReserved,
    Wait,
)
from placement.core.model import Gang, HostClass, Needs
from placement.core.round import Round
from placement.core.service import Service
from placement.core.strategy import Strategy
from tests.unit.placement.samples import SPREAD, gang, host, needs, returning

BUSY = {"mismatch_status": 2}
NO_ROOM = {"insufficient_offer_resources": 2}


class Told:
    """A round that is told of events, and what it wanted last."""

    def __init__(self, *gangs: Gang, strategy: Strategy | None = None, patience: float = 2.0) -> None:
        rules = Rules(strategy or Batch(), patience=patience, desired_host_patience=100.0)
        self.round = Round(rules.strategy.family(gangs[0]), rules, HostEstimates())
        self.round.add(gangs, 0.0)
        self.now = 0.0

    def begun(self) -> Instruction:
        """Begin a pass; return its first claim."""
        assert self.tell(Tick()) == (TakeSlot(),)
        [claim] = self.tell(Tick())
        return claim

    def tell(self, event: Event) -> Instructions:
        return self.round.handle(event, self.now)

    def gives_back(self, wanted: Instructions) -> dict[Gang, str]:
        """Decline to use reserved hosts; return the reasons of the gangs that go back."""
        [tried] = wanted
        assert isinstance(tried, TryReserved)
        [given] = self.tell(ReservedTried(tried.unplaced))
        assert isinstance(given, GiveBack)
        return {each.gang: each.reason for each in given.unplaced}


def test_hosts_are_claimed_for_all_gangs_by_a_guess_and_then_by_what_hosts_take() -> None:
    gangs = [gang() for _ in range(3 * FIRST_GUESS)]
    it = Told(*gangs)
    assert it.begun() == Claim(needs(), 3)
    [placed] = it.tell(HostsClaimed([host(0), host(1), host(2)]))
    assert isinstance(placed, Report) and len(placed.placements) == 3
    [claim] = it.tell(Reported())
    assert claim == Claim(needs(), 3), "12 tasks are left, and a host takes 4"


@pytest.mark.parametrize(
    ("asked", "strategy", "expected"),
    [
        (gang(needs(gpu=1)), Batch(), True),
        (gang(needs()), Batch(), False),
        (gang(needs(gpu=1), strategy=SPREAD), Batch(), False),
        (gang(needs(gpu=1)), Service(TaskType.STATELESS, 60.0), False),
    ],
)
def test_the_fullest_hosts_are_claimed_for_packed_tasks_with_gpus(
    asked: Gang, strategy: Strategy, expected: bool
) -> None:
    claim = Told(asked, strategy=strategy).begun()
    assert isinstance(claim, Claim) and claim.fullest is expected


def test_hosts_that_are_not_used_are_released_before_placements_are_reported() -> None:
    it = Told(gang())
    it.begun()
    released, report = it.tell(HostsClaimed([host(0), host(1)]))
    assert released == Release((host(1),))
    assert isinstance(report, Report) and [each.host for each in report.placements] == [host(0)]
    assert it.tell(Reported()) == (FreeSlot(),) and it.round.ended


def test_a_gang_collects_hosts_until_it_fits_whole() -> None:
    whole = gang(*[needs()] * 6)
    it = Told(whole)
    it.begun()
    [claim] = it.tell(HostsClaimed([host(0)]))
    assert isinstance(claim, Claim)
    [report] = it.tell(HostsClaimed([host(1)]))
    assert isinstance(report, Report)
    assert sum(len(each.tasks) for each in report.placements) == 6, "all in one report"


def test_a_gang_that_does_not_fit_whole_gives_its_hosts_free_and_is_compared_with_empty_ones() -> None:
    whole = gang(*[needs()] * 6)
    it = Told(whole)
    it.begun()
    it.tell(HostsClaimed([host(0)]))
    released, compare = it.tell(HostsClaimed([], NO_ROOM))
    assert released == Release((host(0),))
    assert isinstance(compare, Compare) and [each.members for each in compare.shapes] == [whole.shape]
    lacking = Shortage(Lack.RESOURCE, "cpu", 6000, 4000, 2)
    [tried] = it.tell(ShortagesKnown([lacking]))
    assert isinstance(tried, TryReserved) and tried.unplaced[0].shortage == lacking


def test_a_gang_without_any_host_goes_back_at_once_where_none_is_busy() -> None:
    one = gang()
    it = Told(one)
    it.begun()
    assert "with too little free" in it.gives_back(it.tell(HostsClaimed([], NO_ROOM)))[one]
    assert it.tell(GivenBack()) == (FreeSlot(),) and it.round.ended


def test_busy_hosts_are_awaited_as_long_as_the_patience_lasts() -> None:
    one = gang()
    it = Told(one, patience=2.0)
    it.begun()
    pauses = []
    while True:
        wanted = it.tell(HostsClaimed([], BUSY))
        if isinstance(wanted[0], TryReserved):
            break
        freed, pause = wanted
        assert freed == FreeSlot() and isinstance(pause, Wait)
        pauses.append(pause.seconds)
        it.now += pause.seconds
        it.begun()
    assert pauses[:4] == [0.1, 0.2, 0.4, 0.5] and set(pauses[4:]) == {0.5}
    assert it.now - pauses[-1] < 2.0 <= it.now
    assert one in it.gives_back(wanted)


def test_a_gang_s_own_time_out_is_shorter_than_the_patience() -> None:
    one = replace(gang(), time_out=1.0)
    it = Told(one, patience=60.0)
    it.begun()
    it.now = 1.0
    assert one in it.gives_back(it.tell(HostsClaimed([], BUSY)))


def test_a_gang_that_joins_is_tried_in_the_same_pass() -> None:
    it = Told(gang())
    it.begun()
    later = gang(needs(2))
    it.round.add([later], 0.0)
    released, report = it.tell(HostsClaimed([host(0), host(1)]))
    assert isinstance(released, Release) and isinstance(report, Report)
    assert it.round.waiting == (), "both have a place"


def test_hosts_that_cannot_be_claimed_give_all_gangs_back_and_a_longer_pause_each_time() -> None:
    first, second = gang(), gang()
    it = Told(first)
    it.begun()
    freed, given = it.tell(CallFailed("hostmgr is away"))
    assert freed == FreeSlot() and isinstance(given, GiveBack)
    assert given.unplaced[0].reason == "hosts cannot be claimed: hostmgr is away"
    assert it.tell(GivenBack()) == (Wait(0.5, 0.5),)
    it.round.add([second], 0.0)
    it.begun()
    it.tell(CallFailed("hostmgr is away"))
    assert it.tell(GivenBack()) == (Wait(1.0, 0.5),)
    assert it.tell(Tick()) == () and it.round.ended


def test_hosts_whose_placements_are_all_rejected_are_released() -> None:
    it = Told(*[gang() for _ in range(8)])
    it.begun()
    it.tell(HostsClaimed([host(0)]))
    [claim] = it.tell(Reported())
    assert isinstance(claim, Claim), "the first host takes four"
    [report] = it.tell(HostsClaimed([host(1)]))
    assert isinstance(report, Report)
    rejections = [
        Rejection("offer-1", task.run_id, "gone") for each in report.placements for task in each.tasks
    ]
    assert it.tell(Reported(rejections)) == (Release((host(1),)), FreeSlot())


def test_one_rejection_leaves_the_host_to_the_others() -> None:
    it = Told(gang(), gang())
    it.begun()
    [report] = it.tell(HostsClaimed([host(0)]))
    assert isinstance(report, Report)
    run = report.placements[0].tasks[0].run_id
    assert it.tell(Reported([Rejection("offer-0", run, "gone")])) == (FreeSlot(),)


def test_placements_that_cannot_be_reported_release_their_hosts_and_go_back_later() -> None:
    one = gang()
    it = Told(one)
    it.begun()
    it.tell(HostsClaimed([host(0)]))
    released, later, freed = it.tell(CallFailed("away"))
    assert (released, freed) == (Release((host(0),)), FreeSlot())
    assert isinstance(later, GiveBackLater)
    assert [(each.gang, each.reason) for each in later.unplaced] == [(one, "placement not reported: away")]


def test_a_spread_job_uses_a_host_once() -> None:
    it = Told(*[gang(strategy=SPREAD) for _ in range(2)])
    it.begun()
    [report] = it.tell(HostsClaimed([host(0)]))
    assert isinstance(report, Report) and len(report.placements[0].tasks) == 1
    [claim] = it.tell(Reported())
    assert isinstance(claim, Claim)
    released, *rest = it.tell(HostsClaimed([host(0)]))
    assert released == Release((host(0),))
    [(_, reason)] = it.gives_back(tuple(rest)).items()
    assert "just got a task of the job, which is spread" in reason


def test_labels_are_asked_for_after_the_claim_where_constraints_are_about_tasks() -> None:
    tree = LabelConstraint(Kind.TASK, Condition.LESS_THAN, ("app", "web"), 1)
    apart = Needs(needs().resources, host_class=HostClass(b"apart", False, tree))
    it = Told(gang(apart))
    it.begun()
    there = replace(host(0), host_class=apart.host_class)
    assert it.tell(HostsClaimed([there])) == (AskLabels(("host-0",)),)
    [claim] = it.tell(LabelsKnown({"host-0": {("app", "web"): 1}}))
    assert isinstance(claim, Claim), "it is beside no such task"
    assert it.round.stop() == (Release((there,)),)


def test_a_task_leaves_its_desired_host_when_its_patience_is_over() -> None:
    one = returning("host-5")
    it = Told(one, strategy=Service())
    claim = it.begun()
    assert isinstance(claim, Claim) and claim.names == {"host-5": [one.tasks[0].id]}
    freed, pause = it.tell(HostsClaimed([], NO_ROOM))
    assert freed == FreeSlot() and isinstance(pause, Wait), "it waits for that host"
    it.now = 100.0
    it.begun()
    leave, freed = it.tell(HostsClaimed([], NO_ROOM))
    assert isinstance(leave, LeaveDesiredHost) and not leave.gangs[0].desired_host
    assert it.round.ended


def test_gangs_that_were_taken_over_do_not_go_back() -> None:
    one, other = gang(), gang(needs(2))
    it = Told(one, other)
    it.begun()
    [claim] = it.tell(HostsClaimed([], NO_ROOM))
    assert isinstance(claim, Claim), "for the needs of the other"
    [tried] = it.tell(HostsClaimed([], NO_ROOM))
    assert isinstance(tried, TryReserved)
    [given] = it.tell(ReservedTried([each for each in tried.unplaced if each.gang is other]))
    assert isinstance(given, GiveBack) and [each.gang for each in given.unplaced] == [other]
    assert it.tell(GivenBack()) == (FreeSlot(),) and it.round.ended


@pytest.mark.parametrize("reporting", [False, True])
def test_a_round_that_is_stopped_releases_what_it_holds(reporting: bool) -> None:
    it = Told(gang(*[needs()] * 6))
    it.begun()
    it.tell(HostsClaimed([host(0)]))
    if reporting:
        it.tell(HostsClaimed([host(1)]))
    [released] = it.round.stop()
    assert isinstance(released, Release)
    assert {each.hostname for each in released.hosts} == ({"host-0", "host-1"} if reporting else {"host-0"})
    assert it.round.stop() == ()


def test_an_event_that_is_not_waited_for_is_refused() -> None:
    it = Told(gang())
    it.begun()
    with pytest.raises(IllegalTransition, match="a round that waits for hosts takes no Reported"):
        it.tell(Reported())
