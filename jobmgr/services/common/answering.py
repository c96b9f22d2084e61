"""Who answers which call where several job managers share the work.

A call that names one job is answered by the owner of the job. Each other method has its place here.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

LISTED_SCHEDULES = 100
"""Schedules that are listed where the caller does not say how many."""
Join = Callable[[Any, Sequence[Any]], Any]
"""Makes one answer of those of all owners, of which there is one at least, given the request."""


def together(request: Any, parts: Sequence[Any]) -> Any:
    """Return all that the owners list, as one list."""
    first, *others = parts
    for part in others:
        first.MergeFrom(part)
    return first


def joined_schedules(request: Any, parts: Sequence[Any]) -> Any:
    """Return the first schedules of all owners, those that run next first and paused ones last."""
    found = sorted((each for part in parts for each in part.schedules), key=_next)
    shown = found[: request.limit or LISTED_SCHEDULES]
    return type(parts[0])(schedules=shown, total=sum(part.total for part in parts))


def _next(schedule: Any) -> tuple[bool, str, str]:
    times = schedule.status.next_times
    return not times, times[0] if times else "", schedule.name


GATHERED: Mapping[str, Join] = {
    "JobManager.GetActiveJobs": together,
    "JobManagerService.QueryJobCache": together,
    "JobManagerService.GetThrottledPods": together,
    "MaintenanceService.CheckHosts": together,
    "ForecastService.ListLiveJobs": together,
    "UsageService.ListUsed": together,
    "SchedulingService.ListSchedules": joined_schedules,
}
"""Methods whose answer has parts of all owners."""
ANYWHERE = frozenset(
    {
        *(
            "JobManager.Query",
            "JobService.QueryJobs",
            "JobService.ListJobs",
            "JobService.GetJobIDFromJobName",
        ),
        *("UsageService.ListAccounts", "UsageService.ListLosses", "PlanService.PlanJob"),
        *("SchedulingService.ListPriorityClasses", "FeasibilityService.CheckGangs"),
        *("FeasibilityService.GetHostGains", "FeasibilityService.FindHosts"),
        *("TaskAccessService.GetToken", "SharingService.ListOwners"),
        *("AdminService.Lockdown", "AdminService.RemoveLockdown", "ProblemService.ListProblems"),
        "SecretService.ListSecrets",
        *("AccessService.GetCaller", "AccessService.CheckMethods"),
    }
)
"""Methods that any instance answers: by the store, by what it asks the owners itself, or by its settings."""
OF_POOLS = frozenset(f"SecretService.{name}Secret" for name in ("Create", "Replace", "Delete"))
"""Methods about one pool that read and then write: the owner of the shard of the pool's id answers, so that
one at a time changes it."""
OWN = frozenset(
    f"SharingService.{name}"
    for name in (
        *("StartRun", "StopRun", "DeleteRun", "FindJobs", "GetFoundJobs", "FindLosses"),
        *("ListCrashLooping", "GetRuntimes"),
    )
)
"""What job managers ask each other: each answers for its own jobs."""
TRIED = frozenset({"WatchService.Cancel"})
"""Methods that others are asked for in turn, where this instance does not know what they are about."""
MERGED = frozenset({"WatchService.Watch"})
"""Streams that are put together of those of all owners."""
