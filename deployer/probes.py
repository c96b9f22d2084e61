"""What daemons say of themselves, and who leads."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Self

import httpx2

from deployer.installation import HealthTls
from deployer.record import Started
from peloton.config.tls import Contexts
from peloton.membership.interface import Address, Membership, Role

PROBE_SECONDS = 2.0
LONGEST_CHARACTERS = 300
_LEADS = b"\nhealth_leader 1.0\n"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one daemon says."""

    healthy: bool
    problem: str = ""
    leads: bool = False
    version: str = ""


class Prober:
    """Asks daemons at their HTTP ports. An asynchronous context manager."""

    def __init__(self, tls: HealthTls, membership: Membership) -> None:
        """Read the files of `tls`. Raises ConfigError."""
        self._membership = membership
        self._scheme = "https" if tls.enabled else "http"
        context: ssl.SSLContext | bool = True
        if tls.enabled:
            context = Contexts("health", tls.ca_file, tls.certificate_file, tls.key_file)()
        self._client = httpx2.AsyncClient(verify=context, timeout=PROBE_SECONDS, trust_env=False)

    async def __aenter__(self) -> Self:
        """Open the connections."""
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *failure: object) -> None:
        """Close them."""
        await self._client.aclose()

    async def ask(
        self, started: Mapping[str, tuple[Started, Role | None]], versions: bool = False
    ) -> dict[str, Answer]:
        """Ask all daemons at once, each with its role if it may lead; `versions`: also for versions."""
        answers = await asyncio.gather(*(self._ask(each, role, versions) for each, role in started.values()))
        return dict(zip(started, answers, strict=True))

    def is_elected(self, started: Started, role: Role | None) -> bool:
        """Return whether a daemon is the leader of its role, as the membership tells."""
        return role is not None and _is_at(self._membership.leader(role), started)

    async def leader_changed(self) -> None:
        """Wait for the next change of the membership. Raises what made watching impossible."""
        await self._membership.changed()

    async def _ask(self, started: Started, role: Role | None, versions: bool) -> Answer:
        where = f"{self._scheme}://{_bracketed(started.ip)}:{started.ports[0]}"
        try:
            told = await self._client.get(f"{where}/health")
            if told.status_code != 200:
                return Answer(False, " ".join(told.text.split())[:LONGEST_CHARACTERS])
            leads = self.is_elected(started, role)
            if leads:  # elected: only when it has taken over does it answer calls
                leads = _LEADS in (await self._client.get(f"{where}/metrics")).content
            version = (await self._client.get(f"{where}/version")).text.strip() if versions else ""
            return Answer(True, leads=leads, version=version)
        except httpx2.HTTPError as error:
            return Answer(False, f"it does not answer at {where}/health ({type(error).__name__})")


def _bracketed(ip: str) -> str:
    return f"[{ip}]" if ":" in ip else ip


def _is_at(leader: Address | None, started: Started) -> bool:
    return leader is not None and leader.http == started.ports[0] and leader.ip == started.ip


def roles(names: Iterable[str]) -> dict[str, Role]:
    """Return the roles that elect leaders, by name."""
    return {name: Role(name) for name in names}
