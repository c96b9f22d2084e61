"""Check the history of a run; report violations. Pure.

Violations must never occur. Two runs of an instance that lived at once are one, unless the first run's
agent had been given up (unreachable, or gone) after its launch and before the second was launched: nobody can
know then that the first is over, and every task is to run at least once. Those are counted apart, as
unavoidable.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tests.faults.daemon_rules import broken_daemons
from tests.faults.end_rules import invalid_ends
from tests.faults.history import (
    ENDS,
    GIVEN_UP,
    OVER,
    TERMINAL,
    Call,
    Event,
    History,
    Instance,
    Job,
    Life,
    Run,
)
from tests.faults.leadership_rules import overlapping_leaders
from tests.faults.owner_rules import overlapping_owners
from tests.faults.workflow_rules import broken_workflows

EPSILON = 1e-6
FOREVER = float("inf")


@dataclass(frozen=True, slots=True)
class Violation:
    rule: str
    story: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.story}"


@dataclass(frozen=True, slots=True)
class Verdict:
    violations: Sequence[Violation]
    unavoidable: Sequence[str]
    """Runs of an instance that lived at once, with no way to know it."""


def check(history: History) -> Verdict:
    lives = lives_of(history.events)
    wrong, unavoidable = _overlaps(lives)
    return Verdict(
        [
            *_jobs_kept(history),
            *_deletions_kept(history),
            *_answers_in_order(history),
            *_nothing_left(history),
            *_counts_add_up(history),
            *_stops_kept(history),
            *_stays_stopped(history),
            *_updates_kept(history),
            *_runs_known(history),
            *_each_ran(history),
            *_no_orphans(history),
            *_one_live_run(history),
            *_capacity(history.events),
            *wrong,
            *(Violation(*finding) for finding in invalid_ends(history)),
            *(Violation(*finding) for finding in overlapping_leaders(history.actions, history.events)),
            *(Violation(*finding) for finding in overlapping_owners(history.actions)),
            *(Violation(*finding) for finding in broken_workflows(history.workflows, history.events)),
            *(Violation(*finding) for finding in broken_daemons(history.daemons, lives)),
        ],
        unavoidable,
    )


# --- what the API acknowledged -----------------------------------------------------------------------------


def _jobs_kept(history: History) -> Iterator[Violation]:
    """No acknowledged job is lost, nor the instances that it was acknowledged with."""
    wanted: dict[str, int] = {}
    perhaps = {(call.job, call.instances) for call in history.calls if call.method == "perhaps-update"}
    for call in history.calls:
        if call.method in ("create", "update"):
            wanted[call.job] = max(call.instances, wanted.get(call.job, 0))
    for job_id, least in wanted.items():
        job = history.end.jobs.get(job_id)
        count = job.count if job is not None and (job_id, job.count) in perhaps else least
        if job is None:
            yield Violation("job lost", f"{job_id} was acknowledged and is not there")
        elif job.count != count or set(job.instances) != set(range(count)):
            actual = f"config {job.count}, tasks {sorted(job.instances)}"
            yield Violation("update lost", f"{job_id} was acknowledged with {count} instances, has {actual}")


def _deletions_kept(history: History) -> Iterator[Violation]:
    """What was deleted and was gone does not come back."""
    for job_id in history.end.undeleted:
        yield Violation("deletion lost", f"{job_id} was deleted, and is there")


def _answers_in_order(history: History) -> Iterator[Violation]:
    """A call is answered or refused: errors of the daemons themselves reach nobody."""
    for answer in history.end.answers:
        yield Violation("internal error", answer)


def _nothing_left(history: History) -> Iterator[Violation]:
    """Where no job runs any more, no host is claimed, held or reserved, and nothing is allocated."""
    for story in history.end.left:
        yield Violation("left behind", story)


def _stops_kept(history: History) -> Iterator[Violation]:
    """What was stopped has ended: killed, unless it ended by itself."""
    for call in history.calls:
        job = history.end.jobs.get(call.job)
        if call.method != "stop" or job is None:
            continue
        for number, instance in _stopped(call, job):
            if instance.state not in TERMINAL:
                message = f"{call.job}-{number} was stopped and is {instance.state}"
                yield Violation("kill lost", message)


def _stays_stopped(history: History) -> Iterator[Violation]:
    """Of what was stopped no further run is launched. One launch may have been under way."""
    for call in history.calls:
        if call.method != "stop":
            continue
        runs: dict[int, set[int]] = defaultdict(set)
        for event in history.events:
            run = event.run
            if (
                event.kind == "launch"
                and run is not None
                and run.job == call.job
                and event.at > call.answered
            ):
                runs[run.instance].add(run.number)
        for number, launched in runs.items():
            if len(launched) > 1 and (call.stopped is None or number in call.stopped):
                message = f"{call.job}-{number} was stopped, then runs {sorted(launched)} were launched"
                yield Violation("kill undone", message)


def _stopped(call: Call, job: Job) -> list[tuple[int, Instance]]:
    return [(n, each) for n, each in job.instances.items() if call.stopped is None or n in call.stopped]


def _counts_add_up(history: History) -> Iterator[Violation]:
    for job_id, job in history.end.jobs.items():
        if job.state not in TERMINAL:
            continue
        real = Counter(each.state for each in job.instances.values())
        stats = {state: n for state, n in job.stats.items() if n}
        if stats != dict(real):
            yield Violation("counts", f"{job_id} {job.state}: counts {stats}, instances {dict(real)}")
        elif sum(stats.values()) != job.count:
            yield Violation("counts", f"{job_id} {job.state}: {stats} of {job.count}")
        elif not real.keys() <= TERMINAL:
            yield Violation("counts", f"{job_id} is {job.state} with {dict(real)}")


# --- what Mesos saw ----------------------------------------------------------------------------------------


def _updates_kept(history: History) -> Iterator[Violation]:
    """The end of a run whose update was acknowledged is known: it is the instance's, or a later run is."""
    sent: dict[tuple[Run, str], str] = {}
    for event in history.events:
        if event.kind == "update" and event.run is not None:
            sent[event.run, event.uuid] = event.state
    acknowledged: dict[tuple[Run, str], float] = {}
    for event in history.events:
        if event.kind == "ack" and event.run is not None:
            acknowledged.setdefault((event.run, sent.get((event.run, event.uuid), "")), event.at)
    first_given_up: dict[Run, float] = {}
    for event in history.events:
        if event.kind == "sent" and event.state in GIVEN_UP and event.run is not None:
            first_given_up.setdefault(event.run, event.at)
    for (run, state), at in sorted(acknowledged.items()):
        instance = _instance(history, run)
        if state not in ENDS or instance is None or instance.run > run.number:
            continue
        given_up = first_given_up.get(run, FOREVER) <= at
        if instance.run < run.number or (instance.state != ENDS[state] and not given_up):
            now = f"the instance is {instance.state} in run {instance.run}"
            yield Violation("status lost", f"{run} {state} was acknowledged, {now}")


def _runs_known(history: History) -> Iterator[Violation]:
    """Nothing is launched that the store does not know of (intent before action)."""
    for event in history.events:
        if event.kind != "launch" or event.run is None or event.run.job not in history.end.jobs:
            continue
        instance = _instance(history, event.run)
        if instance is None or instance.run < event.run.number:
            yield Violation("unknown run", f"{event.run} was launched, the instance is {instance}")


def _each_ran(history: History) -> Iterator[Violation]:
    """Each instance of a job that succeeded has a run that finished."""
    finished = {
        (event.run.job, event.run.instance)
        for event in history.events
        if event.run is not None and "TASK_FINISHED" in (event.state, event.latest)
    }
    for job_id, job in history.end.jobs.items():
        for number, instance in job.instances.items():
            if instance.state == "SUCCEEDED" and (job_id, number) not in finished:
                yield Violation("never ran", f"{job_id}-{number} is SUCCEEDED, no run of it finished")


def _no_orphans(history: History) -> Iterator[Violation]:
    """Each live run is the current run of an instance that is to run."""
    for run, agent in history.end.live:
        instance = _instance(history, run)
        if instance is None or instance.run != run.number or instance.state in TERMINAL:
            yield Violation("orphan", f"{run} lives on {agent}, the instance is {instance}")


def _one_live_run(history: History) -> Iterator[Violation]:
    live: dict[tuple[str, int], list[str]] = defaultdict(list)
    for run, agent in history.end.live:
        live[run.job, run.instance].append(f"run {run.number} on {agent}")
    for (owner, number), runs in live.items():
        if len(runs) > 1:
            yield Violation("live twice", f"{owner}-{number}: {', '.join(runs)}")
    for job_id, job in history.end.jobs.items():
        for number, instance in job.instances.items():
            if instance.state == "RUNNING" and (job_id, number) not in live:
                yield Violation("ghost", f"{job_id}-{number} is RUNNING, no agent has it")


def lives_of(events: Sequence[Event]) -> list[Life]:
    """Runs that an agent began, from its first sign of life to its end."""
    agent: dict[Run, str] = {}
    begin: dict[Run, float] = {}
    end: dict[Run, float] = {}
    given_up: dict[Run, float] = {}
    launched: set[Run] = set()
    dead: dict[str, float] = {}
    for event in events:
        run = event.run
        if event.kind == "dead":
            dead[event.agent] = event.at
        if run is None:
            continue
        if event.kind == "update" and event.state in OVER:
            end[run] = min(event.when, end.get(run, FOREVER))
        elif event.kind == "update":
            begin[run] = min(event.when, begin.get(run, FOREVER))
            agent[run] = event.agent
        elif event.kind == "launch":
            launched.add(run)
        elif event.kind == "sent" and event.state in GIVEN_UP and run in launched:
            given_up.setdefault(run, event.at)
    return [
        Life(
            run,
            agent[run],
            begin[run],
            min(end.get(run, FOREVER), dead.get(agent[run], FOREVER)),
            given_up.get(run, FOREVER),
        )
        for run in sorted(begin)
    ]


def _overlaps(lives: Sequence[Life]) -> tuple[list[Violation], list[str]]:
    wrong, unavoidable = [], []
    by_instance: dict[tuple[str, int], list[Life]] = defaultdict(list)
    for life in lives:
        by_instance[life.run.job, life.run.instance].append(life)
    for several in by_instance.values():
        for i, first in enumerate(several):
            for second in several[i + 1 :]:
                if second.begin < first.end and first.begin < second.end:
                    story = f"{first.run} on {first.agent} and {second.run} on {second.agent}"
                    if first.given_up <= second.begin:
                        unavoidable.append(story)
                    else:
                        wrong.append(Violation("ran twice at once", story))
    return wrong, unavoidable


def _capacity(events: Sequence[Event]) -> Iterator[Violation]:
    """At no time do the runs on an agent ask for more than it has, or two for one port."""
    totals: dict[str, dict[str, float]] = {}
    placed: dict[Run, Event] = {}
    for event in events:
        if event.kind == "agent":
            totals[event.agent] = dict(event.amounts)
        elif event.run is None:
            continue
        elif event.kind == "launch":
            yield from _fits(event, totals.get(event.agent, {}), placed)
            placed[event.run] = event
        elif _frees(event):
            placed.pop(event.run, None)


def _frees(event: Event) -> bool:
    if event.kind == "update":
        return event.latest in OVER
    return event.kind == "sent" and not event.uuid and event.state in (GIVEN_UP | OVER)


def _fits(launch: Event, total: dict[str, float], placed: dict[Run, Event]) -> Iterator[Violation]:
    beside = [each for each in placed.values() if each.agent == launch.agent]
    for name, amount in launch.amounts.items():
        used = amount + sum(each.amounts.get(name, 0.0) for each in beside)
        if used > total.get(name, 0.0) + EPSILON:
            had = total.get(name, 0.0)
            yield Violation("over capacity", f"{launch.agent} with {launch.run}: {name} {used:g} of {had:g}")
    for each in beside:
        common = set(each.ports) & set(launch.ports)
        if common:
            yield Violation("port twice", f"{sorted(common)} on {launch.agent}: {each.run}, {launch.run}")


def _instance(history: History, run: Run) -> Instance | None:
    job = history.end.jobs.get(run.job)
    return job.instances.get(run.instance) if job is not None else None
