"""Planted bugs: each takes away a protection, and the seeds must find that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from jobmgr.core.state.cache import CachedJob
from jobmgr.core.state.events import DependencySeen, LaunchRefused, LaunchUncertain, WorkflowRequested
from peloton.model.job import JobRuntime, JobSpec
from peloton.model.schedule import run_id
from peloton.model.states import JobState
from peloton.model.workload import GangPolicy
from simulator.daemons.hostmgr import Hostmgr
from simulator.daemons.jobmgr import Jobmgr
from simulator.daemons.resmgr import Resmgr
from simulator.faults.world import FaultWorld

Mutate = Callable[[FaultWorld], None]


def _on(kind: type, change: Callable[[Any], None]) -> Mutate:
    """Return a bug that changes each daemon of a kind."""

    def mutate(world: FaultWorld) -> None:
        before = world.on_build

        def build(daemon: Any) -> None:
            before(daemon)
            if isinstance(daemon, kind):
                change(daemon)

        world.on_build = build

    return mutate


def _no_fence(world: FaultWorld) -> None:
    world.store.fencing = False


def _early(jobmgr: Jobmgr) -> None:
    jobmgr.early = True


def _acts_before_it_stores(jobmgr: Jobmgr) -> None:
    jobmgr.acts_early = True


def _passes_statuses_early(jobmgr: Jobmgr) -> None:
    jobmgr.streams.early = True


def _unknown_is_refused(jobmgr: Jobmgr) -> None:
    """Count a launch without an answer as one that did not happen."""
    post = jobmgr.post

    def changed(event: Any, done: Callable[[Any], None] | None = None) -> None:
        if isinstance(event, LaunchUncertain):
            event = LaunchRefused(event.runs, "no answer", False)
        post(event, done)

    jobmgr.post = changed  # type: ignore[method-assign]


def _forgets_runs_on_hosts(resmgr: Resmgr) -> None:
    resmgr.memory.restores = False


def _missed_runs_stay_unknown(resmgr: Resmgr) -> None:
    """Ignore reports of runs that were launched while the leader changed."""
    resmgr.memory.looks_up = False


def _no_reconciliation(hostmgr: Hostmgr) -> None:
    """Never request the states of runs."""
    hostmgr.reconciles = False


def _unknown_runs_live(hostmgr: Hostmgr) -> None:
    """Launch a run that was reported as lost before its launch."""
    hostmgr.core.runs.give_up = lambda run: None  # type: ignore[method-assign]


def _gang_in_part(resmgr: Resmgr) -> None:
    """Queue the members of a gang apart."""
    enqueue = resmgr.on_enqueue

    def changed(caller: Any, reply: Any, pool_id: str, gangs: Any) -> Any:
        enqueue(caller, reply, pool_id, [[task] for gang in gangs for task in gang])
        return {}

    resmgr.on_enqueue = changed  # type: ignore[method-assign]


def _no_kill_again(hostmgr: Hostmgr) -> None:
    """Lose all kills."""
    hostmgr.on_kill = lambda caller, reply, runs: None  # type: ignore[method-assign]


def _no_acknowledgements(hostmgr: Hostmgr) -> None:
    """Acknowledge statuses as soon as they arrive."""
    hostmgr.stream.acknowledges_early = True


def _no_new_leader(jobmgr: Jobmgr) -> None:
    """Do not notice a new resmgr."""
    jobmgr.streams.follows_leader = False


def _all_at_once(jobmgr: Jobmgr) -> None:
    """Update all instances of a service at once."""
    post = jobmgr.post

    def changed(event: Any, done: Callable[[Any], None] | None = None) -> None:
        if isinstance(event, WorkflowRequested):
            options = replace(event.workflow.options, batch_size=0)
            event = replace(event, workflow=replace(event.workflow, options=options))
        post(event, done)

    jobmgr.post = changed  # type: ignore[method-assign]


def _forgets_updates(jobmgr: Jobmgr) -> None:
    """Forget the updates that run where the leader changes."""
    jobmgr.forgets_updates = True


def _forgets_sla(jobmgr: Jobmgr) -> None:
    """Evict whatever the SLA allows."""
    _on_specs(jobmgr, lambda spec: replace(spec, sla=replace(spec.sla, maximum_unavailable_instances=0)))


def _forgets_rounds(jobmgr: Jobmgr) -> None:
    """Let members of elastic gangs run again while others of the round before still run."""

    def in_place(spec: JobSpec) -> JobSpec:
        if not spec.workload.elastic:
            return spec
        return replace(spec, workload=replace(spec.workload, gang_policy=GangPolicy.RESTART_MEMBER))

    _on_specs(jobmgr, in_place)


def _on_specs(jobmgr: Jobmgr, change: Callable[[JobSpec], JobSpec]) -> None:
    """Change the configs that the core works with."""
    create, recover, post = jobmgr.core.create, jobmgr.core.recover, jobmgr.post

    def created(job_id: str, spec: JobSpec, runtime: Any, workflow: Any) -> None:
        create(job_id, change(spec), runtime, workflow)

    def recovered(job: CachedJob) -> None:
        job.specs.update({version: change(spec) for version, spec in job.specs.items()})
        job.spec = change(job.spec)
        recover(job)

    def changed(event: Any, done: Callable[[Any], None] | None = None) -> None:
        if isinstance(event, WorkflowRequested):
            event = replace(event, spec=change(event.spec))
        post(event, done)

    jobmgr.core.create, jobmgr.core.recover = created, recovered  # type: ignore[method-assign]
    jobmgr.post = changed  # type: ignore[method-assign]


def _on_recovery(jobmgr: Jobmgr, change: Callable[[JobRuntime], JobRuntime]) -> None:
    """Change what a new leader reads of jobs."""
    recover = jobmgr.core.recover

    def recovered(job: CachedJob) -> None:
        job.runtime = change(job.runtime)
        recover(job)

    jobmgr.core.recover = recovered  # type: ignore[method-assign]


def _forgets_dependencies(jobmgr: Jobmgr) -> None:
    """Forget where the leader changes what jobs wait for."""
    _on_recovery(jobmgr, lambda runtime: replace(runtime, unmet=()))


def _any_end_will_do(jobmgr: Jobmgr) -> None:
    """Take any end of a job that is waited for as a success."""
    post = jobmgr.post

    def changed(event: Any, done: Callable[[Any], None] | None = None) -> None:
        if isinstance(event, DependencySeen):
            event = replace(event, state=JobState.SUCCEEDED)
        post(event, done)

    jobmgr.post = changed  # type: ignore[method-assign]


def _forgets_missed_times(jobmgr: Jobmgr) -> None:
    """Begin with the present time of a schedule where the leader changes."""

    def forgotten(runtime: JobRuntime) -> JobRuntime:
        state = runtime.schedule
        seen = jobmgr.schedules.now()
        late = state is not None and state.seen < seen
        return replace(runtime, schedule=replace(state, seen=seen)) if state is not None and late else runtime

    _on_recovery(jobmgr, forgotten)


def _runs_with_ids_of_the_term(jobmgr: Jobmgr) -> None:
    """Create the runs of schedules with ids that another leader does not know."""
    jobmgr.schedules.run_id = lambda job_id, time: run_id(run_id(job_id, jobmgr.term), time)


def _creates_runs_early(jobmgr: Jobmgr) -> None:
    """Create the run of a schedule before it is stored that it begins."""
    jobmgr.schedules.creates_early = True


MUTATIONS: Mapping[str, Mutate] = {
    "no-fence": _no_fence,
    "early-answer": _on(Jobmgr, _early),
    "acts-before-it-stores": _on(Jobmgr, _acts_before_it_stores),
    "purges-before-it-stores": _on(Jobmgr, _passes_statuses_early),
    "unknown-is-refused": _on(Jobmgr, _unknown_is_refused),
    "forgets-runs-on-hosts": _on(Resmgr, _forgets_runs_on_hosts),
    "missed-runs-stay-unknown": _on(Resmgr, _missed_runs_stay_unknown),
    "loses-kills": _on(Hostmgr, _no_kill_again),
    "acknowledges-on-arrival": _on(Hostmgr, _no_acknowledgements),
    "no-reconciliation": _on(Hostmgr, _no_reconciliation),
    "unknown-runs-live": _on(Hostmgr, _unknown_runs_live),
    "gang-in-part": _on(Resmgr, _gang_in_part),
    "new-leader-unnoticed": _on(Jobmgr, _no_new_leader),
    "updates-all-at-once": _on(Jobmgr, _all_at_once),
    "forgets-updates": _on(Jobmgr, _forgets_updates),
    "forgets-sla": _on(Jobmgr, _forgets_sla),
    "forgets-rounds": _on(Jobmgr, _forgets_rounds),
    "forgets-dependencies": _on(Jobmgr, _forgets_dependencies),
    "any-end-will-do": _on(Jobmgr, _any_end_will_do),
    "forgets-missed-times": _on(Jobmgr, _forgets_missed_times),
    "runs-with-other-ids": _on(Jobmgr, _runs_with_ids_of_the_term),
    "creates-runs-early": _on(Jobmgr, _creates_runs_early),
}
"""By name."""
OF_ASKS = frozenset(
    {
        "updates-all-at-once",
        "forgets-updates",
        "forgets-sla",
        "forgets-rounds",
        "forgets-dependencies",
        "any-end-will-do",
        "forgets-missed-times",
        "runs-with-other-ids",
        "creates-runs-early",
    }
)
"""Those that only plans with asks can find."""
