"""What the drivers of a job manager are given: the daemons that they call, and an installation's settings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from jobmgr.drivers.prune import WORKFLOWS_KEPT
from jobmgr.drivers.retry import Bucket
from jobmgr.engine.held_shards import Opened
from jobmgr.engine.task_access import TaskAccess
from jobmgr.ports.hostmgr import Hostmgr
from jobmgr.ports.resmgr import Resmgr

FINISH_SECONDS = 5.0
NO_LIMIT = Bucket(0, 1)


@dataclass(frozen=True, slots=True)
class Called:
    """The resource manager and the host managers that the drivers call."""

    resmgr: Resmgr
    hostmgrs: Callable[[str], Hostmgr]
    """Returns the host manager of a cluster, by its name; the unnamed one by an empty name."""
    resmgr_sources: Callable[[Opened], Resmgr] | None = None
    """Returns the resource manager to read from what happens to tasks of some shards."""
    hostmgr_sources: Callable[[str, Opened], Hostmgr] | None = None
    """Returns the host manager of a cluster to read from what happens to tasks of some shards."""

    def resmgr_of(self, opened: Opened) -> Resmgr:
        """Return the resource manager that tells what happens to tasks of these shards."""
        return self.resmgr if self.resmgr_sources is None else self.resmgr_sources(opened)

    def hostmgr_of(self, cluster: str, opened: Opened) -> Hostmgr:
        """Return the host manager of a cluster that tells what happens to tasks of these shards."""
        if self.hostmgr_sources is None:
            return self.hostmgrs(cluster)
        return self.hostmgr_sources(cluster, opened)


@dataclass(frozen=True, slots=True)
class DriverOptions:
    """Settings of an installation that the drivers obey."""

    kills: Bucket = NO_LIMIT
    """How many tasks are killed a second."""
    shut_downs: Bucket = NO_LIMIT
    """How many executors are shut down a second."""
    finish_within: float = FINISH_SECONDS
    """Seconds that launches under way get at an orderly end."""
    cluster: str = ""
    """The name of the cluster in the labels of tasks."""
    workflows_kept: int = WORKFLOWS_KEPT
    """Workflows that are kept of each job."""
    access: TaskAccess | None = None
    """What tasks call Peloton with."""
    hosts_address: str = ""
    """The address of all hosts that tasks are told; empty: the names of the hosts."""
