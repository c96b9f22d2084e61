"""Which calls of which core are recorded, and how that is set up in a process."""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from inspect import signature
from itertools import count
from pathlib import Path
from typing import Any

from hostmgr.core.agents.sight import ClusterSight
from hostmgr.core.claims.holds import Holds
from hostmgr.core.claims.lifecycle import Claims
from hostmgr.core.cluster_manager.kills import Kills
from hostmgr.core.cluster_manager.launching import Launching
from hostmgr.core.cluster_manager.reconciliation import Reconciler
from hostmgr.core.cluster_manager.status_rules import StatusRules
from hostmgr.core.cluster_manager.volumes import Volumes
from hostmgr.core.hosts.all_hosts import Hosts
from hostmgr.core.reservations.queue import Reservations
from hostmgr.core.runs.on_agents import Runs
from hostmgr.core.state.host_pools import HostPools
from hostmgr.core.state.offer_book import OfferBook
from hostmgr.core.state.table import HostTable
from hostmgr.core.term import Term
from jobmgr.core.cycle import Core
from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.decisions import Cycle
from placement.core.reserving import Reserving
from placement.core.rounds import FamilyRound, Intake, Rounds, SignsOfLife
from resmgr.core.preemption.execution import Preemptor
from resmgr.core.scheduler import Scheduler
from resmgr.core.state.leases import Leases
from resmgr.core.state.pending_reasons import Reasons
from resmgr.core.state.pools import PoolTree
from resmgr.core.state.strangers import Strangers
from simulator.recording.journal import Ids, Journal, Made, Naming
from simulator.recording.naming import OfHostmgr, OfJobmgr, OfPlacement, OfResmgr, Steps, decided

ENDING = ".journal"
IDS = "Iterator[str]"
"""The type of a parameter from which ids are drawn without end; what is read whole is an Iterable."""
STEPS = frozenset({"replan_steps", "steps", "to_repeat"})
"""The methods that return generators: calls may come between two steps."""


@dataclass(frozen=True, slots=True)
class RecordedCore:
    """A core that is recorded."""

    root: type
    naming: Callable[[Any], Naming]
    methods: Mapping[type, tuple[str, ...]]
    """Of the core and of its parts."""


CORES: Mapping[str, RecordedCore] = {
    "hostmgr": RecordedCore(
        Term,
        OfHostmgr,
        {
            Term: (
                "acquire",
                "connected",
                "connecting",
                "declined",
                "disconnected",
                "expire",
                "framework_stored",
                "old_offers",
                "on_events",
                "postpone_claims",
                "request",
                "requested",
            ),
            Claims: ("end_on", "release", "shorten_older"),
            ClusterSight: ("failed", "take"),
            Holds: ("expire", "release", "renew"),
            HostPools: ("apply", "replace"),
            Hosts: ("change_pools",),
            HostTable: ("set_life", "set_loads"),
            Kills: ("hold", "plan", "sent", "to_repeat"),
            Launching: ("claim_for", "launched", "operated", "plan", "postponed", "refused"),
            OfferBook: ("use",),
            Reconciler: ("due_retries", "next_reconciliation", "reconcile_soon", "to_reconcile"),
            Reservations: (
                "cancel",
                "candidates",
                "completed",
                "expire",
                "open_for",
                "progress",
                "renew",
                "replan",
                "replan_steps",
                "reserve_one",
            ),
            Runs: ("learn", "put", "take_lost"),
            StatusRules: ("judge", "missed"),
            Volumes: ("create", "destroy", "destroyed", "not_created"),
        },
    ),
    "jobmgr": RecordedCore(
        Core, OfJobmgr, {Core: ("create", "recover", "refresh", "forget", "run_cycle", "commit")}
    ),
    "resmgr": RecordedCore(
        Scheduler,
        OfResmgr,
        {
            Scheduler: (
                "admit",
                "bring_back",
                "dequeue",
                "enqueue",
                "enqueue_alone",
                "entitle",
                "expire",
                "expire_leases",
                "hand_over",
                "ignore_host_pools",
                "keep_aside",
                "kill",
                "load_pools",
                "note_call",
                "note_saved",
                "observe",
                "propose",
                "reserve",
                "restore",
                "set_capacity",
                "take_abandoned",
                "take_back_gangs",
                "take_back_placements",
                "take_claim",
            ),
            Leases: ("touch",),
            PoolTree: ("delete", "insert", "replace"),
            Preemptor: ("give_back", "keep", "spare", "steps", "take"),
            Reasons: ("flush", "restart"),
            Strangers: ("answered", "ask"),
        },
    ),
    "placement": RecordedCore(
        Rounds,
        OfPlacement,
        {
            Rounds: ("activities", "place"),
            FamilyRound: ("handle", "stop"),
            Intake: ("handle", "stop"),
            Reserving: ("handle", "stop"),
            SignsOfLife: ("handle", "stop"),
        },
    ),
}
"""By the name of the daemon."""


class Recorder:
    """Has each core of one kind that this process makes write a journal of its own."""

    def __init__(self, daemon: str, folder: Path) -> None:
        self._daemon = daemon
        self._core = CORES[daemon]
        self._folder = folder
        self._journals: list[tuple[Naming, Journal]] = []
        self._numbers = count(1)

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Replace the methods of the classes by ones that write, until the body has ended."""
        self._folder.mkdir(parents=True, exist_ok=True)
        classes = self._core.methods
        former = [(cls, method, getattr(cls, method)) for cls in classes for method in classes[cls]]
        root = self._core.root
        build = root.__init__  # type: ignore[misc]

        @wraps(build)
        def made(made: Any, *args: Any, **kwargs: Any) -> None:
            build(made, *args, **kwargs)
            self._begin(made, args, kwargs)

        try:
            for cls, method, original in former:
                setattr(cls, method, self._recorded(method, original))
            root.__init__ = made  # type: ignore[misc]
            yield
        finally:
            root.__init__ = build  # type: ignore[misc]
            for cls, method, original in former:
                setattr(cls, method, original)

    def _begin(self, made: Any, args: Any, kwargs: Any) -> None:
        naming = self._core.naming(made)
        path = self._folder / f"{self._daemon}-{os.getpid()}-{next(self._numbers)}{ENDING}"
        journal = Journal(path, naming, Made(self._daemon, args, kwargs), answer_of)
        self._journals.append((naming, journal))

    def _recorded(self, method: str, original: Callable[..., Any]) -> Callable[..., Any]:
        ids = _position_of_ids(original)

        @wraps(original)
        def call(target: Any, *args: Any, **kwargs: Any) -> Any:
            journal = self._journal_of(target)
            if journal is None:
                return original(target, *args, **kwargs)
            if ids is not None:
                args = (*args[:ids], Ids(next(args[ids])), *args[ids + 1 :])
            return journal.run(target, method, partial(call_method, original, target), args, kwargs)

        @wraps(original)
        def in_steps(target: Any, *args: Any, **kwargs: Any) -> Any:
            journal, steps = self._journal_of(target), call(target, *args, **kwargs)
            return steps if journal is None else _recorded_steps(journal, steps)

        return in_steps if method in STEPS else call

    def _journal_of(self, target: Any) -> Journal | None:
        return next((journal for naming, journal in self._journals if naming.name(target) is not None), None)


def _position_of_ids(method: Callable[..., Any]) -> int | None:
    """Return which argument of a method draws ids without end."""
    types = [each.annotation for each in list(signature(method).parameters.values())[1:]]
    return types.index(IDS) if IDS in types else None


def _recorded_steps(journal: Journal, steps: Steps) -> Any:
    while True:
        try:
            found = journal.run(steps, "__next__", steps.__next__, (), {})
        except StopIteration as end:
            return end.value
        yield found


def call_method(method: Callable[..., Any], target: Any, *args: Any, **kwargs: Any) -> Any:
    """Call a method of a class; return a generator as steps, each of which is a call."""
    answer = method(target, *args, **kwargs)
    return Steps(answer) if isinstance(answer, Generator) else answer


def answer_of(answer: Any) -> Any:
    """Return what of an answer is compared."""
    if isinstance(answer, Cycle):
        return decided(answer)
    if isinstance(answer, list):
        return [each.job_id if isinstance(each, CachedJob) else each for each in answer]
    return answer
