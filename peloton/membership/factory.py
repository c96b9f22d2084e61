"""Choice of the membership adapter by the settings."""

from __future__ import annotations

from peloton.config.membership import LocalMembershipSettings, MembershipSettings
from peloton.membership.local import LocalMembership
from peloton.membership.shard_registry import ShardedMembership


def membership(settings: MembershipSettings) -> ShardedMembership:
    """Make the adapter. Raises ConfigError for unreadable credentials and invalid addresses."""
    if isinstance(settings, LocalMembershipSettings):
        return LocalMembership(settings.directory)
    from peloton.membership.zookeeper import open_membership  # imports kazoo

    return open_membership(settings)
