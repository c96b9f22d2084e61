"""The adapter that the settings ask for."""

from __future__ import annotations

from peloton.config.settings import LocalMembershipSettings, MembershipSettings
from peloton.membership.interface import Membership
from peloton.membership.local import LocalMembership


def membership(settings: MembershipSettings) -> Membership:
    """Raises ConfigError where the credentials cannot be read, and for what are no servers."""
    if isinstance(settings, LocalMembershipSettings):
        return LocalMembership(settings.directory)
    from peloton.membership.zookeeper import open_membership  # kazoo is for those who use it

    return open_membership(settings)
