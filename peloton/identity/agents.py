"""Access to the HTTP servers of Mesos agents, by the settings."""

from __future__ import annotations

from functools import partial

from peloton.config.agents import PLAIN, AgentAccess
from peloton.config.encryption import AgentSettings
from peloton.config.errors import ConfigError
from peloton.config.private import require_private
from peloton.config.tls import client_context


def agent_access(settings: AgentSettings) -> AgentAccess:
    """Return what the settings say. The authorities are read for each connection. Raises ConfigError."""
    tls = partial(client_context, "agents", settings.ca_file, None, None) if settings.tls else None
    if tls is not None:
        tls()
    if settings.secret_file is None:
        return PLAIN if tls is None else AgentAccess(tls)
    require_private(settings.secret_file, "agents.secret_file")
    try:
        secret = settings.secret_file.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"agents.secret_file: {settings.secret_file}: {error}") from None
    if not secret or "\n" in secret:
        raise ConfigError(f"agents.secret_file: {settings.secret_file}: is not one line with a secret")
    return AgentAccess(tls, settings.principal, secret)
