"""Settings of the web UI."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from peloton.config.base import Settings
from peloton.config.encryption import AgentSettings
from peloton.config.limits import HttpLimitSettings
from peloton.config.settings import ProcessSettings
from peloton.config.sources import Variable

DEFAULT_PORT = 5297


class WebHttpLimitSettings(HttpLimitSettings):
    """How much browsers and programs may take. /health, /metrics and /version answer beyond it, too."""

    connections: int = Field(2000, ge=1)
    """Connections at a time; no more than a quarter of the open files that the process may have."""
    address_connections: int = Field(1500, ge=1)
    """Connections of one address at a time. All who come through a proxy have its address."""


class TerminalSettings(Settings):
    """Terminals in tasks that run, for those who may call ExecService.StartSession."""

    total: int = Field(100, ge=0, le=10_000)
    """Terminals that are open at a time; 0: there are none."""
    per_user: int = Field(5, ge=1, le=1000)
    """Terminals of a user at a time; of an address, where callers are not asked who they are."""
    idle_seconds: float = Field(900.0, gt=0, le=86_400)
    """Seconds after which a terminal into which nothing is typed is closed."""


class WebSettings(ProcessSettings):
    """Settings of the web UI."""

    http_port: Annotated[int, Variable("HTTP_PORT")] = Field(DEFAULT_PORT, ge=0, le=65535)
    """0 takes any free port."""
    host_names: tuple[str, ...] = ()
    """Names by which browsers may call it, without ports; requests under other names are refused, so that no
    other site can make a browser act here under a name of its own. Where empty: on a loopback address
    localhost, 127.0.0.1 and ::1, else any name."""
    http_limits: WebHttpLimitSettings = WebHttpLimitSettings()
    """How much browsers and programs may take."""
    agents: AgentSettings = AgentSettings()
    """How Mesos agents are asked for the files of tasks."""
    terminals: TerminalSettings = TerminalSettings()
    """Terminals in tasks."""
    call_seconds: float = Field(5.0, ge=0.5, le=60.0)
    """Seconds after which a daemon that does not answer counts as unreachable."""
    poll_seconds: float = Field(1.0, ge=0.2, le=60.0)
    """Seconds between two reads of a page that somebody looks at. Browsers share what is read."""
    cache_seconds: float = Field(0.8, ge=0.0, le=60.0)
    """Seconds for which an answer of a daemon is used again."""
    session_hours: float = Field(12.0, gt=0, le=24 * 31)
    """Hours after which a user who logged in has to do so again. Sessions end with the process too."""
    max_watchers: int = Field(1000, ge=1, le=100_000)
    """Event streams that are open at a time; more are refused."""
