"""The daemons: who leads, their health, and what is wrong with them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from peloton.membership.interface import Address, Member, Role
from peloton.model.cluster import UNNAMED
from peloton.model.problems import Problem
from peloton.web.cluster import Cluster

if TYPE_CHECKING:
    import httpx2

HEALTH_SECONDS = 2.0
"""Time-out of a daemon's /health."""
HEALTH_AGE = 2.0
ELECTED = (Role.JOBMGR, Role.RESMGR, Role.HOSTMGR, Role.ARCHIVER)
"""Roles with leaders."""
NEEDED = (Role.JOBMGR, Role.RESMGR, Role.HOSTMGR, Role.PLACEMENT)
"""Roles without which the cluster does not work."""


@dataclass(frozen=True, slots=True)
class DaemonRow:
    """A process of a daemon."""

    role: str
    cluster: str
    """Its Mesos cluster; empty for the unnamed one, and for other daemons."""
    id: str
    address: str
    version: str
    state: str
    """LEADER, STANDBY, OK (without election), UNHEALTHY or UNREACHABLE."""
    remark: str


def daemon_row(member: Member, leader: Address | None, health: str | None) -> DaemonRow:
    """Return the row of a process. `health`: what /health said; empty: all is well; None: no answer."""
    leads = member.address == leader
    if health is None:
        state, remark = "UNREACHABLE", "does not answer /health"
    elif health:
        state, remark = "UNHEALTHY", health
    else:
        state, remark = ("LEADER" if leads else "STANDBY") if member.role in ELECTED else "OK", ""
    address = f"{member.address.ip}:{member.address.grpc}"
    return DaemonRow(
        member.role.value, member.cluster, member.id, address, member.address.version, state, remark
    )


def daemon_problems(rows: tuple[DaemonRow, ...], leaders: Mapping[str, bool]) -> list[Problem]:
    """Return what is wrong with the daemons. `leaders` has for each role, or host manager, if one leads."""
    found = [Problem("bad", f"No {name} leads") for name, leads in leaders.items() if not leads]
    roles = {row.role for row in rows}
    if Role.PLACEMENT.value not in roles:
        found.append(Problem("bad", "No placement engine runs: nothing is placed"))
    found += [
        Problem("bad", f"{row.id} ({row.role}, {row.address}): {row.remark}")
        for row in rows
        if row.state in ("UNHEALTHY", "UNREACHABLE")
    ]
    return found


async def daemons(cluster: Cluster) -> tuple[DaemonRow, ...]:
    """Return the processes of all daemons, by role, with their health now."""
    return await cluster.shared.get("daemons", HEALTH_AGE, lambda: _daemons(cluster))


async def _daemons(cluster: Cluster) -> tuple[DaemonRow, ...]:
    import httpx2  # slow to import, and a web UI at which nobody looks does without

    groups = [(role, UNNAMED) for role in Role]
    groups += [(Role.HOSTMGR, name) for name in cluster.clusters.names() if name]
    members = [
        (member, cluster.leader(role, name))
        for role, name in groups
        for _, member in sorted(cluster.members(role, name).items())
    ]
    # Without TLS no address is https: to load the system's authorities would cost more than all the rest.
    scheme, verify = ("http", False) if cluster.tls is None else ("https", cluster.tls.https_client())
    async with httpx2.AsyncClient(timeout=HEALTH_SECONDS, trust_env=False, verify=verify) as client:
        healths = await asyncio.gather(*(_health(client, scheme, member.address) for member, _ in members))
    return tuple(
        daemon_row(member, leader, health) for (member, leader), health in zip(members, healths, strict=True)
    )


async def _health(client: httpx2.AsyncClient, scheme: str, address: Address) -> str | None:
    """Return what a daemon says is wrong, empty where nothing is; None where it does not answer."""
    import httpx2

    host = f"[{address.ip}]" if ":" in address.ip else address.ip
    try:
        answer = await client.get(f"{scheme}://{host}:{address.http}/health")
    except httpx2.HTTPError:
        return None
    return "" if answer.status_code == 200 else " ".join(answer.text.split())[:500] or "unhealthy"


def leader_problems(cluster: Cluster, rows: tuple[DaemonRow, ...]) -> list[Problem]:
    """Return what is wrong with the membership and the daemons."""
    trouble = cluster.trouble()
    problems = [Problem("bad", trouble)] if trouble else []
    return problems + daemon_problems(rows, cluster.leaderships())
