"""Choice of the membership adapter by the settings."""

from __future__ import annotations

from peloton.config.membership import LocalMembershipSettings, MembershipSettings
from peloton.membership.interface import Membership
from peloton.membership.local import LocalMembership


def membership(settings: MembershipSettings) -> Membership:
    """Make the adapter. Raises ConfigError for unreadable credentials and invalid addresses."""
    if isinstance(settings, LocalMembershipSettings):
        return LocalMembership(settings.directory)
    from peloton.membership.zookeeper import open_membership  # imports kazoo

    return open_membership(settings)
