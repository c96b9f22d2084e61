"""Translate resource pool specs between the v1alpha wire and the model."""

from __future__ import annotations

from peloton.api.v0.respool import respool_pb2 as v0
from peloton.api.v1alpha.peloton_pb2 import ResourcePoolID, Revision
from peloton.api.v1alpha.respool import respool_pb2 as pb
from peloton.errors import InvalidArgument
from peloton.model.ids import PoolId
from peloton.model.pool import PoolConfig
from peloton.model.resources import MILLI
from peloton.wire import pool as wire_v0

_POLICIES = (pb.SCHEDULING_POLICY_INVALID, pb.SCHEDULING_POLICY_PRIORITY_FIFO)


def pool_config(pool_id: PoolId, spec: pb.ResourcePoolSpec) -> PoolConfig:
    """Decode a spec, without what the server fills (the revision).

    Raises InvalidArgument as `peloton.wire.pool.pool_config` does, and for an unknown policy.
    """
    if spec.policy not in _POLICIES:
        raise InvalidArgument("policy", spec.policy, "SCHEDULING_POLICY_PRIORITY_FIFO (1)")
    old = v0.ResourcePoolConfig(
        name=spec.name,
        owningTeam=spec.owning_team,
        ldapGroups=spec.ldap_groups,
        description=spec.description,
        resources=[
            v0.ResourceConfig(
                kind=kind.kind,
                reservation=kind.reservation,
                limit=kind.limit,
                share=kind.share,
                type=v0.ReservationType.ValueType(kind.type),
            )
            for kind in spec.resources
        ],
    )
    old.parent.value = spec.parent.value
    if spec.HasField("controller_limit"):
        old.controllerLimit.maxPercent = spec.controller_limit.max_percent
    if spec.HasField("slack_limit"):
        old.slackLimit.maxPercent = spec.slack_limit.maxPercent
    return wire_v0.pool_config(pool_id, old)


def pool_spec_to(pool: PoolConfig) -> pb.ResourcePoolSpec:
    """Encode a spec."""
    spec = pb.ResourcePoolSpec(
        revision=Revision(
            version=pool.version,
            created_at=pool.created_at,
            updated_at=pool.updated_at,
            updated_by=pool.updated_by,
        ),
        name=pool.name,
        owning_team=pool.owning_team,
        ldap_groups=pool.ldap_groups,
        description=pool.description,
        policy=pb.SCHEDULING_POLICY_PRIORITY_FIFO,
        resources=[
            pb.ResourceSpec(
                kind=name,
                reservation=kind.reservation / MILLI,
                limit=kind.limit / MILLI,
                share=kind.share,
                type=pb.ReservationType.ValueType(kind.type),
            )
            for name, kind in pool.kinds.items()
        ],
    )
    if pool.parent:
        spec.parent.CopyFrom(ResourcePoolID(value=pool.parent))
    if pool.controller_limit_percent is not None:
        spec.controller_limit.max_percent = pool.controller_limit_percent
    if pool.slack_limit_percent is not None:
        spec.slack_limit.maxPercent = pool.slack_limit_percent
    return spec
