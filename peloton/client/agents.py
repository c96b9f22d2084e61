"""Access to the HTTP servers of Mesos agents, by the files that a client is given."""

from __future__ import annotations

from peloton.client.tls import Tls
from peloton.config.agents import PLAIN, AgentAccess


def agents_by(ca: str | None, auth: str | None) -> AgentAccess:
    """Return how agents are called: by HTTPS with a file of authorities, as the principal of a YAML file.

    Raises InvalidArgument and ConfigError for files that are wrong.
    """
    if not ca and not auth:
        return PLAIN
    tls = None
    if ca:
        tls = Tls(ca=ca).context
        tls()
    if not auth:
        return AgentAccess(tls)
    from peloton.client.auth import read_basic_auth

    given = read_basic_auth(auth)
    return AgentAccess(tls, given.username, given.password)
