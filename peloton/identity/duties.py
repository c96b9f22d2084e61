"""What each role of daemons calls of the others: with a certificate of it, a daemon may call nothing else."""

from __future__ import annotations

from collections.abc import Mapping

HOSTS = "peloton.private.hostmgr.hostsvc.InternalHostService"
FEASIBILITY = "peloton.private.hostmgr.feasibility.FeasibilityService"
EVENTS = "peloton.private.eventstream.EventStreamService"
TASKS = "peloton.private.resmgr.ResourceManagerService"
PLANNING = "peloton.private.resmgr.planning.PlanningService"

NEEDED: Mapping[str, Mapping[str, frozenset[str]]] = {
    "jobmgr": {
        TASKS: frozenset(
            {"EnqueueGangs", "GetPlacements", "GetPreemptibleTasks", "KillTasks", "UpdateTasksState"}
        ),
        PLANNING: frozenset({"PlanGangs"}),
        "peloton.private.resmgr.waiting.WaitingService": frozenset({"WaitForDeltas"}),
        "peloton.private.resmgr.holding.HoldingService": frozenset({"FindMissing"}),
        "peloton.private.resmgr.preemption.PreemptionService": frozenset({"GetReasons"}),
        HOSTS: frozenset(
            {
                "DestroyVolumes",
                "GetMesosAgentInfo",
                "GetMesosMasterHostPort",
                "GetTasksByHostState",
                "KillAndReserveTasks",
                "KillTasks",
                "LaunchTasks",
                "ReleaseHostOffers",
                "ShutdownExecutors",
            }
        ),
        EVENTS: frozenset({"InitStream", "WaitForEvents"}),
        FEASIBILITY: frozenset({"CheckGangs"}),
        "peloton.private.hostmgr.history.HostHistoryService": frozenset({"GetMaintenances"}),
        "peloton.private.hostmgr.passing.PassingService": frozenset({"PassEvents"}),
        "peloton.private.hostmgr.reconcile.ReconcileService": frozenset({"ReconcileTasks"}),
        "peloton.private.hostmgr.matching.MatchingService": frozenset({"MatchHosts"}),
    },
    "resmgr": {
        HOSTS: frozenset(
            {
                "ClusterCapacity",
                "GetDrainingHosts",
                "GetHostPoolCapacity",
                "GetMesosAgentInfo",
                "MarkHostDrained",
                "ReleaseHostOffers",
            }
        ),
        EVENTS: frozenset({"InitStream", "WaitForEvents"}),
        FEASIBILITY: frozenset({"CheckGangs", "FindHosts", "GetHostGains"}),
        "peloton.private.hostmgr.claims.ClaimService": frozenset({"ShortenClaims"}),
    },
    "placement": {
        TASKS: frozenset({"DequeueGangs", "SetPlacements"}),
        PLANNING: frozenset({"AnswerPlan", "TakePlan"}),
        "peloton.private.resmgr.placing.PlacingService": frozenset(
            {"GetLabelsOnHosts", "GiveBack", "ReportReservations"}
        ),
        HOSTS: frozenset({"AcquireHostOffers", "ReleaseHostOffers"}),
        FEASIBILITY: frozenset({"CheckGangs", "FindHosts"}),
        "peloton.private.hostmgr.reservations.ReservationService": frozenset(
            {"AcquireForBackfill", "CancelReservations", "ReserveForGangs"}
        ),
    },
    "hostmgr": {TASKS: frozenset({"GetHostsByScores"})},
    "archiver": {"peloton.api.v0.job.JobManager": frozenset({"Delete", "Query"})},
}
"""Methods by role and service. `tests/unit/identity/test_duties.py` compares it with the daemons' code."""


def needs(role: str, service: str, method: str) -> bool:
    """Return whether a daemon of a role calls a method of another daemon."""
    return method in NEEDED[role].get(service, ())
