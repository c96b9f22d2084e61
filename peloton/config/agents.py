"""How the HTTP servers of Mesos agents are called, for the files of tasks and for commands beside them."""

from __future__ import annotations

import base64
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class AgentAccess:
    """What a call of an agent's HTTP server needs. Plain HTTP and no credentials where nothing is given."""

    tls: Callable[[], ssl.SSLContext] | None = None
    """Returns what encrypts a connection."""
    principal: str = ""
    secret: str = field(default="", repr=False)

    @property
    def scheme(self) -> str:
        """The scheme of their addresses."""
        return "http" if self.tls is None else "https"

    @property
    def verify(self) -> ssl.SSLContext | bool:
        """What httpx2 verifies servers by; without TLS nothing: to read authorities takes 0.25 s."""
        return False if self.tls is None else self.tls()

    @property
    def headers(self) -> Mapping[str, str]:
        """The header of the credentials, if there are any."""
        if not self.principal:
            return {}
        given = base64.b64encode(f"{self.principal}:{self.secret}".encode()).decode()
        return {"Authorization": f"Basic {given}"}


PLAIN = AgentAccess()
