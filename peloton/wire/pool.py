"""Translate resource pool configs between the v0 wire and the model."""

from __future__ import annotations

from peloton.api.v0 import peloton_pb2
from peloton.api.v0.changelog import changelog_pb2
from peloton.api.v0.respool import respool_pb2
from peloton.errors import InvalidArgument
from peloton.model.ids import PoolId
from peloton.model.pool import KindConfig, PoolConfig, ReservationType
from peloton.model.resources import KINDS, MILLI, checked_milli


def pool_config(pool_id: PoolId, wire: respool_pb2.ResourcePoolConfig) -> PoolConfig:
    """Decode a config.

    Raises InvalidArgument for an unknown kind, a kind given twice, or an unknown reservation type.
    """
    kinds: dict[str, KindConfig] = {}
    for i, kind in enumerate(wire.resources):
        path = f"resources[{i}]"
        if kind.kind not in KINDS:
            raise InvalidArgument(f"{path}.kind", kind.kind, f"one of {', '.join(KINDS)}")
        if kind.kind in kinds:
            raise InvalidArgument(f"{path}.kind", kind.kind, "given once only")
        kinds[kind.kind] = _kind(path, kind)
    return PoolConfig(
        id=pool_id,
        name=wire.name,
        parent=wire.parent.value,
        kinds=kinds,
        owning_team=wire.owningTeam,
        ldap_groups=tuple(wire.ldapGroups),
        description=wire.description,
        controller_limit_percent=(
            wire.controllerLimit.maxPercent if wire.HasField("controllerLimit") else None
        ),
        slack_limit_percent=wire.slackLimit.maxPercent if wire.HasField("slackLimit") else None,
        version=wire.changeLog.version or 1,
        created_at=wire.changeLog.createdAt,
        updated_at=wire.changeLog.updatedAt,
        updated_by=wire.changeLog.updatedBy,
    )


def pool_config_to(pool: PoolConfig) -> respool_pb2.ResourcePoolConfig:
    """Encode a config."""
    wire = respool_pb2.ResourcePoolConfig(
        name=pool.name,
        owningTeam=pool.owning_team,
        ldapGroups=pool.ldap_groups,
        description=pool.description,
        policy=respool_pb2.PriorityFIFO,
        resources=[
            respool_pb2.ResourceConfig(
                kind=name,
                reservation=kind.reservation / MILLI,
                limit=kind.limit / MILLI,
                share=kind.share,
                type=respool_pb2.ReservationType.ValueType(kind.type),
            )
            for name, kind in pool.kinds.items()
        ],
        changeLog=changelog_pb2.ChangeLog(
            version=pool.version,
            createdAt=pool.created_at,
            updatedAt=pool.updated_at,
            updatedBy=pool.updated_by,
        ),
    )
    if pool.parent:
        wire.parent.CopyFrom(peloton_pb2.ResourcePoolID(value=pool.parent))
    if pool.controller_limit_percent is not None:
        wire.controllerLimit.maxPercent = pool.controller_limit_percent
    if pool.slack_limit_percent is not None:
        wire.slackLimit.maxPercent = pool.slack_limit_percent
    return wire


def _kind(path: str, wire: respool_pb2.ResourceConfig) -> KindConfig:
    known = (respool_pb2.UNKNOWN_TYPE, *ReservationType)
    if wire.type not in known:
        raise InvalidArgument(f"{path}.type", wire.type, "ELASTIC (1) or STATIC (2)")
    checked_milli(f"{path}.share", wire.share)
    return KindConfig(
        reservation=checked_milli(f"{path}.reservation", wire.reservation),
        limit=checked_milli(f"{path}.limit", wire.limit),
        share=wire.share,
        type=ReservationType(wire.type or ReservationType.ELASTIC),
    )
