"""The services of a leader."""

from __future__ import annotations

from functools import partial

from hostmgr.composition.parts import Parts
from hostmgr.config import HostmgrSettings
from hostmgr.drivers.host_mover import HostMover
from hostmgr.services.claims import ClaimService
from hostmgr.services.early_acknowledgements import EarlyAcknowledgements
from hostmgr.services.events import EventStream
from hostmgr.services.feasibility import Feasibility
from hostmgr.services.foreign_pods import ForeignPodService
from hostmgr.services.history import HistoryService
from hostmgr.services.holds import HoldService, held_rooms
from hostmgr.services.hosts import HostService, HostServiceV1Alpha
from hostmgr.services.internal import InternalHosts
from hostmgr.services.launches import LaunchOnHosts
from hostmgr.services.leases import Leases
from hostmgr.services.matching import Matching
from hostmgr.services.offers import find_hosts
from hostmgr.services.pod_events import PodEventStream
from hostmgr.services.reconcile import ReconcileTasks
from hostmgr.services.registry import HostRegistry
from hostmgr.services.reservations import ReservationService
from hostmgr.services.sampling import SamplingService
from hostmgr.services.watches import Watches
from peloton.api.v0.host.svc.host_svc_pb2_grpc import add_HostServiceServicer_to_server
from peloton.api.v1alpha.host.svc import host_svc_pb2_grpc as host_svc_v1alpha
from peloton.daemon.lifecycle import Daemon
from peloton.private.eventstream.eventstream_pb2_grpc import add_EventStreamServiceServicer_to_server
from peloton.private.eventstream.v1alpha.eventstreamsvc import eventstreamsvc_pb2_grpc
from peloton.private.hostmgr.claims.claims_pb2_grpc import add_ClaimServiceServicer_to_server
from peloton.private.hostmgr.feasibility.feasibility_pb2_grpc import add_FeasibilityServiceServicer_to_server
from peloton.private.hostmgr.foreign.foreign_pb2_grpc import add_ForeignPodServiceServicer_to_server
from peloton.private.hostmgr.history.history_pb2_grpc import add_HostHistoryServiceServicer_to_server
from peloton.private.hostmgr.holds.holds_pb2_grpc import add_HoldServiceServicer_to_server
from peloton.private.hostmgr.hostsvc.hostsvc_pb2_grpc import add_InternalHostServiceServicer_to_server
from peloton.private.hostmgr.launching.launching_pb2_grpc import add_LaunchServiceServicer_to_server
from peloton.private.hostmgr.matching.matching_pb2_grpc import add_MatchingServiceServicer_to_server
from peloton.private.hostmgr.passing.passing_pb2_grpc import add_PassingServiceServicer_to_server
from peloton.private.hostmgr.reconcile.reconcile_pb2_grpc import add_ReconcileServiceServicer_to_server
from peloton.private.hostmgr.registry.registry_pb2_grpc import add_HostRegistryServiceServicer_to_server
from peloton.private.hostmgr.reservations.reservations_pb2_grpc import (
    add_ReservationServiceServicer_to_server,
)
from peloton.private.hostmgr.sampling.sampling_pb2_grpc import add_SamplingServiceServicer_to_server
from peloton.private.hostmgr.v1alpha.svc.hostmgr_svc_pb2_grpc import (
    add_HostManagerServiceServicer_to_server,
)
from peloton.rpc.server import Service, names_of, service

SERVICES = names_of(
    add_InternalHostServiceServicer_to_server,
    add_LaunchServiceServicer_to_server,
    add_HostManagerServiceServicer_to_server,
    add_ClaimServiceServicer_to_server,
    add_FeasibilityServiceServicer_to_server,
    add_MatchingServiceServicer_to_server,
    add_EventStreamServiceServicer_to_server,
    eventstreamsvc_pb2_grpc.add_EventStreamServiceServicer_to_server,
    add_ReconcileServiceServicer_to_server,
    add_ReservationServiceServicer_to_server,
    add_PassingServiceServicer_to_server,
    add_HostHistoryServiceServicer_to_server,
    add_HostRegistryServiceServicer_to_server,
    add_HoldServiceServicer_to_server,
    add_ForeignPodServiceServicer_to_server,
    add_HostServiceServicer_to_server,
    host_svc_v1alpha.add_HostServiceServicer_to_server,
)


def services(
    daemon: Daemon[HostmgrSettings], parts: Parts, mover: HostMover, watches: Watches
) -> tuple[Service, ...]:
    """Return all services of SERVICES over the parts of a term."""
    manager, cluster, reconciliation = parts.manager, parts.cluster, parts.reconciliation
    maintenance, pools = parts.maintenance, parts.pools
    records, sight = maintenance.hosts.records, cluster.sight
    held = partial(held_rooms, manager.hosts.holds, daemon.clock)
    return (
        service(
            add_InternalHostServiceServicer_to_server,
            InternalHosts(manager, sight, reconciliation, watches, maintenance, pools),
        ),
        service(add_LaunchServiceServicer_to_server, LaunchOnHosts(manager)),
        service(add_HostManagerServiceServicer_to_server, Leases(manager, sight, reconciliation)),
        service(add_ClaimServiceServicer_to_server, ClaimService(manager)),
        service(
            add_FeasibilityServiceServicer_to_server,
            Feasibility(manager.hosts.table, sight, partial(find_hosts, manager)),
        ),
        service(add_MatchingServiceServicer_to_server, Matching(manager.hosts.table, sight, daemon.clock)),
        service(add_EventStreamServiceServicer_to_server, EventStream(manager.status_updates)),
        service(eventstreamsvc_pb2_grpc.add_EventStreamServiceServicer_to_server, PodEventStream(manager)),
        service(add_PassingServiceServicer_to_server, EarlyAcknowledgements(manager.status_updates)),
        service(add_HostHistoryServiceServicer_to_server, HistoryService(parts.history, records)),
        service(add_HoldServiceServicer_to_server, HoldService(manager)),
        service(add_ForeignPodServiceServicer_to_server, ForeignPodService(manager.backend)),
        service(add_ReconcileServiceServicer_to_server, ReconcileTasks(manager)),
        service(add_ReservationServiceServicer_to_server, ReservationService(manager, parts.planner)),
        service(add_SamplingServiceServicer_to_server, SamplingService(parts.sampler)),
        service(
            add_HostRegistryServiceServicer_to_server,
            HostRegistry(parts.known, pools, daemon.clusters, daemon.membership, daemon.cluster),
        ),
        service(
            add_HostServiceServicer_to_server,
            HostService(cluster, maintenance, pools, mover, parts.known, held),
        ),
        service(
            host_svc_v1alpha.add_HostServiceServicer_to_server,
            HostServiceV1Alpha(cluster, maintenance, pools),
        ),
    )
