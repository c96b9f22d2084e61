"""A resmgr, a hostmgr and a clock in memory that interpret what a placement engine wants, and check it.

Calls take no time, or a drawn one; some fail. Whatever is claimed, and every gang, has one fate: that is
checked with each instruction.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from random import Random

from placement.core import events, instructions
from placement.core.events import CallFailed, Event, ReservationAnswer, Tick
from placement.core.instructions import Activity, Instruction
from placement.core.model import Gang, Host, HostClass, Shape
from placement.core.reservation_reasons import Reserved
from placement.core.rounds import Intake, Rounds, SignsOfLife
from placement.core.table import capacity

MAX_STEPS = 50_000
POLL = 0.05
"""Seconds until resmgr answers that it has no gangs."""
MAX_RENEWALS = 5
"""Requests for a reservation after which its hosts come, or its gang goes."""


@dataclass
class PlacementWorld:
    """One engine, and all around it."""

    rounds: Rounds
    gangs: Iterable[Gang]
    hosts: Iterable[Host]
    draw: Random
    failing: float = 0.0
    """The share of calls that fail."""
    slow: float = 0.0
    """The longest time of a call, in seconds."""
    busy: float = 0.0
    """The share of claims that find hosts busy where they find none."""
    rejecting: float = 0.0
    """The share of runs whose placement is rejected."""
    slots: int = 2
    now: float = 0.0
    claimed: dict[str, Host] = field(default_factory=dict)
    """By the id of the claim: neither used nor released."""
    used: set[str] = field(default_factory=set)
    fates: dict[str, str] = field(default_factory=dict)
    """What became of each run."""
    arrived: dict[str, float] = field(default_factory=dict)
    """When each run was taken, last."""
    settled: dict[str, float] = field(default_factory=dict)
    on_pause: Callable[[Activity], None] = lambda activity: None

    def __post_init__(self) -> None:
        self.queue = deque(self.gangs)
        self.free = list(self.hosts)
        self._heap: list[tuple[float, int, Activity, Event]] = []
        self._order = 0
        self._waiting_for_slot: deque[Activity] = deque()
        self._waiting_for_room: list[Activity] = []
        self.running: list[Activity] = []
        self._renewals: dict[str, int] = {}
        self._gangs: dict[str, Gang] = {}
        self._claims = 0
        self._reported: dict[int, list[Host]] = {}
        """The hosts of placements, by the identity of the answer, while that is on its way."""
        for activity in self.rounds.activities():
            self._begin(activity)

    # The interpreter.

    def run(self, steps: int = MAX_STEPS) -> None:
        """Run until every gang has its fate, or that many events were handled."""
        for _ in range(steps):
            if not self._heap or self.idle:
                return
            self.now, _, activity, event = heappop(self._heap)
            self._reported.pop(id(event), None)
            if activity in self.running:
                self._advance(activity, event)
        assert steps < MAX_STEPS, "the engine does not come to an end"

    @property
    def idle(self) -> bool:
        rounds = self.rounds
        others = [each for each in self.running if not isinstance(each, Intake | SignsOfLife)]
        open_ = self.queue or rounds.waiting or rounds.undelivered or others
        return not open_ and self.fates.keys() == self.arrived.keys()

    def unanswered_hosts(self) -> set[str]:
        """Return the claims whose hosts no activity knows yet: the interpreter releases these."""
        return {host.offer_id for _, _, _, event in self._heap for host in _hosts_of(event)}

    def stop(self) -> None:
        """Stop everything at once, as when the engine is cancelled.

        Hosts whose placements were reported without an answer yet are released: whether resmgr has taken the
        placements is not known.
        """
        for _, _, _, event in self._heap:
            for host in self._reported.get(id(event), ()):
                if host.offer_id in self.used:
                    self.used.remove(host.offer_id)
                    self.claimed[host.offer_id] = host
        for activity in self.running:
            for instruction in activity.stop():
                assert isinstance(instruction, instructions.Release)
                self._release(instruction.hosts)
        self.running.clear()

    def _begin(self, activity: Activity) -> None:
        self.running.append(activity)
        self._answer(activity, Tick(), 0.0)

    def _answer(self, activity: Activity, event: Event, seconds: float) -> None:
        self._order += 1
        heappush(self._heap, (self.now + seconds, self._order, activity, event))

    def _advance(self, activity: Activity, event: Event) -> None:
        wanted = activity.handle(event, self.now)
        answered = [at for at, each in enumerate(wanted) if not isinstance(each, _UNANSWERED)]
        assert answered in ([], [len(wanted) - 1]), "an answer is waited for by the last one only"
        assert bool(answered) != activity.ended, "it goes on exactly where it has not ended"
        for each in wanted:
            self._carry_out(activity, each)
        if activity.ended:
            self.running.remove(activity)
        if self.rounds.room > 0:
            for waiting in self._waiting_for_room:
                self._answer(waiting, Tick(), 0.0)
            self._waiting_for_room.clear()

    def _carry_out(self, activity: Activity, wanted: Instruction) -> None:
        match wanted:
            case instructions.Begin(begun):
                self._begin(begun)
            case instructions.LeaveDesiredHost(gangs):
                for gang in gangs:
                    self._note_arrival(gang)
                for begin in self.rounds.place(gangs, self.now):
                    self._carry_out(activity, begin)
            case instructions.TakeSlot():
                self._waiting_for_slot.append(activity)
                self._grant_slots()
            case instructions.FreeSlot():
                self.slots += 1
                self._grant_slots()
            case instructions.AwaitRoom():
                self._waiting_for_room.append(activity)
            case instructions.Wait(seconds):
                self.on_pause(activity)
                self._answer(activity, Tick(), seconds)
            case instructions.Release(hosts):
                self._release(hosts)
            case instructions.CancelReservations(ids):
                for id in ids:
                    self._renewals.pop(id, None)
            case instructions.GiveBackLater(unplaced):
                self.rounds.undelivered.extend(unplaced)
            case _:
                answer = self._call(wanted)
                polled = POLL if answer == events.GangsTaken([]) else 0.0
                self._answer(activity, answer, polled + self.draw.uniform(0.0, self.slow))

    def _grant_slots(self) -> None:
        while self.slots and self._waiting_for_slot:
            self.slots -= 1
            self._answer(self._waiting_for_slot.popleft(), Tick(), 0.0)

    # Calls.

    def _call(self, wanted: Instruction) -> Event:
        fails = self.draw.random() < self.failing
        if fails and isinstance(wanted, instructions.GiveBack):
            self.rounds.undelivered.extend(wanted.unplaced)
            return events.GivenBack()
        if fails:
            return CallFailed("away")
        match wanted:
            case instructions.Take(limit):
                return self._take(limit)
            case instructions.Claim():
                return self._claim(wanted)
            case instructions.ClaimReserved(_, needs, most):
                hosts = self._hosts(needs.host_class, min(most, self.draw.randint(0, 1)))
                return events.ReservedClaimed(hosts, self.draw.random() < 0.9)
            case instructions.AskLabels(hostnames):
                assert hostnames
                return events.LabelsKnown({})
            case instructions.Compare(shapes):
                return events.ShortagesKnown([None] * len(shapes))
            case instructions.Report():
                return self._report(wanted)
            case instructions.GiveBack(unplaced):
                self._settle_all((each.gang for each in unplaced), "given back")
                return events.GivenBack()
            case instructions.ShowLife(unplaced):
                self._settle_all((each.gang for each in unplaced), "given back")
                return Tick()
            case instructions.Reserve(wishes):
                return events.ReservationsAnswered([self._reserve(*wish) for wish in wishes])
            case instructions.ReportReservations(reports):
                gone = [each.gang for each in reports if self._renewals[_run(each.gang)] > MAX_RENEWALS]
                self._settle_all(gone, "gone")
                return events.GangsGone(gone)
            case _:
                raise AssertionError(f"{wanted} is not known")

    def _take(self, limit: int) -> Event:
        assert limit > 0
        some = [self.queue.popleft() for _ in range(min(limit, len(self.queue)))]
        for gang in some:
            self._note_arrival(gang)
        return events.GangsTaken(some)

    def _note_arrival(self, gang: Gang) -> None:
        for task in gang.tasks:
            self.arrived[task.run_id] = self.now
            self._gangs[task.run_id] = gang

    def _claim(self, claim: instructions.Claim) -> Event:
        fitting = [
            host
            for host in self.free
            if (not claim.names or host.hostname in claim.names)
            and capacity(replace(host, host_class=claim.needs.host_class), claim.needs)
        ]
        self.draw.shuffle(fitting)
        some = fitting[: min(claim.most, self.draw.randint(1, 3))]
        self.free = [host for host in self.free if host not in some]
        counts = {"match": len(some)}
        if not some:
            counts["mismatch_status" if self.draw.random() < self.busy else "insufficient_resources"] = 2
        return events.HostsClaimed([self._claimed(host, claim.needs.host_class) for host in some], counts)

    def _hosts(self, host_class: HostClass, count: int) -> list[Host]:
        """Claim hosts without regard to what they are for."""
        some, self.free = self.free[:count], self.free[count:]
        return [self._claimed(host, host_class) for host in some]

    def _claimed(self, host: Host, host_class: HostClass) -> Host:
        self._claims += 1
        claimed = replace(host, offer_id=f"claim-{self._claims}", host_class=host_class)
        self.claimed[claimed.offer_id] = claimed
        return claimed

    def _release(self, hosts: Iterable[Host]) -> None:
        for host in hosts:
            assert host.offer_id not in self.used, "a host that is in use is released"
            del self.claimed[host.offer_id]
            self.free.append(host)

    def _report(self, report: instructions.Report) -> Event:
        reported = [task.run_id for placement in report.placements for task in placement.tasks]
        gangs = {id(self._gangs[run]): self._gangs[run] for run in reported}.values()
        whole = [task.run_id for gang in gangs for task in gang.tasks]
        assert sorted(reported) == sorted(whole), "a gang is placed in part"
        self._settle_all(gangs, "placed")
        rejections = []
        for placement in report.placements:
            assert placement.host.offer_id in self.claimed, "a host is used that is not claimed"
            rejected = [task.run_id for task in placement.tasks if self.draw.random() < self.rejecting]
            rejections += [events.Rejection(placement.host.offer_id, run, "gone") for run in rejected]
            if len(rejected) < len(placement.tasks):
                del self.claimed[placement.host.offer_id]
                self.used.add(placement.host.offer_id)
                if self.draw.random() < 0.5:
                    self.free.append(placement.host)  # its tasks end soon, and it is offered again
        answer = events.Reported(rejections)
        self._reported[id(answer)] = [placement.host for placement in report.placements]
        return answer

    def _reserve(self, id: str, shape: Shape) -> ReservationAnswer:
        self._renewals[id] = self._renewals.get(id, 0) + 1
        if self.draw.random() < 0.3:
            hosts = [host for needs, _ in shape.members for host in self._hosts(needs.host_class, 2)]
            return ReservationAnswer(Reserved(2, 2, ("a",)), hosts)
        return ReservationAnswer(Reserved(*self.draw.choice([(0, 0), (2, 1)]), ("a", "b")))

    def _settle_all(self, gangs: Iterable[Gang], fate: str) -> None:
        for gang in gangs:
            for task in gang.tasks:
                assert task.run_id not in self.fates, f"{self.fates[task.run_id]} already"
                self.fates[task.run_id] = fate
                self.settled[task.run_id] = self.now


_UNANSWERED = (
    instructions.Begin,
    instructions.LeaveDesiredHost,
    instructions.FreeSlot,
    instructions.Release,
    instructions.CancelReservations,
    instructions.GiveBackLater,
)


def _run(gang: Gang) -> str:
    return gang.tasks[0].run_id


def _hosts_of(event: Event) -> Iterable[Host]:
    match event:
        case events.HostsClaimed(hosts) | events.ReservedClaimed(hosts):
            return hosts
        case events.ReservationsAnswered(answers):
            return [host for answer in answers for host in answer.hosts]
        case _:
            return ()
