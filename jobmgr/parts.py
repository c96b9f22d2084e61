"""What a job manager has whether it leads alone or shares the work."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack, contextmanager
from functools import partial

from jobmgr.clients.trials import TrialsClient
from jobmgr.config import JobmgrSettings
from jobmgr.drivers.accounting import Accountant
from jobmgr.drivers.options import DriverOptions
from jobmgr.engine.engine import Engine
from jobmgr.engine.job_metrics import JOB_COUNTS
from jobmgr.engine.task_access import TaskAccess
from jobmgr.engine.workflows import Workflows
from jobmgr.server import services
from jobmgr.services.common.spec_rules import SpecRules
from jobmgr.services.common.task_callers import is_alive
from jobmgr.services.common.template_trials import TemplateTrials
from jobmgr.services.private.problems import refused_jobs, silent_workflows
from jobmgr.services.v1alpha.watches import Watches
from peloton.calls.rpc import Caller, Hostmgrs
from peloton.config.agents import AgentAccess
from peloton.daemon.lifecycle import Daemon
from peloton.daemon.starts import FollowedStarts
from peloton.identity.door import Door
from peloton.membership.interface import Group, Role
from peloton.membership.shard_registry import ShardRegistry
from peloton.rpc.server import Service
from storage.selection.problems import certificate_problems, store_problems


def follow_engine(daemon: Daemon[JobmgrSettings], engine: Engine) -> None:
    """Let the audit log and the metrics look into an engine."""
    if daemon.servers.audit is not None:
        daemon.servers.audit.pool_of = engine.pool_of
    JOB_COUNTS.follow(engine.lanes.in_memory, daemon.settings.shown_jobs)


@contextmanager
def knowing_runs(door: Door | None, engine: Engine) -> Iterator[None]:
    """Let the door know which runs live, while the body runs."""
    if door is None or door.tasks is None:
        yield
        return
    door.tasks.lives = partial(is_alive, engine)
    try:
        yield
    finally:
        door.tasks.lives = None


def driver_options(settings: JobmgrSettings, access: TaskAccess) -> DriverOptions:
    """Return what the settings say of drivers; `access` is what tasks call Peloton with."""
    return DriverOptions(
        kills=settings.task_kill.bucket(),
        shut_downs=settings.executor_shutdown.bucket(),
        cluster=settings.cluster,
        workflows_kept=settings.workflows_kept,
        access=access,
        hosts_address=settings.hosts_address,
    )


def tell_problems(daemon: Daemon[JobmgrSettings], engine: Engine, stack: AsyncExitStack) -> None:
    """Let the daemon tell, until the stack is left, what is wrong with workflows, the store and resmgr."""
    clock, storage = daemon.clock, daemon.settings.storage
    # All others are followed by resmgr.
    starts = FollowedStarts(daemon.membership, lambda: [Group(Role.RESMGR)], clock)
    daemon.spawn("starts", starts.run())
    workflows = partial(silent_workflows, engine.lanes, clock)
    store = partial(store_problems, engine.store, storage, clock.monotonic)
    telling = daemon.problems.telling
    stack.enter_context(telling("whether workflows make progress", workflows))
    stack.enter_context(telling("whether jobs may be queued", partial(refused_jobs, engine.lanes)))
    stack.enter_context(telling("how the store is", store))
    certificates = certificate_problems(storage, clock)
    stack.enter_context(telling("whether certificates of the store end soon", certificates))
    stack.enter_context(telling("whether resmgr starts often", starts.problems))


def served(
    daemon: Daemon[JobmgrSettings],
    engine: Engine,
    workflows: Workflows,
    watches: Watches,
    hostmgrs: Hostmgrs,
    resmgr: Caller,
    agents: AgentAccess,
    access: TaskAccess,
    accountant: Accountant,
    registry: ShardRegistry,
) -> tuple[Service, ...]:
    """Return all services over an engine."""
    settings = daemon.settings
    rules = SpecRules(
        secrets=settings.enable_secrets,
        images=settings.images,
        tokens=access.enough,
        classes=settings.classes,
        trials=TemplateTrials(TrialsClient(hostmgrs)),
    )
    return services(
        engine,
        workflows,
        daemon.clock,
        hostmgrs,
        resmgr,
        watches,
        rules,
        agents=agents,
        access=access,
        hosts_address=settings.hosts_address,
        accounts=accountant,
        shards=registry.seen,
        shared=settings.shared,
    )
